"""The losses as `nn.Module`, for any encoder, any data and any number of domains: ``loss(z0, z1, domains)``.

They are thin: each says who the anchors and the candidates are, and `candidates` does the rest; the domain-weighted ones have a
`weigher`, which asks a discriminator. Domains are integers 0 ... N_D - 1; a negative number (-1, or another library's
ignore_index) is an unknown domain. Domains, labels and ids may have any integer type. Embeddings count by direction; one of
all zeros has none, and gets no gradient.

Temperatures are read at each call: set ``loss.tau`` to another number as training goes on, or give a tensor (an
`nn.Parameter` is then learned with the loss's parameters), a `LearnedTemperature`, which stays positive, or a schedule, which is
called without arguments. A compiled loss takes new numbers without compiling anew; a schedule must answer it with a number.
In several processes what is learned belongs to each loss: unless the module that `DistributedDataParallel` wraps holds the
loss too (or its parameters' gradients are averaged), learned temperatures, like a `DomainAdversary`'s classifier, come to
differ between processes.

What makes no sense raises ValueError, in one readable sentence: options always, inputs unless the module is compiled or was
made with ``validate=False`` (a check reads from the device, which stalls a GPU for a moment). What is only unfavourable means
the same everywhere: an anchor without a negative has a loss of 0, and where domains are unknown or all alike, w_ij = 1 / N_D.

`torch.func.grad` goes through the losses, but PyTorch refuses it a `chunk_size` and a queue that fills itself. Under
`torch.func.vmap` no value can be read: it needs ``validate=False`` and, where the loss is domain-weighted, a discriminator that is
given; a ValueError says so.

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

from ..checks import checked_choice, checked_number
from . import gather as processes
from .candidates import Anchors, Candidates, Temperatures, across_queue, across_views, contrast, for_all, within_all
from .inputs import check_embeddings, check_integers, check_labels, widened
from .monitor import Seen
from .queue import NegativeQueue
from .settings import Setting, Tunable, setting
from .weigher import HasPosterior, Weigher

REDUCTIONS = ("mean", "none")
Views = Tensor | Sequence[Tensor]


class _Contrastive(Tunable):
    """What all the losses share: their options, checks of what they are given, and the way to `candidates`.

    A setting of the weigher can be read and set on the loss as well.
    """

    settings: tuple[str, ...] = ()
    own_domain = False  # whether negatives come from the anchor's own domain only
    weigher: Weigher | None

    def __init__(self, weigher: Weigher | None, gather: bool, chunk_size: int | None, reduction: str, validate: bool):
        super().__init__()
        self.weigher = weigher
        self.gather = checked_choice("gather", gather, (True, False))
        self.validate = checked_choice("validate", validate, (True, False))
        self.reduction = checked_choice("reduction", reduction, REDUCTIONS)
        self.chunk_size = None if chunk_size is None else int(checked_number("chunk_size", chunk_size, 1, integer=True))
        self._seen: Seen | None = None

    def __getattr__(self, name: str) -> Any:
        if name in Weigher.settings and self.__dict__["_modules"].get("weigher") is not None:
            return getattr(self.weigher, name)
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in Weigher.settings:
            setattr(self.weigher, name, value)
        else:
            super().__setattr__(name, value)

    def extra_repr(self) -> str:
        """The settings, as `print(module)` shows them."""
        names = [*self.settings, "gather", "chunk_size", "reduction", "validate"]
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names if name not in self._modules)

    @property
    def last(self) -> dict[str, float]:
        """Figures of the last eager call of a domain-weighted loss, to be logged; see `monitor.Seen.figures`.

        They are computed when they are asked for, from what was fitted then. Empty before the first call, and for the losses
        without a weigher. Of a symmetric loss, those of the anchors of z0.
        """
        return {} if self._seen is None else self._seen.figures(self.chunk_size)

    @property
    def needs_domains(self) -> bool:
        """Whether a call must give domains."""
        return self.own_domain or (self.weigher is not None and self.weigher.needs_domains)

    def _checked(
        self,
        z0: Tensor,
        z1: Views,
        domains: Tensor | None,
        usage: str,
        more: Callable[[], None],
        ids: Tensor | None = None,
    ) -> tuple[list[Tensor], Tensor | None, Temperatures]:
        """All views in float32 or better, domains in int64, and the temperatures of now; in eager mode after a look at them.

        Args:
            more: checks what else was given.
            ids: what else will be exchanged, if anything.
        """
        views = [z0, *z1] if not isinstance(z1, Tensor) and isinstance(z1, Sequence) else [z0, z1]
        if not self.validate or torch.compiler.is_compiling():
            tau = self._temperatures(widened(z0))
        else:
            problem, tau = None, Temperatures(torch.nan)
            try:
                self._check(views, domains, usage)
                more()
                tau = self._temperatures(widened(z0))
            except ValueError as error:
                problem = error
            processes.check_alike(z0, problem, self.gather, (domains, ids, *views[1:]))
        return [widened(z) for z in views], None if domains is None else domains.long(), tau

    def _check(self, views: list[Tensor], domains: Tensor | None, usage: str) -> None:
        """Raise ValueError for inputs that make no sense."""
        z0, *others = views
        if not others:
            raise ValueError("z1 must be another view or several, got none.")
        if domains is None and self.needs_domains:
            raise ValueError(f"{type(self).__name__} needs domains: call {usage}.")
        check_embeddings(z0, domains, None if self.weigher is None else self.weigher.num_domains, "z0")
        for i, z in enumerate(others, 1):
            check_embeddings(z, name=f"z{i}")
            if z0.shape != z.shape:
                raise ValueError(f"z0 and z{i} must share a shape [..., N, k], got {tuple(z0.shape)} and {tuple(z.shape)}.")
            if z0.dtype != z.dtype:
                raise ValueError(f"z0 and z{i} must share a dtype, got {z0.dtype} and {z.dtype}.")
        if self.gather and z0.dim() != 2:
            raise ValueError(f"gather needs embeddings [N, k], got {tuple(z0.shape)}.")

    def _check_size(self, z0: Tensor) -> None:
        if z0.shape[-2] < 2 and not (self.gather and processes.active()):
            raise ValueError(f"a batch of {z0.shape[-2]} has no negatives to contrast with.")

    def _temperatures(self, like: Tensor) -> Temperatures:
        """The settings as they stand now, each asked once a call."""
        if self.weigher is None:
            return Temperatures(self.now("tau", like, self.validate))
        return self.weigher.temperatures(self.now("tau_alpha", like, self.validate), like, self.validate)

    def _predictor(self, views: list[Tensor], domains: Tensor | None) -> HasPosterior | None:
        """What the weigher asks for domains; one that is fitted on the batch sees all views."""
        if self.weigher is None:
            return None
        return self.weigher.predictor(torch.cat(views, -2), for_all(views, domains), self.gather, self.validate)

    def _contrast(
        self, anchors: Anchors, candidates: Candidates, tau: Temperatures, predict: HasPosterior | None
    ) -> Tensor:
        if self.weigher is not None and predict is not None:
            anchors, candidates = self.weigher.weighed(anchors, candidates, predict, self.gather, self.validate)
            if not torch.compiler.is_compiling():
                self._seen = Seen.of(anchors, candidates, tau)
        return contrast(anchors, candidates, tau, self.chunk_size, own_domain=self.own_domain, reduction=self.reduction)


class _TwoViews(_Contrastive):
    """Anchors in one view, candidates in the other, in both, or in a queue."""

    def __init__(
        self,
        weigher: Weigher | None,
        symmetric: bool,
        negatives: str,
        queue: NegativeQueue | None,
        gather: bool,
        chunk_size: int | None,
        reduction: str,
        validate: bool,
    ):
        super().__init__(weigher, gather, chunk_size, reduction, validate)
        self.symmetric = checked_choice("symmetric", symmetric, (True, False))
        self.negatives = checked_choice("negatives", negatives, ("other_view", "both_views"))
        self.queue = queue
        self._check_queue(queue)

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
            domains: int [N] (or [..., N]) domain of each example, negative where it is not known.
            queue: take negatives from there and not from the batch, as MoCo does; `push` z1 (the momentum encoder's
                view) to it afterwards. A queue that the loss was made with is used in its place, and filled, by itself.
            ids: int [N], which example each row shows, negative where it is not known: older copies of an anchor's example in
                the queue, and other rows of the batch that show it, are then no negatives of it.

        Raises:
            ValueError: for shapes that do not agree, values that are not finite, domains out of range, a batch of one, a
                temperature that is not positive, or more than two views where they are no one pool.
        """
        own, queue = queue is None and self.queue is not None, self.queue if queue is None else queue
        if self.validate and not torch.compiler.is_compiling():
            self._check_queue(queue)
        more = lambda: self._check_rest(z0, queue, ids)  # noqa: E731
        views, domains, tau = self._checked(z0, z1, domains, "loss(z0, z1, domains)", more, ids)
        if len(views) > 2 and self.negatives != "both_views":
            raise ValueError(f'{len(views)} views make one pool: they need negatives="both_views".')
        ids = None if ids is None else ids.long()
        predict = self._predictor(views, domains)
        if self.negatives == "both_views":
            rows = torch.arange(z0.shape[-2], device=z0.device) + (processes.rank() * z0.shape[-2] if self.gather else 0)
            return self._contrast(*within_all(views, rows, domains, ids, self.gather), tau, predict)
        each = []
        for z, other in [(views[1], views[0]), (views[0], views[1])] if self.symmetric else [(views[0], views[1])]:
            if queue is None:
                sides = across_views(z, other, domains, ids, self.gather)
            else:
                sides = across_queue(z, other, domains, ids, (queue.z, queue.domains, queue.filled, queue.ids))
            each.append(self._contrast(*sides, tau, predict))
        total = torch.stack(each).mean(0)
        if own and queue is not None and self.training:
            queue.push(views[1], domains, ids, gather=self.gather)
        return total

    def _check_rest(self, z0: Tensor, queue: NegativeQueue | None, ids: Tensor | None) -> None:
        if queue is None:
            self._check_size(z0)
        elif queue.z.shape[-1] != z0.shape[-1]:
            held = queue.z.shape[-1]
            raise ValueError(f"the queue holds embeddings of {held} dimensions, z0 has {z0.shape[-1]}.")
        if ids is not None:
            check_integers("ids", ids, z0.shape[-2:-1])

    def _check_queue(self, queue: NegativeQueue | None) -> None:
        if queue is not None and not isinstance(queue, NegativeQueue):
            raise ValueError(f"queue must be a NegativeQueue, got {type(queue).__name__}.")
        if queue is not None and self.negatives == "both_views":
            raise ValueError(
                'a queue takes the place of the batch\'s negatives: negatives="both_views" has no use for it.'
            )


