"""Every plot of results, from data frames; `style` says how they look."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from ..analysis.intervals import accuracy_interval
from ..methods import ALL_METHODS
from ..traces import Trace
from .style import METRIC_TITLES, method_color, method_style
from .style import discriminator_style as discriminator_style  # chapters take them from here
from .style import head_style as head_style
from .style import level_style as level_style
from .style import save as save
from .style import use_style as use_style


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
            lines.append((method, ALL_METHODS[method].title, mine))
        for level in levels if len(levels) > 1 else []:
            name = f"{ALL_METHODS[method].title}\n$\\tau_{{\\min}}$ = {level:g}"
            lines.append((method, name, mine[mine.level == level]))
    height = 1.4 + 0.42 * max(len(lines), 1)
    figure, axes = plt.subplots(
        1, len(metrics), figsize=(2.6 * len(metrics), height), sharey=True, layout="constrained"
    )
    for axis, metric in zip(np.atleast_1d(axes), metrics):
        intervals = [accuracy_interval(mine[metric].to_numpy()) for *_, mine in lines]
        for place, ((method, _, mine), interval) in enumerate(zip(lines, intervals)):
            values, color = mine[metric].to_numpy(), method_color(method)
            axis.plot(values, np.full(len(values), place), "o", color=color, alpha=0.45, markersize=4)
            if interval.n > 1:
                axis.plot([interval.low, interval.high], [place, place], color=color, linewidth=2.2, alpha=0.9)
            if interval.n > 0:
                axis.plot(interval.mean, place, "o", color=color, markersize=8, markeredgecolor="white")
            paper = reported[(reported.method == method) & (reported.metric == metric)].value
            axis.plot(paper, [place] * len(paper), "D", markersize=6, markerfacecolor="none", markeredgecolor="black")
        axis.axvline(0.5, color="0.6", linewidth=0.8, linestyle=":")
        axis.set_title(METRIC_TITLES[metric])
        lowest = min([0.42, *(v for line in axis.lines for v in line.get_xdata() if np.isfinite(v))])
        axis.set_xlim(max(lowest - 0.02, -0.02), 1.02)
        for place, ((method, *_), interval) in enumerate(zip(lines, intervals)):
            _mark_cut(axis, interval.low, interval.high, place, method_color(method))
        axis.grid(axis="y", visible=False)
    first = np.atleast_1d(axes)[0]
    first.set_yticks(range(len(lines)), [name for _, name, _ in lines])
    first.invert_yaxis()
    keys = [
        plt.Line2D(
            [], [], marker="o", linestyle="-", color="0.3", label="measured: mean, 95 % interval (arrow: goes on)"
        ),
        plt.Line2D(
            [], [], marker="o", linestyle="", color="0.3", alpha=0.45, markersize=4, label="measured: each seed"
        ),
        plt.Line2D([], [], marker="D", linestyle="", markerfacecolor="none", markeredgecolor="black", label="reported"),
    ]
    figure.legend(handles=keys, loc="outside lower center", ncols=3)
    return figure


def stack_cost(tables: dict[str, pd.DataFrame]) -> Figure:
    """What an epoch of a stack costs as runs are added, beside a cost that grows in proportion.

    Args:
        tables: for each machine's name, `benchmarked.stacks` of its figures.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.3), layout="constrained")
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
    style: Callable[..., dict[str, object]] = method_style,
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
    figure, axes = plt.subplots(
        1, len(metrics), figsize=(2.9 * len(metrics), 3.7), sharey=len(metrics) > 1, layout="constrained", squeeze=False
    )
    places = sorted({*rows[x], *reported.get(x, [])})
    keys = list(rows[list(by)].astype(object).where(rows[list(by)].notna(), None).itertuples(index=False, name=None))
    order = sorted(set(keys), key=lambda key: [_place(part) for part in key])
    for axis, metric in zip(axes[0], metrics):
        for key in order:
            line = rows[[k == key for k in keys]]
            options = style(*key)
            intervals = [accuracy_interval(group[metric]) for _, group in line.groupby(x)]
            at = sorted(line[x].unique())
            mean, low, high = (np.array([getattr(i, name) for i in intervals]) for name in ("mean", "low", "high"))
            axis.plot(at, mean, marker="o", markersize=4, **options)
            axis.fill_between(at, low, high, color=options["color"], alpha=0.13, linewidth=0)
            # A band reaches from one interval to the next; one alone, with a single seed on either side, needs a bar.
            axis.vlines(at, low, high, color=options["color"], alpha=0.5, linewidth=1.2)
        for key, line in reported[reported.metric == metric].groupby(list(by), dropna=False) if len(reported) else ():
            color = style(*key)["color"]
            axis.plot(line[x], line.value, "D", markersize=6, markerfacecolor="none", markeredgecolor=color)
        axis.axhline(0.5, color="0.6", linewidth=0.8, linestyle=":")
        axis.set(title=METRIC_TITLES[metric], xlabel=xlabel or x, ylim=(0.4, 1.02))
        if log:
            axis.set_xscale("log")
            axis.minorticks_off()
        if not keys:
            axis.text(0.5, 0.5, "not yet run", transform=axis.transAxes, ha="center", color="0.4")
        axis.set_xticks(places, [f"{p:g}" for p in places], rotation=60 if len(places) > 5 else 0)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    if len(reported):
        handles.append(plt.Line2D([], [], marker="D", linestyle="", markerfacecolor="none", markeredgecolor="0.3"))
        labels.append("reported")
    if handles:
        columns = int(figure.get_figwidth() / (0.06 * (5 + max(map(len, labels)))))  # inches: letters, and the handle
        figure.legend(handles, labels, loc="outside lower center", ncols=min(4, max(1, columns)), fontsize="small")
    return figure


