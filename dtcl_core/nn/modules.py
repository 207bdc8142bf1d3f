"""The losses as `nn.Module`, for any encoder, any data and any number of domains: ``loss(z0, z1, domains)``.

They are thin: an objective says who the anchors and the candidates are, and `candidates` does the rest. Domains are
integers 0 ... N_D - 1. What makes no sense raises ValueError, in one readable sentence: options always, inputs unless the
module is compiled or was made with ``validate=False`` (a check reads from the device, which stalls a GPU for a moment).
Embeddings count by direction; one of all zeros has none, and a huge gradient.

>>> loss_fn = DomainWeightedInfoNCELoss(tau_alpha=0.1, tau_beta=0.5, num_domains=2)
>>> z0, z1 = torch.eye(8), torch.eye(8).roll(1, 0) + torch.eye(8)
>>> round(loss_fn(z0, z1, torch.arange(8) % 2).item(), 3)
0.696
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .. import logistic
from ..checks import checked_choice, checked_number
from . import gather as processes
from .candidates import Anchors, Candidates, NegativeQueue, Temperatures, contrast
from .discriminators import check_embeddings, check_labels, widened

# Beliefs of anchors and posteriors of candidates, from anchors [N, k], their domains [N] and candidates [M, k].
Weigher = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


class HasPosterior(Protocol):
    """Anything with `predict_proba`: `discriminators`, or your own."""

    def predict_proba(self, z: Tensor, /) -> Tensor:
        """Domain posteriors [N, D] of embeddings [N, k]."""


@torch.library.custom_op(
    "dtcl::fit_linear", mutates_args=(), schema="(Tensor z, Tensor domains, int d, float l2) -> (Tensor, Tensor)"
)
def _fit_linear(z: Tensor, domains: Tensor, d: int, l2: float) -> tuple[Tensor, Tensor]:
    # One node for `torch.compile`, which could not follow a solver that stops when it is done.
    model = logistic.fit(z, domains, d, l2)
    return model.weight.clone(), model.bias.clone()


@_fit_linear.register_fake
def _(z: Tensor, domains: Tensor, d: int, l2: float) -> tuple[Tensor, Tensor]:
    return z.new_empty(*z.shape[:-2], d, z.shape[-1]), z.new_empty(*z.shape[:-2], d)


class _Contrastive(nn.Module):
    """What all the losses share: their options, and checks of what they are given."""

    uses_domains = False

    def __init__(self, temperatures: Temperatures, gather: bool, chunk_size: int | None, validate: bool):
        super().__init__()
        self.temperatures = temperatures
        self.gather = checked_choice("gather", gather, (True, False))
        self.validate = checked_choice("validate", validate, (True, False))
        self.chunk_size = None if chunk_size is None else int(checked_number("chunk_size", chunk_size, 1, integer=True))

    def _checked(
        self,
        z0: Tensor,
        z1: Tensor,
        domains: Tensor | None,
        usage: str,
        queue: NegativeQueue | None = None,
        labels: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Both views in float32 or better, after a look at them in eager mode."""
        if self.validate and not torch.compiler.is_compiling():
            problem = None
            try:
                self._check(z0, z1, domains, usage, queue)
                if isinstance(self, SupConLoss):
                    check_labels(z0, labels)
            except ValueError as error:
                problem = error
            processes.check_alike(z0, problem, self.gather)
        return widened(z0), widened(z1)

    def _check(self, z0: Tensor, z1: Tensor, domains: Tensor | None, usage: str, queue: NegativeQueue | None) -> None:
        """Raise ValueError for inputs that make no sense."""
        if isinstance(z0, Tensor) and isinstance(z1, Tensor) and z0.shape != z1.shape:
            raise ValueError(f"z0 and z1 must share a shape [..., N, k], got {tuple(z0.shape)} and {tuple(z1.shape)}.")
        if domains is None and self.uses_domains:
            raise ValueError(f"{type(self).__name__} needs domains: call {usage}.")
        check_embeddings(z0, domains, self.temperatures.num_domains if self.weighs else None, "z0")
        check_embeddings(z1, name="z1")
        if z0.dtype != z1.dtype:
            raise ValueError(f"z0 and z1 must share a dtype, got {z0.dtype} and {z1.dtype}.")
        if self.gather and z0.dim() != 2:
            raise ValueError(f"gather needs embeddings [N, k], got {tuple(z0.shape)}.")
        if queue is not None and not isinstance(queue, NegativeQueue):
            raise ValueError(f"queue must be a NegativeQueue, got {type(queue).__name__}.")
        if queue is not None and queue.z.shape[-1] != z0.shape[-1]:
            raise ValueError(f"the queue holds embeddings of {queue.z.shape[-1]} dimensions, z0 has {z0.shape[-1]}.")
        negatives = int(queue.filled.sum()) if queue is not None else z0.shape[-2] - 1
        if negatives < 1 and (queue is not None or not (self.gather and processes.active())):
            held = "an empty queue" if queue is not None else f"a batch of {z0.shape[-2]}"
            raise ValueError(f"{held} has no negatives to contrast with.")

    def _weigher(self, z: Tensor, domains: Tensor | None) -> Weigher | None:
        """What gives the beliefs and posteriors that w_ij is made of; None where temperatures do not depend on domains.

        Args:
            z: [..., N, k] embeddings that a batch-level discriminator is fitted to.
            domains: [..., N] their domains.
        """
        return None

    @property
    def weighs(self) -> bool:
        """Whether temperatures depend on domains."""
        return isinstance(self, _DomainWeighted)

    def extra_repr(self) -> str:
        """The settings, as `print(module)` shows them."""
        t = self.temperatures
        told = [f"weighting={self.weighting!r}", *(f"{n}={v!r}" for n, v in vars(t).items())] if self.weighs else []
        told = told or [f"tau={t.tau_alpha!r}"]
        names = ("symmetric", "gather", "chunk_size")
        return ", ".join(told + [f"{name}={getattr(self, name)!r}" for name in names if hasattr(self, name)])


