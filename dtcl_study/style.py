"""How figures look: a colour and a mark for each method, the width of the text, and how a figure is written to a file.

Colours of `LOOKS` belong to methods and to nothing else. All that is no method is drawn in ink and grays, what is selected in
`SELECTED`, and kinds of pairs in `PAIRS`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from . import experiments
from .compare import seeds_said


class Look(NamedTuple):
    """A method's colour, and its marker, which tells it apart in gray, with the size at which markers look alike large."""

    color: str
    marker: str
    size: float = 6.0


# Found by search: those shown together are more than 23 apart in CIE L*a*b*, for colour-blind eyes too. The proposed have the two strongest.
LOOKS = {
    "standard": Look("#222222", "o"),
    "same_domain": Look("#2DBB72", "s"),
    "mmd": Look("#DA80E6", "^"),
    "dann": Look("#7A2F12", "v"),
    "dw_negatives": Look("#0050C8", "P", 7.5),
    "dw_pairs": Look("#F07800", "X", 7.0),
    "color_jitter": Look("#8A8A8A", "*", 9.5),
    "dw_outside": Look("#7D2679", "<"),
    "macl": Look("#4BCEA6", ">"),
    "isogclr": Look("#BEA9F1", "p"),
}
OTHER = Look("#8C564B", "h")  # a method that a reader added
INK, GRAY, PALE = "#222222", "#777777", "#D5D5D5"
SELECTED = "#E0002B"  # what validation selects
PAIRS = {"same_domain": "#0E5E63", "cross_domain": "#7FC9CC"}  # negatives of the anchor's domain, and of another
WIDTH = 4.8  # inches of a figure: it is shown as wide as the text, on a telephone on 366 pixels
SMALL = 7.0  # points of the smallest letters: 7.4 pixels there, 15 on 750
METRIC_TITLES = {name: f"{short} accuracy" for name, short in experiments.SHORT.items()}
SPLIT_TITLES = {"train": "Train", **experiments.SHORT}
RC = {
    "figure.dpi": 120, "figure.facecolor": "white", "savefig.facecolor": "white", "svg.hashsalt": "dtcl",
    "axes.edgecolor": "0.6", "axes.linewidth": 0.8, "axes.spines.top": False, "axes.spines.right": False,
    "grid.color": "0.89", "grid.linewidth": 0.7, "legend.frameon": False, "xtick.major.pad": 2, "ytick.major.pad": 2,
    "font.size": 8, "axes.titlesize": 8.5, "axes.labelsize": 8, "xtick.labelsize": 7.5, "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5, "legend.title_fontsize": 7.5,
}  # fmt: skip


def use_style() -> None:
    """Set the book's style, and in a notebook draw figures in place, as SVG; `chapter.start` calls it."""
    sns.set_theme(context="notebook", style="whitegrid", rc=RC)
    if "IPython" in sys.modules and (shell := sys.modules["IPython"].get_ipython()) is not None:
        from matplotlib_inline.config import InlineBackend

        inline = InlineBackend.instance(parent=shell)
        kept = {"bbox_inches": None, "metadata": {"Date": None}}  # as wide as drawn; the same each time
        inline.set_trait("print_figure_kwargs", kept)
        inline.figure_formats = {"svg"}
        shell.run_line_magic("matplotlib", "inline")


def look(method: str) -> Look:
    """A method's colour and marker everywhere."""
    return LOOKS.get(method, OTHER)


def handle(label: str, color: str = INK, marker: str = "o", **options: Any) -> Line2D:
    """An entry of a legend: a mark, without a line unless `linestyle` says so."""
    return Line2D([], [], color=color, marker=marker, label=label, **{"linestyle": "", "markersize": 5.5, **options})


def method_handles(methods: Iterable[str]) -> list[Line2D]:
    """An entry of a legend for each method."""
    return [handle(experiments.title(m), look(m).color, look(m).marker, markersize=look(m).size) for m in methods]


def n_said(counts: Iterable[float], of: str = "") -> str:
    """How many seeds stand behind the means and intervals that a figure draws; what has none does not count.

    >>> n_said([5, 5]), n_said([5, 3, float("nan"), 0], " of a method"), n_said([], " of a method")
    ('n = 5 seeds', 'n = 3 to 5 seeds of a method', 'no seeds yet')
    """
    told = seeds_said(counts)
    return f"n = {told}{of}" if told else "no seeds yet"


def save(figure: Figure, name: str, folder: str | None) -> None:
    """Write a figure as PDF and SVG into a folder, byte for byte the same each time; None writes nothing."""
    if folder:
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        for kind in ("pdf", "svg"):
            figure.savefig(target / f"{name}.{kind}", metadata={"CreationDate" if kind == "pdf" else "Date": None})