def temperature_maps(
    means: pd.DataFrame,
    chosen: pd.DataFrame,
    reported: pd.DataFrame,
    method: str,
    metrics: Sequence[str],
    alphas: Sequence[float],
    betas: Sequence[float],
) -> Figure:
    """Heat maps of accuracy over tau_alpha and tau_beta, reported beside measured; empty cells have no run.

    A frame marks the selected cell: measured as `chosen` says, reported where the validation accuracy is highest.

    Args:
        means: a line a cell, with method, tau_alpha, tau_beta, and the mean of each metric.
        chosen: the selected cells, as from `selection.select`.
        reported: the paper's numbers: method, tau_alpha, tau_beta, metric, value.
        method: whose.
        metrics: a line of maps each.
    """
    figure, axes = plt.subplots(
        len(metrics), 2, figsize=(8.6, 0.5 + 2.1 * len(metrics)), sharex=True, sharey=True, layout="constrained", squeeze=False
    )  # fmt: skip
    mine, paper = means[means.method == method], reported[reported.method == method]
    selected = {"measured": chosen[chosen.method == method]}
    selected["reported"] = paper[paper.metric == "validation"].nlargest(1, "value")  # no cell of it lacks a seed
    for line, metric in zip(axes, metrics):
        values = {"reported": paper[paper.metric == metric].rename(columns={"value": "shown"})}
        values["measured"] = mine.assign(shown=mine[metric]) if len(mine) else mine
        for axis, (title, table) in zip(line, values.items()):
            grid = np.full((len(betas), len(alphas)), np.nan)
            if len(table):
                for row in table.itertuples():
                    if row.tau_alpha in alphas and row.tau_beta in betas:
                        grid[list(betas).index(row.tau_beta), list(alphas).index(row.tau_alpha)] = row.shown
            image = axis.imshow(grid, vmin=0.45, vmax=1, cmap="viridis", aspect="auto")
            for (r, c), value in np.ndenumerate(grid):
                shown = f".{round(value * 1000):03d}" if value < 0.9995 else "1"
                if np.isfinite(value):
                    axis.text(c, r, shown, ha="center", va="center", fontsize=7, color="w" if value < 0.8 else "k")
            _outline(axis, selected[title], alphas, betas)
            if np.isfinite(grid).any():
                r, c = np.unravel_index(np.nanargmax(grid), grid.shape)
                axis.plot(c + 0.38, r - 0.33, marker="*", color="#D81B60", markersize=7)
            axis.set_title(f"{METRIC_TITLES[metric].removesuffix(' accuracy')}, {title}", fontsize=9)
            axis.set_xticks(range(len(alphas)), [f"{a:g}" for a in alphas], fontsize=7, rotation=45)
            axis.set_yticks(range(len(betas)), [f"{b:g}" for b in betas], fontsize=7)
            axis.grid(visible=False)
        line[0].set_ylabel(r"$\tau_\beta$")
    for axis in axes[-1]:
        axis.set_xlabel(r"$\tau_\alpha$")
    figure.colorbar(image, ax=axes, shrink=0.6, label="accuracy")
    return figure


