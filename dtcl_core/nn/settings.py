"""Settings that may change as training goes on: numbers, tensors (learned or not) and modules, read at each call.

To schedule a setting, set it: ``loss_fn.tau = 0.2``. A compiled module reads numbers from tensors, so that a new number does
not compile it anew.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from ..checks import checked_number, shown
from .inputs import outside_vmap

Setting = float | Tensor | nn.Module  # a module gives a tensor when it is called without arguments
NAMES = ("tau", "tau_alpha", "tau_beta", "tau_min", "lambda_")
MAY_BE_ZERO = ("tau_beta", "lambda_")


def setting(name: str, value: Any) -> Any:
    """The value of a setting of `NAMES`: a number, which is checked, a tensor or a module; ValueError for anything else."""
    if isinstance(value, (Tensor, nn.Module)):
        return value
    if callable(value):
        accepted = "a number, a tensor or an nn.Module such as LearnedTemperature"
        raise ValueError(f"{name} must be {accepted}, got {shown(value)}; to schedule it, set loss_fn.{name} = value.")
    return float(checked_number(name, value, 0.0, above=name not in MAY_BE_ZERO))


class Described(nn.Module):
    """A module that prints its attributes named in `settings`."""

    settings: tuple[str, ...] = ()

    def extra_repr(self) -> str:
        """The settings, as `print(module)` shows them."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self.settings if name not in self._modules)


class Tunable(Described):
    """A module with settings of `NAMES`. A value of any kind may replace any other, a number an `nn.Parameter` for example."""

    _kept: dict[str, Tensor]  # the numbers among the settings, as a compiled graph reads them

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._kept = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if name in NAMES:
            value = setting(name, value)
            for kind in (self._parameters, self._buffers, self._modules, self._kept):
                kind.pop(name, None)
            if isinstance(value, float):
                self._kept[name] = torch.tensor(value, dtype=torch.float64)
        super().__setattr__(name, value)

    def now(self, name: str, like: Tensor, validate: bool = True) -> float | Tensor:
        """The present value of a setting.

        Args:
            name: one of `NAMES`.
            like: a tensor is returned in its dtype and on its device.
            validate: whether a tensor is checked, which reads from the device; a compiled module omits this.

        Raises:
            ValueError: for a value that is not positive, or below zero where zero is accepted.
        """
        compiling = torch.compiler.is_compiling()
        if compiling and name in self._kept:
            return self._kept[name].to(like)
        value = getattr(self, name)
        value = value() if isinstance(value, nn.Module) else value
        if not isinstance(value, Tensor):
            return value if compiling else setting(name, value)
        if validate and not compiling:
            accepted = (value >= 0 if name in MAY_BE_ZERO else value > 0) & value.isfinite()
            if not outside_vmap(bool, accepted.all()):
                bound = ">= 0" if name in MAY_BE_ZERO else "> 0 (`LearnedTemperature` cannot be other)"
                raise ValueError(f"{name} must be {bound}, got {value.detach().flatten().tolist()}.")
        return value.to(like)


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
        ValueError: for bounds or a start that are not in this order.

    >>> round(LearnedTemperature(0.2)().item(), 4)
    0.2
    """

    settings = ("low", "high")

    def __init__(self, start: float = 0.1, low: float = 0.01, high: float = 1.0):
        super().__init__()
        self.low = float(checked_number("low", low, 0.0, above=True))
        self.high = float(checked_number("high", high, self.low, above=True))
        if not self.low < checked_number("start", start) < self.high:
            raise ValueError(f"start must lie between low and high, {self.low:g} and {self.high:g}, got {start!r}.")
        share = math.log(start / self.low) / math.log(self.high / self.low)
        self.position = nn.Parameter(torch.tensor(math.log(share / (1 - share))))

    def get_extra_state(self) -> dict[str, float]:
        """The bounds, which are saved with the parameter."""
        return {"low": self.low, "high": self.high}

    def set_extra_state(self, state: dict[str, float]) -> None:
        """Take the bounds over that were saved."""
        self.low, self.high = state["low"], state["high"]

    def forward(self) -> Tensor:
        """The temperature, a 0-d tensor."""
        return self.low * (self.high / self.low) ** self.position.sigmoid()
