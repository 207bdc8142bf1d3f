"""Every plot of results, from data frames; `style` says how they look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..analysis.intervals import accuracy_interval
from ..methods import ALL_METHODS
from .choices import open_choices as open_choices  # chapters take all figures from here
from .embedded import embeddings as embeddings
from .embedded import hiding as hiding
from .embedded import with_and_without_head as with_and_without_head
from .maps import readings as readings
from .maps import temperature_maps as temperature_maps
from .style import METRIC_TITLES, WIDTH, mark_cut, method_color, method_style, n_said, wrapped
from .style import discriminator_style as discriminator_style
from .style import head_style as head_style
from .style import level_style as level_style
from .style import save as save
from .style import use_style as use_style
from .traced import temperature_bands as temperature_bands
from .traced import temperature_ridges as temperature_ridges


def compare_methods(rows: pd.DataFrame, reported: pd.DataFrame, metrics: Sequence[str]) -> Figure:
    """Methods down, a panel a metric: seeds as points, their mean with a 95 % interval, and the paper's value.

    Args:
        rows: selected rows at one label fraction, one a method and seed; with a column level, as from
            `levels.selected_at_levels`, a method has a line for each of its levels of tau_min.
        reported: the paper's numbers, with columns method, metric, value.
        metrics: metric columns to show.
    """
    order = [m for m in ALL_METHODS if m in set(rows.method) | set(reported.method)]
    lines: list[tuple[str, str, pd.DataFrame]] = []  # method, what its line is called, its rows
    for method in order:
        mine = rows[rows.method == method]
        levels = sorted(mine.level.dropna().unique()) if "level" in mine else []
        if len(levels) < 2:
            lines.append((method, wrapped(ALL_METHODS[method].title, 16), mine))
        for level in levels if len(levels) > 1 else []:
            name = f"{wrapped(ALL_METHODS[method].title, 16)}\n$\\tau_{{\\min}}$ = {level:g}"
            lines.append((method, name, mine[mine.level == level]))
    height = 1.4 + 0.42 * max(len(lines), 1)
    figure, axes = plt.subplots(1, len(metrics), figsize=(WIDTH, height), sharey=True, layout="constrained")
    counts: list[int] = []
    for axis, metric in zip(np.atleast_1d(axes), metrics):
        intervals = [accuracy_interval(mine[metric].to_numpy()) for *_, mine in lines]
        counts += [interval.n for interval in intervals]
        for place, ((method, _, mine), interval) in enumerate(zip(lines, intervals)):
            values, color = mine[metric].to_numpy(), method_color(method)
            axis.plot(values, np.full(len(values), place), "o", color=color, alpha=0.45, markersize=3)
            if interval.n > 1:
                axis.plot([interval.low, interval.high], [place, place], color=color, linewidth=2.2, alpha=0.9)
            if interval.n > 0:
                axis.plot(interval.mean, place, "o", color=color, markersize=6.5, markeredgecolor="white")
            paper = reported[(reported.method == method) & (reported.metric == metric)].value
            axis.plot(paper, [place] * len(paper), "D", markersize=5, markerfacecolor="none", markeredgecolor="black")
        axis.axvline(0.5, color="0.6", linewidth=0.8, linestyle=":")
        axis.set_title(METRIC_TITLES[metric], fontsize=8.5)
        axis.xaxis.set_major_locator(MaxNLocator(4))
        lowest = min([0.42, *(v for line in axis.lines for v in line.get_xdata() if np.isfinite(v))])
        axis.set_xlim(max(lowest - 0.02, -0.02), 1.02)
        for place, ((method, *_), interval) in enumerate(zip(lines, intervals)):
            mark_cut(axis, interval.low, interval.high, place, method_color(method))
        axis.grid(axis="y", visible=False)
    first = np.atleast_1d(axes)[0]
    first.set_yticks(range(len(lines)), [name for _, name, _ in lines])
    first.invert_yaxis()
    dot = partial(plt.Line2D, [], [], marker="o", color="0.3")
    keys = [
        dot(label="measured: mean and 95 % interval"),
        dot(linestyle="", alpha=0.45, markersize=3, label="each seed"),
        plt.Line2D([], [], marker="D", linestyle="", markerfacecolor="none", markeredgecolor="black", label="reported"),
    ]
    title = f"{n_said(counts)} of a method; an arrow: the interval goes on"
    figure.legend(handles=keys, loc="outside lower center", ncols=3, columnspacing=1, title=title)
    return figure


def stack_cost(tables: dict[str, pd.DataFrame]) -> Figure:
    """What an epoch of a stack costs as runs are added, beside a cost that grows in proportion.

    Args:
        tables: for each machine's name, `benchmarked.stacks` of its figures.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 2.6), layout="constrained")
    for (name, table), color in zip(tables.items(), sns.color_palette("colorblind")):
        left.plot(table.runs, table.seconds, marker="o", color=color, label=name)
        left.plot(table.runs, table.seconds.iloc[0] * table.runs, color=color, linestyle=":", linewidth=1)
        right.plot(table.runs, table.a_run, marker="o", color=color, label=name)
    left.plot([], [], color="0.4", linestyle=":", linewidth=1, label="in proportion")
    left.set(xlabel="runs in the stack", ylabel="seconds an epoch", xscale="log", yscale="log", title="The whole stack")
    right.set(
        xlabel="runs in the stack", ylabel="seconds a run-epoch", xscale="log", ylim=(0, None), title="A run's share"
    )
    for axis in (left, right):
        axis.xaxis.set_major_formatter("{x:g}")
    left.legend()
    return figure


