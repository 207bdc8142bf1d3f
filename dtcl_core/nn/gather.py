"""Exchange of tensors between the processes of `torch.distributed`, with gradients that come back to where they belong."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.size = x.shape[0]
        parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        total = gradient.clone()  # what every process's loss says of everybody's embeddings
        dist.all_reduce(total)
        start = dist.get_rank() * ctx.size
        return total[start : start + ctx.size]


def active() -> bool:
    """Whether there is a process group of two or more."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def rank() -> int:
    """This process's place in the group; 0 without one."""
    return dist.get_rank() if active() else 0


def all_gather(x: Tensor) -> Tensor:
    """The tensors x [N, ...] of all processes, one after the other: [world size * N, ...].

    Every process needs the same N. The gradient of a process's x is the sum over all processes' losses, so that averaging
    parameters' gradients over processes, as `DistributedDataParallel` does, gives that of the mean loss. Without a process
    group x itself is returned.
    """
    if not active():
        return x
    if x.is_floating_point() and x.requires_grad:
        return _AllGather.apply(x)
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts)


def check_alike(x: Tensor, problem: ValueError | None = None, exchanged: bool = True) -> None:
    """Whether all processes may go on to exchange their x [N, k]; none is left waiting for one that may not.

    Args:
        x: what this process holds; not looked at where there is a problem.
        problem: what this process found wrong with its inputs.
        exchanged: False where x stays here, and only this process's problem is raised.

    Raises:
        ValueError: on every process, if one has a problem (its own is raised there), or they differ in N, k or width.
    """
    if exchanged and active():
        facts = [0, 0, 0, 0] if problem else [1, *x.shape, x.element_size()]
        mine = torch.tensor(facts, device=x.device if isinstance(x, Tensor) else None)
        parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, mine)
        sound, sizes, *others = torch.stack(parts).T.tolist()
        if problem is None and not all(sound):
            raise ValueError(f"process {sound.index(0)} was given what it refuses; see its message.")
        if problem is None and len(set(sizes)) > 1:
            raise ValueError(f"gather needs batches of one size on all processes, got {sizes}; set drop_last=True.")
        if problem is None and any(len(set(values)) > 1 for values in others):
            raise ValueError(f"gather needs embeddings of one width and dtype, got k and bytes {list(zip(*others))}.")
    if problem is not None:
        raise problem
