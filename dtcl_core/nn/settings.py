"""Options, and settings that may change as training goes on: numbers, tensors (learned or not) and schedules, read at each call.

A compiled module reads numbers from tensors and asks schedules outside of its graph: a new value does not compile it anew.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..checks import checked_choice, checked_number, checked_numbers
from ..discriminator import FEATURES
from .inputs import outside_vmap

Setting = float | Tensor | Callable[[], float | Tensor]  # the last is a schedule, or a module that gives a tensor
MAY_BE_ZERO = ("tau_beta", "lambda_")
TUNABLE = {name: partial(checked_number, above=name not in MAY_BE_ZERO) for name in ("tau", "tau_alpha", "tau_min", *MAY_BE_ZERO)}
_by_number: weakref.WeakValueDictionary[int, Tunable] = weakref.WeakValueDictionary()  # what a compiled graph looks up


def _discriminator(name: str, given: Any) -> Any:
    if given is not None and (isinstance(given, type) or not callable(getattr(given, "predict_proba", None))):
        raise ValueError(f"{name} must be an object with predict_proba(z), got {given!r}.")
    return given


SWITCH, COUNT = partial(checked_choice, accepted=(True, False)), partial(checked_number, low=1, integer=True)
OPTIONS: dict[str, Callable[[str, Any], Any]] = {  # of any module here, and how a value is checked when it is set, at any time
    **dict.fromkeys(("symmetric", "gather", "validate", "normalize", "unbiased", "packed"), SWITCH),
    **dict.fromkeys(("size", "dim", "hidden", "steps"), COUNT),
    "chunk_size": lambda name, value: None if value is None else COUNT(name, value),
    "reduction": partial(checked_choice, accepted=("mean", "none")),
    "negatives": partial(checked_choice, accepted=("other_view", "both_views")),
    "weighting": partial(checked_choice, accepted=("negatives", "pairs")),
    "schedule": partial(checked_choice, accepted=("constant", "ganin")),
    "features": partial(checked_choice, accepted=FEATURES),
    "num_domains": partial(checked_number, low=2, integer=True),
    "seed": partial(checked_number, high=2**63 - 1, integer=True),
    "calibrate": partial(checked_number, high=0.9),
    **dict.fromkeys(("l2", "low", "high"), partial(checked_number, above=True)),
    "discriminator": _discriminator,
    "bandwidths": partial(checked_numbers, above=True),
}


class Described(nn.Module):
    """A module that prints its attributes named in `settings`, and checks those of `OPTIONS`."""

    settings: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()  # settings that size a tensor

    def __setattr__(self, name: str, value: Any) -> None:
        if name in OPTIONS and self.has_setting(name):
            value = OPTIONS[name](name, value)
            if name in self.fixed and self.__dict__.get(name, value) != value:
                raise ValueError(f"{name} cannot change: make another {type(self).__name__}.")
            if not isinstance(value, nn.Module):
                self._modules.pop(name, None)  # `nn.Module` would refuse it in the place of a module
        super().__setattr__(name, value)

    @classmethod
    def has_setting(cls, name: str) -> bool:
        """Whether the class, or one that it extends, names it in `settings`."""
        return any(name in getattr(kind, "settings", ()) for kind in cls.__mro__)

    def extra_repr(self) -> str:
        """The settings, as `print(module)` shows them."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self.settings if name not in self._modules)


