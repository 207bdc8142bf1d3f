"""The methods of the paper: what each fills into the one contrastive formula, and what it adds to it.

A method is a small function from a batch to the free places of `losses.info_nce` (`tau_neg`, `admitted`), or a penalty,
and one row of `METHODS`. The engine, the grids, the book and the command line all read that registry.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from . import losses
from .discriminator import same_domain_probability


@dataclass(frozen=True)
class Batch:
    """What a method may look at: one batch of R runs that share the method.

    z and z_pos [R, N, k] are the two views' embeddings, domains [R, N]; posteriors [R, N, D] of both views come from the
    discriminator, where the method has one; ``tau_alpha``, ``tau_beta``, ``lambda_`` are [R]; adversary is the (weight, bias) of
    DANN's classifier; memory [R, N, 2] what the method remembers of each image.
    """

    z: Tensor
    z_pos: Tensor
    domains: Tensor
    num_domains: int
    tau_alpha: Tensor
    tau_min: float
    tau_beta: Tensor | None = None
    lambda_: Tensor | None = None
    anchor_posterior: Tensor | None = None
    posterior: Tensor | None = None
    adversary: tuple[Tensor, Tensor] | None = None
    memory: Tensor | None = None
    posterior_view: str = "negative_view"
    penalty_views: str = "both"
    mmd_features: str = "l2"
    mmd_bandwidths: tuple[float, ...] = (1.0,)
    dann_features: str = "raw"

    def swapped(self) -> Batch:
        """The same batch with the views' roles exchanged."""
        return replace(
            self, z=self.z_pos, z_pos=self.z, anchor_posterior=self.posterior, posterior=self.anchor_posterior
        )

    def penalised(self) -> tuple[Tensor, Tensor]:
        """Embeddings [R, M, k] and domains [R, M] that a penalty sees."""
        if self.penalty_views == "anchor":
            return self.z, self.domains
        return torch.cat([self.z, self.z_pos], -2), torch.cat([self.domains, self.domains], -1)


def same_domain_negatives(batch: Batch) -> dict[str, Tensor]:
    """Admit negatives of the anchor's own domain only, [R, N, N] (Cheng et al. 2020)."""
    return {"admitted": losses.same_domain(batch.domains)}


def domain_weighted(batch: Batch, weighting: str) -> dict[str, Tensor]:
    """Give each negative the temperature of Eq. 3, [R, N, N]."""
    posterior = batch.anchor_posterior if batch.posterior_view == "anchor_view" else batch.posterior
    assert posterior is not None and batch.tau_beta is not None
    w = same_domain_probability(posterior, batch.domains, weighting, batch.anchor_posterior)
    return {"tau_neg": losses.pair_temperature(w, batch.tau_alpha, batch.tau_beta, batch.tau_min, batch.num_domains)}


def outside_weighted(batch: Batch) -> dict[str, Tensor]:
    """Keep one temperature and weight the exponentials, by N_D w_ij [R, N, N] (1 where the discriminator knows nothing)."""
    assert batch.posterior is not None
    w = same_domain_probability(batch.posterior, batch.domains, "negatives")
    return {"weight": batch.num_domains * w}


def model_aware(batch: Batch) -> dict[str, Tensor]:
    """One temperature a batch, [R]: tau_alpha (1 + lambda A), A the mean cosine of the positive pairs, outside the gradient.

    The adaptive temperature of Huang et al. 2023 (Model-Aware Contrastive Learning, ICML; tau_0 (1 + alpha (A - A_0)) with
    alpha = lambda and A_0 = 0), without their reweighting of examples. It knows nothing of domains.
    """
    assert batch.lambda_ is not None
    alignment = torch.nn.functional.cosine_similarity(batch.z, batch.z_pos, dim=-1).mean(-1).detach()
    return {"tau": (batch.tau_alpha * (1.0 + batch.lambda_ * alignment)).clamp(min=batch.tau_min)}


TAU_RATE, TAU_MOMENTUM, TAU_MAX = 0.01, 0.9, 0.7  # as published, with their code


def individual(batch: Batch) -> dict[str, Tensor]:
    """A temperature an image, [R, N], learned beside the encoder: the robust contrastive loss of Qiu et al. 2023 (iSogCLR, ICML).

    `individual_memory` says how it is learned. Two things are other than there: the positive is in the denominator too, as in
    Eq. 2, and the mean over negatives is the batch's, without SogCLR's running mean over epochs. It knows nothing of domains.
    """
    assert batch.memory is not None
    return {"anchor_tau": batch.memory[..., 0].to(batch.z)}


@torch.no_grad()
def individual_memory(batch: Batch) -> Tensor:
    """The temperatures of a batch's images after a step, and the running means of their gradients, [R, N, 2].

    With p_ij the softmax over the negatives j of (s_ij - s_ii) / tau_i, the derivative of their objective
    tau_i log mean_j e^{(s_ij - s_ii) / tau_i} + rho tau_i, rho = lambda, is rho - KL(p_i | uniform): an image with few close
    negatives gets a higher temperature, until they are as even as rho asks. It stays between tau_min and `TAU_MAX`.
    """
    assert batch.memory is not None and batch.lambda_ is not None
    tau, mean = batch.memory.to(batch.z).unbind(-1)
    similarity = losses.cosine_similarity(batch.z, batch.z_pos)
    own = torch.eye(similarity.shape[-1], dtype=torch.bool, device=similarity.device)
    log_p = (similarity / tau[..., None]).masked_fill(own, -torch.inf).log_softmax(-1)
    divergence = math.log(len(own) - 1) + (log_p.exp() * log_p.masked_fill(own, 0.0)).sum(-1)
    mean = (1 - TAU_MOMENTUM) * mean + TAU_MOMENTUM * (batch.lambda_[..., None] - divergence)
    return torch.stack([(tau - TAU_RATE * mean).clamp(batch.tau_min, TAU_MAX), mean], -1)


