"""The figures of the book; `style` says how they look.

Twins: Figures 1 `along_sigma`, 4 `scatter`, 5 `heads`, 6 `temperature_lines`, 7 `temperature_ridges`. Figures are as wide as the
text. `metrics` are columns with accuracies, a panel each; intervals are Student's 95 % over seeds. A panel of accuracies without rows says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import fill
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dtcl_core import losses
from dtcl_core.config import SIGMAS, TAU_ALPHAS, TAU_BETAS, Protocol
from dtcl_core.data import ColoredDigits
from dtcl_core.methods import ALL_METHODS, METHODS
from dtcl_core.traces import Trace

from .compare import Interval, accuracy, by_seed
from .experiments import FOLLOWED, HEAD_SIZES, title
from .reported import CHANCE, SIGMA
from .style import GRAY, INK, METRIC_TITLES, PAIRS, PALE, SELECTED, WIDTH, Look, handle, look, method_handles, n_said

REPORTED: dict[str, Any] = {"marker": "D", "linestyle": "", "markerfacecolor": "none", "markersize": 4.5}
HEADS = {"linear": ("linear head", "white"), "mlp": ("MLP head", INK)}  # what a kind is called, and the face of its mark
PAIR_NAMES = {"same_domain": "pairs of one domain", "cross_domain": "pairs across domains"}
BEYOND = "_beyond"  # what tells an arrow at the end of a panel from other lines


# --- parts that several figures share -----------------------------------------------------------------------------------


def _present(*columns: Iterable[str]) -> list[str]:
    """The methods that occur, in the order of the paper's tables."""
    return [method for method in ALL_METHODS if any(method in set(column) for column in columns)]


def _not_yet(axis: Axes, titled: bool = False) -> None:
    """Write "not yet run" in the middle of the panel, or in its title where the paper's numbers are drawn."""
    if not titled:
        axis.text(0.5, 0.5, "not yet run", transform=axis.transAxes, ha="center", va="center", color=GRAY)
    for place in ("left", "center") if titled else ():
        if name := axis.get_title(place):
            axis.set_title(name + ("\n" if "\n" in name else " ") + "(not yet run)", loc=place)


def _chance(axis: Axes, along: str) -> None:
    """A dotted line at chance, on the axis `along`."""
    (axis.axvline if along == "x" else axis.axhline)(CHANCE, color="0.6", linewidth=0.8, linestyle=":", zorder=0)


def _limits(points: Iterable[float], intervals: Iterable[Interval], least: float = 0.06) -> tuple[float, float]:
    """The ends of an axis of accuracies: all points lie inside, and intervals as far as they stretch it to at most three times that."""
    found = np.array([p for p in points if np.isfinite(p)])
    if not len(found):
        return 0.4, 1.02
    low, high = float(found.min()), float(found.max())
    ends = np.array([(i.low, i.high) for i in intervals if i.n > 1]).reshape(-1, 2)
    room = max(high - low, least)
    bottom = min([low, *np.maximum(ends[:, 0], low - room)])
    top = max([high, *np.minimum(ends[:, 1], high + room)])
    margin = max(0.05 * (top - bottom), (least - (top - bottom)) / 2)
    return bottom - margin, top + margin


def _bar(axis: Axes, interval: Interval, place: float, style: Look, along: str = "x", **mark: Any) -> None:
    """A mean with its interval, at a place of the other axis; an arrow where it leaves the limits, which are set before."""
    ends, arrows = (axis.get_xlim(), "<>") if along == "x" else (axis.get_ylim(), "v^")

    def at(value: Any, other: Any) -> tuple[Any, Any]:
        return (value, other) if along == "x" else (other, value)

    if interval.n > 1:
        inside = [max(interval.low, ends[0]), min(interval.high, ends[1])]
        axis.plot(*at(inside, [place, place]), color=style.color, linewidth=1.5, solid_capstyle="butt")
        for edge, marker, beyond in zip(ends, arrows, (interval.low < ends[0], interval.high > ends[1])):
            if beyond:
                axis.plot(*at(edge, place), color=style.color, marker=marker, markersize=4, clip_on=False, label=BEYOND)
    if interval.n:
        plain = dict[str, Any](marker=style.marker, markersize=style.size, markeredgecolor="white", markeredgewidth=0.6)
        axis.plot(*at(interval.mean, place), color=style.color, **plain | mark)


