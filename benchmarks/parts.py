"""Where a training step's time goes, each part against its floor.

The floor of a part is the larger of two times: the operations it must do over the rate of a large matrix product, and the
bytes it must move (every tensor that later parts need written once, every input read once) over the bandwidth of a large
copy, both measured here in the same process. A part at twice its floor moves every byte twice, say. What an epoch costs
before its first step (draws, discriminators, the state for a checkpoint) and what evaluation costs in the end have no floor.

A step by the trunk for CPUs has other parts than one by PyTorch's operators. Its floor counts the multiplications that it does:
gray images have 9 taps, not 27; the first block is computed again on the way back; where a kernel sees nothing but the border,
its gradient is not computed. They are held against the processor's peak, for the trunk may be faster than a large product.
"""

from __future__ import annotations

from collections.abc import Callable

import machine
import torch

from dtcl_core import evaluate, pretrain
from dtcl_core.config import Protocol, Run
from dtcl_core.encoder import IMAGE_SIZE, feature_sizes
from dtcl_core.engine.device import reproducible
from dtcl_core.methods import METHODS

AREA = IMAGE_SIZE**2
Floors = dict[str, tuple[float, float]]  # operations and bytes of a part
Parts = dict[str, Callable[[], object]]
MULTIPLIED = (
    "sight",
    "trunk forward",
    "trunk backward",
    "linear and loss",
)  # parts of the trunk's step that are products


