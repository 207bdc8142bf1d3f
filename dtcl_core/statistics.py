"""Intervals over seeds.

The replicate is the seed, never the image. All methods of a seed see the same splits, colours, order and views, so
differences between methods are paired by seed, and Student's t gives their interval (at n = 5 a percentile bootstrap
covers about 84 %, not 95). Student's t is exact for normal values only. Accuracies on an unseen domain are
not: some seeds fall to the share of a class (`tables.extremes`), and an interval of few seeds covers less than it says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats


class Interval(NamedTuple):
    """A mean over n seeds with its confidence limits (NaN where n < 2)."""

    mean: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        if self.n == 0:
            return "-"
        return f"{self.mean:.3f}" if self.n < 2 else f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Mean and two-sided t interval of `values` (one a seed; NaN are left out)."""
    x = np.asarray(values, dtype=float)
    x = x[np.isfinite(x)]
    if len(x) < 2:
        return Interval(float(x[0]) if len(x) else math.nan, math.nan, math.nan, len(x))
    spread = stats.sem(x)  # ddof 1
    if spread == 0:
        return Interval(float(x.mean()), float(x.mean()), float(x.mean()), len(x))
    low, high = stats.t.interval(confidence, len(x) - 1, loc=x.mean(), scale=spread)
    return Interval(float(x.mean()), float(low), float(high), len(x))


def paired_difference(a: pd.Series, b: pd.Series, confidence: float = 0.95) -> Interval:
    """Mean and t interval of a - b over the seeds that both have; a and b are indexed by seed."""
    joined = pd.concat([a.rename("a"), b.rename("b")], axis=1, join="inner")
    return mean_interval((joined.a - joined.b).to_numpy(), confidence)


def unpaired_difference(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Interval:
    """Difference of means, a - b, of unrelated seeds, with Welch's t interval; n is that of the smaller sample."""
    x, y = (np.asarray(values, dtype=float)[np.isfinite(np.asarray(values, dtype=float))] for values in (a, b))
    n, mean = min(len(x), len(y)), float(x.mean() - y.mean()) if len(x) and len(y) else math.nan
    if n < 2:
        return Interval(mean, math.nan, math.nan, n)
    v, w = x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)
    if v + w == 0:
        return Interval(mean, mean, mean, n)
    freedom = (v + w) ** 2 / (v**2 / (len(x) - 1) + w**2 / (len(y) - 1))  # Welch and Satterthwaite
    reach = float(stats.t.ppf((1 + confidence) / 2, freedom) * math.sqrt(v + w))
    return Interval(mean, mean - reach, mean + reach, n)
