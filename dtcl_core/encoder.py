"""The paper's encoder as a stack: R networks of one shape train side by side and share no parameters.

A network is blocks (three by default) of convolution, batch norm, dropout and ReLU, then one linear layer. In the first block,
runs that see the same images share one dense convolution. In the others, the convolutions are one with R groups. The batch norms
are one over R x channels (exactly one batch norm for each run), and the linear layers are one batched matrix product.

On CPUs with AVX-512 or AVX2 and on GPUs our own code computes the blocks, if it can (`trunk.supported`). With PyTorch's
operators, a CPU takes a large stack in *lanes*, a few runs at a time, because pixels of very many channels do not fit its caches.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from . import keyed
from .config import Protocol
from .engine.device import is_accelerator
from .engine.trunk import EPSILON, MOMENTUM, Padded, Tinted, Trunk

IMAGE_SIZE = 28
CPU_LANE = 8  # most runs of a lane

Runs = slice | Tensor  # which runs: a stretch of them, or their indices


def feature_sizes(protocol: Protocol) -> list[int]:
    """Side of the square feature map after each block, in pixels; raises ValueError if a block would have none left."""
    sizes, size = [], IMAGE_SIZE
    for _ in protocol.channels:
        size = -(-size // 2) if protocol.downsampling == "stride" else size // 2
        if size < 1:
            raise ValueError(f"channels={protocol.channels}: too many blocks for {IMAGE_SIZE} x {IMAGE_SIZE} images.")
        sizes.append(size)
    return sizes


def dropout_shapes(protocol: Protocol) -> list[tuple[int, int, int]]:
    """Shape (side, side, channels) of each block's dropout mask; side is 1 when whole channels are dropped."""
    sizes = feature_sizes(protocol)
    if protocol.downsampling != "stride":  # dropout comes before the pooling
        sizes = [IMAGE_SIZE, *sizes[:-1]]
    if protocol.dropout_kind == "channel":
        sizes = [1] * len(sizes)
    return [(size, size, width) for size, width in zip(sizes, protocol.channels)]


def initial(seeds: Sequence[int], shape: tuple[int, ...], fan_in: int, name: str) -> nn.Parameter:
    """A parameter [R, *shape], uniform on +-1/sqrt(fan_in) like PyTorch's layers, and drawn from each run's seed."""
    bound = 1.0 / math.sqrt(fan_in)
    drawn = {seed: torch.from_numpy(bound * (2 * keyed.uniform(shape, seed, "weights", name) - 1)) for seed in set(seeds)}
    return nn.Parameter(torch.stack([drawn[seed] for seed in seeds]).float())


