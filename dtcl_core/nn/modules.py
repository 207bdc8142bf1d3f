"""The contrastive losses as `nn.Module`, for any encoder, any data and any number of domains: ``loss(z0, z1, domains)``.

A loss says which examples are anchors and which are their candidates; `candidates` computes the contrast. A domain-weighted
loss has a `weigher`, which asks a discriminator how likely two examples share a domain.

**Inputs.** Embeddings count by direction; one of all zeros has none, and gets no gradient. Domains are integers 0 ... N_D - 1,
and a negative number, such as -1, is an unknown domain. Domains, labels and ids may have any integer type, and lie on any device.

**Temperatures** are read at each call, and can be set later: ``loss.tau = 0.2``. Each is a number, a tensor (an `nn.Parameter` is
learned), a module that returns a tensor (a `LearnedTemperature` stays positive), or a schedule, which is a function without
arguments. For embeddings [R, N, k], a tensor [R] has a value for each run. A compiled loss takes new values without compiling
anew; its schedules must return numbers. Processes learn different temperatures (and weights of a `DomainAdversary`), unless
`DistributedDataParallel` wraps the loss too, or the gradients are averaged in another way.

**Checks.** Wrong options raise ValueError when they are set, wrong inputs at the call. Sizes of a queue or an adversary cannot change later. Checking values
reads from the device, which stalls a GPU. A compiled loss, or one with ``validate=False``, checks types and shapes alone: there a
temperature <= 0 in a tensor, or a domain of `num_domains` or more that is used, makes the loss or its gradient NaN. An unfavourable batch is no error: an anchor with one positive
and no negative has a loss of 0, and where domains are unknown or all alike, w_ij = 1 / N_D.

**torch.func.** `torch.func.grad` works, except with a `chunk_size` or a queue that fills itself. `torch.func.vmap` needs
``validate=False``, and a domain-weighted loss needs a given discriminator.

>>> loss_fn = DomainWeightedInfoNCELoss(tau_alpha=0.1, tau_beta=0.5, num_domains=2)
>>> z0, z1 = torch.eye(8), torch.eye(8).roll(1, 0) + torch.eye(8)
>>> round(loss_fn(z0, z1, torch.arange(8) % 2).item(), 3)
0.696
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from . import gather as processes
from .candidates import Anchors, Candidates, Temperatures, across_views, contrast, for_views, within_all
from .inputs import check_embeddings, check_integers, check_labels, warn, widened
from .monitor import Seen
from .queue import NegativeQueue
from .settings import Setting
from .weigher import HasPosterior, Weighed, Weigher

Views = Tensor | Sequence[Tensor]


class _Contrastive(Weighed):
    """The base of all losses: options, checks of the inputs, and the call of `candidates`."""

    settings: tuple[str, ...] = ("gather", "chunk_size", "reduction", "validate")
    own_domain = False  # whether negatives come from the anchor's own domain only
    usage = "loss(z0, z1, domains)"
    _check: Callable[..., None]  # of the inputs of a call, in the subclasses

    def __init__(self, weigher: Weigher | None, gather: bool, chunk_size: int | None, reduction: str, validate: bool):
        super().__init__()
        self.weigher = weigher
        self.gather = gather
        self.validate = validate
        self.reduction = reduction
        self.chunk_size = chunk_size
        self._seen: Seen | None = None

    @property
    def last(self) -> dict[str, float]:
        """Figures about the last eager call of a domain-weighted loss, to be logged; see `monitor.Seen.figures`.

        Empty before the first call, and for the other losses. A symmetric loss reports the anchors of z0.
        """
        return {} if self._seen is None else self._seen.figures(self.chunk_size)

    @property
    def needs_domains(self) -> bool:
        """Whether a call must give domains."""
        return self.own_domain or (self.weigher is not None and self.weigher.needs_domains)

    def _checked(
        self, z0: Tensor, z1: Views, domains: Tensor | None, **more: Any
    ) -> tuple[list[Tensor], Tensor | None, Temperatures]:
        """All views in float32 or better, domains in int64, and the present temperatures; checked in eager mode."""
        views = [z0, *z1] if not isinstance(z1, Tensor) and isinstance(z1, Sequence) else [z0, z1]
        if len(views) < 2:
            raise ValueError("z1 must be another view or several, got none.")

        values = self.validate and not torch.compiler.is_compiling()

        def check() -> Temperatures:
            self._check(views, domains, values=values, **more)
            return self._temperatures(widened(z0))

        beside = (domains, *more.values(), self.weigher and self.weigher.discriminator, *views[1:])
        tau = processes.check_alike(check, z0, self.gather, beside) if values else check()
        if domains is not None:  # copied: the caller may reuse it before `last` is read
            domains = domains.to(z0.device, torch.int64, copy=True)
        return [widened(z) for z in views], domains, tau

    def _check_views(self, views: list[Tensor], domains: Tensor | None, queue: Any = None, values: bool = True) -> None:
        """Raise ValueError for views and domains that make no sense; see `inputs.check_embeddings`."""
        z0, *others = views
        if domains is None and self.needs_domains:
            raise ValueError(f"{type(self).__name__} needs domains: call {self.usage}.")
        check_embeddings(z0, domains, None if self.weigher is None else self.weigher.num_domains, "z0", values=values)
        for i, z in enumerate(others, 1):
            check_embeddings(z, name=f"z{i}", values=values)
            if z0.shape != z.shape:
                raise ValueError(f"z0 and z{i} must share a shape [..., N, k], got {tuple(z0.shape)} and {tuple(z.shape)}.")
            if widened(z0).dtype != widened(z).dtype:
                raise ValueError(f"z0 and z{i} must share a dtype, got {z0.dtype} and {z.dtype}.")
        if self.gather and z0.dim() != 2:
            raise ValueError(f"gather needs embeddings [N, k], got {tuple(z0.shape)}.")
        if queue is None and z0.shape[-2] < 2 and not (self.gather and processes.active()):
            raise ValueError(f"a batch of {z0.shape[-2]} has no negatives to contrast with.")
        elsewhere = queue is not None or len(others) > 1 or (self.gather and processes.active())
        if self.own_domain and values and domains is not None and not elsewhere:
            known = domains.long()[domains.long() >= 0]
            if len(known.unique()) == len(known):
                warn("a batch holds no two examples of one known domain: no anchor has a negative, and nothing is learned.")

    def _temperatures(self, like: Tensor) -> Temperatures:
        """The present temperatures, each asked for once a call."""
        if self.weigher is None:
            return Temperatures(self.now("tau", like, self.validate))
        return self.weigher.temperatures(self.now("tau_alpha", like, self.validate), like, self.validate)

    def _contrast(
        self, views: list[Tensor], domains: Tensor | None, tau: Temperatures, sides: list[tuple[Anchors, Candidates]]
    ) -> Tensor:
        """The mean loss of several anchors against their candidates; a discriminator of the batch is fitted on all views."""
        weigher, each = self.weigher, []
        if weigher is not None:
            known = weigher.discriminator_for(torch.cat(views, -2), for_views(len(views), domains), self.gather, self.validate)
        for anchors, candidates in sides:
            if weigher is not None:
                anchors, candidates = weigher.weighed(anchors, candidates, known, self.gather, self.validate)
                if not torch.compiler.is_compiling() and not torch._C._are_functorch_transforms_active():
                    self._seen = Seen.of(anchors, candidates, tau)
            each.append(contrast(anchors, candidates, tau, self.chunk_size, own_domain=self.own_domain, reduction=self.reduction))
        return torch.stack(each).mean(0)


class _TwoViews(_Contrastive):
    """Anchors in one view, candidates in the other, in both, or in a queue."""

    settings = ("symmetric", "negatives", "queue", *_Contrastive.settings)

    def __init__(self, weigher: Weigher | None, symmetric: bool, negatives: str, queue: NegativeQueue | None, *shared: Any):
        super().__init__(weigher, *shared)
        self.symmetric = symmetric
        self.negatives = negatives
        self.queue = queue

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "queue":
            self._check_queue(value)
        super().__setattr__(name, value)

    def forward(
        self,
        z0: Tensor,
        z1: Views,
        domains: Tensor | None = None,
        *,
        queue: NegativeQueue | None = None,
        ids: Tensor | None = None,
    ) -> Tensor:
        """The loss of a batch, in nats.

        Args:
            z0, z1: [..., N, k] embeddings of two views; row i of both shows the same example. With ``negatives="both_views"``
                z1 may be a list of further views, all in one pool: an anchor's V - 1 other views are its positives.
            domains: int [N] (or [..., N]), negative where a domain is not known. `InfoNCELoss` itself uses none.
            queue: take negatives from this queue and not from the batch, as MoCo does. The loss does not fill it: `push` z1 (the
                momentum encoder's view) to it after the call. The default is the loss's own queue, filled in training mode.
            ids: int [N], the example that each row shows, negative where it is not known. Other rows of the batch or the queue
                that show an anchor's example are then no negatives of it.

        Raises:
            ValueError: for shapes that do not agree, values that are not finite, domains out of range, a batch of one
                without a queue, a temperature that is not positive, or more than two views without ``negatives="both_views"``.
        """
        own = queue is None and self.queue is not None
        queue = self.queue if queue is None else queue
        views, domains, tau = self._checked(z0, z1, domains, queue=queue, ids=ids, own=own)
        one_pool = self.negatives == "both_views"
        if len(views) > 2 and not one_pool:
            raise ValueError(f'{len(views)} views make one pool: they need negatives="both_views".')
        ids = None if ids is None else ids.to(z0.device, torch.int64, copy=True)
        if one_pool:
            sides = [within_all(views, processes.rows_of(z0, self.gather), domains, ids, self.gather)]
        else:
            ways = [(views[1], views[0]), (views[0], views[1])] if self.symmetric else [(views[0], views[1])]
            sides = [across_views(z, other, domains, ids, self.gather, queue) for z, other in ways]
        total = self._contrast(views, domains, tau, sides)
        if own and queue is not None and self.training:
            queue.push(views[1], domains, ids, gather=self.gather)
        return total

    def _check(self, views: list[Tensor], domains: Tensor | None, queue: Any, ids: Any, own: bool, values: bool = True) -> None:
        self._check_queue(queue)
        self._check_views(views, domains, queue, values)
        if queue is not None and queue.dim != views[0].shape[-1]:
            raise ValueError(f"the queue holds embeddings of {queue.dim} dimensions, z0 has {views[0].shape[-1]}.")
        if own and self.training and views[0].dim() > 2:
            raise ValueError(f"a loss fills its own queue with one run, [N, k]; z0 is {[*views[0].shape]}.")
        if ids is not None:
            check_integers("ids", ids, views[0].shape[-2:-1], values=values)

    def _check_queue(self, queue: Any) -> None:
        """Raise ValueError unless negatives can be taken from the queue, if there is one."""
        if queue is not None and not isinstance(queue, NegativeQueue):
            raise ValueError(f"queue must be a NegativeQueue, got {type(queue).__name__}.")
        if queue is not None and self.negatives == "both_views":
            raise ValueError('a queue takes the place of the batch\'s negatives: negatives="both_views" has no use for it.')


class InfoNCELoss(_TwoViews):
    """InfoNCE between two views (Eq. 2): row i of one view against all rows of the other.

    Args:
        tau: temperature, > 0; see Temperatures in this module's first lines.
        symmetric: average both directions. False takes z0 as the anchors, as the paper does. With ``negatives="both_views"``,
            where both views are anchors, it has no effect.
        negatives: "other_view" contrasts an anchor with the N - 1 others of the other view. "both_views" takes both views as
            anchors, and all 2 N - 2 others as negatives: SimCLR's NT-Xent.
        queue: a `NegativeQueue`. Negatives come from it, and in training mode each call fills it with z1.
        gather: contrast with the embeddings of all processes of `torch.distributed`. All of them must call the loss, in
            validation too: one alone would wait for the others.
        chunk_size: anchors computed at a time, for large batches; see `candidates.contrast`.
        reduction: "mean", or "none" for the loss of each anchor (`symmetric`: the mean of both directions of each row).
        validate: check inputs; see Checks in this module's first lines.

    Shape:
        z0, z1: [N, k] (or [..., N, k]: independent runs); domains: int [N]; the loss: a scalar (or [...]), for "none" [..., N],
        with negatives of both views [..., 2 N] (of V views [..., V N]).
    """

    settings = ("tau", *_TwoViews.settings)

    def __init__(
        self,
        tau: Setting = 0.1,
        *,
        symmetric: bool = False,
        negatives: str = "other_view",
        queue: NegativeQueue | None = None,
        gather: bool = False,
        chunk_size: int | None = None,
        reduction: str = "mean",
        validate: bool = True,
    ):
        super().__init__(None, symmetric, negatives, queue, gather, chunk_size, reduction, validate)
        self.tau = tau


class SameDomainInfoNCELoss(InfoNCELoss):
    """InfoNCE whose negatives come from the anchor's own domain only (the baseline "Same Domain Negatives").

    Args and Shape: as for `InfoNCELoss`. Domains are needed. An anchor without a negative, such as one of unknown domain,
    contributes 0 to the mean, unless more than two views give it several positives, which contrast with each other.
    """

    own_domain = True


class DomainWeightedInfoNCELoss(_TwoViews):
    """The paper's loss (Eq. 4): negatives that seem to share the anchor's domain get a lower temperature.

    Args:
        tau_alpha: temperature of positives, and of negatives about whose domain nothing is known; > 0.
        tau_beta: how far the probability w_ij of sharing a domain moves a negative's temperature, >= 0. At 0 this is
            `InfoNCELoss`, unless tau_min is above tau_alpha. If tau_beta (1 - 1 / N_D) exceeds tau_alpha - tau_min, tau_min is
            the temperature of pairs that surely share a domain.
        num_domains: N_D, how many domains occur in training, at least 2; they are 0 ... N_D - 1. Too large a number is not noticed, and
            lowers temperatures.
        weighting: "negatives" takes the anchor's domain as known, "pairs" takes neither domain as known; see
            `discriminator.same_domain_probability`.
        tau_min: lower bound of negatives' temperatures, > 0; the default, 0.05, is that of the book's runs. Keep tau_alpha at
            least as high: a call warns otherwise, unless it is compiled or `validate` is false.
        discriminator: an object with `predict_proba`, such as a `LinearDiscriminator`; fit it to all embeddings once an epoch
            ("global"). With `gather` it must be the same on all processes. One of your own is given embeddings detached, not
            scaled to length 1. An `nn.Module` becomes a part of the loss, which saves it and sets its training mode, but never trains it.
            None fits a linear one on both views of each batch ("batch"); the cost is linear in N, k and N_D.
        l2: penalty of the one fitted on each batch, > 0; scikit-learn's 1 / C.
        features: what the one fitted on each batch sees of an embedding, "l2" or "raw"; see `discriminators`.
        symmetric, negatives, queue, gather, chunk_size, reduction, validate: as for `InfoNCELoss`.

    Shape:
        As for `InfoNCELoss`. "pairs" needs no domains if a discriminator is given.

    No gradient flows into the discriminator or through its posteriors.
    """

    settings = ("tau_alpha", *_TwoViews.settings)

    def __init__(
        self,
        tau_alpha: Setting = 0.1,
        tau_beta: Setting = 0.1,
        *,
        num_domains: int,
        weighting: str = "negatives",
        tau_min: Setting = 0.05,
        discriminator: HasPosterior | None = None,
        l2: float = 1.0,
        features: str = "l2",
        symmetric: bool = False,
        negatives: str = "other_view",
        queue: NegativeQueue | None = None,
        gather: bool = False,
        chunk_size: int | None = None,
        reduction: str = "mean",
        validate: bool = True,
    ):
        weigher = Weigher(tau_beta, tau_min, num_domains, weighting, discriminator, l2, features)
        super().__init__(weigher, symmetric, negatives, queue, gather, chunk_size, reduction, validate)
        self.tau_alpha = tau_alpha


class _Supervised(_Contrastive):
    """All views are anchors and candidates; examples of a class are each other's positives."""

    usage = "loss(z0, z1, labels, domains)"

    def forward(self, z0: Tensor, z1: Views, labels: Tensor | None = None, domains: Tensor | None = None) -> Tensor:
        """The loss of a batch, in nats: the mean over the V N anchors of V views.

        Args:
            z0, z1: [N, k] embeddings of two views; z1 may be a list of further ones. From views [N, V, k], take
                ``z0, *others = views.unbind(1)``, and call ``loss(z0, others, labels)``.
            labels: int [N] classes, >= 0; needed.
            domains: int [N], negative where a domain is not known; needed by the domain-weighted loss.

        Raises:
            ValueError: as for `InfoNCELoss`, and for labels that are missing or no classes [N].
        """
        views, domains, tau = self._checked(z0, z1, domains, labels=labels)
        assert labels is not None  # they were checked
        labels = labels.to(z0.device, torch.int64)
        return self._contrast(views, domains, tau, [within_all(views, labels, domains, None, self.gather)])

    def _check(self, views: list[Tensor], domains: Tensor | None, labels: Any, values: bool = True) -> None:
        if labels is None:
            third = "; labels are the third argument" * (isinstance(views[1], Tensor) and views[1].dim() == 1)
            raise ValueError(f"{type(self).__name__} needs labels: call {self.usage}{third}.")
        self._check_views(views, domains, values=values)
        check_labels(views[0], labels, values)


class SupConLoss(_Supervised):
    """Supervised contrast (Khosla et al. 2020, L_out): all examples of an anchor's class, in all views, are its positives.

    Args:
        tau, gather, chunk_size, reduction, validate: as for `InfoNCELoss`. With `gather`, labels mean the same everywhere.

    Shape:
        z0, z1: [N, k]; labels: int [N], >= 0; domains: int [N]; the loss: a scalar, for "none" [2 N] (of V views [V N]).

    With labels all different this is `InfoNCELoss` with ``negatives="both_views"``.
    """

    usage = "loss(z0, z1, labels)"

    settings = ("tau", *_Supervised.settings)

    def __init__(
        self,
        tau: Setting = 0.1,
        *,
        gather: bool = False,
        chunk_size: int | None = None,
        reduction: str = "mean",
        validate: bool = True,
    ):
        super().__init__(None, gather, chunk_size, reduction, validate)
        self.tau = tau


class DomainWeightedSupConLoss(_Supervised):
    """`SupConLoss` whose negatives have the paper's temperatures (Eq. 3); the same at tau_beta 0, unless tau_min is above tau_alpha.

    Args:
        tau_alpha ... features: as for `DomainWeightedInfoNCELoss`.
        gather, chunk_size, reduction, validate: as for `InfoNCELoss`.

    Shape:
        As for `SupConLoss`.
    """

    settings = ("tau_alpha", *_Supervised.settings)

    def __init__(
        self,
        tau_alpha: Setting = 0.1,
        tau_beta: Setting = 0.1,
        *,
        num_domains: int,
        weighting: str = "negatives",
        tau_min: Setting = 0.05,
        discriminator: HasPosterior | None = None,
        l2: float = 1.0,
        features: str = "l2",
        gather: bool = False,
        chunk_size: int | None = None,
        reduction: str = "mean",
        validate: bool = True,
    ):
        weigher = Weigher(tau_beta, tau_min, num_domains, weighting, discriminator, l2, features)
        super().__init__(weigher, gather, chunk_size, reduction, validate)
        self.tau_alpha = tau_alpha
