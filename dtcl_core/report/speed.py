"""What the chapter on speed shows, from what `benchmarked` reads: where figures were measured, costs in words, tables by device."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from . import agreement, benchmarked, figures, notebook

CORES = 16  # of the machine whose hours are told beside core-hours
PEERS = {  # columns of `benchmarked.load("cpu")`, as they are shown
    "contender": "contender", "median_s": "seconds", "speedup": "times", "speedup_low": "low", "speedup_high": "high", "rounds": "rounds",
}  # fmt: skip


def measured_on(name: str, frame: pd.DataFrame) -> str:
    """On what and when a file of figures was measured, as a line.

    Args:
        name: what the line begins with.
        frame: as from `benchmarked.load`, not empty; its first line speaks for all, but for threads where they vary.
    """
    first = frame.iloc[0]
    parts = [str(first.machine)]
    if frame.threads.nunique() == 1:
        parts.append(f"{first.threads} thread{'' if first.threads == 1 else 's'}")
    parts += [f"torch {first.torch}", str(first.date)]
    if "rounds" in frame:
        parts.append(f"{first['rounds']} rounds")
    return f"{name}: {', '.join(parts)}, code {first.sources}"


def where_measured() -> str:
    """`measured_on` of both files that the targets for CPUs rest on, a line each, as far as they are there."""
    files = {"the engine beside its peers": "cpu", "the two paths of a CPU": "trunk_cpu"}
    there = {name: frame for name, file in files.items() if len(frame := benchmarked.load(file))}
    return "\n".join(measured_on(name, frame) for name, frame in there.items())


def cost() -> str:
    """What the paper's pre-trainings cost at the pace of one thread, in a sentence; without that pace, how many there are."""
    hours, runs = benchmarked.core_hours(), benchmarked.papers_runs()
    epochs = sum(run.protocol.epochs for run in runs)
    counted = f"{len(runs):,} runs, {epochs:,} run-epochs"
    if hours != hours:
        return f"{counted}; the pace of one thread is not measured yet."
    pace = f"of {3600 * hours / epochs:.3f} s: {hours:.0f} core-hours"
    return f"{counted} {pace},\nor {hours / CORES:.1f} hours of {CORES} such cores with a process each."


def show_parts(device: str) -> None:
    """Display where a step's time goes on a device, a table for each number of threads."""
    parts = benchmarked.load(f"{device}_parts")
    if parts.empty:
        print(f"Not measured on {device} yet: python -m dtcl_core benchmark --device {device}")
        return
    for threads, table in parts.groupby("threads"):
        first = table.iloc[0]
        peak = f", peak {first.peak_gflop_s:.0f}" if first.get("peak_gflop_s", 0) > 0 else ""
        title = (
            f"{first.machine}, threads: {threads}; a step of {first.runs} runs in {first.precision}, code {first.sources};"
            f" copies {first.copy_gb_s:.1f} GB/s, products {first.product_gflop_s:.0f} GFLOP/s{peak}"
        )
        notebook.show(table[["part", "ms", "floor_ms", "ratio"]], {"floor_ms": "floor"}, title=title)


def show_peers(measured: Mapping[str, pd.DataFrame]) -> None:
    """Display seconds of a run's epoch beside the plain loop's, a table for each device; `measured` as from `benchmarked.measured`."""
    for device, frame in measured.items():
        notebook.show(frame[list(PEERS)], PEERS, title=measured_on(device, frame))


def draw_stacks(measured: Mapping[str, pd.DataFrame]) -> Figure:
    """What an epoch of a stack costs on each device, see `figures.stack_cost`; `measured` as from `benchmarked.measured`."""
    return figures.stack_cost({device: benchmarked.stacks(frame) for device, frame in measured.items()})


def least_minutes(frame: pd.DataFrame) -> str:
    """`benchmarked.computed_minutes` of `simulated.csv` in words, a line for each GPU."""
    runs = benchmarked.REGISTRY["main_table"].runs("paper")
    what = f"the paper's comparison at sigma {runs[0].sigma:g}, {len(runs)} runs of {runs[0].protocol.epochs} epochs"
    minutes = benchmarked.computed_minutes(frame)
    return "\n".join(f"{gpu}: {what}, at least {least:.1f} minutes (computed)" for gpu, least in minutes.items())


def show_precisions() -> None:
    """Display what bfloat16 changes beside float32 on each device, pooled and by configuration, with what intervals say."""
    for device in benchmarked.DEVICES:
        rows = benchmarked.load(f"precision_{device}")
        if rows.empty:
            print(f"{device}: not measured yet: python benchmarks/precision.py --device {device}")
            continue
        pooled, single = agreement.precision_pooled(rows), agreement.precision_differences(rows)
        print(f"{device}: {rows.machine[0]}, {rows.epochs[0]} epochs, code {', '.join(rows.sources.unique())}")
        notebook.show(pooled, title="Accuracy in bfloat16 less accuracy in float32, pooled")
        notebook.show(single, title="By configuration")
        print(agreement.precision_in_words(pooled, single))


def files() -> pd.DataFrame:
    """The files of figures that name the code they were measured with: columns file, measured (dates) and code."""
    lines = []
    for path in sorted(benchmarked.FOLDER.glob("*.csv")):
        table = benchmarked.load(path.stem)
        if "sources" in table:
            codes = table.sources.astype(str).unique().tolist()
            lines.append((path.stem, ", ".join(sorted(set(table.date))), " ".join(codes)))
    return pd.DataFrame(lines, columns=["file", "measured", "code"])


def of_other_code(listed: pd.DataFrame, now: str) -> str:
    """Which of `files` were measured, in part or whole, with other code than that of this hash, in a sentence."""
    older = listed.file[listed.code != now].tolist()
    return f"The code that decides numbers is now {now}. Measured with other code: {', '.join(older) or 'none'}."
