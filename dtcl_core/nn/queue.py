"""Negatives from earlier batches."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..checks import checked_number
from . import gather as processes
from .inputs import INTEGERS


class NegativeQueue(nn.Module):
    """Negatives from earlier batches, as in MoCo (He et al. 2020): the newest `size` embeddings and their domains.

    Args:
        size: how many are kept.
        dim: k of the embeddings.

    It starts empty, and then has no negative to offer: a loss that is to contrast with it alone is 0 at first. Give it to a
    loss (``InfoNCELoss(queue=NegativeQueue(...))``), which then fills it, or `push` to it. The domain posteriors of what it holds are taken anew at each use, with the discriminator of that
    moment, so they are never stale. Its contents ([size, k] embeddings, [size] domains, [size] which are filled) are
    buffers: saved with the model, moved with it, outside the gradient.
    """

    z: Tensor
    domains: Tensor
    filled: Tensor

    def __init__(self, size: int, dim: int):
        super().__init__()
        self.size = int(checked_number("size", size, 1, integer=True))
        self.register_buffer("z", torch.zeros(self.size, int(checked_number("dim", dim, 1, integer=True))))
        self.register_buffer("domains", torch.full((self.size,), -1))
        self.register_buffer("filled", torch.zeros(self.size, dtype=torch.bool))

    @torch.no_grad()
    def push(self, z: Tensor, domains: Tensor | None = None, *, gather: bool = False) -> None:
        """Add embeddings z [N, k], and drop the oldest; with `gather`, those of all processes.

        Args:
            z: [N, k] embeddings; kept in the queue's own precision.
            domains: int [N], negative where not known; None: none is. `SameDomainInfoNCELoss` needs them: examples of unknown
                domain share nobody's.
            gather: push the embeddings of all processes of `torch.distributed`, which must push equally many.

        Raises:
            ValueError: for shapes that do not agree, domains that are no integers, or embeddings that are not finite (in
                eager mode: a compiled push looks at nothing).
        """
        if not torch.compiler.is_compiling():
            problem = None
            try:
                self._check(z, domains)
            except ValueError as error:
                problem = error
            processes.check_alike(z, problem, gather)
        z, domains = z.detach(), z.new_full(z.shape[:1], -1, dtype=torch.long) if domains is None else domains.long()
        if gather:  # where they are: processes may exchange on a GPU only
            z, domains = processes.all_gather(z), processes.all_gather(domains)
        z, domains = z[-self.size :].to(self.z), domains[-self.size :].to(self.domains)
        here = torch.ones(len(z), dtype=torch.bool, device=self.filled.device)
        for name, new in (("z", z), ("domains", domains), ("filled", here)):
            kept = getattr(self, name)
            kept.copy_(torch.cat([kept, new])[-self.size :])

    def _check(self, z: Tensor, domains: Tensor | None) -> None:
        """Raise ValueError for what would spoil the queue."""
        for name, value in (("z", z), ("domains", domains)):
            if not isinstance(value, Tensor) and (name == "z" or value is not None):
                raise ValueError(f"{name} must be a tensor, got {type(value).__name__}.")
        given = None if domains is None else tuple(domains.shape)
        if z.dim() != 2 or z.shape[-1] != self.z.shape[-1] or (domains is not None and given != tuple(z.shape[:1])):
            raise ValueError(f"z must be [N, {self.z.shape[-1]}] and domains [N], got {tuple(z.shape)} and {given}.")
        if domains is not None and domains.dtype not in INTEGERS:
            raise ValueError(f"domains must be integers, got {domains.dtype}.")
        if not bool(z.to(self.z).isfinite().all()):
            raise ValueError(f"z holds NaN or infinite values (as {self.z.dtype}); they would stay in the queue.")

    def extra_repr(self) -> str:
        """The settings, as `print(module)` shows them."""
        return f"size={self.size}, dim={self.z.shape[-1]}"
