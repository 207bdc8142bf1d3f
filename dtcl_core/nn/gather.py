"""Exchange of tensors between the processes of `torch.distributed`, with gradients of any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist


def _exchanged(x: Tensor) -> Tensor:
    """The tensors x [N, ...] of all processes, without a gradient."""
    parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts)


class _Exchange(torch.autograd.Function):
    """From x [N, ...] to those of all processes; with `back`, from [world size * N, ...] to this process's part of the sum.

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


def rows_of(z: Tensor, gather: bool) -> Tensor:
    """The places int [N] of embeddings z [..., N, k] in their batch; with `gather`, in the batch of all processes."""
    before = dist.get_rank() * z.shape[-2] if gather and active() else 0
    return torch.arange(z.shape[-2], device=z.device) + before


def all_gather(x: Tensor) -> Tensor:
    """The tensors x [N, ...] of all processes, one after the other: [sum of N, ...]; N may differ between them, unless compiled.

    The gradient of a process's x is the sum over all processes' losses. So averaging parameters' gradients over processes, as
    `DistributedDataParallel` does, gives the gradient of the mean loss. Without a process group x itself is returned. Integers
    of any type travel as int64.
    """
    if not active() or torch.compiler.is_compiling():
        return joined(x)
    sizes = _exchanged(torch.tensor([len(x)], device=x.device)).tolist()
    most = max(sizes)
    everyones = joined(torch.cat([x, x.new_zeros(most - len(x), *x.shape[1:])]))
    return torch.cat([everyones[most * i : most * i + size] for i, size in enumerate(sizes)])


def joined(x: Tensor) -> Tensor:
    """`all_gather` of tensors of one length N, which is not checked: [world size * N, ...]."""
    if not active():
        return x
    if x.is_floating_point():
        return _Exchange.apply(x, False) if x.requires_grad else _exchanged(x)
    return _exchanged(x.long()).to(x.dtype)


def check_alike(check: Callable[[], Any], x: Tensor, exchanged: bool = True, beside: Sequence[Any] = ()) -> Any:
    """What `check` returns. If it raises an error on one process, all processes raise, so that none waits for another.

    All also raise if they differ in the shape [N, k] of x, in the bytes of a number, or in which inputs of `beside` are None.
    Where x is not `exchanged`, only this process's check counts.
    """
    problem, result = None, None
    try:
        result = check()
    except Exception as error:
        problem = error
    if exchanged and active():
        given = sum(2**i for i, value in enumerate(beside) if value is not None)
        facts = [0, 0, 0, 0, 0] if problem else [1, *x.shape, x.element_size(), given]
        everyones = _exchanged(torch.tensor([facts], device=x.device if isinstance(x, Tensor) else None))
        sound, sizes, *others = everyones.T.tolist()
        if problem is None and not all(sound):
            problem = ValueError(f"process {sound.index(0)} failed; see its message.")
        elif problem is None and len(set(sizes)) > 1:
            problem = ValueError(f"gather needs batches of one size on all processes, got {sizes}; set drop_last=True.")
        elif problem is None and any(len(set(values)) > 1 for values in others):
            wanted = "embeddings of one width and dtype, and the same inputs"
            problem = ValueError(f"gather needs {wanted}, got k, bytes, inputs {list(zip(*others))}.")
    if problem is not None:
        try:
            raise problem
        finally:
            del problem  # its traceback holds this frame, and so the batch
    return result


def check_same(q: Tensor, name: str) -> None:
    """Raise ValueError, on all processes, if q [N, D] in [0, 1] differs between them by more than a hundredth."""
    everyones = _exchanged(q[None]) if active() else q[None]
    if bool(((everyones - everyones[:1]).abs() > 1e-2).any()):
        raise ValueError(f"{name} differs between processes; fit it to the embeddings of all (`nn.gather.all_gather`).")