def _place(part: object) -> tuple:
    """A line's place in a legend: methods in the registry's order, an absent setting before one that is set."""
    if isinstance(part, str):
        return (1, list(ALL_METHODS).index(part) if part in ALL_METHODS else 0, part)
    return (0, 0, "") if part is None else (1, part, "")


def curves(
    rows: pd.DataFrame,
    reported: pd.DataFrame,
    x: str,
    metrics: Sequence[str],
    style: Callable[..., dict[str, Any]] = method_style,
    by: Sequence[str] = ("method",),
    xlabel: str = "",
    log: bool = False,
) -> Figure:
    """Means over seeds along x with their 95 % intervals as bars, and bands between them, a panel a metric; the paper's values as diamonds.

    Args:
        rows: one row a seed, x and line.
        reported: the paper's numbers, with the columns x, metric, value and those of `by`; may be empty.
        x: the column along the axis.
        metrics: metric columns, a panel each.
        style: options of a line, from the values of its `by` columns.
        by: columns that tell lines apart.

    Without rows the panels say that nothing was run.
    """
    figure, axes, key = _panels(len(metrics))
    places = sorted({*rows[x], *reported.get(x, [])})
    keys = list(rows[list(by)].astype(object).where(rows[list(by)].notna(), None).itertuples(index=False, name=None))
    order = sorted(set(keys), key=lambda key: [_place(part) for part in key])
    counts: list[int] = []
    for axis, metric in zip(axes, metrics):
        for setting in order:
            line = rows[[k == setting for k in keys]]
            options = style(*setting)
            intervals = [accuracy_interval(group[metric]) for _, group in line.groupby(x)]
            counts += [interval.n for interval in intervals]
            at = sorted(line[x].unique())
            mean, low, high = (np.array([getattr(i, name) for i in intervals]) for name in ("mean", "low", "high"))
            axis.plot(at, mean, marker="o", markersize=3.5, **options)
            axis.fill_between(at, low, high, color=options["color"], alpha=0.13, linewidth=0)
            # A band reaches from one interval to the next; one alone, with a single seed on either side, needs a bar.
            axis.vlines(at, low, high, color=options["color"], alpha=0.5, linewidth=1.2)
        for setting, line in (
            reported[reported.metric == metric].groupby(list(by), dropna=False) if len(reported) else ()
        ):
            color = style(*setting)["color"]
            axis.plot(line[x], line.value, "D", markersize=5, markerfacecolor="none", markeredgecolor=color)
        axis.axhline(0.5, color="0.6", linewidth=0.8, linestyle=":")
        axis.set(title=METRIC_TITLES[metric], xlabel=xlabel or x, ylim=(0.4, 1.02))
        if log:
            axis.set_xscale("log")
            axis.minorticks_off()
        if not keys:
            axis.text(0.5, 0.5, "not yet run", transform=axis.transAxes, ha="center", color="0.4")
        axis.set_xticks(places, _spaced(places, log), rotation=90 if len(places) > 5 else 0)
    handles, labels = axes[0].get_legend_handles_labels()
    if len(reported):
        handles.append(plt.Line2D([], [], marker="D", linestyle="", markerfacecolor="none", markeredgecolor="0.3"))
        labels.append("reported")
    if handles:
        title = wrapped(f"means with 95 % intervals, {n_said(counts)}", 26 if len(metrics) % 2 else 60)
        key(handles, [wrapped(label, 26) for label in labels], title=title)
    return figure


