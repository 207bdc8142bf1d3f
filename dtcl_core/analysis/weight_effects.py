"""What choices that only the domain weight sees do to the proposed methods; `experiments.weight_choices` lists the choices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from ..config import Run
from ..experiments.weight_choices import CHOICES, OFF_FLOOR, PAPER_CELLS, REFERENCES, choice_of
from . import reported, selection
from .intervals import accuracy_interval, paired_difference

METRICS = ("test_ood", "test_id", "d_test_id")


def by_choice(frame: pd.DataFrame, runs: Iterable[Run]) -> pd.DataFrame:
    """What the proposed methods measure under each of `CHOICES`, each with the cell that validation selects there.

    Args:
        frame: rows of the experiment `weight_choices`, as from `results.Store.load`.
        runs: its runs.

    Returns:
        Columns: variation, group (the method), cell, metric, reported, and mean, low, high, n (a 95 % interval over seeds);
        then the differences, paired by seed, to the default (`moved`) and to each of `REFERENCES` (by its name), each with
        `_low`, `_high` and `_n`. No line of a method and choice before both cells can be compared. `OFF_FLOOR` takes no part.
    """
    frame = frame[frame.tau_alpha != OFF_FLOOR["tau_alpha"]]
    names = {run.key: choice_of(run.protocol) for run in runs}
    both = selection.compared(frame)
    cells = both.groupby(["method", "protocol"]).tau_alpha.nunique()
    rows = selection.rows_of(frame, selection.select(frame))
    rows = rows[(rows.label_fraction == selection.SELECTION_FRACTION) & (rows.status == "ok")]
    ready = {pair for pair, count in cells.items() if count == (len(PAPER_CELLS) if pair[0] in PAPER_CELLS else 1)}
    rows = rows[pd.Series([pair in ready for pair in zip(rows.method, rows.protocol)], rows.index, dtype=bool)]
    rows = rows.assign(variation=[names[key] for key in rows.key])
    by = {group: part.set_index("seed") for group, part in rows.groupby(["method", "variation"])}
    paper = reported.main_comparison().set_index(["method", "metric"]).value
    lines = []
    for method, variation in ((m, v) for m in PAPER_CELLS for v in CHOICES if (m, v) in by):
        mine = by[method, variation]
        others = {"moved": (method, "default"), **{name: (name, "default") for name in REFERENCES}}
        for metric in METRICS:
            line = {"variation": variation, "group": method, "metric": metric, "reported": paper[method, metric]}
            line |= {"cell": f"{mine.tau_alpha.iloc[0]:g}/{mine.tau_beta.iloc[0]:g}"}
            line |= accuracy_interval(mine[metric])._asdict()
            for name, other in others.items():
                base = by[other][metric] if other in by else mine[metric].iloc[:0]
                d = paired_difference(mine[metric], base)
                line |= {name: d.mean, f"{name}_low": d.low, f"{name}_high": d.high, f"{name}_n": d.n}
            lines.append(line)
    parts = [f"{name}{end}" for name in ("moved", *REFERENCES) for end in ("", "_low", "_high", "_n")]
    columns = ["variation", "group", "cell", "metric", "reported", "mean", "low", "high", "n", *parts]
    return pd.DataFrame(lines, columns=columns)


def off_floor(
    frame: pd.DataFrame, runs: Iterable[Run], method: str, metrics: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cell off the floor beside the paper's two, for a method under the default choice, on the seeds that have all three.

    Args:
        frame: rows of the experiment `weight_choices`, as from `results.Store.load`.
        runs: its runs.
        method: a key of `PAPER_CELLS`.
        metrics: metric columns.

    Returns:
        Means by cell (columns: cell, the metrics, n), and what the cell off the floor has more than each of the others
        (columns: cell, the metrics as text: a difference paired by seed, and how far its 95 % interval reaches; n). Both empty
        where no seed has all three.
    """
    keys = {run.key for run in runs if run.method == method and choice_of(run.protocol) == "default"}
    rows = frame[frame.key.isin(keys) & (frame.label_fraction == selection.SELECTION_FRACTION) & (frame.status == "ok")]
    rows = rows[rows.groupby("seed").tau_alpha.transform("nunique") == 1 + len(PAPER_CELLS)]
    by = {cell: part.set_index("seed") for cell, part in rows.groupby(["tau_alpha", "tau_beta"])}
    off, means, more = tuple(OFF_FLOOR.values()), [], []
    for cell, part in by.items():
        name = "/".join(f"{value:g}" for value in cell)
        means.append((name, *part[list(metrics)].mean(), len(part)))
        if cell != off:
            found = [paired_difference(by[off][metric], part[metric]) for metric in metrics]
            texts = [f"{d.mean:.3f} ±{(d.high - d.low) / 2:.3f}" if d.n > 1 else f"{d.mean:.3f}" for d in found]
            more.append((name, *texts, len(part)))
    columns = ["cell", *metrics, "n"]
    return pd.DataFrame(means, columns=columns), pd.DataFrame(more, columns=columns)


def counted(effects: pd.DataFrame) -> pd.DataFrame:
    """Of how many choices the interval lies above zero, and of how many below, of those with two seeds or more.

    Args:
        effects: as from `by_choice`.

    Returns:
        Columns: metric, beside ("default", then each of `REFERENCES`), choices, above, below, by chance (how many would exclude
        zero where nothing has an effect).
    """
    lines = []
    for metric in METRICS:
        for name in ("moved", *REFERENCES):
            part = effects[(effects.metric == metric) & (effects[f"{name}_n"] > 1)]
            part = part[part.variation != "default"] if name == "moved" else part
            above, below = int((part[f"{name}_low"] > 0).sum()), int((part[f"{name}_high"] < 0).sum())
            beside = "default" if name == "moved" else name
            lines.append((metric, beside, len(part), above, below, 0.05 * len(part)))
    return pd.DataFrame(lines, columns=["metric", "beside", "choices", "above", "below", "by chance"])


def as_if(rows: pd.DataFrame, frame: pd.DataFrame, runs: Iterable[Run], choice: str) -> pd.DataFrame:
    """Rows in which the proposed methods are those made under one of `CHOICES`, the others as they are.

    Args:
        rows: rows under the default choice, of all methods.
        frame: rows of the experiment `weight_choices`, of as many epochs.
        runs: its runs.
        choice: a name in `CHOICES`; under "default" too, the proposed methods keep the paper's two cells only.

    Returns:
        Rows of the seeds that both proposed methods were run with in both cells under that choice, all labelled as of the
        protocol of `rows`, so that `contrasts` takes them together. Empty where there is no such seed.
    """
    keys = {run.key for run in runs if run.method in PAPER_CELLS and choice_of(run.protocol) == choice}
    made = frame[frame.key.isin(keys) & (frame.tau_alpha != OFF_FLOOR["tau_alpha"])]
    there = made.groupby("seed").key.nunique()
    seeds = there.index[there == len(PAPER_CELLS) ** 2]  # each method in its own cell and in the other's
    if rows.empty or not len(seeds):
        return rows.iloc[:0]
    both = pd.concat([rows[~rows.method.isin(PAPER_CELLS)], made.assign(protocol=rows.protocol.iloc[0])])
    return both[both.seed.isin(seeds)].reset_index(drop=True)