def _outline(axis: plt.Axes, cells: pd.DataFrame, alphas: Sequence[float], betas: Sequence[float]) -> None:
    """Frame those of the given cells that are on the map."""
    for cell in cells.itertuples():
        if cell.tau_alpha in alphas and cell.tau_beta in betas:
            place = (list(alphas).index(cell.tau_alpha) - 0.5, list(betas).index(cell.tau_beta) - 0.5)
            axis.add_patch(plt.Rectangle(place, 1, 1, fill=False, edgecolor="#D81B60", linewidth=2))


def all_configurations(runs: pd.DataFrame, means: pd.DataFrame, chosen: pd.DataFrame, metrics: Sequence[str]) -> Figure:
    """Every configuration's mean accuracy as a point, its runs as light ones, the selected in red, a panel a split.

    Args:
        runs: rows at one label fraction: a line a cell and seed, with method and each metric.
        means: a line a cell with method and the mean of each metric.
        chosen: the selected cells, likewise.
        metrics: metric columns, a panel each.
    """
    order = [name for name in ALL_METHODS if name in set(means.method)]
    figure, axes = plt.subplots(
        1, len(metrics), figsize=(4.1 * len(metrics), 1.2 + 0.5 * max(len(order), 1)), sharey=True, layout="constrained", squeeze=False
    )  # fmt: skip
    for axis, metric in zip(axes[0], metrics):
        for place, method in enumerate(order):
            color = method_color(method)
            for table, alpha, size in ((runs, 0.35, 3), (means, 0.7, 4.5)):
                values = table.loc[table.method == method, metric].dropna().sort_values().to_numpy()
                spread = 0.28 * np.sin(np.arange(len(values)) * 2.4)  # the golden angle: apart, and the same every time
                axis.plot(values, place + spread, "o", color=color, alpha=alpha, markersize=size)
            axis.plot([values.mean()] * 2, [place - 0.36, place + 0.36], color="0.25", linewidth=1.5)
            picked = chosen.loc[chosen.method == method, metric]
            axis.plot(picked, [place] * len(picked), "o", color="#D81B60", markersize=8, markeredgecolor="white")
        axis.axvline(0.5, color="0.6", linewidth=0.8, linestyle=":")
        lowest = min([0.32, *runs[metric].dropna()])
        axis.set(title=METRIC_TITLES[metric], xlim=(lowest - 0.02, 1.02))
        axis.grid(axis="y", visible=False)
    axes[0, 0].set_yticks(range(len(order)), [ALL_METHODS[m].title for m in order])
    axes[0, 0].invert_yaxis()
    keys = [
        plt.Line2D([], [], marker="o", linestyle="", color="0.4", alpha=0.35, markersize=3, label="a run"),
        plt.Line2D([], [], marker="o", linestyle="", color="0.4", alpha=0.7, markersize=4.5, label="a configuration"),
        plt.Line2D([], [], color="0.25", label="their mean"),
        plt.Line2D([], [], marker="o", linestyle="", color="#D81B60", label="selected by validation"),
    ]
    figure.legend(handles=keys, loc="outside lower center", ncols=4)
    return figure


KIND_STYLES = {"same_domain": ("#D55E00", "pairs of one domain"), "cross_domain": ("#0072B2", "pairs across domains")}


def temperature_bands(trace: Trace, tau_alpha: float, quantiles: Sequence[float] = (0.05, 0.5, 0.95)) -> Figure:
    """Median and range of the temperatures by epoch: of all pairs, as the paper draws them, and by kind."""
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.4), sharey=True, layout="constrained")
    epochs = np.arange(1, len(trace.loss) + 1)
    panels = [(axes[0], None, ("#6A3D9A", "all pairs")), *((axes[1], k, style) for k, style in KIND_STYLES.items())]
    for axis, kind, (color, label) in panels:
        low, median, high = trace.quantiles(quantiles, kind).T
        axis.plot(epochs, median, color=color, linewidth=2.2, label=label, marker="o" if len(epochs) == 1 else None)
        axis.fill_between(epochs, low, high, color=color, alpha=0.18, linewidth=0)
    for axis, title in zip(axes, ("All negative pairs", "By kind")):
        axis.axhline(tau_alpha, color="0.4", linestyle="--", linewidth=1)
        axis.annotate(r"$\tau_\alpha$", (epochs[-1], tau_alpha), ha="right", va="bottom", color="0.3")
        axis.set(xlabel="epoch", title=title)
    axes[0].set_ylabel(r"effective temperature $\tau_{ij}$")
    figure.legend(loc="outside lower center", ncols=3, fontsize="small")
    return figure


