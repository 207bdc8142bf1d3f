"""Levels of tau_min in what is shown: one at a time, or beside each other, and never mixed. See `analysis.tau_min_levels`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..analysis import selection
from ..analysis.intervals import accuracy_interval
from ..analysis.selection import SELECTION_FRACTION
from ..checks import checked_number
from ..config import Run
from ..experiments.core import PROPOSED, is_calibrated
from .tables import SHORT, best_first, cell_name, title

MATTERS = 0.03  # of the accuracy shown: a close choice that moves it by more is listed


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
        Columns: method, tau_min, tau_alpha, tau_beta, measured (mean over seeds), low and high (its 95 % interval), n (seeds); of
        each method the better level first.
    """
    chosen = selected_at_levels(runs, frame).query("level.notna() and label_fraction == @label_fraction")
    lines = [
        (title(method), level, alpha, beta, *accuracy_interval(cell[metric].to_numpy()))
        for (method, level, alpha, beta), cell in chosen.groupby(["method", "level", "tau_alpha", "tau_beta"])
    ]
    names = ["method", "tau_min", "tau_alpha", "tau_beta", "measured", "low", "high", "n"]
    return best_first(pd.DataFrame(lines, columns=names), "measured", metric, within=["method"])


def close_choices(
    runs: Sequence[Run],
    frame: pd.DataFrame,
    metric: str = "test_ood",
    within: float = selection.NEAR,
    matters: float = MATTERS,
    label_fractions: Sequence[float] = (SELECTION_FRACTION,),
) -> tuple[str, pd.DataFrame]:
    """Selections by validation that were close, under each level of tau_min, and those that decide what is then shown.

    Args:
        runs, frame: as from `notebook.obtain`, of all levels.
        metric: the accuracy that the choice decides.
        within: of mean validation accuracy; a cell as near to the selected one, or nearer, is a runner-up.
        matters: a runner-up is listed whose metric differs from the selected cell's by more.
        label_fractions: of the labels with which the metric is measured.

    Returns:
        A sentence, and a table of the runners-up it speaks of, the largest difference first: method, then tau_min, sigma,
        discriminator, head and labels where there are several, selected (the cell) with its validation accuracy and its metric, and
        runner-up with its own; empty where none matters.
    """
    parts, close, several = [], 0, 0
    for level, part in by_level(runs, frame).items():
        found, some, all_of_them = selection.close_cells(part, metric, within, label_fractions)
        parts.append(found.assign(tau_min=level))
        close, several = close + some, several + all_of_them
    found = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
    apart = (found.value - found.its_value).abs()
    listed = found.assign(apart=apart)[apart > matters].sort_values("apart", ascending=False, kind="stable")
    says = f"{close} of {several} selections among several cells are within {within:g} of a runner-up in validation"
    unless = f"; none of these then differs by more than {matters:g} on {SHORT[metric]}."
    differ = f"; where {SHORT[metric]} then differs by more than {matters:g}:"
    ending = "." if not close else differ if len(listed) else unless
    return f"**Close choices:** {says}{ending}", _beside_runners_up(frame, listed, metric, len(levels_of(runs)) > 1)


def _beside_runners_up(frame: pd.DataFrame, listed: pd.DataFrame, metric: str, several_levels: bool) -> pd.DataFrame:
    """The table of `close_choices`: only those of the columns that tell contexts apart of which there are several."""
    heads = [
        "none" if pd.isna(kind) else f"{kind} {dim:g}" for kind, dim in zip(listed.projector, listed.projector_dim)
    ]
    told = {
        "tau_min": (["–" if pd.isna(level) else f"{level:g}" for level in listed.tau_min], several_levels),
        "sigma": ([f"{sigma:g}" for sigma in listed.sigma], frame.sigma.nunique() > 1),
        "discriminator": (["–" if pd.isna(kind) else kind for kind in listed.discriminator], _kinds(frame) > 1),
        "head": (heads, frame.projector.notna().any()),
        "labels": ([f"{share:g}" for share in listed.label_fraction], listed.label_fraction.nunique() > 1),
    }
    columns: dict[str, Sequence[object]] = {"method": [title(method) for method in listed.method]}
    columns |= {name: values for name, (values, shown) in told.items() if shown}
    columns |= {"selected": [cell_name(cell) for cell in listed.selected], "validation": listed.validation.to_numpy()}
    columns |= {metric: listed.value.to_numpy(), "runner-up": [cell_name(cell) for cell in listed.runner_up]}
    columns |= {"its validation": listed.its_validation.to_numpy(), f"its {SHORT[metric]}": listed.its_value.to_numpy()}
    return pd.DataFrame(columns)


def _kinds(frame: pd.DataFrame) -> int:
    """The most kinds of discriminator that a method has among the rows."""
    return int(frame.groupby("method").discriminator.nunique().max()) if len(frame) else 0


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
