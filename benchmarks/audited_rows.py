"""Rows drawn from every experiment, trained again in other stacks, by the code as it is, and compared.

    OMP_NUM_THREADS=1 python benchmarks/audited_rows.py [A_PART [SEED [I N]]]

A_PART rows of each experiment's are drawn with SEED; with I and N only stacks I, I + N ... are trained, so that N
processes share them out. Adds to `audited_rows.csv`; the chapter on trust shows what it comes to. Rounding differs from stack to stack, so
these rows need not come out identical: they are compared in distribution (`dtcl_study.audit.verdict`).
"""

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from machine import origin

from dtcl_core.config import METRICS, Run
from dtcl_core.launch import local
from dtcl_core.results import Store
from dtcl_study import audit
from dtcl_study.experiments import REGISTRY

PATH = Path(__file__).parent / "audited_rows.csv"


def drawn(rows: Mapping[str, dict[str, Any]], a_part: int, seed: int) -> dict[str, tuple[str, Run]]:
    """The experiment and the run of each row drawn, by key; no run twice."""
    found: dict[Run, str] = {}
    for name, experiment in REGISTRY.items():
        runs = [run for run in experiment.runs("paper") if run.key in rows]
        there = [run for run in runs if rows[run.key]["status"] == "ok" and run not in found]
        there.sort(key=lambda run: run.key)
        found |= dict.fromkeys(random.Random(f"{seed} {name}").sample(there, min(a_part, len(there))), name)
    return {run.key: (name, run) for run, name in found.items()}


def main(a_part: int = 2, seed: int = 0, index: int = 0, count: int = 1) -> None:
    rows, device = Store().rows(), torch.device("cpu")
    picked = drawn(rows, a_part, seed)
    stacks = local.cut_into_stacks([run for _, run in picked.values()], local.CPU_STACK)[index::count]
    found = audit.retrained([[rows[run.key] for run in stack] for stack in stacks], device)
    is_new = not PATH.exists()
    with open(PATH, "a", newline="", encoding="utf-8") as file:
        for line in found.itertuples():
            fields = {
                "key": line.key, "part": picked[line.key][0], "run": line.run, "seed": line.seed,
                "expected": line.expected, "identical": bool(line.identical),
                **{name: f"{getattr(line, name):.5g}" for name in METRICS}, **origin(device),
            }  # fmt: skip
            writer = csv.DictWriter(file, list(fields), lineterminator="\n")
            if is_new:
                writer.writeheader()
                is_new = False
            writer.writerow(fields)
    print("\n".join(audit.verdict(found)[1]))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