def _legend(figure: Figure, handles: list[Any], counts: Iterable[float], says: str = "", of: str = "", columns: int = 2) -> None:
    """A legend below the panels, which says of how many seeds means are, and what an arrow means if one is drawn."""
    beyond = any(line.get_label() == BEYOND for axis in figure.axes for line in axis.lines)
    below = says + n_said(counts, of) + ("\nan arrow: the interval goes on" if beyond else "")
    legend = figure.legend(handles=handles, loc="outside lower center", ncols=columns, columnspacing=1.4, title=below)
    legend.get_title().set_multialignment("center")


def _dodged(count: int) -> np.ndarray:
    """Places of `count` things beside each other within three quarters of a category."""
    return (np.arange(count) - (count - 1) / 2) * 0.75 / max(count, 1)


def _columns(names: Sequence[str], metrics: Sequence[str], height: float) -> tuple[Figure, Sequence[Axes]]:
    """One panel per metric, beside each other, with named lines down; the limits across are left to the caller."""
    figure, axes = plt.subplots(1, len(metrics), figsize=(WIDTH, height), sharey=True, layout="constrained", squeeze=False)
    for axis, metric in zip(axes[0], metrics):
        axis.set_title(METRIC_TITLES[metric].replace(" ", "\n") if len(metrics) > 2 else METRIC_TITLES[metric])
        axis.xaxis.set_major_locator(MaxNLocator(4))
        axis.grid(axis="y", visible=False)
    axes[0, 0].set_yticks(range(len(names)), names)
    axes[0, 0].set_ylim(max(len(names), 1) - 0.5, -0.5)
    return figure, axes[0]


# --- accuracies ---------------------------------------------------------------------------------------------------------


def compare_methods(rows: pd.DataFrame, reported: pd.DataFrame, metrics: Sequence[str]) -> Figure:
    """Methods down, one panel per metric: seeds as points, their mean with its interval, and the paper's value as a diamond.

    Args:
        rows: method, seed and each metric; one row per method and seed.
        reported: method, metric, value.
    """
    order = _present(rows.method, reported.method)
    figure, axes = _columns([fill(title(m), 16) for m in order], metrics, 1.3 + 0.33 * max(len(order), 1))
    counts: list[int] = []
    for axis, metric in zip(axes, metrics):
        paper = reported[reported.metric == metric]
        found = {m: accuracy(by_seed(rows[rows.method == m], metric)) for m in order}
        counts += [interval.n for interval in found.values()]
        axis.set_xlim(*_limits([*rows[metric], *paper.value], found.values()))
        for place, (method, interval) in enumerate(found.items()):
            values, style = rows.loc[rows.method == method, metric], look(method)
            axis.plot(values, [place - 0.22] * len(values), "o", color=style.color, alpha=0.5, markersize=3, markeredgewidth=0)
            _bar(axis, interval, place, style)
            theirs = paper.loc[paper.method == method, "value"]
            axis.plot(theirs, [place + 0.3] * len(theirs), markeredgecolor="black", **REPORTED)
        _chance(axis, "x")
        if rows.empty:
            _not_yet(axis, titled=True)
    keys = [handle("measured: mean, 95 % interval", INK, linestyle="-"), handle("a seed", GRAY, alpha=0.5, markersize=3)]
    keys.append(handle("reported", "black", **REPORTED))
    _legend(figure, keys, counts, of=" of a method", columns=3)
    return figure


