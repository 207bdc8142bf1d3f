"""Model selection, in one place: which hyperparameters a method is shown with.

The paper's rule: the cell (hyperparameters) with the highest validation accuracy at 1 % labels, averaged over seeds,
separately for each method, discriminator and sigma. Whether it selects anew at other label fractions is not said; here the
choice at 1 % serves all. What else it leaves open: a cell counts only if it has as many finished seeds as the best-covered
cell of its method, and means are over the seeds that all such cells share (all of them where they share none), so that a
half-trained grid cannot favour a lucky seed; ties go to the smaller tau_alpha, then tau_beta, then lambda.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from .config import HYPERPARAMETERS, Run
from .results import protocol_hash

SELECTION_FRACTION = 0.01
FRESH_SEED = 1000  # grids count theirs from 0, to at most so many (`experiments.MAX_SEEDS`)
# What a cell belongs to: cells compete only within it.
CONTEXT = ("method", "discriminator", "sigma", "projector", "projector_dim", "epochs", "protocol")
CELL = (*CONTEXT, *HYPERPARAMETERS)


def cell_means(
    frame: pd.DataFrame, metric: str = "validation", label_fraction: float = SELECTION_FRACTION
) -> pd.DataFrame:
    """Mean of a metric over seeds for each cell, with the number of seeds `n` that finished.

    Args:
        frame: rows as `results.load` gives them.
        metric: a metric column.
        label_fraction: whose rows are averaged.
    """
    rows = frame[(frame.label_fraction == label_fraction) & (frame.status == "ok")]
    return rows.groupby(list(CELL), dropna=False)[metric].agg(["mean", "count"]).reset_index().rename(
        columns={"mean": metric, "count": "n"}
    )  # fmt: skip


def select(frame: pd.DataFrame, label_fraction: float = SELECTION_FRACTION) -> pd.DataFrame:
    """The selected cell of each method (and discriminator, sigma, projector, protocol).

    Args:
        frame: rows as `results.load` gives them.
        label_fraction: at which validation accuracy is compared; the paper says 1 % for its main experiments.

    Returns:
        One line a context: its hyperparameters, mean `validation`, and `n` seeds.
    """
    context, cell = list(CONTEXT), list(CELL)
    rows = frame[(frame.label_fraction == label_fraction) & (frame.status == "ok")]
    seeds = rows.groupby(cell, dropna=False).seed.transform("nunique")
    rows = rows[seeds == seeds.groupby([rows[name] for name in context], dropna=False).transform("max")]
    names = rows[list(HYPERPARAMETERS)].astype(object).apply(tuple, axis=1) if len(rows) else rows.key
    by = [rows[name] for name in context]
    shared = names.groupby([*by, rows.seed], dropna=False).transform("nunique")
    shared = shared == names.groupby(by, dropna=False).transform("nunique")
    none = ~shared.groupby(by, dropna=False).transform("any")
    complete = cell_means(rows[shared | none], "validation", label_fraction)
    ranked = complete.sort_values(["validation", *HYPERPARAMETERS], ascending=[False, True, True, True], kind="stable")
    return ranked.drop_duplicates(list(CONTEXT)).sort_values(list(CONTEXT), ignore_index=True)


def rows_of(frame: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """The rows of `frame` (all label fractions) that belong to the given cells."""

    wanted = set(_names(cells))
    return frame[np.array([name in wanted for name in _names(frame)], dtype=bool)].reset_index(drop=True)


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
        told = {"epochs": run.protocol.epochs, "protocol": protocol_hash(run.protocol)}
        return tuple(told[name] if name in told else getattr(run, name) for name in CELL)

    picked = set(_names(chosen))
    cells = {replace(run, seed=0): None for run in runs if cell_of(run) in picked}
    return [replace(cell, seed=FRESH_SEED + number) for number in range(seeds) for cell in cells]
