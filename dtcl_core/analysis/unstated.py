"""What choices about the weight do that the paper does not state: each alone, in the cells that were selected (`core.UNSTATED`).

Nothing is selected anew: a choice is changed in the cell that validation took under the default, and what moves is paired by fresh
seed. The rule was committed before its rows: a choice *moves* a method if its difference on Test-ID excludes zero after Holm's
correction over all choices and both methods. Beside it stands the lead over the best baseline under that choice, with a 95 %
interval; the baseline is picked on all fresh seeds but the one it is scored on, and sees none of these choices. Other accuracies
are told, and decide nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pandas as pd

from ..config import Protocol, Run
from ..experiments.core import PROPOSED, UNSTATED
from .contrasts import BASELINES, best_elsewhere
from .intervals import mean_interval, p_value
from .selection import SELECTION_FRACTION
from .verdicts import holm

METRICS = ("test_id", "test_ood", "d_test_id")
DECIDING = "test_id"
AS_IT_IS = "as it is"
COLUMNS = (
    "choice", "method", "metric", "before", "after", "moved", "low", "high", "n", "moves", "lead", "lead_low", "lead_high", "lead_n",
)  # fmt: skip


def choice_of(protocol: Protocol, plain: Protocol) -> str | None:
    """Which choice a protocol makes beside the plain one; `AS_IT_IS` for none, None for another change."""
    choices = {AS_IT_IS: {}, **UNSTATED}
    return next((name for name, changes in choices.items() if replace(plain, **changes) == protocol), None)


def effects(frame: pd.DataFrame, runs: Iterable[Run]) -> pd.DataFrame:
    """What each choice moves, by proposed method and accuracy, and the lead that is left.

    Args:
        frame: rows of the experiment `questions`, as from `results.Store.load`.
        runs: its runs.

    Returns:
        `COLUMNS`: before and after are means at 1 % of the labels over the seeds that have both; moved with a 95 % interval over n
        of them; moves ("yes" or "no" by the rule; "–" where it has nothing to say); lead with a 95 % interval over lead_n seeds, of more
        accuracy than the best baseline's, for D-Test-ID of less. A line `AS_IT_IS` a method and accuracy comes first; choices without rows are left out.
    """
    runs = list(runs)
    plain = next((run.protocol for run in runs if run.method not in PROPOSED), Protocol())
    choices = {run.key: choice_of(run.protocol, plain) if run.method in PROPOSED else AS_IT_IS for run in runs}
    changed = [run for run in runs if choices[run.key] in UNSTATED]  # which tell the cells, and the seeds
    cells, seeds = {(run.method, run.tau_alpha, run.tau_beta) for run in changed}, {run.seed for run in changed}
    rows = frame[(frame.label_fraction == SELECTION_FRACTION) & (frame.status == "ok")]
    mine = [cell in cells for cell in zip(rows.method, rows.tau_alpha, rows.tau_beta)]
    first = min(seeds, default=0)  # baselines keep all seeds from there on: the best of them is picked on more
    others = ~rows.method.isin(PROPOSED) & (rows.seed >= first)
    rows = rows[(pd.Series(mine, rows.index, dtype=bool) & rows.seed.isin(seeds)) | others]
    rows = rows.assign(choice=rows.key.map(choices)).dropna(subset="choice")
    by = {cell: part.drop_duplicates("seed").set_index("seed") for cell, part in rows.groupby(["method", "choice"])}
    lines: list[list[Any]] = []
    tested: list[tuple[int, float]] = []
    for choice in (AS_IT_IS, *UNSTATED):
        for method in (name for name in PROPOSED if (name, choice) in by and (name, AS_IT_IS) in by):
            for metric in METRICS:
                after, before = by[method, choice][metric], by[method, AS_IT_IS][metric]
                moved = (after - before).dropna()
                if choice != AS_IT_IS and metric == DECIDING and len(moved) > 1:
                    tested.append((len(lines), p_value(moved.tolist())))
                means = before[moved.index].mean(), after[moved.index].mean()
                interval = mean_interval(moved.tolist() if choice != AS_IT_IS else [])
                lines.append([choice, method, metric, *means, *interval, "–", *_lead(after, by, metric)])
    for (place, _), rejected in zip(tested, holm([p for _, p in tested])):
        lines[place][COLUMNS.index("moves")] = "yes" if rejected else "no"
    return pd.DataFrame(lines, columns=list(COLUMNS))


def _lead(mine: pd.Series, by: dict[tuple[str, str], pd.DataFrame], metric: str) -> tuple[float, float, float, int]:
    """A lead over the best baseline, with its interval and seeds; NaN where one of them has no rows."""
    sign = -1 if metric == "d_test_id" else 1
    if any((name, AS_IT_IS) not in by for name in BASELINES):
        return math.nan, math.nan, math.nan, 0
    table = pd.concat([by[name, AS_IT_IS][metric].rename(name) for name in BASELINES], axis=1, join="inner").dropna()
    return mean_interval((sign * (mine - best_elsewhere(table, sign))).dropna().tolist())
