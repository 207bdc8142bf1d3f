"""The same training steps by the trunk for CPUs and by PyTorch's operators, taking turns in one process.

    python benchmarks/paths.py          # two minutes; also part of `dtcl benchmark --device cpu`

writes `trunk_cpu.csv` (on a processor without AVX-512 `trunk_avx2.csv`): a line for each stack (six runs or 24, with colour jitter
or without) and number of threads. Each path has a stack of its own of the same runs; in every turn each takes a few steps on each number of threads, forwards and backwards
in alternate turns, so that whatever slows the machine down for a while slows all of them. Ratios are those of the medians, their
range that of the ratios within a turn. Beside them stands what the trunk's own multiplications take at the processor's peak.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import machine
import parts
import torch

from dtcl_core import pretrain
from dtcl_core.config import Protocol
from dtcl_core.engine.device import tune_cpu_memory

HERE = Path(__file__).parent
TURNS, STEPS = 21, 2
SIZES = (6, 24)
FILES = {"AVX512": "trunk_cpu.csv", "AVX2": "trunk_avx2.csv"}  # by the instructions of the trunk
PATHS = {"trunk": "native", "operators": "pytorch"}


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_counts(available: int) -> list[int]:
    """One thread, two, and as many as there are cores."""
    return sorted({1, min(2, available), available})


@contextmanager
def on_threads(count: int) -> Iterator[None]:
    """So many threads for PyTorch's operators and the trunk."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def stepper(stack: pretrain.Stack) -> Callable[[], float]:
    """A function that takes the next steps of a stack and returns seconds a step."""
    posteriors, done = parts.prepared(stack), [0]

    def steps() -> float:
        began = time.perf_counter()
        for _ in range(STEPS):
            stack.step(done[0] % stack.streams.steps, posteriors)
            done[0] += 1
        return (time.perf_counter() - began) / STEPS

    return steps


def in_turns(contenders: dict[tuple[str, int], Callable[[], float]], turns: int) -> dict[tuple[str, int], list[float]]:
    """Seconds a step of each (path, threads) in each turn, after one that warms up."""
    taken: dict[tuple[str, int], list[float]] = {name: [] for name in contenders}
    for turn in range(-1, turns):
        for name in list(contenders)[:: -1 if turn % 2 else 1]:
            with on_threads(name[1]):
                seconds = contenders[name]()
            taken[name] += [seconds] if turn >= 0 else []
    return taken


def ratio(name: str, above: Sequence[float], below: Sequence[float]) -> dict[str, float]:
    """The ratio of two medians, and the least and the largest within a turn."""
    within = [a / b for a, b in zip(above, below, strict=True)]
    middle = statistics.median(above) / statistics.median(below)
    return {name: middle, f"{name}_low": min(within), f"{name}_high": max(within)}


def rates(counts: Sequence[int]) -> dict[int, float]:
    """Floating-point operations a second on each number of threads: the peak, or where it is not known a large product's."""
    found = {}
    for threads in counts:
        with on_threads(threads):
            found[threads] = max(machine.peak_rate(threads) or 0.0, machine.matrix_rate(torch.device("cpu"), torch.float32))
    return found


def lines(
    taken: dict[tuple[str, int], list[float]],
    runs: int,
    jitter: bool,
    operations: float = float("nan"),
    rate: dict[int, float] | None = None,
) -> list[dict]:
    """A row for each number of threads; `operations` are those of the trunk's floor, `rate` is as from `rates`."""
    counts = sorted({threads for _, threads in taken})
    rows = []
    for threads in counts:
        row: dict = {"runs": runs, "jitter": jitter}
        for path in PATHS:
            times = [1e3 * seconds for seconds in taken[path, threads]]
            row |= {f"{path}_ms": statistics.median(times), f"{path}_min": min(times), f"{path}_max": max(times)}
        trunk = taken["trunk", threads]
        row |= ratio("speedup", taken["operators", threads], trunk)
        row |= ratio("over_one_thread", taken["trunk", counts[0]], trunk)
        fastest = (rate or {}).get(threads, float("nan"))
        row |= {"floor_ms": 1e3 * operations / fastest, "rate_gflop_s": fastest / 1e9}
        rows.append(row | {"turns": len(trunk)} | machine.origin(torch.device("cpu")) | {"threads": threads})
    return rows


def measure(out: Path, turns: int = TURNS, sizes: Sequence[int] = SIZES, protocol: Protocol | None = None) -> list[dict]:
    """Compare both paths and write their file to the folder `out`; where there is no trunk, say why and do nothing."""
    protocol, cpu = protocol or Protocol(), torch.device("cpu")
    trunk, path = pretrain.choose_trunk(protocol, cpu, "float32")
    if trunk is None:
        print(f"The trunk is not compared: steps are taken by {path}.", flush=True)
        return []
    rows: list[dict] = []
    counts = thread_counts(cores())
    rate = rates(counts)
    for jitter in (False, True):
        for runs in sizes:
            contenders: dict[tuple[str, int], Callable[[], float]] = {}
            for name, wanted in PATHS.items():
                stack = pretrain.Stack(parts.members(runs, jitter, protocol), cpu, "float32", trunk=wanted)
                steps = stepper(stack)
                contenders |= {(name, threads): steps for threads in counts}
            done = parts.trunk_floors(protocol, runs, 0, colors=3 if jitter else 1)
            operations = sum(done[name][0] for name in parts.MULTIPLIED)
            rows += (made := lines(in_turns(contenders, turns), runs, jitter, operations, rate))
            for row in made:
                print(
                    f"{runs:>3} runs{' with jitter' if jitter else '':<12} threads {row['threads']}: trunk {row['trunk_ms']:.1f} "
                    f"ms a step, PyTorch's operators {row['operators_ms']:.1f} ms: {row['speedup']:.2f} times",
                    flush=True,
                )
            machine.write(out / FILES[torch.backends.cpu.get_cpu_capability()], rows)
    return rows


if __name__ == "__main__":
    tune_cpu_memory()
    measure(HERE)
