"""Every speed figure of the book: the engine beside its peers, the cost of a stack, both paths of a CPU, the parts of a step.

    dtcl benchmark --device cpu

writes `<device>.csv`, `<device>_parts.csv` and, on a CPU, `trunk_cpu.csv` or `trunk_avx2.csv`, on a GPU `gpu.csv`, beside this file. Peers and engine take turns, round
after round, because machines are noisy: quote the ratios. The plain loop needs `lightly` and `torchvision` (the extra `benchmark`); without
them it is left out and no ratio to it is given. With `--all`, `determinism.py` follows.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import gpu
import machine
import parts
import paths
import peers
import torch

from dtcl_core import pretrain
from dtcl_core.checks import checked_number
from dtcl_core.config import Protocol, Run
from dtcl_core.engine.device import resolve_device, resolve_precision, tune_cpu_memory
from dtcl_core.launch import local
from dtcl_core.results import check_writable
from dtcl_study.experiments import REGISTRY, listed_numbers

HERE = Path(__file__).parent
STACKS = {"cpu": "1,2,4,6,7,12,24,48", "cuda": "1,4,16,64,192,768"}
ENSEMBLE = {"cpu": 6, "cuda": 64}
TURNS = 11  # of two steps: an epoch


def stacks(protocol: Protocol, device: torch.device, precision: str, sizes: list[int]) -> dict[str, float]:
    """Seconds a run-epoch in stacks of `sizes` runs of one stream.

    They take turns of two steps, of which the median counts: a machine differs more from one minute to the next than
    neighbouring sizes do. A size that fails, say, for lack of memory, costs the others nothing.
    """
    running: dict[int, pretrain.Stack] = {}
    taken: dict[int, list[float]] = {size: [] for size in sizes}
    for turn in range(-1, TURNS):  # the first one warms up
        for size in sizes if turn % 2 else sizes[::-1]:
            try:
                if turn < 0:
                    members = [Run("standard", 0.05 + 0.001 * i, protocol=protocol) for i in range(size)]
                    running[size] = pretrain.Stack(members, device, precision)
                    running[size].streams.draw(0)
                if size in running:
                    seconds = machine.seconds(partial(two_steps, running[size], turn), device, 1, 0)
                    taken[size] += [seconds] if turn >= 0 else []
            except RuntimeError as error:
                print(f"a stack of {size} failed: {str(error).splitlines()[0]}", flush=True)
                running.pop(size, None)
    found = {}
    for size, stack in running.items():
        draws = machine.seconds(partial(stack.streams.draw, 1), device, 1, 0)  # a GPU drew ahead, as in training
        found[f"engine, stack of {size}"] = (draws + stack.streams.steps * statistics.median(taken[size]) / 2) / size
    return found


def two_steps(stack: pretrain.Stack, turn: int) -> None:
    for number in (2 * turn, 2 * turn + 1):
        stack.step(number % stack.streams.steps, {})


def papers_runs(device: torch.device, precision: str, samples: int = 8) -> float:
    """Seconds a run-epoch over stacks of all methods, as `run main_table --preset paper` cuts them."""
    runs = REGISTRY["main_table"].runs("paper")
    size = local.stack_size_for(device, runs[0].protocol, precision)
    mix = local.mixes_streams(device, runs[0].protocol, precision)
    stacks = local.cut_into_stacks(runs, size, mix_streams=mix)
    stacks = stacks[:: -(-len(stacks) // samples)]
    total = sum(machine.seconds(pretrain.Stack(stack, device, precision).train_epoch, device, 1, 1) for stack in stacks)
    return total / sum(map(len, stacks))


def contenders(protocol: Protocol, device: torch.device, precision: str, sizes: list[int]) -> dict[str, Callable]:
    """What takes turns: functions that return seconds a run-epoch, those of all stacks by name."""
    many = ENSEMBLE[device.type]
    chosen: dict[str, Callable] = {}
    if all(importlib.util.find_spec(name) for name in ("lightly", "torchvision")):
        chosen["plain loop"] = lambda: peers.plain_loop(protocol, device)
    else:
        print("The plain loop is left out: it needs lightly and torchvision.")
    chosen["batched loop"] = lambda: peers.batched_loop(protocol, device)
    chosen[f"torch.func, {many} models"] = lambda: peers.ensemble(protocol, device, many)
    chosen["the engine's stacks"] = lambda: stacks(protocol, device, precision, sizes)
    chosen["paper's runs"] = lambda: papers_runs(device, precision)
    if device.type == "cpu":  # what a core of many does, a process each
        chosen["paper's runs, one thread"] = paths.on_threads(1)(lambda: papers_runs(device, precision))
    return chosen


def table(times: dict[str, dict[int, float]], precision: str, device: torch.device) -> list[dict]:
    """A row for every contender that finished a round."""
    peer = "float32 (convolutions TF32)" if device.type == "cuda" else "float32"  # PyTorch's default
    trunk, _ = pretrain.choose_trunk(Protocol(), device, precision)
    ours = "operators" if trunk is None else "trunk"
    rows = []
    for name, by_round in times.items():
        if taken := list(by_round.values()):
            plain = times.get("plain loop", {})
            ratios = [plain[number] / by_round[number] for number in plain.keys() & by_round.keys()]
            figures = {
                "contender": name,
                "median_s": statistics.median(taken),
                "min_s": min(taken),
                "max_s": max(taken),
                "speedup": statistics.median(ratios) if ratios else "",
                "speedup_low": min(ratios, default=""),
                "speedup_high": max(ratios, default=""),
                "precision": precision if name.startswith(("engine", "paper")) else peer,
                "path": ours if name.startswith(("engine", "paper")) else "operators",
                "rounds": len(taken),
            }
            rows.append(figures | machine.origin(device))
    return rows


def measure_parts(device: torch.device, largest: int, precision: str, out: Path) -> None:
    """The parts of a step, of a stack no larger than `largest`: on a CPU on each number of threads."""
    if device.type == "cpu":
        rows = []
        for threads in paths.thread_counts(paths.cores()):
            with paths.on_threads(threads):
                rows += parts.measure(device, min(largest, local.CPU_STACK), precision)
    else:
        rows = parts.measure(device, min(largest, local.GPU_STACK), precision)
    machine.write(out / f"{device.type}_parts.csv", rows)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="dtcl benchmark", description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--stacks", help="stack sizes of the engine, with commas between them")
    parser.add_argument("--all", action="store_true", help="then determinism, some minutes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE, help="folder for the figures (default: benchmarks/)")
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        parser.error(f"unrecognized arguments: {', '.join(map(repr, unknown))}")
    device, protocol = resolve_device(options.device), Protocol()
    checked_number("--rounds", options.rounds, 1, integer=True)
    check_writable(options.out, "figures")
    precision = resolve_precision(options.precision)
    tune_cpu_memory()  # for every contender alike

    named = listed_numbers("stacks", options.stacks or STACKS[device.type])
    sizes = [int(checked_number("each of --stacks", size, 1, integer=True)) for size in named]
    entered = contenders(protocol, device, precision, sizes)
    times: dict[str, dict[int, float]] = {}  # seconds by contender and round
    for number in range(options.rounds):
        for name, measure in entered.items():
            try:
                measured = measure()
            except (RuntimeError, ValueError) as error:  # say, out of memory: it costs the others nothing
                print(f"round {number + 1}: {name} failed: {str(error).splitlines()[0]}", flush=True)
                continue
            for of, seconds in (measured if isinstance(measured, dict) else {name: measured}).items():
                times.setdefault(of, {})[number] = seconds
                print(f"round {number + 1}: {of:<24}{seconds:10.4f} s a run-epoch", flush=True)
        if rows := table(times, precision, device):  # after every round: a lease may end before the last
            machine.write(options.out / f"{device.type}.csv", rows)
    if device.type == "cpu":
        paths.measure(options.out)
    else:
        gpu.measure(device, options.out)
    measure_parts(device, max(sizes), precision, options.out)
    if options.all:
        if subprocess.run([sys.executable, str(HERE / "determinism.py"), device.type, str(options.out)], check=False).returncode:
            raise SystemExit("determinism failed; what was measured before is kept.")


if __name__ == "__main__":
    main()
