"""What a claim is judged by: rows and traces as evidence, and quantities over seeds as contrasts.

A *contrast* is a quantity, one value a seed, that a claim says is positive. Its 95 % t interval over seeds speaks *for*
the claim if it lies above zero, *against* it if it lies below the smallest size worth the name (`LEAST` for a difference of
accuracies, which is below all leads that they take from the paper; zero for other quantities), and is *open* otherwise; with
fewer than `MIN_SEEDS` seeds, or without the runs it needs, it is *missing*. `verdicts` makes a verdict of them.

Where a claim says that a quantity is zero, its contrast speaks for it if the interval lies within a margin around zero, and
against it if the interval lies outside that margin. Nothing is corrected for there being several contrasts: the chapter shows every one. Cells of the domain-weighted
methods that calibration looks at (`Evidence.is_calibrated`) are left out. In whole grids, a run that diverged counts as
chance; elsewhere its seed is missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from .. import experiments
from ..config import HYPERPARAMETERS
from ..experiments import core
from ..experiments.core import CHANCE
from ..experiments.core import PROPOSED as PROPOSED
from ..methods import ALL_METHODS
from ..traces import Trace
from . import selection
from .intervals import Interval, mean_interval

MIN_SEEDS = 3
LEAST = 0.005  # the smallest difference of accuracies worth the name
MARGIN = 0.02  # of accuracy: what "alike", "among the best" and "well short" mean
USING_DOMAINS = ("same_domain", "mmd", "dann")  # baselines that see the domains of the training images
BASELINES = ("standard", *USING_DOMAINS)
NOTHING = pd.Series(dtype=float)
SHORT = {"test_ood": "Test-OOD", "test_id": "Test-ID", "d_test_id": "D-Test-ID", "validation": "Validation"}


def plain(text: str) -> str:
    """A sentence with methods and accuracies under the names that tables give them.

    >>> plain("dw_pairs over standard, test_ood")
    'Domain-Weighted Pairs over Standard CL, Test-OOD'
    """
    titles = {**{name: method.title for name, method in ALL_METHODS.items()}, **SHORT}
    words = sorted(titles, key=len, reverse=True)
    return re.sub(rf"\b({'|'.join(map(re.escape, words))})\b(?! *CL)", lambda found: titles[found[0]], text)


@dataclass(frozen=True)
class Contrast:
    """One quantity that a claim says is positive.

    Attributes:
        what: in words.
        interval: its mean and t interval over n seeds (NaN limits where n < 2).
        within: set where the claim is that the quantity is zero, give or take this margin, instead of positive.
        least: the smallest size worth the name; an interval below it speaks against.
        metric: the accuracy it is about; None for other quantities.
        method: the method that it is about; None if that is several at once, or none.
        baseline: the method that this one is compared with; None if that is the best or the mean of several, or none.
        beside: shown beside what a claim is judged by; it decides nothing.
        signs: set where the claim is that there is no consistent sign: the sign of each part (at each sigma, say) of which the
            quantity is the mean.
    """

    what: str
    interval: Interval
    within: float | None = None
    least: float = 0.0
    metric: str | None = None
    method: str | None = None
    baseline: str | None = None
    beside: bool = False
    signs: tuple[int, ...] | None = None

    @property
    def said(self) -> str:
        """What it is, with methods and accuracies under the names that tables give them."""
        return plain(self.what)

    @property
    def speaks(self) -> str:
        """ "for", "against", "open" or "missing"."""
        if self.interval.n < MIN_SEEDS:
            return "missing"
        if self.within is not None and max(-self.interval.low, self.interval.high) < self.within:
            return "for"
        if self.within is not None:
            outside = self.interval.low > self.within or self.interval.high < -self.within
            return "against" if outside else "open"
        return "for" if self.interval.low > 0 else "against" if self.interval.high < self.least else "open"


class Evidence:
    """The rows of one protocol, with the selected cells looked up once.

    Args:
        frame: rows as from `results.Store.load`.
        traces: recorded runs of claim 11, one a seed.
        beside: rows of cells outside the grids that are compared; only claim 13 looks at them.
        held_out: score each seed with the cell that the other seeds select, instead of one cell that all select.
        tau_min: the level that the rows of the proposed methods are of; only claim 13's gradients look at it.

    Raises:
        ValueError: for rows of more than one protocol, or number of epochs.
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        traces: Sequence[Trace] = (),
        beside: pd.DataFrame | None = None,
        held_out: bool = False,
        tau_min: float = core.TAU_MINS[0],
    ):
        self.tau_min = tau_min
        if len(frame[["protocol", "epochs"]].drop_duplicates()) > 1:
            raise ValueError("evidence must be of one protocol and one number of epochs; rows of several were given.")
        seen = [self.is_calibrated(a, b) for a, b in zip(frame.tau_alpha, frame.tau_beta)]
        frame = frame[~(frame.method.isin(PROPOSED) & np.array(seen, dtype=bool))]
        self.tried = frame[frame.projector.isna()]
        sound = frame[frame.status == "ok"]
        self.heads = frame[(frame.method == "standard") & (frame.sigma == 25.0)]
        tried = self.tried
        chosen = selection.held_out(tried) if held_out else selection.rows_of(tried, selection.select(tried))
        self.chosen = chosen[chosen.status == "ok"]
        by = ["method", "sigma", "label_fraction", self.chosen.discriminator.fillna("").rename("fitted")]
        self._selected = {cell: rows.set_index("seed") for cell, rows in self.chosen.groupby(by)}
        self._nothing = self.chosen.iloc[:0].set_index("seed")
        self._cells: dict[tuple[str, str, float], pd.DataFrame] = {}
        self.in_grids = selection.select(self.tried[self.tried.tau_alpha < 1.0])
        self.traces = list(traces)
        both = [part for part in (sound, beside) if part is not None and len(part)]
        self.all = pd.concat(both, ignore_index=True).drop_duplicates(["key", "label_fraction"]) if both else sound

    def seeds(self) -> set[int]:
        """The seeds that there are rows of."""
        return {int(seed) for seed in self.all.seed.unique()}

    def without_rows(self) -> Evidence:
        """Evidence without any row: every contrast made from it is missing."""
        return Evidence(self.all.iloc[:0], tau_min=self.tau_min)

    @staticmethod
    def is_calibrated(tau_alpha: float, tau_beta: float) -> bool:
        """Whether calibration may look at a cell of the proposed methods, which then is no evidence."""
        return core.is_calibrated(tau_alpha, tau_beta)

    def selected(
        self, method: str, metric: str, sigma: float = 50.0, fraction: float = 0.01, discriminator: str = "global"
    ) -> pd.Series:
        """A metric of a method's selected cell, by seed."""
        cells = ((method, sigma, fraction, fitted) for fitted in (discriminator, ""))
        return next((self._selected[cell] for cell in cells if cell in self._selected), self._nothing)[metric]

    def proposed(self, metric: str, sigma: float = 50.0, fraction: float = 0.01) -> pd.Series:
        """The mean of the two proposed methods, by seed; empty unless both are there."""
        both = [self.selected(method, metric, sigma, fraction) for method in PROPOSED]
        return pd.concat(both, axis=1, join="inner").mean(axis=1) if all(map(len, both)) else NOTHING

    def best_baseline(
        self, metric: str, sigma: float = 50.0, fraction: float = 0.01, among: Sequence[str] = BASELINES, sign: int = 1
    ) -> pd.Series:
        """For each seed that all have, the baseline with the highest mean (times `sign`) over the others."""
        table = pd.concat([self.selected(method, metric, sigma, fraction) for method in among], axis=1, join="inner")
        return best_elsewhere(table, sign)

    def chosen_cell(self, method: str, sigma: float = 50.0) -> tuple[float, ...] | None:
        """The configuration that is selected among those of `cells`, as that names it; None without rows."""
        rows = self.in_grids[(self.in_grids.method == method) & (self.in_grids.sigma == sigma)]
        names = cells_of(rows[rows.discriminator.isna() | (rows.discriminator == "global")])
        return names[0] if names else None

    def cells(self, method: str, metric: str, sigma: float = 50.0) -> pd.DataFrame:
        """A metric by configuration (columns) and seed (rows), at 1 % of labels, global discriminators, tau_alpha < 1."""
        if (asked := (method, metric, sigma)) not in self._cells:
            self._cells[asked] = self._table(*asked)
        return self._cells[asked]

    def _table(self, method: str, metric: str, sigma: float) -> pd.DataFrame:
        rows = self.tried
        rows = rows[(rows.method == method) & (rows.sigma == sigma) & (rows.label_fraction == 0.01)]
        rows = rows[rows.tau_alpha < 1.0].fillna({metric: CHANCE})
        rows = rows[rows.discriminator.isna() | (rows.discriminator == "global")]
        table = rows.assign(cell=cells_of(rows)).pivot_table(index="seed", columns="cell", values=metric)
        present = table.notna().sum(axis=1)  # a seed that is half trained does not count
        return table[present == present.max()].dropna(axis=1)

    def grid(self, method: str, metric: str, sigma: float = 50.0) -> pd.DataFrame:
        """`cells` if every configuration of the paper's grid is there, else a table without columns."""
        table = self.cells(method, metric, sigma)
        wanted = sum(
            cell["tau_alpha"] < 1.0
            and not (method in PROPOSED and self.is_calibrated(cell["tau_alpha"], cell["tau_beta"]))
            for cell in experiments.cells(method, "paper")
        )
        return table if table.shape[1] == wanted else table.iloc[:, :0]


