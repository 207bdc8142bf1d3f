"""The weights w_ij of a domain-weighted loss: a discriminator's probability that two examples share a domain."""

from __future__ import annotations

import typing
from typing import Any

import torch
from torch import Tensor

from .. import logistic
from ..discriminator import Fitted
from ..discriminator import features as seen_of
from . import gather as processes
from .candidates import Anchors, Candidates, Temperatures, replace
from .inputs import outside_vmap, warn, widened, within_range
from .settings import Setting, Tunable


class HasPosterior(typing.Protocol):
    """A fitted discriminator: one of `discriminators`, what `discriminator.fit` returns, or an object of your own."""

    def predict_proba(self, z: Tensor, /) -> Tensor:
        """Domain posteriors [..., N, D] of embeddings [..., N, k]."""


def fit(z: Tensor, domains: Tensor, d: int, l2: float) -> tuple[Tensor, Tensor]:
    """Weight [..., D, k] and bias [..., D] of a linear classifier of domains [..., N], of which negative ones do not count."""
    model = logistic.fit(z, domains, d, l2, solver="lbfgs", watched=True)
    return model.weight.clone(), model.bias.clone()  # a compiled graph wants tensors that share no memory


# One node for `torch.compile`, which cannot follow a solver that stops when it is done.
_schema = "(Tensor z, Tensor domains, int d, float l2) -> (Tensor, Tensor)"
_fit_when_compiled = torch.library.custom_op("dtcl::fit_linear", fit, mutates_args=(), schema=_schema)


@_fit_when_compiled.register_fake
def _(z: Tensor, domains: Tensor, d: int, l2: float) -> tuple[Tensor, Tensor]:
    return z.new_empty(*z.shape[:-2], d, z.shape[-1]), z.new_empty(*z.shape[:-2], d)


