"""Does a GPU train the same networks as a CPU? Stored runs that a GPU trained, trained again on this machine's CPU.

    python benchmarks/devices.py [I/N]    # part I of N; each appends to devices.csv beside this file what is not there yet

Training amplifies rounding, so single runs end elsewhere; what must agree is the distribution over seeds. The runs are configurations of the
weight that was chosen (`dtcl_study.left_open`), on each of its seeds, where a GPU trained them.

The first comparison has five configurations. Its rule, made before its runs: the 95 % interval over seeds of each accuracy's mean difference lies within
`audit.TOLERANCE` of zero, or at least contains zero. D-Test-ID missed this rule by 0.001, by Pairs where the embedding tells the domain.

The second comparison asks about just this, with other rows: Pairs in three other configurations in which the embedding tells the domain (D-Test-ID near
0.76 with 1 % of the labels), seeds 101 to 107, 21 runs. Its rule, made before its runs: the same for D-Test-ID alone. If this misses the rule too, a GPU
trains Pairs otherwise than a CPU does, and no table may mix their rows.

The third is of one seed and is not judged. A GPU trained Standard CL and Negatives of seed 0 of the grid first. A CPU has trained these 50 runs
again, so that one device trained the whole seed, and its rows took their place. The GPU's rows are read from the repository's history.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import machine
import pandas as pd
import torch

from dtcl_core.results import METRICS, Store
from dtcl_study import audit, left_open

# Of the rule's ten configurations, those that do not collapse in the paper.
PAIRS = ((0.1, 0.5), (0.2, 0.25), (0.25, 0.5), (0.175, 1.0), (0.5, 1.0))
FIRST = {pair: "dw_pairs" if number % 2 else "dw_negatives" for number, pair in enumerate(PAIRS)}
SECOND = dict.fromkeys(((0.05, 0.1), (0.175, 0.25), (0.25, 0.5)), "dw_pairs")
COMPARISONS = {1: FIRST, 2: SECOND}
REPLACED = "19a71e4:results/rows/20261126T135433-0421a8e1.jsonl"  # commit and path of the GPU's rows of the third


def stored(methods: dict[tuple[float, float], str]) -> dict[int, list[dict]]:
    """Rows of a comparison's runs that a GPU trained, by seed."""
    rows, found = Store().rows(), {}
    candidates = left_open.weight_candidates(left_open.TAKEN_NETWORKS)
    (taken,) = [candidate for candidate in candidates if {**left_open.BASE, **candidate.changes} == left_open.CHOSEN]
    for seed in left_open.WEIGHT_SEEDS + left_open.MORE_WEIGHT_SEEDS:
        for (tau_alpha, tau_beta), method in methods.items():
            key = taken.run({"method": method, "tau_alpha": tau_alpha, "tau_beta": tau_beta}, seed).key
            if rows[key]["provenance"]["device"] == "cuda":
                found.setdefault(seed, []).append(rows[key])
    return found


def replaced() -> list[dict]:
    """Lines of the third comparison."""
    before = subprocess.run(
        ["git", "show", REPLACED], cwd=Path(__file__).parent, check=True, capture_output=True, text=True
    ).stdout
    now = Store().rows()
    return [audit.compare_rows(row, now[row["key"]]) for row in map(json.loads, before.splitlines())]


def main(part: str = "0/1") -> None:
    index, count = map(int, part.split("/"))
    path = Path(__file__).with_suffix(".csv")
    there = set(pd.read_csv(path).key) if path.exists() else set()

    def keep(comparison: int, line: dict) -> None:
        told = {
            "comparison": comparison,
            **{name: line[name] for name in ("key", "seed", *METRICS)},
            **machine.origin(torch.device("cpu")),
        }
        pd.DataFrame([told]).to_csv(path, mode="a", header=not path.exists(), index=False, float_format="%.5g")

    for comparison, methods in COMPARISONS.items():
        missing = [left for rows in stored(methods).values() if (left := [row for row in rows if row["key"] not in there])]
        audit.retrained(missing[index::count], torch.device("cpu"), on_compared=partial(keep, comparison))
    for line in replaced() if index == 0 else []:
        if line["key"] not in there:
            keep(3, line)


if __name__ == "__main__":
    main(*sys.argv[1:])
