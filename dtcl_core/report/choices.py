"""The plot of choices that the paper leaves open: what is measured under each, a line of words above its dots."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from .style import METRIC_TITLES, WIDTH, mark_cut, n_said, wrapped

SHIFTS = (0.0, 0.17, 0.34)  # of a group's accuracies, below the words
WORDS = 0.31  # how far the words stand above the first of them


def open_choices(effects: pd.DataFrame, titles: dict[str, str], epochs: int, dashed: str = "reported") -> Figure:
    """What each way of settling the open choices measures, beside what is reported: a panel a group.

    Args:
        effects: columns variation, group, metric, mean, low, high, n, and the one that `dashed` names.
        titles: of the groups to show.
        epochs: of the runs that were measured.
        dashed: the column that dashed lines show: "reported" by the paper, or what the "start" measures.
    """
    order = list(dict.fromkeys(effects.variation))
    effects = effects[effects.group.isin(list(titles))]
    figure, axes = plt.subplots(
        1, len(titles), figsize=(WIDTH, 1.5 + 0.4 * max(len(order), 1)), sharey=True, layout="constrained", squeeze=False
    )  # fmt: skip
    colors = dict(zip(METRIC_TITLES, ("#0072B2", "#D55E00", "#009E73", "#7F7F7F")))
    for axis, (group, name) in zip(axes[0], titles.items()):
        axis.set_xlim(0.38, 1.02)
        mine = effects[effects.group == group]
        for shift, metric in zip(SHIFTS, dict.fromkeys(mine.metric)):
            part = mine[mine.metric == metric]
            where = [order.index(v) + shift for v in part.variation]
            axis.hlines(where, part.low, part.high, color=colors[metric], linewidth=1.4, alpha=0.6)
            axis.plot(part["mean"], where, "o", color=colors[metric], markersize=4)
            axis.axvline(part[dashed].iloc[0], color=colors[metric], linestyle="--", linewidth=1)
            for low, high, spot in zip(part.low, part.high, where):
                mark_cut(axis, low, high, spot, colors[metric])
        axis.set_title(wrapped(name, 19))
        axis.set(xticks=(0.5, 0.75, 1.0), yticks=[])
        axis.grid(axis="y", visible=False)
        axis.patch.set_visible(False)
    first = axes[0, 0]
    first.set(zorder=3, ylim=(max(len(order), 1) - 0.5, -0.4))  # its words lie over the other panels
    for place, variation in enumerate(order):
        words = first.text(
            0.02, place - WORDS, variation, transform=first.get_yaxis_transform(), va="center", fontsize=7.5
        )
        words.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.6})
        words.set_in_layout(False)
    keys = [
        plt.Line2D(
            [], [], marker="o", linestyle="--", color=color, label=METRIC_TITLES[metric].removesuffix(" accuracy")
        )
        for metric, color in colors.items()
        if metric in set(effects.metric)
    ]
    lines = {"reported": "reported, 400 epochs", "start": "the start"}[dashed]
    title = f"dots: measured, {epochs} epochs, {n_said(effects.n)} (arrow: the interval goes on); dashed lines: {lines}"
    figure.legend(handles=keys, loc="outside lower center", ncols=4, title=wrapped(title, 72))
    return figure
