"""What `python -m dtcl_core benchmark` measured, read back for the book: targets, ratios, and what was not measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..config import Protocol, Run
from ..experiments import REGISTRY
from ..launch import local
from ..methods import ALL_METHODS

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
NOT_MEASURED = "not measured"
DEVICES = ("cpu", "cuda")
FULL_STACK = 6  # runs from which on a stack costs about what it may
LINEAR = 1.05  # a stack of twice the runs costs twice as much; a few hundredths are what rounds differ by


def load(name: str, folder: Path | None = None) -> pd.DataFrame:
    """A file of figures, such as "cpu" or "cuda_parts"; empty if it was never measured."""
    path = (folder or FOLDER) / f"{name}.csv"
    texts = dict.fromkeys(("python", "torch", "torchvision", "commit", "code", "sources"), str)
    return pd.read_csv(path, dtype=texts) if path.exists() else pd.DataFrame()


def audits() -> pd.DataFrame:
    """Rows trained again in whole stacks (`audits.csv`); of one audited twice by the same code on a day the failure counts."""
    found = load("audits")
    return found if found.empty else found.sort_values("identical").drop_duplicates(["key", "sources", "date"])


def latest(name: str, code: str) -> pd.DataFrame:
    """The lines of a benchmark's file that this code was tried with, or all where it was not; without seeds, versions and dates."""
    table = load(name).drop(columns=["seed", "torch", "date"], errors="ignore")
    return table[table.code == code] if len(table) and (table.code == code).any() else table


def measured() -> dict[str, pd.DataFrame]:
    """The figures of the engine beside its peers, by device, of the devices on which they were measured."""
    return {device: frame for device in DEVICES if len(frame := load(device))}


def stacks(frame: pd.DataFrame) -> pd.DataFrame:
    """Seconds that an epoch of a whole stack takes, by its number of runs: columns runs, seconds, a_run, precision."""
    if frame.empty:
        return pd.DataFrame(columns=["runs", "seconds", "a_run", "precision"])
    chosen = frame[frame.contender.str.startswith("engine")]
    runs = chosen.contender.str.extract(r"(\d+)$")[0].astype(int)
    table = {"runs": runs, "seconds": runs * chosen.median_s, "a_run": chosen.median_s, "precision": chosen.precision}
    return pd.DataFrame(table).sort_values("runs", ignore_index=True)


def memory(device: str = "cpu") -> pd.DataFrame:
    """Peak memory (MB) and seconds of the paper's loss, forward and backward, whole and in chunks of anchors."""
    table = load(f"memory_{device}")
    return table if table.empty else table[["examples", "chunk_size", "peak_mb", "seconds"]]


def discriminator(device: str = "cpu") -> pd.DataFrame:
    """Milliseconds of losses, forward and backward: plain, with a discriminator given or fitted on the batch; and of that fit alone."""
    table = load(f"discriminator_{device}")
    return table if table.empty else table[["batch", "width", "domains", "plain_ms", "given_ms", "fitted_ms", "fit_ms"]]


def growth(frame: pd.DataFrame) -> float:
    """The steepest cost of adding runs, relative to linear: at most 1 if no stack costs more than in proportion."""
    table = stacks(frame)
    return float((table.a_run / table.a_run.cummin().shift()).max())


def best(frame: pd.DataFrame, contender: str) -> float:
    """Seconds a run-epoch of the fastest contender whose name starts so; NaN if there is none."""
    if frame.empty:
        return float("nan")
    same = frame.contender == contender
    return float(frame[same if same.any() else frame.contender.str.startswith(contender)].median_s.min())


class Measured(NamedTuple):
    """A figure with its range over rounds, all NaN where nothing was measured."""

    value: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")

    def in_words(self, unit: str, digits: int) -> str:
        if not np.isfinite(self.value):
            return NOT_MEASURED
        span = f" ({self.low:.{digits}f} to {self.high:.{digits}f})" if np.isfinite(self.low) else ""
        return f"{self.value:.{digits}f} {unit}{span}"


def _target(
    where: str, what: str, bound: float, unit: str, found: Measured, *, at_most: bool = False
) -> tuple[str, ...]:
    """A line of `targets`; the bound is the least that was aimed at, or the most."""
    met = "-"
    if np.isfinite(found.value):
        met = "yes" if (found.value <= bound if at_most else found.value >= bound) else "no"
    digits = 2 if bound < 10 else 1
    return where, what, f"{'at most ' if at_most else ''}{bound:g} {unit}", found.in_words(unit, digits), met


