"""The methods of the paper: the arguments each gives to the one contrastive formula, and the penalty it may add.

A method is one row of `METHODS` and small functions of a batch, which return arguments of `losses.info_nce` (such as `tau_neg` or
`admitted`) or a penalty. The engine, the grids, the book and the command line all read this registry.
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
    """What a method may use: one batch of R runs that share the method.

    z and z_pos [R, N, k] are the embeddings of two views, domains [R, N] their domains. Only a method with a discriminator has
    `posterior` [R, N, D], of z_pos, and `anchor_posterior`, of z; they carry a gradient if `Protocol.weight_gradient` says so.
    ``tau_alpha``, ``tau_beta`` and ``lambda_`` are [R] (``tau_beta[:, None, None]`` beside pairs [R, N, N]); in training 0 if not
    used. adversary: (weight, bias) of DANN's classifier. memory [R, N, 2]: two numbers that the method stores for each image.
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
        """The same batch with the two views exchanged."""
        return replace(self, z=self.z_pos, z_pos=self.z, anchor_posterior=self.posterior, posterior=self.anchor_posterior)

    def penalised(self) -> tuple[Tensor, Tensor]:
        """Embeddings [R, M, k] and domains [R, M] on which a penalty is computed."""
        if self.penalty_views == "anchor":
            return self.z, self.domains
        return torch.cat([self.z, self.z_pos], -2), torch.cat([self.domains, self.domains], -1)


def same_domain_negatives(batch: Batch) -> dict[str, Tensor]:
    """Admit only negatives of the anchor's own domain, [R, N, N] (Cheng et al. 2020)."""
    return {"admitted": losses.same_domain(batch.domains)}


def domain_weighted(batch: Batch, weighting: str) -> dict[str, Tensor]:
    """Give each negative the temperature of Eq. 3, [R, N, N]."""
    posterior = batch.anchor_posterior if batch.posterior_view == "anchor_view" else batch.posterior
    assert posterior is not None and batch.tau_beta is not None
    w = same_domain_probability(posterior, batch.domains, weighting, batch.anchor_posterior)
    return {"tau_neg": losses.pair_temperature(w, batch.tau_alpha, batch.tau_beta, batch.tau_min, batch.num_domains)}


def outside_weighted(batch: Batch) -> dict[str, Tensor]:
    """Keep one temperature; weight exponentials by N_D w_ij, [R, N, N]: 1 where the discriminator knows nothing.

    w_ij is of Domain-Weighted Negatives, from the posterior of z'_j whatever `Protocol.posterior_view` says.
    """
    assert batch.posterior is not None
    w = same_domain_probability(batch.posterior, batch.domains, "negatives")
    return {"weight": batch.num_domains * w}


def model_aware(batch: Batch) -> dict[str, Tensor]:
    """One temperature per batch, [R]: tau_alpha (1 + lambda A), at least tau_min; A is the mean cosine of positive pairs, without gradient.

    This is the adaptive temperature of Model-Aware Contrastive Learning (Huang et al. 2023, ICML), tau_0 (1 + alpha (A - A_0)) with
    alpha = lambda and A_0 = 0, but without their reweighting of examples. It does not use domains.
    """
    assert batch.lambda_ is not None
    alignment = torch.nn.functional.cosine_similarity(batch.z, batch.z_pos, dim=-1).mean(-1).detach()
    return {"tau": (batch.tau_alpha * (1.0 + batch.lambda_ * alignment)).clamp(min=batch.tau_min)}


TAU_RATE, TAU_MOMENTUM, TAU_MAX = 0.01, 0.9, 0.7  # as published, with their code


def individual(batch: Batch) -> dict[str, Tensor]:
    """A learned temperature for each image, [R, N]: the robust contrastive loss of Qiu et al. 2023 (iSogCLR, ICML).

    It does not use domains; `individual_memory` updates the temperatures. Two things differ from the original: the positive is in the
    denominator too, as in Eq. 2, and the mean over negatives is taken in the batch, without SogCLR's running mean over epochs.
    """
    assert batch.memory is not None
    return {"anchor_tau": batch.memory[..., 0].to(batch.z)}


