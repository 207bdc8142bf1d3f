"""How the figures look: one style, one colour a method, readable in light and dark, and how a figure is written to a file."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from pathlib import Path

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..config import Protocol
from ..methods import ALL_METHODS

# Okabe and Ito's palette, which colour-blind readers can tell apart; the proposed methods get its two strongest hues.
METHOD_COLORS = {
    "standard": "#56B4E9",
    "same_domain": "#009E73",
    "mmd": "#CC79A7",
    "dann": "#A6761D",
    "dw_negatives": "#E69F00",
    "dw_pairs": "#D55E00",
    "color_jitter": "#7F7F7F",
    "dw_outside": "#0072B2",
    "macl": "#8C6BB1",
    "isogclr": "#66A61E",
}
OTHER_COLOR = "#222222"
WIDTH = (
    4.8  # inches of every figure: panels stand below each other rather than beside, so that a phone shrinks it little
)
SMALL = 7.0  # points of the smallest letters; 7 pixels where a phone shows the figure on 366 pixels (`tests/report/test_phone.py`)
METRIC_TITLES = {
    "test_ood": "Test-OOD accuracy",
    "test_id": "Test-ID accuracy",
    "d_test_id": "D-Test-ID accuracy",
    "validation": "Validation accuracy",
}
SPLIT_TITLES = {"train": "Train", "validation": "Validation", "test_id": "Test-ID", "test_ood": "Test-OOD"}


def method_color(method: str) -> str:
    """A method's colour everywhere; one that a reader added is dark."""
    return METHOD_COLORS.get(method, OTHER_COLOR)


def n_said(counts: Iterable[float]) -> str:
    """How many seeds stand behind the means and intervals that a figure draws; what has none does not count.

    >>> n_said([5, 5]), n_said([5, 3, math.nan, 0]), n_said([])
    ('n = 5 seeds', 'n = 3 to 5 seeds', 'no seeds yet')
    """
    there = sorted({int(n) for n in counts if math.isfinite(n) and n > 0})
    if not there:
        return "no seeds yet"
    if there == [1]:
        return "n = 1 seed"
    return f"n = {there[0]} seeds" if len(there) == 1 else f"n = {there[0]} to {there[-1]} seeds"


def wrapped(text: str, letters: int) -> str:
    """A label in lines of at most so many letters, broken between words."""
    return "\n".join(textwrap.wrap(text, letters))


def mark_cut(axis: Axes, low: float, high: float, place: float, color: object) -> None:
    """An arrow at each edge of the panel that an interval goes on beyond."""
    left, right = axis.get_xlim()
    for edge, marker, beyond in ((left, "<", low < left), (right, ">", high > right)):
        if beyond:
            axis.plot(edge, place, marker, color=color, markersize=5, clip_on=False)


def use_style() -> None:
    """Set the book's style; every chapter calls this once."""
    sns.set_theme(
        context="notebook",
        style="whitegrid",
        rc={
            "figure.dpi": 120,
            "figure.facecolor": "white",
            "savefig.facecolor": "white",
            "savefig.bbox": "tight",
            "axes.titlesize": 9,
            "axes.labelsize": 8.5,
            "xtick.labelsize": 7.5,
            "ytick.labelsize": 7.5,
            "xtick.major.pad": 2,
            "ytick.major.pad": 2,
            "legend.fontsize": 7.5,
            "legend.title_fontsize": 7.5,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "font.size": 9,
            "legend.frameon": False,
            "svg.hashsalt": "dtcl",
        },
    )


def method_style(method: str) -> dict[str, object]:
    """Colour, weight and label of a method's line; the oracle is dashed."""
    known = ALL_METHODS[method]
    heavy = 2.6 if "discriminator" in known.uses else 1.6
    return {
        "color": method_color(method),
        "label": known.title,
        "linewidth": heavy,
        "linestyle": "--" if known.oracle else "-",
    }


def discriminator_style(method: str, kind: str) -> dict[str, object]:
    """A method's line with a global (solid) or a batch-level (dashed) discriminator."""
    label = f"{ALL_METHODS[method].title}, {kind}"
    return {**method_style(method), "label": label, "linestyle": "-" if kind == "global" else "--"}


def level_style(method: str, level: float) -> dict[str, object]:
    """A method's line under a level of tau_min: under the first solid, under any other dashed."""
    label = f"{ALL_METHODS[method].title}, tau_min {level:g}"
    return {**method_style(method), "label": label, "linestyle": "-" if level == Protocol().tau_min else "--"}


HEAD_STYLES = {None: ("black", "no head"), "linear": ("#0072B2", "linear"), "mlp": ("#D55E00", "MLP")}


def head_style(projector: str | None, dim: float | None) -> dict[str, object]:
    """A projector head's line: its kind by colour, its width by the dashes."""
    color, label = HEAD_STYLES[projector]
    known = {4.0: (":", f"{label}, 4"), 8.0: ("--", f"{label}, 8"), 16.0: ("-", f"{label}, 16")}
    style, name = known.get(dim or 0.0, ("-", f"{label}, {dim:g}" if dim else label))
    return {"color": color, "label": name, "linestyle": style, "linewidth": 1.8}


def save(figure: Figure, name: str, folder: str | None) -> None:
    """Write a figure as PDF and SVG into a folder; None writes nothing."""
    if folder:
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        for kind in ("pdf", "svg"):
            figure.savefig(target / f"{name}.{kind}", metadata={"CreationDate" if kind == "pdf" else "Date": None})
