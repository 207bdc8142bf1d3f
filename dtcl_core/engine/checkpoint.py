"""A stack's state on disk, checked for damage (`pretrain.train` writes it and resumes from it): a SHA-256 digest and what `torch.save` wrote."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..files import write_whole

DIGEST_BYTES = 32


def copied(tree: Any, device: torch.device | None = None) -> Any:
    """A nested dict or list with every tensor copied, to a device if one is named."""
    if isinstance(tree, Tensor):
        return tree.detach().to(device or tree.device, copy=True)
    if isinstance(tree, dict):
        return {key: copied(value, device) for key, value in tree.items()}
    return [copied(value, device) for value in tree] if isinstance(tree, list) else tree


def write_checkpoint(state: dict[str, Any], path: Path) -> None:
    """Write a stack's state to `path`, whole or not at all; OSError as from `write_whole`."""
    memory = io.BytesIO()
    torch.save(state, memory)
    content = memory.getvalue()
    write_whole(hashlib.sha256(content).digest() + content, path)


def read_checkpoint(path: Path, device: torch.device) -> dict[str, Any]:
    """A state that `write_checkpoint` wrote. No code in the file is run.

    Raises:
        ValueError: if the file is not as it was written, or holds no state of a stack.
        OSError: if it cannot be read. MemoryError, torch.OutOfMemoryError: if the host or the device has no room for it.
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
    return copied(state, device)
