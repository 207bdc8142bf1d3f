"""Where to train, in which precision, how many runs fit, and how to make a CPU's memory cheap."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

# The kinds of device beside the CPU that `resolve_device` takes. All they share is asked below, through what PyTorch calls
# a device module (`torch.cuda` is one), so that the simulated device of the tests takes the very branches a GPU takes.
ACCELERATORS = ["cuda"]


def is_accelerator(device: torch.device) -> bool:
    """Whether a device computes beside the host, which queues work for it and should never wait in between."""
    return device.type != "cpu"


def module_of(device: torch.device | str) -> Any:
    """PyTorch's module for an accelerator, such as `torch.cuda`."""
    return torch.get_device_module(device)


def upload(tensor: Tensor, device: torch.device) -> Tensor:
    """A host tensor on the device, without waiting for it: an accelerator copies from pinned memory when its turn comes."""
    return tensor.pin_memory().to(device, non_blocking=True) if is_accelerator(device) else tensor


def release_memory(device: torch.device) -> None:
    """Give back what PyTorch holds of an accelerator's memory but does not use."""
    if is_accelerator(device):
        module_of(device).empty_cache()


def resolve_device(device: str | torch.device = "auto") -> torch.device:
    """The device to train on: "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:N".

    Raises:
        ValueError: for another name, or a GPU where there is none.
    """
    name = check_device_name(str(device))
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, index = name.partition(":")
    if kind in ACCELERATORS and not module_of(kind).is_available():
        raise ValueError(f"device {name!r} was asked for, but PyTorch finds no GPU here; use auto or cpu.")
    if index and int(index) >= module_of(kind).device_count():
        raise ValueError(f"device {name!r} was asked for, but there are {module_of(kind).device_count()} GPUs here.")
    return torch.device(name)


def check_device_name(name: str) -> str:
    """The name, if it is one that `resolve_device` may take on some machine.

    Raises:
        ValueError: for another.
    """
    kind, colon, index = name.partition(":")
    if name not in ("auto", "cpu") and not (kind in ACCELERATORS and (not colon or index.isdecimal())):
        raise ValueError(f"device must be auto, cpu or cuda, got {name!r}.")
    return name


def check_precision_name(precision: str) -> str:
    """The name, if it is a precision's.

    Raises:
        ValueError: for another.
    """
    if precision not in ("auto", "float32", "bfloat16"):
        raise ValueError(f"precision must be auto, float32 or bfloat16, got {precision!r}.")
    return precision


def resolve_precision(precision: str, device: torch.device) -> str:
    """The precision of convolutions: "float32", "bfloat16", or for "auto" the one that suits the device.

    That is bfloat16 on a GPU with such matrix units (compute capability 8.0 on), and float32 on every CPU: rows of one
    experiment are then of one precision, and the trunk for CPUs, which computes in float32, is the faster one.

    Raises:
        ValueError: for another name.
    """
    if check_precision_name(precision) != "auto":
        return precision
    if is_accelerator(device):
        return "bfloat16" if module_of(device).get_device_capability(device) >= (8, 0) else "float32"
    return "float32"


def reproducible(device: torch.device) -> AbstractContextManager:
    """Convolutions that give the same bits every time, in the precision asked for (cuDNN would round to TF32)."""
    if not is_accelerator(device):
        return nullcontext()
    return torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)


def free_bytes(device: torch.device) -> int:
    """Memory that a GPU has left for tensors: what its driver calls free, and what PyTorch holds but does not use."""
    module = module_of(device)
    free, _ = module.mem_get_info(device)
    return free + module.memory_reserved(device) - module.memory_allocated(device)


def tune_cpu_memory() -> None:
    """Make memory cheap on Linux: glibc keeps what is freed, and large tensors get large pages.

    Otherwise every step pays for page faults and address look-ups. PyTorch asks once whether pages are to be large: a
    process that had tensors before this call keeps small ones.
    """
    if sys.platform.startswith("linux"):
        os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(-4, 0)  # M_MMAP_MAX: take large blocks from the heap ...
            mallopt(-1, -1)  # M_TRIM_THRESHOLD: ... and do not give its top back
