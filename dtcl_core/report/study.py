"""A chapter's runs and what every chapter makes of them: rows, selected cells, fresh seeds, verdicts. Cells show, this computes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import pandas as pd

from ..analysis import selection
from ..analysis.contrasts import SHORT
from ..analysis.selection import SELECTION_FRACTION
from ..config import HYPERPARAMETERS, Run
from ..methods import ALL_METHODS
from . import findings, levels, notebook, overview, tables
from .card import Card


class Study:
    """The runs of an experiment, and the rows that exist, after training the missing ones if asked to.

    Args:
        experiment: a name in `experiments.REGISTRY`.
        preset, compute, device, save, level, options: see `notebook.obtain`, which checks them before any work.

    Attributes:
        runs: what is asked for.
        measured: the rows among them that exist, a line a run and label fraction.
    """

    def __init__(
        self,
        experiment: str,
        preset: str,
        compute: bool = False,
        device: str = "auto",
        save: str | None = None,
        level: float | None = None,
        **options: Any,
    ):
        self.experiment, self.preset, self.compute, self.device, self.options = (
            experiment,
            preset,
            compute,
            device,
            options,
        )
        self.level = level
        self.runs, self.measured = notebook.obtain(experiment, preset, compute, device, save, level, **options)

    @cached_property
    def chosen(self) -> pd.DataFrame:
        """The cells that validation selects, as from `selection.select`."""
        return selection.select(self.measured)

    def selected(self, label_fraction: float | None = SELECTION_FRACTION) -> pd.DataFrame:
        """Rows of the selected cells with this share of the labels; None: with each."""
        return _with(selection.rows_of(self.measured, self.chosen), label_fraction)

    def held_out(self, label_fraction: float | None = SELECTION_FRACTION) -> pd.DataFrame:
        """Rows of the cells that validation selects on the other seeds, see `selection.held_out`."""
        return _with(selection.held_out(self.measured), label_fraction)

    def measured_at(self, label_fraction: float = SELECTION_FRACTION) -> pd.DataFrame:
        """All rows with this share of the labels."""
        return _with(self.measured, label_fraction)

    @property
    def shared(self) -> pd.DataFrame:
        """Rows of the seeds that every configuration has, by which all of them compete; all rows where there is no such seed."""
        return _shared(self.measured)

    def at_each_level(self, make: Callable[[pd.DataFrame], pd.DataFrame], shared: bool = False) -> pd.DataFrame:
        """A table of methods that has a proposed one under each level of tau_min.

        Args:
            make: the table, with a column method of titles, from rows of one level.
            shared: of the seeds alone that every configuration has.

        Returns:
            Its columns, and after the method tau_min ("–" where a method sees none) if there are several levels.
        """
        runs, measured = self.every_level
        parts = levels.by_level(runs, _shared(measured) if shared else measured)
        found = pd.concat(
            [make(part).assign(tau_min="–" if math.isnan(level) else f"{level:g}") for level, part in parts.items()]
        )
        titles = [known.title for known in ALL_METHODS.values()]
        found = found.sort_values("method", key=lambda names: names.map(titles.index), kind="stable", ignore_index=True)
        order = ["method", "tau_min", *(name for name in found if name not in ("method", "tau_min"))]
        return found[order] if len(parts) > 2 else found.drop(columns="tau_min")

    @cached_property
    def fresh(self) -> tuple[list[Run], pd.DataFrame]:
        """The selected cells on fresh seeds, and the rows that exist of them, see `notebook.confirm`."""
        return notebook.confirm(self.chosen, self.runs, self.preset, self.compute, self.device)

    def fresh_at_levels(self, label_fraction: float | None = SELECTION_FRACTION) -> pd.DataFrame:
        """Rows of the selected cells on fresh seeds, of a proposed method under each level, see `notebook.confirm_at_levels`."""
        _, found = notebook.confirm_at_levels(*self.every_level, self.preset, self.compute, self.device)
        return _with(found, label_fraction)

    @cached_property
    def judged(self) -> overview.Overview:
        """All claims, judged on the rows of the same preset, seeds and epochs."""
        seeds, epochs = self.options.get("seeds"), self.options.get("epochs")
        return overview.overview(self.preset, self.device, seeds=seeds, epochs=epochs)

    @cached_property
    def every_level(self) -> tuple[list[Run], pd.DataFrame]:
        """Runs and rows under each level of tau_min."""
        return notebook.obtain(self.experiment, self.preset, False, self.device, **self.options)

    def at_levels(self, label_fraction: float | None = SELECTION_FRACTION) -> pd.DataFrame:
        """Rows of the selected cells, of a proposed method under each level of tau_min, see `levels.selected_at_levels`."""
        return _with(levels.selected_at_levels(*self.every_level), label_fraction)

    def reported(self, table: pd.DataFrame) -> pd.DataFrame:
        """The lines of a table of the paper that are about methods of this study."""
        return table[table.method.isin({run.method for run in self.runs})]

    def found(self, name: str | None = None) -> None:
        """Display the chapter's finding, or another by its name, see `findings.show`."""
        findings.show(name or self.experiment, self.runs, self.measured)
        if name is None and self.level is not None:
            print(f"Proposed methods below with tau_min {self.level:g}, unless a table or figure says which.")

    def claims(self, *numbers: int) -> Card:
        """The verdicts on the claims that rest on the chapter."""
        return self.judged.card(*numbers)

    def what_was_run(self) -> None:
        """Display how many of the runs exist, and their configurations beside those of the paper."""
        print(tables.counted(self.preset, self.runs, self.measured))
        notebook.show(tables.asked(self.experiment, self.runs, self.measured))


def _shared(measured: pd.DataFrame) -> pd.DataFrame:
    asked = measured[["method", "sigma", *HYPERPARAMETERS, "protocol"]].astype(object).drop_duplicates()
    cells = measured.drop_duplicates("key").groupby("seed").size()
    whole = cells.index[cells == len(asked)]
    return measured[measured.seed.isin(whole)] if len(whole) else measured


def show_each(
    metrics: Sequence[str], table: Callable[[str], pd.DataFrame], ending: str = " accuracy", best: bool = False
) -> None:
    """Display a table for each accuracy, under its name.

    Args:
        metrics: columns of rows.
        table: makes the table of one of them.
        ending: of the titles.
        best: mark the best line.
    """
    for metric in metrics:
        notebook.show(table(metric), title=f"{SHORT[metric]}{ending}", best=metric if best else None)


def _with(rows: pd.DataFrame, label_fraction: float | None) -> pd.DataFrame:
    return rows if label_fraction is None else rows[rows.label_fraction == label_fraction]
