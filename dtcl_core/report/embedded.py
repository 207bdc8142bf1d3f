"""Plots of embeddings, and of what they tell of the digit and of the domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ..analysis.intervals import Interval, accuracy_interval
from ..methods import ALL_METHODS
from .style import METRIC_TITLES, WIDTH, method_color, method_style, n_said, wrapped

DIGIT_MARKS = {"3": "$3$", "5": "$5$"}


def embeddings(pictures: Mapping[tuple[str, float], tuple[pd.DataFrame, float]]) -> Figure:
    """Embeddings on a plane, a row a method and a column a temperature: each image by its digit in its own colour.

    Args:
        pictures: by method and tau_alpha, what `learned.picture` gives.
    """
    order = list(dict.fromkeys(method for method, _ in pictures))
    most = max(sum(name == method for name, _ in pictures) for method in order)
    figure, axes = plt.subplots(
        len(order), most, figsize=(WIDTH, (WIDTH / most + 0.3) * len(order)), layout="constrained", squeeze=False
    )
    for axis in axes.flat:
        axis.set_axis_off()
    for row, method in zip(axes, order):
        for axis, ((_, tau), (points, share)) in zip(row, (item for item in pictures.items() if item[0][0] == method)):
            axis.set_axis_on()
            for digit, mark in DIGIT_MARKS.items():
                mine = points[points.digit == digit]
                axis.scatter(mine.x, mine.y, c=list(mine.color), marker=mark, s=18, linewidths=0.25)
            axis.set(xticks=[], yticks=[])
            axis.set_title(f"$\\tau_\\alpha$ = {tau:g},\n{share:.0%} of variance", fontsize=8)
        row[0].set_ylabel(ALL_METHODS[method].title, fontsize=8)
    return figure


def hiding(rows: pd.DataFrame, metrics: Sequence[str] = ("test_ood", "test_id")) -> Figure:
    """How much of the domain an embedding tells against what it tells of digits: a panel an accuracy, every run a point.

    Args:
        rows: runs at one label fraction, with method, seed, d_test_id and each metric.
        metrics: a panel each.
    """
    figure, axes = plt.subplots(
        len(metrics), 1, figsize=(WIDTH, 0.8 + 2.9 * len(metrics)), sharex=True, layout="constrained", squeeze=False
    )
    order = [name for name in ALL_METHODS if name in set(rows.method)]
    for axis, metric in zip(axes[:, 0], metrics):
        for name in order:
            mine = rows[rows.method == name]
            axis.plot(mine.d_test_id, mine[metric], "o", color=method_color(name), alpha=0.75, markersize=4.5,
                      markeredgecolor="white", label=ALL_METHODS[name].title)  # fmt: skip
        axis.axvline(0.5, color="0.6", linewidth=0.8, linestyle=":")
        axis.axhline(0.5, color="0.6", linewidth=0.8, linestyle=":")
        axis.set(ylabel=METRIC_TITLES[metric])
    axes[-1, 0].set_xlabel(METRIC_TITLES["d_test_id"])
    title = f"each point a run, {n_said(rows.groupby('method').seed.nunique())} of a method"
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, title=title)
    return figure


def with_and_without_head(lines: pd.DataFrame, metric: str = "test_id", hidden: str = "d_test_id") -> Figure:
    """Accuracy by temperature, without a head and behind one, and what a head's output and its backbone tell of the domain.

    Args:
        lines: from `heads.probed`.
        metric: of the embedding that people keep: means over seeds with 95 % intervals.
        hidden: of both places, a line from the one to the other for each method; at the lowest temperature that all have.
    """
    figure, axes = plt.subplots(2, 2, figsize=(WIDTH, 5.0), layout="constrained")
    bare, headed, told_axis, key = axes.flat
    behind = lines["head"] != "none"
    panels = {"without a head": lines[~behind], "behind a head": lines[behind & (lines.place == "backbone")]}
    order = [m for m in ALL_METHODS if m in set(lines.method)]
    counts: list[int] = []
    for axis, (name, part) in zip((bare, headed), panels.items()):
        for shift, method in enumerate(m for m in order if m in set(part.method)):
            cells = part[part.method == method].groupby("tau_alpha")[metric]
            found = {tau: accuracy_interval(values) for tau, values in cells}
            at = np.array(list(found)) * 1.012 ** (shift - len(order) / 2)  # beside each other
            style = method_style(method) | ({} if name == "without a head" else {"label": None})
            axis.plot(at, [i.mean for i in found.values()], marker="o", markersize=4, **style)
            axis.vlines(
                at, [i.low for i in found.values()], [i.high for i in found.values()], color=method_color(method)
            )
            counts += [i.n for i in found.values()]
        axis.set(title=f"{METRIC_TITLES[metric]},\n{name}", xlabel=r"$\tau_\alpha$", xscale="log", ylim=(0.4, 1.02))
        places = sorted(set(part.tau_alpha))
        axis.set_xticks(places, [f"{p:g}" for p in places])
        axis.minorticks_off()
        axis.axhline(0.5, color="0.6", linewidth=0.8, linestyle=":")
    headed.set_ylim(bare.get_ylim())
    counts += [interval.n for interval in _domain_told(told_axis, lines[behind], order, hidden)]
    handles, labels = bare.get_legend_handles_labels()
    for label, face in {"from the head's output": "white", "from the backbone": "0.3"}.items():
        handles.append(plt.Line2D([], [], marker="o", linestyle="", color="0.3", markerfacecolor=face, markersize=7))
        labels.append(label)
    key.set_axis_off()
    key.legend(handles, [wrapped(label, 26) for label in labels], loc="center", title=n_said(counts), handlelength=1.6)
    return figure


def _domain_told(axis: plt.Axes, behind: pd.DataFrame, order: Sequence[str], hidden: str) -> list[Interval]:
    """From each method's head to its backbone, how much either tells of the domain; the means that are drawn."""
    told = behind[behind.tau_alpha == behind.tau_alpha.mode().min()] if len(behind) else behind
    shown, drawn = [m for m in order if m in set(told.method)], []
    for place, method in enumerate(shown):
        mine = told[told.method == method]
        by_place = [accuracy_interval(mine.loc[mine.place == at, hidden].to_numpy()) for at in ("head", "backbone")]
        means, color = [i.mean for i in by_place], method_color(method)
        axis.plot(means, [place, place], color=color, linewidth=2)
        axis.plot(means[0], place, "o", color=color, markerfacecolor="white", markersize=7)
        axis.plot(means[1], place, "o", color=color, markersize=7)
        drawn += by_place
    axis.set(title=f"{METRIC_TITLES[hidden]},\nbehind a head", xlim=(0.48, 1.02))
    axis.set(ylim=(max(len(shown), 1) - 0.5, -0.5), yticks=[])
    axis.grid(axis="y", visible=False)
    axis.axvline(0.5, color="0.6", linewidth=0.8, linestyle=":")
    return drawn