class InfoNCELoss(_TwoViews):
    """InfoNCE between two views (Eq. 2): row i of one view against all rows of the other.

    Args:
        tau: temperature, > 0; a number, a tensor, a `LearnedTemperature` or a schedule (this module's first lines).
        symmetric: average both directions; False takes z0 as the anchors, as the paper does.
        negatives: "other_view" contrasts an anchor with the N - 1 others of the other view; "both_views" takes both views as
            anchors, and all 2 N - 2 others as negatives: SimCLR's NT-Xent.
        queue: a `NegativeQueue` of the loss's own: negatives come from it, and in training mode each call fills it with z1.
        gather: contrast with the embeddings of all processes of `torch.distributed`.
        chunk_size: anchors computed at a time, for large batches; see `candidates.contrast`.
        reduction: "mean", or "none" for the loss of each anchor.
        validate: check inputs; see this module's first lines.

    Shape:
        z0, z1: [N, k] (or [..., N, k]: independent runs); domains: int [N]; the loss: a scalar (or [...]), for "none" [N],
        with negatives of both views [2 N] (of V views [V N]).
    """

    settings = ("tau", "symmetric", "negatives", "queue")

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
        self.tau = setting("tau", tau)


class SameDomainInfoNCELoss(InfoNCELoss):
    """InfoNCE whose negatives come from the anchor's own domain only (the baseline "Same Domain Negatives").

    Args and Shape: as for `InfoNCELoss`; domains are needed. An anchor without a negative, as one of unknown domain, contributes
    0 to the mean.
    """

    own_domain = True


