"""The linear domain discriminator, and the probability w_ij that two embeddings share a domain.

The discriminator is fitted to detached embeddings, so its fit sends the encoder no gradient. A global one is fitted to all training
images at the start of an epoch, a batch one anew to each batch (appendix C of the paper).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from . import logistic

FEATURES = ("l2", "raw")


def features(z: Tensor, kind: str) -> Tensor:
    """Embeddings [..., N, k] as the classifier sees them: "raw", or "l2" (scaled to unit length); raises ValueError for another kind."""
    if kind == "raw":
        return z
    if kind == "l2":
        return F.normalize(z, dim=-1)
    raise ValueError(f"features must be 'raw' or 'l2', got {kind!r}.")


@dataclass(frozen=True)
class Fitted:
    """A fitted linear discriminator; `kind` is what it sees of an embedding, see `features`.

    All fitted discriminators, here and in `nn`, have the method `predict_proba`.
    """

    model: logistic.LogisticModel
    kind: str = "raw"

    def of(self, runs: Tensor) -> Fitted:
        """The discriminators of some runs, by index [r]."""
        return Fitted(logistic.LogisticModel(self.model.weight[runs], self.model.bias[runs]), self.kind)

    def predict_proba(self, z: Tensor) -> Tensor:
        """Domain posteriors [..., M, N_D] of embeddings z [..., M, k]; gradients reach z."""
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
    watched: bool = False,
) -> Fitted:
    """Fit a linear domain discriminator to each run's embeddings; returns a `Fitted`.

    Args:
        z: [..., N, k] embeddings, which are detached.
        domains: [..., N] domain of each, in range(num_domains).
        num_domains: N_D, at least 2.
        l2, steps, learning_rate, watched: see `logistic.fit`.
        kind: what the classifier sees of an embedding; see `features`.

    Raises:
        ValueError: see `features` and `logistic.fit`.
    """
    seen = features(z, kind)
    return Fitted(logistic.fit(seen, domains, num_domains, l2, steps=steps, learning_rate=learning_rate, watched=watched), kind)


def same_domain_probability(
    posterior: Tensor,
    domains: Tensor | None = None,
    weighting: str = "negatives",
    anchor_posterior: Tensor | None = None,
) -> Tensor:
    """Probability w_ij that anchor i and negative j share a domain (section 2 of the paper).

    Args:
        posterior: [..., N, D] domain probabilities of the negatives.
        domains: int [..., N] domains of the anchors, all of them known (0 ... D - 1; the modules of `nn` take unknown ones too); needed
            by "negatives".
        weighting: "negatives" takes the anchor's domain as known, w_ij = P(D_j = d_i | z_j). "pairs" takes both domains as uncertain,
            w_ij = sum_d P(D_i = d | z_i) P(D_j = d | z_j).
        anchor_posterior: [..., N, D] domain probabilities of the anchors, for "pairs". None takes `posterior`, which is right only
            where anchors and negatives are the same embeddings.

    Returns:
        w [..., N, N] in [0, 1]; rows are anchors.

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