def members(runs: int, jitter: bool = False, protocol: Protocol | None = None) -> list[Run]:
    """Runs of one stream: half of them standard, half domain-weighted; or all with colour jitter."""
    protocol, half = protocol or Protocol(), -(-runs // 2)
    if jitter:
        return [Run("color_jitter", 0.05 + 0.01 * i, protocol=protocol) for i in range(runs)]
    plain = [Run("standard", 0.05 + 0.01 * i, protocol=protocol) for i in range(half)]
    return plain + [Run("dw_pairs", 0.1 + 0.01 * i, 0.1, protocol=protocol) for i in range(runs - half)]


def prepared(stack: pretrain.Stack) -> dict:
    """What the steps of a stack's first epoch need: its draws made, its discriminators fitted (which are returned)."""
    stack.streams.draw(0)
    stack.encoder.train()
    return stack.posteriors()


# --- floors -------------------------------------------------------------------------------------------------------------


def feature_counts(protocol: Protocol, runs: int) -> list[int]:
    """How many numbers enter the first block, and leave each."""
    images = 2 * protocol.batch_size
    return [images * AREA * 3, *(images * s * s * w * runs for s, w in zip(feature_sizes(protocol), protocol.channels))]


def shared_floors(protocol: Protocol, runs: int, parameters: int) -> Floors:
    """Of the parts that both paths have."""
    images, batch, dim = 2 * protocol.batch_size, protocol.batch_size, protocol.embedding_dim
    pairs = runs * batch * batch
    return {
        # Rows and columns of each crop, then two products; gray in, three channels out.
        "views": (images * 2 * 2 * IMAGE_SIZE**3, images * AREA * 4 * (1 + 3)),
        # Similarities and both gradients; the N x N matrix written and read on the way there and back.
        "loss": (2 * 3 * pairs * dim, 4 * 4 * pairs),
        # Parameter, gradient and two moments read; three of them written.
        "Adam": (12 * parameters, 4 * 7 * parameters),
    }


def operator_floors(protocol: Protocol, runs: int, itemsize: int, parameters: int) -> Floors:
    """Of a step of `runs` runs of one stream by PyTorch's operators."""
    images, widths = 2 * protocol.batch_size, protocol.channels
    features = feature_counts(protocol, runs)
    macs, before = [], 3
    for side, width in zip(feature_sizes(protocol), widths):
        macs.append(images * side * side * width * before * protocol.kernel_size**2 * runs)
        before = width
    linear, maps = features[-1] * protocol.embedding_dim, sum(features[1:])
    return shared_floors(protocol, runs, parameters) | {
        # Sixteen random bits in, a float out, for every unit of one run.
        "dropout masks": (0, (maps / runs) * (2 + 4)),
        # Each block: read its input, write the convolution, read that, write the activation.
        "forward": (2 * (sum(macs) + linear), itemsize * (features[0] + 4 * maps)),
        # Read activation, convolution and incoming gradient; write and twice read the convolution's; write the input's.
        "backward": (2 * (2 * sum(macs) - macs[0] + 2 * linear), itemsize * (features[0] + 7 * maps)),
    }


def trunk_multiplications(protocol: Protocol, colors: int = 1) -> dict[str, int]:
    """Multiplications that the trunk does an image: of the patches' moments, and of one run forward and backward.

    Args:
        protocol: of the encoder; its kernels are 3 x 3 with stride 2.
        colors: 1 for gray images and a colour each, 3 for images in colour.
    """
    sides, widths = feature_sizes(protocol), protocol.channels
    taps = 9 * colors
    first = sides[0] ** 2 * taps * widths[0]
    tinted = 9 * 3 * widths[0] if colors == 1 else 0  # a kernel for the image's colour, and its gradient
    forward, backward = first + tinted, 2 * (first + tinted)
    for before, side, width_in, width_out in zip(sides, sides[1:], widths, widths[1:]):
        kernels = width_in * width_out
        # Sums over rows (columns are alike): what each of three taps sees of the input but the border; by how many taps an
        # input is seen.
        seen = (side - 1) + side + (side - (before < 2 * side))
        seeing = -(-before // 2) + 2 * (before // 2)
        forward += side**2 * 9 * kernels
        backward += (seen**2 + seeing**2) * kernels
    return {"sight": sides[0] ** 2 * taps * (taps + 1), "trunk forward": forward, "trunk backward": backward}


def trunk_floors(protocol: Protocol, runs: int, parameters: int, colors: int = 1) -> Floors:
    """Of a step of `runs` runs of one stream by the trunk for CPUs."""
    images, features = 2 * protocol.batch_size, feature_counts(protocol, runs)
    counts = trunk_multiplications(protocol, colors)
    linear, kept = features[-1] * protocol.embedding_dim, sum(features[2:])  # the first block's map is never kept
    floors = shared_floors(protocol, runs, parameters)
    loss = floors.pop("loss")
    return floors | {
        # A bit for every unit of one run.
        "dropout masks": (0, sum(features[1:]) / runs / 8),
        "sight": (2 * images * counts["sight"], 4 * images * AREA * colors),
        # Convolutions written, and read but for the last, which is normed into the output.
        "trunk forward": (2 * images * runs * counts["trunk forward"], 4 * (2 * kept + features[-1])),
        # Convolutions, output and its gradient read; the gradients between blocks written and read.
        "trunk backward": (2 * images * runs * counts["trunk backward"], 4 * (3 * kept + features[-1])),
        # The products there and back; the features read twice and their gradient written.
        "linear and loss": (2 * 3 * linear + loss[0], 4 * 3 * features[-1] + loss[1]),
    }


# --- parts --------------------------------------------------------------------------------------------------------------


def common_parts(stack: pretrain.Stack, posteriors: dict) -> Parts:
    """The parts that both paths have, and what is more than a part."""
    data, size, done = stack.streams, stack.protocol.batch_size, [0]
    index, host = data.order[:, :size], data.host_order[:, :size]

    def step() -> None:
        stack.step(done[0] % data.steps, posteriors)
        done[0] += 1

    def epoch_start() -> None:
        prepared(stack)
        stack.state()

    return {
        "views": lambda: data.both_views(0, index[0], host[0]),
        "dropout masks": lambda: data.dropout_masks(2 * size, 0, 0),
        "Adam": lambda: [optimizer.step() for optimizer in stack.networks.optimizers],
        "whole step": step,
        "epoch's start": epoch_start,
        "evaluation": lambda: evaluate.evaluate(stack),
    }


def loss_of(stack: pretrain.Stack, embedded: torch.Tensor, posteriors: dict) -> torch.Tensor:
    """The sum of all runs' losses on the first batch."""
    index = stack.streams.order[:, : stack.protocol.batch_size]
    domains, places = stack.streams.domains.gather(1, index)[stack.stream_of_run], index[stack.stream_of_run]
    z, z_pos = embedded.chunk(2, 1)
    batches = [(g, stack._batch(g, z, z_pos, domains, places, posteriors)) for g in stack.groups]
    return sum((METHODS[g.method].loss(batch).sum() for g, batch in batches), torch.zeros((), device=stack.device))


def operator_parts(stack: pretrain.Stack, common: Parts, posteriors: dict) -> Parts:
    """The parts of a step by PyTorch's operators."""
    images, masks = [common["views"]()], common["dropout masks"]()
    embedded = stack.encoder(images, stack.counts, masks).detach().requires_grad_()

    def loss() -> torch.Tensor:
        return torch.autograd.grad(loss_of(stack, embedded, posteriors), embedded)[0]

    gradient, outputs = loss(), []

    def forward() -> None:
        outputs[:] = [stack.encoder(images, stack.counts, masks)]

    def backward() -> None:
        for optimizer in stack.networks.optimizers:
            optimizer.zero_grad(set_to_none=True)
        outputs[0].backward(gradient, retain_graph=True)

    return common | {"forward": forward, "backward": backward, "loss": loss}


def trunk_parts(stack: pretrain.Stack, common: Parts, posteriors: dict) -> Parts:
    """The parts of a step by the trunk for CPUs."""
    encoder, trunk = stack.encoder, stack.trunk
    assert trunk is not None
    seen, masks = (
        common["views"](),
        [block[0] for block in stack.streams.dropout_masks(2 * stack.protocol.batch_size, 0, 0)],
    )
    sight = trunk.sight(seen, masks, moments=True)
    blocks = [list(part) for part in (encoder.convolutions, encoder.scales, encoder.shifts)]
    outputs: list[torch.Tensor] = []

    def forward() -> None:
        outputs[:] = [trunk.train([sight], stack.counts, *blocks)[0]]

    forward()
    flat = outputs[0].detach().requires_grad_()
    last = [encoder.weight, encoder.bias]

    def linear_and_loss() -> torch.Tensor:
        z = torch.baddbmm(encoder.bias[:, None], flat, encoder.weight)
        return torch.autograd.grad(loss_of(stack, z, posteriors), [flat, *last])[0]

    gradient = linear_and_loss()

    def backward() -> None:
        torch.autograd.grad(outputs[0], [p for part in blocks for p in part], gradient, retain_graph=True)

    backward()
    common["whole step"]()  # so that Adam has gradients
    return common | {
        "sight": lambda: trunk.sight(seen, masks, moments=True),
        "trunk forward": forward,
        "trunk backward": backward,
        "linear and loss": linear_and_loss,
    }


ORDER = (
    "views", "dropout masks", "sight", "forward", "trunk forward", "backward", "trunk backward", "loss", "linear and loss",
    "Adam", "whole step", "epoch's start", "evaluation",
)  # fmt: skip


def timed_parts(stack: pretrain.Stack) -> dict[str, float]:
    """Seconds of each part, over one batch of the first epoch."""
    posteriors = prepared(stack)
    common = common_parts(stack, posteriors)
    with reproducible(stack.device):  # as in training
        made = (operator_parts if stack.trunk is None else trunk_parts)(stack, common, posteriors)
        return {name: machine.seconds(made[name], stack.device) for name in ORDER if name in made}


def measure(device: torch.device, runs: int, precision: str, protocol: Protocol | None = None) -> list[dict]:
    """Time the parts of a step of a stack, half of it standard, half domain-weighted, and print them: rows of a table."""
    stack = pretrain.Stack(members(runs, protocol=protocol), device, precision)
    itemsize, dtype = (2, torch.bfloat16) if stack.precision == "bfloat16" else (4, torch.float32)
    speed, rate = machine.bandwidth(device), machine.matrix_rate(device, dtype)
    exact = rate if dtype == torch.float32 else machine.matrix_rate(device, torch.float32)
    peak = machine.peak_rate(torch.get_num_threads()) if device.type == "cpu" else None
    times = timed_parts(stack)
    count = sum(p.numel() for p in stack.encoder.parameters())
    if stack.trunk is None:
        floors, fast = operator_floors(stack.protocol, runs, itemsize, count), rate
    else:
        floors, fast = trunk_floors(stack.protocol, runs, count), max(rate, peak or 0.0)
    floor = {
        name: max(operations / (fast if "forward" in name or "backward" in name else exact), size / speed)
        for name, (operations, size) in floors.items()
    }
    floor["whole step"] = sum(floor.values())
    threads = f" on {torch.get_num_threads()} threads" if device.type == "cpu" else ""
    print(
        f"\nA step of {runs} runs by {stack.path} in {stack.precision}{threads}: copies {speed / 1e9:.1f} GB/s, "
        f"products {rate / 1e9:.0f} GFLOP/s{f', peak {peak / 1e9:.0f}' if peak else ''}"
    )
    print(f"{'part':<16}{'ms':>10}{'floor ms':>10}{'ratio':>8}")
    for name, taken in times.items():
        print(f"{name:<16}{1e3 * taken:>10.3f}", end="")
        print(f"{1e3 * floor[name]:>10.3f}{taken / floor[name]:>8.1f}" if name in floor else "")
    return [
        {
            "part": name,
            "ms": 1e3 * taken,
            "floor_ms": 1e3 * floor[name] if name in floor else "",
            "ratio": taken / floor[name] if name in floor else "",
            "runs": runs,
            "path": "operators" if stack.trunk is None else "trunk",
            "precision": stack.precision,
            "copy_gb_s": speed / 1e9,
            "product_gflop_s": rate / 1e9,
            "peak_gflop_s": peak / 1e9 if peak else "",
        }
        | machine.origin(device)
        for name, taken in times.items()
    ]
