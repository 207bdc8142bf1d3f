"""Retrain stored rows and compare them with what is stored.

On the same kind of machine, in the same stack, with the same code, versions and threads, a row's metrics must be identical, bit
for bit. Elsewhere rounding differs, and training amplifies it; rows are then compared in distribution: for each metric, the 95 %
interval of the mean difference must lie within `TOLERANCE`. Runs of a seed share weights and images: the seed is the replicate.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import chain, islice
from typing import Any

import pandas as pd
import torch

from dtcl_core import evaluate, pretrain
from dtcl_core.config import METRICS, Run
from dtcl_core.engine.device import resolve_device, resolve_precision
from dtcl_core.engine.provenance import ORIGIN, machine
from dtcl_core.launch.local import make_rows
from dtcl_core.launch.progress import Progress, numbered, trainings
from dtcl_core.results import FRACTIONS, Store

from . import compare

TOLERANCE, ENOUGH = 0.02, 3  # of a mean difference in accuracy; seeds for a comparison in distribution
PASSED, UNDECIDED, FAILED = "passed", "undecided", "FAILED"
Row = dict[str, Any]


def audit(
    store: Store, count: int = 1, device: str = "auto", *, seed: int | None = None, exact: bool = False, **options: Any
) -> pd.DataFrame:
    """Retrain randomly picked rows, with the stacks they were trained in, and compare, as `retrained` does with `options`.

    `seed` is that of the pick; None: another one each time. `exact` picks only rows that must be identical: of this code, such a
    machine, as many threads, whole stacks. ValueError if the store has no such row.
    """
    where, rows = resolve_device(device), [row for row in store.rows().values() if row["status"] == "ok"]
    if not rows:
        raise ValueError(f"{store.rows_path} has no finished row to audit.")
    order = random.Random(seed).sample(sorted(rows, key=lambda row: row["key"]), len(rows))
    fitting = (row for row in order if not exact or (made_here(row, where) and stack_of(row, store)))
    stacks: dict[tuple[str, ...], list[Row]] = {}  # by the keys of its rows, since several rows of one stack may be picked
    for row in islice(fitting, count):
        stack = stack_of(row, store) or [row]
        stacks[tuple(member["key"] for member in stack)] = stack
    if not stacks:
        raise ValueError(f"{store.rows_path} has no whole stack made by this code, on such a machine and as many threads.")
    return retrained([*stacks.values()], where, **options)


def retrained(
    stacks: Sequence[Sequence[Row]], device: torch.device, *, should_stop: Callable[[], bool] = lambda: False,
    on_compared: Callable[[Row], object] = lambda line: None, quiet: bool = False,
) -> pd.DataFrame:  # fmt: skip
    """Retrain stacks of rows, and compare; `on_compared` is given each line of the result as soon as it is there.

    Returns:
        One row per stored row: key, run, seed, expected ("identical", or what differs in its origin), identical, and for each
        `METRICS` the difference, retrained less stored, averaged over label fractions.

    Raises:
        Interrupted: when `should_stop`, asked before every training step, turned true.
    """
    lines: list[Row] = []
    asked = [[Run.from_dict(row["run"]) for row in rows] for rows in stacks]
    with closing(Progress(asked, quiet)) as progress:
        if not quiet:
            what = f"{numbered(progress.runs, 'row')} in {numbered(len(stacks), 'stack')}"
            print(f"Training {what} on {device} again: {progress.total} run-epochs.", flush=True)
        for rows, runs in zip(stacks, asked):
            before = rows[0]["provenance"]
            precision = resolve_precision(before["precision"] if before["device"] == device.type else "auto")
            stack = pretrain.train(trainings(runs), device, precision=precision, should_stop=should_stop, on_epoch=progress.epoch)
            for row, again in zip(rows, make_rows(stack, evaluate.measure(stack, runs), runs)):
                lines.append(compare_rows(row, again))
                on_compared(lines[-1])
            progress.stack_done(runs)
    return pd.DataFrame(lines)


def made_here(row: Row, device: torch.device) -> bool:
    """Whether a row was made by this code on such a machine, its encoder by the same operators."""
    before = row["provenance"]
    if any(before.get(name) != value for name, value in machine(device).items()):
        return False
    trunk, _ = pretrain.choose_trunk(Run.from_dict(row["run"]).protocol, device, before["precision"])
    return before.get("trunk") == (None if trunk is None else trunk.library.description)


def stack_of(row: Row, store: Store) -> list[Row]:
    """The rows of the stack that a row was trained in, diverged ones too; empty unless all are there."""
    rows = store.shard(row["shard"])
    runs = trainings([Run.from_dict(other["run"]) for other in rows])
    return rows if len(runs) == row["provenance"]["stack"] and len({pretrain.shape_of(run) for run in runs}) == 1 else []


def compare_rows(stored: Row, again: Row) -> Row:
    """One line of an audit."""
    before, now, run = stored["provenance"], again["provenance"], Run.from_dict(stored["run"])
    differs = ", ".join(name.replace("_", " ") for name in ORIGIN if before.get(name) != now.get(name))
    line = {"key": stored["key"], "run": str(run), "seed": run.seed, "expected": f"other {differs}" if differs else "identical"}
    line["identical"] = stored["metrics"] == again["metrics"]
    for name in METRICS:
        pairs = [(again["metrics"][f][name], stored["metrics"][f][name]) for f in FRACTIONS]
        line[name] = float("nan") if None in chain(*pairs) else sum(a - b for a, b in pairs) / len(pairs)
    return line


def verdict(found: pd.DataFrame) -> tuple[str, list[str]]:
    """What an audit comes to (`PASSED`, `UNDECIDED` or `FAILED`), and a sentence for each thing it found.

    It fails if a row that should be identical is not, if one diverges, or if an interval of a mean difference, corrected for the
    number of metrics, lies wholly beyond `TOLERANCE`. Too few seeds, or an interval that crosses `TOLERANCE`, leave it undecided.
    """
    must, may = found[found.expected == "identical"], found[found.expected != "identical"]
    said = [(PASSED, f"{found.identical.sum()} of {numbered(len(found), 'row')} came out identical, bit for bit.")]
    said += [(FAILED, f"{r.key} should have been identical and was not: {r.run}.") for r in must[~must.identical].itertuples()]
    if lost := ", ".join(found.key[found[list(METRICS)].isna().any(axis=1) & ~found.identical]):
        said.append((FAILED, f"diverged in one of the two trainings: {lost}."))
    seeds = may.dropna(subset=list(METRICS)).groupby("seed")[list(METRICS)].mean()
    if len(seeds) < ENOUGH and not may.identical.all():
        few = f"of fewer than {ENOUGH} seeds: too few to compare in distribution."
        said.append((UNDECIDED, f"{numbered(len(may), 'row')} from other machines, stacks or code, {few}"))
    for name in () if may.identical.all() or len(seeds) < ENOUGH else METRICS:
        (mean, low, high, n), corrected = compare.mean(seeds[name]), compare.mean(seeds[name], 1 - 0.05 / len(METRICS))
        outcome, means = UNDECIDED, f"that cannot be told from more than {TOLERANCE}"
        if -TOLERANCE <= low and high <= TOLERANCE:
            outcome, means = PASSED, "they agree"
        elif corrected.low > TOLERANCE or corrected.high < -TOLERANCE:
            outcome, means = FAILED, "they do not agree"
        said.append((outcome, f"{name}: mean difference {mean:+.4f} [{low:+.4f}, {high:+.4f}] over {n} seeds: {means}."))
    outcomes = {outcome for outcome, _ in said}
    return next(o for o in (FAILED, UNDECIDED, PASSED) if o in outcomes), [sentence for _, sentence in said]
