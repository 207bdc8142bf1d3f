"""Means and paired differences over seeds with their intervals (Student's t, by scipy), and a prediction interval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy  # which imports `scipy.stats` when it is first used: a second, and not needed to train

# Columns in which the rows of one mean must not differ.
ONE_OF = ("method", "discriminator", "sigma", "projector", "projector_dim", "label_fraction")


class Interval(NamedTuple):
    """A mean over `n` seeds with the ends of its interval; without a seed all are NaN, with one the ends are."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def side(self) -> int:
        """1 if the interval lies above zero, -1 if below, 0 if it holds zero or there are no ends."""
        return int(self.low > 0) - int(self.high < 0)

    @property
    def ends(self) -> str:
        """As "0.500–1.000"; "" without ends."""
        return f"{self.low:.3f}–{self.high:.3f}" if self.n > 1 else ""

    def text(self, signed: bool = False) -> str:
        """As tables show it, with three decimals, or one digit where a limit would round to zero; – without a seed.

        >>> Interval(0.75, 0.5, 1.0, 5).text(), Interval(0.75, np.nan, np.nan, 1).text(), Interval(0.1, 0.05, 0.15, 9).text(True)
        ('0.750 [0.500, 1.000]', '0.750', '+0.100 [+0.050, +0.150]')
        """
        ends = f" [{limit(self.low, signed)}, {limit(self.high, signed)}]" if self.n > 1 else ""
        return f"{self.mean:{'+' * signed}.3f}{ends}" if self.n else "–"


def limit(value: float, signed: bool = False) -> str:
    """A limit of an interval with three decimals, or with one digit where these would hide its side of zero, as in "+0.00006"."""
    decimals = -int(f"{value:.0e}".partition("e")[2]) if 1e-12 < abs(value) < 0.0005 else 3
    return f"{value:{'+' * signed}.{decimals}f}"


def mean(values: Iterable[float], confidence: float = 0.95) -> Interval:
    """The mean of one value per seed with Student's t interval; values that are missing do not count."""
    found = np.asarray(list(values), dtype=float)
    found = found[np.isfinite(found)]
    if len(found) < 2:
        return Interval(float(found[0]) if len(found) else np.nan, np.nan, np.nan, len(found))
    if np.ptp(found) < 1e-12:  # equal but for rounding
        value = float(found.mean()) if abs(found.mean()) > 1e-12 else 0.0
        return Interval(value, value, value, len(found))
    low, high = scipy.stats.ttest_1samp(found, 0.0).confidence_interval(confidence)
    return Interval(float(found.mean()), float(low), float(high), len(found))


def accuracy(values: Iterable[float]) -> Interval:
    """`mean` of accuracies: its ends are cut at 0 and 1, which no accuracy passes."""
    found = mean(values)
    return found._replace(low=float(np.clip(found.low, 0, 1)), high=float(np.clip(found.high, 0, 1)))


def seeds_said(counts: Iterable[float]) -> str:
    """How many seeds stand behind some numbers, such as "3 to 5 seeds"; zeros do not count; "" if nothing is left."""
    there = sorted({int(n) for n in counts if n > 0})
    number = f"{there[0]} to {there[-1]}" if len(there) > 1 else "".join(map(str, there))
    return number and f"{number} seed" + "s" * (there != [1])


def cut_said(intervals: Iterable[Interval]) -> str:
    """What a caption of accuracies adds if `accuracy` may have cut an end of one of their intervals."""
    return ", cut at 0 and 1" * any(i.low < i.high and not {i.low, i.high}.isdisjoint({0.0, 1.0}) for i in intervals)


def predicted(draws: Sequence[Sequence[float]], seeds: int, ends: tuple[float, float] = (0, 1)) -> Interval:
    """Our mean, and the 95 % prediction interval for a mean over `seeds` other seeds with one draw of labels each, cut at `ends`.

    Args:
        draws: for each seed, one accuracy (or difference: -1 and 1 are the ends) per draw of labels.
    """
    means = pd.Series([np.mean(each) for each in draws], dtype=float)
    n, others = len(means), sum(len(each) - 1 for each in draws)  # seeds, and degrees of freedom of the variance between draws
    # Another study, with one draw, varies by seed^2 + draw^2, our means of k draws by seed^2 + draw^2 / k; np.var is the rest.
    between, within = means.var() * (1 / n + 1 / seeds), np.mean([np.var(each) for each in draws]) / seeds
    shares = between**2 / max(n - 1, 1) + within**2 / max(others, 1)
    df = max((between + within) ** 2 / shares, 1.0) if shares else 1.0  # by Welch and Satterthwaite
    half = scipy.stats.t.ppf(0.975, df) * np.sqrt(between + within)
    low, high = np.clip([means.mean() - half, means.mean() + half], *ends)
    return Interval(float(means.mean()), float(low), float(high), n)


def by_seed(rows: pd.DataFrame, metric: str, of: str = "", **where: Any) -> pd.Series:
    """One value per seed.

    Args:
        rows: lines with seed and the metric.
        metric: a column.
        of: what is looked at, for the message.
        where: values of columns that lines must have; None for a missing one.

    Raises:
        ValueError: if a seed has two lines, or the rows are of several methods, sigmas, heads, discriminators or label fractions,
            for then n would be wrong. Temperatures may differ between seeds, as after `leave_one_seed_out`.
    """
    matches = [rows[name].isna() if value is None else rows[name] == value for name, value in where.items()]
    rows = rows[np.logical_and.reduce(matches)] if where else rows
    told = of or ", ".join(f"{name}={value}" for name, value in where.items()) or metric
    twice = rows.seed[rows.seed.duplicated()]
    if len(twice):
        raise ValueError(f"seed {twice.iloc[0]} has several rows ({told}): name one configuration.")
    for name in ONE_OF:
        if name in rows and rows[name].nunique(dropna=False) > 1:
            raise ValueError(f"rows have several values of {name} ({told}): name one configuration.")
    return rows.set_index("seed")[metric].sort_index()


def difference(one: pd.Series, other: pd.Series) -> pd.Series:
    """What `one` has over `other`, on the seeds that both have; see `by_seed`.

    Raises:
        ValueError: if a seed stands twice in one of them.
    """
    for values in (one, other):
        if values.index.duplicated().any():
            raise ValueError(f"seed {values.index[values.index.duplicated()][0]} has several values.")
    return (one - other).dropna()


def paired(one: pd.Series, other: pd.Series) -> Interval:
    """The mean difference over the seeds that both have, with its interval; see `difference`."""
    return mean(difference(one, other))
