"""Contrast of anchors with any candidates: the objective behind `modules`, in pieces of any size.

The candidates of an anchor may be the other view of the batch, both views, embeddings of other machines or a queue. Nothing
N x M is given: who is a positive, who is admitted and w_ij = <a_i, q_j> all follow from vectors. So a chunk of anchors can be
computed alone (`losses.anchor_losses`), and again in the backward pass, and memory grows with the chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..losses import anchor_losses, directions, pair_temperature, same_domain
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
        example: int [M], the example that each shows, negative where it is not known; None: it is of none.
    """

    z: Tensor
    id: Tensor
    is_negative: Tensor | None = None
    domains: Tensor | None = None
    posterior: Tensor | None = None
    example: Tensor | None = None


@dataclass(frozen=True)
class Anchors:
    """The examples that a loss is averaged over.

    Attributes:
        z: [..., N, k] embeddings, any length.
        id: int [N], see `Candidates`.
        itself: int [N], the place of the anchor itself among the candidates, which never counts; None: it is not there.
        domains: [..., N] domain of each, negative where it is not known.
        belief: [..., N, D] what is believed of its domain: one-hot where it is known, a posterior where it is not.
        example: int [N], see `Candidates`; what shows the anchor's own example is no negative of it.
    """

    z: Tensor
    id: Tensor
    itself: Tensor | None = None
    domains: Tensor | None = None
    belief: Tensor | None = None
    example: Tensor | None = None

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
                None if self.example is None else self.example[rows],
            )


Side = TypeVar("Side", Anchors, Candidates)


@dataclass(frozen=True)
class Temperatures:
    """Temperatures of the pairs: tau_alpha, and for negatives Eq. 3 of the paper if there is a belief and a posterior."""

    tau_alpha: float | Tensor
    tau_beta: float | Tensor = 0.0
    tau_min: float | Tensor = 0.01
    num_domains: int = 2


# --- who is contrasted with whom ----------------------------------------------------------------------------------------


def _everywhere(x: Tensor | None) -> Tensor | None:
    return None if x is None else processes.all_gather(x)


def across_views(
    z: Tensor, z_pos: Tensor, domains: Tensor | None, example: Tensor | None, gather: bool
) -> tuple[Anchors, Candidates]:
    """Anchors z [..., N, k] in one view; candidates in the other, z_pos, with `gather` of all processes."""
    place = torch.arange(z.shape[-2], device=z.device)
    pool, owners, identity, shown = z_pos, domains, place, example
    if gather:
        pool, owners, shown = processes.all_gather(z_pos), _everywhere(domains), _everywhere(example)
        identity = torch.arange(pool.shape[0], device=z.device)
        place = place + processes.rank() * z.shape[0]
    anchors = Anchors(z, place, domains=domains, example=example)
    return anchors, Candidates(pool, identity, domains=owners, example=shown)


def across_queue(
    z: Tensor, z_pos: Tensor, domains: Tensor | None, example: Tensor | None, queued: tuple[Tensor, ...]
) -> tuple[Anchors, Candidates]:
    """Anchors z [..., N, k] in one view; positives in the other, and negatives in a queue.

    Args:
        queued: the queue's embeddings [M, k], their domains [M], which places are filled [M], and which examples they show [M].
    """
    place = torch.arange(z.shape[-2], device=z.device)
    others, queued_domains, filled, queued_ids = (t.to(z.device) for t in queued)
    pool = torch.cat([z_pos, others.to(z_pos).expand(*z_pos.shape[:-2], -1, -1)], -2)
    owners = None
    if domains is not None:
        owners = torch.cat([domains, queued_domains.to(domains).expand(*domains.shape[:-1], -1)], -1)
    identity = torch.cat([place, torch.full_like(queued_domains, -1)])
    is_negative = torch.cat([torch.zeros_like(place, dtype=torch.bool), filled])
    shown = None if example is None else torch.cat([example, queued_ids])
    anchors = Anchors(z, place, domains=domains, example=example)
    return anchors, Candidates(pool, identity, is_negative, owners, example=shown)


def for_all(views: Sequence[Tensor], facts: Tensor | None) -> Tensor | None:
    """Facts [..., N] about examples, for the embeddings of all views after each other: [..., V N]."""
    return None if facts is None else torch.cat([facts] * len(views), -1)


def within_all(
    views: Sequence[Tensor], ids: Tensor, domains: Tensor | None, example: Tensor | None, gather: bool
) -> tuple[Anchors, Candidates]:
    """All V views [..., N, k] are anchors, and candidates of all others; ids int [N] say who is whose positive."""
    z, ids = torch.cat(list(views), -2), torch.cat([ids] * len(views))
    domains, example = for_all(views, domains), for_all(views, example)
    itself = torch.arange(z.shape[-2], device=z.device)
    pool, identity, owners, shown = z, ids, domains, example
    if gather:
        pool, identity = processes.all_gather(z), processes.all_gather(ids)
        owners, shown = _everywhere(domains), _everywhere(example)
        itself = itself + processes.rank() * z.shape[0]
    return Anchors(z, ids, itself, domains, example=example), Candidates(pool, identity, domains=owners, example=shown)


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
    if anchors.example is not None and candidates.example is not None:
        again = (anchors.example >= 0)[:, None] & (anchors.example[:, None] == candidates.example)
        admitted = admitted & (positive | ~again)
    if own_domain and anchors.domains is not None and candidates.domains is not None:
        known = (anchors.domains >= 0)[..., None]  # unknown domains are nobody's own
        admitted = admitted & (positive | (known & same_domain(anchors.domains, candidates.domains)))
    if anchors.belief is None or candidates.posterior is None:
        return positive, admitted, None
    w = (anchors.belief @ candidates.posterior.transpose(-1, -2)).to(candidates.z.dtype)
    return positive, admitted, pair_temperature(w, tau.tau_alpha, tau.tau_beta, tau.tau_min, tau.num_domains)


def _ready(side: Side) -> Side:
    """Anchors or candidates with embeddings of unit length in float32 or better, and integers in int64."""
    domains, example = (None if t is None else t.long() for t in (side.domains, side.example))
    return replace(side, z=directions(widened(side.z)), id=side.id.long(), domains=domains, example=example)


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
        anchors, candidates = _ready(anchors), _ready(candidates)
        again = chunk_size is not None and torch.is_grad_enabled()
        parts = []
        for chunk in anchors.chunks(chunk_size):
            inputs = (chunk, candidates, tau, own_domain)
            parts.append(checkpoint(_chunk_losses, *inputs, use_reentrant=False) if again else _chunk_losses(*inputs))
        each, counted = torch.cat([each for each, _ in parts], -1), torch.cat([counted for _, counted in parts])
        return each if reduction == "none" else each.sum(-1) / counted.sum().clamp(min=1)