def along_sigma(rows: pd.DataFrame, reported: pd.DataFrame, metrics: Sequence[str]) -> Figure:
    """The paper's Figure 1: one panel per metric below each other, methods beside each other at each spread of colours.

    Args:
        rows: method, sigma, seed and each metric; one row per method, sigma and seed.
        reported: method, sigma, metric, value.
    """
    spreads = sorted({*rows.sigma, *reported.sigma}) or list(SIGMAS)
    order = _present(rows.method, reported.method)
    size = (WIDTH, 0.9 + 2.05 * len(metrics))
    figure, axes = plt.subplots(len(metrics), 1, figsize=size, sharex=True, layout="constrained", squeeze=False)
    counts: list[int] = []
    for axis, metric in zip(axes[:, 0], metrics):
        paper = reported[reported.metric == metric]
        found = {key: accuracy(by_seed(part, metric)) for key, part in rows.groupby(["method", "sigma"])}
        counts += [interval.n for interval in found.values()]
        axis.set_ylim(*_limits([*(i.mean for i in found.values()), *paper.value], found.values()))
        for method, shift in zip(order, _dodged(len(order))):
            style, dash = look(method), "--" if ALL_METHODS[method].oracle else "-"
            line = {x + shift: found.get((method, s), Interval(np.nan, np.nan, np.nan, 0)) for x, s in enumerate(spreads)}
            axis.plot(list(line), [i.mean for i in line.values()], dash, color=style.color, linewidth=0.7, alpha=0.6)
            for place, interval in line.items():
                _bar(axis, interval, place, style, "y")
            theirs = paper[paper.method == method]
            axis.plot([spreads.index(s) + shift for s in theirs.sigma], theirs.value, markeredgecolor=style.color, **REPORTED)
        _chance(axis, "y")
        for place in range(0, len(spreads), 2):  # a light ground, so that dodged points are seen to belong together
            axis.axvspan(place - 0.5, place + 0.5, color="0.955", linewidth=0, zorder=-2)
        axis.set_title(METRIC_TITLES[metric], loc="left")
        axis.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        axis.grid(axis="x", visible=False)
        if rows.empty:
            _not_yet(axis, titled=True)
    axes[-1, 0].set(xlabel=r"$\sigma$: spread of colours within a domain", xlim=(-0.5, len(spreads) - 0.5))
    axes[-1, 0].set_xticks(range(len(spreads)), [f"{s:g}" for s in spreads])
    keys = [*method_handles(order), handle("reported", GRAY, **REPORTED)]
    _legend(figure, keys, counts, "means with 95 % intervals, ")
    return figure


def _head_keys() -> list[Any]:
    keys = [handle(name, INK, markerfacecolor=face) for name, face in HEADS.values()]
    return [*keys, handle("no head: mean and band of its interval", GRAY, "", linestyle="-")]


def heads(rows: pd.DataFrame, metrics: Sequence[str]) -> Figure:
    """The paper's Figure 5: accuracy by the head's dimension, for each kind of head, beside a band without one.

    Args:
        rows: of selected configurations: projector (missing without a head), projector_dim, seed and each metric.
    """
    dims = sorted({int(d) for d in rows.projector_dim.dropna()}) or HEAD_SIZES
    figure, axes = plt.subplots(1, len(metrics), figsize=(WIDTH, 2.7), layout="constrained", squeeze=False)
    counts: list[int] = []
    for axis, metric in zip(axes[0], metrics):
        bare = accuracy(by_seed(rows[rows.projector.isna()], metric))
        if bare.n:
            axis.axhline(bare.mean, color=GRAY, linewidth=1.4, zorder=0)
        if bare.n > 1:
            axis.axhspan(bare.low, bare.high, color=PALE, alpha=0.6, linewidth=0, zorder=-1)
        found = {key: accuracy(by_seed(part, metric)) for key, part in rows.groupby(["projector", "projector_dim"])}
        counts += [bare.n, *(interval.n for interval in found.values())]
        axis.set_ylim(*_limits([*rows[metric]], [bare, *found.values()], 0.02))
        for (kind, (_, face)), shift in zip(HEADS.items(), (-0.17, 0.17)):
            for place, dim in enumerate(dims):
                mine = rows.loc[(rows.projector == kind) & (rows.projector_dim == dim), metric]
                axis.plot([place + shift + 0.09] * len(mine), mine, "o", color=INK, alpha=0.35, markersize=2.5, markeredgewidth=0)
                if (kind, dim) in found:
                    _bar(axis, found[kind, dim], place + shift, Look(INK, "o"), "y", markerfacecolor=face, markeredgecolor=INK)
        axis.set(xlim=(-0.5, len(dims) - 0.5), xlabel="head's dimension", title=METRIC_TITLES[metric].replace(" ", "\n"))
        axis.set_xticks(range(len(dims)), [str(dim) for dim in dims])
        axis.yaxis.set_major_locator(MaxNLocator(5))
        axis.grid(axis="x", visible=False)
        if rows.empty:
            _not_yet(axis)
    _legend(figure, _head_keys(), counts, "large: means with 95 % intervals; small: seeds; ", columns=3)
    return figure