def targets(folder: Path | None = None, device: str | None = None) -> pd.DataFrame:
    """The project's targets beside what was measured: columns where, what, target, measured, met; those of one device, or all."""
    of = {"cpu": _cpu_targets, "cuda": _gpu_targets}
    lines = [line for name in ([device] if device else DEVICES) for line in of[name](folder)]
    return pd.DataFrame(lines, columns=["where", "what", "target", "measured", "met"])


def _speedup(frame: pd.DataFrame, engine: str) -> Measured:
    """Of a contender against the plain loop."""
    rounds = frame[frame.contender == engine] if len(frame) else frame
    if rounds.empty or pd.isna(rounds.speedup.iloc[0]):
        return Measured()
    return Measured(*rounds[["speedup", "speedup_low", "speedup_high"]].iloc[0])


def _cpu_targets(folder: Path | None) -> list[tuple[str, ...]]:
    cpu, both = load("cpu", folder), load("trunk_cpu", folder)

    def paths(runs: int, jitter: bool, threads: int, name: str) -> Measured:
        if both.empty:
            return Measured()
        row = both[(both.runs == runs) & (both.jitter == jitter) & (both.threads == threads)]
        return Measured(*row[[name, f"{name}_low", f"{name}_high"]].iloc[0]) if len(row) else Measured()

    one, two = "one CPU core", "two CPU cores"
    operators = "against PyTorch's operators"
    return [
        _target(one, f"a step of 6 runs, {operators}", 3.3, "times", paths(6, False, 1, "speedup")),
        _target(one, f"a step of 24 runs, {operators}", 4, "times", paths(24, False, 1, "speedup")),
        _target(one, f"6 runs with colour jitter, {operators}", 2.5, "times", paths(6, True, 1, "speedup")),
        _target(one, f"24 runs with colour jitter, {operators}", 2.5, "times", paths(24, True, 1, "speedup")),
        _target(one, "the trunk over its floor", 1.5, "times", Measured(trunk_over_floor(folder)), at_most=True),
        _target(two, "a step of 6 runs, against one core", 1.8, "times", paths(6, False, 2, "over_one_thread")),
        _target(two, "a step of 24 runs, against one core", 1.8, "times", paths(24, False, 2, "over_one_thread")),
        _target(two, "against the plain loop", 30, "times", _speedup(cpu, "paper's runs")),
        _target(two, "the same, standard CL alone", 30, "times", _speedup(cpu, f"engine, stack of {local.CPU_STACK}")),
        _target(two, "steepest cost of adding runs", LINEAR, "of linear", _steepest(cpu), at_most=True),
        _target("CPU cores", "the paper's runs", 220, "core-hours", Measured(core_hours(folder)), at_most=True),
    ]


def _steepest(frame: pd.DataFrame) -> Measured:
    return Measured(growth(frame)) if len(frame) else Measured()


def _gpu_targets(folder: Path | None) -> list[tuple[str, ...]]:
    cuda, parts = load("cuda", folder), load("cuda_parts", folder)
    runs = REGISTRY["main_table"].runs("paper")
    epochs = runs[0].protocol.epochs
    whole = len(runs) * epochs * best(cuda, "paper's runs") / 60  # all methods, in the stacks that training uses
    batched = best(cuda, "batched loop") / best(cuda, "paper's runs")
    worst, slowest = (float("nan"), "") if parts.empty else (parts.ratio.max(), parts.part[parts.ratio.idxmax()])
    gpu = "one GPU"
    return [
        _target(gpu, f"{len(runs)} runs of {epochs} epochs", 8, "minutes", Measured(whole), at_most=True),
        _target(gpu, "against the plain loop", 300, "times", _speedup(cuda, "paper's runs")),
        _target(gpu, "against a batched single run", 30, "times", Measured(batched)),
        _target(
            gpu, f"slowest part over its floor{slowest and f': {slowest}'}", 3, "times", Measured(worst), at_most=True
        ),
        _target(gpu, "steepest cost of adding runs", LINEAR, "of linear", _steepest(cuda), at_most=True),
    ]


def papers_runs() -> list[Run]:
    """All the pre-trainings behind the paper's tables and figures, each once."""
    return list(dict.fromkeys(run for e in REGISTRY.values() if e.selects for run in e.runs("paper")))


