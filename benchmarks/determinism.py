"""How far the same run gives the same row: again, interrupted, in a stack, in another order, with other threads.

    python benchmarks/determinism.py [cpu|cuda [FOLDER]]

Runs are trained alone with one thread; then once more under each condition. Compared are the embeddings of the Test-ID
images (largest difference, relative to the largest entry) and the metrics (largest difference of an accuracy), after a few
epochs, over seeds. The last line is a yardstick: another seed. On a CPU, a process of its own does without its newest
instructions, as an older machine would. Writes `determinism_<device>.csv`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from machine import origin, write

from dtcl_core import evaluate, pretrain
from dtcl_core.config import Protocol, Run

EPOCHS, SEEDS = (1, 3, 10), 3
RUNS = [Run("dw_pairs", 0.175, 1.0), Run("standard", 0.1)]
OTHERS = [Run("dw_negatives", 0.075, 0.5), Run("mmd", 0.1, lambda_=1.0)]
Seen = dict[tuple[str, int], tuple[torch.Tensor, dict]]  # by run and epoch: embeddings and metrics


def look(seen: Seen) -> Callable[[pretrain.Stack], None]:
    """A callback that keeps what is compared of each run."""

    def after(stack: pretrain.Stack) -> None:
        if stack.epoch in EPOCHS:
            metrics, z = evaluate.evaluate(stack), stack.embed("test_id")
            for place, run in enumerate(stack.runs):
                seen[run.method, stack.epoch] = (z[place].cpu().clone(), metrics[run.key]["0.01"])

    return after


def trained(runs: list[Run], device: torch.device, threads: int = 1, stop_at: int | None = None) -> Seen:
    """Train the runs together, with an interruption before the step with that number if one is given."""
    torch.set_num_threads(threads)
    seen: Seen = {}
    interrupted = False
    with tempfile.TemporaryDirectory() as folder:
        path, steps = Path(folder) / "c.pt" if stop_at else None, 0

        def stop() -> bool:
            nonlocal steps
            steps += 1
            return steps == stop_at

        try:
            pretrain.train(runs, device, precision="float32", checkpoint=path, should_stop=stop, on_epoch=look(seen))
        except pretrain.Interrupted:
            interrupted, seen = True, {}  # only what comes after it is compared
            pretrain.train(runs, device, precision="float32", checkpoint=path, on_epoch=look(seen))
            assert min(epoch for _, epoch in seen) > 1, "the interruption was in the first epoch"
    assert interrupted == (stop_at is not None)
    return seen


def alone(runs: list[Run], device: torch.device, **options: int) -> Seen:
    """Train each run by itself."""
    return {key: value for run in runs for key, value in trained([run], device, **options).items()}


def alone_with_avx2(runs: list[Run]) -> Seen:
    """Train each run by itself, in a process that uses the instructions of an older CPU."""
    older = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seen.pt"
        torch.save([run.to_dict() for run in runs], path)
        subprocess.run([sys.executable, __file__, "child", str(path)], env={**os.environ, **older}, check=True)
        return torch.load(path)


def child(path: str) -> None:
    """What `alone_with_avx2` starts: runs are read from a file, what was seen of them is written there."""
    assert torch.backends.cpu.get_cpu_capability() == "AVX2"
    torch.save(alone([Run.from_dict(run) for run in torch.load(path)], torch.device("cpu")), path)


def main(kind: str = "cpu", out: str = str(Path(__file__).parent)) -> None:
    device, protocol = torch.device(kind), Protocol(epochs=max(EPOCHS))
    found: dict[str, list[tuple[int, float, float]]] = {}
    for seed in range(SEEDS):
        runs, others = ([replace(r, seed=seed, protocol=protocol) for r in some] for some in (RUNS, OTHERS))
        reference = alone(runs, device)
        conditions = {
            "again": alone(runs, device),
            "interrupted and resumed": alone(runs, device, stop_at=40),
            "two threads": alone(runs, device, threads=2),
            "in a stack of four": trained([*runs, *others], device),
            "in that stack, in another order": trained([*others, *runs[::-1]], device),
        }
        if device.type == "cuda":
            conditions["on a CPU"] = alone(runs, torch.device("cpu"))
        elif torch.backends.cpu.get_cpu_capability() == "AVX512":
            conditions["on a CPU with AVX2 only"] = alone_with_avx2(runs)
        conditions["another seed"] = alone([replace(run, seed=seed + SEEDS) for run in runs], device)
        stacked = conditions["in a stack of four"]
        for name, seen in conditions.items():
            against = stacked if "another order" in name else reference
            for key in seen.keys() & reference.keys():
                (z, metrics), (z0, metrics0) = seen[key], against[key]
                relative = ((z - z0).abs().max() / z0.abs().max()).item()
                apart = max(abs(metrics[m] - metrics0[m]) for m in metrics0 if metrics0[m] is not None)
                found.setdefault(name, []).append((key[1], relative, apart))
        print(f"seed {seed} is done", flush=True)
    write(
        Path(out) / f"determinism_{kind}.csv",
        [
            {
                "condition": name,
                "epochs": epochs,
                "runs": len(some := [(z, m) for e, z, m in values if e == epochs]),
                "identical": sum(z == 0 and m == 0 for z, m in some),
                "embeddings": max(z for z, _ in some),
                "accuracy": max(m for _, m in some),
                **origin(device),
            }
            for name, values in found.items()
            for epochs in EPOCHS
            if any(e == epochs for e, _, _ in values)
        ],
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(sys.argv[2])
    else:
        main(*sys.argv[1:])