class _TwoViews(_Contrastive):
    """Anchors in one view, candidates in the other, or in a queue."""

    def __init__(
        self, temperatures: Temperatures, symmetric: bool, gather: bool, chunk_size: int | None, validate: bool
    ):
        super().__init__(temperatures, gather, chunk_size, validate)
        self.symmetric = checked_choice("symmetric", symmetric, (True, False))

    def forward(
        self, z0: Tensor, z1: Tensor, domains: Tensor | None = None, *, queue: NegativeQueue | None = None
    ) -> Tensor:
        """The loss of a batch, in nats.

        Args:
            z0, z1: [..., N, k] embeddings of two views; row i of both shows the same example.
            domains: int [N] (or [..., N]) domain of each example.
            queue: take negatives from there and not from the batch, as MoCo does; `push` z1 (the momentum encoder's
                view) to it afterwards.

        Raises:
            ValueError: for shapes that do not agree, values that are not finite, domains out of range, a batch without a
                negative, or one of a single domain where a discriminator is to be fitted on it.
        """
        z0, z1 = self._checked(z0, z1, domains, "loss(z0, z1, domains)", queue)
        views = [(z0, z1), (z1, z0)] if self.symmetric else [(z0, z1)]
        twice = None if domains is None else torch.cat([domains, domains], -1)
        weigh = self._weigher(torch.cat([z0, z1], -2), twice)
        total = torch.stack([self._one_way(z, other, domains, queue, weigh) for z, other in views])
        return total.mean(0)

    def _one_way(
        self, z: Tensor, z_pos: Tensor, domains: Tensor | None, queue: NegativeQueue | None, weigh: Weigher | None
    ) -> Tensor:
        place = torch.arange(z.shape[-2], device=z.device)
        known = domains if self.uses_domains else None
        is_negative = None
        if queue is not None:
            others = queue.z.to(z_pos).expand(*z_pos.shape[:-2], -1, -1)
            pool, owners = torch.cat([z_pos, others], -2), known
            queued, filled = queue.domains.to(z.device), queue.filled.to(z.device)
            identity = torch.cat([place, torch.full_like(queued, -1)])
            is_negative = torch.cat([torch.zeros_like(place, dtype=torch.bool), filled])
            if known is not None:
                owners = torch.cat([known, queued.expand(*known.shape[:-1], -1)], -1)
        elif self.gather:
            pool, owners = processes.all_gather(z_pos), None if known is None else processes.all_gather(known)
            identity = torch.arange(pool.shape[0], device=z.device)
            place = place + processes.rank() * z.shape[0]
        else:
            pool, owners, identity = z_pos, known, place
        belief = posterior = None
        if weigh is not None and known is not None:  # what is believed of domains, in place of the domains themselves
            belief, posterior = weigh(z, known, pool)
            known = owners = None
        anchors = Anchors(z, place, domains=known, belief=belief)
        candidates = Candidates(pool, identity, is_negative, domains=owners, posterior=posterior)
        return contrast(anchors, candidates, self.temperatures, self.chunk_size)


