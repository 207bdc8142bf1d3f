"""Metrics of a trained stack: linear probes on frozen embeddings, for all runs at once.

A digit probe is a logistic regression on the embeddings, fitted with 1, 10 or 100 % of the training images' labels. Its accuracy is
`validation` on purple images, `test_id` on held-out red and blue ones, and `test_ood` on green ones. A domain probe separates red from
blue; its accuracy on held-out images is `d_test_id`, and 0.5 means that the embeddings do not show the domain.

At 1 % of labels, the choice of labels changes an accuracy about as much as the seed does. A protocol may therefore ask for several draws
(`Protocol.label_draws`): the metric is their mean, and the value of each draw is kept. At 100 % there is one draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from . import logistic
from .config import METRICS, Protocol, Run
from .data import LABEL_FRACTIONS, SPLITS
from .pretrain import Stack


def probe_features(embeddings: dict[str, Tensor], kind: str) -> dict[str, Tensor]:
    """Embeddings [R, N, k] of each split as probes see them; "standardized" uses the training images' mean and standard deviation."""
    if kind == "l2":
        return {split: F.normalize(z, dim=-1) for split, z in embeddings.items()}
    if kind == "standardized":
        mean = embeddings["train"].mean(-2, keepdim=True)
        spread = embeddings["train"].std(-2, keepdim=True).clamp(min=1e-12)
        return {split: (z - mean) / spread for split, z in embeddings.items()}
    return embeddings


def _probe(features: dict[str, Tensor], index: Tensor, target: Tensor, classes: int, l2: float) -> logistic.LogisticModel:
    """Fit a probe to the training examples at index [R, n], with targets [R, N]."""
    chosen = features["train"].gather(1, index[..., None].expand(-1, -1, features["train"].shape[-1]))
    return logistic.fit(chosen, target.gather(1, index), classes, l2, watched=True)


def probe_metrics(
    embeddings: dict[str, Tensor],
    labels: dict[str, Tensor],
    domains: dict[str, Tensor],
    subsets: dict[Any, Tensor],
    protocol: Protocol,
    num_domains: int = 2,
) -> dict[Any, dict[str, Tensor]]:
    """Accuracies of probes on given embeddings.

    Args:
        embeddings: of each split, [R, N, k].
        labels, domains: of each split, [R, N].
        subsets: by any name (such as a label fraction), positions [R, n] of the training images whose labels are used.
        protocol: how the probes are fitted.
        num_domains: number of training domains.

    Returns:
        For each subset, each of `METRICS` as a fraction correct [R]; NaN where the classified embeddings are not all finite.
    """
    features = probe_features(embeddings, protocol.probe_features)
    everything = torch.arange(labels["train"].shape[1], device=labels["train"].device).expand_as(labels["train"])
    classes = int(labels["train"].max()) + 1

    def domain_accuracy(index: Tensor) -> Tensor:
        model = _probe(features, index, domains["train"], num_domains, protocol.probe_l2)
        return logistic.accuracy(model, features["test_id"], domains["test_id"])

    shared = domain_accuracy(everything) if protocol.domain_probe_data == "train" else None
    result = {}
    for subset, index in subsets.items():
        model = _probe(features, index, labels["train"], classes, protocol.probe_l2)
        result[subset] = {
            split: logistic.accuracy(model, features[split], labels[split]) for split in ("validation", "test_id", "test_ood")
        }
        result[subset]["d_test_id"] = shared if shared is not None else domain_accuracy(index)
    return result


def evaluate(stack: Stack, runs: Sequence[Run] | None = None) -> dict[str, dict[str, dict[str, float | None]]]:
    """Metrics of every run of a trained stack, by run key: the means over the label draws of `measure`, which has the same arguments."""
    return {key: means(draws) for key, draws in measure(stack, runs).items()}


Draws = dict[str, dict[str, list[float | None]]]  # of a run, by label fraction and metric, one a draw of labels


def means(draws: Draws) -> dict[str, dict[str, float | None]]:
    """The mean over label draws; None if the value of a draw is None."""
    return {
        fraction: {
            name: None if None in values else sum(values) / len(values)  # type: ignore[arg-type]
            for name, values in scores.items()
        }
        for fraction, scores in draws.items()
    }


def measure(stack: Stack, runs: Sequence[Run] | None = None) -> dict[str, Draws]:
    """Metrics of every run of a trained stack, by run key, at each draw of labels.

    Args:
        stack: a trained stack.
        runs: runs to probe, each as its own protocol says; the stack must hold a run with the same training (`Run.training`). None
            means the runs of the stack.

    Returns:
        For each `run.key`, a dict from label fraction ("0.01", "0.1", "1.0") to a dict from metric (`METRICS`) to a list of fractions
        correct, one for each draw (`Protocol.label_draws`; one at "1.0"). None where the classified embeddings are not all finite.
    """
    runs = stack.runs if runs is None else list(runs)
    place = {run.training: r for r, run in enumerate(stack.runs)}
    stream = stack.stream_of_run.cpu()
    embeddings = {split: stack.embed(split) for split in SPLITS}

    def gathered(values: list[Tensor]) -> Tensor:
        return torch.stack(values)[stream].to(stack.device)

    labels = {split: gathered([d.labels(split) for d in stack.streams.data]) for split in SPLITS}
    domains = {split: gathered([d.domains(split) for d in stack.streams.data]) for split in SPLITS}
    result: dict[str, Draws] = {}
    for protocol in dict.fromkeys(run.protocol for run in runs):
        mine = [run for run in runs if run.protocol == protocol]
        for run in mine:
            result[run.key] = {str(f): {name: [] for name in METRICS} for f in LABEL_FRACTIONS}
        choices = {"stratified": protocol.stratified_labels, "nested": protocol.nested_labels}
        subsets = {
            (fraction, draw): gathered(
                [torch.from_numpy(d.label_subset(fraction, draw=draw, **choices)) for d in stack.streams.data]
            )
            for fraction in LABEL_FRACTIONS
            for draw in range(protocol.label_draws if fraction < 1 else 1)
        }
        measured = probe_metrics(embeddings, labels, domains, subsets, protocol, stack.streams.num_domains)
        for (fraction, _), scores in measured.items():
            for name, values in ((name, v.tolist()) for name, v in scores.items()):
                for run in mine:
                    value = values[place[run.training]]
                    result[run.key][str(fraction)][name].append(value if np.isfinite(value) else None)
    return result
