"""A training step recorded as a CUDA graph: the host then queues one item a step, where it would queue a thousand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..discriminator import Fitted
from ..logistic import LogisticModel


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors of nested sequences, in order."""
    if isinstance(value, Tensor):
        return [value]
    return [] if value is None else [tensor for part in value for tensor in tensors_in(part)]


def copy_of(value: Any) -> Any:
    """Nested sequences with copies of their tensors."""
    if value is None or isinstance(value, Tensor):
        return None if value is None else value.clone()
    parts = [copy_of(part) for part in value]
    return type(value)(*parts) if hasattr(value, "_fields") else parts


class StepGraph:
    """A step of a stack, recorded with its inputs, discriminators and learning rates in fixed places.

    Args:
        step: from inputs and discriminators to the losses [R]; it also updates the networks. It must have run before.
        inputs: nested sequences of tensors, of the shapes that every step has.
        posteriors: the discriminators of an epoch, by method.
        optimizers: fused Adam, whose learning rates are set before each epoch.
    """

    def __init__(
        self,
        step: Callable[[Any, dict[str, Fitted]], Tensor],
        inputs: Any,
        posteriors: dict[str, Fitted],
        optimizers: Sequence[torch.optim.Optimizer],
    ):
        self.inputs = copy_of(inputs)
        self.places = tensors_in(self.inputs)
        self.posteriors = {
            name: replace(fitted, model=LogisticModel(fitted.model.weight.clone(), fitted.model.bias.clone()))
            for name, fitted in posteriors.items()
        }
        self.settings = [optimizer.param_groups[0] for optimizer in optimizers]
        self.rates = [torch.tensor(group["lr"], dtype=torch.float32, device=self.places[0].device) for group in self.settings]
        before = [(group["lr"], group["capturable"]) for group in self.settings]
        self.graph = torch.cuda.CUDAGraph()
        device = self.places[0].device
        try:
            for group, rate in zip(self.settings, self.rates):
                group.update(lr=rate, capturable=True)
            with torch.cuda.device(device), torch.cuda.graph(self.graph, stream=torch.cuda.Stream(device)):
                self.losses = step(self.inputs, self.posteriors)
        finally:
            for group, (rate, capturable) in zip(self.settings, before):
                group.update(lr=rate, capturable=capturable)

    def begin(self, posteriors: dict[str, Fitted]) -> None:
        """Start an epoch: take over its discriminators and learning rates."""
        for name, fitted in posteriors.items():
            self.posteriors[name].model.weight.copy_(fitted.model.weight)
            self.posteriors[name].model.bias.copy_(fitted.model.bias)
        for rate, group in zip(self.rates, self.settings):
            rate.fill_(group["lr"])

    def __call__(self, inputs: Any) -> Tensor:
        """Take a step with these inputs; return the losses [R], a tensor that the next step overwrites."""
        torch._foreach_copy_(self.places, tensors_in(inputs))
        self.graph.replay()
        return self.losses
