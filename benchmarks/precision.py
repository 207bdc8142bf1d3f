"""Whether bfloat16 convolutions change what runs measure: the same runs in both precisions, over seeds.

    python benchmarks/precision.py --device cpu

The hardest temperatures of the grid are among them (tau_alpha 0.05 with tau_beta 1.0). Both precisions of a seed see the
same data, views and initial weights, so their differences are paired. Writes `precision_<device>.csv`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import machine

from dtcl_core import evaluate, pretrain
from dtcl_core.config import Protocol, Run
from dtcl_core.device import resolve_device

CELLS = [("standard", 0.1, None), ("dw_negatives", 0.05, 1.0), ("dw_pairs", 0.05, 1.0), ("dw_pairs", 0.175, 0.5)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    device, protocol = resolve_device(options.device), Protocol(epochs=options.epochs)
    rows = []
    for seed in range(options.seeds):
        runs = [Run(m, tau, beta, seed=seed, protocol=protocol) for m, tau, beta in CELLS]
        for precision in ("float32", "bfloat16"):
            stack = pretrain.train(runs, device, precision=precision)
            measured = evaluate.evaluate(stack)
            for run in stack.runs:
                rows.append(
                    {
                        "method": run.method,
                        "tau_alpha": run.tau_alpha,
                        "tau_beta": "" if run.tau_beta is None else run.tau_beta,
                        "seed": seed,
                        "epochs": options.epochs,
                        "precision": precision,
                        "loss": stack.losses[-1][stack.runs.index(run)].item(),
                    }
                    | measured[run.key]["0.01"]
                    | machine.origin(device)
                )
            print(f"seed {seed}, {precision}: {stack.seconds:.0f} s", flush=True)
    machine.write(Path(__file__).parent / f"precision_{device.type}.csv", rows)


if __name__ == "__main__":
    main()
