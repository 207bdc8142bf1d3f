"""The penalties of two baselines as `nn.Module`, to be added to any loss: MMD and DANN."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .. import losses
from ..checks import checked_choice, checked_number
from .inputs import check_embeddings, widened
from .settings import Setting, Tunable, setting


class MMDPenalty(nn.Module):
    """Maximum mean discrepancy between the domains of a batch, to be added to a loss (Li et al. 2018).

    Args:
        num_domains: N_D, at least 2.
        bandwidths: standard deviations of the Gaussian kernels, > 0.
        normalize: scale embeddings to unit length first; raw ones could meet the penalty by shrinking.
        unbiased: the estimate whose mean over batches does not depend on how many examples a domain has; it may be negative,
            and a domain counts from two examples on. The default is the biased one, as in the works that introduced the
            penalty and in this one's runs: it is a distance, never below zero. But it is the larger the fewer examples a
            domain has (of equal distributions, 2.9 for 1 against 63 and 0.18 for 32 against 32), so where domains are
            unequal, or many in a batch, take the unbiased one.
        validate: check inputs.

    Shape:
        z: [N, k]; domains: int [N]; the penalty: a scalar, the mean over pairs of domains; 0 where there is one domain only.
        Examples of an unknown domain, a negative number, do not count. Its cost does not grow with the number of domains.
    """

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
        self.num_domains = int(checked_number("num_domains", num_domains, 2, integer=True))
        self.unbiased = checked_choice("unbiased", unbiased, (True, False))
        if not isinstance(bandwidths, (tuple, list)) or not bandwidths:
            raise ValueError(f"bandwidths must be one or more numbers, got {bandwidths!r}.")
        self.bandwidths = tuple(float(checked_number("each of bandwidths", b, 0.0, above=True)) for b in bandwidths)
        self.normalize = checked_choice("normalize", normalize, (True, False))
        self.validate = checked_choice("validate", validate, (True, False))

    def extra_repr(self) -> str:
        """The settings, as `print(module)` shows them."""
        names = ("num_domains", "bandwidths", "normalize", "unbiased", "validate")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)

    def forward(self, z: Tensor, domains: Tensor) -> Tensor:
        """The penalty of embeddings z [N, k] and domains int [N]; unless `unbiased`, at least 0 up to rounding.

        Raises:
            ValueError: for shapes that do not agree, values that are not finite, or domains out of range.
        """
        if self.validate and not torch.compiler.is_compiling():
            check_embeddings(z, domains, self.num_domains, needed=True)
        with torch.autocast(z.device.type, enabled=False):
            z = widened(z)
            z = losses.directions(z) if self.normalize else z
            return losses.domain_mmd(z, domains.long(), self.num_domains, self.bandwidths, unbiased=self.unbiased)


class DomainAdversary(Tunable):
    """DANN's term (Ganin et al. 2016): a linear domain classifier that learns, and an encoder that is to undo it.

    Add the value to the loss and give this module's parameters to an optimiser: the classifier descends it, and its
    gradient reaches the embeddings times -lambda.

    Args:
        dim: k of the embeddings.
        num_domains: N_D, at least 2.
        lambda_: strength of the reversed gradient, >= 0; a number, a tensor or what is called for one.
        schedule: "constant", or "ganin": lambda rises from 0 with the training's progress.
        normalize: scale embeddings to unit length first. The losses beside it do not see an embedding's length, so that
            nothing would hold back reversed gradients, which make raw embeddings ever longer.
        validate: check inputs.

    Shape:
        z: [N, k]; domains: int [N]; the term: a scalar, the classifier's cross entropy in nats. Examples of an unknown
        domain, a negative number, do not count.
    """

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
        self.num_domains = int(checked_number("num_domains", num_domains, 2, integer=True))
        self.lambda_ = setting("lambda_", lambda_)
        self.schedule = checked_choice("schedule", schedule, ("constant", "ganin"))
        self.normalize = checked_choice("normalize", normalize, (True, False))
        self.classifier = nn.Linear(int(checked_number("dim", dim, 1, integer=True)), self.num_domains)
        self.validate = checked_choice("validate", validate, (True, False))

    def strength(self, progress: float | Tensor | None) -> float | Tensor:
        """Lambda, a number or [], after a share `progress` of the training, from 0 to 1.

        Raises:
            ValueError: if lambda is negative, or depends on the progress and there is none.
        """
        lambda_ = self.now("lambda_", self.classifier.weight, self.validate)
        if self.schedule == "constant":
            return lambda_
        if progress is None:
            raise ValueError('schedule="ganin" needs progress, the share of the training that is done.')
        return lambda_ * losses.annealed(progress)

    def extra_repr(self) -> str:
        """The settings, as `print(module)` shows them."""
        names = ("num_domains", "lambda_", "schedule", "normalize", "validate")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)

    def forward(self, z: Tensor, domains: Tensor, progress: float | Tensor | None = None) -> Tensor:
        """The classifier's cross entropy.

        Args:
            z: [N, k] embeddings.
            domains: int [N].
            progress: the share of the training that is done, needed by the schedule "ganin"; a 0-d tensor for a compiled
                module, which would be compiled anew for every other number.

        Raises:
            ValueError: for shapes that do not agree, values that are not finite, domains out of range, or progress that is
                outside [0, 1], or missing though needed.
        """
        if self.validate and not torch.compiler.is_compiling():
            check_embeddings(z, domains, self.num_domains, needed=True)
            if z.shape[-1] != self.classifier.in_features:
                raise ValueError(f"z must have {self.classifier.in_features} dimensions, got {tuple(z.shape)}.")
            if progress is not None:
                checked_number("progress", progress.item() if isinstance(progress, Tensor) else progress, 0.0, 1.0)
        with torch.autocast(z.device.type, enabled=False):
            z = z.to(self.classifier.weight.dtype)
            z = losses.directions(z) if self.normalize else z
            strength = torch.as_tensor(self.strength(progress), dtype=z.dtype, device=z.device)
            scale = strength.expand(z.shape[:-2])
            return losses.adversarial_loss(z, domains.long(), self.classifier.weight, self.classifier.bias, scale)
