"""How the choices that the paper leaves open move its numbers, and the rule by which the default protocol was chosen.

Open choices may be fitted to three things only: the reported row of standard contrastive learning, that of its oracle with
colour jitter, and the collapse at tau_alpha = 1. The proposed methods' other numbers take no part, so that they can be
measured afterwards. A *variation* is the default protocol with some fields changed. Its *misfit* is the mean over those
three groups of the mean absolute difference between reported and measured accuracies (1 % of labels, sigma 50, means over
seeds; the temperature of a method is selected by validation among those tried).

The rule:

1. Short runs narrow: variations are ranked by misfit at `SHORT_EPOCHS` epochs.
2. Full runs (400 epochs) decide, among the best of the short ones and the starting point.
3. Variations whose misfit is within `ALIKE` of the smallest fit alike. Among them the one with the fewest changes to the
   starting point is taken, then the cheaper one.

When was it written? Commit dda97d0 holds it. The short runs of the first four variations (of the fourth in part), and the
beginning of the start's full runs, are older; all else is younger. How many variations go through to full runs was not said
beforehand, and the second finalist was named before all short runs were in; with all of them it is the best short one. The
default was frozen at `FROZEN`.

`open_choices` lists what is varied. Choices varied after the default was frozen are measured here too, and decide nothing.
How far one moves a number (`changes`) is measured at one temperature, against a network trained by the same code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from ..config import HYPERPARAMETERS, Protocol, Run
from ..encoder import IMAGE_SIZE
from ..experiments.open_choices import (
    AGAIN,
    ALL,
    CELLS,
    COLLAPSE,
    FULL_EPOCHS,
    LATER,
    LENGTHS,
    PROBES,
    SHORT_EPOCHS,
    START,
    UNCHANGED,
    UNCHANGED_IN_CELLS,
    UNSEEN,
    VARIATIONS,
)
from ..methods import ALL_METHODS
from . import reported, selection
from .intervals import accuracy_interval, paired_difference

FROZEN = "2026-11-21T10:21:03+00:00"  # commit 4569f72; rows made later decide nothing
ALIKE = 0.02
TAU = 0.1  # of plain methods, where choices are compared one by one
GROUPS = {
    "standard": ("test_ood", "test_id", "d_test_id"),
    "color_jitter": ("test_ood", "test_id", "d_test_id"),
    "collapse": ("validation", "test_ood", "test_id"),
}


def with_choices(frame: pd.DataFrame, runs: Iterable[Run]) -> pd.DataFrame:
    """Rows with what their runs' configuration says: variation, probe, how many fields change, and cell.

    `cell` is the name in `open_choices.CELLS`, empty for runs that the calibration looks at.
    """
    choices = {
        (v.protocol(START.epochs, probe), v.replicate): (
            v.name,
            probe,
            len(v.changes) + (probe != START.probe_features),
        )
        for v in ALL
        for probe in PROBES
    }
    sized = [(run, replace(run.protocol, epochs=START.epochs, split_sizes=START.split_sizes)) for run in runs]
    names = {run.key: (*choices[protocol, run.replicate], cell_of(run)) for run, protocol in sized}
    columns = ["variation", "probe", "changes", "cell"]
    labels = pd.DataFrame([names[key] for key in frame.key], columns=columns, index=frame.index)
    return pd.concat([frame, labels], axis=1)


def cell_of(run: Run) -> str:
    """The name in `open_choices.CELLS` of a run's cell; empty if it is in none of them."""
    for name, cell in CELLS.items():
        if all(getattr(run, field) == value for field, value in cell.items()):
            return name
    return ""


def cell_titles() -> dict[str, str]:
    """What to call each of `open_choices.CELLS`: the method's name and the cell's hyperparameters."""
    found = {}
    for name, cell in CELLS.items():
        values = [f"{cell[key]:g}" for key in HYPERPARAMETERS if key in cell]
        head = f", {cell['projector'].upper()} head" if "projector" in cell else ""
        found[name] = f"{ALL_METHODS[cell['method']].title} at {', '.join(values)}{head}"
    return found