def core_hours(folder: Path | None = None) -> float:
    """Core-hours of `papers_runs` at the pace of Table 1's stacks on one thread; NaN if it was not measured."""
    frame = load("cpu", folder)
    name = "paper's runs, one thread"
    if frame.empty or not (frame.contender == name).any():
        return float("nan")
    epochs = sum(run.protocol.epochs for run in papers_runs())
    return epochs * best(frame, name) / 3600


def trunk_over_floor(folder: Path | None = None) -> float:
    """The trunk's time, forward and backward, over what its multiplications take on one thread; NaN if not measured."""
    parts = load("cpu_parts", folder)
    if parts.empty:
        return float("nan")
    trunk = parts[(parts.threads == 1) & parts.part.isin(["trunk forward", "trunk backward"])]
    return float(trunk.ms.sum() / trunk.floor_ms.sum()) if len(trunk) else float("nan")


def paths(frame: pd.DataFrame) -> pd.DataFrame:
    """Steps by both paths of a CPU, from `load("trunk_cpu")`, as the chapter shows them.

    Returns:
        Columns: runs, jitter, threads, operators and trunk (milliseconds), times (the ratio), low and high (of a turn),
        floor (milliseconds the trunk's multiplications take at the processor's peak), at most (times, at that floor).
    """
    columns = ["runs", "jitter", "threads", "operators", "trunk", "times", "low", "high", "floor", "at most"]
    if frame.empty:
        return pd.DataFrame(columns=columns)
    short = {"operators_ms": "operators", "trunk_ms": "trunk", "floor_ms": "floor"}
    short |= {"speedup": "times", "speedup_low": "low", "speedup_high": "high"}
    table = frame.rename(columns=short)
    table["at most"] = table.operators / table.floor
    table["jitter"] = ["yes" if jitter else "no" for jitter in table.jitter]
    return table[columns]


def best_possible(frame: pd.DataFrame) -> str:
    """What the processor leaves room for, in a sentence, from `load("trunk_cpu")`; empty if nothing was measured."""
    alone = paths(frame[(frame.threads == 1) & ~frame.jitter]) if len(frame) else frame
    if alone.empty:
        return ""
    rooms = " and ".join(f"{row['at most']:.1f} times at {row.runs} runs" for _, row in alone.iterrows())
    rate = frame[frame.threads == 1].rate_gflop_s.iloc[0]
    return (
        f"At the {rate:.0f} GFLOP/s that one core of this processor reaches at most, the trunk's multiplications alone "
        f"allow no more than {rooms}, if all else took no time."
    )


def computed(frame: pd.DataFrame) -> pd.DataFrame:
    """What a training step asks of a GPU, counted without one (`simulated.csv`), and the least time that this takes.

    Args:
        frame: a line for each stack and GPU; see `benchmarks/simulated.py`.

    Returns:
        A line for each stack. Columns: stack, runs, launches (operators that compute), GFLOP (of matrix operations), GB (read
        and written), peak GB (over an epoch and an evaluation), estimate GB (`local.bytes_of_run`), launching (ms), and for each
        GPU the floor in ms; all of a step, and computed, not measured.
    """
    columns = ["stack", "runs", "launches", "GFLOP", "GB", "peak GB", "estimate GB", "launching"]
    lines = []
    for (stack, runs), rows in frame.groupby(["stack", "runs"], sort=False) if len(frame) else ():
        first = rows.iloc[0]
        line = [stack, runs, first.launches, first.gflop, first.gb, first.peak_gb, first.estimate_gb, first.launch_ms]
        lines.append(dict(zip(columns, line)) | dict(zip(rows.gpu, rows[["launch_ms", "device_ms"]].max(axis=1))))
    return pd.DataFrame(lines, columns=None if lines else columns)


def computed_minutes(frame: pd.DataFrame) -> dict[str, float]:
    """Minutes that the paper's comparison takes each GPU at least, by the counts of `simulated.csv`: computed, not measured.

    An epoch takes the longer of launching its operators and of what the device does; stacks follow each other.
    """
    if frame.empty:
        return {}
    rows = frame[frame.stacks > 0]
    epochs = REGISTRY["main_table"].runs("paper")[0].protocol.epochs
    milliseconds = rows[["epoch_launch_ms", "epoch_device_ms"]].max(axis=1) * rows.stacks * epochs
    return (milliseconds.groupby(rows.gpu, sort=False).sum() / 60_000).to_dict()
