"""A device that is not the CPU, for machines without one: it computes on the CPU and is as strict as a GPU, or stricter.

A tensor on it wraps one on the CPU, and every operator that PyTorch dispatches passes through `Simulation`. So forward,
backward and optimisers run as they are, with true numbers, and no branch of the library is stubbed. What a GPU would refuse or
pay for raises: tensors of two devices in one operator (`MixedDevices`), and whatever makes the host wait for the device, be it
`.item()`, a copy from memory that is not pinned, or an operator whose result decides a shape (`HostWait`). The memory that is
held is counted. Without values the wrapped tensors are on PyTorch's `meta` device: nothing is computed, and the memory of a stack
of any size is known on a laptop.

It rests on PyTorch's Python backends, which are experimental: `register` says why where they are not there.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar, Self
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

from dtcl_core.engine import device as devices

KIND = "simulated"
MEMORY = 80 * 2**30  # bytes that the device says it has
BLOCK = 512  # bytes: PyTorch's allocator for GPUs rounds up to it
# Operators that make the host wait, because their result is read or decides a shape.
WAITING = {
    "_local_scalar_dense", "nonzero", "masked_select", "equal", "bincount", "_unique", "_unique2", "unique_dim",
    "unique_consecutive", "_linalg_check_errors",
}  # fmt: skip
COPIES = {"_to_copy", "copy_"}


class Unavailable(RuntimeError):
    """This PyTorch cannot simulate a device; the message says why."""


class HostWait(RuntimeError):
    """The host would wait for the device."""


class MixedDevices(RuntimeError):
    """An operator was given tensors of two devices."""


class Allocation:
    """A piece of the device's memory; it is free when the last tensor on it is gone."""

    def __init__(self, simulation: Simulation, size: int):
        self.simulation, self.size = simulation, -(-size // BLOCK) * BLOCK
        simulation.held += self.size
        simulation.peak = max(simulation.peak, simulation.held)

    def __del__(self) -> None:
        self.simulation.held -= self.size


class SimulatedTensor(Tensor):
    """A tensor on the simulated device, around one on the CPU (or on `meta`)."""

    inner: Tensor
    allocation: Allocation

    @staticmethod
    def __new__(cls, inner: Tensor, allocation: Allocation) -> Self:
        out = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), storage_offset=inner.storage_offset(),
            dtype=inner.dtype, device=torch.device(KIND, 0),
        )  # fmt: skip
        out.inner, out.allocation = inner, allocation
        return out

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, *_: Any) -> Any:
        raise RuntimeError(f"{func} was given a simulated tensor outside its simulation.")

    def __repr__(self) -> str:
        return f"SimulatedTensor({tuple(self.shape)}, {self.dtype})"

    def tolist(self) -> Any:  # PyTorch's refuses subclasses
        return self.cpu().tolist()

    def __reduce_ex__(self, protocol: Any) -> Any:  # as `torch.save` writes a tensor of any device: by its values
        return self.detach().cpu().__reduce_ex__(protocol)


