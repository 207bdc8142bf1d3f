"""The paper's tables, each cell reported beside or above measured ("twins"): its rows in its order, its columns.

A twin shows three decimals, 95 % intervals over seeds and n. Bold: the best of a column (Tables 3 to 8: of the table; Table 9: of a
method's two discriminators). Underlined, in Tables 1 and 2: the second best. Oracles aside; of D-Test-ID the nearest to one half.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from dtcl_core.config import LABEL_FRACTIONS, SIGMAS, TAU_ALPHAS, TAU_BETAS
from dtcl_core.methods import ALL_METHODS, METHODS

from . import reported
from .chapter import Table
from .claims import DROPOUTS, NOT_YET, judged, sides, states
from .compare import Interval, accuracy, by_seed, cut_said, difference, seeds_said
from .experiments import BASELINES, DOMAIN, ID, OOD, ORACLE, PROPOSED, SHORT, percent, title
from .reported import CHANCE, SIGMA
from .selection import ROUNDED
from .study import Evidence, Study

ACCURACIES = (OOD, ID, DOMAIN)
Where = Mapping[str, Any]  # values of columns of rows
Place = tuple[int, int]  # a cell, by line and column
NOT_RUN = "not yet run"
KINDS, BESIDE = ("reported", "measured"), 3  # the numbers of a cell; in how many columns a page has room for both side by side
MARKS = {" *": "* the paper's methods", " †": "† oracle, not ranked"}


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
        name = self.where.get("method")
        proposed = name in PROPOSED and "discriminator" not in self.where
        return " *" if proposed else " †" if name and ALL_METHODS[name].oracle else ""


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
    reported: dict[Place, float]
    measured: dict[Place, Interval]
    whole: bool = False

    @property
    def compared(self) -> list[list[Place]]:
        """The cells among which one is best: those of a column, or of the table, in each group of lines; no oracle's."""
        found: dict[Any, list[Place]] = {}
        for (i, line), j in product(enumerate(self.lines), range(len(self.columns))):
            if line.mark != " †":
                found.setdefault((line.group, None if self.whole else j), []).append((i, j))
        return list(found.values())

    @property
    def comparable(self) -> dict[Place, float]:
        """Our means, without those that are compared with a mean over another number of seeds."""
        alike = [places for places in self.compared if len({self.measured[place].n for place in places}) == 1]
        return {place: self.measured[place].mean for places in alike for place in places}

    def marks(self, values: Mapping[Place, float]) -> dict[Place, str]:
        """Which cells are marked: "b" the best of those compared, "u" the second best of a whole column. Equals are marked alike.

        Nothing is marked among cells of which one has no value.
        """
        tags = "b" if self.whole or any(line.group for line in self.lines) else "bu"
        found: dict[Place, str] = {}
        for places in self.compared:
            each = [(values.get(place, math.nan), self.columns[place[1]].metric) for place in places]
            scores = [round(abs(v - CHANCE) if metric == DOMAIN else -v, ROUNDED) for v, metric in each]  # the lowest is best
            if len(places) > 1 and not any(map(math.isnan, scores)):
                ranks = [sum(other < score for other in scores) for score in scores]
                found |= {place: tags[rank] for place, rank in zip(places, ranks) if rank < len(tags)}
        return found

    @property
    def frame(self) -> pd.DataFrame:
        """One row per cell: row, column, metric, reported, mean, low, high, n."""
        lines = []
        for i, line in enumerate(self.lines):
            for j, column in enumerate(self.columns):
                theirs, ours = self.reported.get((i, j), math.nan), self.measured[i, j]
                lines.append((line.label, column.label, column.metric, theirs, *ours))
        return pd.DataFrame(lines, columns=["row", "column", "metric", "reported", "mean", "low", "high", "n"])

    @property
    def n_text(self) -> str:
        """How many seeds stand behind the cells, in words."""
        return seeds_said(interval.n for interval in self.measured.values()) or NOT_RUN

    @property
    def mixed(self) -> bool:
        """Whether cells that have rows stand on different numbers of seeds."""
        return len({interval.n for interval in self.measured.values()} - {0}) > 1

    def table(self, first: str = "") -> Table:
        """As a page shows it, with the first column's header: reported beside measured, or above it if there are many columns."""
        records: list[dict[str, str]] = []
        marked, small = dict[tuple[int, str], str](), dict[tuple[int, str], str]()
        beside, heads = len(self.columns) <= BESIDE, [column.head or column.label for column in self.columns]
        names = [[f"{head}, {kind}" if beside else head for head in heads] for kind in KINDS]
        for k, marks in enumerate((self.marks(self.reported), self.marks(self.comparable))):
            marked |= {(i if beside else 2 * i + k, names[k][j]): mark for (i, j), mark in marks.items()}
        for i, line in enumerate(self.lines):
            above = {first: line.label + line.mark} | ({} if beside else {" ": KINDS[0]})
            below = above if beside else {first: "", " ": KINDS[1]}
            for j, (reported_name, measured_name) in enumerate(zip(*names, strict=True)):
                theirs, ours = self.reported.get((i, j)), self.measured[i, j]
                above[reported_name] = "–" if theirs is None else f"{theirs:.3f}"
                below[measured_name] = f"{ours.mean:.3f}" if ours.n else "–"
                ends = [ours.ends] * (ours.n > 1) + [f"n {ours.n}"] * (self.mixed and ours.n > 0)
                small |= {(i if beside else 2 * i + 1, measured_name): ", ".join(ends)} if ends else {}
            records += [above] if beside else [above, below]
        return Table(pd.DataFrame(records), self.said, marked, small)

    @property
    def said(self) -> str:
        """The caption with what is measured and how cells are marked."""
        intervals = self.measured.values()
        n = max((interval.n for interval in intervals), default=0)
        over = f"our mean over {self.n_text} and its 95 % interval{cut_said(intervals)}"
        how = over if n > 1 else "one seed, so no interval" if n else NOT_RUN
        notes = "; ".join(says for mark, says in MARKS.items() if mark in {line.mark for line in self.lines})
        how += f". {notes}" if notes else ""
        best = "best mean of the table" if self.whole else "best mean, underlined: second best"
        best = "the better of a method's two discriminators" if any(line.group for line in self.lines) else best
        best += " (D-Test-ID: nearest to 0.5, chance)" * (DOMAIN in {column.metric for column in self.columns})
        return f"{self.caption} Measured: {how}. Bold: {best}." + " Means of different n are not compared." * self.mixed


