"""Figures to log about the last batch of a domain-weighted loss: its temperatures, and its discriminator's accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..losses import same_domain
from .candidates import Anchors, Candidates, Temperatures, pairs_of, replace


@dataclass(frozen=True)
class Seen:
    """A weighed batch, without gradients and embeddings."""

    anchors: Anchors
    candidates: Candidates
    tau: Temperatures

    @staticmethod
    def of(anchors: Anchors, candidates: Candidates, tau: Temperatures) -> Seen:
        """What `figures` needs of a batch, and no more."""
        z, pool = (side.z.detach()[..., :1].clone() for side in (anchors, candidates))
        bare: dict[str, Any] = {name: t.detach().clone() for name, t in vars(tau).items() if isinstance(t, Tensor)}
        return Seen(replace(anchors, z=z), replace(candidates, z=pool), replace(tau, **bare))

    @torch.no_grad()
    def figures(self, chunk_size: int | None = None) -> dict[str, float]:
        """The temperatures of the negatives, and the accuracy of the discriminator behind them.

        Args:
            chunk_size: number of anchors computed at a time; None computes all at once.

        Returns:
            tau_within and tau_across: mean temperature of negatives of the anchor's domain, and of other domains. clipped:
            the fraction of negatives whose temperature is tau_min. discriminator_accuracy: the fraction of candidates of known
            domain that are predicted correctly, without those for which all domains are equally likely. A discriminator fitted on
            this batch is above chance even where embeddings show no domain, and far above unless k is small beside N. A figure is
            NaN where nothing can be averaged, such as where no domain is known.
        """
        candidates = self.candidates
        sums = torch.zeros(6, dtype=torch.float64, device=candidates.z.device)
        for chunk in self.anchors.chunks(chunk_size):
            positive, admitted, tau_neg = pairs_of(chunk, candidates, self.tau)
            assert tau_neg is not None
            negative = (admitted & ~positive).expand(tau_neg.shape)
            within = across = torch.zeros_like(negative)
            if chunk.domains is not None and candidates.domains is not None:
                known = negative & (chunk.domains >= 0)[..., :, None] & (candidates.domains >= 0)[..., None, :]
                same = same_domain(chunk.domains, candidates.domains)
                within, across = known & same, known & ~same
            floor = torch.as_tensor(self.tau.tau_min, dtype=tau_neg.dtype, device=tau_neg.device)
            clipped = negative & (tau_neg <= floor[..., None, None])
            totals = [tau_neg.where(kind, 0).sum(-1).double().sum() for kind in (within, across)]
            sums += torch.stack([*totals, *(kind.count_nonzero() for kind in (clipped, within, across, negative))])
        accuracy = torch.nan
        if candidates.domains is not None and candidates.posterior is not None:
            lowest, highest = candidates.posterior.aminmax(dim=-1)
            hit = candidates.posterior.argmax(-1) == candidates.domains
            accuracy = hit[(candidates.domains >= 0) & (lowest < highest)].double().mean().item()
        means = (sums[:3] / sums[3:]).tolist()
        return dict(zip(("tau_within", "tau_across", "clipped"), means)) | {"discriminator_accuracy": accuracy}
