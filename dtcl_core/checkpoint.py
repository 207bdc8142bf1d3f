"""A stack's state on disk: written whole or not at all, and read without executing anything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


def copied(tree: Any) -> Any:
    """A nested dict or list with every tensor copied."""
    if isinstance(tree, Tensor):
        return tree.detach().clone()
    if isinstance(tree, dict):
        return {key: copied(value) for key, value in tree.items()}
    return [copied(value) for value in tree] if isinstance(tree, list) else tree


def write_checkpoint(state: dict[str, Any], path: Path) -> None:
    """Write a stack's state to `path`, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    torch.save(state, temporary)
    os.replace(temporary, path)


def read_checkpoint(path: Path, device: torch.device) -> dict[str, Any]:
    """A state that `write_checkpoint` wrote; only tensors and plain values are read, no code is run."""
    return torch.load(path, map_location=device, weights_only=True)