def heads_by_temperature(rows: pd.DataFrame, metric: str) -> Figure:
    """Accuracy at every temperature, one panel per kind of head: its dimensions beside each other, on bands without a head.

    Args:
        rows: as for `heads`, of every tau_alpha.
    """
    taus = sorted(rows.tau_alpha.unique()) or list(TAU_ALPHAS)
    dims = sorted({int(d) for d in rows.projector_dim.dropna()}) or HEAD_SIZES
    figure, axes = plt.subplots(len(HEADS), 1, figsize=(WIDTH, 4.9), sharex=True, sharey=True, layout="constrained")
    by_cell = {key: accuracy(by_seed(part, metric)) for key, part in rows.groupby(["projector", "projector_dim", "tau_alpha"])}
    bare = {tau: accuracy(by_seed(part, metric)) for tau, part in rows[rows.projector.isna()].groupby("tau_alpha")}
    every = [*by_cell.values(), *bare.values()]
    axes[0].set_ylim(*_limits([i.mean for i in every], every))
    shades, markers = [f"{s:.2f}" for s in np.linspace(0.62, 0.0, len(dims))], "svo^D<>"
    for axis, (kind, (name, _)) in zip(axes, HEADS.items()):
        for place, tau in enumerate(taus):
            if tau in bare:
                ends = [place - 0.42, place + 0.42]
                axis.plot(ends, [bare[tau].mean] * 2, color=GRAY, linewidth=1.4, zorder=0)
                axis.fill_between(ends, bare[tau].low, bare[tau].high, color=PALE, linewidth=0, zorder=-1)
            for dim, shift, shade, marker in zip(dims, _dodged(len(dims)), shades, markers):
                if (kind, dim, tau) in by_cell:
                    _bar(axis, by_cell[kind, dim, tau], place + shift, Look(shade, marker, 5.0), "y")
        _chance(axis, "y")
        axis.set(title=f"{METRIC_TITLES[metric]}, {name}", xlim=(-0.5, len(taus) - 0.5))
        axis.set_xticks(range(len(taus)), [f"{tau:g}" for tau in taus])
        axis.grid(axis="x", visible=False)
        if rows.empty:
            _not_yet(axis)
    axes[-1].set_xlabel(r"temperature $\tau$")
    keys = [handle(f"dimension {dim}", shade, marker) for dim, shade, marker in zip(dims, shades, markers)]
    _legend(figure, [*keys, _head_keys()[-1]], (i.n for i in every), "means with 95 % intervals, ")
    return figure