class _Backend(getattr(backend_registration, "_DummyBackendModule", object)):  # older versions of PyTorch have none
    """What `torch.cuda` is to CUDA: what a device can do and has room for, as much as the library asks."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def is_autocast_enabled(self) -> bool:
        return False

    def set_autocast_enabled(self, enabled: bool) -> None:
        pass

    def get_autocast_dtype(self) -> torch.dtype:
        return torch.bfloat16

    def set_autocast_dtype(self, dtype: torch.dtype) -> None:
        pass

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        return (9, 0)  # an H100's

    def get_device_name(self, device: Any = None) -> str:
        return "a simulated device"

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        return MEMORY - self.memory_allocated(), MEMORY

    def memory_reserved(self, device: Any = None) -> int:
        return self.memory_allocated()

    def memory_allocated(self, device: Any = None) -> int:
        return sum(simulation.held for simulation in Simulation.entered)

    def empty_cache(self) -> None:
        pass

    def synchronize(self, device: Any = None) -> None:
        pass


@cache
def _registration() -> str:
    """Register the device with PyTorch, once a process; why that cannot be done, or nothing."""
    if torch.cuda.is_available():
        return "PyTorch knows one accelerator a process, and here that is a GPU"
    register = getattr(backend_registration, "_setup_privateuseone_for_python_backend", None)
    if register is None:
        return f"PyTorch {torch.__version__} has no backends in Python"
    try:
        register(KIND, backend_module=_Backend())
    except (RuntimeError, AttributeError, TypeError, ImportError) as error:
        return f"PyTorch {torch.__version__} took no backend in Python ({error})"
    return ""


def register() -> None:
    """Make the device known to PyTorch, before the first backward pass of the process.

    Raises:
        Unavailable: where that cannot be done.
    """
    reason = _registration()
    if reason:
        raise Unavailable(reason)


def place_of(frame: Any) -> str:
    """The function of a frame of `dtcl_core`, such as "pretrain.Stack.step"; empty for other code."""
    module = frame.f_globals.get("__name__", "")
    return f"{module.removeprefix('dtcl_core.')}.{frame.f_code.co_qualname}" if module.startswith("dtcl_core") else ""


class Simulation(TorchDispatchMode):
    """The device while the `with` block runs; tensors of it are of no use afterwards.

    Args:
        values: whether it computes; without, shapes and memory are all there is.

    Attributes:
        device: its name for PyTorch.
        convolved: in what precisions convolutions were computed.
        held, peak: bytes held now, and at most so far.
        waits: how often the host waited where it was allowed to, by (place, why).
    """

    entered: ClassVar[list[Simulation]] = []

    def __init__(self, values: bool = True):
        register()
        super().__init__()
        self.device, self.inner = torch.device(KIND, 0), torch.device("cpu" if values else "meta")
        self.convolved: set[torch.dtype] = set()
        self.held = self.peak = 0
        self.waits: Counter[tuple[str, str]] = Counter()
        self._allowed: tuple[str, ...] = ()
        self._allocations: WeakValueDictionary[int, Allocation] = WeakValueDictionary()

    def __enter__(self) -> Self:
        devices.ACCELERATORS.append(KIND)
        Simulation.entered.append(self)
        # So that `torch.tensor(values, device=...)` makes its tensor on the host and copies it, as it does for a GPU.
        torch._C._set_only_lift_cpu_tensors(True)
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        torch._C._set_only_lift_cpu_tensors(False)
        Simulation.entered.remove(self)
        devices.ACCELERATORS.remove(KIND)

    @contextmanager
    def waiting_in(self, *places: str) -> Iterator[None]:
        """Let the host wait within these functions, such as "pretrain.Stack.__init__", and what they call; nowhere else."""
        before, self._allowed = self._allowed, places
        try:
            yield
        finally:
            self._allowed = before

    def reset(self) -> None:
        """Count from here."""
        self.convolved.clear()
        self.waits.clear()
        self.peak = self.held

    def _wait(self, why: str) -> None:
        frame, places = sys._getframe(), []
        while frame is not None:
            places += [place_of(frame)] if place_of(frame) else []
            frame = frame.f_back
        for allowed in self._allowed:
            if allowed in places:
                self.waits[allowed, why] += 1
                return
        raise HostWait(f"{' < '.join(places[:3]) or 'a backward pass, or code outside the library'} waits: {why}.")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = func._schema.name.removeprefix("aten::")
        tensors = _tensors((args, tuple(kwargs.values())))
        inputs = [t for t in tensors if isinstance(t, SimulatedTensor)]
        target = None if kwargs.get("device") is None else torch.device(kwargs["device"])
        made_here = target is not None and target.type == KIND
        if name == "_pin_memory":
            pinned = args[0].clone()
            pinned.is_page_locked = True
            return pinned
        if not inputs and not made_here:
            return func(*args, **kwargs)
        if name in COPIES:
            self._check_copy(args, kwargs, target)
        elif inputs:
            self._check_waiting(name, args)
            self._check_devices(func, name, tensors)
        wrappers = {id(t.inner): t for t in inputs}
        if made_here:
            kwargs["device"] = self.inner

        def real(tensor: Tensor) -> Tensor:
            return tensor.inner if isinstance(tensor, SimulatedTensor) else tensor.to(self.inner)

        out = func(*_mapped(real, args), **{key: _mapped(real, value) for key, value in kwargs.items()})
        if target is not None and not made_here:
            return out  # a copy to the host
        out = _mapped(lambda t: wrappers[id(t)] if id(t) in wrappers else self._wrapped(t), out)
        if name == "convolution":
            self.convolved.add(args[0].dtype)
        return out

    def _wrapped(self, inner: Tensor) -> SimulatedTensor:
        storage = inner.untyped_storage()
        if (allocation := self._allocations.get(storage._cdata)) is None:
            allocation = self._allocations[storage._cdata] = Allocation(self, storage.nbytes())
        return SimulatedTensor(inner, allocation)

    def _check_copy(self, args: Any, kwargs: Any, target: torch.device | None) -> None:
        """Copies between host and device: only one from pinned memory, and not blocking, lets the host go on."""
        source = args[-2 if len(args) > 2 else -1] if len(args) > 1 else args[0]
        to_device = isinstance(args[0], SimulatedTensor) if len(args) > 1 else target is None or target.type == KIND
        unblocked = kwargs.get("non_blocking") or (len(args) > 2 and args[2])
        if isinstance(source, SimulatedTensor):
            if not to_device:
                self._wait("values are copied to the host")
        elif not (unblocked and getattr(source, "is_page_locked", False)):
            self._wait("values are copied from memory that is not pinned")

    def _check_waiting(self, name: str, args: Any) -> None:
        if name in WAITING:
            self._wait(f"{name} is read")
        masks = [t for t in _tensors(args[1:2]) if t.dtype in (torch.bool, torch.uint8)]
        filled = name.startswith("index_put") and isinstance(args[2], Tensor) and args[2].numel() == 1
        if name.startswith("index") and masks and not (filled and len(masks) == 1):
            self._wait("a mask decides a shape")
        if name == "repeat_interleave" and len(args) == 1:
            self._wait("repeats decide a shape")

    def _check_devices(self, func: Any, name: str, tensors: list[Tensor]) -> None:
        """A number from the host may go into an element-wise operator of two; everything else must be on the device."""
        strangers = [t for t in tensors if not isinstance(t, SimulatedTensor)]
        number = torch.Tag.pointwise in func.tags and len(tensors) == 2 and all(t.dim() == 0 for t in strangers)
        if strangers and not number:
            raise MixedDevices(f"{name} was given tensors of the device and of the CPU, {[tuple(t.shape) for t in tensors]}.")


def _tensors(tree: Any) -> list[Tensor]:
    """The tensors in nested tuples and lists."""
    if isinstance(tree, Tensor):
        return [tree]
    return [t for part in tree for t in _tensors(part)] if isinstance(tree, (tuple, list)) else []


def _mapped(function: Callable[[Tensor], Tensor], tree: Any) -> Any:
    """Nested tuples and lists with a function applied to their tensors."""
    if isinstance(tree, Tensor):
        return function(tree)
    return type(tree)(_mapped(function, part) for part in tree) if isinstance(tree, (tuple, list)) else tree