def twin(caption: str, lines: Sequence[Line], columns: Sequence[Column], rows: pd.DataFrame, paper: pd.DataFrame) -> Twin:
    """A twin from rows and the paper's numbers.

    Args:
        rows: of one configuration for each line and column, one row per seed.
        paper: columns metric, value and those that lines and columns name.
    """
    theirs, measured = dict[Place, float](), dict[Place, Interval]()
    for i, line in enumerate(lines):
        for j, column in enumerate(columns):
            where = {**line.where, **column.where}
            there = np.logical_and.reduce([paper[name] == value for name, value in {"metric": column.metric, **where}.items()])
            if there.any():
                theirs[i, j] = paper.value[there].item()
            measured[i, j] = accuracy(by_seed(rows, column.metric, line.label, **where))
    return Twin(caption, tuple(lines), tuple(columns), theirs, measured)


def of_methods(methods: Sequence[str] = tuple(METHODS)) -> list[Line]:
    """One row per method, in the paper's order."""
    return [Line(title(method), {"method": method}) for method in methods]


def table_1(rows: pd.DataFrame, label_fraction: float = 0.01, sigma: float = SIGMA) -> Twin:
    """Table 1: methods that have rows, and the oracle, by three accuracies; rows of selected configurations."""
    where = {"label_fraction": label_fraction, "sigma": sigma}
    heads = {OOD: "Unseen (Test-OOD)", ID: "Training (Test-ID)", DOMAIN: "Colour probe (D-Test-ID)"}
    columns = [Column(SHORT[metric], metric, where, heads[metric]) for metric in ACCURACIES]
    methods = [m for m in ALL_METHODS if m in {*(set(rows.method) or METHODS), ORACLE}]
    paper = reported.main_comparison(sigma, label_fraction)
    caption = f"Accuracy with {percent(label_fraction)} of the labels, colour spread sigma {sigma:g}."
    return twin(caption, of_methods(tuple(methods)), columns, rows, paper)


def studies_of_table_1(evidence: Evidence) -> dict[str, Twin]:
    """Table 1 as each study measures it, by the study's name; before both are judged, the first as `KINDS` calls it."""
    first, again = twin_of(1, evidence), Study("dropout_fresh", evidence.preset, quiet=True)
    if not again.whole or judged(1, evidence).word == NOT_YET:
        return {KINDS[1]: first}
    twins = first, table_1(again.frame)
    return {f"dropout {rate}": twin for rate, twin in zip(DROPOUTS, twins, strict=True)}