def scatter(runs: pd.DataFrame, means: pd.DataFrame, chosen: pd.DataFrame, metrics: Sequence[str]) -> Figure:
    """The paper's Figure 4: every configuration a point, its runs light ones, the selected one red, one panel per metric.

    Args:
        runs: method and each metric; one row per run.
        means: method, n and the mean of each metric; one row per configuration.
        chosen: the same, of the selected configurations.
    """
    order = _present(means.method) or list(METHODS)
    figure, axes = _columns([fill(title(m), 16) for m in order], metrics, 1.3 + 0.43 * len(order))
    for axis, metric in zip(axes, metrics):
        axis.set_xlim(*_limits([*runs[metric], *means[metric]], ()))
        for place, method in enumerate(order):
            for table, color, size in ((runs, "0.8", 1.8), (means, "0.42", 3.2)):
                values = np.sort(table.loc[table.method == method, metric].dropna())
                spread = 0.3 * np.sin(np.arange(len(values)) * 2.4)  # the golden angle: apart, and the same every time
                axis.plot(values, place + spread, "o", color=color, markersize=size, markeredgewidth=0)
            average = means.loc[means.method == method, metric].mean()
            axis.plot([average] * 2, [place - 0.4, place + 0.4], color="black", linewidth=1.4)
            picked = chosen.loc[chosen.method == method, metric]
            axis.plot(picked, [place] * len(picked), "o", color=SELECTED, markersize=7, markeredgecolor="white")
        _chance(axis, "x")
        if means.empty:
            _not_yet(axis)
    keys = [handle("a configuration", "0.42", markersize=3.2), handle("selected by validation", SELECTED)]
    keys += [handle("one of its runs", "0.8", markersize=1.8), handle("mean of configurations", "black", "", linestyle="-")]
    _legend(figure, keys, means.n, of=" of a configuration")
    return figure


# --- temperatures -------------------------------------------------------------------------------------------------------


def maps(means: pd.DataFrame, chosen: pd.DataFrame, reported: pd.DataFrame, method: str, metric: str) -> Figure:
    """One of Tables 3 to 8: accuracy over tau_alpha (down) and tau_beta (across), reported beside measured.

    A frame marks the selected cell (in the paper: highest reported validation accuracy). Bold: highest. Hatched: not run.

    Args:
        means: method, tau_alpha, tau_beta, n and the mean of the metric; one row per cell.
        chosen: method, tau_alpha, tau_beta of the selected cells.
        reported: method, tau_alpha, tau_beta, metric, value; with the validation accuracies.
    """
    mine, paper = means[means.method == method], reported[reported.method == method]
    alphas = sorted({*TAU_ALPHAS, *mine.tau_alpha})
    betas = sorted({*TAU_BETAS, *mine.tau_beta})
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 0.7 + 0.163 * len(alphas)), sharey=True, layout="constrained")
    theirs, picked = paper[paper.metric == metric], paper[paper.metric == "validation"].nlargest(1, "value")
    shown = {"reported": (theirs.assign(shown=theirs.value), picked)}
    shown[f"measured, {n_said(mine.n)}"] = (mine.assign(shown=mine[metric]), chosen[chosen.method == method])
    for axis, (name, (table, selected)) in zip(axes, shown.items()):
        _map(axis, table.set_index(["tau_alpha", "tau_beta"]).shown.unstack().reindex(index=alphas, columns=betas))
        for cell in selected.itertuples():
            place = (betas.index(cell.tau_beta) - 0.5, alphas.index(cell.tau_alpha) - 0.5)
            for color, width in (("white", 3.4), (SELECTED, 1.8)):
                axis.add_patch(plt.Rectangle(place, 1, 1, fill=False, edgecolor=color, linewidth=width, clip_on=False, zorder=2))
        axis.set_title(name)
        axis.set_xticks(range(len(betas)), [f"{b:g}" for b in betas])
        axis.set_yticks(range(len(alphas)), [f"{a:g}" for a in alphas])
        axis.set_xlabel(r"$\tau_\beta$")
        if table.empty:
            _not_yet(axis)
    axes[0].set_ylabel(r"$\tau_\alpha$")
    figure.suptitle(f"{title(method)}: {METRIC_TITLES[metric]}", fontsize=9)
    return figure


def _map(axis: Axes, table: pd.DataFrame) -> None:
    """A heat map with a number in every cell that has one."""
    values = table.to_numpy(dtype=float)
    axis.patch.set(facecolor="white", hatch="////", edgecolor="0.85")
    picture = axis.imshow(values, vmin=0.45, vmax=1.0, cmap=sns.light_palette("0.2", as_cmap=True), aspect="auto")
    best = np.nanmax(values) if np.isfinite(values).any() else np.nan
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            ground = picture.cmap(picture.norm(value))[0]  # a gray, whose contrast with black and white is alike at 0.46
            tone, weight = "white" if ground < 0.46 else "black", "bold" if value == best else "normal"
            axis.text(column, row, f"{value:.3f}", ha="center", va="center", fontsize=7.5, color=tone, weight=weight)
    axis.grid(visible=False)


