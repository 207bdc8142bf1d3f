"""The paper's tables, each cell reported above measured ("twins"): its rows in its order, its columns.

A twin shows three decimals throughout, 95 % intervals over seeds, n, the best of each column in bold (of Tables 3 to 8 that of the
table) and the second best underlined, the oracle aside; of D-Test-ID the nearest to one half.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pandas as pd

from dtcl_core.config import HYPERPARAMETERS, LABEL_FRACTIONS, SIGMAS, TAU_ALPHAS, TAU_BETAS
from dtcl_core.methods import METHODS

from . import reported, selection
from .chapter import Table
from .claims import NOT_YET, Contrast, Evidence, percent, states
from .compare import Interval, accuracy, by_seed, cut_said, difference, seeds_said
from .experiments import BASELINES, DOMAIN, ID, OOD, ORACLE, PROPOSED, SHORT, title
from .reported import SIGMA
from .study import Study

ACCURACIES = (OOD, ID, DOMAIN)
Where = Mapping[str, Any]  # values of columns of rows
NOT_RUN = "not yet run"
MARKS = "* the paper's methods; † oracle, never marked."


@dataclass(frozen=True)
class Column:
    """A column of a twin: what it is called (at more length on a page), which accuracy it shows, and of which rows."""

    label: str
    metric: str
    where: Where
    head: str = ""


@dataclass(frozen=True)
class Line:
    """A row of a twin: what it is called, of which rows, and among which lines it may be best; an oracle takes no part."""

    label: str
    where: Where
    group: str = ""

    @property
    def mark(self) -> str:
        """What a page puts behind the label, as `MARKS` says."""
        mine = self.where.get("method") if "discriminator" not in self.where else None
        return " *" if mine in PROPOSED else " †" if mine == ORACLE else ""


@dataclass(frozen=True)
class Twin:
    """A table of the paper beside ours.

    Attributes:
        caption: the table's line.
        lines, columns: of the paper, in its order.
        reported: the paper's numbers, by line and column; missing where it gives none.
        measured: ours, likewise.
        whole: whether the best is of the table, not of each column.
    """

    caption: str
    lines: tuple[Line, ...]
    columns: tuple[Column, ...]
    reported: dict[tuple[int, int], float]
    measured: dict[tuple[int, int], Interval]
    whole: bool = False

    def marks(self, values: Mapping[tuple[int, int], float], column: int) -> dict[int, str]:
        """How lines of a column are marked: "b" the best of some values, of each group that has all of them; "u" the second best.

        Equals are marked alike. The second best is marked only where the best is of a whole column.
        """
        near = self.columns[column].metric == DOMAIN
        groups: dict[str, list[tuple[float, int, int]]] = {}
        for (i, j), value in values.items():
            if (self.whole or j == column) and self.lines[i].where.get("method") != ORACLE and not math.isnan(value):
                groups.setdefault(self.lines[i].group, []).append((round(abs(value - 0.5), 12) if near else -value, i, j))
        known = "b" if self.whole or self.lines[0].group else "bu"
        taking_part = Counter(line.group for line in self.lines if line.where.get("method") != ORACLE)
        whole = {group: n * (len(self.columns) if self.whole else 1) for group, n in taking_part.items()}
        found = [g for group, g in groups.items() if len(g) == whole[group] > 1]
        ranks = [(sum(v < value for v, *_ in g), i) for g in found for value, i, j in g if j == column]
        return {i: known[rank] for rank, i in ranks if rank < len(known)}

    @property
    def frame(self) -> pd.DataFrame:
        """One row per cell: row, column, metric, reported, mean, low, high, n."""
        lines = []
        for i, line in enumerate(self.lines):
            for j, column in enumerate(self.columns):
                told, ours = self.reported.get((i, j), math.nan), self.measured[i, j]
                lines.append((line.label, column.label, column.metric, told, *ours))
        return pd.DataFrame(lines, columns=["row", "column", "metric", "reported", "mean", "low", "high", "n"])

    @property
    def seeds_said(self) -> str:
        """How many seeds stand behind the cells, in words."""
        return seeds_said(interval.n for interval in self.measured.values()) or NOT_RUN

    def table(self, first: str = "") -> Table:
        """As a page shows it, with a header of the first column: two lines a row, reported above, measured below with its interval."""
        records: list[dict[str, str]] = []
        marked: dict[tuple[int, str], str] = {}
        small: dict[tuple[int, str], str] = {}
        means = {place: interval.mean for place, interval in self.measured.items()}
        heads = [column.head or column.label for column in self.columns]
        mixed = len({interval.n for interval in self.measured.values()} - {0}) > 1
        for i, line in enumerate(self.lines):
            group = [k for k, o in enumerate(self.lines) if o.group == line.group and o.where.get("method") != ORACLE]
            above, below = {first: line.label + line.mark, " ": "reported"}, {first: "", " ": "measured"}
            for j, head in enumerate(heads):
                told, ours = self.reported.get((i, j)), self.measured[i, j]
                above[head] = "–" if told is None else f"{told:.3f}"
                below[head] = f"{ours.mean:.3f}" if ours.n else "–"
                ends = [f"{ours.low:.3f}–{ours.high:.3f}"] * (ours.n > 1) + [f"n {ours.n}"] * (mixed and ours.n > 0)
                small |= {(2 * i + 1, head): ", ".join(ends)} if ends else {}
                alike = len({self.measured[k, c].n for k in group for c in (range(len(heads)) if self.whole else [j])}) < 2
                for k, values in enumerate((self.reported, means if alike else {})):
                    marked |= {(2 * i + k, head): mark} if (mark := self.marks(values, j).get(i)) else {}
            records += [above, below]
        most = max((i.n for i in self.measured.values()), default=0)
        how = f"our mean over {self.seeds_said} and its 95 % interval{cut_said(self.measured.values())}"
        how = how if most > 1 else [NOT_RUN, "one seed, so no interval"][most]
        marks = f" {MARKS}" if any(line.mark for line in self.lines) else ""
        best = "best of the table" if self.whole else "best, underlined: second best"
        best = "the better of a method's two" if any(line.group for line in self.lines) else best
        near = " (D-Test-ID: nearest 0.5)" if DOMAIN in {column.metric for column in self.columns} else ""
        said = f"{self.caption} Measured: {how}.{marks} Bold: {best}{near}.{' Means of different n are not compared.' * mixed}"
        return Table(pd.DataFrame(records), said, marked, small)


def twin(caption: str, lines: Sequence[Line], columns: Sequence[Column], rows: pd.DataFrame, paper: pd.DataFrame) -> Twin:
    """A twin from rows and the paper's numbers.

    Args:
        caption: the table's line.
        lines, columns: of the paper.
        rows: of one configuration for each line and column, one row per seed.
        paper: columns metric, value and those that lines and columns name.
    """
    told: dict[tuple[int, int], float] = {}
    measured: dict[tuple[int, int], Interval] = {}
    for i, line in enumerate(lines):
        for j, column in enumerate(columns):
            where = {**line.where, **column.where}
            found = paper[paper.metric == column.metric]
            for name, value in where.items():
                found = found[found[name] == value]
            if len(found):
                told[i, j] = float(found.value.iloc[0])
            measured[i, j] = accuracy(by_seed(rows, column.metric, line.label, **where))
    return Twin(caption, tuple(lines), tuple(columns), told, measured)


def of_methods(methods: Sequence[str] = tuple(METHODS)) -> list[Line]:
    """One row per method, in the paper's order."""
    return [Line(title(method), {"method": method}) for method in methods]


