"""Seconds that an epoch of one run costs: the engine against its peers, side by side in one process.

    python benchmarks/compare.py --device cpu --stacks 1,2,4,8 --out benchmarks/cpu.csv

Peers and engine take turns, round after round, because machines are noisy: quote the ratios. Needs `lightly` and
`torchvision` for the plain loop.
"""

from __future__ import annotations

import argparse
import csv
import platform
import statistics
import sys
from datetime import datetime, timezone

import peers
import torch

from dtcl_core import pretrain
from dtcl_core.config import Protocol, Run
from dtcl_core.device import keep_freed_memory, resolve_device
from dtcl_core.provenance import SOURCES


def engine(protocol: Protocol, device: torch.device, runs: int) -> float:
    """Seconds a run-epoch in a stack of `runs` runs of one stream."""
    taus = [0.05 + 0.01 * i for i in range(runs)]
    stack = pretrain.Stack([Run("standard", tau, protocol=protocol) for tau in taus], device)
    return peers.seconds_of(stack.train_epoch, device) / runs


def machine(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    names = [line.split(":")[1].strip() for line in _cpu_lines() if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _cpu_lines() -> list[str]:
    try:
        with open("/proc/cpuinfo") as file:
            return file.readlines()
    except OSError:
        return []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--stacks", default="1,2,4,8", help="stack sizes of the engine, with commas between them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", help="a CSV file for the figures")
    options = parser.parse_args()
    device, protocol = resolve_device(options.device), Protocol()
    keep_freed_memory()  # for every contender alike

    sizes = [int(size) for size in options.stacks.split(",")]
    contenders = {
        "plain loop": lambda: peers.plain_loop(protocol, device),
        "batched loop": lambda: peers.batched_loop(protocol, device),
        f"torch.func, {sizes[-1]} models": lambda: peers.ensemble(protocol, device, sizes[-1]),
    }
    for size in sizes:
        contenders[f"engine, stack of {size}"] = lambda size=size: engine(protocol, device, size)

    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(options.rounds):
        for name, measure in contenders.items():
            times[name].append(measure())
            print(f"round {number + 1}: {name:<24}{times[name][-1]:8.3f} s a run-epoch", flush=True)

    first = next(iter(contenders))
    rows = []
    for name, seconds in times.items():
        ratios = [a / b for a, b in zip(times[first], seconds)]
        rows.append((name, statistics.median(seconds), min(seconds), max(seconds), statistics.median(ratios)))
    print(f"\n{'':<26}{'median s':>10}{'min':>8}{'max':>8}{'times faster than the plain loop':>36}")
    for name, median, low, high, ratio in rows:
        print(f"{name:<26}{median:>10.3f}{low:>8.3f}{high:>8.3f}{ratio:>36.1f}")
    if options.out:
        origin = (machine(device), torch.get_num_threads(), torch.__version__, SOURCES, options.rounds)
        day = datetime.now(timezone.utc).date().isoformat()
        with open(options.out, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(
                ["contender", "median_s", "min_s", "max_s", "speedup", "machine", "threads", "torch", "sources",
                 "rounds", "date"]
            )  # fmt: skip
            writer.writerows([(*(round(v, 4) if isinstance(v, float) else v for v in r), *origin, day) for r in rows])


if __name__ == "__main__":
    sys.exit(main())