class InfoNCELoss(_TwoViews):
    """InfoNCE between two views (Eq. 2): row i of one view against all rows of the other.

    Args:
        tau: temperature, > 0.
        symmetric: average both directions; False takes z0 as the anchors, as the paper does.
        gather: contrast with the embeddings of all processes of `torch.distributed`.
        chunk_size: anchors computed at a time, for large batches; see `candidates.contrast`.
        validate: check inputs; see this module's first lines.

    Shape:
        z0, z1: [N, k] (or [..., N, k]: independent runs); domains: int [N]; the loss: a scalar (or [...]).
    """

    def __init__(
        self,
        tau: float = 0.1,
        *,
        symmetric: bool = False,
        gather: bool = False,
        chunk_size: int | None = None,
        validate: bool = True,
    ):
        tau = float(checked_number("tau", tau, 0.0, above=True))
        super().__init__(Temperatures(tau), symmetric, gather, chunk_size, validate)


class SameDomainInfoNCELoss(InfoNCELoss):
    """InfoNCE whose negatives come from the anchor's own domain only (the baseline "Same Domain Negatives").

    Args and Shape: as for `InfoNCELoss`; domains are needed. An anchor without a negative contributes 0 to the mean.
    """

    uses_domains = True

    def _check(self, z0: Tensor, z1: Tensor, domains: Tensor | None, usage: str, queue: NegativeQueue | None) -> None:
        super()._check(z0, z1, domains, usage, queue)
        assert domains is not None
        ordered = domains.sort(-1).values
        shared = bool((ordered[..., 1:] == ordered[..., :-1]).any()) or (self.gather and processes.active())
        if not shared if queue is None else not bool(torch.isin(domains, queue.domains[queue.filled]).any()):
            raise ValueError("no example has a negative of its own domain.")


def _adaptive(tau_alpha: float, tau_beta: float, tau_min: float, num_domains: int) -> Temperatures:
    """Checked `Temperatures` of Eq. 3."""
    return Temperatures(
        float(checked_number("tau_alpha", tau_alpha, 0.0, above=True)),
        float(checked_number("tau_beta", tau_beta, 0.0)),
        float(checked_number("tau_min", tau_min, 0.0, above=True)),
        int(checked_number("num_domains", num_domains, 2, integer=True)),
    )