def best_elsewhere(table: pd.DataFrame, sign: int = 1) -> pd.Series:
    """For each seed (row), the value in the column whose mean (times `sign`) is highest over the *other* seeds.

    Picked on the very seeds it is scored on, the best of several alike would look better than any of them. Empty for fewer
    than two seeds.
    """
    if len(table) < 2:
        return NOTHING
    picked = [int((sign * table.drop(index=seed).mean()).argmax()) for seed in table.index]
    return pd.Series(table.to_numpy()[np.arange(len(table)), picked], table.index)


def sized_elsewhere(effect: pd.Series) -> pd.Series:
    """An effect by seed, its sign that of the mean over the other seeds: noise alone has mean zero, a size would not."""
    effect = effect.dropna()
    others = (effect.sum() - effect) / max(len(effect) - 1, 1)
    return effect * np.sign(others)


def cells_of(rows: pd.DataFrame) -> list[tuple[float, ...]]:
    """(tau_alpha, tau_beta, lambda) of each row; -1 for what its method lacks."""
    return [tuple(values) for values in rows[list(HYPERPARAMETERS)].astype(float).fillna(-1).to_numpy().tolist()]


def difference(what: str, a: pd.Series, b: pd.Series, least: float = LEAST, **about: Any) -> Contrast:
    """The contrast a - b of accuracies, paired by seed; `about` is the metric, method and baseline of a `Contrast`."""
    joined = pd.concat([a.rename("a"), b.rename("b")], axis=1, join="inner").dropna()
    return one(what, (joined.a - joined.b).tolist(), least, **about)


def one(what: str, values: Sequence[float], least: float = 0.0, **about: Any) -> Contrast:
    """A contrast from its values, one a seed; `about` is the metric, method and baseline of a `Contrast`."""
    return Contrast(what, mean_interval(values), least=least, **about)
