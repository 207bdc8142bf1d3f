"""Does the trunk for CPUs train the same networks as PyTorch's operators? Full runs of both, seed by seed.

    python benchmarks/equivalence.py train TRUNK [SEEDS]                          # the runs below, into a store of their own
    DTCL_TRUNK=pytorch python benchmarks/equivalence.py train OPERATORS [SEEDS]   # again, by PyTorch's operators
    python benchmarks/equivalence.py compare TRUNK OPERATORS

Writes `equivalence_cpu.csv`, one row per run and label fraction; the chapter on trust shows it. Training amplifies rounding, so a run ends
elsewhere; what must agree is the distribution over seeds. The rule, made before any of these runs: over the seeds, no mean paired difference of
an accuracy excludes zero after Holm's correction over all of them, and that of Test-ID, each seed's mean over configurations and label fractions, has
a 90 % interval within 0.02 of zero (two one-sided tests at 5 %). The file that is here is of an earlier protocol.
"""

from __future__ import annotations

import sys
from pathlib import Path

from machine import write

from dtcl_core.config import METRICS, Run
from dtcl_core.launch import local
from dtcl_core.results import FRACTIONS, Store

SEEDS = (0, 1, 2, 3, 4, 1000, 1001, 1002, 1003, 1004)


def runs(seeds: int = len(SEEDS)) -> list[Run]:
    """A baseline, the other baseline of one temperature, and a proposed method, on each seed."""
    return [
        run
        for seed in SEEDS[:seeds]
        for run in (
            Run("standard", 0.05, seed=seed),
            Run("same_domain", 0.1, seed=seed),
            Run("dw_pairs", 0.075, 0.5, seed=seed),
        )
    ]


def train(folder: str, seeds: int = len(SEEDS)) -> None:
    local.compute(runs(seeds), Store(folder), "cpu", precision="float32")


def compare(folder: str, other: str) -> None:
    """Rows of both kinds, side by side."""
    by_trunk, by_operators = Store(folder).rows(), Store(other).rows()
    lines = []
    for run in runs():
        new, old = by_trunk.get(run.key), by_operators.get(run.key)
        if new is None or old is None or old["provenance"].get("trunk") or not new["provenance"].get("trunk"):
            continue
        for fraction in FRACTIONS:
            line = {"key": run.key, "method": run.method, "seed": run.seed, "label_fraction": fraction}
            for metric in METRICS:
                line[f"{metric}_trunk"] = new["metrics"][fraction][metric]
                line[f"{metric}_operators"] = old["metrics"][fraction][metric]
            told = new["provenance"]
            names = ("sources", "torch", "trunk")
            lines.append({**line, **{name: told[name] for name in names}, "date": told["created"][:10]})
    write(Path(__file__).parent / "equivalence_cpu.csv", lines)
    print(f"{len(lines) // len(FRACTIONS)} runs of both kinds.")


if __name__ == "__main__":
    command, folder, *rest = sys.argv[1:]
    train(folder, *map(int, rest)) if command == "train" else compare(folder, *rest)
