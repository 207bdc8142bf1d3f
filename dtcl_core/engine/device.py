"""Choice of device and precision, a GPU's free memory, and faster memory on a CPU."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

# Devices besides the CPU that `resolve_device` accepts. The functions below use only PyTorch's device module (such as
# `torch.cuda`), so that the simulated device of the tests takes the same branches as a GPU.
ACCELERATORS = ["cuda"]


def is_accelerator(device: torch.device) -> bool:
    """Whether a device is not the CPU. The host queues work for it and should not wait for results in between."""
    return device.type != "cpu"


def module_of(device: torch.device | str) -> Any:
    """PyTorch's module for an accelerator, such as `torch.cuda`."""
    return torch.get_device_module(device)


def upload(tensor: Tensor, device: torch.device) -> Tensor:
    """A host tensor on the device: on a CPU itself; an accelerator copies from pinned memory, and the host does not wait."""
    return tensor.pin_memory().to(device, non_blocking=True) if is_accelerator(device) else tensor


def release_memory(device: torch.device) -> None:
    """Return the accelerator memory that PyTorch holds but does not use."""
    if is_accelerator(device):
        module_of(device).empty_cache()


def resolve_device(device: str | torch.device = "auto") -> torch.device:
    """The device named "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:N"; raises ValueError for other names and absent GPUs."""
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
    """Return a name that `resolve_device` may accept on some machine; raise ValueError for any other."""
    kind, colon, index = name.partition(":")
    if name not in ("auto", "cpu") and not (kind in ACCELERATORS and (not colon or index.isdecimal())):
        raise ValueError(f"device must be auto, cpu or cuda, got {name!r}.")
    return name


def check_precision_name(precision: str) -> str:
    """Return the name of a precision; raise ValueError for any other."""
    if precision not in ("auto", "float32", "bfloat16"):
        raise ValueError(f"precision must be auto, float32 or bfloat16, got {precision!r}.")
    return precision


def resolve_precision(precision: str) -> str:
    """The precision of convolutions, "float32" or "bfloat16"; for "auto" float32, in which all rows can be compared and our own code computes.

    Raises ValueError for another name.
    """
    return "float32" if check_precision_name(precision) == "auto" else precision


def reproducible(device: torch.device) -> AbstractContextManager:
    """Make convolutions deterministic in a `with` block, in the precision asked for (cuDNN would round to TF32)."""
    if not is_accelerator(device):
        return nullcontext()
    return torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)


def free_bytes(device: torch.device) -> int:
    """GPU memory left for tensors, in bytes: what the driver calls free, plus what PyTorch holds but does not use."""
    module = module_of(device)
    free, _ = module.mem_get_info(device)
    return free + module.memory_reserved(device) - module.memory_allocated(device)


def tune_cpu_memory() -> None:
    """Make memory faster on Linux, for the whole process: glibc keeps freed memory, and large tensors get large pages.

    This saves page faults and address look-ups in every step. It must run before the first tensor: PyTorch asks for large pages once.
    """
    if sys.platform.startswith("linux"):
        os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(-4, 0)  # M_MMAP_MAX: take large blocks from the heap ...
            mallopt(-1, -1)  # M_TRIM_THRESHOLD: ... and do not give its top back
