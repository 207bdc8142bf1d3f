"""What training asks of a GPU, counted on a simulated device, and the time that puts a floor under: computed, never measured.

    python benchmarks/simulated.py

Stacks of several sizes, of one method and of all, run an epoch's start and a training step on the simulated device of the tests,
without values. Counted are launches (operators that compute; each is at least one kernel), operations of matrix products and
convolutions, bytes that operators read and write, and the most memory that an epoch or an evaluation holds. What kernels
need for themselves is not seen: grouped convolutions and small kernels are slower on a GPU than their bytes.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import machine
import pandas as pd
import torch

from dtcl_core import pretrain
from dtcl_core.config import Protocol, Run
from dtcl_core.launch import local, selfcheck
from dtcl_study.experiments import REGISTRY

HERE = Path(__file__).resolve().parent
SIZES = (1, 24, 192)
LAUNCH_SECONDS = 5e-6  # assumed: what one operator costs the host, from Python to the driver; published figures are 3 to 10


class Gpu(NamedTuple):
    """A GPU's published peaks: bytes a second, and operations a second by type, dense, without TF32."""

    bandwidth: float
    rates: dict[torch.dtype, float]


# NVIDIA's data sheets: "H100 Tensor Core GPU" (SXM5: 3.35 TB/s; bfloat16 1,979 TFLOPS with sparsity, half of it dense; FP32 67;
# FP64 67 by tensor cores) and "H200 Tensor Core GPU" (SXM: 4.8 TB/s, the same processors).
RATES = {torch.bfloat16: 989e12, torch.float32: 67e12, torch.float64: 67e12}
GPUS = {"H100 SXM": Gpu(3.35e12, RATES), "H200 SXM": Gpu(4.8e12, RATES)}


@cache
def harness() -> ModuleType:
    """The simulated device of the tests, whose file has this one's name."""
    if (known := sys.modules.get("simulated")) is not None and hasattr(known, "Simulation"):
        return known
    spec = importlib.util.spec_from_file_location("simulated_device", HERE.parent / "tests" / "simulated.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Counts(NamedTuple):
    """Calls of a training step and of an epoch's start; most memory held, in bytes; streams, and steps an epoch."""

    step: list[Any]
    start: list[Any]
    peak: int
    streams: int
    steps: int


def count(runs: Sequence[Run], precision: str = "auto") -> Counts:
    """Count an epoch's start, a training step, and the memory of those and of embedding a split."""
    with harness().Simulation(values=False) as simulation:
        with simulation.waiting_in("pretrain.Stack.__init__"):
            stack = pretrain.Stack(runs, simulation.device, precision)
        stack.step(0, selfcheck.begun(stack, 0))  # the optimisers' state is made
        simulation.reset()
        posteriors = selfcheck.begun(stack, 1)
        stack.epoch = 1
        stack.state()
        start, peak = list(simulation.calls), simulation.peak
        simulation.reset()
        stack.step(1, posteriors)
        step, peak = list(simulation.calls), max(peak, simulation.peak)
        simulation.reset()
        stack.embed("train")
        return Counts(step, start, max(peak, simulation.peak), len(stack.counts), stack.streams.steps)


def device_ms(calls: Sequence[Any], gpu: Gpu) -> float:
    """Milliseconds that calls take a GPU at least: each the longer of its operations and its bytes, one after the other."""
    return 1e3 * sum(max(c.flops / gpu.rates.get(c.dtype, torch.inf), c.moved / gpu.bandwidth) for c in calls)


def rows_of(name: str, runs: Sequence[Run], stacks: int = 0, precision: str = "bfloat16") -> list[dict]:
    """Lines of the CSV for a stack, one for each GPU; `stacks` such are needed for the paper's comparison."""
    found = count(runs, precision)
    launches = len(found.start) + found.steps * len(found.step)
    told = {
        "stack": name,
        "runs": len(runs),
        "streams": found.streams,
        "precision": precision,
        "stacks": stacks,
        "launches": len(found.step),
        "start_launches": len(found.start),
        "gflop": sum(c.flops for c in found.step) / 1e9,
        "gb": sum(c.moved for c in found.step) / 1e9,
        "peak_gb": found.peak / 1e9,
        "estimate_gb": len(runs) * local.bytes_of_run(runs[0].protocol, precision) / 1e9,
        "launch_ms": 1e3 * LAUNCH_SECONDS * len(found.step),
        "epoch_launch_ms": 1e3 * LAUNCH_SECONDS * launches,
    }
    return [
        told
        | {
            "gpu": gpu,
            "device_ms": device_ms(found.step, peaks),
            "epoch_device_ms": device_ms(found.start, peaks) + found.steps * device_ms(found.step, peaks),
        }
        for gpu, peaks in GPUS.items()
    ]


def standard_runs(size: int) -> list[Run]:
    """Runs of one method that share their views."""
    return [Run("standard", 0.05 + 0.001 * i) for i in range(size)]


def paper_stacks() -> dict[tuple, list[list[Run]]]:
    """The stacks of the paper's comparison on a large GPU, alike ones together: they differ in their seed."""
    stacks = local.cut_into_stacks(REGISTRY["main_table"].runs("paper"), local.GPU_STACK)
    alike: dict[tuple, list[list[Run]]] = {}
    for stack in stacks:
        kinds = Counter((run.method, run.discriminator) for run in stack)
        streams = len({(run.seed, run.sigma, run.method == "color_jitter") for run in stack})
        alike.setdefault((streams, *sorted(kinds.items(), key=str)), []).append(stack)
    return alike


def mixed_runs(size: int) -> list[Run]:
    """Runs of all methods and of five seeds, drawn evenly from the paper's comparison."""
    runs = sorted(REGISTRY["main_table"].runs("paper"), key=lambda run: (run.method, run.seed, run.key))
    return runs[:: -(-len(runs) // size)]


def computed_minutes(frame: pd.DataFrame) -> dict[str, float]:
    """Minutes that the paper's comparison takes each GPU at least, by lines of `simulated.csv`: computed, not measured.

    An epoch takes the longer of launching its operators and of what the device does; stacks follow each other.
    """
    rows = frame[frame.stacks > 0]
    milliseconds = rows[["epoch_launch_ms", "epoch_device_ms"]].max(axis=1) * rows.stacks * Protocol().epochs
    return (milliseconds.groupby(rows.gpu, sort=False).sum() / 60_000).to_dict()


def main() -> None:
    rows = [row for size in SIZES for row in rows_of("standard, one stream", standard_runs(size))]
    rows += [row for size in SIZES[1:] for row in rows_of("all methods, five seeds", mixed_runs(size))]
    for alike in paper_stacks().values():
        rows += rows_of("the paper's, one seed", alike[0], len(alike))
    told = machine.origin(torch.device("cpu")) | {
        "machine": "simulated: counted and computed, not measured",
        "threads": "",
    }
    machine.write(HERE / "simulated.csv", [row | told for row in rows])
    frame = pd.DataFrame(rows)
    print(
        frame[["stack", "runs", "gpu", "launches", "gflop", "gb", "peak_gb", "estimate_gb", "launch_ms", "device_ms"]]
        .round(2)
        .to_string()
    )
    for gpu, minutes in computed_minutes(frame).items():
        print(
            f"The paper's comparison takes an {gpu} at least {minutes:.1f} minutes, as computed; {Protocol().epochs} epochs a run."
        )


if __name__ == "__main__":
    main()
