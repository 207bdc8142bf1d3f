"""What a GPU makes of stacks of the paper's runs: by PyTorch's operators, by the trunk, and by the trunk with its steps recorded.

    python benchmarks/gpu.py        # needs an NVIDIA GPU; writes gpu.csv beside this file

Each figure is the third epoch of a stack: libraries set themselves up in the first, and the second records the step. Rows with the
hash 9d4befc7eb9c were computed instead: the time of an epoch's start, and 27 times that of a step.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import machine
import torch

from dtcl_core.config import Run
from dtcl_core.engine.device import release_memory
from dtcl_core.pretrain import Stack
from dtcl_study.experiments import REGISTRY

EPOCHS = 3
PATHS = {"PyTorch's operators": ("pytorch", False), "trunk": ("native", False), "trunk, steps recorded": ("native", True)}


def epoch_seconds(runs: Sequence[Run], device: torch.device, trunk: str, recorded: bool) -> float:
    """Seconds of an epoch of a stack."""
    stack = Stack(runs, device, "float32", trunk=trunk)
    stack.recordable = stack.recordable and recorded
    for _ in range(EPOCHS):
        torch.cuda.synchronize(device)
        began = time.perf_counter()
        stack.train_epoch()
        torch.cuda.synchronize(device)
    assert (stack.graph is not None) == recorded, "the step could not be recorded"
    return time.perf_counter() - began


def measure(device: torch.device, folder: Path) -> None:
    """Write gpu.csv to a folder."""
    rows = []
    for path, (trunk, recorded) in PATHS.items():
        for seeds in (1, 2, 4):
            runs = list(dict.fromkeys(run.training for run in REGISTRY["main_table"].runs("paper", seeds=seeds)))
            seconds = epoch_seconds(runs, device, trunk, recorded)
            figures = {"path": path, "runs": len(runs), "epoch_s": seconds, "run_epochs_s": len(runs) / seconds}
            rows.append(figures | machine.origin(device))
            release_memory(device)
    machine.write(folder / "gpu.csv", rows)


if __name__ == "__main__":
    measure(torch.device("cuda"), Path(__file__).parent)
