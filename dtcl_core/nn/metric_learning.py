"""An adapter: the domain-weighted loss for pytorch-metric-learning's miners, reducers and wrappers.

It needs ``pip install "pytorch-metric-learning<3"``. The wrappers hand on labels, not domains. Two ways give them domains:

- `DistributedLossWrapper`, `CrossBatchMemory`, `MultipleLosses`: make the loss with ``packed=True``, and give
  ``with_domains(labels, domains, num_domains)`` in place of the labels. Only packed losses may get these: a miner, or another loss,
  would take one class in two domains for two classes.
- `SelfSupervisedLoss`, which makes its own labels: set ``loss.domains = domains`` of this loss, not of the wrapper, before each call.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

try:
    from pytorch_metric_learning.distances import CosineSimilarity
    from pytorch_metric_learning.losses import BaseMetricLossFunction
    from pytorch_metric_learning.reducers import AvgNonZeroReducer
    from pytorch_metric_learning.utils import common_functions
    from pytorch_metric_learning.utils.loss_and_miner_utils import convert_to_pairs
except ImportError as error:
    needed = "pytorch-metric-learning 2 (pip install 'pytorch-metric-learning>=2.5,<3')"
    raise ImportError(f"dtcl_core.nn.metric_learning needs {needed}: {error}.") from error

from ..losses import anchor_losses, cosine_similarity
from .candidates import Anchors, Candidates, pairs_of
from .inputs import INTEGERS, check_domains, check_embeddings, check_integers, widened
from .settings import Setting
from .weigher import HasPosterior, Weighed, Weigher

Mined = tuple[Tensor, ...] | None  # the pairs or triplets of a miner


def with_domains(labels: Tensor, domains: Tensor, num_domains: int) -> Tensor:
    """Labels int [N] that carry domains int [N] with them, in int64; a negative domain is an unknown one.

    Raises:
        ValueError: for other types than integers, domains of `num_domains` or more, or labels for which int64 has no room.

    >>> without_domains(with_domains(torch.tensor([4, 7]), torch.tensor([-1, 2]), 3), 3)
    (tensor([4, 7]), tensor([-1,  2]))
    """
    check_integers("domains", domains, getattr(domains, "shape", ()))
    check_integers("labels", labels, domains.shape)
    check_domains(domains, num_domains)
    labels, domains, most = labels.long(), domains.long(), 2**63 // (num_domains + 1) - 1
    if bool(((labels > most) | (labels < -most)).any()):
        raise ValueError(f"labels must lie within -{most} ... {most} to carry {num_domains} domains with them.")
    return labels * (num_domains + 1) + domains.clamp(min=-1) + 1


def without_domains(packed: Tensor, num_domains: int) -> tuple[Tensor, Tensor]:
    """The labels and domains that `with_domains` put together, both int64."""
    packed = packed.long()
    return packed.div(num_domains + 1, rounding_mode="floor"), packed.remainder(num_domains + 1) - 1


class DomainWeightedLoss(Weighed, BaseMetricLossFunction):
    """Supervised contrast with the paper's temperatures; `SupConLoss` at tau_beta 0, unless tau_min is above tau_alpha.

    Args:
        tau_alpha ... features: as for `modules.DomainWeightedInfoNCELoss`.
        packed: whether labels carry the domains with them; see `with_domains`. Plain labels would then be misread, unnoticed.
        kwargs: the options of every loss of pytorch-metric-learning, such as `reducer`.

    With the `indices_tuple` of a miner, only the pairs that it names are positives or negatives. A reducer gets one loss for
    each anchor. Without a discriminator, one is fitted on embeddings and references together. Give one if the references
    hold the batch again, as the memory of `CrossBatchMemory` does.
    """

    settings = ("tau_alpha", "packed")
    weigher: Weigher

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
        packed: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        common_functions.assert_distance_type(self, CosineSimilarity)
        self.weigher = Weigher(tau_beta, tau_min, num_domains, weighting, discriminator, l2, features)
        self.tau_alpha = tau_alpha
        self.packed = packed
        self.domains: Tensor | None = None  # of the next call, where it is given none

    def get_default_distance(self) -> CosineSimilarity:
        """Cosine similarity, the only distance that this loss takes."""
        return CosineSimilarity()

    def get_default_reducer(self) -> AvgNonZeroReducer:
        """The mean over anchors whose loss is not 0, as of pytorch-metric-learning's `SupConLoss`."""
        return AvgNonZeroReducer()

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor | None = None,
        indices_tuple: Mined = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
        domains: Tensor | None = None,
        ref_domains: Tensor | None = None,
    ) -> Tensor:
        """The loss of embeddings [N, k] against references [M, k], or against each other.

        Args:
            embeddings, labels, domains: [N, k], int [N], int [N].
            indices_tuple: the pairs or triplets of a miner; None: all pairs.
            ref_emb, ref_labels, ref_domains: [M, k], int [M], int [M] (None with a discriminator); None: the embeddings themselves.

        Raises:
            ValueError: for labels or domains that are missing, domains out of range or of another number, values that are not
                finite, or a temperature that is not positive.
        """
        set_before, self.domains = self.domains, None
        if labels is None or (ref_emb is not None and ref_labels is None):
            raise ValueError("labels are needed, and ref_labels with ref_emb.")
        if self.packed and not (domains is None and set_before is None):
            raise ValueError("packed=True: the labels carry the domains, so domains cannot be given beside them.")
        if self.packed:
            labels, domains = without_domains(labels, self.weigher.num_domains)
            if ref_labels is not None:
                ref_labels, ref_domains = without_domains(ref_labels, self.weigher.num_domains)
        elif domains is None and set_before is not None:  # SelfSupervisedLoss puts two views after each other
            check_integers("loss.domains", set_before, (set_before.numel(),) if isinstance(set_before, Tensor) else ())
            views, rest = divmod(len(embeddings), max(len(set_before), 1))
            if rest or views not in (1, 2):
                raise ValueError(f"loss.domains has {len(set_before)} domains, which do not fit {len(embeddings)} embeddings.")
            domains = set_before.repeat(views)
            ref_domains = set_before if ref_emb is not None else None
        if domains is None and self.weigher.needs_domains:
            raise ValueError(
                "domains are needed: call loss(z, labels, domains=domains); if a wrapper makes the call, set .domains of this loss, not of the wrapper."
            )
        check_embeddings(embeddings, domains, self.weigher.num_domains, "embeddings", needed=self.weigher.needs_domains)
        if ref_emb is None:
            ref_domains = domains
        else:  # without a discriminator, one is fitted on both
            fits = self.weigher.discriminator is None
            check_embeddings(ref_emb, ref_domains, self.weigher.num_domains, "ref_emb", fits, "ref_domains")
            if ref_emb.shape[-1] != embeddings.shape[-1]:
                raise ValueError(f"ref_emb must be [M, {embeddings.shape[-1]}], got {tuple(ref_emb.shape)}.")
        labels, ref_labels, *self._domains = (
            t.long() if isinstance(t, Tensor) and t.dtype in INTEGERS else t for t in (labels, ref_labels, domains, ref_domains)
        )
        return super().forward(embeddings, labels, indices_tuple, ref_emb, ref_labels)

    def compute_loss(
        self, embeddings: Tensor, labels: Tensor, indices_tuple: Mined, ref_emb: Tensor, ref_labels: Tensor
    ) -> dict[str, dict[str, Any]]:
        """The loss of each anchor, for a reducer."""
        domains, ref_domains = (None if d is None else d.to(embeddings.device) for d in self._domains)
        itself = ref_emb is embeddings
        z = embeddings if itself else torch.cat([embeddings, ref_emb])
        d = domains if itself or domains is None or ref_domains is None else torch.cat([domains, ref_domains])
        known = self.weigher.discriminator_for(z, d, gather=False, validate=True)
        rows = torch.arange(len(embeddings), device=embeddings.device)
        anchors = Anchors(widened(embeddings), labels, rows if itself and indices_tuple is None else None, domains)
        candidates = Candidates(widened(ref_emb), ref_labels)
        anchors, candidates = self.weigher.weighed(anchors, candidates, known, gather=False, validate=True)
        similarity = cosine_similarity(embeddings, ref_emb)
        tau = self.weigher.temperatures(self.now("tau_alpha", similarity), similarity)
        positive, compared, tau_neg = pairs_of(anchors, candidates, tau)
        if indices_tuple is not None:
            a1, p, a2, n = convert_to_pairs(indices_tuple, labels, ref_labels)
            compared = torch.zeros_like(compared)
            compared[a1, p] = compared[a2, n] = True
        each = anchor_losses(similarity, tau.tau_alpha, positive=positive & compared, tau_neg=tau_neg, admitted=compared)
        return {"loss": {"losses": each.to(embeddings.dtype), "indices": rows, "reduction_type": "element"}}


DomainWeightedLoss.__name__ = "SupConLoss"  # what its wrappers ask of a loss that they accept is its name
