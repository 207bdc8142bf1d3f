"""Whether bfloat16 convolutions change what runs measure: the same runs in both precisions, over seeds.

    python benchmarks/precision.py --device cpu

The hardest temperatures of the grid are among them (tau_alpha 0.05 with tau_beta 1.0). Both precisions of a seed see the
same data, views and initial weights, so their differences are paired. Adds to `precision_<device>.csv` what it lacks, a
seed and precision at a time, so that it can be stopped and called again.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import machine
import torch

from dtcl_core import evaluate, pretrain
from dtcl_core.config import Protocol, Run
from dtcl_core.engine.device import resolve_device

CELLS = [("standard", 0.1, None), ("dw_negatives", 0.05, 1.0), ("dw_pairs", 0.05, 1.0), ("dw_pairs", 0.175, 0.5)]
PRECISIONS = ("float32", "bfloat16")


def runs_of(seed: int, epochs: int) -> list[Run]:
    return [Run(m, tau, beta, seed=seed, protocol=Protocol(epochs=epochs)) for m, tau, beta in CELLS]


def measure(seed: int, epochs: int, precision: str, device: torch.device) -> list[dict]:
    """A row of the CSV for each cell, trained together."""
    stack = pretrain.train(runs_of(seed, epochs), device, precision=precision)
    measured, losses = evaluate.evaluate(stack), stack.losses[-1].tolist()
    print(f"seed {seed}, {precision}: {stack.seconds:.0f} s", flush=True)
    return [
        {
            "method": run.method,
            "tau_alpha": run.tau_alpha,
            "tau_beta": "" if run.tau_beta is None else run.tau_beta,
            "seed": seed,
            "epochs": epochs,
            "precision": precision,
            "loss": loss,
        }
        | measured[run.key]["0.01"]
        | machine.origin(device)
        for run, loss in zip(stack.runs, losses)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    device = resolve_device(options.device)
    path = Path(__file__).parent / f"precision_{device.type}.csv"
    rows = list(csv.DictReader(path.open(encoding="utf-8"))) if path.exists() else []
    there = {(row["seed"], row["epochs"], row["precision"]) for row in rows}
    for seed in range(options.seeds):
        for precision in PRECISIONS:
            if (str(seed), str(options.epochs), precision) not in there:
                rows += measure(seed, options.epochs, precision, device)
                machine.write(path, rows)


if __name__ == "__main__":
    main()
