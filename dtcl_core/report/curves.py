"""The lines that chapters draw: which rows, reported numbers and styles `figures.curves` is given. None where there is nothing to draw."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from ..analysis.selection import SELECTION_FRACTION
from ..config import Run
from ..experiments.core import PLAIN_BETAS
from . import figures
from .levels import along_temperature, along_temperature_in_paper

NOTHING = pd.DataFrame(columns=["metric", "value"])  # of what the paper reports


def of_levels(rows: pd.DataFrame, reported: pd.DataFrame, metrics: Sequence[str]) -> Figure | None:
    """The proposed methods against sigma, a line a level of tau_min.

    Args:
        rows: as from `levels.selected_at_levels`, at one label fraction.
        reported: the paper's numbers, with columns method, sigma, metric, value; it gives no level.
        metrics: accuracies, a panel each.
    """
    mine = rows[rows.level.notna()]
    told = reported[reported.method.isin(mine.method)].assign(level=float("nan"))
    return _of_levels(mine, told, "sigma", metrics, r"$\sigma$")


def along_alpha(
    runs: Sequence[Run], frame: pd.DataFrame, reported: pd.DataFrame, metrics: Sequence[str]
) -> Figure | None:
    """The proposed methods against tau_alpha, means over `core.PLAIN_BETAS`, a line a level of tau_min.

    Args:
        runs, frame: as from `notebook.obtain`, of all levels.
        reported: as from `reported.temperature_tables`.
        metrics: accuracies, a panel each.
    """
    lines = along_temperature(runs, frame, metrics, PLAIN_BETAS, SELECTION_FRACTION)
    told = along_temperature_in_paper(reported, PLAIN_BETAS, sorted({*lines.tau_alpha}))
    return _of_levels(lines, told, "tau_alpha", metrics, r"$\tau_\alpha$")


def _of_levels(
    rows: pd.DataFrame, reported: pd.DataFrame, x: str, metrics: Sequence[str], xlabel: str
) -> Figure | None:
    if rows.empty:
        print("No runs of a proposed method to draw here.")
        return None
    return figures.curves(rows, reported, x, metrics, figures.level_style, by=["method", "level"], xlabel=xlabel)


def of_discriminators(rows: pd.DataFrame, reported: pd.DataFrame, metrics: Sequence[str]) -> Figure:
    """The proposed methods against sigma, a line a kind of discriminator; `reported` has a column discriminator too."""
    by = ["method", "discriminator"]
    return figures.curves(rows, reported, "sigma", metrics, figures.discriminator_style, by=by, xlabel=r"$\sigma$")


def of_heads(rows: pd.DataFrame, metrics: Sequence[str]) -> Figure:
    """Standard CL against its temperature, a line a projector head; the paper gives no numbers."""
    by = ["projector", "projector_dim"]
    return figures.curves(rows, NOTHING, "tau_alpha", metrics, figures.head_style, by=by, xlabel=r"$\tau$", log=True)


def of_fresh_seeds(rows: pd.DataFrame, reported: pd.DataFrame, metrics: Sequence[str]) -> Figure | None:
    """`figures.compare_methods` of rows on fresh seeds; where there are none the page has said so."""
    return figures.compare_methods(rows, reported, metrics) if len(rows) else None


def save(figure: Figure | None, name: str, folder: str | None) -> None:
    """As `figures.save`; of no figure nothing is written."""
    if figure is not None:
        figures.save(figure, name, folder)
