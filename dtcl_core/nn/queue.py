"""A queue of embeddings from earlier batches, which serve as negatives (MoCo, He et al. 2020)."""

from __future__ import annotations

import torch
from torch import Tensor

from . import gather as processes
from .inputs import check_integers
from .settings import Described


class NegativeQueue(Described):
    """The newest `size` embeddings of earlier batches, with their domains, as in MoCo (He et al. 2020).

    Args:
        size: how many embeddings are kept.
        dim: k of the embeddings.

    Give the queue to a loss (``InfoNCELoss(queue=NegativeQueue(...))``), which then fills it, or `push` to it. It starts empty:
    the first loss has no negatives and is 0. Domain posteriors of its embeddings are computed anew at each use. Its contents
    are buffers: they are saved with the model, move with it, and have no gradient. (`DistributedDataParallel` gives all processes the first
    one's buffers: push with ``gather=True``, or wrap with ``broadcast_buffers=False``.)

    A large queue also holds older copies of the examples in the batch. If ``loss(z0, z1, domains, ids=indices)`` says which
    example each row shows, older copies of an anchor's example are no negatives of it. Two calls on one batch (MoCo made symmetric) need
    `ids` too: the second finds the first's z1 in the queue. ``symmetric=True`` is something else: z1 is the anchor too, with z0 as its positive.
    """

    settings = fixed = ("size", "dim")
    z: Tensor
    domains: Tensor
    filled: Tensor
    ids: Tensor

    def __init__(self, size: int, dim: int):
        super().__init__()
        self.size = size
        self.dim = dim
        self.register_buffer("z", torch.zeros(self.size, self.dim))
        self.register_buffer("domains", torch.full((self.size,), -1))
        self.register_buffer("filled", torch.zeros(self.size, dtype=torch.bool))
        self.register_buffer("ids", torch.full((self.size,), -1))

    @torch.no_grad()
    def push(self, z: Tensor, domains: Tensor | None = None, ids: Tensor | None = None, *, gather: bool = False) -> None:
        """Add embeddings z [N, k], and drop the oldest.

        Args:
            z: [N, k] embeddings, kept in the queue's own precision.
            domains: int [N], negative where a domain is not known; None if none is known. `SameDomainInfoNCELoss` needs them.
            ids: int [N], the example that each row shows, negative where it is not known; None if none is known.
            gather: add the embeddings of all processes of `torch.distributed`, which must push equally many.

        Raises:
            ValueError: for shapes that do not agree, domains or ids that are not integers, or embeddings that are not finite.
                A compiled push checks nothing.
        """
        if not torch.compiler.is_compiling():
            processes.check_alike(lambda: self._check(z, domains, ids), z, gather)
        unknown = z.new_full(z.shape[:1], -1, dtype=torch.long)
        whole = lambda t: unknown if t is None else t.to(z.device, torch.int64)
        new = {
            "z": z.detach(),
            "filled": torch.ones_like(unknown, dtype=torch.bool),
            "domains": whole(domains),
            "ids": whole(ids),
        }
        for name, value in new.items():  # exchanged on z's device: some backends exchange on a GPU only
            value, kept = processes.joined(value) if gather else value, getattr(self, name)
            kept.copy_(torch.cat([kept, value[-self.size :].to(kept)])[-self.size :])

    def _check(self, z: Tensor, domains: Tensor | None, ids: Tensor | None) -> None:
        """Raise ValueError for what would spoil the queue."""
        if not isinstance(z, Tensor) or z.dim() != 2 or z.shape[-1] != self.dim:
            given = tuple(z.shape) if isinstance(z, Tensor) else type(z).__name__
            raise ValueError(f"z must be a tensor [N, {self.dim}], got {given}.")
        for name, value in (("domains", domains), ("ids", ids)):
            if value is not None:
                check_integers(name, value, z.shape[:1])
        if not bool(z.to(self.z).isfinite().all()):
            raise ValueError(f"z holds NaN or infinite values (as {self.z.dtype}); they would stay in the queue.")