class Weigher(Tunable):
    """Temperatures of negatives (Eq. 3), from a discriminator that is given, or fitted on each batch.

    Args:
        tau_beta, tau_min, num_domains, weighting, discriminator, l2, features: as for `modules.DomainWeightedInfoNCELoss`.
    """

    settings = ("tau_beta", "tau_min", "num_domains", "weighting", "discriminator", "l2", "features")
    discriminator: HasPosterior | None

    def __init__(
        self,
        tau_beta: Setting,
        tau_min: Setting,
        num_domains: int,
        weighting: str,
        discriminator: HasPosterior | None,
        l2: float,
        features: str,
    ):
        super().__init__()
        self.tau_beta = tau_beta
        self.tau_min = tau_min
        self.num_domains = num_domains
        self.weighting = weighting
        self.l2 = l2
        self.features = features
        self.discriminator = discriminator

    @property
    def needs_domains(self) -> bool:
        """Whether a batch must come with its domains."""
        return self.weighting == "negatives" or self.discriminator is None

    def temperatures(self, tau_alpha: float | Tensor, like: Tensor, validate: bool = True) -> Temperatures:
        """The present values of the settings; see `settings.Tunable.now`. With `validate` it warns of a tau_alpha below tau_min."""
        tau_beta, tau_min = (self.now(name, like, validate) for name in ("tau_beta", "tau_min"))
        if validate and not torch.compiler.is_compiling():
            if isinstance(tau_alpha, Tensor) or isinstance(tau_min, Tensor):
                alpha, floor = (torch.as_tensor(tau, device=like.device).detach() for tau in (tau_alpha, tau_min))
                low = outside_vmap(bool, (alpha < 0.99 * floor).any())
            else:
                low = tau_alpha < 0.99 * tau_min  # bfloat16 rounds by 0.4 %
            if low:
                why = (
                    "negatives never get so low a temperature as positives, and the loss may fall to zero while little is learned"
                )
                warn(f"tau_alpha is below tau_min: {why}. Lower tau_min, or bound a learned tau_alpha by it.")
        return Temperatures(tau_alpha, tau_beta, tau_min, self.num_domains)

    def discriminator_for(self, z: Tensor, domains: Tensor | None, gather: bool, validate: bool) -> HasPosterior:
        """The discriminator that is given, or a linear one fitted to embeddings [..., N, k] and domains [..., N].

        With `gather` it is fitted to those of all processes. If all known domains are alike, nothing can be fitted, and all
        domains are equally likely: w_ij = 1 / N_D.
        """
        if self.discriminator is not None:
            return self.discriminator
        assert domains is not None
        z, domains = widened(z.detach()), domains.long()
        if gather:
            z, domains = processes.joined(z), processes.joined(domains)
        domains, good = within_range(domains, self.num_domains)
        compiled = torch.compiler.is_compiling()
        with torch.autocast(z.device.type, enabled=False):
            problem = seen_of(z, self.features), domains, self.num_domains, self.l2
            weight, bias = _fit_when_compiled(*problem) if compiled else outside_vmap(fit, *problem)
        single = domains.amax(-1) <= domains.masked_fill(domains < 0, self.num_domains).amin(-1)
        if validate and not compiled and bool(single.any()):
            message = "a batch holds no two known domains: no discriminator can be fitted, and its weights are w_ij = 1 / N_D."
            warn(message)
        weight, bias = weight.masked_fill(single[..., None, None], 0.0), bias.masked_fill(single[..., None], 0.0)
        return Fitted(logistic.LogisticModel(weight, bias.where(good[..., None], torch.nan)), self.features)

    def posterior(self, known: HasPosterior, z: Tensor, gather: bool, checked: bool) -> Tensor:
        """Domain posteriors [..., N, D] of embeddings z, without a gradient; ValueError if they are not of N_D domains."""

        def asked() -> Tensor:
            with torch.no_grad(), torch.autocast(z.device.type, enabled=False):
                q = known.predict_proba(widened(z.detach()))
            returned = "predict_proba of the discriminator must return"
            if not isinstance(q, Tensor):
                raise ValueError(f"{returned} a tensor, got {type(q).__name__}.")
            if q.shape != (*z.shape[:-1], self.num_domains):
                raise ValueError(f"{returned} {[*z.shape[:-1], self.num_domains]}, got {[*q.shape]}.")
            if checked and not bool(((q.sum(-1) - 1).abs() < 1e-2).all() & (q >= 0).all()):
                raise ValueError(f"{returned} probabilities that sum to 1.")
            return q

        return (processes.check_alike(asked, z, gather) if checked else asked()).to(z)

    def weighed(
        self, anchors: Anchors, candidates: Candidates, known: HasPosterior, gather: bool, validate: bool
    ) -> tuple[Anchors, Candidates]:
        """Anchors with beliefs and candidates with posteriors, whose products are w_ij.

        The belief of "pairs" is the anchor's posterior. That of "negatives" is one-hot at the anchor's domain; where this is
        not known, all domains are equally likely, so that w_ij = 1 / N_D.
        """
        checked = validate and self.discriminator is not None and not torch.compiler.is_compiling()
        z = candidates.z
        if candidates.is_negative is not None:  # a queue: its empty places show the batch again, which batch norm may see
            rows = torch.arange(z.shape[-2], device=z.device) % anchors.z.shape[-2]
            filled = candidates.is_negative | (candidates.positive_id >= 0)
            z = z.where(filled[:, None], z[..., rows, :])
        posterior = self.posterior(known, z, gather, checked)
        if checked and gather and candidates.is_negative is None:  # a queue is each process's own
            processes.check_same(posterior[:64], "the discriminator")
        candidates = replace(candidates, posterior=posterior)
        if self.weighting == "pairs":
            return replace(anchors, belief=self.posterior(known, anchors.z, gather, checked)), candidates
        assert anchors.domains is not None
        domains = anchors.domains.expand(anchors.z.shape[:-1])[..., None]
        own = (domains == torch.arange(self.num_domains, device=domains.device)).to(anchors.z.dtype)
        own = own.masked_fill(domains >= self.num_domains, torch.nan)  # they were not checked
        return replace(anchors, belief=torch.where(domains >= 0, own, 1.0 / self.num_domains)), candidates


class Weighed(Tunable):
    """A loss with a weigher, or none, whose settings can be read and set on the loss as well."""

    weigher: Weigher | None

    def _of_weigher(self, name: str) -> bool:
        """Whether there is a weigher, and this is one of its settings."""
        return name in Weigher.settings and self.__dict__["_modules"].get("weigher") is not None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.weigher, name) if self._of_weigher(name) else super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._of_weigher(name):
            setattr(self.weigher, name, value)
        else:
            super().__setattr__(name, value)
