"""Anchors, their candidates and the contrast between them: the computation behind the losses in `modules`.

The candidates of an anchor may be the other view of the batch, all views, the embeddings of other processes, or a queue. No
N x M matrix is an input: positives, admitted pairs and w_ij = <belief_i, posterior_j> all follow from vectors. A chunk of
anchors can therefore be computed alone, and again in the backward pass; memory grows with the chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..checks import checked_choice
from ..losses import anchor_losses, directions, pair_temperature, same_domain
from .gather import joined, rows_of
from .inputs import widened
from .queue import NegativeQueue

Made = TypeVar("Made", "Anchors", "Candidates", "Temperatures")
Side = TypeVar("Side", "Anchors", "Candidates")


def replace(one: Made, **changes: Any) -> Made:
    """As `dataclasses.replace` for changes to fields, without `vars`: `torch.compile` of PyTorch 2.6 can follow neither."""
    return type(one)(*[changes.get(name, getattr(one, name)) for name in type(one).__match_args__])


@dataclass(frozen=True)
class Candidates:
    """What anchors are contrasted with.

    Attributes:
        z: [..., M, k] embeddings, any length.
        positive_id: int [M]. An anchor and a candidate with the same one are a positive pair.
        is_negative: bool [M], whether a candidate counts as a negative of anchors with another `positive_id`; None: all do.
        domains: int [..., M], negative where a domain is not known.
        posterior: [..., M, D] domain probabilities; needed to weigh pairs.
        example: int [M], the example that each candidate shows, negative where it is not known; None: none is known.
    """

    z: Tensor
    positive_id: Tensor
    is_negative: Tensor | None = None
    domains: Tensor | None = None
    posterior: Tensor | None = None
    example: Tensor | None = None

    def of_all_processes(self) -> Candidates:
        """The candidates of all processes, one process after the other."""
        given = {name: getattr(self, name) for name in type(self).__match_args__}
        return replace(self, **{name: joined(t) for name, t in given.items() if t is not None})


@dataclass(frozen=True)
class Anchors:
    """The examples that a loss is averaged over.

    Attributes:
        z: [..., N, k] embeddings, any length.
        positive_id: int [N], see `Candidates`.
        itself: int [N], the place of each anchor among the candidates, which is no pair; None: anchors are no candidates.
        domains: int [..., N], negative where a domain is not known.
        belief: [..., N, D] probabilities of the anchor's domain: one-hot where it is known, else a posterior.
        example: int [N], see `Candidates`. A candidate that shows the anchor's own example is no negative of it.
    """

    z: Tensor
    positive_id: Tensor
    itself: Tensor | None = None
    domains: Tensor | None = None
    belief: Tensor | None = None
    example: Tensor | None = None

    def chunks(self, size: int | None) -> Iterator[Anchors]:
        """The anchors, `size` at a time; all at once for None."""
        if not size:  # N need not be known: one compiled graph serves batches of any size
            yield self
            return
        given = {name: getattr(self, name) for name in type(self).__match_args__ if getattr(self, name) is not None}
        for start in range(0, self.z.shape[-2], size):
            rows = slice(start, start + size)
            yield Anchors(**{k: t[..., rows, :] if k in ("z", "belief") else t[..., rows] for k, t in given.items()})


@dataclass(frozen=True)
class Temperatures:
    """Temperatures of pairs: tau_alpha, and Eq. 3 of the paper for negatives if there is a belief and a posterior."""

    tau_alpha: float | Tensor
    tau_beta: float | Tensor = 0.0
    tau_min: float | Tensor = 0.05
    num_domains: int = 2


def across_views(
    z: Tensor, z_pos: Tensor, domains: Tensor | None, example: Tensor | None, gather: bool, queue: NegativeQueue | None
) -> tuple[Anchors, Candidates]:
    """Anchors z [..., N, k] in one view, positives z_pos in the other, negatives there (of all processes) or in a queue."""
    rows = rows_of(z, gather and queue is None)
    anchors = Anchors(z, rows, domains=domains, example=example)
    if queue is None:
        candidates = Candidates(z_pos, rows, domains=domains, example=example)
        return anchors, candidates.of_all_processes() if gather else candidates
    pool = torch.cat([z_pos, queue.z.to(z_pos).expand(*z_pos.shape[:-2], -1, -1)], -2)
    positive_ids = torch.cat([rows, torch.full_like(queue.ids, -1, device=z.device)])
    is_negative = torch.cat([torch.zeros_like(rows, dtype=torch.bool), queue.filled.to(z.device)])
    if domains is not None:
        domains = torch.cat([domains, queue.domains.to(domains).expand(*domains.shape[:-1], -1)], -1)
    example = None if example is None else torch.cat([example, queue.ids.to(example)])
    return anchors, Candidates(pool, positive_ids, is_negative, domains, example=example)


def for_views(count: int, facts: Tensor | None) -> Tensor | None:
    """Facts [..., N] about examples, repeated for the embeddings of V views, one view after the other: [..., V N]."""
    return None if facts is None else torch.cat([facts] * count, -1)


def within_all(
    views: Sequence[Tensor], positive_ids: Tensor, domains: Tensor | None, example: Tensor | None, gather: bool
) -> tuple[Anchors, Candidates]:
    """All V views [..., N, k] as anchors, and as candidates of each other; equal `positive_ids` int [N] make positives."""
    z, positive_ids = torch.cat(list(views), -2), torch.cat([positive_ids] * len(views))
    domains, example = for_views(len(views), domains), for_views(len(views), example)
    candidates = Candidates(z, positive_ids, domains=domains, example=example)
    anchors = Anchors(z, positive_ids, rows_of(z, gather), domains, example=example)
    return anchors, candidates.of_all_processes() if gather else candidates


def pairs_of(
    anchors: Anchors, candidates: Candidates, tau: Temperatures, own_domain: bool = False
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Which pairs are positive, which are admitted, and the temperatures of negatives or None: [N, M] or [..., N, M]."""
    positive = anchors.positive_id[:, None] == candidates.positive_id
    admitted = torch.ones_like(positive) if candidates.is_negative is None else positive | candidates.is_negative
    if anchors.itself is not None:
        other = anchors.itself[:, None] != torch.arange(candidates.z.shape[-2], device=candidates.z.device)
        positive, admitted = positive & other, admitted & other
    if anchors.example is not None and candidates.example is not None:
        again = (anchors.example >= 0)[:, None] & (anchors.example[:, None] == candidates.example)
        admitted = admitted & (positive | ~again)
    if own_domain and anchors.domains is not None and candidates.domains is not None:
        known = (anchors.domains >= 0)[..., None]  # two unknown domains are not the same
        admitted = admitted & (positive | (known & same_domain(anchors.domains, candidates.domains)))
    if anchors.belief is None or candidates.posterior is None:
        return positive, admitted, None
    with torch.autocast(candidates.z.device.type, enabled=False):
        w = (anchors.belief @ candidates.posterior.transpose(-1, -2)).to(candidates.z.dtype)
    tau_min = tau.tau_min[..., None, None] if isinstance(tau.tau_min, Tensor) else tau.tau_min
    return positive, admitted, pair_temperature(w, tau.tau_alpha, tau.tau_beta, tau_min, tau.num_domains)


