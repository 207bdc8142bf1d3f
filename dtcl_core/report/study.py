"""A chapter's runs and what every chapter makes of them: rows, selected cells, fresh seeds, verdicts. Cells show, this computes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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
        if self.level is None:
            return self.runs, self.measured
        return notebook.obtain(self.experiment, self.preset, False, self.device, **self.options)

    def at_levels(self, label_fraction: float | None = SELECTION_FRACTION) -> pd.DataFrame:
        """Rows of the selected cells, of a proposed method under each level of tau_min, see `levels.selected_at_levels`."""
        return _with(levels.selected_at_levels(*self.every_level), label_fraction)

    def reported(self, table: pd.DataFrame) -> pd.DataFrame:
        """The lines of a table of the paper that are about methods of this study."""
        return table[table.method.isin({run.method for run in self.runs})]

    def found(self, name: str | None = None) -> None:
        """Display the chapter's finding, or another by its name, see `findings.show`; with the first also which level is shown."""
        findings.show(name or self.experiment, self.runs, self.measured)
        if name is None and self.level is not None:
            _say(f"Proposed methods below with tau_min {self.level:g}, unless a table or figure says which.")

    def close_choices(
        self,
        metric: str = "test_ood",
        within: float = selection.NEAR,
        matters: float = levels.MATTERS,
        label_fractions: Sequence[float] = (SELECTION_FRACTION,),
        shared: bool = False,
    ) -> None:
        """Display how many selections were close, and those that decide a number shown: under each level, at each sigma.

        No page changes the thresholds: a hundredth of validation accuracy, and three of the accuracy shown.

        Args:
            metric, within, matters, label_fractions: see `levels.close_choices`.
            shared: of the seeds alone that every configuration has.
        """
        runs, measured = self.every_level
        measured = _shared(measured) if shared else measured
        said, listed = levels.close_choices(runs, measured, metric, within, matters, label_fractions)
        _say(said)
        if len(listed):
            notebook.show(listed)

    def differences(self, rows: pd.DataFrame, metrics: Sequence[str]) -> None:
        """Display differences to Standard CL (`tables.differences`), a table for each share of labels and accuracy."""
        for fraction, part in rows.groupby("label_fraction"):
            ending = f", {fraction:.0%} of labels, difference to Standard CL"
            show_each(metrics, lambda metric, part=part: tables.differences(part, metric), ending)  # type: ignore[misc]

    def single_draws(self, metrics: Sequence[str]) -> None:
        """Display what single draws of the labels would select and measure, see `tables.single_draws`."""
        stored = notebook.rows_of(self.preset)
        drawn = selection.by_draw([stored[key] for key in self.measured.key.unique()], metrics)
        if len(drawn):
            notebook.show(tables.single_draws(drawn, metrics))
        else:
            print("These rows have one draw each.")

    def on_fresh_seeds(self, rows: pd.DataFrame, metrics: Sequence[str], label_fraction: float) -> None:
        """Display how many runs on fresh seeds are stored, and `tables.again` for each accuracy.

        Args:
            rows: of the selected cells on the seeds that selected them.
            metrics: accuracies.
            label_fraction: of the labels, that of `rows`.
        """
        runs, found = self.fresh
        print(f"{found.key.nunique()} of {len(runs)} fresh runs are stored.")
        if len(found):
            found = _with(found, label_fraction)
            show_each(metrics, lambda metric: tables.again(rows, found, metric), " accuracy on fresh seeds", best=True)

    def extremes(self, metrics: Sequence[str], label_fraction: float) -> None:
        """Display the lowest and highest accuracy of the selected cells, on the grid's seeds and on fresh ones, see `tables.extremes`."""
        runs, found = self.fresh
        for name, among, rows in (("the grid's", self.runs, self.selected(label_fraction)), ("fresh", runs, found)):
            some = _with(rows, label_fraction)
            show_each(metrics, lambda metric: tables.extremes(some, among, metric), f", {name} seeds")  # noqa: B023

    def values(self, metric: str) -> str:
        """An accuracy of every run at `SELECTION_FRACTION`, in the order of the rows, as a line."""
        found = self.measured_at()[metric]
        return f"{SHORT[metric]} accuracy of each run: {', '.join(f'{value:.3f}' for value in found) or 'no runs yet'}"

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


def _say(text: str) -> None:
    """Display a line of prose: Markdown on a page, where it wraps, and plain text beside it."""
    from IPython.display import display  # not needed to train

    display(findings.Sentence(text))


def show_each(
    metrics: Sequence[str],
    table: Callable[[str], pd.DataFrame],
    ending: str = " accuracy",
    best: bool = False,
    then: Mapping[str, Callable[[], None]] | None = None,
) -> None:
    """Display a table for each accuracy, under its name.

    Args:
        metrics: columns of rows.
        table: makes the table of one of them.
        ending: of the titles.
        best: mark the best line.
        then: what displays more right under the table of an accuracy, by its column.
    """
    for metric in metrics:
        notebook.show(table(metric), title=f"{SHORT[metric]}{ending}", best=metric if best else None)
        if then and metric in then:
            then[metric]()


def _with(rows: pd.DataFrame, label_fraction: float | None) -> pd.DataFrame:
    return rows if label_fraction is None else rows[rows.label_fraction == label_fraction]