class _DomainWeighted(_Contrastive):
    """Weights w_ij from a discriminator that is given or fitted on each batch."""

    uses_domains = True

    def _weigh_by(self, weighting: str, discriminator: HasPosterior | None, l2: float) -> None:
        self.weighting = checked_choice("weighting", weighting, ("negatives", "pairs"))
        self.l2 = float(checked_number("l2", l2, 0.0, above=True))
        usable = callable(getattr(discriminator, "predict_proba", None)) and not isinstance(discriminator, type)
        if discriminator is not None and not usable:
            raise ValueError(f"discriminator must be an object with predict_proba(z), got {discriminator!r}.")
        self.discriminator = discriminator

    def _weigher(self, z: Tensor, domains: Tensor | None) -> Weigher:
        assert domains is not None  # `_checked` asked for them
        predict = self._fitted(z.detach(), domains.long()) if self.discriminator is None else self.discriminator
        num_domains = self.temperatures.num_domains

        def posterior(other: Tensor) -> Tensor:
            with torch.no_grad(), torch.autocast(other.device.type, enabled=False):
                q = predict.predict_proba(other.detach())
            if not isinstance(q, Tensor):
                raise ValueError(f"predict_proba of the discriminator must return a tensor, got {type(q).__name__}.")
            if q.shape[-1] != num_domains:
                raise ValueError(f"the discriminator knows {q.shape[-1]} domains, the loss {num_domains}.")
            if self.validate and self.discriminator is not None and not torch.compiler.is_compiling():
                sound = bool(((q.sum(-1) - 1).abs() < 1e-2).all()) and not bool((q < 0).any())
                told = "predict_proba of the discriminator must return probabilities that sum to 1."
                processes.check_alike(other, None if sound else ValueError(told), self.gather)
            return q.to(other.dtype)

        def weigh(z: Tensor, known: Tensor, pool: Tensor) -> tuple[Tensor, Tensor]:
            if self.weighting == "pairs":
                return posterior(z), posterior(pool)
            return F.one_hot(known.long(), num_domains).to(z.dtype).expand(*z.shape[:-1], -1), posterior(pool)

        return weigh

    def _fitted(self, z: Tensor, domains: Tensor) -> logistic.LogisticModel:
        """A linear discriminator of the batch, or with `gather` of all processes' batches."""
        if self.gather:
            z, domains = processes.all_gather(z), processes.all_gather(domains)
        single = (domains == domains[..., :1]).all(-1)
        if self.validate and not torch.compiler.is_compiling() and bool(single.any()):
            raise ValueError(
                f"all examples are of domain {int(domains[..., 0][single][0])}: a discriminator fitted on this batch knows "
                "no other; give one that was fitted on more (discriminator=...)."
            )
        return logistic.LogisticModel(*_fit_linear(z, domains, self.temperatures.num_domains, self.l2))


class DomainWeightedInfoNCELoss(_DomainWeighted, _TwoViews):
    """The paper's loss (Eq. 4): negatives that seem to share the anchor's domain get a lower temperature.

    Args:
        tau_alpha: temperature of positives, and of negatives about whose domain nothing is known; > 0.
        tau_beta: how far the probability w_ij of sharing a domain moves a negative's temperature, >= 0; at 0 this is
            `InfoNCELoss` (unless tau_min is above tau_alpha). Where tau_beta (1 - 1 / N_D) is about tau_alpha or more,
            tau_min sets the temperature of pairs that surely share a domain.
        num_domains: N_D, the number of training domains, at least 2.
        weighting: "negatives" takes the anchor's domain as known, "pairs" neither; see
            `discriminator.same_domain_probability`.
        tau_min: lower bound of temperatures, > 0.
        discriminator: has `predict_proba`, such as `discriminators.LinearDiscriminator`; fit it to all embeddings once an
            epoch ("global"). It sees embeddings as they are, not their directions, and with `gather` must be the same on
            all processes. None fits a linear one on both views of each batch ("batch"): that needs two domains in every
            batch (``drop_last=True`` where the last is small) and solves for (N_D - 1) (k + 1) unknowns each time,
            which wide embeddings make slow.
        l2: its penalty in that case; scikit-learn's 1 / C.
        symmetric, gather, chunk_size, validate: as for `InfoNCELoss`.

    Shape:
        z0, z1: [N, k] (or [..., N, k]: independent runs); domains: int [N]; the loss: a scalar (or [...]).

    No gradient flows into the discriminator or through its posteriors.
    """

    def __init__(
        self,
        tau_alpha: float = 0.1,
        tau_beta: float = 0.1,
        *,
        num_domains: int,
        weighting: str = "negatives",
        tau_min: float = 0.01,
        discriminator: HasPosterior | None = None,
        l2: float = 1.0,
        symmetric: bool = False,
        gather: bool = False,
        chunk_size: int | None = None,
        validate: bool = True,
    ):
        adaptive = _adaptive(tau_alpha, tau_beta, tau_min, num_domains)
        _TwoViews.__init__(self, adaptive, symmetric, gather, chunk_size, validate)
        self._weigh_by(weighting, discriminator, l2)