def temperature_ridges(trace: Trace, tau_alpha: float, ridges: int = 9) -> Figure:
    """The whole distribution of the temperatures at a few epochs, one above the other."""
    last = len(trace.loss)
    shown = sorted({round(e) for e in np.geomspace(1, last, min(ridges, last))})
    figure, axes = plt.subplots(len(shown), 1, figsize=(6.4, 0.62 * len(shown) + 0.8), sharex=True, squeeze=False)
    centers = (trace.edges[1:] + trace.edges[:-1]) / 2
    counts = np.zeros((last, 2, len(centers))) if trace.counts is None else trace.counts
    for axis, epoch in zip(axes[:, 0], shown):
        for kind, (color, label) in zip(counts[epoch - 1], KIND_STYLES.values()):
            height = kind / max(kind.max(), 1)
            axis.fill_between(centers, height, color=color, alpha=0.45, linewidth=0, label=label)
            axis.plot(centers, height, color=color, linewidth=1)
        axis.axvline(tau_alpha, color="0.4", linestyle="--", linewidth=1)
        axis.text(-0.02, 0.15, str(epoch), transform=axis.transAxes, ha="right", fontsize=9)
        axis.patch.set_alpha(0)
        axis.set(yticks=[], ylim=(0, 1.25))
        sns.despine(ax=axis, left=True)
        axis.grid(visible=False)
    axes[0, 0].legend(fontsize="small", loc="upper left", ncols=2, bbox_to_anchor=(0, 1.75))
    axes[-1, 0].set_xlabel(r"effective temperature $\tau_{ij}$; left: epoch")
    figure.subplots_adjust(hspace=-0.1, left=0.1, right=0.97, top=0.88, bottom=0.14)
    return figure


def open_choices(effects: pd.DataFrame, titles: dict[str, str], epochs: int, dashed: str = "reported") -> Figure:
    """What each way of settling the open choices measures, beside what is reported: a panel a group.

    Args:
        effects: columns variation, group, metric, mean, low, high, and the one that `dashed` names.
        titles: of the groups to show.
        epochs: of the runs that were measured.
        dashed: the column that dashed lines show: "reported" by the paper, or what the "start" measures.
    """
    order = list(dict.fromkeys(effects.variation))
    figure, axes = plt.subplots(
        1, len(titles), figsize=(2.7 * len(titles), 1.5 + 0.38 * max(len(order), 1)), sharey=True, layout="constrained"
    )
    colors = dict(zip(METRIC_TITLES, ("#0072B2", "#D55E00", "#009E73", "#7F7F7F")))
    for axis, (group, name) in zip(axes, titles.items()):
        axis.set_xlim(0.38, 1.02)
        mine = effects[effects.group == group]
        for place, metric in enumerate(dict.fromkeys(mine.metric)):
            part, shift = mine[mine.metric == metric], 0.2 * (place - 1)
            where = [order.index(v) + shift for v in part.variation]
            axis.hlines(where, part.low, part.high, color=colors[metric], linewidth=1.4, alpha=0.6)
            axis.plot(part["mean"], where, "o", color=colors[metric], markersize=5)
            axis.axvline(part[dashed].iloc[0], color=colors[metric], linestyle="--", linewidth=1)
            for low, high, spot in zip(part.low, part.high, where):
                _mark_cut(axis, low, high, spot, colors[metric])
        axis.set(title=name, xticks=(0.5, 0.75, 1.0))
        axis.grid(axis="y", visible=False)
    axes[0].set_yticks(range(len(order)), order)
    axes[0].set_ylim(max(len(order), 1) - 0.5, -0.5)
    keys = [
        plt.Line2D(
            [], [], marker="o", linestyle="--", color=color, label=METRIC_TITLES[metric].removesuffix(" accuracy")
        )
        for metric, color in colors.items()
        if metric in set(effects.metric)
    ]
    lines = {"reported": "reported, 400 epochs", "start": "the start"}[dashed]
    title = f"dots: measured, {epochs} epochs (arrow: the interval goes on); dashed lines: {lines}"
    figure.legend(handles=keys, loc="outside lower center", ncols=4, title=title)
    return figure


