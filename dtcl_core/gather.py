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


def check_same_size(x: Tensor) -> None:
    """Raise ValueError unless all processes hold equally many examples."""
    if active():
        mine = torch.tensor([x.shape[0]], device=x.device)
        sizes = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(sizes, mine)
        held = [int(size) for size in sizes]
        if len(set(held)) > 1:
            raise ValueError(f"gather needs batches of one size on all processes, got {held}; set drop_last=True.")
