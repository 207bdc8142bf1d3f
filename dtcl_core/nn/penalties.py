"""Penalties of two baselines, MMD and DANN, as modules whose value is added to a loss.

Both are called with embeddings z [N, k] and domains int [N], and return a scalar. Examples of an unknown domain, a negative
number, do not count.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .. import losses
from ..checks import checked_number
from .inputs import check_embeddings, widened, within_range
from .settings import Described, Setting, Tunable


class MMDPenalty(Described):
    """Maximum mean discrepancy between the domains of a batch (Li et al. 2018): the mean over pairs of domains.

    Args:
        num_domains: N_D, at least 2.
        bandwidths: standard deviations of the Gaussian kernels, > 0.
        normalize: scale embeddings to unit length first. Raw embeddings could lower the penalty by shrinking.
        unbiased: take the unbiased estimate, for unequal or many domains. It may be negative, and a domain counts from two
            examples on. The default is biased, as in the works that introduced the penalty and in this project's runs: never
            below zero, but larger the fewer examples a domain has (of equal distributions, in 16 dimensions or more 2.9 for
            1 against 63 examples and 0.18 for 32 against 32).
        validate: check inputs.

    The penalty is 0 if all examples are of one domain. Kernels are computed once for all domains.
    """

    settings = ("num_domains", "bandwidths", "normalize", "unbiased", "validate")

    def __init__(
        self,
        num_domains: int,
        bandwidths: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0),
        *,
        normalize: bool = True,
        unbiased: bool = False,
        validate: bool = True,
    ):
        super().__init__()
        self.num_domains = num_domains
        self.unbiased = unbiased
        self.bandwidths = bandwidths
        self.normalize = normalize
        self.validate = validate

    def forward(self, z: Tensor, domains: Tensor) -> Tensor:
        """The penalty of embeddings z [N, k] and domains int [N]; unless `unbiased`, at least 0 up to rounding.

        Raises:
            ValueError: for shapes that do not agree, values that are not finite, or domains out of range.
        """
        values = self.validate and not torch.compiler.is_compiling()
        check_embeddings(z, domains, self.num_domains, needed=True, values=values)
        with torch.autocast(z.device.type, enabled=False):
            z = losses.directions(widened(z)) if self.normalize else widened(z)
            domains, good = within_range(domains.to(z.device, torch.int64), self.num_domains)
            penalty = losses.domain_mmd(z, domains, self.num_domains, self.bandwidths, unbiased=self.unbiased)
            return penalty * torch.ones_like(penalty).where(good, torch.nan)


class DomainAdversary(Tunable):
    """DANN's term (Ganin et al. 2016): a linear classifier learns the domains, and the encoder learns to hide them.

    Add the value to the loss and give this module's parameters to an optimiser. The classifier descends its cross entropy;
    embeddings get its gradient times -lambda.

    Args:
        dim: k of the embeddings.
        num_domains: N_D, at least 2.
        lambda_: strength of the reversed gradient, >= 0: a number, a tensor (which is not learned) or a function without arguments.
        schedule: "constant", or "ganin": lambda rises from 0 with the training's progress.
        normalize: scale embeddings to unit length first. The losses do not see the length of raw embeddings, so that nothing
            would keep reversed gradients from making them ever longer.
        validate: check inputs.
    """

    settings = ("num_domains", "lambda_", "schedule", "normalize", "validate")
    fixed = ("num_domains",)  # of the classifier

    def __init__(
        self,
        dim: int,
        num_domains: int,
        lambda_: Setting = 1.0,
        *,
        schedule: str = "constant",
        normalize: bool = True,
        validate: bool = True,
    ):
        super().__init__()
        self.num_domains = num_domains
        self.lambda_ = lambda_
        self.schedule = schedule
        self.normalize = normalize
        self.validate = validate
        self.classifier = nn.Linear(int(checked_number("dim", dim, 1, integer=True)), self.num_domains)

    def strength(self, progress: float | Tensor | None, like: Tensor | None = None) -> float | Tensor:
        """Lambda, a number or [], when a share `progress` of the training, from 0 to 1, is done.

        `like`: see `Tunable.now`; without it lambda must be one number.

        Raises:
            ValueError: if lambda is negative, or if there is no progress where it depends on it, or some where it does not.
        """
        lambda_ = self.now("lambda_", self.classifier.weight if like is None else like, self.validate)
        if (progress is None) != (self.schedule == "constant"):
            raise ValueError('schedule="ganin" needs progress, the share of the training that is done; "constant" takes none.')
        return lambda_ if progress is None else lambda_ * losses.annealed(progress)

    def forward(self, z: Tensor, domains: Tensor, progress: float | Tensor | None = None) -> Tensor:
        """The classifier's cross entropy, in nats and in its weights' dtype, of embeddings z [N, k] and domains int [N].

        The schedule "ganin" needs `progress`, the share of the training that is done, from 0 to 1. Give a compiled module a
        0-d tensor: each other number would compile it anew.

        Raises:
            ValueError: as for `MMDPenalty`, for another width than `dim`, and for progress that is out of range, missing or not used.
        """
        values = self.validate and not torch.compiler.is_compiling()
        check_embeddings(z, domains, self.num_domains, needed=True, values=values)
        if z.shape[-1] != self.classifier.in_features:
            raise ValueError(f"z must be [..., N, {self.classifier.in_features}], got {tuple(z.shape)}.")
        if values and progress is not None:
            checked_number("progress", progress.item() if isinstance(progress, Tensor) else progress, 0.0, 1.0)
        with torch.autocast(z.device.type, enabled=False):
            z = z.to(self.classifier.weight.dtype)
            z = losses.directions(z) if self.normalize else z
            strength = torch.as_tensor(self.strength(progress, z), dtype=z.dtype, device=z.device).expand(z.shape[:-2])
            domains, good = within_range(domains.to(z.device, torch.int64), self.num_domains)
            factor = torch.ones_like(strength).where(strength.isfinite() & good, torch.nan)  # makes value and gradients NaN
            z = factor[..., None, None] * z
            return factor * losses.adversarial_loss(z, domains, self.classifier.weight, self.classifier.bias, strength)