class Portions(NamedTuple):
    """Rows by what is asked of them.

    Attributes:
        short, full: runs of the cells that the calibration looks at, of `SHORT_EPOCHS` and of `FULL_EPOCHS`.
        lengths: the start in those cells, of all `LENGTHS`.
        unseen: runs of `open_choices.CELLS`, which it does not look at.
    """

    short: pd.DataFrame
    full: pd.DataFrame
    lengths: pd.DataFrame
    unseen: pd.DataFrame


def portions(rows: pd.DataFrame) -> Portions:
    """Rows, as from `with_choices`, apart; the start's are in two portions."""
    unseen = rows.cell != ""
    full, other = rows.epochs == FULL_EPOCHS, rows.epochs.isin(set(LENGTHS) - {SHORT_EPOCHS, FULL_EPOCHS})
    start = (rows.variation == UNCHANGED.name) & (rows.probe == START.probe_features)
    return Portions(
        short=rows[~unseen & ~full & ~other],
        full=rows[~unseen & full],
        lengths=rows[~unseen & start],
        unseen=rows[unseen],
    )


def at_freeze(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows stored before the default was frozen; all of them if none is that old, as in a reader's own store."""
    then = rows[rows.created < FROZEN]
    return then if len(then) else rows


def misfit(frame: pd.DataFrame) -> pd.DataFrame:
    """How far a variation's rows are from the numbers that may be used.

    Args:
        frame: rows of one variation, as from `results.Store.load`.

    Returns:
        Columns: group, metric, reported, measured (mean over seeds), n (seeds); no line for a group without rows.
    """
    rows = frame[(frame.label_fraction == selection.SELECTION_FRACTION) & (frame.status == "ok")]
    lines = []
    for group, metrics in GROUPS.items():
        chosen, paper = rows_of_group(rows, group), targets(group)
        for metric in metrics:
            if len(chosen):
                lines.append((group, metric, paper[metric], chosen[metric].mean(), chosen.seed.nunique()))
    return pd.DataFrame(lines, columns=["group", "metric", "reported", "measured", "n"])


def rows_of_group(rows: pd.DataFrame, group: str, tau: float | None = None) -> pd.DataFrame:
    """Those of a variation's rows that are compared with a group of reported numbers.

    Args:
        rows: of one variation.
        group: a key of `GROUPS`.
        tau: the temperature of plain methods; None takes the one that validation selects.
    """
    if group == "collapse":
        return rows[(rows.method == COLLAPSE["method"]) & (rows.tau_alpha == COLLAPSE["tau_alpha"])]
    mine = rows[rows.method == group]
    return selection.rows_of(rows, selection.select(mine)) if tau is None else mine[mine.tau_alpha == tau]


def targets(group: str) -> pd.Series:
    """The reported numbers of a group, by metric."""
    paper = reported.collapse() if group == "collapse" else reported.main_comparison()
    paper = paper if group == "collapse" else paper[paper.method == group]
    return paper.groupby("metric").value.mean()


def terms(table: pd.DataFrame) -> pd.Series:
    """The mean absolute difference of each group of a `misfit`, NaN where it has none."""
    return (table.measured - table.reported).abs().groupby(table.group).mean().reindex(list(GROUPS))


def score(table: pd.DataFrame) -> float:
    """The misfit of a variation: the mean of its `terms`; NaN unless all are there."""
    return float(terms(table).mean(skipna=False))


def on_shared_seeds(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of those seeds for which every variation, probe and method shown was trained; all if there is none."""
    by = [part for _, part in rows.groupby(["variation", "probe", "method"]).seed]
    shared = set.intersection(*(set(seeds) for seeds in by)) if by else set()
    return rows[rows.seed.isin(shared)] if shared else rows


def ranking(rows: pd.DataFrame) -> pd.DataFrame:
    """Variations by misfit on the seeds they share, smallest first; those made after the freeze take no part.

    Args:
        rows: as from `with_choices`, of one number of epochs.

    Returns:
        Columns: variation, probe, changes, misfit, its term of each group, n (seeds), cost (see `cost`); variations with a
        misfit only.
    """
    rows = rows[rows.variation.isin([v.name for v in VARIATIONS])]
    lines = []
    for (variation, probe, changes), part in on_shared_seeds(rows).groupby(["variation", "probe", "changes"]):
        table = misfit(part)
        protocol = next(v for v in VARIATIONS if v.name == variation).protocol(1, probe)
        lines.append((variation, probe, changes, score(table), *terms(table), table.n.min(), cost(protocol)))
    table = pd.DataFrame(lines, columns=["variation", "probe", "changes", "misfit", *GROUPS, "n", "cost"])
    return table.dropna(subset="misfit").sort_values(["misfit", "changes"], ignore_index=True)


def decide(full: pd.DataFrame) -> pd.Series:
    """The line of a `ranking` of full runs that the rule takes.

    Raises:
        ValueError: if there is none.
    """
    if full.empty:
        raise ValueError("no variation has its full runs yet.")
    alike = full[full.misfit <= full.misfit.min() + ALIKE]
    return alike.sort_values(["changes", "cost", "misfit"], kind="stable").iloc[0]


def cost(protocol: Protocol) -> float:
    """Millions of multiplications of the convolutions for one image, forward: what a run costs, but for a factor."""
    side, before, total = IMAGE_SIZE, 3, 0
    for width in protocol.channels:
        if protocol.downsampling == "stride":
            side = -(-side // 2)
        total += side**2 * before * width * protocol.kernel_size**2
        if protocol.downsampling != "stride":
            side //= 2
        before = width
    return total / 1e6


def by_variation(rows: pd.DataFrame, probe: str = "raw", tau: float | None = None) -> pd.DataFrame:
    """What each variation measures, in the groups that it reaches and the metrics of the misfit.

    Args:
        rows: as from `with_choices`, of one number of epochs.
        probe: whose rows.
        tau: see `rows_of_group`.

    Returns:
        Columns: variation, group, tau, metric, reported, mean, low, high (95 % interval over seeds) and n.
    """
    lines = []
    for variation in ALL:
        part = rows[(rows.variation == variation.name) & (rows.probe == probe)]
        part = part[(part.label_fraction == selection.SELECTION_FRACTION) & (part.status == "ok")]
        for group in (group for group in GROUPS if group in variation.reaches):
            chosen = rows_of_group(part, group, tau)
            for metric in GROUPS[group] if len(chosen) else ():
                paper, found = targets(group)[metric], accuracy_interval(chosen[metric])
                lines.append((variation.name, group, chosen.tau_alpha.iloc[0], metric, paper, *found))
    columns = ["variation", "group", "tau", "metric", "reported", "mean", "low", "high", "n"]
    return pd.DataFrame(lines, columns=columns)


def changes(rows: pd.DataFrame, probe: str = "raw") -> pd.DataFrame:
    """How far each variation moves each number, at the temperature `TAU`, paired by seed.

    Choices varied after the freeze (`open_choices.LATER`) are compared with the start trained again by the same code, which is
    the first of them; the others, and that one itself, with the start.

    Args:
        rows: as from `with_choices`, of one number of epochs.
        probe: whose rows.

    Returns:
        Columns: variation, group, metric, base (what it is compared with measures on those seeds), moved, n (seeds).
    """
    rows = rows[(rows.probe == probe) & (rows.label_fraction == selection.SELECTION_FRACTION) & (rows.status == "ok")]
    lines = []
    for variation in (v for v in ALL if v is not UNCHANGED):
        other = AGAIN.name if variation in LATER and variation is not AGAIN else UNCHANGED.name
        mine, base = rows[rows.variation == variation.name], rows[rows.variation == other]
        for group in (group for group in GROUPS if group in variation.reaches and len(mine)):
            a, b = (rows_of_group(part, group, TAU).set_index("seed") for part in (mine, base))
            for metric in GROUPS[group]:
                d = paired_difference(a[metric], b[metric])
                if d.n:
                    base_mean = b[metric][b.index.isin(a.index)].mean()
                    lines.append((variation.name, group, metric, base_mean, d.mean, d.n))
    return pd.DataFrame(lines, columns=["variation", "group", "metric", "base", "moved", "n"])


def spread(rows: pd.DataFrame) -> pd.DataFrame:
    """The range over seeds of the start's short runs at `TAU`, by group or cell: columns group, metric, range, seeds.

    Args:
        rows: `short` or `unseen` of `portions`, of one probe.
    """
    rows = rows[(rows.label_fraction == selection.SELECTION_FRACTION) & (rows.status == "ok")]
    rows, lines = rows[rows.variation == UNCHANGED.name], []
    for group in (*GROUPS, *CELLS):
        mine = rows[rows.cell == group] if group in CELLS else rows_of_group(rows[rows.cell == ""], group, TAU)
        for metric in metrics_of(group) if mine.seed.nunique() > 1 else ():
            lines.append((group, metric, mine[metric].max() - mine[metric].min(), mine.seed.nunique()))
    return pd.DataFrame(lines, columns=["group", "metric", "range", "seeds"])


def metrics_of(group: str) -> tuple[str, ...]:
    """The metrics shown of a group or a cell."""
    return GROUPS["collapse"] if group == "collapsed" else GROUPS.get(group, GROUPS["standard"])


def unseen_effects(rows: pd.DataFrame) -> pd.DataFrame:
    """What each of `open_choices.UNSEEN` measures in its cells, and how far it moves that.

    Args:
        rows: `unseen` of `portions`.

    Returns:
        Columns: variation, group (the cell), metric, start, mean, low, high (95 % interval over seeds), n, and `moved`, the
        mean difference to the start over the seeds that both have, with `moved_n`. `start` is what the start measures on
        those seeds; in its own line, on those that all choices of the cell have.
    """
    rows = rows[(rows.label_fraction == selection.SELECTION_FRACTION) & (rows.status == "ok")]
    by = {key: part.set_index("seed") for key, part in rows.groupby(["variation", "cell"])}
    lines = []
    for variation, cell in (
        (v.name, cell) for v in (UNCHANGED_IN_CELLS, *UNSEEN) for cell in v.cells if (v.name, cell) in by
    ):
        mine, start, shared = by[variation, cell], by.get((UNCHANGED.name, cell)), set(by[variation, cell].index)
        if variation == UNCHANGED.name:
            shared = shared.intersection(*(part.index for (name, where), part in by.items() if where == cell))
        for metric in metrics_of(cell):
            base = mine[metric].iloc[:0] if start is None else start[metric]
            d, start_mean = paired_difference(mine[metric], base), base[base.index.isin(shared)].mean()
            lines.append((variation, cell, metric, start_mean, *accuracy_interval(mine[metric]), d.mean, d.n))
    columns = ["variation", "group", "metric", "start", "mean", "low", "high", "n", "moved", "moved_n"]
    return pd.DataFrame(lines, columns=columns)


def validated_epoch(rows: pd.DataFrame) -> pd.DataFrame:
    """The length of training that validation would have taken, among `open_choices.LENGTHS`, for each run that has them all.

    The learning rate follows the epoch alone, and so does whatever is random: in the same stack a shorter run is the beginning
    of a longer one. Stored ones come from stacks of their own, whose rounding differs, and are alike in distribution only.

    Args:
        rows: `lengths` of `portions`.

    Returns:
        Columns: method, tau_alpha, seed, epoch (with the highest validation accuracy, the earliest of equals), and for each
        metric what it measures at that epoch, with `_last` after the last one.
    """
    rows = rows[(rows.label_fraction == selection.SELECTION_FRACTION) & (rows.status == "ok")]
    metrics = ["validation", *GROUPS["standard"]]
    lines = []
    for (method, tau, seed), part in rows.groupby(["method", "tau_alpha", "seed"]):
        part = part.drop_duplicates("epochs").sort_values("epochs")
        if list(part.epochs) == list(LENGTHS):
            best, last = part.loc[part.validation.idxmax()], part.iloc[-1]
            lines.append((method, tau, seed, best.epochs, *best[metrics], *last[metrics]))
    columns = ["method", "tau_alpha", "seed", "epoch", *metrics, *(f"{metric}_last" for metric in metrics)]
    return pd.DataFrame(lines, columns=columns)