def _ready(side: Side) -> Side:
    """Anchors or candidates with embeddings of unit length in float32 or better, and integers in int64."""
    domains, example = (None if t is None else t.long() for t in (side.domains, side.example))
    return replace(side, z=directions(widened(side.z)), positive_id=side.positive_id.long(), domains=domains, example=example)


def _chunk_losses(anchors: Anchors, candidates: Candidates, tau: Temperatures, own_domain: bool) -> tuple[Tensor, Tensor]:
    """Losses [..., n] of anchors of unit length, and whether each has a positive [n]."""
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
    """The loss of the anchors (`losses.info_nce`), in nats.

    Args:
        anchors: N of them.
        candidates: M of them.
        tau: temperatures; one with leading dimensions has a value for each run.
        chunk_size: anchors computed at a time, and again in the backward pass; None computes all at once. Peak memory is a
            few `chunk_size` x M matrices. The value does not depend on it, up to rounding.
        own_domain: whether only negatives of the anchor's own domain are admitted.
        reduction: "mean" over the anchors that have a positive, or "none".

    Returns:
        [...], or [..., N] for "none", with 0 for an anchor without a positive; in float32 or better, under autocast too.

    Raises:
        ValueError: for another reduction.
    """
    checked_choice("reduction", reduction, ("mean", "none"))
    with torch.autocast(anchors.z.device.type, enabled=False):
        anchors, candidates = _ready(anchors), _ready(candidates)
        again = chunk_size is not None and torch.is_grad_enabled()
        parts = []
        for chunk in anchors.chunks(chunk_size):
            inputs = (chunk, candidates, tau, own_domain)
            parts.append(checkpoint(_chunk_losses, *inputs, use_reentrant=False) if again else _chunk_losses(*inputs))
        each, counted = torch.cat([each for each, _ in parts], -1), torch.cat([counted for _, counted in parts])
        return each if reduction == "none" else each.sum(-1) / counted.sum().clamp(min=1)
