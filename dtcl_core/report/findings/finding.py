"""What a finding is: a sentence written by a person for the rows of a day, and the function that fills in its numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ...analysis import contrasts, tau_min_levels
from ...config import Protocol, Run
from ...experiments import REGISTRY, core
from .. import levels, notebook

PRESET = "core"  # whose runs the findings are about
METHODS = contrasts.PROPOSED
LEVELS = dict(zip(("low", "raised"), core.TAU_MINS))
FRACTIONS = {"few": 0.01, "some": 0.1, "all": 1.0}
WITHOUT_LEVEL = (
    "claims",
    "questions",
)  # chapters that take no level: one shows both, one changes choices under the first
Numbers = Mapping[str, Any]


@dataclass(frozen=True)
class Rows:
    """The runs of a chapter and those of their rows that are there."""

    runs: Sequence[Run]
    measured: pd.DataFrame
    preset: str = PRESET

    @property
    def missing(self) -> str:
        """How many runs are missing, as a line; empty if none is."""
        asked, there = len({run.key for run in self.runs}), self.measured.key.nunique()
        return "" if there == asked else f"not yet run: {asked - there} of {asked}"

    def evidence(self, fresh: bool = False) -> contrasts.Evidence:
        """The rows as claims see them, of the seeds that selected or of the fresh ones."""
        return contrasts.Evidence(self.measured[(self.measured.seed >= core.FRESH_SEED) == fresh])

    def at(self, level: float) -> Rows:
        """Those of one level of tau_min, beside the baselines, labelled alike."""
        plain = next(run.protocol for run in self.runs if run.method not in METHODS)
        return Rows(levels.at_level(self.runs, level), tau_min_levels.at(self.measured, level, plain), self.preset)

    def with_fresh(self) -> Rows:
        """These, and what is selected of them under each level of tau_min on the fresh seeds that claims are judged on."""
        again, found = notebook.confirm_at_levels(self.runs, self.measured, self.preset)
        return Rows([*self.runs, *again], notebook.together(self.measured, found.drop(columns="level")), self.preset)


NO_ROWS = Rows((), pd.DataFrame({"key": []}))


@dataclass(frozen=True)
class Finding:
    """A sentence about a chapter's rows.

    Attributes:
        date: when it was written.
        text: the sentence, with the names of numbers in braces; or on a line of its own what one is to remember, in plain words, and
            under it what bears that out.
        numbers: what fills them, from the chapter's rows.
        holds: whether the rows bear what the sentence says of its numbers.
        about: which of the chapter's runs it is about; None: all.
        preset: whose runs it is about.
        chapter: whose runs it is about if its name is no chapter's; None: the main table's.
        levels: whether it is about every level of tau_min, where a chapter shows one.
        fresh: whether it is about what was selected on fresh seeds.
    """

    date: str
    text: str
    numbers: Callable[[Rows], Numbers]
    holds: Callable[[Numbers], bool]
    about: Callable[[Run], bool] | None = None
    preset: str = PRESET
    chapter: str | None = None
    levels: bool = False
    fresh: bool = False

    def part(self, rows: Rows) -> Rows:
        """Those of a chapter's rows that it is about."""
        if self.about is None:
            return rows
        runs = [run for run in rows.runs if self.about(run)]
        return Rows(runs, rows.measured[rows.measured.key.isin({run.key for run in runs})], rows.preset)

    def sentence(self, rows: Rows) -> str:
        """The sentence with its numbers.

        Raises:
            ValueError: if the rows do not bear it.
        """
        numbers = self.numbers(rows)
        said = self.text.format(**numbers)
        if not self.holds(numbers):
            raise ValueError(f'no longer true of the rows: "{" ".join(said.splitlines())}" (written {self.date})')
        return said

    def dated(self, rows: Rows) -> Sentence:
        """The sentence at the head of a page: its date, what one is to remember in bold, the rest in paragraphs under it.

        Raises:
            ValueError: as `sentence` does.
        """
        return Sentence.found(self.date, self.sentence(rows))


@dataclass(frozen=True)
class Sentence:
    """A line of prose as notebooks display it: as it is, or as Markdown."""

    text: str

    @classmethod
    def found(cls, date: str, text: str) -> Sentence:
        """What was found on a day: the first of several lines in bold, the others in paragraphs under it."""
        first, *rest = text.split("\n")
        head = f"**Found, {date}: {first}**" if rest else f"**Found, {date}:** {first}"
        return cls("\n\n".join([head, *rest]))

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return "\n".join(f"> {line}" for line in self.text.split("\n"))


def obtained(experiment: str, preset: str, every: bool = False) -> tuple[Sequence[Run], pd.DataFrame]:
    """Runs and rows as the chapter has them without other parameters: of one level of tau_min, where it takes one; or of every."""
    one = REGISTRY[experiment].parts and experiment not in WITHOUT_LEVEL and not every
    level = Protocol().tau_min if one else None
    return notebook.obtain(experiment, preset, False, "auto", level=level)


def of_grid(run: Run) -> bool:
    """Whether a run is at sigma 50, and of one of the seeds that every cell of the strip has."""
    return run.seed in core.GRID_SEEDS and run.sigma == core.SIGMA


def is_looked_at(run: Run) -> bool:
    """Whether a run is of a cell that calibration may look at, which is no evidence."""
    return run.method in METHODS and core.is_calibrated(run.tau_alpha, run.tau_beta)


def short(method: str) -> str:
    return method.removeprefix("dw_")


def named(name: str, line: pd.Series) -> dict[str, float]:
    """An interval's mean and limits, under names that begin alike."""
    return {f"{name}_{field}": line[field] for field in ("mean", "low", "high")}