def accuracies(rows: pd.DataFrame, metrics: Sequence[str] = ACCURACIES) -> list[str]:
    """Some accuracies of one configuration as texts, each the mean over seeds with its interval."""
    return [accuracy(by_seed(rows, metric)).text() for metric in metrics]


def table_1(rows: pd.DataFrame, label_fraction: float = 0.01, sigma: float = SIGMA) -> Twin:
    """Table 1: seven methods by three accuracies; rows of selected configurations."""
    where = {"label_fraction": label_fraction, "sigma": sigma}
    heads = {
        OOD: "Unseen colour (Test-OOD)",
        ID: "Training colours (Test-ID)",
        DOMAIN: "Colour recovered (D-Test-ID, best 0.5)",
    }
    columns = [Column(SHORT[metric], metric, where, heads[metric]) for metric in ACCURACIES]
    methods = [m for m in METHODS if m in set(rows.method)] if len(rows) else METHODS
    paper = reported.main_comparison(sigma, label_fraction)
    caption = f"Accuracy with {percent(label_fraction)} of the labels at sigma {sigma:g}."
    return twin(caption, of_methods(tuple(methods)), columns, rows, paper)


def table_2(rows: pd.DataFrame) -> Twin:
    """Table 2: seven methods by two accuracies at three label fractions."""
    columns = [Column(f"{SHORT[m]}, {percent(f)}", m, {"label_fraction": f}) for m in (OOD, ID) for f in LABEL_FRACTIONS]
    paper = pd.concat([reported.main_comparison(label_fraction=f) for f in LABEL_FRACTIONS], ignore_index=True)
    return twin("Accuracy at sigma 50 by the share of labels.", of_methods(), columns, rows, paper)


TEMPERATURE_TABLES = dict(enumerate(product(PROPOSED, ("validation", OOD, ID)), 3))  # by number: whose, and which accuracy


def temperature_table(number: int, rows: pd.DataFrame) -> Twin:
    """Tables 3 to 8: ten tau_alpha by four tau_beta; rows of a whole grid."""
    method, metric = TEMPERATURE_TABLES[number]
    mine = rows[(rows.method == method) & (rows.label_fraction == 0.01)]
    columns = [Column(f"tau_beta {b:g}", metric, {"tau_beta": b}) for b in TAU_BETAS]
    lines = [Line(f"{a:g}", {"tau_alpha": a}) for a in TAU_ALPHAS]
    paper = reported.temperature_tables()
    caption = f"{SHORT[metric]} accuracy of {title(method)}, sigma 50, 1 % of the labels."
    return replace(twin(caption, lines, columns, mine, paper[paper.method == method]), whole=True)