class DomainWeightedInfoNCELoss(_TwoViews):
    """The paper's loss (Eq. 4): negatives that seem to share the anchor's domain get a lower temperature.

    Args:
        tau_alpha: temperature of positives, and of negatives about whose domain nothing is known; > 0.
        tau_beta: how far the probability w_ij of sharing a domain moves a negative's temperature, >= 0; at 0 this is
            `InfoNCELoss` (unless tau_min is above tau_alpha). Where tau_beta (1 - 1 / N_D) is about tau_alpha or more,
            tau_min sets the temperature of pairs that surely share a domain.
        num_domains: N_D, the number of training domains, at least 2.
        weighting: "negatives" takes the anchor's domain as known, "pairs" neither; see
            `discriminator.same_domain_probability`.
        tau_min: lower bound of temperatures, > 0. All three temperatures may be numbers, tensors or schedules.
        discriminator: has `predict_proba`, such as `discriminators.LinearDiscriminator`; fit it to all embeddings once an
            epoch ("global"). One of your own is given embeddings as they are; with `gather` it must be the same on all
            processes. None fits a linear one on both views of each batch ("batch"), at a cost that is linear in the batch,
            the embeddings' width and N_D.
        l2: its penalty in that case; scikit-learn's 1 / C.
        features: what it sees of an embedding in that case, "l2" or "raw"; see `discriminators`.
        symmetric, negatives, queue, gather, chunk_size, reduction, validate: as for `InfoNCELoss`.

    Shape:
        As for `InfoNCELoss`. "pairs" needs no domains if the discriminator is given.

    No gradient flows into the discriminator or through its posteriors.
    """

    settings = ("tau_alpha", "symmetric", "negatives", "queue")

    def __init__(
        self,
        tau_alpha: Setting = 0.1,
        tau_beta: Setting = 0.1,
        *,
        num_domains: int,
        weighting: str = "negatives",
        tau_min: Setting = 0.01,
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
        self.tau_alpha = setting("tau_alpha", tau_alpha)


class _Supervised(_Contrastive):
    """All views are anchors and candidates; examples of a class are each other's positives."""

    def forward(self, z0: Tensor, z1: Views, labels: Tensor, domains: Tensor | None = None) -> Tensor:
        """The loss of a batch, in nats: the mean over the V N anchors of V views.

        Args:
            z0, z1: [N, k] embeddings of two views; z1 may be a list of further ones. Of views [N, V, k]:
                ``z0, *others = views.unbind(1)``, then ``loss(z0, others, labels)``.
            labels: int [N] classes.
            domains: int [N] domain of each example, negative where it is not known; needed by the domain-weighted loss.

        Raises:
            ValueError: for shapes that do not agree, values that are not finite, labels or domains out of range, a batch of
                one, or a temperature that is not positive.
        """

        def more() -> None:
            self._check_size(z0)
            check_labels(z0, labels)

        views, domains, tau = self._checked(z0, z1, domains, "loss(z0, z1, labels, domains)", more)
        predict = self._predictor(views, domains)
        return self._contrast(*within_all(views, labels.long(), domains, None, self.gather), tau, predict)


class SupConLoss(_Supervised):
    """Supervised contrast (Khosla et al. 2020, L_out): all examples of an anchor's class are its positives, in both views.

    Args:
        tau: temperature, > 0; a number, a tensor or a schedule.
        gather, chunk_size, reduction, validate: as for `InfoNCELoss`.

    Shape:
        z0, z1: [N, k]; labels: int [N], >= 0; domains: int [N]; the loss: a scalar, for "none" [2 N] (of V views [V N]).

    With labels all different this is `InfoNCELoss` with ``negatives="both_views"``. With `gather`, labels mean the same on all
    processes.
    """

    settings = ("tau",)

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
        self.tau = setting("tau", tau)


class DomainWeightedSupConLoss(_Supervised):
    """`SupConLoss` whose negatives have the paper's temperatures; at tau_beta = 0 it is `SupConLoss`.

    Args:
        tau_alpha, tau_beta, num_domains, weighting, tau_min, discriminator, l2, features: as for `DomainWeightedInfoNCELoss`.
        gather, chunk_size, reduction, validate: as for `InfoNCELoss`.

    Shape:
        z0, z1: [N, k]; labels: int [N], >= 0; domains: int [N]; the loss: a scalar, for "none" [2 N] (of V views [V N]).
    """

    settings = ("tau_alpha",)

    def __init__(
        self,
        tau_alpha: Setting = 0.1,
        tau_beta: Setting = 0.1,
        *,
        num_domains: int,
        weighting: str = "negatives",
        tau_min: Setting = 0.01,
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
        self.tau_alpha = setting("tau_alpha", tau_alpha)
