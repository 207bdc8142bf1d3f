"""Levels of tau_min in what is shown: one at a time, or beside each other, and never mixed. See `analysis.tau_min_levels`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..analysis import selection
from ..analysis.intervals import accuracy_interval
from ..checks import checked_number
from ..config import Run
from ..experiments.core import PROPOSED, is_calibrated
from .tables import title


def at_level(runs: Sequence[Run], level: float) -> list[Run]:
    """The runs of the proposed methods under one level of tau_min, and all of the others, which do not see it.

    What is shown together is of one level: it is never selected over.

    Raises:
        ValueError: for a level that no run of a proposed method has.
    """
    level = checked_number("level", level)
    if (levels := levels_of(runs)) and level not in levels:
        known = " and ".join(f"{each:g}" for each in levels)
        raise ValueError(f"level must be a tau_min of these runs, which is {known}, got {level:g}.")
    return [run for run in runs if run.method not in PROPOSED or run.protocol.tau_min == level]


def levels_of(runs: Sequence[Run]) -> list[float]:
    """The levels of tau_min that proposed methods have among the runs."""
    return sorted({run.protocol.tau_min for run in runs if run.method in PROPOSED})


def by_level(runs: Sequence[Run], frame: pd.DataFrame) -> dict[float, pd.DataFrame]:
    """The rows of the proposed methods by level of tau_min; those of the others under NaN."""
    sees = frame.method.isin(PROPOSED)
    return {math.nan: frame[~sees]} | {
        level: frame[sees & frame.key.isin({run.key for run in at_level(runs, level)})] for level in levels_of(runs)
    }


def under_levels(runs: Sequence[Run], frame: pd.DataFrame, metric: str, label_fraction: float) -> pd.DataFrame:
    """The selected cell of each proposed method under each level of tau_min, and what it measures.

    Args:
        runs, frame: as from `notebook.obtain`, of all levels.
        metric: the metric column to show.
        label_fraction: of the labels, 0 to 1.

    Returns:
        Columns: method, tau_min, tau_alpha, tau_beta, measured (mean over seeds), low and high (its 95 % interval), n (seeds).
    """
    chosen = selected_at_levels(runs, frame).query("level.notna() and label_fraction == @label_fraction")
    lines = [
        (title(method), level, alpha, beta, *accuracy_interval(cell[metric].to_numpy()))
        for (method, level, alpha, beta), cell in chosen.groupby(["method", "level", "tau_alpha", "tau_beta"])
    ]
    names = ["method", "tau_min", "tau_alpha", "tau_beta", "measured", "low", "high", "n"]
    return pd.DataFrame(lines, columns=names).sort_values(["method", "tau_min"], ignore_index=True)


def selected_at_levels(runs: Sequence[Run], frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of what validation selects of each method, and of a proposed one under each level of tau_min.

    Args:
        runs, frame: as from `notebook.obtain`, of all levels.

    Returns:
        Lines of `frame` with a column level: the tau_min of a proposed method, NaN of the others.
    """
    found = [
        selection.rows_of(part, selection.select(part)).assign(level=level)
        for level, part in by_level(runs, frame).items()
    ]
    return pd.concat([part for part in found if len(part)] or found[:1], ignore_index=True)


def along_temperature(
    runs: Sequence[Run], frame: pd.DataFrame, metrics: Sequence[str], betas: Sequence[float], label_fraction: float
) -> pd.DataFrame:
    """How the proposed methods go with tau_alpha under each level of tau_min: a mean over tau_beta for each seed.

    Cells that calibration may look at are left out, and so is a seed that has not all the temperatures of its line.

    Args:
        runs, frame: as from `notebook.obtain`, of all levels.
        metrics: metric columns.
        betas: the tau_beta that the mean is over; a seed without all of them at a tau_alpha is left out there.
        label_fraction: of the labels, 0 to 1.

    Returns:
        Columns: method, level, tau_alpha, seed, and the mean of each metric.
    """
    frame = frame[(frame.label_fraction == label_fraction) & frame.tau_beta.isin(betas) & (frame.status == "ok")]
    looked_at = [is_calibrated(alpha, beta) for alpha, beta in zip(frame.tau_alpha, frame.tau_beta)]
    frame = frame[~np.array(looked_at, dtype=bool)]
    found = [pd.DataFrame(columns=["method", "level", "tau_alpha", "seed", *metrics])]
    for level, part in by_level(runs, frame).items():
        if math.isnan(level) or part.empty:
            continue
        grouped = part.groupby(["method", "tau_alpha", "seed"])
        whole = grouped[list(metrics)].mean()[grouped.tau_beta.nunique() == len(betas)].reset_index()
        there = whole.groupby(["method", "seed"]).tau_alpha.transform("nunique")
        most = whole.groupby("method").tau_alpha.transform("nunique")
        found.append(whole[there == most].assign(level=level))
    return pd.concat(found[1:] or found, ignore_index=True)[list(found[0])]


def along_temperature_in_paper(reported: pd.DataFrame, betas: Sequence[float], alphas: Sequence[float]) -> pd.DataFrame:
    """The paper's means over some tau_beta: method, metric, tau_alpha, value, and level (NaN: it gives none)."""
    part = reported[reported.tau_beta.isin(betas) & reported.tau_alpha.isin(alphas)]
    return part.groupby(["method", "metric", "tau_alpha"]).value.mean().reset_index().assign(level=math.nan)