def table_9(rows: pd.DataFrame, sigmas: Sequence[float] = SIGMAS) -> Twin:
    """Table 9: two methods, each with two kinds of discriminator, by three accuracies at five spreads, or at some of them."""
    lines = [
        Line(f"{title(m)}, {'global' if kind == 'global' else 'batch-level'}", {"method": m, "discriminator": kind}, m)
        for m in PROPOSED
        for kind in ("global", "batch")
    ]
    where = {"label_fraction": 0.01}
    spread = "sigma {:g}, ".format if len(sigmas) > 1 else lambda sigma: ""
    columns = [Column(spread(s) + SHORT[m], m, {**where, "sigma": s}) for s in sigmas for m in ACCURACIES]
    caption = f"Accuracy with 1 % of the labels at sigma {', '.join(f'{s:g}' for s in sigmas)}."
    return twin(caption, lines, columns, rows, reported.load("table_9_global_vs_batch"))


def twin_of(number: int, evidence: Evidence | None = None) -> Twin:
    """The twin of a table of the paper: Tables 1 and 2 as `Evidence.shown`, the others on the grid's complete seeds.

    Raises:
        ValueError: for a number that no table has.
    """
    evidence = evidence or Evidence()
    if number in (1, 2):
        return (table_1, table_2)[number - 1](evidence.shown)
    if number in TEMPERATURE_TABLES:
        return temperature_table(number, Study("temperature", evidence.preset).complete)
    if number == 9:
        return table_9(Study("global_vs_batch", evidence.preset).selected())
    raise ValueError(f"the paper has Tables 1 to 9, got {number!r}.")


def leads(rows: pd.DataFrame, metrics: Sequence[str] = (OOD, ID)) -> pd.DataFrame:
    """What the proposed methods have over the baselines, in a word.

    A method leads on an accuracy if its contrasts over all four baselines are for it, trails if one is against it, else it is open.

    Args:
        rows: of one configuration a method on fresh seeds, at one label fraction.

    Returns:
        Columns: method, accuracy, verdict, smallest lead (over the best baseline, as text) and smallest upper limit (of a lead over a
        baseline); empty where a method has fewer than two seeds.
    """
    lines = []
    for metric in metrics:
        for method in PROPOSED:
            found = over_baselines(rows, method, metric)
            told = {c.state for c in found}
            if NOT_YET in told:
                continue
            word = "leads" if told == {"for"} else "trails" if "against" in told else "open"
            nearest = min(found, key=lambda c: c.interval.mean)
            text = f"{nearest.interval.text(signed=True)} over {nearest.label}"
            lines.append((title(method), SHORT[metric], word, text, min(c.interval.high for c in found)))
    return pd.DataFrame(lines, columns=["method", "accuracy", "verdict", "smallest lead", "smallest upper limit"])


def over_baselines(rows: pd.DataFrame, method: str, metric: str) -> list[Contrast]:
    """The contrasts of a proposed method with each baseline on an accuracy, as those of claim 1; rows as for `leads`."""
    mine, m = by_seed(rows, metric, method=method), 2 * len(PROPOSED) * len(BASELINES)
    pairs = [(title(other), difference(mine, by_seed(rows, metric, method=other))) for other in BASELINES]
    return states(pairs, m=m)


def selected_configurations(chosen: pd.DataFrame) -> pd.DataFrame:
    """The selected configurations as a table: method, discriminator, sigma, hyperparameters, validation, n."""
    lines = []
    for c in chosen.itertuples():
        named = selection.named([getattr(c, h) for h in HYPERPARAMETERS])
        lines.append((title(c.method), c.discriminator, f"{c.sigma:g}", named, c.validation, int(c.n)))
    table = pd.DataFrame(lines, columns=["method", "discriminator", "sigma", "tau_alpha / tau_beta or lambda", "validation", "n"])
    return table.drop(columns=[name for name in ("discriminator", "sigma") if table[name].nunique(dropna=True) < 2])


def devices_said(rows: pd.DataFrame) -> str:
    """How many runs of which methods a GPU trained, where a CPU trained the others; else empty."""
    runs, on_gpu = (part.groupby("method").key.nunique() for part in (rows, rows[rows.device != "cpu"]))
    told = ", ".join(f"{title(m)} ({on_gpu[m]} of {runs[m]} runs)" for m in METHODS if m in on_gpu)
    why = "A difference between methods may be partly one between devices: see *How far to trust these numbers*."
    return f"Trained by a GPU: {told}; all others by a CPU. {why}" if rows.device.nunique() > 1 else ""


def provenance(frame: pd.DataFrame) -> pd.DataFrame:
    """How many runs come from which device, precision, torch and code."""
    return frame.groupby(["device", "precision", "torch", "sources"], dropna=False).key.nunique().rename("runs").reset_index()