def temperature_lines(trace: Trace, tau_alpha: float, seeds: int) -> Figure:
    """Median and 5 to 95 % range of the temperatures of negative pairs by epoch: of all pairs, as in the paper, and by kind.

    Args:
        trace: of one run, or of several pooled (`seeds` of them).
        tau_alpha: drawn as a line.
    """
    figure, axes = plt.subplots(2, 1, figsize=(WIDTH, 4.8), sharex=True, layout="constrained")
    panels = [(axes[0], None, INK), *((axes[1], kind, PAIRS[kind]) for kind in PAIR_NAMES)]
    for axis, kind, color in panels:
        epochs = np.arange(1, len(trace.loss) + 1)
        low, median, high = trace.quantiles((0.05, 0.5, 0.95), kind).T
        axis.fill_between(epochs, low, high, color=color, alpha=0.25, linewidth=0)
        axis.plot(epochs, median, color=color, linewidth=2.2, marker="o" if len(epochs) == 1 else None)
    for axis, name in zip(axes, ("all negative pairs", "by kind")):
        axis.axhline(tau_alpha, color=GRAY, linestyle="--", linewidth=1)
        axis.text(1, tau_alpha, r"$\tau_\alpha$ ", transform=axis.get_yaxis_transform(), ha="right", va="bottom", color=GRAY)
        axis.set(title=name, ylabel=r"temperature $\tau_{ij}$")
    axes[-1].set_xlabel("epoch")
    colors = {"all pairs": INK, **{name: PAIRS[kind] for kind, name in PAIR_NAMES.items()}}
    keys = [handle(name, color, "", linestyle="-", linewidth=2.2) for name, color in colors.items()]
    _legend(figure, keys, [seeds], "line: median; band: 5 to 95 % of pairs; ", " pooled" * (seeds > 1), 3)
    return figure


def temperature_ridges(trace: Trace, tau_alpha: float, seeds: int) -> Figure:
    """The distribution of the temperatures at a few epochs, one above the other: all pairs, and the two kinds among them.

    Args:
        trace, tau_alpha, seeds: as for `temperature_lines`; at most nine epochs are shown.
    """
    assert trace.counts is not None, "a trace of a method without tau_beta has no temperatures"
    last = len(trace.loss)
    shown = sorted({round(e) for e in np.geomspace(1, last, min(9, last))})
    height = 0.5 * len(shown) + 1.1
    figure, axes = plt.subplots(len(shown), 1, figsize=(WIDTH, height), sharex=True, squeeze=False)
    for axis, epoch in zip(axes[:, 0], shown):
        counts, centers = trace.counts[epoch - 1], (trace.edges[1:] + trace.edges[:-1]) / 2
        most = max(counts.sum(0).max(), 1)
        axis.plot(centers, counts.sum(0) / most, color=INK, linewidth=1, label="all pairs")
        for (kind, name), count in zip(PAIR_NAMES.items(), counts):
            axis.fill_between(centers, count / most, color=PAIRS[kind], alpha=0.55, linewidth=0, label=name)
        axis.axvline(tau_alpha, color=GRAY, linestyle="--", linewidth=1)
        axis.text(-0.02, 0.1, str(epoch), transform=axis.transAxes, ha="right")
        axis.patch.set_alpha(0)
        axis.set(yticks=[], ylim=(0, 1.25))
        axis.spines.left.set_visible(False)
        axis.grid(visible=False)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="upper center", ncols=3)
    how_many = n_said([seeds], " pooled" if seeds > 1 else "")
    axes[-1, 0].set_xlabel(rf"temperature $\tau_{{ij}}$; left: epoch; dashed: $\tau_\alpha$; {how_many}")
    figure.subplots_adjust(hspace=-0.1, left=0.1, right=0.97, top=1 - 0.3 / height, bottom=0.5 / height)
    return figure


