"""Contrast of anchors with any candidates: the objective behind `modules`, in pieces of any size.

The candidates of an anchor may be the other view of the batch, both views, embeddings of other machines or a queue. Nothing
N x M is given: who is a positive, who is admitted and w_ij = <a_i, q_j> all follow from vectors. So a chunk of anchors can be
computed alone (`losses.anchor_losses`), and again in the backward pass, and memory grows with the chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from ..losses import anchor_losses, pair_temperature, same_domain
from . import gather as processes
from .inputs import widened


@dataclass(frozen=True)
class Candidates:
    """What anchors are contrasted with.

    Attributes:
        z: [..., M, k] embeddings, any length.
        id: int [M]: an anchor and a candidate with the same id are a positive pair.
        is_negative: bool [M], whether a candidate counts as a negative of anchors with another id; None: all do.
        domains: [..., M] domain of each, negative where it is not known.
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
        domains: [..., N] domain of each, negative where it is not known.
        belief: [..., N, D] what is believed of its domain: one-hot where it is known, a posterior where it is not.
    """

    z: Tensor
    id: Tensor
    itself: Tensor | None = None
    domains: Tensor | None = None
    belief: Tensor | None = None

    def chunks(self, size: int | None) -> Iterator[Anchors]:
        """The anchors, `size` at a time; all at once for None."""
        count = self.z.shape[-2]
        for start in range(0, count, size or count):
            rows = slice(start, start + (size or count))
            yield Anchors(
                self.z[..., rows, :],
                self.id[rows],
                None if self.itself is None else self.itself[rows],
                None if self.domains is None else self.domains[..., rows],
                None if self.belief is None else self.belief[..., rows, :],
            )


@dataclass(frozen=True)
class Temperatures:
    """Temperatures of the pairs: tau_alpha, and for negatives Eq. 3 of the paper if there is a belief and a posterior."""

    tau_alpha: float | Tensor
    tau_beta: float | Tensor = 0.0
    tau_min: float | Tensor = 0.01
    num_domains: int = 2


# --- who is contrasted with whom ----------------------------------------------------------------------------------------


def across_views(z: Tensor, z_pos: Tensor, domains: Tensor | None, gather: bool) -> tuple[Anchors, Candidates]:
    """Anchors z [..., N, k] in one view; candidates in the other, z_pos, with `gather` of all processes."""
    place = torch.arange(z.shape[-2], device=z.device)
    pool, owners, identity = z_pos, domains, place
    if gather:
        pool, owners = processes.all_gather(z_pos), None if domains is None else processes.all_gather(domains)
        identity = torch.arange(pool.shape[0], device=z.device)
        place = place + processes.rank() * z.shape[0]
    return Anchors(z, place, domains=domains), Candidates(pool, identity, domains=owners)


def across_queue(
    z: Tensor, z_pos: Tensor, domains: Tensor | None, queued: tuple[Tensor, Tensor, Tensor]
) -> tuple[Anchors, Candidates]:
    """Anchors z [..., N, k] in one view; positives in the other, and negatives in a queue.

    Args:
        queued: the queue's embeddings [M, k], their domains [M], and which places are filled [M].
    """
    place = torch.arange(z.shape[-2], device=z.device)
    others, queued_domains, filled = (t.to(z.device) for t in queued)
    pool = torch.cat([z_pos, others.to(z_pos).expand(*z_pos.shape[:-2], -1, -1)], -2)
    owners = None
    if domains is not None:
        owners = torch.cat([domains, queued_domains.to(domains).expand(*domains.shape[:-1], -1)], -1)
    identity = torch.cat([place, torch.full_like(queued_domains, -1)])
    is_negative = torch.cat([torch.zeros_like(place, dtype=torch.bool), filled])
    return Anchors(z, place, domains=domains), Candidates(pool, identity, is_negative, owners)


def within_both(
    z0: Tensor, z1: Tensor, ids: Tensor, domains: Tensor | None, gather: bool
) -> tuple[Anchors, Candidates]:
    """Both views [..., N, k] are anchors, and candidates of all others; ids int [N] say who is whose positive."""
    z, ids = torch.cat([z0, z1], -2), torch.cat([ids, ids])
    domains = None if domains is None else torch.cat([domains, domains], -1)
    itself = torch.arange(z.shape[-2], device=z.device)
    pool, identity, owners = z, ids, domains
    if gather:
        pool, identity = processes.all_gather(z), processes.all_gather(ids)
        owners = None if domains is None else processes.all_gather(domains)
        itself = itself + processes.rank() * z.shape[0]
    return Anchors(z, ids, itself, domains), Candidates(pool, identity, domains=owners)


# --- the objective ------------------------------------------------------------------------------------------------------


def pairs_of(
    anchors: Anchors, candidates: Candidates, tau: Temperatures, own_domain: bool = False
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Which pairs are positive and which admitted [N, M] (or [..., N, M]), and temperatures of negatives [..., N, M]."""
    positive = anchors.id[:, None] == candidates.id
    admitted = torch.ones_like(positive) if candidates.is_negative is None else positive | candidates.is_negative
    if anchors.itself is not None:
        other = anchors.itself[:, None] != torch.arange(candidates.z.shape[-2], device=candidates.z.device)
        positive, admitted = positive & other, admitted & other
    if own_domain and anchors.domains is not None and candidates.domains is not None:
        known = (anchors.domains >= 0)[..., None]  # unknown domains are nobody's own
        admitted = admitted & (positive | (known & same_domain(anchors.domains, candidates.domains)))
    if anchors.belief is None or candidates.posterior is None:
        return positive, admitted, None
    w = (anchors.belief @ candidates.posterior.transpose(-1, -2)).to(candidates.z.dtype)
    return positive, admitted, pair_temperature(w, tau.tau_alpha, tau.tau_beta, tau.tau_min, tau.num_domains)