class _ReluDrop(torch.autograd.Function):
    """``relu(x)`` and dropout in one in-place pass; ceilings (0 drops a unit) are [B, R C, h, w], or [B, h, w, C] for each stream."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ceiling: Tensor | Sequence[Tensor], counts: Sequence[int]) -> Tensor:
        zero = x.new_zeros(())
        if isinstance(ceiling, Tensor):
            x.clamp_(zero, ceiling)
        else:
            maps = x.permute(0, 2, 3, 1).unflatten(-1, (sum(counts), -1))  # [B, h, w, R, C]
            for part, shared in zip(maps.split(list(counts), 3), ceiling):
                part.clamp_(zero, shared[:, :, :, None])
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (out,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(gradient, out, 0), None, None


class Encoder(nn.Module):
    """R encoders, with projector heads if asked for, each initialised from its seed.

    Args:
        seeds: one for each run; runs with equal seeds start from the same weights.
        protocol: the encoder's widths, kernel, dropout and the rest of its shape.
        projector: the head between the embedding and the loss: None, "linear" or "mlp".
        projector_dim: the head's output dimension.

    Attributes:
        dtype: of the convolutions and feature maps; the linear layers stay in float32.
        trunk: computes the blocks in place of PyTorch's operators; None means PyTorch's operators.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        protocol: Protocol,
        projector: str | None = None,
        projector_dim: int | None = None,
    ):
        super().__init__()
        self.protocol, self.runs, self.dtype = protocol, len(seeds), torch.float32
        self.trunk: Trunk | None = None
        kernel, before = protocol.kernel_size, 3
        self.convolutions, self.scales, self.shifts = nn.ParameterList(), nn.ParameterList(), nn.ParameterList()
        for block, width in enumerate(protocol.channels):
            # No bias: batch norm would subtract it. With ReLU before the norm there is none either.
            fan_in = before * kernel * kernel
            self.convolutions.append(initial(seeds, (width, before, kernel, kernel), fan_in, f"conv{block}"))
            self.scales.append(nn.Parameter(torch.ones(self.runs, width)))
            self.shifts.append(nn.Parameter(torch.zeros(self.runs, width)))
            self.register_buffer(f"mean{block}", torch.zeros(self.runs, width))
            self.register_buffer(f"var{block}", torch.ones(self.runs, width))
            before = width
        flat = before * feature_sizes(protocol)[-1] ** 2
        self.weight = initial(seeds, (flat, protocol.embedding_dim), flat, "linear")
        self.bias = initial(seeds, (protocol.embedding_dim,), flat, "linear_bias")

        self.head = nn.ParameterList()  # weight, bias of each layer
        hidden = [protocol.projector_hidden] if projector == "mlp" else []
        widths = [protocol.embedding_dim, *hidden, projector_dim or 0]
        self.head_norm = projector == "mlp" and protocol.projector_batch_norm
        for layer, (fan_in, out) in enumerate(pairwise(widths) if projector else ()):
            self.head.append(initial(seeds, (fan_in, out), fan_in, f"head{layer}"))
            self.head.append(initial(seeds, (out,), fan_in, f"head{layer}_bias"))

    def forward(
        self,
        images: Tensor | Sequence[Tensor | Tinted | Padded],
        counts: Sequence[int],
        masks: Sequence[Sequence[Tensor]] | None = None,
        runs: Tensor | None = None,
    ) -> Tensor:
        """Embeddings of images, float32 [R, B, embedding_dim].

        Args:
            images: V streams of images, [B, 3, 28, 28] each; with a trunk also `Tinted` or `Padded`.
            counts: number of runs that see each stream, in order; they sum to R, or to the number of `runs`.
            masks: for each block the dropout ceilings of the streams, [B, side, side, channels] each: 0 drops a unit, infinity keeps it.
                With a trunk, the bits of `Streams.dropout_masks`. None means no dropout.
            runs: indices of the runs to compute; None means all. Running statistics are updated only for None, in training mode.
        """
        weight, bias = self._of(self.weight, runs), self._of(self.bias, runs)
        looks: Any = images  # with a trunk a sequence, without one no `Tinted`
        if self.trunk is None:
            flat = self._by_operators(looks, counts, masks, runs)
        else:
            flat = self._by_trunk(self.trunk, looks, counts, masks, runs)
        return torch.baddbmm(bias[:, None], flat.to(weight.dtype), weight)

    def _by_trunk(
        self,
        trunk: Trunk,
        images: Sequence[Tensor | Tinted | Padded],
        counts: Sequence[int],
        masks: Sequence[Sequence[Tensor]] | None,
        runs: Tensor | None,
    ) -> Tensor:
        """Input of the linear layer, [R, B, side * side * channels], computed by the trunk."""
        by_stream = [None] * len(counts) if masks is None else list(zip(*masks))
        sights = [trunk.sight(look, mask, self.training) for look, mask in zip(images, by_stream)]
        weights = [self._of(w, runs) for w in self.convolutions]
        kept = 1.0 if masks is None else 1 - self.protocol.dropout  # see _norm
        scales = [self._of(s, runs) / kept for s in self.scales]
        shifts = [self._of(s, runs) / kept for s in self.shifts]
        tracked = [(self._of(m, runs), self._of(v, runs)) for m, v in self.statistics()]
        if not self.training:
            inverse = [(var + EPSILON).rsqrt() for _, var in tracked]
            scales = [scale * i for scale, i in zip(scales, inverse)]
            shifts = [shift - mean * scale for shift, (mean, _), scale in zip(shifts, tracked, scales)]
            return trunk.infer(sights, counts, weights, scales, shifts)
        flat, means, variances = trunk.train(sights, counts, weights, scales, shifts)
        if runs is None:
            with torch.no_grad():
                for (mean, var), seen, spread, side in zip(tracked, means, variances, trunk.sides):
                    n = flat.shape[1] * side**2
                    mean.lerp_(seen, MOMENTUM)
                    var.lerp_(spread * (n / (n - 1)), MOMENTUM)
        return flat

    def statistics(self) -> list[tuple[Tensor, Tensor]]:
        """Running mean and variance [R, channels] of each block."""
        blocks = range(len(self.convolutions))
        return [(getattr(self, f"mean{block}"), getattr(self, f"var{block}")) for block in blocks]

    def _by_operators(
        self,
        images: Sequence[Tensor],
        counts: Sequence[int],
        masks: Sequence[Sequence[Tensor]] | None,
        runs: Tensor | None,
    ) -> Tensor:
        """Input of the linear layer, [R, B, side * side * channels], computed by PyTorch's operators."""
        looks = [stream for stream, count in enumerate(counts) for _ in range(count)]
        lanes = -(-len(looks) // CPU_LANE) if not is_accelerator(images[0].device) else 1
        lane = -(-len(looks) // lanes)  # as even as possible
        features = []
        for start in range(0, len(looks), lane):
            looked = Counter(looks[start : start + lane])
            seen = [images[stream].to(self.dtype) for stream in looked]
            dropped = None if masks is None else [[block[stream] for stream in looked] for block in masks]
            members = slice(start, start + lane) if runs is None else runs[start : start + lane]
            features.append(self._features(seen, list(looked.values()), dropped, members))
        return features[0] if len(features) == 1 else torch.cat(features)

    def project(self, z: Tensor) -> Tensor:
        """Embeddings [R, B, k] after the projector head; unchanged if there is no head."""
        for layer in range(0, len(self.head), 2):
            if layer:
                if self.head_norm:
                    z = (z - z.mean(-2, keepdim=True)) * (z.var(-2, keepdim=True, correction=0) + 1e-5).rsqrt()
                z = F.relu(z)
            z = torch.baddbmm(self.head[layer + 1][:, None], z, self.head[layer])
        return z

    @staticmethod
    def _of(parameter: Tensor, runs: Runs | None) -> Tensor:
        whole = runs is None or (isinstance(runs, slice) and runs.stop - runs.start == len(parameter))
        return parameter if whole else parameter[runs]

    def _features(
        self, images: Sequence[Tensor], counts: Sequence[int], masks: Sequence[Sequence[Tensor]] | None, runs: Runs
    ) -> Tensor:
        """Input of the linear layer for some runs, [R, B, side * side * channels]."""
        x: Any = images  # one tensor from the first block on
        for block in range(len(self.convolutions)):
            x = self._block(block, x, counts, None if masks is None else masks[block], runs)
        maps = x.permute(0, 2, 3, 1).unflatten(-1, (sum(counts), -1))  # [B, h, w, R, C]
        return maps.permute(3, 0, 1, 2, 4).flatten(2)

    def _block(self, block: int, x: Any, counts: Sequence[int], mask: Sequence[Tensor] | None, runs: Runs) -> Tensor:
        protocol = self.protocol
        kernel = self._of(self.convolutions[block], runs).to(self.dtype)
        stride = 2 if protocol.downsampling == "stride" else 1
        options: dict[str, Any] = {"stride": stride, "padding": protocol.kernel_size // 2}
        if block == 0:  # each stream is one dense convolution for all runs of a lane that look at it
            kernels = kernel.split(list(counts))
            maps = [F.conv2d(view, k.flatten(0, 1), **options) for view, k in zip(x, kernels)]
            x = maps[0] if len(maps) == 1 else torch.cat(maps, 1)
        else:
            x = F.conv2d(x, kernel.flatten(0, 1), groups=kernel.shape[0], **options)
        if protocol.block_order == "relu-norm-dropout":
            x = self._norm(block, F.relu(x), runs, mask is not None)
            x = x if mask is None else x.masked_fill(self._ceiling(mask, counts, x) == 0, 0.0)
        else:
            x = self._norm(block, x, runs, mask is not None)
            x = F.relu(x) if mask is None else self._relu_drop(x, mask, counts)
        if protocol.downsampling == "max_pool":
            x = F.max_pool2d(x, 2)
        elif protocol.downsampling == "average_pool":
            x = F.avg_pool2d(x, 2)
        return x

    def _norm(self, block: int, x: Tensor, runs: Runs, dropping: bool) -> Tensor:
        mean, var = getattr(self, f"mean{block}"), getattr(self, f"var{block}")
        track = isinstance(runs, slice) or not self.training  # a slice is a view: what it tracks, the buffer keeps
        # Dropout divides kept units by the keep rate. Done here, this is free; ReLU commutes with it.
        kept = 1 - self.protocol.dropout if dropping else 1.0
        return F.batch_norm(
            x,
            self._of(mean, runs).view(-1) if track else None,
            self._of(var, runs).view(-1) if track else None,
            self._of(self.scales[block], runs).flatten() / kept,
            self._of(self.shifts[block], runs).flatten() / kept,
            training=self.training,
        )

    def _relu_drop(self, x: Tensor, mask: Sequence[Tensor], counts: Sequence[int]) -> Tensor:
        if is_accelerator(x.device):  # broadcasting is free there, and bytes are not
            return _ReluDrop.apply(x, [m.to(x.dtype) for m in mask], counts)
        return _ReluDrop.apply(x, self._ceiling(mask, counts, x), counts)

    @staticmethod
    def _ceiling(mask: Sequence[Tensor], counts: Sequence[int], like: Tensor) -> Tensor:
        # Channels last like the activations, and repeated for every run: much faster than broadcasting.
        wide = [m.to(like.dtype).repeat(1, 1, 1, count) for m, count in zip(mask, counts)]
        return (wide[0] if len(wide) == 1 else torch.cat(wide, -1)).permute(0, 3, 1, 2)