def domain_weighted_negatives(batch: Batch) -> dict[str, Tensor]:
    """Temperatures [R, N, N] from w_ij = P(D_j = d_i | z_j)."""
    return domain_weighted(batch, "negatives")


def domain_weighted_pairs(batch: Batch) -> dict[str, Tensor]:
    """Temperatures [R, N, N] from w_ij = sum_d P(D_i = d | z_i) P(D_j = d | z_j)."""
    return domain_weighted(batch, "pairs")


def mmd_penalty(batch: Batch) -> Tensor:
    """lambda times the MMD between the domains, [R] (Li et al. 2018)."""
    z, domains = batch.penalised()
    if batch.mmd_features == "l2":
        z = losses.directions(z)
    assert batch.lambda_ is not None
    return batch.lambda_ * losses.domain_mmd(z, domains, batch.num_domains, batch.mmd_bandwidths)


def dann_penalty(batch: Batch) -> Tensor:
    """The adversary's cross entropy [R], reversed times lambda for the encoder (Ganin et al. 2016)."""
    z, domains = batch.penalised()
    if batch.dann_features == "l2":
        z = losses.directions(z)
    assert batch.adversary is not None and batch.lambda_ is not None
    return losses.adversarial_loss(z, domains, *batch.adversary, batch.lambda_)


@dataclass(frozen=True)
class Method:
    """A row of the registry.

    Attributes:
        title: the name the paper's tables use.
        pairs: fills `tau_neg`, `admitted`, `weight`, `anchor_tau` or `tau` (in place of tau_alpha) of `losses.info_nce`; the
            default leaves the standard loss.
        penalty: a term [R] added to the loss.
        remember: what it remembers of a batch's images after a step, [R, N, 2]: a temperature, which begins at tau_alpha, and
            another number, which begins at 0; for a method that asks for "memory".
        uses: fields of `config.Run` that the method reads beyond tau_alpha; "adversary" asks for a classifier of its own,
            "memory" for two numbers of each training image.
        jitter: whether the views' colours are jittered.
        oracle: whether it knows what the test domain changes, and so is an upper bound.
    """

    title: str
    pairs: Callable[[Batch], dict[str, Any]] = lambda batch: {}
    penalty: Callable[[Batch], Tensor] | None = None
    remember: Callable[[Batch], Tensor] | None = None
    uses: frozenset[str] = frozenset()
    jitter: bool = False
    oracle: bool = False

    def remembered(self, batch: Batch, symmetric: bool = False) -> Tensor:
        """What `remember` says [R, N, 2], over both directions if the loss is."""
        assert self.remember is not None
        memory = self.remember(batch)
        return 0.5 * (memory + self.remember(batch.swapped())) if symmetric else memory

    def loss(self, batch: Batch, symmetric: bool = False) -> Tensor:
        """The training loss of each run [R]."""
        total = losses.info_nce(batch.z, batch.z_pos, **{"tau": batch.tau_alpha, **self.pairs(batch)})
        if symmetric:
            other = batch.swapped()
            total = 0.5 * (
                total + losses.info_nce(other.z, other.z_pos, **{"tau": other.tau_alpha, **self.pairs(other)})
            )
        return total if self.penalty is None else total + self.penalty(batch)


WEIGHTED = frozenset({"tau_beta", "discriminator"})
METHODS: dict[str, Method] = {
    "standard": Method("Standard CL"),
    "same_domain": Method("Same Domain Negatives", same_domain_negatives),
    "mmd": Method("CL with MMD Penalty", penalty=mmd_penalty, uses=frozenset({"lambda_"})),
    "dann": Method("CL with DANN", penalty=dann_penalty, uses=frozenset({"lambda_", "adversary"})),
    "dw_negatives": Method("Domain-Weighted Negatives", domain_weighted_negatives, uses=WEIGHTED),
    "dw_pairs": Method("Domain-Weighted Pairs", domain_weighted_pairs, uses=WEIGHTED),
    "color_jitter": Method("Standard CL w/ Color Jitter", jitter=True, oracle=True),
}

# Methods beside the paper's comparison: they run and are stored like the others, but no grid holds them by itself.
VARIANTS: dict[str, Method] = {
    "dw_outside": Method("Weight Outside the Exponent", outside_weighted, uses=frozenset({"discriminator"})),
    "macl": Method("MACL", model_aware, uses=frozenset({"lambda_"})),
    "isogclr": Method("iSogCLR", individual, remember=individual_memory, uses=frozenset({"lambda_", "memory"})),
}
ALL_METHODS = ChainMap(VARIANTS, METHODS)  # in this order: the paper's come first, and what a user adds is a variant
