"""How exact a training step is: its gradients in each precision, against float64 on the same views, weights and masks.

    python benchmarks/rounding.py [cpu|cuda]

The error of a parameter's gradient is that of its worst entry, relative to its largest; a row holds the median and the worst
parameter, of the first step of a run. Another batch is the yardstick. On a CPU, batch norm is given its maps in the other
memory layout too: there PyTorch adds a channel up in double precision, but in the layout that convolutions are quickest in,
one value after another in float32. Where the trunk for CPUs runs, its gradients are held against float64 as well. Writes
`rounding_<device>.csv`.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import torch
from machine import origin, write
from torch import Tensor
from torch.nn import functional as F

from dtcl_core import losses
from dtcl_core.config import Protocol, Run
from dtcl_core.engine.device import reproducible
from dtcl_core.pretrain import Stack, choose_trunk

SEEDS = 3


def gradients(seed: int, dtype: torch.dtype, device: torch.device, step: int = 0, trunk: str = "pytorch") -> dict[str, Tensor]:
    """Gradients of the initial weights on a step's batch, convolutions in `dtype`, the rest in float32 or better."""
    stack = Stack([Run("standard", 0.1, seed=seed)], device, "float32", trunk=trunk)
    stack.encoder.train()
    stack.streams.draw(0)
    data, size, encoder = stack.streams, stack.protocol.batch_size, stack.encoder
    place = slice(step * size, (step + 1) * size)
    index, host = data.order[0, place], data.host_order[0, place]
    x = torch.cat([data.views(0, index, host, view) for view in range(2)])
    masks = data.dropout_masks(2 * size, 0, step)
    if dtype == torch.float64:
        encoder.double()
    encoder.dtype = dtype
    with reproducible(device):  # as in training
        z, z_pos = encoder(x[None], [1], masks).chunk(2, 1)
        losses.info_nce(z, z_pos, 0.1).sum().backward()
    return {name: p.grad.double().cpu() for name, p in encoder.named_parameters() if p.grad is not None}


def contiguous(norm: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A batch norm that is given its maps in the other layout."""
    return lambda x, *rest, **options: norm(x.contiguous(), *rest, **options).contiguous(memory_format=torch.channels_last)


def main(kind: str) -> None:
    device = torch.device(kind)
    torch.set_num_threads(1)
    rows = []
    for seed in range(SEEDS):
        exact = gradients(seed, torch.float64, device)
        found = {"bfloat16": gradients(seed, torch.bfloat16, device), "float32": gradients(seed, torch.float32, device)}
        if device.type == "cpu":
            with mock.patch.object(F, "batch_norm", contiguous(F.batch_norm)):
                found["float32, batch norm in the other layout"] = gradients(seed, torch.float32, device)
            if choose_trunk(Protocol(), device, "float32")[0] is not None:
                found["float32, the trunk for CPUs"] = gradients(seed, torch.float32, device, trunk="native")
        found["float64, another batch"] = gradients(seed, torch.float64, device, step=1)
        for name, seen in found.items():
            errors = [((seen[p] - g).abs().max() / g.abs().max()).item() for p, g in exact.items()]
            figures = {"median": statistics.median(errors), "worst": max(errors)}
            rows.append({"arithmetic": name, "seed": seed, **figures, **origin(device)})
    write(Path(__file__).parent / f"rounding_{kind}.csv", rows)


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["cpu"]))
