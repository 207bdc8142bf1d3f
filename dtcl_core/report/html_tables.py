"""Tables for a page: HTML by pandas' Styler, with the plain text beside it that the tests compare.

A column that has `low` and `high` after it is shown as `0.93 ± 0.02`, the best line of a table in bold, and what was measured
beside what was reported with a bar for the difference. Colours are translucent, so that they suit light and dark pages alike,
and a wide table scrolls within its own box.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from ..analysis.contrasts import SHORT
from ..checks import checked_choice
from ..methods import ALL_METHODS

ABOVE, BELOW = (
    "rgba(213, 94, 0, 0.40)",
    "rgba(0, 114, 178, 0.40)",
)  # orange and blue, told apart by colour-blind readers
DIFFERENCES = ("difference", "gap")  # columns with a bar around zero
COMPARED = (
    "reported",
    "measured",
    "first",
    "fresh",
    "reported selected",
    "mean of cells",
)  # columns whose best line is marked
HEADERS = {"lambda_": "lambda", "our_seeds": "seeds behind the deviations"}  # of columns that code names otherwise
LEVELS = ("labels", "sigma")  # methods are compared at equal values of these
VARIED = ("tau_alpha", "discriminator")  # columns of tables that compare settings of one method
MOST_DIGITS = 5
BOX = '<div class="dtcl-table" style="overflow-x: auto; max-width: 100%">\n'


def renamed(table: pd.DataFrame) -> pd.DataFrame:
    """The table with methods and accuracies under one name each, in its cells and its headers."""
    titles = {**{name: method.title for name, method in ALL_METHODS.items()}, **SHORT, **HEADERS}
    named = table.rename(columns=titles)
    named.columns.name = None
    for place, kind in enumerate(table.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            named.isetitem(place, [titles.get(v, v) if isinstance(v, str) else v for v in table.iloc[:, place]])
    return named


def decimals(reach: float) -> int:
    """How many decimals an uncertainty leaves: two digits of one that begins with 1, one of another, three at most.

    >>> [decimals(v) for v in (0.193, 0.023, 0.0135, 12.0)]
    [2, 2, 3, 0]
    """
    if not (math.isfinite(reach) and reach > 0):
        return 3
    leading = math.floor(math.log10(reach))
    return min(max((1 if reach / 10**leading < 2 else 0) - leading, 0), 3)


def interval_text(mean: float, low: float, high: float, signed: bool = False) -> str:
    """A mean with its interval, in as many digits as it has; in more where only they tell that it excludes zero.

    >>> interval_text(0.927, 0.904, 0.950), interval_text(-0.05, -0.20, 0.02), interval_text(0.9, math.nan, math.nan)
    ('0.93 ± 0.02', '-0.05 [-0.20, 0.02]', '0.900')
    >>> interval_text(0.0243, 0.0003, 0.0483), interval_text(0.05, 0.001, 0.2), interval_text(0.0237, -0.0003, 0.0477)
    ('0.0243 ± 0.0240', '0.050 [0.001, 0.200]', '0.02 ± 0.02')
    """
    sign = "+" if signed else "-"
    if math.isnan(mean):
        return "–"
    if math.isnan(low) or math.isnan(high):
        return f"{mean:{sign}z.3f}"
    reach, clear = (high - low) / 2, low * high > 0
    even = abs(mean - low - reach) <= 0.02 * reach + 1e-9
    digits = max(decimals(reach), 2 if abs(mean) < 1 else 0)
    while digits < MOST_DIGITS:
        above = round(abs(mean), digits) > round(reach, digits) if even else round(min(abs(low), abs(high)), digits) > 0
        if above or not clear:
            break
        digits += 1
    if even:
        return f"{mean:{sign}z.{digits}f} ± {reach:.{digits}f}"
    return f"{mean:{sign}z.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def number_texts(values: Sequence[float]) -> list[str]:
    """Numbers of one column in as many decimals as its largest leaves for three digits."""
    finite = [abs(v) for v in values if math.isfinite(v)]
    if all(float(v).is_integer() for v in finite):
        return ["–" if math.isnan(v) else f"{v:.0f}" for v in values]
    digits = min(max(2 - math.floor(math.log10(max(finite))), 0), 3)
    return ["–" if math.isnan(v) else f"{v:.{digits}f}" for v in values]


class Shown:
    """A table as notebooks display it: plain text for a terminal and for tests, HTML for a page.

    Args:
        table: any data frame; its index is not shown.
        title: a line above it.
        best: the accuracy that columns `COMPARED` are of, whose best line is marked, at each value of `LEVELS` and oracles aside:
            the highest; of telling domains apart (`d_test_id`) the one nearest to one half; of each method where the table
            compares its settings (`VARIED`), and then not of what is reported, of which the table may be a part. None marks none.

    Raises:
        ValueError: for an unknown accuracy.
    """

    def __init__(self, table: pd.DataFrame, title: str | None = None, best: str | None = None):
        if best is not None:
            checked_choice("best", best, tuple(SHORT))
        self.table, self.title, self.best = renamed(table), title, best

    def __repr__(self) -> str:
        text = self.table.to_string(index=False, na_rep="-", float_format=lambda v: f"{v:.3f}")
        return f"{self.title}\n{text}" if self.title else text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self.html()}

    def html(self) -> str:
        """The table as HTML, in a box that scrolls by itself; styles are its own, nothing is fetched."""
        columns, texts, numbers, bars = self._columns()
        frame = pd.DataFrame(dict(enumerate(numbers)))
        style = frame.style.hide(axis="index").set_uuid(f"t{abs(hash_of(repr(self))):x}")
        shown = {(row, place): text for place, column in enumerate(texts) for row, text in enumerate(column)}
        for (row, place), text in shown.items():
            style.format(lambda _, text=text: text, subset=pd.IndexSlice[row, place], escape=None)
        style.format_index(lambda place: escaped(columns[place]), axis=1)
        for place in bars:
            widest = frame[place].abs().max()
            style.bar(
                subset=[place],
                align=0,
                vmin=-widest,
                vmax=widest,
                color=[BELOW, ABOVE],
                height=70,
                props="width: 9em; padding-left: 3.5em;",
            )
        for row, place in self._best(frame, columns):
            style.set_properties(subset=pd.IndexSlice[[row], [place]], **{"font-weight": "bold"})
        words = [place for place, column in enumerate(numbers) if not pd.api.types.is_numeric_dtype(pd.Series(column))]
        style.set_properties(**{"text-align": "right", "white-space": "nowrap"})
        style.set_properties(subset=words, **{"text-align": "left", "white-space": "normal", "min-width": "3em"})
        style.set_table_attributes('class="dataframe"')
        if self.title:
            style.set_caption(escaped(self.title))
        return f"{BOX}{style.to_html()}</div>"

    def _columns(self) -> tuple[list[str], list[list[str]], list[list[Any]], list[int]]:
        """Headers, texts and values of the columns of the page, and the places of those with a bar."""
        names = list(self.table.columns)
        headers: list[str] = []
        texts: list[list[str]] = []
        values: list[list[Any]] = []
        bars: list[int] = []

        def add(name: str, shown: list[str], of: list[Any], bar: bool = False) -> None:
            if bar and any(math.isfinite(v) and v for v in of):
                bars.append(len(headers))
            headers.append(name)
            texts.append(shown)
            values.append(of)

        place = 0
        while place < len(names):
            name, column = str(names[place]), self.table.iloc[:, place]
            if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
                add(
                    name,
                    ["–" if text_of(v) == "-" else escaped(text_of(v)) for v in column],
                    [text_of(v) for v in column],
                )
                place += 1
                continue
            means = column.astype(float).tolist()
            signed = name in DIFFERENCES
            if names[place + 1 : place + 3] == ["low", "high"]:
                low, high = (self.table.iloc[:, place + k].astype(float).tolist() for k in (1, 2))
                add(name, [interval_text(*of, signed=signed) for of in zip(means, low, high)], means, signed)
                place += 3
            else:
                add(
                    name,
                    ["–" if math.isnan(v) else f"{v:+z.3f}" for v in means] if signed else number_texts(means),
                    means,
                    signed,
                )
                place += 1
            if name == "measured" and "reported" in names and "reported" in headers:
                said = self.table["reported"].astype(float)
                apart = (self.table["measured"].astype(float) - said).tolist()
                if any(map(math.isfinite, apart)):
                    add("less reported", ["–" if math.isnan(v) else f"{v:+z.2f}" for v in apart], apart, bar=True)
        return headers, texts, values, bars

    def _best(self, frame: pd.DataFrame, headers: Sequence[str]) -> list[tuple[int, int]]:
        """Places of the cells to mark: the best of each column of results, at each level."""
        oracles = {method.title for method in ALL_METHODS.values() if method.oracle}
        competes = ~self.table["method"].isin(oracles) if "method" in self.table else pd.Series(True, self.table.index)
        within = ("method",) if any(name in self.table for name in VARIED) else ()
        levels = [self.table[name].astype(str).to_numpy() for name in (*LEVELS, *within) if name in self.table]
        marked = []
        for place, name in enumerate(headers):
            if self.best and name in COMPARED and not (within and name == "reported"):
                good = -(frame[place] - 0.5).abs() if self.best == "d_test_id" else frame[place]
                good = good[competes.to_numpy()].dropna()
                parts = good.groupby([level[good.index] for level in levels]) if levels and len(good) else [("", good)]
                marked += [(int(part.idxmax()), place) for _, part in parts if len(part) > 1]
        return marked


def hash_of(text: str) -> int:
    """A number that follows from a text alone, so that a page is the same at every build."""
    return int.from_bytes(text.encode()[:4096], "big") % (2**31 - 1)


def text_of(value: Any) -> str:
    """A cell that is no number, as text."""
    return "-" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)


def escaped(text: str) -> str:
    """Text for HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
