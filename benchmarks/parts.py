"""Where a training step's time goes, each part against its floor.

The floor of a part is the larger of two times: the operations it must do over the rate of a large matrix product, and the
bytes it must move (every tensor that later parts need written once, every input read once) over the bandwidth of a large
copy, both measured here in the same process. A part at twice its floor moves every byte twice, say. What an epoch costs
before its first step (draws, discriminators, the state for a checkpoint) and what evaluation costs in the end have no floor.
"""

from __future__ import annotations

from pathlib import Path

import machine
import torch

from dtcl_core import evaluate, pretrain
from dtcl_core.config import Protocol, Run
from dtcl_core.device import reproducible
from dtcl_core.encoder import IMAGE_SIZE, feature_sizes
from dtcl_core.methods import METHODS

AREA = IMAGE_SIZE**2


def floors(protocol: Protocol, runs: int, itemsize: int, parameters: int) -> dict[str, tuple[float, float]]:
    """(operations, bytes) of each part of a step of `runs` runs of one stream."""
    images, batch, dim = 2 * protocol.batch_size, protocol.batch_size, protocol.embedding_dim
    sides, widths = feature_sizes(protocol), protocol.channels
    inputs = [images * AREA * 3, *(images * s * s * w * runs for s, w in zip(sides, widths))]
    macs, before = [], 3
    for side, width in zip(sides, widths):
        macs.append(images * side * side * width * before * protocol.kernel_size**2 * runs)
        before = width
    linear = inputs[-1] * dim
    maps = sum(inputs[1:])
    pairs = runs * batch * batch
    return {
        # Rows and columns of each crop, then two products; gray in, three channels out.
        "views": (images * 2 * 2 * IMAGE_SIZE**3, images * AREA * 4 * (1 + 3)),
        # Sixteen random bits in, a float out, for every unit of one run.
        "dropout masks": (0, (maps / runs) * (2 + 4)),
        # Each block: read its input, write the convolution, read that, write the activation.
        "forward": (2 * (sum(macs) + linear), itemsize * (inputs[0] + 4 * maps)),
        # Read activation, convolution and incoming gradient; write and twice read the convolution's; write the input's.
        "backward": (2 * (2 * sum(macs) - macs[0] + 2 * linear), itemsize * (inputs[0] + 7 * maps)),
        # Similarities and both gradients; the N x N matrix written and read on the way there and back.
        "loss": (2 * 3 * pairs * dim, 4 * 4 * pairs),
        # Parameter, gradient and two moments read; three of them written.
        "Adam": (12 * parameters, 4 * 7 * parameters),
    }


def timed_parts(stack: pretrain.Stack) -> dict[str, float]:
    """Seconds of each part, over one batch of the current epoch."""
    data, size, device = stack.streams, stack.protocol.batch_size, stack.device
    data.draw(0)
    stack.encoder.train()
    index, host = data.order[:, :size], data.host_order[:, :size]
    posteriors = {
        g.method: stack._fit_discriminator(*stack._embed_for_discriminator(g)) for g in stack.groups if g.discriminator
    }

    def views():
        return [torch.cat([data.views(0, index[0], host[0], view) for view in range(2)])]

    images, masks = views(), data.dropout_masks(2 * size, 0, 0)
    domains = data.domains.gather(1, index)[stack.stream_of_run]
    embedded = stack.encoder(images, stack.counts, masks).detach().requires_grad_()

    def loss():
        z, z_pos = embedded.chunk(2, 1)
        total = sum(METHODS[g.method].loss(stack._batch(g, z, z_pos, domains, posteriors)).sum() for g in stack.groups)
        return torch.autograd.grad(total, embedded)[0]

    gradient = loss()
    outputs: list[torch.Tensor] = []

    def forward():
        outputs[:] = [stack.encoder(images, stack.counts, masks)]

    def backward():
        for optimizer in stack.optimizers:
            optimizer.zero_grad(set_to_none=True)
        outputs[0].backward(gradient, retain_graph=True)

    whole = [0]

    def step():
        stack.step(whole[0] % data.steps, posteriors)
        whole[0] += 1

    def epoch_start():
        data.draw(0)
        for group in stack.groups:
            if group.discriminator:
                stack._fit_discriminator(*stack._embed_for_discriminator(group))
        stack.state()

    parts = {
        "views": views,
        "dropout masks": lambda: data.dropout_masks(2 * size, 0, 0),
        "forward": forward,
        "backward": backward,
        "loss": loss,
        "Adam": lambda: [optimizer.step() for optimizer in stack.optimizers],
        "whole step": step,
        "epoch's start": epoch_start,
        "evaluation": lambda: evaluate.evaluate(stack),
    }
    with reproducible(device):  # as in training
        return {name: machine.seconds(part, device) for name, part in parts.items()}


def measure(device: torch.device, runs: int, precision: str, out: Path) -> None:
    """Time the parts of a step of a stack, half of it standard, half domain-weighted, and write them to the folder `out`."""
    half = -(-runs // 2)
    members = [Run("standard", 0.05 + 0.01 * i) for i in range(half)]
    members += [Run("dw_pairs", 0.1 + 0.01 * i, 0.1) for i in range(runs - half)]
    stack = pretrain.Stack(members, device, precision)
    itemsize, dtype = (2, torch.bfloat16) if stack.precision == "bfloat16" else (4, torch.float32)
    speed, rate = machine.bandwidth(device), machine.matrix_rate(device, dtype)
    exact = rate if dtype == torch.float32 else machine.matrix_rate(device, torch.float32)
    times = timed_parts(stack)
    count = sum(p.numel() for p in stack.encoder.parameters())
    floor = {
        name: max(operations / (rate if name in ("forward", "backward") else exact), size / speed)
        for name, (operations, size) in floors(stack.protocol, runs, itemsize, count).items()
    }
    floor["whole step"] = sum(floor.values())
    print(
        f"\nA step of {runs} runs in {stack.precision}: copies {speed / 1e9:.1f} GB/s, products {rate / 1e9:.0f} GFLOP/s"
    )
    print(f"{'part':<16}{'ms':>10}{'floor ms':>10}{'ratio':>8}")
    for name, taken in times.items():
        print(f"{name:<16}{1e3 * taken:>10.3f}", end="")
        print(f"{1e3 * floor[name]:>10.3f}{taken / floor[name]:>8.1f}" if name in floor else "")
    machine.write(
        out / f"{device.type}_parts.csv",
        [
            {
                "part": name,
                "ms": 1e3 * taken,
                "floor_ms": 1e3 * floor[name] if name in floor else "",
                "ratio": taken / floor[name] if name in floor else "",
                "runs": runs,
                "precision": stack.precision,
                "copy_gb_s": speed / 1e9,
                "product_gflop_s": rate / 1e9,
            }
            | machine.origin(device)
            for name, taken in times.items()
        ],
    )