def _panels(count: int) -> tuple[Figure, list[plt.Axes], Callable[..., object]]:
    """So many panels with one y axis, two in a row, and what draws their legend: into the free place of an odd number of panels, or
    else below all."""
    rows = (count + 1) // 2
    columns = min(count, 2)
    figure, axes = plt.subplots(
        rows, columns, figsize=(WIDTH, 2.3 * rows + (0.0 if count % 2 and count > 1 else 1.3)), layout="constrained", sharey=True, squeeze=False
    )  # fmt: skip
    panels = list(axes.flat)
    if len(panels) > count:
        panels[-1].set_axis_off()
        return figure, panels[:count], partial(panels[-1].legend, loc="center", handlelength=1.6)
    return figure, panels, partial(figure.legend, loc="outside lower center", ncols=2)


def _spaced(places: Sequence[float], log: bool, least: float = 0.065) -> list[str]:
    """Names of places along an axis, without those nearer to the one before than a share of the axis: they would overlap."""
    at = np.log(places) if log else np.asarray(places, dtype=float)
    names, last = [], -np.inf
    for place, value in zip(places, at):
        far = value - last >= least * (at[-1] - at[0])
        names.append(f"{place:g}" if far else "")
        last = value if far else last
    return names


def all_configurations(runs: pd.DataFrame, means: pd.DataFrame, chosen: pd.DataFrame, metrics: Sequence[str]) -> Figure:
    """Every configuration's mean accuracy as a point, its runs as light ones, the selected in red, a panel a split.

    Args:
        runs: rows at one label fraction: a line a cell and seed, with method and each metric.
        means: a line a cell with method, the mean of each metric, and n.
        chosen: the selected cells, likewise.
        metrics: metric columns, a panel each.
    """
    order = [name for name in ALL_METHODS if name in set(means.method)]
    figure, axes = plt.subplots(
        1, len(metrics), figsize=(WIDTH, 1.4 + 0.5 * max(len(order), 1)), sharey=True, layout="constrained", squeeze=False
    )  # fmt: skip
    for axis, metric in zip(axes[0], metrics):
        for place, method in enumerate(order):
            color = method_color(method)
            for table, alpha, size in ((runs, 0.35, 2), (means, 0.7, 3.5)):
                values = table.loc[table.method == method, metric].dropna().sort_values().to_numpy()
                spread = 0.28 * np.sin(np.arange(len(values)) * 2.4)  # the golden angle: apart, and the same every time
                axis.plot(values, place + spread, "o", color=color, alpha=alpha, markersize=size)
            axis.plot([values.mean()] * 2, [place - 0.36, place + 0.36], color="0.25", linewidth=1.5)
            picked = chosen.loc[chosen.method == method, metric]
            axis.plot(picked, [place] * len(picked), "o", color="#D81B60", markersize=6.5, markeredgecolor="white")
        axis.axvline(0.5, color="0.6", linewidth=0.8, linestyle=":")
        lowest = min([0.32, *runs[metric].dropna()])
        axis.set(title=METRIC_TITLES[metric], xlim=(lowest - 0.02, 1.02))
        axis.grid(axis="y", visible=False)
    axes[0, 0].set_yticks(range(len(order)), [wrapped(ALL_METHODS[m].title, 16) for m in order])
    axes[0, 0].invert_yaxis()
    keys = [
        plt.Line2D([], [], marker="o", linestyle="", color="0.4", alpha=0.35, markersize=3, label="a run"),
        plt.Line2D([], [], marker="o", linestyle="", color="0.4", alpha=0.7, markersize=4.5, label="a configuration"),
        plt.Line2D([], [], color="0.25", label="their mean"),
        plt.Line2D([], [], marker="o", linestyle="", color="#D81B60", label="selected by validation"),
    ]
    title = f"{n_said(means.n)} of a configuration"
    figure.legend(handles=keys, loc="outside lower center", ncols=2, title=title)
    return figure