def beside(twins: Mapping[str, Twin]) -> Table:
    """A table as reported, then as studies of these names measure it, with half of each 95 % interval."""
    first = next(iter(twins.values()))
    longer = r"^(CL with|Standard CL w/) | Penalty$|(?<=Same Domain) Negatives$"
    records = [{"method": re.sub(longer, "", line.label).replace("Domain-Weighted", "DW") + line.mark} for line in first.lines]
    marked, small = dict[tuple[int, str], str](), dict[tuple[int, str], str]()
    for j, column in enumerate(first.columns):
        kinds = {KINDS[0]: first.marks(first.reported)} | {kind: twin.marks(twin.comparable) for kind, twin in twins.items()}
        for kind, marks in kinds.items():
            head = f"{column.head or column.label}, {kind}"
            marked |= {(i, head): mark for (i, k), mark in marks.items() if k == j}
            for i, record in enumerate(records):
                ours = twins[kind].measured[i, j] if kind in twins else None
                record[head] = f"{ours.mean:.3f}" if ours and ours.n else "–" if ours else f"{first.reported[i, j]:.3f}"
                small |= (
                    {(i, head): f"±{max(ours.high - ours.mean, ours.mean - ours.low):.3f}".replace("0.", ".")}
                    if ours and ours.n > 1
                    else {}
                )
    caption = first.said.replace(" Measured:", f" With {' and '.join(twins)}:")
    return Table(pd.DataFrame(records), caption, marked, small)


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
    caption = f"{SHORT[metric]} accuracy of {title(method)}, sigma 50, 1 % of the labels."
    return replace(twin(caption, lines, columns, mine, reported.temperature_tables().query("method == @method")), whole=True)


def table_9(rows: pd.DataFrame, sigmas: Sequence[float] = SIGMAS) -> Twin:
    """Table 9: two methods, each with two kinds of discriminator, by three accuracies at five spreads, or at some of them."""
    kinds = product(PROPOSED, {"global": "global", "batch": "batch-level"}.items())
    lines = [Line(f"{title(m)}, {name}", {"method": m, "discriminator": kind}, m) for m, (kind, name) in kinds]
    spreads = {s: f"sigma {s:g}, " if len(sigmas) > 1 else "" for s in sigmas}
    columns = [Column(spreads[s] + SHORT[m], m, {"label_fraction": 0.01, "sigma": s}) for s in sigmas for m in ACCURACIES]
    caption = f"Accuracy with 1 % of the labels at sigma {', '.join(f'{s:g}' for s in sigmas)}."
    return twin(caption, lines, columns, rows, reported.load("table_9_global_vs_batch"))


def twin_of(number: int, evidence: Evidence | None = None) -> Twin:
    """The twin of a table: 1 and 2 as `Evidence.shown`, 9 on fresh seeds where both discriminators have them, others on the grid's.

    Raises:
        ValueError: for a number that no table has.
    """
    evidence = evidence or Evidence()
    if number in (1, 2):
        return (table_1, table_2)[number - 1](evidence.shown)
    if number in TEMPERATURE_TABLES:
        return temperature_table(number, Study("temperature", evidence.preset, quiet=True).complete)
    if number == 9:
        grid = Study("global_vs_batch", evidence.preset, quiet=True).selected()
        fresh = evidence.fresh[evidence.fresh.label_fraction == 0.01]
        both = fresh.groupby("sigma").filter(lambda rows: rows.discriminator.nunique() == 2)
        return table_9(pd.concat([both, grid[~grid.sigma.isin(both.sigma)]]))
    raise ValueError(f"the paper has Tables 1 to 9, got {number!r}.")


def leads(rows: pd.DataFrame) -> pd.DataFrame:
    """Each proposed method beside the four baselines, and its smallest mean lead, with that baseline.

    `rows` are of one configuration a method on fresh seeds, at one label fraction; with fewer than two seeds the table is empty.
    """
    lines = []
    for metric, method in product((OOD, ID), PROPOSED):
        mine = by_seed(rows, metric, method=method)
        found = states((title(other), difference(mine, by_seed(rows, metric, method=other))) for other in BASELINES)
        if NOT_YET not in {c.state for c in found}:
            nearest = min(found, key=lambda c: c.interval.mean)
            smallest = f"{nearest.interval.text(signed=True)}, {nearest.label}"
            lines.append((title(method), SHORT[metric], sides(found, span=True), smallest))
    return pd.DataFrame(lines, columns=["method", "accuracy", "beside the four baselines", "smallest lead"])


def devices_said(rows: pd.DataFrame) -> str:
    """Which methods have runs from another kind of device than most runs, and how many; empty if all come from one kind."""
    cpu = rows.instructions.map(lambda name: f"a CPU with {name}" if isinstance(name, str) else "a CPU")
    kind = cpu.where(rows.device == "cpu", "a GPU")
    if kind.nunique() < 2:
        return ""
    runs = rows.groupby([kind, "method"]).key.nunique()
    usual, *others = kind.value_counts().index
    parts = {o: [f"{title(m)} ({runs[o, m]} of {runs[:, m].sum()} runs)" for m in ALL_METHODS if (o, m) in runs] for o in others}
    told = [f"{other}: {', '.join(part)}" for other, part in parts.items()]
    why = "A difference between methods may be partly one between devices: see *How far to trust these numbers*."
    return f"Trained by {'; by '.join(told)}; all other runs by {usual}. {why}"


def provenance(frame: pd.DataFrame) -> pd.DataFrame:
    """How many runs come from which device, precision, torch and code."""
    kinds = ["device", "device_name", "instructions", "precision", "torch", "sources"]
    return frame.groupby(kinds, dropna=False).key.nunique().rename("runs").reset_index()
