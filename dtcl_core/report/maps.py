"""Heat maps with a number in each cell: accuracy by temperatures, and how far readings of the paper are from its anchors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ..methods import ALL_METHODS
from .style import METRIC_TITLES, SMALL, WIDTH, n_said


def temperature_maps(
    means: pd.DataFrame,
    chosen: pd.DataFrame,
    reported: pd.DataFrame,
    method: str,
    metrics: Sequence[str],
    alphas: Sequence[float],
    betas: Sequence[float],
) -> Figure:
    """Heat maps of accuracy over tau_alpha and tau_beta, measured below reported; empty cells have no run.

    A frame marks the selected cell: measured as `chosen` says, reported where the validation accuracy is highest.

    Args:
        means: a line a cell, with method, tau_alpha, tau_beta, the mean of each metric, and n.
        chosen: the selected cells, as from `selection.select`.
        reported: the paper's numbers: method, tau_alpha, tau_beta, metric, value.
        method: whose.
        metrics: a pair of maps each.
    """
    figure, axes = plt.subplots(
        2 * len(metrics), 1, figsize=(WIDTH, 0.8 + 1.12 * 2 * len(metrics)), sharex=True, sharey=True, layout="constrained", squeeze=False
    )  # fmt: skip
    mine, paper = means[means.method == method], reported[reported.method == method]
    selected = {"measured": chosen[chosen.method == method]}
    selected["reported"] = paper[paper.metric == "validation"].nlargest(1, "value")  # no cell of it lacks a seed
    for pair, metric in zip(axes[:, 0].reshape(-1, 2), metrics):
        values = {"reported": paper[paper.metric == metric].rename(columns={"value": "shown"})}
        values["measured"] = mine.assign(shown=mine[metric]) if len(mine) else mine
        for axis, (title, table) in zip(pair, values.items()):
            image, drawn = _map(axis, table, alphas, betas)
            _outline(axis, selected[title], alphas, betas)
            counted = f", {n_said(drawn.n)}" if title == "measured" else ""
            axis.set_title(f"{METRIC_TITLES[metric].removesuffix(' accuracy')}, {title}{counted}", loc="left")
            axis.set_ylabel(r"$\tau_\beta$")
    axes[-1, 0].set_xlabel(r"$\tau_\alpha$")
    figure.colorbar(image, ax=axes, location="bottom", shrink=0.6, aspect=35, pad=0.01, label="accuracy")
    return figure


def _map(axis: plt.Axes, table: pd.DataFrame, alphas: Sequence[float], betas: Sequence[float]) -> tuple[Any, Any]:
    """The map of `table.shown` with its numbers and a star at the highest; returns its picture and the lines that are on it."""
    table = table[table.tau_alpha.isin(list(alphas)) & table.tau_beta.isin(list(betas))]
    grid = np.full((len(betas), len(alphas)), np.nan)
    for row in table.itertuples():
        grid[list(betas).index(row.tau_beta), list(alphas).index(row.tau_alpha)] = row.shown
    image = axis.imshow(grid, vmin=0.45, vmax=1, cmap="viridis", aspect="auto")
    for (r, c), value in np.ndenumerate(grid):
        shown = f".{round(value * 1000):03d}" if value < 0.9995 else "1"
        if np.isfinite(value):
            axis.text(c, r, shown, ha="center", va="center", fontsize=7.5, color="w" if value < 0.8 else "k")
    if np.isfinite(grid).any():
        r, c = np.unravel_index(np.nanargmax(grid), grid.shape)
        axis.plot(c + 0.4, r - 0.34, marker="*", color="#D81B60", markersize=6)
    axis.set_xticks(range(len(alphas)), [f"{a:g}" for a in alphas])
    axis.set_yticks(range(len(betas)), [f"{b:g}" for b in betas])
    axis.grid(visible=False)
    return image, table


def _outline(axis: plt.Axes, cells: pd.DataFrame, alphas: Sequence[float], betas: Sequence[float]) -> None:
    """Frame those of the given cells that are on the map."""
    for cell in cells.itertuples():
        if cell.tau_alpha in alphas and cell.tau_beta in betas:
            place = (list(alphas).index(cell.tau_alpha) - 0.5, list(betas).index(cell.tau_beta) - 0.5)
            axis.add_patch(plt.Rectangle(place, 1, 1, fill=False, edgecolor="#D81B60", linewidth=2))


def readings(distances: pd.DataFrame, order: Sequence[str], chosen: str | None = None) -> Figure:
    """How far each candidate reading is from each anchor, in units of chance; within two is what seeds and draws explain.

    Args:
        distances: of `calibration.table`.
        order: candidates, best first.
        chosen: the one to mark.
    """
    anchors = distances[distances.candidate == order[0]]
    names = [_anchor_name(anchor) for anchor in anchors.itertuples()]
    high = np.array([distances[distances.candidate == name].distance.to_numpy() for name in order]).T
    figure, axis = plt.subplots(figsize=(WIDTH, 2.6 + 0.2 * len(names)), layout="constrained")
    shown = axis.imshow(np.clip(high, -8, 8), cmap="RdBu_r", vmin=-8, vmax=8, aspect="auto")
    for (row, column), value in np.ndenumerate(high):
        tone = "white" if abs(value) > 5 else "black"
        number = f"{value:+.0f}" if abs(value) >= 1.5 else "·"
        axis.text(column, row, number, ha="center", va="center", color=tone, fontsize=SMALL)
    axis.set_yticks(range(len(names)), names)
    axis.set_xticks(range(len(order)), [f"{name} ▸" if name == chosen else name for name in order], rotation=90)
    for edge in np.flatnonzero(anchors.group.to_numpy()[1:] != anchors.group.to_numpy()[:-1]):
        axis.axhline(edge + 0.5, color="black", linewidth=1.2)
    axis.grid(visible=False)
    bar = figure.colorbar(shown, ax=axis, location="top", shrink=0.8, aspect=35, pad=0.02)
    bar.set_label(f"measured less reported, in units of chance;\n{n_said(distances.n)} of a candidate")
    return figure


def _anchor_name(anchor: Any) -> str:
    """What a row of `readings` is called: whose number it is."""
    if anchor.group == "collapse":
        short = {"dw_negatives": "DW Negatives", "dw_pairs": "DW Pairs"}[anchor.method]
        return f"{short}, $\\tau_\\alpha$ = {anchor.tau_alpha:g}"
    metric = {"test_ood": "Test-OOD", "test_id": "Test-ID", "d_test_id": "D-Test-ID"}[anchor.metric]
    short = {"color_jitter": "w/ Color Jitter"}.get(anchor.method, ALL_METHODS[anchor.method].title)
    return f"{short}: {metric} {100 * anchor.label_fraction:g} %"