def embeddings(pictures: Mapping[str, tuple[pd.DataFrame, float]]) -> Figure:
    """Where green digits go: one row per method, left the training colours alone, right the same plane with the green digits.

    Args:
        pictures: by method (at least one), what `embeddings.picture` gives.
    """
    size = (WIDTH, 0.35 + 0.8 * len(pictures))
    figure, axes = plt.subplots(len(pictures), 2, figsize=size, sharex="row", sharey="row", layout="constrained", squeeze=False)
    for axis, name in zip(axes[0], ("digits in the training colours", "and in the colour never seen")):
        axis.set_title(name)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
        axis.grid(visible=False)
        axis.spines[:].set_visible(True)
    for (left, right), (method, (points, share)) in zip(axes, pictures.items()):
        seen, unseen = points[points.split != "test_ood"], points[points.split == "test_ood"]
        for axis, shown in ((left, seen), (right, seen.assign(color="0.82")), (right, unseen)):
            for digit, mine in shown.groupby("digit"):  # each image as its digit, where its embedding lies
                axis.scatter(mine.x, mine.y, c=list(mine.color), marker=f"${digit}$", s=20, linewidths=0.25)
        left.set_ylabel(f"{fill(title(method), 17)}\n{100 * share:.0f} % of variance", rotation=0, ha="right", va="center")
    return figure


def idea() -> Figure:
    """The paper in one picture: colours of training and of the test, and the temperature of an anchor's negative pairs.

    Temperatures: Eq. 3 with w of 0.95 and 0.05 (nearly sure), and the tau_alpha and tau_beta of Figures 6 and 7.
    """
    data = ColoredDigits(SIGMA, color_clipping=Protocol().color_clipping)
    train, unseen = (part._replace(images=part.images.clamp(0, 1)) for part in map(data.split, ("train", "test_ood")))
    figure = plt.figure(figsize=(4.2, 2.55))  # smaller than `WIDTH`, so that its letters are larger
    first = [int((train.domains == d).nonzero()[0, 0]) for d in (0, 1)]
    seen = torch.stack([train.images[first[place % 2] + 6 * place] for place in range(6)])  # alternating, all different
    strips = {(0.0, 0.64): (seen, "seen in pre-training"), (0.68, 0.32): (unseen.images[:3], "unseen colour")}
    for (left, width), (images, name) in strips.items():
        axis = figure.add_axes((left, 0.69, width, 0.20))
        axis.imshow(images.permute(2, 0, 3, 1).flatten(1, 2).numpy())
        axis.set_title(name, fontsize=10)
        axis.axis("off")
    axis = figure.add_axes((0, 0, 1, 0.66))
    axis.set(xlim=(0, 8), ylim=(0.05, 3.25))
    axis.axis("off")
    anchor = train.domains == train.domains[0]
    _image(axis, train.images[0], 0.85, 1.75, 1.5)
    axis.text(0.85, 0.4, "an image", ha="center", fontsize=10)
    same = (2.4, int(anchor.nonzero()[1, 0]), 0.95, "same_domain", "same colour")
    other = (0.85, int((~anchor).nonzero()[0, 0]), 0.05, "cross_domain", "another colour")
    for y, index, w, kind, told in (same, other):
        settings = FOLLOWED["tau_alpha"], FOLLOWED["tau_beta"], Protocol().tau_min
        tau = losses.pair_temperature(torch.tensor([[w]]), *settings, num_domains=2).item()
        axis.annotate("", (2.75, y), (1.7, 1.75), arrowprops={"arrowstyle": "-|>", "color": PAIRS[kind], "linewidth": 0.25 / tau})
        _image(axis, train.images[index], 3.45, y, 1.25)
        push = "pushed apart hard" if w > 0.5 else "pushed apart less"
        axis.text(4.3, y, f"{told}\n$\\tau$ = {tau:.2f}\n{push}", va="center", fontsize=10, linespacing=1.1)
    return figure


def _image(axis: Axes, image: torch.Tensor, x: float, y: float, size: float) -> None:
    """A digit, centred."""
    half = size / 2
    axis.imshow(image.permute(1, 2, 0).numpy(), extent=(x - half, x + half, y - half, y + half), aspect="auto", zorder=3)
