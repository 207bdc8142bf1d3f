"""Many intervals in one picture, one under the other, so that it can be read on a phone."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from ..analysis import verdicts
from ..analysis.contrasts import Contrast, plain
from ..methods import ALL_METHODS
from .card import BRIEF
from .html_tables import interval_text
from .style import SMALL, WIDTH

COLUMNS = ("group", "what", "series", "mean", "low", "high", "n", "decides")
COLORS = ("#D55E00", "#56B4E9", "#009E73", "#CC79A7")
CUT = 0.5  # intervals go on beyond the edges of the panel; an arrow says so
TITLE, LINE, STEP = 0.34, 0.15, 0.12  # inches: a group's name, a line of words, an interval
LETTERS = 62  # of words in a line


def lines_of(judged: Mapping[str, Mapping[int, Sequence[Contrast]]]) -> pd.DataFrame:
    """A line for each contrast of each claim and each name in `judged`, those with fewer than two seeds left out.

    Args:
        judged: by the name of the seeds ("grid", "fresh"), then by the claim's number.

    Returns:
        `COLUMNS`: group (the claim), what, series (the name), mean, low, high, n, and whether it decides a verdict.
    """
    lines = [
        (f"{number}. {BRIEF[number]}", c.said, series, *c.interval, not verdicts.is_apart(number, c))
        for series, found in judged.items()
        for number, contrasts in found.items()
        for c in contrasts
        if c.interval.n > 1
    ]
    return pd.DataFrame(lines, columns=list(COLUMNS))


def unit_of(judged: Mapping[str, Mapping[int, Sequence[Contrast]]]) -> str:
    """What the axis of `lines_of` shows: accuracy, but of the claims with contrasts that are none."""
    other = {
        number
        for found in judged.values()
        for number, contrasts in found.items()
        for c in contrasts
        if c.interval.n > 1 and (c.metric is None or "rank correlation" in c.what)
    }
    apart = f" (some of claims {', '.join(map(str, sorted(other)))}: as their words say)" if other else ""
    return f"difference in accuracy{apart};\nright of zero: as the claim says"


def specification_lines(effects: pd.DataFrame, metric: str) -> pd.DataFrame:
    """A line for each specification, proposed method and comparison, by method, those with the largest effect first.

    Args:
        effects: as from `specifications.effects`.
        metric: which accuracy.
    """
    part = effects[effects.metric == metric].assign(decides=True)
    part = part.assign(
        group=[ALL_METHODS[m].title for m in part.method], series=[f"less {plain(a)}" for a in part.against]
    )
    part["largest"] = part.groupby(["group", "specification"])["mean"].transform("max")
    part = part.sort_values(["group", "largest", "specification", "series"], ascending=[True, False, True, False])
    return part.rename(columns={"specification": "what"})[list(COLUMNS)].reset_index(drop=True)


def draw(lines: pd.DataFrame, xlabel: str, cut: float = CUT, hollow: str = "decides nothing") -> Figure:
    """Draw the intervals of `lines`, those of one quantity together below its name.

    Args:
        lines: `COLUMNS`; groups and what is in them are drawn in the order in which they come first.
        xlabel: what the axis shows.
        cut: how far it reaches to either side of zero; an interval that goes on ends in an arrow.
        hollow: what the key says of lines that do not decide.
    """
    colors = dict(zip(dict.fromkeys(lines.series), COLORS))
    figure, axis = plt.subplots()
    place = 0.0
    axis.text(1.02, 0.12, "n", transform=axis.get_yaxis_transform(), fontsize=SMALL, va="center", color="0.25")
    for group, of_group in lines.groupby("group", sort=False):
        place += TITLE
        axis.text(-cut, place, str(group), fontsize=8.5, fontweight="bold", va="center")
        place += 0.06
        for what, part in of_group.groupby("what", sort=False):
            words = textwrap.wrap(str(what), LETTERS)
            place += 0.08 + LINE * len(words)
            axis.text(-cut, place, "\n".join(words), fontsize=SMALL, va="bottom", color="0.25", linespacing=1.2)
            for line in part.itertuples():
                place += STEP
                _interval(axis, line, place, colors[line.series], cut)
                counted = {"transform": axis.get_yaxis_transform(), "color": colors[line.series], "va": "center"}
                axis.text(1.02, place, f"{line.n:g}", fontsize=SMALL, **counted)
    axis.axvline(0, color="0.4", linewidth=0.8)
    axis.set(ylim=(place + 0.2, 0), xlim=(-cut, cut), yticks=[])
    axis.set_xlabel(xlabel)
    axis.xaxis.set_label_position("top")
    axis.tick_params(labeltop=True)
    axis.grid(axis="y", visible=False)
    for side in ("left", "right"):
        axis.spines[side].set_visible(False)
    keys = [plt.Line2D([], [], marker="o", color=color, markersize=4, label=name) for name, color in colors.items()]
    if not lines.decides.all():
        look = {"marker": "o", "color": "0.4", "markerfacecolor": "white", "markersize": 4}
        keys.append(plt.Line2D([], [], label=hollow, **look))  # type: ignore[arg-type]
    figure.legend(handles=keys, loc="upper center", ncols=3, title="mean and 95 % interval over n seeds")
    height = place + 1.5
    figure.set_size_inches(WIDTH, height)
    figure.subplots_adjust(left=0.03, right=0.93, top=1 - 1.1 / height, bottom=0.3 / height)
    return figure


def _interval(axis: plt.Axes, line: Any, place: float, color: str, cut: float) -> None:
    """One interval; what lies beyond the panel ends in an arrow, with its value where the mean does too."""
    reached = [line.mean if math.isnan(value) else value for value in (line.low, line.high)]  # one seed has no interval
    low, high = (max(min(value, cut), -cut) for value in reached)
    axis.plot([low, high], [place, place], color=color, linewidth=1.3, alpha=0.8, solid_capstyle="butt")
    if abs(line.mean) <= cut:
        axis.plot(
            line.mean, place, "o", color=color, markersize=3.6, markerfacecolor=color if line.decides else "white"
        )
    for edge, marker, beyond in ((-cut, "<", reached[0] < -cut), (cut, ">", reached[1] > cut)):
        if beyond:
            axis.plot(edge, place, marker, color=color, markersize=4, clip_on=False)
    if abs(line.mean) > cut:
        value = interval_text(line.mean, line.low, line.high, signed=True)
        words = axis.text(math.copysign(0.95 * cut, line.mean), place, value, fontsize=SMALL, va="center", color=color)
        words.set_horizontalalignment("right" if line.mean > 0 else "left")
        words.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.3})
