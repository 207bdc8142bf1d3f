"""Exchange of tensors between the processes of `torch.distributed`, with gradients that come back to where they belong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist


def _exchanged(x: Tensor) -> Tensor:
    parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts)


class _Exchange(torch.autograd.Function):
    """To x [N, ...] of all processes; or back, to the sum of all processes' [world size * N, ...] in this one's place.

    Both are linear and each is the other's transpose, so that gradients of any order are right.
    """

    @staticmethod
    def forward(x: Tensor, back: bool) -> Tensor:
        if not back:
            return _exchanged(x)
        total = x.clone()
        dist.all_reduce(total)
        return total.chunk(dist.get_world_size())[dist.get_rank()].clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, bool], output: Tensor) -> None:
        ctx.back = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _Exchange.apply(gradient, not ctx.back), None


def active() -> bool:
    """Whether there is a process group of two or more."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def rank() -> int:
    """This process's place in the group; 0 without one."""
    return dist.get_rank() if active() else 0


def all_gather(x: Tensor) -> Tensor:
    """The tensors x [N, ...] of all processes, one after the other: [world size * N, ...].

    Every process needs the same N. The gradient of a process's x is the sum over all processes' losses, so that averaging
    parameters' gradients over processes, as `DistributedDataParallel` does, gives that of the mean loss; gradients of
    gradients are right too. Without a process group x itself is returned. Integers of any type travel as int64.
    """
    if not active():
        return x
    if x.is_floating_point():
        return _Exchange.apply(x, False) if x.requires_grad else _exchanged(x)
    return _exchanged(x.long()).to(x.dtype)


def check_alike(x: Tensor, problem: ValueError | None = None, exchanged: bool = True, beside: Sequence[Any] = ()) -> None:
    """Whether all processes may go on to exchange their x [N, k]; none is left waiting for one that may not.

    Args:
        x: what this process holds; not looked at where there is a problem.
        problem: what this process found wrong with its inputs.
        exchanged: False where x stays here, and only this process's problem is raised.
        beside: what else travels or does not: domains, ids, further views. None does not.

    Raises:
        ValueError: on every process, if one has a problem (its own is raised there), or they differ in N, k or width, or in
            what is given.
    """
    if exchanged and active():
        given = sum(2**i for i, value in enumerate(beside) if value is not None)
        facts = [0, 0, 0, 0, 0] if problem else [1, *x.shape, x.element_size(), given]
        mine = torch.tensor(facts, device=x.device if isinstance(x, Tensor) else None)
        parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, mine)
        sound, sizes, *others = torch.stack(parts).T.tolist()
        if problem is None and not all(sound):
            raise ValueError(f"process {sound.index(0)} was given what it refuses; see its message.")
        if problem is None and len(set(sizes)) > 1:
            raise ValueError(f"gather needs batches of one size on all processes, got {sizes}; set drop_last=True.")
        if problem is None and any(len(set(values)) > 1 for values in others):
            found = list(zip(*others))
            raise ValueError(f"gather needs embeddings of one width and dtype, and the same inputs, got k, bytes, inputs {found}.")
    if problem is not None:
        raise problem
