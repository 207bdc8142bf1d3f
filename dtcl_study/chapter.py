"""What every chapter needs: parameters that are checked, figures that are drawn; sentences and `Table`, which nbval compares."""

from __future__ import annotations

import ast
import html
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

import pandas as pd

from dtcl_core.checks import closest

Texts = Mapping[tuple[int, str], str]  # by line and column's name
INJECTED = "# Parameters"  # papermill writes its cell with this first line


def assigned_names(source: str) -> set[str]:
    """Names that a cell assigns at its top level."""
    names = set()
    for node in ast.parse(source).body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def start(cells: Sequence[str]) -> None:
    """Begin a chapter: check its parameters, set the style, draw figures in place as SVG whatever MPLBACKEND says.

    Args:
        cells: the sources executed so far, IPython's ``In``; the cell that papermill injects follows the chapter's parameters.

    Raises:
        ValueError: for an injected parameter that the chapter does not have (papermill itself only logs a line).
    """
    for before, source in pairwise(cells):
        if source.lstrip().startswith(INJECTED):
            known = assigned_names(before)
            if unknown := assigned_names(source) - known:
                name, taken = min(unknown), ", ".join(sorted(known))
                raise ValueError(f"unknown parameter {name!r}{closest(name, known)}: this chapter takes {taken}.")
    from . import style  # here, because the command line imports this module through tables and draws nothing

    style.use_style()


class Sentence(str):
    """Markdown on a page, and beside it the same as plain text, which nbval compares."""

    __repr__ = _repr_markdown_ = str.__str__


def say(text: str) -> None:
    """Display a sentence, in Markdown; nothing if it is empty."""
    from IPython.display import display  # not needed to train

    if text:
        display(Sentence(text))


class Table:
    """A table of texts: HTML on a page, and beside it the plain, aligned text that nbval compares.

    A cell of the first column without a text belongs to the one above.

    Args:
        frame: texts and numbers; its index is not shown. Floats have three decimals, integers none.
        caption: a line above it.
        marked: for some places (line, column's name), the HTML tag that marks them: "b" or "u".
        small: for some places, what follows in small letters.
    """

    def __init__(self, frame: pd.DataFrame, caption: str = "", marked: Texts | None = None, small: Texts | None = None):
        self.frame, self.caption, self.marked, self.small = frame.map(as_text), caption, dict(marked or {}), dict(small or {})

    def __repr__(self) -> str:
        plain = self.frame.copy()
        for (line, name), text in self.small.items():
            plain.iat[line, plain.columns.get_loc(name)] += f" ({text})" if text else ""
        table = plain.to_string(index=False) if len(plain) else "Not yet run."
        return f"{self.caption}\n{table}" if self.caption else table

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self.html()}

    def html(self) -> str:
        """The table as HTML, in a box that scrolls by itself; `_static/narrow.css` styles it."""
        if self.frame.empty:
            return f"<p>{html.escape(self.caption.rstrip('.') + ': not' if self.caption else 'Not')} yet run.</p>"
        lines = []
        for line in range(len(self.frame)):
            cells = "".join(self._cell(line, place, str(name)) for place, name in enumerate(self.frame))
            lines.append(f"<tr>{cells}</tr>")
        caption = f"<caption>{html.escape(self.caption)}</caption>" if self.caption else ""
        heads = self._head().replace(" %", "&nbsp;%").replace("-", "&#8209;")  # no line breaks there
        body = f"<thead>{heads}</thead><tbody>{''.join(lines)}</tbody>"
        return f'<div class="dtcl-table"><table>{caption}{body}</table></div>'

    def _head(self) -> str:
        """Names of columns; neighbours that begin alike ("Test-OOD, 1 %" and "Test-OOD, 10 %") share a cell above theirs."""
        names = [html.escape(str(name)) for name in self.frame]
        groups = [(first, list(alike)) for first, alike in groupby(names, lambda name: name.rpartition(", ")[0] or name)]
        rows = 1 + any(len(alike) > 1 for _, alike in groups)
        upper = [f"<th colspan={len(g)}>{first}</th>" if len(g) > 1 else f"<th rowspan={rows}>{g[0]}</th>" for first, g in groups]
        lower = [f"<th>{name.removeprefix(first + ', ')}</th>" for first, g in groups for name in g if len(g) > 1]
        return "".join(f"<tr>{''.join(row)}</tr>" for row in (upper, lower)[:rows])

    def _cell(self, line: int, place: int, name: str) -> str:
        text = html.escape(self.frame.iat[line, place])
        if place == 0 and not text and line:
            return ""  # the cell above reaches here
        to_next = [i for i, other in enumerate(self.frame.iloc[line + 1 :, 0], 1) if other] or [len(self.frame) - line]
        span = f" rowspan={to_next[0]}" if place == 0 and to_next[0] > 1 else ""
        if tag := self.marked.get((line, name)):
            text = f"<{tag}>{text}</{tag}>"
        if small := self.small.get((line, name)):
            text += f" <small>{html.escape(small)}</small>"
        return f"<td{span}>{text}</td>"


def as_text(value: Any) -> str:
    """A cell as text: floats with three decimals, integers with none, – for what is missing."""
    if value is None or (isinstance(value, float) and value != value):
        return "–"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def show(table: pd.DataFrame | Table, caption: str = "") -> None:
    """Display a table; "Not yet run." where it has no lines. `caption` is for a frame; a `Table` has its own."""
    from IPython.display import display  # not needed to train

    display(table if isinstance(table, Table) else Table(table, caption))
