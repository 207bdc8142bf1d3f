"""Backbone and head, each probed: whether what is hidden from a loss is hidden in the embedding that people keep.

A row tells of the backbone's embedding. Of what a projector head makes of it the trained network tells, which is kept beside
the row; nothing is trained for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import pandas as pd
import torch

from ..analysis import intervals
from ..config import METRICS, Run
from ..data import SPLITS, ColoredDigits
from ..encoder import Encoder
from ..evaluate import probe_metrics
from ..results import Store
from .tables import best_first, ordered, title

SHOWN = ("test_ood", "test_id", "d_test_id")
PLACES = ("backbone", "head")
CELL = ["method", "head", "place", "tau_alpha"]


def head_of(run: Run) -> str:
    """The projector head of a run, in a word or two."""
    return "none" if run.projector is None else f"{run.projector} {run.projector_dim}"


@torch.no_grad()
def probed_behind(encoder: Encoder, run: Run, fraction: float) -> dict[str, float]:
    """Accuracies of probes on what the head of a run's encoder makes of clean images; fractions correct, by `METRICS`.

    Args:
        encoder: the run's, in evaluation mode.
        run: says which images, and how probes are fitted.
        fraction: of the labels; the mean over the protocol's draws of them.
    """
    p = run.protocol
    data = ColoredDigits(
        run.sigma, run.seed, color_clipping=p.color_clipping, stratified=p.stratified_splits, sizes=p.split_sizes
    )
    embeddings, labels, domains = {}, {}, {}
    for split in SPLITS:
        pixels, labels[split], domains[split] = (part[None] for part in data.split(split))
        pixels = 2 * pixels - 1 if p.input_normalization == "half" else pixels
        parts = [encoder.project(encoder([part], [1])) for part in pixels[0].split(1024)]
        embeddings[split] = torch.cat(parts, 1)
    subsets = {}
    for draw in range(p.label_draws if fraction < 1 else 1):
        index = data.label_subset(fraction, stratified=p.stratified_labels, nested=p.nested_labels, draw=draw)
        subsets[draw] = torch.from_numpy(index)[None]
    found = probe_metrics(embeddings, labels, domains, subsets, p, data.num_training_domains)
    return {name: sum(scores[name].item() for scores in found.values()) / len(found) for name in METRICS}


def probed(runs: Iterable[Run], store: Store, fraction: float = 0.01) -> pd.DataFrame:
    """Accuracies of the backbones of runs that have a row, and of the heads of those whose trained network is here.

    Returns:
        A line a run and place, with columns `CELL`, seed and `METRICS`; a run that diverged has none.
    """
    stored = store.rows(shared=True)
    sound = {run: stored[run.key] for run in runs if run.key in stored and stored[run.key]["status"] == "ok"}
    return _probed(
        tuple((run, row["provenance"]["created"]) for run, row in sound.items()), store.path, fraction
    ).copy()


@lru_cache(maxsize=4)  # a page asks several times for the same
def _probed(sound: tuple[tuple[Run, str], ...], path: Path, fraction: float) -> pd.DataFrame:
    store, lines = Store(path), []
    stored = store.rows(shared=True)
    for run, _ in sound:
        row = stored[run.key]
        places = {"backbone": row["metrics"][str(fraction)]}
        if run.projector is not None and (encoder := store.encoder(row)) is not None:
            places["head"] = probed_behind(encoder, run, fraction)
        lines += [
            {"method": run.method, "head": head_of(run), "place": place, "tau_alpha": run.tau_alpha, "seed": run.seed}
            | scores
            for place, scores in places.items()
        ]
    return pd.DataFrame(lines, columns=[*CELL, "seed", *METRICS])


def means(lines: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Mean over seeds with its 95 % interval, and n, of every cell of `probed`; with each head and place the best first."""
    cells = lines.groupby(CELL, sort=False)
    table = _table(CELL, {cell: intervals.accuracy_interval(part[metric]) for cell, part in cells})
    return best_first(table, "mean", metric, ["head", "place"])


def beside_standard(lines: pd.DataFrame, metric: str, tau_alpha: float | None = None) -> pd.DataFrame:
    """What each method has more than standard contrastive learning with the same head, at the same place.

    Args:
        lines: from `probed`.
        metric: of `METRICS`.
        tau_alpha: temperature of the standard runs; None: of each method's own.

    Returns:
        A line a cell of `probed`, but the standard ones: the mean difference, paired by seed, its 95 % t interval, n, and a star
        where zero is outside; with each head and place the largest first, of D-Test-ID the lowest.
    """
    plain = {cell[1:]: part.set_index("seed")[metric] for cell, part in lines.groupby(CELL) if cell[0] == "standard"}
    found = {}
    for cell, part in lines[lines.method != "standard"].groupby(CELL, sort=False):
        beside = cell[1:] if tau_alpha is None else (*cell[1:-1], tau_alpha)
        if beside in plain:
            found[cell] = intervals.paired_difference(part.set_index("seed")[metric], plain[beside])
    return _starred(ordered(_table(CELL, found), "mean", metric != "d_test_id", ["head", "place"]))


def behind(lines: pd.DataFrame, metric: str) -> pd.DataFrame:
    """What the backbone has more than its head's output, of every cell that has both, as in `beside_standard`; of each head the
    largest difference first."""
    cell, found = [name for name in CELL if name != "place"], {}
    for key, part in lines[lines["head"] != "none"].groupby(cell, sort=False):
        backbone, head = (part[part.place == place].set_index("seed")[metric] for place in PLACES)
        found[key] = intervals.paired_difference(backbone, head)
    return _starred(ordered(_table(cell, found), "mean", True, ["head"]))


def _table(names: Sequence[str], found: Mapping[tuple, intervals.Interval]) -> pd.DataFrame:
    lines = [(title(method), *rest, *interval) for (method, *rest), interval in found.items()]
    return pd.DataFrame(lines, columns=[*names, "mean", "low", "high", "n"])


def _starred(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(**{"": ["*" if product > 0 else " " for product in table.low * table.high]})
