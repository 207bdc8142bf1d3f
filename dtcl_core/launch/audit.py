"""Retrain stored rows and compare: a number that cannot be made again is no number.

Rows are picked at random, and with each the whole stack it was trained in, since the same stack on the same kind of
machine, with the same code and versions, must give the same numbers bit for bit. Where any of those differs, rounding
does, training amplifies it, and a single row may come out otherwise; then rows must agree *in distribution*: for each metric
the 95 % interval of the mean difference must lie within `TOLERANCE`. Runs of a seed share weights and images, so the seed
is the replicate. Too few seeds, or an interval too wide, leave an audit undecided.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import stats

from .. import evaluate, pretrain
from ..config import METRICS, Run
from ..engine.device import resolve_device, resolve_precision
from ..engine.provenance import machine, origin
from ..results import FRACTIONS, Store
from .progress import Progress, numbered, trainings
from .rows import make_rows

TOLERANCE = 0.02  # of a mean difference in accuracy
ENOUGH = 3  # seeds, before a distribution is judged
PASSED, UNDECIDED, FAILED = "passed", "undecided", "FAILED"


def audit(
    store: Store,
    count: int = 1,
    device: str = "auto",
    *,
    seed: int | None = None,
    max_epochs: int | None = None,
    exact: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
    on_compared: Callable[[dict[str, Any]], object] = lambda line: None,
    quiet: bool = False,
) -> pd.DataFrame:
    """Retrain randomly picked rows, and those trained with them, and compare.

    Args:
        store: whose rows.
        count: how many rows are picked.
        device: where they are retrained.
        seed: for the same pick again; None picks anew.
        max_epochs: pick among shorter runs only.
        exact: pick only among rows that must come out identical: of this code, such a machine, as many threads, whole stacks.
        should_stop: asked before every training step.
        on_compared: given each line of what is returned as soon as there is one.
        quiet: no progress.

    Returns:
        A line a row compared: key, run, seed, expected ("identical", or what differs from the row's origin), identical
        (bool), and for each of `METRICS` the mean difference, retrained less stored, over label fractions.

    Raises:
        ValueError: if the store has no such row.
        Interrupted: when `should_stop` turned true.
    """
    rows = [row for row in store.rows().values() if row["status"] == "ok"]
    if max_epochs is not None:
        rows = [row for row in rows if row["run"]["protocol"]["epochs"] <= max_epochs]
    if not rows:
        raise ValueError(f"{store.rows_path} has no finished row to audit.")
    rows.sort(key=lambda row: row["key"])
    where = resolve_device(device)
    if exact:
        here = machine(where)
        rows = [row for row in rows if all(row["provenance"].get(name) == value for name, value in here.items())]
        rows = [row for row in rows if row["provenance"].get("trunk") == trunk_here(row, where)]
        rows = [row for row in rows if is_whole(trained_with(row, store))]
        if not rows:
            short = "" if max_epochs is None else f" of at most {max_epochs} epochs"
            made = "made by this code, on such a machine, with as many threads"
            raise ValueError(f"{store.rows_path} has no whole stack{short} {made}.")
    picked = random.Random(seed).sample(rows, min(count, len(rows)))
    stacks = {tuple(row["key"] for row in unit): unit for unit in (trained_with(row, store) for row in picked)}
    return retrained([*stacks.values()], where, should_stop=should_stop, on_compared=on_compared, quiet=quiet)


def retrained(
    stacks: Sequence[Sequence[dict[str, Any]]],
    device: torch.device,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    on_compared: Callable[[dict[str, Any]], object] = lambda line: None,
    quiet: bool = False,
) -> pd.DataFrame:
    """Train rows again, in these stacks, and compare; arguments, what is returned and raised as for `audit`."""
    progress = Progress([[Run.from_dict(row["run"]) for row in unit] for unit in stacks], quiet)
    lines: list[dict[str, Any]] = []
    if not quiet:
        what = f"{numbered(progress.runs, 'row')} in {numbered(len(stacks), 'stack')} on {device}"
        print(f"Training {what} again: {progress.total} run-epochs.", flush=True)
    try:
        for unit in stacks:
            runs = [Run.from_dict(row["run"]) for row in unit]
            before = unit[0]["provenance"]
            same_kind = before["device"] == device.type
            precision = resolve_precision(before["precision"] if same_kind else "auto", device)
            stack = pretrain.train(
                trainings(runs), device, precision=precision, should_stop=should_stop, on_epoch=progress.epoch
            )
            again = make_rows(stack, evaluate.evaluate(stack, runs), runs)
            for row, new in zip(unit, again):
                lines.append(compare(row, new))
                on_compared(lines[-1])
            progress.stack_done(runs)
    finally:
        progress.close()
    return pd.DataFrame(lines)


def trunk_here(row: dict[str, Any], device: torch.device) -> str | None:
    """What would compute a row's encoder on this machine, as its provenance would tell; None for PyTorch's operators."""
    trunk, _ = pretrain.choose_trunk(Run.from_dict(row["run"]).protocol, device, row["provenance"]["precision"])
    return None if trunk is None else trunk.library.description


def trained_with(row: dict[str, Any], store: Store) -> list[dict[str, Any]]:
    """The rows of the stack that a row was trained in, if they are all there; else the row alone."""
    together = [other for other in store.shard(row["shard"]) if other["status"] == "ok"]
    return together if is_whole(together) else [row]


def is_whole(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether rows are all of one stack."""
    runs = trainings([Run.from_dict(row["run"]) for row in rows])
    return len(runs) == rows[0]["provenance"]["stack"] and len({pretrain.shape_of(run) for run in runs}) == 1


def compare(stored: dict[str, Any], again: dict[str, Any]) -> dict[str, Any]:
    """One line of an audit."""
    before, now = origin(stored["provenance"]), origin(again["provenance"])
    differs = [name.replace("_", " ") for name in now if before.get(name) != now[name]]
    run = Run.from_dict(stored["run"])
    line = {
        "key": stored["key"],
        "run": str(run),
        "seed": run.seed,
        "expected": f"other {', '.join(differs)}" if differs else "identical",
        "identical": stored["metrics"] == again["metrics"],
    }
    for name in METRICS:
        pairs = [(again["metrics"][f][name], stored["metrics"][f][name]) for f in FRACTIONS]
        line[name] = float("nan") if None in next(zip(*pairs)) else sum(a - b for a, b in pairs) / len(pairs)
    return line


def verdict(found: pd.DataFrame) -> tuple[str, list[str]]:
    """What an audit comes to (`PASSED`, `UNDECIDED` or `FAILED`), and a sentence for each thing it found.

    It fails if a row that should be identical is not, if one diverges, or if the whole interval of a mean difference lies beyond
    `TOLERANCE`; that interval is so wide that chance alone fails at most one audit in twenty, all metrics together.
    """
    must, may = found[found.expected == "identical"], found[found.expected != "identical"]
    said = [f"{found.identical.sum()} of {len(found)} rows came out identical, bit for bit."]
    outcomes = {PASSED}
    for line in must[~must.identical].itertuples():
        outcomes.add(FAILED)
        said.append(f"{line.key} should have been identical and was not: {line.run}.")
    if lost := list(found.key[found[list(METRICS)].isna().any(axis=1)]):
        outcomes.add(FAILED)
        said.append(f"diverged when retrained: {', '.join(lost)}.")
    seeds = may.groupby("seed")[list(METRICS)].mean()
    if not may.identical.all() and len(seeds) < ENOUGH:
        outcomes.add(UNDECIDED)
        few = f"{len(may)} rows from other machines, stacks or code, of fewer than {ENOUGH} seeds"
        said.append(f"{few}: too few to compare in distribution.")
    elif not may.identical.all():
        for name in METRICS:
            low, high = interval(seeds[name], 0.95)
            lowest, highest = interval(seeds[name], 1 - 0.05 / len(METRICS))
            if -TOLERANCE <= low and high <= TOLERANCE:
                outcome, means = PASSED, "they agree"
            elif lowest > TOLERANCE or highest < -TOLERANCE:
                outcome, means = FAILED, "they do not agree"
            else:
                outcome, means = UNDECIDED, f"that cannot be told from more than {TOLERANCE}"
            outcomes.add(outcome)
            mean, n = seeds[name].mean(), seeds[name].count()
            said.append(f"{name}: mean difference {mean:+.4f} [{low:+.4f}, {high:+.4f}] over {n} seeds: {means}.")
    return next(outcome for outcome in (FAILED, UNDECIDED, PASSED) if outcome in outcomes), said


def interval(differences: pd.Series, confidence: float) -> tuple[float, float]:
    """Student's t interval of a mean difference over seeds, the missing ones aside; NaN for less than two."""
    values = differences.dropna().to_numpy()
    if len(values) < 2:
        return float("nan"), float("nan")
    if np.ptp(values) == 0:
        return values[0], values[0]
    low, high = stats.ttest_1samp(values, 0.0).confidence_interval(confidence)
    return float(low), float(high)


def describe(found: pd.DataFrame) -> Sequence[str]:
    """A line a row compared, to be printed."""
    return [
        f"{line.key}  {'identical' if line.identical else 'differs':<9}  expected: {line.expected:<28}  {line.run}"
        for line in found.itertuples()
    ]
