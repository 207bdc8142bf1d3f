"""Model selection, in one place: which hyperparameters a method is shown with.

The paper's rule: the cell (hyperparameters) with the highest validation accuracy at 1 % labels, averaged over seeds,
separately for each method, discriminator and sigma. Whether it selects anew at other label fractions is not said; here the
choice at 1 % serves all. What else it leaves open: cells are compared on the seeds that all of them were tried on, if those are
at least `SHARED_SEEDS`, so that seeds which only a winner was given afterwards change nothing. Where they share fewer, a cell
counts only if it has as many finished seeds as the best-covered cell of its method, and means are over the seeds that all such
cells share (all of them where they share none): a half-trained grid cannot favour a lucky seed. A cell that diverged on a seed
that is compared has fewer finished ones than others. Ties go to the smaller tau_alpha, then tau_beta, then lambda.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from .. import results
from ..config import HYPERPARAMETERS, Run, protocol_hash
from ..experiments.core import FRESH_SEED

SELECTION_FRACTION = 0.01
NEAR = 0.01  # in mean validation accuracy: what is as near to a selected cell, or nearer, was passed over by little
SHARED_SEEDS = 4  # more than a search gives to cells that do not go on (`experiments.core`)
# What a cell belongs to: cells compete only within it.
CONTEXT = ("method", "discriminator", "sigma", "projector", "projector_dim", "epochs", "protocol", "replicate")
CELL = (*CONTEXT, *HYPERPARAMETERS)


def mean_validation(frame: pd.DataFrame, label_fraction: float = SELECTION_FRACTION) -> pd.DataFrame:
    """Mean validation accuracy over seeds for each cell, with the number of seeds `n` that finished.

    Args:
        frame: rows as `results.load` gives them.
        label_fraction: whose rows are averaged.
    """
    rows = frame[(frame.label_fraction == label_fraction) & (frame.status == "ok")]
    means = rows.groupby(list(CELL), dropna=False).validation.agg(["mean", "count"]).reset_index()
    return means.rename(columns={"mean": "validation", "count": "n"})


def select(
    frame: pd.DataFrame, label_fraction: float = SELECTION_FRACTION, shared_seeds: int = SHARED_SEEDS
) -> pd.DataFrame:
    """The selected cell of each method (and discriminator, sigma, projector, protocol).

    Args:
        frame: rows as `results.load` gives them.
        label_fraction: at which validation accuracy is compared; the paper says 1 % for its main experiments.
        shared_seeds: how many seeds all cells must have been tried on for the others to be left out of the comparison.

    Returns:
        One line a context: its hyperparameters, mean `validation`, and `n` seeds, those it was compared on.
    """
    complete = mean_validation(compared(frame, label_fraction, shared_seeds), label_fraction)
    ranked = complete.sort_values(["validation", *HYPERPARAMETERS], ascending=[False, True, True, True], kind="stable")
    return ranked.drop_duplicates(list(CONTEXT)).sort_values(list(CONTEXT), ignore_index=True)


def compared(
    frame: pd.DataFrame, label_fraction: float = SELECTION_FRACTION, shared_seeds: int = SHARED_SEEDS
) -> pd.DataFrame:
    """The rows that `select` compares: those of cells and seeds that compete, by the rule in this module's first lines."""
    context, cell = list(CONTEXT), list(CELL)
    rows = on_shared_seeds(frame[frame.label_fraction == label_fraction], shared_seeds)
    rows = rows[rows.status == "ok"]
    seeds = rows.groupby(cell, dropna=False).seed.transform("nunique")
    rows = rows[seeds == seeds.groupby([rows[name] for name in context], dropna=False).transform("max")]
    shared = _shared(rows)
    none = ~shared.groupby([rows[name] for name in context], dropna=False).transform("any")
    return rows[shared | none]


def on_shared_seeds(rows: pd.DataFrame, least: int) -> pd.DataFrame:
    """The rows of those seeds that every cell of a context was tried on; all rows of a context with fewer such seeds."""
    shared = _shared(rows)
    count = rows.seed.where(shared).groupby([rows[name] for name in CONTEXT], dropna=False).transform("nunique")
    return rows[shared | (count < least)]


def _shared(rows: pd.DataFrame) -> pd.Series:
    """Whether each row is of a seed that every cell of its context has."""
    by = [rows[name] for name in CONTEXT]
    cell = rows[list(HYPERPARAMETERS)].astype(object).apply(tuple, axis=1) if len(rows) else rows.key
    there = cell.groupby([*by, rows.seed], dropna=False).transform("nunique")
    return there == cell.groupby(by, dropna=False).transform("nunique")


