"""Negatives from earlier batches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..checks import checked_number
from . import gather as processes
from .inputs import check_integers


class NegativeQueue(nn.Module):
    """Negatives from earlier batches, as in MoCo (He et al. 2020): the newest `size` embeddings and their domains.

    Args:
        size: how many are kept.
        dim: k of the embeddings.

    It starts empty, and then has no negative to offer: a loss that is to contrast with it alone is 0 at first. Give it to a
    loss (``InfoNCELoss(queue=NegativeQueue(...))``), which then fills it, or `push` to it. The domain posteriors of what it
    holds are taken anew at each use, with the discriminator of that moment, so they are never stale. Its contents
    ([size, k] embeddings, [size] domains, ids and which are filled) are buffers: saved with the model, moved with it, outside the
    gradient.

    A queue that holds as much as an epoch meets examples again, whose older copies are no negatives. Say which example each
    row shows, ``loss(z0, z1, domains, ids=indices)``, and an anchor passes over older copies of its own example.
    """

    z: Tensor
    domains: Tensor
    filled: Tensor
    ids: Tensor

    def __init__(self, size: int, dim: int):
        super().__init__()
        self.size = int(checked_number("size", size, 1, integer=True))
        self.register_buffer("z", torch.zeros(self.size, int(checked_number("dim", dim, 1, integer=True))))
        self.register_buffer("domains", torch.full((self.size,), -1))
        self.register_buffer("filled", torch.zeros(self.size, dtype=torch.bool))
        self.register_buffer("ids", torch.full((self.size,), -1))

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        state.setdefault(prefix + "ids", torch.full_like(self.ids, -1))  # of a queue saved before it had any
        super()._load_from_state_dict(state, prefix, *rest)

    @torch.no_grad()
    def push(
        self, z: Tensor, domains: Tensor | None = None, ids: Tensor | None = None, *, gather: bool = False
    ) -> None:
        """Add embeddings z [N, k], and drop the oldest; with `gather`, those of all processes.

        Args:
            z: [N, k] embeddings; kept in the queue's own precision.
            domains: int [N], negative where not known; None: none is. `SameDomainInfoNCELoss` needs them: examples of unknown
                domain share nobody's.
            ids: int [N], the example that each row shows, negative where not known; None: none is.
            gather: push the embeddings of all processes of `torch.distributed`, which must push equally many.

        Raises:
            ValueError: for shapes that do not agree, domains or ids that are no integers, or embeddings that are not finite
                (in eager mode: a compiled push looks at nothing).
        """
        if not torch.compiler.is_compiling():
            problem = None
            try:
                self._check(z, domains, ids)
            except ValueError as error:
                problem = error
            processes.check_alike(z, problem, gather)
        unknown = z.new_full(z.shape[:1], -1, dtype=torch.long)
        new = {"z": z.detach(), "filled": unknown < 0}
        new |= {name: unknown if t is None else t.long() for name, t in (("domains", domains), ("ids", ids))}
        for name, value in new.items():  # exchanged where it is: processes may do so on a GPU only
            value, kept = processes.all_gather(value) if gather else value, getattr(self, name)
            kept.copy_(torch.cat([kept, value[-self.size :].to(kept)])[-self.size :])

    def _check(self, z: Tensor, domains: Tensor | None, ids: Tensor | None) -> None:
        """Raise ValueError for what would spoil the queue."""
        if not isinstance(z, Tensor):
            raise ValueError(f"z must be a tensor, got {type(z).__name__}.")
        if z.dim() != 2 or z.shape[-1] != self.z.shape[-1]:
            raise ValueError(f"z must be [N, {self.z.shape[-1]}], got {tuple(z.shape)}.")
        for name, value in (("domains", domains), ("ids", ids)):
            if value is not None:
                check_integers(name, value, z.shape[:1])
        if not bool(z.to(self.z).isfinite().all()):
            raise ValueError(f"z holds NaN or infinite values (as {self.z.dtype}); they would stay in the queue.")

    def extra_repr(self) -> str:
        """The settings, as `print(module)` shows them."""
        return f"size={self.size}, dim={self.z.shape[-1]}"
