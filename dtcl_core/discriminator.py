"""How likely two embeddings are to share a domain: posteriors of a linear classifier, and the weights w_ij from them.

The discriminator looks at the encoder's current embeddings and never talks back: its fit is detached. It is fitted on
all training images at the start of an epoch (global) or on each batch anew (batch); appendix C of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from . import logistic

FEATURES = ("l2", "raw")


def features(z: Tensor, kind: str) -> Tensor:
    """Embeddings [..., N, k] as a linear model sees them: "raw", or "l2" (scaled to unit length)."""
    if kind == "raw":
        return z
    if kind == "l2":
        return F.normalize(z, dim=-1)
    raise ValueError(f"features must be 'raw' or 'l2', got {kind!r}.")


@dataclass(frozen=True)
class Fitted:
    """A fitted linear discriminator, and what it sees of an embedding; see `features`.

    Its contract is that of all fitted discriminators here and in `nn`: `predict_proba`.
    """

    model: logistic.LogisticModel
    kind: str = "raw"

    def predict_proba(self, z: Tensor) -> Tensor:
        """Domain posteriors [..., M, N_D] of embeddings z [..., M, k]; their gradient reaches z."""
        return self.model.predict_proba(features(z, self.kind))


def fit(
    z: Tensor,
    domains: Tensor,
    num_domains: int,
    l2: float = 1.0,
    *,
    kind: str = "raw",
    steps: int | None = None,
    learning_rate: float = 0.01,
) -> Fitted:
    """Fit a linear domain discriminator to each run's embeddings.

    Args:
        z: [..., N, k] embeddings; detached.
        domains: [..., N] domain of each, in range(num_domains).
        num_domains: N_D, at least 2.
        l2: penalty, > 0; see `logistic.fit`, as for `steps` and `learning_rate`.
        kind: what the classifier sees of an embedding; see `features`.
    """
    seen = features(z, kind)
    return Fitted(logistic.fit(seen, domains, num_domains, l2, steps=steps, learning_rate=learning_rate), kind)


def same_domain_probability(
    posterior: Tensor,
    domains: Tensor | None = None,
    weighting: str = "negatives",
    anchor_posterior: Tensor | None = None,
) -> Tensor:
    """Probability w_ij that anchor i and negative j share a domain (section 2 of the paper).

    Args:
        posterior: [..., N, D] domain probabilities of the negatives.
        domains: [..., N] known domains of the anchors; needed by "negatives".
        weighting: "negatives" takes the anchor's domain as known, w_ij = P(D_j = d_i | z_j); "pairs" takes both as
            uncertain, w_ij = sum_d P(D_i = d | z_i) P(D_j = d | z_j).
        anchor_posterior: [..., N, D] domain probabilities of the anchors, for "pairs"; default: `posterior`.

    Returns:
        w [..., N, N], rows the anchors, in [0, 1].

    Raises:
        ValueError: for an unknown weighting, or "negatives" without domains.
    """
    if weighting == "negatives":
        if domains is None:
            raise ValueError("weighting 'negatives' needs the anchors' domains.")
        anchor = F.one_hot(domains.long(), posterior.shape[-1]).to(posterior.dtype)
    elif weighting == "pairs":
        anchor = posterior if anchor_posterior is None else anchor_posterior
    else:
        raise ValueError(f"weighting must be 'negatives' or 'pairs', got {weighting!r}.")
    return anchor @ posterior.transpose(-1, -2)
