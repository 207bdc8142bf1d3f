"""A stack's state on disk, checked for damage (`pretrain.train` writes it and resumes from it): a SHA-256 digest and what `torch.save` wrote."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..files import write_whole

DIGEST_BYTES = 32


def mapped(function: Callable[[Tensor], Tensor], tree: Any) -> Any:
    """A nested dict or list with a function applied to every tensor."""
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, dict):
        return {key: mapped(function, value) for key, value in tree.items()}
    return [mapped(function, value) for value in tree] if isinstance(tree, list) else tree


def copied(tree: Any) -> Any:
    """A nested dict or list with every tensor copied."""
    return mapped(lambda tensor: tensor.detach().clone(), tree)


def placed(tree: Any, device: torch.device) -> Any:
    """A nested dict or list with every tensor on a device."""
    return mapped(lambda tensor: tensor.to(device), tree)


def write_checkpoint(state: dict[str, Any], path: Path) -> None:
    """Write a stack's state to `path`, whole or not at all; OSError as from `write_whole`."""
    memory = io.BytesIO()
    torch.save(state, memory)
    content = memory.getvalue()
    write_whole(hashlib.sha256(content).digest() + content, path)


def read_checkpoint(path: Path, device: torch.device) -> dict[str, Any]:
    """A state that `write_checkpoint` wrote. No code in the file is run.

    Raises:
        ValueError: if the file is not as it was written.
        torch.OutOfMemoryError: if the device has no room for it.
    """
    whole = path.read_bytes()
    content = whole[DIGEST_BYTES:]
    if hashlib.sha256(content).digest() != whole[:DIGEST_BYTES]:
        raise ValueError("it is not as it was written")
    try:
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except (torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:  # of any kind, with a message of pages
        raise ValueError(f"it holds more than tensors and plain values ({type(error).__name__})") from None
    if not isinstance(state, dict) or not isinstance(state.get("losses"), list):
        raise ValueError("it holds no state of a stack")
    if state.get("epoch") != len(state["losses"]):
        raise ValueError(f"it says epoch {state.get('epoch')!r} and has the losses of {len(state['losses'])}")
    return placed(state, device)
