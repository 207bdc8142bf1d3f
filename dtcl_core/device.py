"""Where to train, and how to keep a CPU's memory warm."""

from __future__ import annotations

import ctypes
import sys

import torch


def resolve_device(device: str | torch.device = "auto") -> torch.device:
    """The device to train on: "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:N".

    Raises:
        ValueError: for another name, or a GPU where there is none.
    """
    name = str(device)
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, colon, index = name.partition(":")
    if name != "cpu" and not (kind == "cuda" and (not colon or index.isdigit())):
        raise ValueError(f"device must be auto, cpu or cuda, got {name!r}.")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {name!r} was asked for, but PyTorch finds no GPU here; use auto or cpu.")
    if index and int(index) >= torch.cuda.device_count():
        raise ValueError(f"device {name!r} was asked for, but there are {torch.cuda.device_count()} GPUs here.")
    return torch.device(name)


def keep_freed_memory() -> None:
    """Let glibc keep freed blocks: a fresh 50 MB block costs six times as much (page faults) as one used before."""
    if sys.platform.startswith("linux"):
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(-4, 0)  # M_MMAP_MAX: take large blocks from the heap ...
            mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: ... and do not give its top back
