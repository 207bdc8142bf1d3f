"""What a claim is judged by: rows and traces as evidence, quantities over seeds as contrasts, and the verdict's rule.

A *contrast* is a quantity, one value a seed, that a claim says is positive. Its 95 % t interval over seeds speaks *for*
the claim if it lies above zero, *against* it if it lies below, and is *open* otherwise; with fewer than `MIN_SEEDS`
seeds, or without the runs it needs, it is *missing*. The verdict:

- any contrast missing: not enough runs yet;
- all for: reproduced;  some for, and as many as against: partly;
- else: not reproduced, if one speaks against or all rest on the paper's `FULL_SEEDS`; else not enough runs yet.

A contrast that claims a quantity to be nothing speaks for if its interval lies within a margin around zero, against if it
excludes zero. Nothing is corrected for there being several contrasts: the chapter shows every one. Cells at tau_alpha = 1
of the domain-weighted methods took part in the calibration and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from . import experiments, selection
from .statistics import Interval, mean_interval
from .traces import Trace

MIN_SEEDS = 3
FULL_SEEDS = 5
PROPOSED = ("dw_negatives", "dw_pairs")
BASELINES = ("standard", "same_domain", "mmd", "dann")
VERDICTS = ("reproduced", "partly", "not reproduced", "not enough runs yet")
NOTHING = pd.Series(dtype=float)


@dataclass(frozen=True)
class Contrast:
    """One quantity that a claim says is positive.

    Attributes:
        what: in words.
        interval: its mean and t interval over n seeds (NaN limits where n < 2).
        within: claims that the quantity is nothing, give or take this margin, rather than positive.
    """

    what: str
    interval: Interval
    within: float | None = None

    @property
    def speaks(self) -> str:
        """ "for", "against", "open" or "missing"."""
        if self.interval.n < MIN_SEEDS:
            return "missing"
        if self.within is not None and max(-self.interval.low, self.interval.high) < self.within:
            return "for"
        if self.within is not None:
            return "open" if self.interval.low <= 0 <= self.interval.high else "against"
        return "for" if self.interval.low > 0 else "against" if self.interval.high < 0 else "open"


def verdict(contrasts: Sequence[Contrast]) -> str:
    """One of `VERDICTS`, by the rule in this module's first lines."""
    said = [contrast.speaks for contrast in contrasts]
    if not said or "missing" in said:
        return "not enough runs yet"
    if "for" in said and said.count("for") >= said.count("against"):
        return "reproduced" if set(said) == {"for"} else "partly"
    few = any(contrast.interval.n < FULL_SEEDS for contrast in contrasts)
    return "not enough runs yet" if few and "against" not in said else "not reproduced"


class Evidence:
    """The rows of one protocol, with the selected cells looked up once.

    Args:
        frame: rows as from `results.Store.load`.
        traces: recorded runs of claim 11, one a seed.
        beside: rows of cells outside the grids that are compared; only claim 13 looks at them.
    """

    def __init__(self, frame: pd.DataFrame, traces: Sequence[Trace] = (), beside: pd.DataFrame | None = None):
        weighted = frame.method.isin(PROPOSED)
        sound = frame[(frame.status == "ok") & ~(weighted & (frame.tau_alpha == 1.0))]
        self.heads = sound[(sound.method == "standard") & (sound.sigma == 25.0)]
        self.rows = sound[sound.projector.isna()]
        self.chosen = selection.rows_of(self.rows, selection.select(self.rows))
        self.traces = list(traces)
        both = [part for part in (sound, beside) if part is not None and len(part)]
        self.all = pd.concat(both, ignore_index=True).drop_duplicates(["key", "label_fraction"]) if both else sound

    def selected(
        self, method: str, metric: str, sigma: float = 50.0, fraction: float = 0.01, discriminator: str = "global"
    ) -> pd.Series:
        """A metric of a method's selected cell, by seed."""
        rows = self.chosen[
            (self.chosen.method == method) & (self.chosen.sigma == sigma) & (self.chosen.label_fraction == fraction)
        ]
        rows = rows[rows.discriminator.isna() | (rows.discriminator == discriminator)]
        return rows.set_index("seed")[metric]

    def proposed(self, metric: str, sigma: float = 50.0, fraction: float = 0.01) -> pd.Series:
        """The mean of the two proposed methods, by seed; empty unless both are there."""
        both = [self.selected(method, metric, sigma, fraction) for method in PROPOSED]
        return pd.concat(both, axis=1, join="inner").mean(axis=1) if all(map(len, both)) else NOTHING

    def best_baseline(
        self, metric: str, sigma: float = 50.0, fraction: float = 0.01, among: Sequence[str] = BASELINES, sign: int = 1
    ) -> pd.Series:
        """The baseline with the highest mean (times `sign`), by seed; empty unless all are there."""
        series = [self.selected(method, metric, sigma, fraction) for method in among]
        return max(series, key=lambda s: sign * s.mean()) if all(map(len, series)) else NOTHING

    def cells(self, method: str, metric: str, sigma: float = 50.0) -> pd.DataFrame:
        """A metric by configuration (columns) and seed (rows), at 1 % of labels, global discriminators, tau_alpha < 1."""
        rows = self.rows[(self.rows.method == method) & (self.rows.sigma == sigma) & (self.rows.label_fraction == 0.01)]
        rows = rows[rows.tau_alpha < 1.0]
        rows = rows[rows.discriminator.isna() | (rows.discriminator == "global")]
        names = ["tau_alpha", "tau_beta", "lambda_"]
        table = rows.assign(cell=[tuple(v) for v in rows[names].fillna(-1).to_numpy()])
        table = table.pivot_table(index="seed", columns="cell", values=metric)
        present = table.notna().sum(axis=1)  # a seed that is half trained, or diverged somewhere, does not count
        return table[present == present.max()].dropna(axis=1)

    def grid(self, method: str, metric: str, sigma: float = 50.0) -> pd.DataFrame:
        """`cells` if every configuration of the paper's grid is there, else a table without columns."""
        table = self.cells(method, metric, sigma)
        wanted = sum(cell["tau_alpha"] < 1.0 for cell in experiments.cells(method, "paper"))
        return table if table.shape[1] == wanted else table.iloc[:, :0]


def difference(what: str, a: pd.Series, b: pd.Series, sign: int = 1) -> Contrast:
    """The contrast sign * (a - b), paired by seed."""
    joined = pd.concat([a.rename("a"), b.rename("b")], axis=1, join="inner").dropna()
    return Contrast(what, mean_interval(sign * (joined.a - joined.b).to_numpy()))


def one(what: str, values: Sequence[float]) -> Contrast:
    """A contrast from its values, one a seed."""
    return Contrast(what, mean_interval(values))
