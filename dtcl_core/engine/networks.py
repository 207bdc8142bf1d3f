"""The networks of a stack and their optimisers: encoders, DANN's domain classifiers, an Adam for each of the two, and memories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..config import Run
from ..encoder import Encoder
from ..methods import ALL_METHODS
from .checkpoint import copied
from .device import is_accelerator
from .trunk import Trunk


def users_of(what: str, runs: Sequence[Run]) -> list[int]:
    """Places of the runs whose methods use an "adversary" (a domain classifier to mislead) or a "memory"."""
    return [place for place, run in enumerate(runs) if what in ALL_METHODS[run.method].uses]


class Networks:
    """The networks of a stack and their optimisers.

    Args:
        runs: the runs of the stack, in its order; they share protocol and projector.
        num_domains, size: number of training domains and of training images.
        dtype: of the convolutions.
        trunk: what computes the encoder's blocks; None for PyTorch's operators.

    Attributes:
        encoder: the encoders of all R runs.
        adversary: weight [A, num_domains, k] and bias [A, num_domains] of the A domain classifiers.
        memory: [M, size, 2], two numbers for each training image, of the M runs whose methods use a memory.
        optimizers: Adam for the encoders, and another for the classifiers if there are any.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        num_domains: int,
        size: int,
        device: torch.device,
        dtype: torch.dtype,
        trunk: Trunk | None,
    ):
        first = runs[0]
        self.protocol = p = first.protocol
        self.encoder = Encoder([r.seed for r in runs], p, first.projector, first.projector_dim).to(device)
        self.encoder.dtype, self.encoder.trunk = dtype, trunk
        self.optimizers = [torch.optim.Adam(self.encoder.parameters(), lr=p.learning_rate, fused=True)]
        count, width = len(users_of("adversary", runs)), first.projector_dim or p.embedding_dim
        zeros = [torch.zeros(count, num_domains, width), torch.zeros(count, num_domains)]
        self.adversary = nn.ParameterList(zeros).to(device)
        if count:
            self.optimizers.append(torch.optim.Adam(self.adversary.parameters(), lr=p.dann_learning_rate, fused=True))
        self.memory = torch.zeros(len(users_of("memory", runs)), size, 2, device=device)
        for place, run in enumerate(users_of("memory", runs)):
            self.memory[place, :, 0] = runs[run].tau_alpha

    def set_rates(self, epoch: int) -> None:
        """Set the learning rates of an epoch; both decay by the same factor."""
        p = self.protocol
        for optimizer, rate in zip(self.optimizers, (p.learning_rate, p.dann_learning_rate)):
            decayed = rate * p.lr_gamma ** (epoch // p.lr_step)
            if is_accelerator(self.memory.device):  # a recorded step has it in float32
                decayed = float(np.float32(decayed))
            optimizer.param_groups[0]["lr"] = decayed

    def update(self, losses: Tensor) -> None:
        """Take one optimiser step of every run on its own loss [R]."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        losses.sum().backward()
        for optimizer in self.optimizers:
            optimizer.step()

    def state(self) -> dict[str, Any]:
        """Copies of everything that training changes."""
        return {
            "encoder": copied(self.encoder.state_dict()),
            "adversary": copied(self.adversary.state_dict()),
            "optimizers": [copied(optimizer.state_dict()) for optimizer in self.optimizers],
            "memory": copied(self.memory),
        }

    def check(self, state: dict[str, Any], epoch: int) -> None:
        """Raise ValueError, naming the part, unless a state is complete and fits these networks after `epoch` epochs."""
        for name, module in (("encoder", self.encoder), ("adversary", self.adversary)):
            if shapes(state.get(name)) != shapes(module.state_dict()):
                raise ValueError(f"its {name} is not whole, or of other shapes")
        if shapes({"memory": state.get("memory")}) != shapes({"memory": self.memory}):
            raise ValueError("its memory is not whole, or of another shape")
        saved = state.get("optimizers")
        if not isinstance(saved, list) or len(saved) != len(self.optimizers):
            raise ValueError("its optimisers are not all there")
        for optimizer, one in zip(self.optimizers, saved):
            parameters = optimizer.param_groups[0]["params"]
            expected = {i: moments(p) for i, p in enumerate(parameters)} if epoch else {}
            found = one.get("state") if isinstance(one, dict) else None
            if not isinstance(found, dict) or {i: shapes(part) for i, part in found.items()} != expected:
                raise ValueError("an optimiser is not whole, or of other shapes")
            ours, theirs = optimizer.state_dict()["param_groups"], one.get("param_groups")
            if without_rate(theirs) != without_rate(ours):
                raise ValueError("an optimiser has other settings")

    def load(self, state: dict[str, Any]) -> None:
        """Load a state that `check` has accepted."""
        self.encoder.load_state_dict(state["encoder"])
        self.adversary.load_state_dict(state["adversary"])
        self.memory = copied(state["memory"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)


def shapes(tensors: Any) -> dict[str, tuple[torch.Size, torch.dtype]] | None:
    """Shape and dtype of each tensor of a dict; None if the argument is no dict of tensors."""
    if not isinstance(tensors, dict) or not all(isinstance(t, Tensor) for t in tensors.values()):
        return None
    return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}


def moments(parameter: Tensor) -> dict[str, tuple[torch.Size, torch.dtype]]:
    """Shapes and dtypes of what Adam keeps for a parameter: a step count and two running means."""
    kept = (parameter.shape, parameter.dtype)
    return {"step": (torch.Size([]), torch.float32), "exp_avg": kept, "exp_avg_sq": kept}


def without_rate(groups: Any) -> Any:
    """An optimiser's settings without its learning rate, which is set anew in each epoch."""
    if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        return None
    return [{name: value for name, value in group.items() if name != "lr"} for group in groups]
