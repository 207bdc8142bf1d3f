"""Contrast of anchors with any candidates: the objective behind `modules`, in pieces of any size.

`losses` writes InfoNCE for two views of a batch. Elsewhere the candidates of an anchor are other things: embeddings of
other machines, a queue, several positives. What they all share::

    l_i = mean over positives p of  [ log sum_a e^{s_ia / tau_ia}  -  s_ip / tau ],   tau_ia = tau for positives a,

where a runs over the admitted candidates (SupCon's L_out; with one positive, InfoNCE). Nothing N x M is given: who is a
positive, who is admitted and w_ij = <a_i, q_j> all follow from vectors, so a chunk of anchors can be computed alone, and
again in the backward pass, and memory grows with the chunk.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from ..checks import checked_number
from ..losses import pair_temperature
from . import gather as processes
from .discriminators import INTEGERS, widened


@dataclass(frozen=True)
class Candidates:
    """What anchors are contrasted with.

    Attributes:
        z: [..., M, k] embeddings, any length.
        id: int [M]: an anchor and a candidate with the same id are a positive pair.
        is_negative: bool [M], whether a candidate counts as a negative of anchors with another id; None: all do.
        domains: [..., M] domain of each; needed to admit negatives of the anchor's domain only.
        posterior: [..., M, D] domain probabilities; needed to weigh pairs.
    """

    z: Tensor
    id: Tensor
    is_negative: Tensor | None = None
    domains: Tensor | None = None
    posterior: Tensor | None = None


@dataclass(frozen=True)
class Anchors:
    """The examples that a loss is averaged over.

    Attributes:
        z: [..., N, k] embeddings, any length.
        id: int [N], see `Candidates`.
        itself: int [N], the place of the anchor itself among the candidates, which never counts; None: it is not there.
        domains: [..., N] domain of each; needed to admit negatives of the anchor's domain only.
        belief: [..., N, D] what is believed of its domain: one-hot where it is known, a posterior where it is not.
    """

    z: Tensor
    id: Tensor
    itself: Tensor | None = None
    domains: Tensor | None = None
    belief: Tensor | None = None


@dataclass(frozen=True)
class Temperatures:
    """Temperatures of the pairs: tau_alpha, and for negatives Eq. 3 of the paper if there is a belief and a posterior."""

    tau_alpha: float | Tensor
    tau_beta: float | Tensor = 0.0
    tau_min: float = 0.01
    num_domains: int = 2


def _rows(
    z: Tensor,
    anchor_id: Tensor,
    itself: Tensor | None,
    domains: Tensor | None,
    belief: Tensor | None,
    c: Tensor,
    other: Candidates,
    tau: Temperatures,
) -> tuple[Tensor, Tensor]:
    """Losses [..., n] of anchors z [..., n, k] against candidates c [..., M, k] of unit length, and who has a positive."""
    positive = anchor_id[:, None] == other.id
    admitted = torch.ones_like(positive) if other.is_negative is None else positive | other.is_negative
    if itself is not None:
        alone = itself[:, None] == torch.arange(c.shape[-2], device=c.device)
        positive, admitted = positive & ~alone, admitted & ~alone
    if domains is not None and other.domains is not None:
        admitted = admitted & (positive | (domains[..., :, None] == other.domains[..., None, :]))
    pairs = torch.as_tensor(tau.tau_alpha, dtype=z.dtype, device=z.device)[..., None, None]
    if belief is not None and other.posterior is not None:
        w = belief @ other.posterior.transpose(-1, -2)
        shifted = pair_temperature(w.to(z.dtype), tau.tau_alpha, tau.tau_beta, tau.tau_min, tau.num_domains)
        pairs = torch.where(positive, pairs, shifted)
    logits = (z @ c.transpose(-1, -2)) / pairs
    count = positive.sum(-1)
    counts = count > 0  # the others' rows keep all their candidates, so that no gradient is undefined
    total = logits.masked_fill(~(admitted | ~counts[:, None]), -torch.inf).logsumexp(-1)
    drawn = logits.masked_fill(~positive, 0.0).sum(-1) / count.clamp(min=1)
    return torch.where(counts, total - drawn, 0.0), counts


def contrast(anchors: Anchors, candidates: Candidates, tau: Temperatures, chunk_size: int | None = None) -> Tensor:
    """Mean loss over the anchors that have a positive.

    Args:
        anchors: N of them.
        candidates: M of them.
        tau: temperatures; a tau_alpha or tau_beta with leading dimensions is one value a run.
        chunk_size: anchors computed at a time, each chunk again in the backward pass; None computes all at once. The
            value does not depend on it, up to rounding; peak memory is a few `chunk_size` x M matrices.

    Returns:
        [...] in nats. In float32 or better whatever the embeddings' type, under autocast too.
    """
    with torch.autocast(anchors.z.device.type, enabled=False):
        z, c = (F.normalize(widened(e), dim=-1) for e in (anchors.z, candidates.z))
        size = z.shape[-2] if chunk_size is None else chunk_size
        parts = []
        for start in range(0, z.shape[-2], size):
            rows = slice(start, start + size)
            inputs = (
                z[..., rows, :],
                anchors.id[rows],
                None if anchors.itself is None else anchors.itself[rows],
                None if anchors.domains is None else anchors.domains[..., rows],
                None if anchors.belief is None else anchors.belief[..., rows, :],
                c,
                candidates,
                tau,
            )
            again = chunk_size is not None and torch.is_grad_enabled()
            parts.append(checkpoint(_rows, *inputs, use_reentrant=False) if again else _rows(*inputs))
        total = torch.stack([loss.sum(-1) for loss, _ in parts]).sum(0)
        return total / torch.stack([counts.sum() for _, counts in parts]).sum().clamp(min=1)


class NegativeQueue(nn.Module):
    """Negatives from earlier batches, as in MoCo (He et al. 2020): the newest `size` embeddings and their domains.

    Args:
        size: how many are kept.
        dim: k of the embeddings.

    It starts empty. The domain posteriors of what it holds are taken anew at each use, with the discriminator of that
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
        self.register_buffer("domains", torch.zeros(self.size, dtype=torch.long))
        self.register_buffer("filled", torch.zeros(self.size, dtype=torch.bool))

    @torch.no_grad()
    def push(self, z: Tensor, domains: Tensor | None = None, *, gather: bool = False) -> None:
        """Add embeddings z [N, k], and drop the oldest; with `gather`, those of all processes.

        Args:
            z: [N, k] embeddings; kept in the queue's own precision.
            domains: int [N], >= 0. `SameDomainInfoNCELoss` needs them: examples pushed without share nobody's domain.
            gather: push the embeddings of all processes of `torch.distributed`, which must push equally many.

        Raises:
            ValueError: for shapes that do not agree, domains that are no integers >= 0, or embeddings that are not finite.
        """
        problem = None
        try:
            self._check(z, domains)
        except ValueError as error:
            problem = error
        processes.check_alike(z, problem, gather)
        z, domains = z.detach(), torch.full_like(z[:, 0], -1, dtype=torch.long) if domains is None else domains.long()
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
            raise ValueError(f"domains must be integers >= 0, got {domains.dtype}.")
        if domains is not None and bool((domains < 0).any()):
            raise ValueError(f"domains must be integers >= 0, got {domains.dtype}, lowest {domains.min().item()}.")
        if not bool(z.to(self.z).isfinite().all()):
            raise ValueError(f"z holds NaN or infinite values (as {self.z.dtype}); they would stay in the queue.")

    def extra_repr(self) -> str:
        """The settings, as `print(module)` shows them."""
        return f"size={self.size}, dim={self.z.shape[-1]}"