def rows_of(frame: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """The rows of `frame` (all label fractions) that belong to the given cells."""

    wanted = set(_names(cells))
    return frame[np.array([name in wanted for name in _names(frame)], dtype=bool)].reset_index(drop=True)


def held_out(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of each seed for the cell that the *other* seeds select, so that no seed scores its own choice.

    Args:
        frame: rows as `results.load` gives them.

    Returns:
        Rows of `frame` (all label fractions). A seed has none where the others select nothing, or a cell that it lacks.
        The others are one fewer, so that one shared seed less than in `select` is enough.
    """
    seeds = sorted(set(frame.seed))
    parts = [
        rows_of(frame[frame.seed == s], select(frame[frame.seed != s], shared_seeds=SHARED_SEEDS - 1)) for s in seeds
    ]
    return pd.concat(parts, ignore_index=True) if parts else frame


def by_draw(rows: Iterable[Mapping[str, Any]], metrics: Sequence[str]) -> pd.DataFrame:
    """What is selected with one draw of labels instead of their mean, as the paper must have done, and measured with the same draw.

    Args:
        rows: as `results.Store.rows` gives them; those of a protocol with one draw are left out.
        metrics: accuracies.

    Returns:
        A line a context and draw: draw, those of `CELL`, the metrics at 1 % of labels (means over seeds) and n.
    """
    fraction = f"{SELECTION_FRACTION:g}"
    drawn = [row for row in rows if len(row.get("draws", {}).get(fraction, {}).get("validation", ())) > 1]
    count = min((len(row["draws"][fraction]["validation"]) for row in drawn), default=0)
    parts = []
    for draw in range(count):
        frame = results.frame([_with_draw(row, draw) for row in drawn])
        mine = rows_of(frame, select(frame))
        mine = mine[(mine.label_fraction == SELECTION_FRACTION) & (mine.status == "ok")]
        by = mine.groupby(list(CELL), dropna=False)
        parts.append(by[list(metrics)].mean().assign(n=by.seed.nunique(), draw=draw).reset_index())
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=[*CELL, *metrics, "n", "draw"])


def _with_draw(row: Mapping[str, Any], draw: int) -> dict[str, Any]:
    """A row as it would be, had its labels been drawn once."""
    one = {
        fraction: {name: each[min(draw, len(each) - 1)] for name, each in scores.items()}
        for fraction, scores in row["draws"].items()
    }
    return {**row, "metrics": one}


def _names(table: pd.DataFrame) -> list[tuple]:
    """The cell that each line belongs to, None for what it lacks."""
    keys = table[list(CELL)].astype(object)
    return list(keys.where(keys.notna(), None).itertuples(index=False, name=None))


def fresh_runs(chosen: pd.DataFrame, runs: Sequence[Run], seeds: int = 5) -> list[Run]:
    """The selected cells on seeds that take part in no selection: they begin at `FRESH_SEED`, which no grid reaches.

    Args:
        chosen: cells as from `select`.
        runs: the runs among which they were selected.
        seeds: how many.
    """

    def cell_of(run: Run) -> tuple:
        of_protocol = {"epochs": run.protocol.epochs, "protocol": protocol_hash(run.protocol)}
        return tuple(of_protocol[name] if name in of_protocol else getattr(run, name) for name in CELL)

    picked = set(_names(chosen))
    cells = {replace(run, seed=0): None for run in runs if cell_of(run) in picked}
    return [replace(cell, seed=FRESH_SEED + number) for number in range(seeds) for cell in cells]


def _ranked(rows: pd.DataFrame, metrics: Sequence[str] = ()) -> pd.DataFrame:
    """The mean validation accuracy of every cell, and of other metrics, in the order in which they would be selected."""
    means = rows.groupby(list(CELL), dropna=False)[["validation", *metrics]].mean().reset_index()
    return means.sort_values(["validation", *HYPERPARAMETERS], ascending=[False, True, True, True], kind="stable")


def runners_up(frame: pd.DataFrame, metrics: Sequence[str], within: float = NEAR) -> pd.DataFrame:
    """Close selections: another cell's validation accuracy is within a margin of the selected one's.

    Args:
        frame: rows as `results.load` gives them.
        metrics: accuracies that the choice decides.
        within: of mean validation accuracy.

    Returns:
        Two lines for each such context, the selected cell first: the columns of `CELL`, `validation`, and the mean of each metric
        on the seeds that were compared.
    """
    means = _ranked(compared(frame), metrics)
    pairs = [part.head(2) for _, part in means.groupby(list(CONTEXT), dropna=False)]
    close = [pair for pair in pairs if len(pair) == 2 and np.ptp(pair.validation.to_numpy()) <= within]
    return pd.concat(close, ignore_index=True) if close else means.iloc[:0]


def close_cells(
    frame: pd.DataFrame, metric: str, within: float = NEAR, label_fractions: Sequence[float] = (SELECTION_FRACTION,)
) -> tuple[pd.DataFrame, int, int]:
    """Every cell that a selection passed over by little, beside the selected one, and what either measures.

    Args:
        frame: rows as `results.load` gives them.
        metric: the accuracy that the choice decides.
        within: how far, in mean validation accuracy, a cell may lie below the selected one.
        label_fractions: of the labels with which the metric is measured; cells are compared at `SELECTION_FRACTION`.

    Returns:
        A line a close cell and label fraction, with the columns of `CONTEXT`, label_fraction, `selected` and `runner_up` (their
        hyperparameters, as tuples), `validation` and `its_validation`, `value` and `its_value` (means of the metric; both on the
        seeds that were compared); then how many selections have a close cell, and how many had several cells to choose from.
    """
    rows = compared(frame)
    cells = _ranked(rows)
    there = frame[frame.key.isin(rows.key) & frame.label_fraction.isin(list(label_fractions))]
    tested = there.groupby([*CELL, "label_fraction"], dropna=False)[metric].mean().reset_index()
    value = dict(zip(zip(_names(tested), tested.label_fraction), tested[metric]))
    lines, close, several = [], 0, 0
    for context, part in cells.groupby(list(CONTEXT), dropna=False):
        first, *others = zip(_names(part), part.validation)
        near = [other for other in others if first[1] - other[1] <= within]
        several, close = several + bool(others), close + bool(near)
        for name, validation in near:
            for fraction in sorted({*tested.label_fraction}):
                cell, other = (each[len(CONTEXT) :] for each in (first[0], name))
                values = (value[first[0], fraction], value[name, fraction])
                lines.append((*context, fraction, cell, other, first[1], validation, *values))
    columns = [
        *CONTEXT,
        "label_fraction",
        "selected",
        "runner_up",
        "validation",
        "its_validation",
        "value",
        "its_value",
    ]
    return pd.DataFrame(lines, columns=columns), close, several
