"""What a domain-weighted loss did to a batch, as a few figures to log."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..losses import same_domain
from .candidates import Anchors, Candidates, Temperatures, pairs_of


@dataclass(frozen=True)
class Seen:
    """A batch as it was weighed, outside the gradient and without the embeddings."""

    anchors: Anchors
    candidates: Candidates
    tau: Temperatures

    @staticmethod
    def of(anchors: Anchors, candidates: Candidates, tau: Temperatures) -> Seen:
        """What `figures` needs of a batch, and no more."""
        alpha, beta, low = (
            t.detach() if isinstance(t, Tensor) else t for t in (tau.tau_alpha, tau.tau_beta, tau.tau_min)
        )
        bare = Temperatures(alpha, beta, low, tau.num_domains)
        z, pool = (side.z.detach()[..., :1].clone() for side in (anchors, candidates))
        return Seen(replace(anchors, z=z), replace(candidates, z=pool), bare)

    @torch.no_grad()
    def figures(self, chunk_size: int | None = None) -> dict[str, float]:
        """What the temperatures of the negatives were, and how good the discriminator behind them was.

        Args:
            chunk_size: anchors looked at a time.

        Returns:
            tau_within and tau_across: mean temperature of negatives of the anchor's domain, and of others; clipped: the
            share of negatives held at tau_min; discriminator_accuracy: the share of candidates whose domain it names. NaN
            where there is nothing to take a mean of, as where no domain is known.
        """
        anchors, candidates, tau = self.anchors, self.candidates, self.tau
        sums = torch.zeros(6, dtype=torch.float64, device=anchors.z.device)
        for chunk in anchors.chunks(chunk_size):
            positive, admitted, tau_neg = pairs_of(chunk, candidates, tau)
            assert tau_neg is not None
            negative = (admitted & ~positive).expand(tau_neg.shape)
            within = across = torch.zeros_like(negative)
            if chunk.domains is not None and candidates.domains is not None:
                known = (chunk.domains >= 0)[..., :, None] & (candidates.domains >= 0)[..., None, :]
                same = same_domain(chunk.domains, candidates.domains)
                within, across = negative & known & same, negative & known & ~same
            held = negative & (tau_neg <= torch.as_tensor(tau.tau_min).to(tau_neg))
            parts = (tau_neg[within], within, tau_neg[across], across, held, negative)
            sums += torch.stack([part.double().sum() for part in parts])
        named = torch.tensor(torch.nan)
        if candidates.domains is not None and candidates.posterior is not None:
            hit = candidates.posterior.argmax(-1) == candidates.domains
            named = hit[(candidates.domains >= 0).expand(hit.shape)].double().mean()
        within_sum, within_count, across_sum, across_count, held_count, count = sums
        return {
            "tau_within": (within_sum / within_count).item(),
            "tau_across": (across_sum / across_count).item(),
            "clipped": (held_count / count).item(),
            "discriminator_accuracy": named.item(),
        }