@torch.no_grad()
def individual_memory(batch: Batch) -> Tensor:
    """Temperatures of a batch's images after a step, and the running means of their gradients, [R, N, 2].

    The objective in tau_i is tau_i log mean_j e^{(s_ij - s_ii) / tau_i} + rho tau_i over negatives j, with rho = lambda. Its derivative is
    rho - KL(p_i | uniform), where p_ij is the softmax of (s_ij - s_ii) / tau_i. So tau_i rises while KL > rho, that is while few negatives
    are close, and falls otherwise. It stays between tau_min and `TAU_MAX`.
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
    """lambda times the squared MMD between the domains, [R] (Li et al. 2018)."""
    z, domains = batch.penalised()
    if batch.mmd_features == "l2":
        z = losses.directions(z)
    assert batch.lambda_ is not None
    return batch.lambda_ * losses.domain_mmd(z, domains, batch.num_domains, batch.mmd_bandwidths)


def dann_penalty(batch: Batch) -> Tensor:
    """Cross entropy [R] of the domain classifier; its gradient reaches the encoder times -lambda (Ganin et al. 2016)."""
    z, domains = batch.penalised()
    if batch.dann_features == "l2":
        z = losses.directions(z)
    assert batch.adversary is not None and batch.lambda_ is not None
    return losses.adversarial_loss(z, domains, *batch.adversary, batch.lambda_)


@dataclass(frozen=True)
class Method:
    """A row of the registry.

    Attributes:
        title: the method's name in the paper's tables.
        pairs: returns arguments of `losses.info_nce`: `tau_neg`, `admitted` or `weight` [R, N, N], `anchor_tau` [R, N], or `tau` [R] to
            replace tau_alpha. The default returns none, which gives the standard loss.
        penalty: a term [R] added to the loss.
        remember: for a method with "memory": the two numbers of each image of a batch after a step, [R, N, 2]. The first is a
            temperature and starts at tau_alpha; the second starts at 0.
        uses: what it reads besides tau_alpha: ``"tau_beta"``, ``"lambda_"``, ``"discriminator"`` (posteriors), ``"adversary"`` (a domain
            classifier), ``"memory"`` (two numbers an image). `config.Run` refuses another word.
        jitter: whether the colours of the views are jittered.
        oracle: whether the method uses knowledge of the test domain, and so is an upper bound.
    """

    title: str
    pairs: Callable[[Batch], dict[str, Any]] = lambda batch: {}
    penalty: Callable[[Batch], Tensor] | None = None
    remember: Callable[[Batch], Tensor] | None = None
    uses: frozenset[str] = frozenset()
    jitter: bool = False
    oracle: bool = False

    def remembered(self, batch: Batch, symmetric: bool = False) -> Tensor:
        """Result [R, N, 2] of `remember`; the mean over both directions if the loss is symmetric."""
        assert self.remember is not None
        memory = self.remember(batch)
        return 0.5 * (memory + self.remember(batch.swapped())) if symmetric else memory

    def loss(self, batch: Batch, symmetric: bool = False) -> Tensor:
        """The training loss of each run [R]."""
        total = losses.info_nce(batch.z, batch.z_pos, **{"tau": batch.tau_alpha, **self.pairs(batch)})
        if symmetric:
            other = batch.swapped()
            total = 0.5 * (total + losses.info_nce(other.z, other.z_pos, **{"tau": other.tau_alpha, **self.pairs(other)}))
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

# Methods outside the paper's comparison: they run and are stored like the others, but no grid includes them by default.
VARIANTS: dict[str, Method] = {
    "dw_outside": Method("Weight Outside the Exponent", outside_weighted, uses=frozenset({"discriminator"})),
    "macl": Method("MACL", model_aware, uses=frozenset({"lambda_"})),
    "isogclr": Method("iSogCLR", individual, remember=individual_memory, uses=frozenset({"lambda_", "memory"})),
}
# A ChainMap iterates its last map first, the paper's; `ALL_METHODS["mine"] = Method(...)` goes into its first.
ALL_METHODS = ChainMap(VARIANTS, METHODS)  # in this order: the paper's come first, and what a user adds is a variant
