"""Groups of a stack's runs: runs that share a method and a kind of discriminator compute their losses together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..config import Run
from .networks import users_of


class Group(NamedTuple):
    """The runs of a stack that share a method and a kind of discriminator, with their hyperparameters [r].

    Attributes:
        method, discriminator: shared by the runs; `discriminator` is None, "global" or "batch".
        places, runs: places of the runs in the stack, on the host and as [r].
        streams, counts: the streams that the runs see, and the number of runs that see each.
        tau_alpha, tau_beta, lambda_: [r], 0 where the method has none.
        adversaries, memories: [r] indices of the runs' classifiers or memories in `Networks`; None for a method without.
    """

    method: str
    discriminator: str | None
    places: list[int]
    runs: Tensor
    streams: list[int]
    counts: list[int]
    tau_alpha: Tensor
    tau_beta: Tensor
    lambda_: Tensor
    adversaries: Tensor | None
    memories: Tensor | None


def joined(groups: Sequence[Group], stream_of_run: Sequence[int]) -> tuple[Group, list[Tensor]] | None:
    """Several groups merged into one, and for each the places of its runs in it; None without groups.

    Of the merged group only places, runs, streams and counts mean anything; its other fields are the first group's.
    """
    if not groups:
        return None
    index = sorted(i for group in groups for i in group.places)
    looks = Counter(stream_of_run[i] for i in index)
    device = groups[0].runs.device
    runs = torch.tensor(index, device=device)
    whole = groups[0]._replace(places=index, runs=runs, streams=list(looks), counts=list(looks.values()))
    return whole, [torch.tensor([index.index(i) for i in group.places], device=device) for group in groups]


def groups_of(runs: Sequence[Run], stream_of_run: Sequence[int], device: torch.device) -> list[Group]:
    """Group the runs of a stack; `stream_of_run` holds the index of the stream that each run sees."""
    groups = []
    for method, kind in sorted({(r.method, r.discriminator or "") for r in runs}):
        index = [i for i, r in enumerate(runs) if (r.method, r.discriminator or "") == (method, kind)]
        looks = Counter(stream_of_run[i] for i in index)
        alpha, beta, lambda_ = (
            torch.tensor([float(getattr(runs[i], name) or 0.0) for i in index], device=device)
            for name in ("tau_alpha", "tau_beta", "lambda_")
        )
        owned = []
        for users in (users_of("adversary", runs), users_of("memory", runs)):
            theirs = [users.index(i) for i in index if i in users]
            owned.append(torch.tensor(theirs, device=device) if theirs else None)
        ours = torch.tensor(index, device=device)
        looked = list(looks), list(looks.values())
        groups.append(Group(method, kind or None, index, ours, *looked, alpha, beta, lambda_, *owned))
    return groups
