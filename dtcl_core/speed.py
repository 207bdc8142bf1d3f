"""What `python -m dtcl_core benchmark` measured, read back for the book: targets, ratios, and what was not measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from . import work
from .experiments import REGISTRY
from .statistics import mean_interval, paired_difference

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"
NOT_MEASURED = "not measured"
PRECISION_METRICS = ("validation", "test_id", "test_ood", "d_test_id")


def load(name: str, folder: Path | None = None) -> pd.DataFrame:
    """A file of figures, such as "cpu" or "cuda_parts"; empty if it was never measured."""
    path = (folder or FOLDER) / f"{name}.csv"
    texts = dict.fromkeys(("python", "torch", "torchvision", "commit", "code", "sources"), str)
    return pd.read_csv(path, dtype=texts) if path.exists() else pd.DataFrame()


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


def targets(folder: Path | None = None) -> pd.DataFrame:
    """The project's targets beside what was measured: columns where, what, target, measured."""
    cpu, cuda, parts = (load(name, folder) for name in ("cpu", "cuda", "cuda_parts"))
    runs = REGISTRY["main_table"].runs("paper")
    epochs = runs[0].protocol.epochs

    def ratio(frame: pd.DataFrame, peer: str, engine: str = "paper's runs") -> str:
        value = best(frame, peer) / best(frame, engine)
        return f"{value:.1f} times" if np.isfinite(value) else NOT_MEASURED

    def speedup(frame: pd.DataFrame, engine: str = "paper's runs") -> str:
        """Against the plain loop: median, lowest and highest over rounds."""
        rounds = frame[frame.contender == engine] if len(frame) else frame
        if rounds.empty or pd.isna(rounds.speedup.iloc[0]):
            return NOT_MEASURED
        middle, low, high = rounds[["speedup", "speedup_low", "speedup_high"]].iloc[0]
        return f"{middle:.1f} times ({low:.1f} to {high:.1f})"

    whole = len(runs) * epochs * best(cuda, "paper's runs") / 60  # all methods, in the stacks that training uses
    usual = f"engine, stack of {work.CPU_STACK}"  # what training uses on a CPU
    worst = NOT_MEASURED if parts.empty else f"{parts.ratio.max():.1f} times ({parts.part[parts.ratio.idxmax()]})"
    lines = [
        ("one GPU", f"{len(runs)} runs of {epochs} epochs", "8 minutes",
         f"{whole:.1f} minutes" if np.isfinite(whole) else NOT_MEASURED),
        ("one GPU", "against the plain loop", "300 times", speedup(cuda)),
        ("one GPU", "against a batched single run", "30 times", ratio(cuda, "batched loop")),
        ("one GPU", "slowest part over its floor", "3 times", worst),
        ("two CPU cores", "against the plain loop", "8 times", speedup(cpu)),
        ("two CPU cores", "the same, standard CL alone", "8 times", speedup(cpu, usual)),
        ("two CPU cores", "steepest cost of adding runs", "1 (linear)", f"{growth(cpu):.2f}" if len(cpu) else NOT_MEASURED),
        ("one GPU", "steepest cost of adding runs", "1 (linear)", f"{growth(cuda):.2f}" if len(cuda) else NOT_MEASURED),
    ]  # fmt: skip
    return pd.DataFrame(lines, columns=["where", "what", "target", "measured"])


def computed(frame: pd.DataFrame) -> pd.DataFrame:
    """What a training step asks of a GPU, counted without one (`simulated.csv`), and the time that puts a floor under.

    Args:
        frame: a line for each stack and GPU; see `benchmarks/simulated.py`.

    Returns:
        A line for each stack. Columns: stack, runs, launches (operators that compute), GFLOP (of matrix operations), GB (read
        and written), peak GB (over an epoch and an evaluation), estimate GB (`work.bytes_of_run`), launching (ms), and for each
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


def precision_differences(frame: pd.DataFrame) -> pd.DataFrame:
    """Accuracy in bfloat16 less accuracy in float32, paired by seed, for each configuration and metric.

    Returns:
        Columns: method, tau_alpha, tau_beta, metric, float32 (mean), difference (mean), low and high (95 % t interval), n.
    """
    columns = ["method", "tau_alpha", "tau_beta", "metric", "float32", "difference", "low", "high", "n"]
    if frame.empty:
        return pd.DataFrame(columns=columns)
    lines = []
    for cell, rows in frame.groupby(["method", "tau_alpha", "tau_beta"], dropna=False, sort=False):
        by = {precision: part.set_index("seed") for precision, part in rows.groupby("precision")}
        for metric in PRECISION_METRICS:
            exact, half = by["float32"][metric], by["bfloat16"][metric]
            d = paired_difference(half, exact)
            lines.append((*cell, metric, exact.mean(), d.mean, d.low, d.high, d.n))
    return pd.DataFrame(lines, columns=columns)


def precision_pooled(frame: pd.DataFrame) -> pd.DataFrame:
    """Accuracy in bfloat16 less accuracy in float32 for each metric, averaged over configurations, over seeds.

    A seed's configurations share its views, so a seed counts once.

    Returns:
        Columns: metric, float32 (mean), difference (mean), low and high (95 % t interval), n (seeds), and as yardsticks
        the standard deviations of a pair's difference and of a float32 run's accuracy over seeds.
    """
    columns = ["metric", "float32", "difference", "low", "high", "n", "sd of a pair", "sd of a seed"]
    cell, lines = ["method", "tau_alpha", "tau_beta"], []
    for metric in PRECISION_METRICS if len(frame) else ():
        table = frame.pivot(index=[*cell, "seed"], columns="precision", values=metric).dropna()
        pairs = table.bfloat16 - table.float32
        d = mean_interval(pairs.groupby("seed").mean())
        seeds = table.float32.groupby(cell, dropna=False).var().mean() ** 0.5
        lines.append((metric, table.float32.mean(), d.mean, d.low, d.high, d.n, pairs.std(), seeds))
    return pd.DataFrame(lines, columns=columns)
