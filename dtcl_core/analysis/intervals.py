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
import scipy  # its statistics are loaded when they are asked for


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
    spread = scipy.stats.sem(x)  # ddof 1
    if spread == 0:
        return Interval(float(x.mean()), float(x.mean()), float(x.mean()), len(x))
    low, high = scipy.stats.t.interval(confidence, len(x) - 1, loc=x.mean(), scale=spread)
    return Interval(float(x.mean()), float(low), float(high), len(x))


def accuracy_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """`mean_interval` of fractions correct, cut off at 0 and 1: no mean lies beyond, so it covers as often as the whole."""
    whole = mean_interval(values, confidence)
    return whole._replace(low=float(np.clip(whole.low, 0, 1)), high=float(np.clip(whole.high, 0, 1)))


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
    reach = float(scipy.stats.t.ppf((1 + confidence) / 2, freedom) * math.sqrt(v + w))
    return Interval(mean, mean - reach, mean + reach, n)


def holm_confidences(p_values: Sequence[float], alpha: float = 0.05) -> list[float]:
    """The confidence of each interval of a family, so that those that exclude zero are those that Holm's correction rejects.

    The k-th smallest of m p-values is held against alpha / (m - k + 1), until one is not below it; those that follow are
    held against the same (S. Holm, 1979). All rejections are then right with a probability of at least 1 - alpha.

    >>> [round(c, 4) for c in holm_confidences([0.04, 0.001, 0.03])]  # 0.03 is above 0.05 / 2
    [0.975, 0.9833, 0.975]
    """
    confidences, left, failed = [0.0] * len(p_values), len(p_values), False
    for place in sorted(range(len(p_values)), key=lambda i: p_values[i]):
        confidences[place] = 1 - alpha / left
        failed = failed or p_values[place] > alpha / left
        left -= not failed
    return confidences


def p_value(differences: Sequence[float]) -> float:
    """Of Student's t-test that the mean of some differences is zero, two-sided; 1 for fewer than two of them."""
    x = np.asarray(differences, dtype=float)
    x = x[np.isfinite(x)]
    if len(x) < 2:
        return 1.0
    if np.ptp(x) == 0:
        return float(x[0] == 0)
    return float(scipy.stats.ttest_1samp(x, 0).pvalue)