class Tunable(Described):
    """A module with settings of `TUNABLE`. A value of any kind may replace any other, a number an `nn.Parameter` for example.

    A compiled graph would keep the numbers of its first call. So numbers are kept as tensors, which the graph reads; a schedule is called by
    the operator `dtcl::asked`, which finds its module by number.
    """

    _kept: dict[str, Tensor | None]  # what a compiled graph reads: a number as a tensor; None for a schedule
    _number: Tensor  # identifies the module; a tensor, so that a compiled graph serves several modules

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.__setstate__({"_kept": {}})

    def __setstate__(self, state: dict[str, Any]) -> None:
        _by_number[id(self)] = self  # a copy is another module
        super().__setstate__(state | {"_number": torch.tensor(id(self), device="cpu"), "_kept": dict(state["_kept"])})

    def __setattr__(self, name: str, value: Any) -> None:
        if name in TUNABLE:
            if not self.has_setting(name):
                own = ", ".join(known for known in TUNABLE if hasattr(self, known)) or "none"
                raise AttributeError(
                    f"{type(self).__name__} has no {name}; it has {own}. (A subclass names its own in `settings`.)"
                )
            given = isinstance(value, Tensor) or (callable(value) and not isinstance(value, type))
            value = value if given else TUNABLE[name](name, value)
            for kind in (self._parameters, self._buffers, self._modules, self._kept):
                kind.pop(name, None)
            if not isinstance(value, (Tensor, nn.Module)):
                self._kept[name] = None if callable(value) else torch.tensor(value, dtype=torch.float64, device="cpu")
        super().__setattr__(name, value)

    def now(self, name: str, like: Tensor, validate: bool = True) -> float | Tensor:
        """The present value of a setting.

        Args:
            name: one of `TUNABLE`.
            like: a tensor is returned in its dtype and on its device. All of its dimensions but the last two are runs.
            validate: whether a tensor is checked, which reads from the device; else, and if compiled, a refused value is NaN.

        Raises:
            ValueError: for a value that is not positive, or below zero where zero is accepted, or for a tensor that has neither one value
                nor one a run.
        """
        compiling = torch.compiler.is_compiling()
        if compiling and name in self._kept:
            kept = self._kept[name]
            return _asked(like.detach(), self._number, name) if kept is None else kept.to(like)
        value = getattr(self, name)
        value = value if isinstance(value, Tensor) or not callable(value) else value()
        if not isinstance(value, Tensor):
            return value if compiling else TUNABLE[name](name, value)
        accepted = (value >= 0 if name in MAY_BE_ZERO else value > 0) & value.isfinite()
        if not validate or compiling:
            value = value.where(accepted, torch.nan)
        elif not outside_vmap(bool, accepted.all()):
            bound = ">= 0" if name in MAY_BE_ZERO else "> 0 (`LearnedTemperature` cannot be other)"
            raise ValueError(f"{name} must be {bound}, got {value.detach().flatten().tolist()}.")
        if value.numel() != 1:
            runs = tuple(like.shape[:-2])
            if value.dim() > len(runs) or any(n not in (1, r) for n, r in zip(reversed(value.shape), reversed(runs))):
                one_a_run = f" or one a run: {runs}" if runs else ""
                raise ValueError(f"{name} has shape {tuple(value.shape)}, but it must be one number{one_a_run}.")
        return (value.reshape(()) if value.numel() == 1 else value).to(like)


@torch.library.custom_op("dtcl::asked", mutates_args=(), schema="(Tensor like, Tensor number, str name) -> Tensor")
def _asked(like: Tensor, number: Tensor, name: str) -> Tensor:
    """The number that a schedule of a compiled module returns at this call."""
    value = _by_number[int(number)].now(name, like)
    if isinstance(value, Tensor):  # its gradient would be lost
        raise ValueError(f"a compiled module asks the schedule of {name} for a number; what gives a tensor must be an nn.Module.")
    return like.new_tensor(value)


@_asked.register_fake
def _(like: Tensor, number: Tensor, name: str) -> Tensor:
    return like.new_empty(())


class LearnedTemperature(Described):
    """A learned temperature that stays between two bounds, whatever the optimiser does. It cannot reach zero.

    It is ``low * (high / low) ** sigmoid(position)``, and the number `position` is the parameter. Give it to a loss in the
    place of a number: ``InfoNCELoss(tau=LearnedTemperature(0.1))``. The parameter is then among ``loss.parameters()`` and in
    ``loss.state_dict()``, as ``tau.position``; ``loss.tau()`` is the temperature.

    Args:
        start: the first temperature, between the bounds.
        low: lower bound, > 0.
        high: upper bound, above `low`.

    Raises:
        ValueError: unless 0 < low < start < high.

    >>> round(LearnedTemperature(0.2)().item(), 4)
    0.2
    """

    settings = ("low", "high")

    def __init__(self, start: float = 0.1, low: float = 0.01, high: float = 1.0):
        super().__init__()
        self.low, self.high = low, high
        checked_number("high", high, self.low, above=True)
        if not self.low < checked_number("start", start) < self.high:
            raise ValueError(f"start must lie between low and high, {self.low:g} and {self.high:g}, got {start!r}.")
        share = math.log(start / self.low) / math.log(self.high / self.low)
        self.position = nn.Parameter(torch.tensor(math.log(share / (1 - share))))

    def get_extra_state(self) -> Tensor:
        """The bounds, float64 [2], which are saved with the parameter."""
        return torch.tensor([self.low, self.high], dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        """Take the bounds over that were saved; ValueError if they are none."""
        low, high = state.tolist()
        checked_number("low", low, above=True)
        self.low, self.high = low, checked_number("high", high, low, above=True)

    def forward(self) -> Tensor:
        """The temperature, a 0-d tensor."""
        return self.low * (self.high / self.low) ** self.position.sigmoid()