class SupConLoss(_Contrastive):
    """Supervised contrast (Khosla et al. 2020, L_out): all examples of an anchor's class are its positives, in both views.

    Args:
        tau: temperature, > 0.
        gather, chunk_size, validate: as for `InfoNCELoss`.

    Shape:
        z0, z1: [N, k]; labels: int [N], >= 0; domains: int [N]; the loss: a scalar.

    With labels all different, ``torch.arange(N)``, this is SimCLR's NT-Xent, whose negatives come from both views. With
    `gather`, labels mean the same on all processes: add ``N * rank`` to those.
    """

    def __init__(self, tau: float = 0.1, *, gather: bool = False, chunk_size: int | None = None, validate: bool = True):
        super().__init__(Temperatures(float(checked_number("tau", tau, 0.0, above=True))), gather, chunk_size, validate)

    def forward(self, z0: Tensor, z1: Tensor, labels: Tensor, domains: Tensor | None = None) -> Tensor:
        """The loss of a batch, in nats: the mean over the 2 N anchors.

        Args:
            z0, z1: [N, k] embeddings of two views.
            labels: int [N] classes.
            domains: int [N] domain of each example; needed by the domain-weighted loss.

        Raises:
            ValueError: for shapes that do not agree, values that are not finite, labels or domains out of range, or a batch
                of a single domain where a discriminator is to be fitted on it.
        """
        z0, z1 = self._checked(z0, z1, domains, "loss(z0, z1, labels, domains)", labels=labels)
        z, identity = torch.cat([z0, z1], -2), torch.cat([labels, labels])
        known = None if domains is None else torch.cat([domains, domains])
        pool, ids = z, identity
        itself = torch.arange(z.shape[-2], device=z.device)
        if self.gather:
            pool, ids = processes.all_gather(z), processes.all_gather(identity)
            itself = itself + processes.rank() * z.shape[0]
        weigh = self._weigher(z, known)
        belief, posterior = (None, None) if weigh is None or known is None else weigh(z, known, pool)
        anchors = Anchors(z, identity, itself, belief=belief)
        return contrast(anchors, Candidates(pool, ids, posterior=posterior), self.temperatures, self.chunk_size)


class DomainWeightedSupConLoss(_DomainWeighted, SupConLoss):
    """`SupConLoss` whose negatives have the paper's temperatures; at tau_beta = 0 it is `SupConLoss`.

    Args:
        tau_alpha, tau_beta, num_domains, weighting, tau_min, discriminator, l2: as for `DomainWeightedInfoNCELoss`.
        gather, chunk_size, validate: as for `InfoNCELoss`.

    Shape:
        z0, z1: [N, k]; labels: int [N], >= 0; domains: int [N]; the loss: a scalar.
    """

    def __init__(
        self,
        tau_alpha: float = 0.1,
        tau_beta: float = 0.1,
        *,
        num_domains: int,
        weighting: str = "negatives",
        tau_min: float = 0.01,
        discriminator: HasPosterior | None = None,
        l2: float = 1.0,
        gather: bool = False,
        chunk_size: int | None = None,
        validate: bool = True,
    ):
        adaptive = _adaptive(tau_alpha, tau_beta, tau_min, num_domains)
        _Contrastive.__init__(self, adaptive, gather, chunk_size, validate)
        self._weigh_by(weighting, discriminator, l2)