def _chunk_losses(
    anchors: Anchors, candidates: Candidates, tau: Temperatures, own_domain: bool
) -> tuple[Tensor, Tensor]:
    """Losses [..., n] of anchors, and which of them have a positive [n]; all embeddings of unit length."""
    positive, admitted, tau_neg = pairs_of(anchors, candidates, tau, own_domain)
    similarity = anchors.z @ candidates.z.transpose(-1, -2)
    each = anchor_losses(similarity, tau.tau_alpha, positive=positive, tau_neg=tau_neg, admitted=admitted)
    return each, positive.any(-1)


def contrast(
    anchors: Anchors,
    candidates: Candidates,
    tau: Temperatures,
    chunk_size: int | None = None,
    *,
    own_domain: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """The loss of the anchors (`losses.info_nce`).

    Args:
        anchors: N of them.
        candidates: M of them.
        tau: temperatures; a tau_alpha or tau_beta with leading dimensions is one value a run.
        chunk_size: anchors computed at a time, each chunk again in the backward pass; None computes all at once. The
            value does not depend on it, up to rounding; peak memory is a few `chunk_size` x M matrices.
        own_domain: whether only negatives of the anchor's own domain are admitted.
        reduction: "mean" over the anchors that have a positive, or "none".

    Returns:
        [...], or [..., N] for "none", where an anchor without a positive has 0; in nats. In float32 or better whatever the
        embeddings' type, under autocast too.
    """
    with torch.autocast(anchors.z.device.type, enabled=False):
        anchors = replace(anchors, z=F.normalize(widened(anchors.z), dim=-1))
        candidates = replace(candidates, z=F.normalize(widened(candidates.z), dim=-1))
        again = chunk_size is not None and torch.is_grad_enabled()
        parts = []
        for chunk in anchors.chunks(chunk_size):
            inputs = (chunk, candidates, tau, own_domain)
            parts.append(checkpoint(_chunk_losses, *inputs, use_reentrant=False) if again else _chunk_losses(*inputs))
        each, counted = torch.cat([each for each, _ in parts], -1), torch.cat([counted for _, counted in parts])
        return each if reduction == "none" else each.sum(-1) / counted.sum().clamp(min=1)