def _mark_cut(axis: plt.Axes, low: float, high: float, place: float, color: object) -> None:
    """An arrow at each edge of the panel that an interval goes on beyond."""
    left, right = axis.get_xlim()
    for edge, marker, beyond in ((left, "<", low < left), (right, ">", high > right)):
        if beyond:
            axis.plot(edge, place, marker, color=color, markersize=6, clip_on=False)


def readings(distances: pd.DataFrame, order: Sequence[str], chosen: str | None = None) -> Figure:
    """How far each candidate reading is from each anchor, in units of chance; within two is what seeds and draws explain.

    Args:
        distances: of `calibration.table`.
        order: candidates, best first.
        chosen: the one to mark.
    """
    anchors = distances[distances.candidate == order[0]]
    names = [_anchor_name(anchor) for anchor in anchors.itertuples()]
    wide = np.array([distances[distances.candidate == name].distance.to_numpy() for name in order])
    figure, axis = plt.subplots(figsize=(8.6, 3.2 + 0.3 * len(order)), layout="constrained")
    shown = axis.imshow(np.clip(wide, -8, 8), cmap="RdBu_r", vmin=-8, vmax=8, aspect="auto")
    for row, column in np.ndindex(*wide.shape):
        value = wide[row, column]
        tone = "white" if abs(value) > 5 else "black"
        axis.text(
            column, row, f"{value:+.0f}" if abs(value) >= 1.5 else "·", ha="center", va="center", color=tone, fontsize=8
        )
    axis.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=8)
    axis.set_yticks(range(len(order)), [f"{name} ◂" if name == chosen else name for name in order])
    for edge in np.flatnonzero(anchors.group.to_numpy()[1:] != anchors.group.to_numpy()[:-1]):
        axis.axvline(edge + 0.5, color="black", linewidth=1.2)
    axis.grid(visible=False)
    bar = figure.colorbar(shown, ax=axis, shrink=0.7)
    bar.set_label("measured less reported,\nin units of chance")
    return figure


def _anchor_name(anchor: Any) -> str:
    """What a column of `readings` is called: whose number it is."""
    title = ALL_METHODS[anchor.method].title
    if anchor.group == "collapse":
        return f"{title} at {anchor.tau_alpha:g}"
    metric = {"test_ood": "Test-OOD", "test_id": "Test-ID", "d_test_id": "D-Test-ID"}[anchor.metric]
    return f"{title}: {metric} {100 * anchor.label_fraction:g} %"


DIGIT_MARKS = {"3": "$3$", "5": "$5$"}


def embeddings(pictures: Mapping[tuple[str, float], tuple[pd.DataFrame, float]]) -> Figure:
    """Embeddings on a plane, a row a method and a column a temperature: each image by its digit in its own colour.

    Args:
        pictures: by method and tau_alpha, what `learned.picture` gives.
    """
    order = list(dict.fromkeys(method for method, _ in pictures))
    most = max(sum(name == method for name, _ in pictures) for method in order)
    figure, axes = plt.subplots(
        len(order), most, figsize=(2.6 * most, 2.7 * len(order)), layout="constrained", squeeze=False
    )
    for axis in axes.flat:
        axis.set_axis_off()
    for row, method in zip(axes, order):
        for axis, ((_, tau), (points, share)) in zip(row, (item for item in pictures.items() if item[0][0] == method)):
            axis.set_axis_on()
            for digit, mark in DIGIT_MARKS.items():
                mine = points[points.digit == digit]
                axis.scatter(mine.x, mine.y, c=list(mine.color), marker=mark, s=26, linewidths=0.3)
            axis.set(xticks=[], yticks=[], title=f"$\\tau_\\alpha$ = {tau:g}, {share:.0%} of variance")
            axis.title.set_fontsize(9)
        row[0].set_ylabel(ALL_METHODS[method].title, fontsize=9)
    return figure


