"""What was found, in a sentence a chapter: written by a person for the rows of a day, its numbers filled in from rows.

A sentence that the rows no longer bear is not shown, and a test fails that names it: then it is time to write another. Before all
runs of a chapter are there it says how many are missing, and nothing else; but a finding about a part of them waits for that part alone.
Pages about no runs of their own (`PAGES`) have theirs from the files that they show.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ...analysis import selection
from ...config import Run
from ...experiments import REGISTRY
from .. import notebook
from .finding import NO_ROWS as NO_ROWS
from .finding import PRESET as PRESET
from .finding import Finding as Finding
from .finding import Numbers as Numbers
from .finding import Rows as Rows
from .finding import Sentence as Sentence
from .finding import obtained
from .sentences import ANSWER, FINDINGS, PAGES


def show(chapter: str, runs: Sequence[Run], measured: pd.DataFrame) -> None:
    """Display a chapter's finding, or how many of its runs are missing; or one of another name, which says nothing of these.

    A reader who asks for other runs than those that the sentence was written about is shown none.
    """
    from IPython.display import display  # not needed to train

    rows, finding = Rows(runs, measured), FINDINGS.get(chapter)
    if rows.missing and chapter in REGISTRY:
        print(rows.missing)
    if finding is None or (part := finding.part(rows)).missing:
        return
    if (finding.levels or finding.fresh) and (part := load(chapter)).missing:
        return
    asked, _ = obtained(chapter if chapter in REGISTRY else finding.chapter or "main_table", finding.preset)
    if {run.key for run in runs} == {run.key for run in asked}:
        try:
            display(finding.dated(part))
        except ValueError:
            print("What was found no longer holds for these rows; it is being written anew.")


def said(name: str) -> Sentence:
    """A finding's sentence, to be displayed by itself; with its date at the head of a page (`PAGES`).

    Raises:
        ValueError: if the rows do not bear it.
    """
    if name in PAGES:
        return PAGES[name].dated(NO_ROWS)
    return Sentence(FINDINGS[name].sentence(load(name)))


def answer() -> list[str]:
    """What the whole comes to, point by point (`ANSWER`); or, while some of the rows behind it are missing, how many."""
    found = {name: load(name) for name in ANSWER}
    beside = load("whole_grid")  # whose rematch they tell too
    if missing := next((rows.missing for rows in (*found.values(), beside) if rows.missing), ""):
        return [f"The main comparison is not complete ({missing})."]
    return [FINDINGS[name].sentence(rows) for name, rows in found.items()]


def load(name: str) -> Rows:
    """The rows that a finding is about: those of its chapter, or of the main table, or its part of them."""
    finding = FINDINGS.get(name)
    preset = PRESET if finding is None else finding.preset
    other = None if finding is None else finding.chapter
    every = finding is not None and finding.levels
    runs, measured = obtained(name if name in REGISTRY else other or "main_table", preset, every)
    rows = Rows(runs, measured, preset)
    if finding is None:
        return rows
    return finding.part(rows.with_fresh() if finding.fresh else rows)


def headline() -> pd.DataFrame:
    """What the first figure shows: each method's selected cell on fresh seeds, a proposed one's under each level of tau_min."""
    _, found = notebook.confirm_at_levels(*obtained("main_table", PRESET, every=True), PRESET)
    return found[found.label_fraction == selection.SELECTION_FRACTION]
