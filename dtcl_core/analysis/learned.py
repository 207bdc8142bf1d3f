"""What trained encoders have learned: embeddings of clean images, seen on a plane, and whether hiding the domain helps.

Encoders are those kept beside rows (`Store.encoder`), so nothing here trains.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
import torch
from scipy import stats
from torch.nn.functional import normalize

from ..config import Run
from ..data import ColoredDigits, Split
from ..encoder import Encoder
from ..methods import ALL_METHODS
from .intervals import Interval

SHOWN = 150  # images of a split on a picture
COMPARED = ("test_id", "test_ood")  # splits on a picture: the training colours, and the colour never seen


def images(run: Run, split: str, count: int | None = None) -> Split:
    """The first images of a split as a run's encoder sees them in evaluation.

    Args:
        run: whose data.
        split: a name in `data.SPLITS`.
        count: how many; None: all.
    """
    p = run.protocol
    data = ColoredDigits(
        run.sigma, run.seed, color_clipping=p.color_clipping, stratified=p.stratified_splits, sizes=p.split_sizes
    )
    pixels, labels, domains = (part[:count] for part in data.split(split))
    return Split(2 * pixels - 1 if p.input_normalization == "half" else pixels, labels, domains)


@torch.no_grad()
def embed(encoder: Encoder, pixels: torch.Tensor) -> np.ndarray:
    """Unit embeddings [N, k] of images [N, 3, 28, 28] by one encoder in evaluation mode."""
    (z,) = encoder([pixels], [1])
    return normalize(z, dim=1).numpy()


def plane(embeddings: np.ndarray) -> tuple[np.ndarray, float]:
    """Embeddings [N, k] on the plane of their two largest principal components.

    Returns:
        Positions [N, 2], and the share of the variance that lies in the plane.
    """
    centred = embeddings - embeddings.mean(0)
    _, scales, axes = np.linalg.svd(centred, full_matrices=False)
    signs = np.sign(axes[:2, :1] + (axes[:2, :1] == 0))  # an axis may point either way: its first entry is positive
    total = float((scales**2).sum())
    return centred @ (signs * axes[:2]).T, float((scales[:2] ** 2).sum()) / total if total else 0.0


def picture(encoder: Encoder, run: Run, count: int = SHOWN) -> tuple[pd.DataFrame, float]:
    """A run's embeddings of images in the training colours and in the one never seen, on one plane.

    Args:
        encoder: the run's.
        run: whose data.
        count: images of each split in `COMPARED`.

    Returns:
        A line an image: x, y, split, digit ("3" or "5"), domain (0 and 1 are those of training) and color (RGB, 0 to 1); and the
        share of the variance that lies in the plane.
    """
    parts = {split: images(run, split, count) for split in COMPARED}
    positions, share = plane(np.concatenate([embed(encoder, part.images) for part in parts.values()]))
    lines = []
    for split, part in parts.items():
        peaks = part.images.amax((2, 3)).clamp(0, 1)  # a digit's colour, where its stroke is brightest
        for label, domain, color in zip(part.labels.tolist(), part.domains.tolist(), peaks.tolist()):
            lines.append((split, "35"[label], domain, tuple(color)))
    found = pd.DataFrame(lines, columns=["split", "digit", "domain", "color"])
    return found.assign(x=positions[:, 0], y=positions[:, 1]), share


def pictured(runs: Iterable[Run], count: int = 3) -> list[Run]:
    """Which of some runs to picture: of each method's first seed and level of tau_min, the lowest to the highest temperatures.

    Args:
        runs: those that have an encoder.
        count: temperatures a method.

    Returns:
        One run a method and temperature (of several the one of the middle tau_beta or lambda), in the order of methods and of
        temperatures.
    """
    found, picked = list(runs), []
    for method in ALL_METHODS:
        mine = [run for run in found if run.method == method]
        first = min(((run.seed, run.protocol.tau_min) for run in mine), default=None)
        mine = [run for run in mine if (run.seed, run.protocol.tau_min) == first]
        taus = sorted({run.tau_alpha for run in mine})
        for place in dict.fromkeys(np.linspace(0, len(taus) - 1, count).round().astype(int).tolist() if taus else []):
            cells = [run for run in mine if run.tau_alpha == taus[place]]
            cells.sort(key=lambda run: (run.tau_beta or 0.0, run.lambda_ or 0.0))
            picked.append(cells[(len(cells) - 1) // 2])
    return picked


def association(
    rows: pd.DataFrame, hidden: str = "d_test_id", gained: Sequence[str] = ("test_ood", "test_id")
) -> pd.DataFrame:
    """Does hiding the domain help? Correlations over runs of domain accuracy with the accuracies of digits.

    Args:
        rows: as from `Store.load`, at one label fraction.
        hidden: the domain accuracy.
        gained: the accuracies it is held against.

    Returns:
        Columns: metric, runs ("all but the oracle", "the same, within methods": each run less its method's mean, then the titles of
        methods), r, low, high (Fisher's interval, which takes runs for independent; those of one seed share their images) and n.
    """
    lines = []
    oracles = {name for name, method in ALL_METHODS.items() if method.oracle}  # sees other colours, whatever it hides
    for metric in gained:
        both = rows[["method", hidden, metric]].dropna().reset_index(drop=True)
        numbers = both[[hidden, metric]]
        plain = numbers[~both.method.isin(oracles)]
        within = plain - plain.groupby(both.method[plain.index]).transform("mean")
        of_methods = [
            (m.title, numbers[both.method == name]) for name, m in ALL_METHODS.items() if name in set(both.method)
        ]
        for name, pairs in [("all but the oracle", plain), ("the same, within methods", within), *of_methods]:
            if not len(pairs):
                continue
            r = correlation(pairs[hidden], pairs[metric])
            lines.append((metric, name, r.mean, r.low, r.high, r.n))
    return pd.DataFrame(lines, columns=["metric", "runs", "r", "low", "high", "n"])


def correlation(x: pd.Series, y: pd.Series, confidence: float = 0.95) -> Interval:
    """Pearson's correlation with Fisher's interval; NaN where fewer than four pairs or a constant leave none."""
    n = len(x)
    if n < 4 or x.nunique() < 2 or y.nunique() < 2:
        return Interval(np.nan, np.nan, np.nan, n)
    found = stats.pearsonr(x, y)
    low, high = found.confidence_interval(confidence)
    return Interval(float(found.statistic), float(low), float(high), n)