def hiding(rows: pd.DataFrame, metrics: Sequence[str] = ("test_ood", "test_id")) -> Figure:
    """How much of the domain an embedding tells against what it tells of digits: a panel an accuracy, every run a point.

    Args:
        rows: runs at one label fraction, with method, d_test_id and each metric.
        metrics: a panel each.
    """
    figure, axes = plt.subplots(
        1, len(metrics), figsize=(4.2 * len(metrics), 4.2), sharey=False, layout="constrained", squeeze=False
    )
    order = [name for name in ALL_METHODS if name in set(rows.method)]
    for axis, metric in zip(axes[0], metrics):
        for name in order:
            mine = rows[rows.method == name]
            axis.plot(mine.d_test_id, mine[metric], "o", color=method_color(name), alpha=0.75, markersize=5,
                      markeredgecolor="white", label=ALL_METHODS[name].title)  # fmt: skip
        axis.axvline(0.5, color="0.6", linewidth=0.8, linestyle=":")
        axis.axhline(0.5, color="0.6", linewidth=0.8, linestyle=":")
        axis.set(xlabel=METRIC_TITLES["d_test_id"], ylabel=METRIC_TITLES[metric])
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def with_and_without_head(lines: pd.DataFrame, metric: str = "test_id", hidden: str = "d_test_id") -> Figure:
    """Accuracy by temperature, without a head and behind one, and what a head's output and its backbone tell of the domain.

    Args:
        lines: from `heads.probed`.
        metric: of the embedding that people keep: means over seeds with 95 % intervals.
        hidden: of both places, a line from the one to the other for each method; at the lowest temperature that all have.
    """
    figure, axes = plt.subplots(1, 3, figsize=(9.2, 3.9), layout="constrained")
    behind = lines["head"] != "none"
    panels = {"without a head": lines[~behind], "behind a head": lines[behind & (lines.place == "backbone")]}
    order = [m for m in ALL_METHODS if m in set(lines.method)]
    for axis, (name, part) in zip(axes, panels.items()):
        for shift, method in enumerate(m for m in order if m in set(part.method)):
            cells = part[part.method == method].groupby("tau_alpha")[metric]
            found = {tau: accuracy_interval(values) for tau, values in cells}
            at = np.array(list(found)) * 1.012 ** (shift - len(order) / 2)  # beside each other
            style = method_style(method) | ({} if name == "without a head" else {"label": None})
            axis.plot(at, [i.mean for i in found.values()], marker="o", markersize=5, **style)
            axis.vlines(
                at, [i.low for i in found.values()], [i.high for i in found.values()], color=method_color(method)
            )
        axis.set(title=f"{METRIC_TITLES[metric]}, {name}", xlabel=r"$\tau_\alpha$", xscale="log", ylim=(0.4, 1.02))
        places = sorted(set(part.tau_alpha))
        axis.set_xticks(places, [f"{p:g}" for p in places])
        axis.minorticks_off()
        axis.axhline(0.5, color="0.6", linewidth=0.8, linestyle=":")
    told = lines[behind & (lines.tau_alpha == lines[behind].tau_alpha.mode().min())] if behind.any() else lines[behind]
    shown = [m for m in order if m in set(told.method)]
    for place, method in enumerate(shown):
        mine = told[told.method == method]
        by_place = {
            where: accuracy_interval(mine.loc[mine.place == where, hidden].to_numpy()) for where in ("head", "backbone")
        }
        means = [i.mean for i in by_place.values()]
        axes[2].plot(means, [place, place], color=method_color(method), linewidth=2)
        axes[2].plot(means[0], place, "o", color=method_color(method), markerfacecolor="white", markersize=8)
        axes[2].plot(means[1], place, "o", color=method_color(method), markersize=8)
    axes[2].set(
        title=METRIC_TITLES[hidden] + ", behind a head", xlim=(0.48, 1.02), ylim=(max(len(shown), 1) - 0.5, -0.5)
    )
    axes[2].set_yticks([])
    axes[2].grid(axis="y", visible=False)
    axes[2].axvline(0.5, color="0.6", linewidth=0.8, linestyle=":")
    handles, labels = axes[0].get_legend_handles_labels()
    for label, face in {"from the head's output": "white", "from the backbone": "0.3"}.items():
        handles.append(plt.Line2D([], [], marker="o", linestyle="", color="0.3", markerfacecolor=face, markersize=8))
        labels.append(label)
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize="small")
    return figure
