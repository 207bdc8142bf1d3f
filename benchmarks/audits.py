"""What audits of the stored rows came to: retrains whole stacks that must come out identical here, and keeps one line per stored row.

    OMP_NUM_THREADS=1 python benchmarks/audits.py [PICKED [SEED]]

Adds to `audits.csv`; the chapter on trust shows it. The threads must be those that the rows were trained with.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import torch
from machine import origin, write

from dtcl_core.config import METRICS
from dtcl_core.results import Store
from dtcl_study import audit


def main(picked: int = 1, seed: int = 0) -> None:
    store, path = Store(), Path(__file__).parent / "audits.csv"
    found = audit.audit(store, picked, "cpu", seed=seed, exact=True)
    rows = store.rows()
    lines = [
        {
            "key": line.key,
            "epochs": rows[line.key]["run"]["protocol"]["epochs"],
            "created": rows[line.key]["provenance"]["created"][:10],
            "expected": line.expected,
            "identical": bool(line.identical),
            "largest": max(abs(getattr(line, metric)) for metric in METRICS),
            **origin(torch.device("cpu")),
        }
        for line in found.itertuples()
    ]
    before = pd.read_csv(path, dtype=str).to_dict("records") if path.exists() else []
    write(path, [*before, *lines])
    print("\n".join(audit.verdict(found)[1]))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
