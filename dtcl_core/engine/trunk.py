"""The encoder's blocks as one autograd function: calls of `native.cpp` on a CPU, of `cuda.cu` on a GPU, and the algebra around them.

The first convolution's output y = K x is never stored; it is linear in the patch x. All runs of a stream share the mean m and the
covariance C of the patches. The first batch norm's statistics are then ``K m`` and ``diag(K C K^T)``, and its gradient needs only ``sum g``
and ``sum g x`` of the upstream gradient g.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ..config import Protocol
from . import cuda, native
from .cuda import CudaLibrary
from .device import is_accelerator
from .native import LANES, PATCH, Call, Library, Unavailable, pointer

EPSILON, MOMENTUM = 1e-5, 0.1  # of PyTorch's batch norm
IMAGE = 28


class Tinted(NamedTuple):
    """Gray images and the colour of each: the trunk's input from a stream without jitter.

    `padded` is [B, 29, 29], with a row and a column of zeros before each image; `colors` is [B, 3].
    """

    padded: Tensor
    colors: Tensor

    @classmethod
    def of(cls, gray: Tensor, colors: Tensor) -> Tinted:
        """From gray images [B, 28, 28]."""
        return cls(F.pad(gray, (1, 0, 1, 0)), colors.contiguous())


class Padded(NamedTuple):
    """Colour images for the trunk: `padded` is [B, 29, 29, 3], with a row and a column of zeros before each image."""

    padded: Tensor

    @classmethod
    def of(cls, images: Tensor) -> Padded:
        """From images [B, 3, 28, 28]."""
        return cls(F.pad(images.permute(0, 2, 3, 1), (0, 0, 1, 0, 1, 0)).contiguous())


class Sight(NamedTuple):
    """What the runs of a stream share: padded images, their colours if they are gray, dropout masks, and the moments of the patches."""

    padded: Tensor
    tint: Tensor | None
    masks: Sequence[Tensor]
    mean: Tensor  # [27], float64, of patches: (tap, colour)
    covariance: Tensor  # [27, 27]


def supported(protocol: Protocol, device: torch.device, dtype: torch.dtype) -> Library | CudaLibrary:
    """The library for such an encoder; raises Unavailable with the reason if PyTorch's operators must be used."""
    if is_accelerator(device) and device.type != "cuda":
        raise Unavailable(f"the device is {device.type}")
    if dtype != torch.float32:
        raise Unavailable("it computes in float32")
    if protocol.kernel_size != 3 or protocol.downsampling != "stride" or protocol.block_order != "norm-dropout-relu":
        raise Unavailable("it has 3 x 3 kernels of stride 2, followed by norm, dropout and ReLU in this order")
    return cuda.load(protocol.channels, device) if is_accelerator(device) else native.load(protocol.channels)


def inner(weight: Tensor) -> Tensor:
    """Kernels [R, out, in, 3, 3] in the order of native code, [R, 9, in, out]."""
    return weight.permute(0, 3, 4, 2, 1).flatten(1, 2).contiguous()


def outer(gradient: Tensor) -> Tensor:
    """The inverse of `inner`."""
    return gradient.permute(0, 3, 2, 1).unflatten(-1, (3, 3))


class Trunk:
    """The blocks of encoders of one shape; `library` is compiled for their widths, `sides` are those of the maps after each block."""

    def __init__(self, library: Library | CudaLibrary, sides: Sequence[int]):
        self.library, self.sides, self.widths = library, list(sides), library.widths
        self.device = library.device
        self.areas = [side * side * width for side, width in zip(self.sides, self.widths)]
        self._everything: dict[int, list[Tensor]] = {}

    def masks(self, images: int) -> list[Tensor]:
        """Masks that drop nothing, int16 [B, side^2 * channels / 16] for each block."""
        made = self._everything.get(images)
        if made is None:
            made = [torch.full((images, area // LANES), -1, dtype=torch.int16, device=self.device) for area in self.areas]
            self._everything = {images: made}  # the last number asked for: a pass has many batches of it
        return made

    def sight(self, images: Tensor | Tinted | Padded, masks: Sequence[Tensor] | None, moments: bool) -> Sight:
        """A stream's `Sight`, from images [B, 3, 28, 28], `Tinted` or `Padded`, and masks, int16 [B, side^2 * channels / 16]."""
        if isinstance(images, Tinted):
            padded, tint = images.padded, images.colors
        elif isinstance(images, Padded):
            padded, tint = images.padded, None
        else:
            if images.requires_grad:
                raise ValueError("the trunk gives images no gradient; DTCL_TRUNK=pytorch does.")
            padded, tint = Padded.of(images.detach()).padded, None
        masks = self.masks(len(padded)) if masks is None else masks
        empty = torch.empty(0, dtype=torch.float64)
        if not moments:
            return Sight(padded, tint, masks, empty, empty)
        if not len(padded):
            raise ValueError("batch statistics need at least one image.")
        sums = self.library.moments(padded, tint) / (len(padded) * self.sides[0] ** 2)
        mean = sums[:, PATCH]
        return Sight(padded, tint, masks, mean, sums[:, :PATCH] - mean[:, None] * mean)

    def call(self, sight: Sight, runs: int, **tensors: Any) -> Call:
        """A `Call` for the runs of one stream. `tensors` are its fields by name; a field with a tensor for each block is a list."""
        images, wide = len(sight.padded), (IMAGE + 1, IMAGE + 1)
        call = Call(runs=runs, images=images, threads=torch.get_num_threads(), colors=3 if sight.tint is None else 1)
        kind = self.device.type
        call.input = pointer(sight.padded, (images, *wide, 3) if sight.tint is None else (images, *wide), device=kind)
        call.tint = pointer(sight.tint, (images, 3), device=kind)
        chunks = self.library.chunks(images)
        inputs = [3, *self.widths]
        for block, width in enumerate(self.widths):
            call.mask[block] = pointer(sight.masks[block], (images, self.areas[block] // LANES), torch.int16, kind)
            shapes = {
                "weight": (runs, 9, inputs[block], width),
                "turned": (runs, 9, width, inputs[block]),
                **dict.fromkeys(("shift", "gamma", "beta", "dgamma", "dbeta"), (runs, width)),
                **dict.fromkeys(("map", "dmap"), (runs, images, self.areas[block])),
                "norm": (runs, 5, width),
                "dweight": (runs, 9, inputs[block], width),
            }
            for name, shape in shapes.items():
                if name in tensors:
                    getattr(call, name)[block] = pointer(tensors[name][block], shape, device=kind)
        for name in ("out", "dout"):
            if name in tensors:
                setattr(call, name, pointer(tensors[name], (runs, images, self.areas[-1]), device=kind))
        scratch = {
            "sums": ((runs, chunks, 2 * max(self.widths)), torch.float64),
            "partial": ((runs, chunks, self.library.gradients), torch.float32),
        }
        for name, (shape, dtype) in scratch.items():
            if name in tensors:
                setattr(call, name, pointer(tensors[name], shape, dtype, kind))
        call.kept = sight, tensors  # a pointer keeps nothing alive
        return call

    @staticmethod
    def check(sights: Sequence[Sight], counts: Sequence[int], weights: Sequence[Tensor]) -> None:
        """Raise ValueError unless every run sees one stream."""
        if len(sights) != len(counts) or sum(counts) != len(weights[0]):
            raise ValueError(
                f"each run must look at one stream: {len(sights)} streams, looked at by {list(counts)} of {len(weights[0])} runs."
            )

    def sums(self, sight: Sight, runs: int) -> Tensor:
        """Scratch for the sums of each chunk, float64 [runs, chunks, 2 * widest]."""
        shape = (runs, self.library.chunks(len(sight.padded)), 2 * max(self.widths))
        return torch.empty(shape, dtype=torch.float64, device=self.device)

    def train(
        self, sights: Sequence[Sight], counts: Sequence[int], weights: Sequence[Tensor], scales: Sequence[Tensor],
        shifts: Sequence[Tensor],
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:  # fmt: skip
        """Features [R, B, side^2 * channels] with batch statistics, and each block's means and variances [R, channels]."""
        self.check(sights, counts, weights)
        flat = [part for block in zip(weights, scales, shifts) for part in block]
        out, *moments = _Blocks.apply(self, sights, counts, *flat)
        return out, moments[::2], moments[1::2]

    @torch.no_grad()
    def infer(
        self, sights: Sequence[Sight], counts: Sequence[int], weights: Sequence[Tensor], scales: Sequence[Tensor],
        shifts: Sequence[Tensor],
    ) -> Tensor:  # fmt: skip
        """Features with fixed norms, a scale and a shift [R, channels] for each block. They carry no gradient."""
        self.check(sights, counts, weights)
        kernels = [inner(w) * s[:, None, None] for w, s in zip(weights, scales)]
        shifts = [shift.contiguous() for shift in shifts]
        out = torch.empty(sum(counts), len(sights[0].padded), self.areas[-1], device=self.device)
        # Norms with a scale of one, for a library that stores the convolutions' outputs before it adds the shifts.
        norms = [torch.stack([torch.ones_like(s), s, s, s, s], 1) for s in shifts[1:] if self.library.stores_maps]
        for sight, part in zip(sights, parts(counts)):
            runs = part.stop - part.start
            room: dict[str, Any] = {}
            if norms:
                room["map"] = [None, *(out.new_empty(runs, len(sight.padded), area) for area in self.areas[1:])]
                room["norm"] = [None, *(norm[part] for norm in norms)]
            call = self.call(
                sight, runs, weight=[k[part] for k in kernels], shift=[s[part] for s in shifts], out=out[part], **room
            )
            self.library.infer(ctypes.byref(call))
        return out


def parts(counts: Sequence[int]) -> Iterator[slice]:
    """For each stream, the slice of the runs that see it."""
    start = 0
    for count in counts:
        yield slice(start, start + count)
        start += count


class _Blocks(torch.autograd.Function):
    """All blocks, with batch statistics. Gradients reach the parameters, not the images."""

    @staticmethod
    def forward(ctx: Any, trunk: Trunk, sights: Sequence[Sight], counts: Sequence[int], *parameters: Tensor) -> Any:
        weights, gammas, betas = ([p.detach() for p in parameters[i::3]] for i in range(3))
        kernels = [inner(weight) for weight in weights]
        runs, images = sum(counts), len(sights[0].padded)
        maps = [None, *(weights[0].new_empty(runs, images, area) for area in trunk.areas[1:])]
        norms = [None, *(weights[0].new_empty(runs, 5, width) for width in trunk.widths[1:])]
        out = weights[0].new_empty(runs, images, trunk.areas[-1])
        gammas, betas = [g.contiguous() for g in gammas], [b.contiguous() for b in betas]

        # Statistics of the first norm, from the patches' moments; in float64, because a variance is a difference.
        wide = kernels[0].flatten(1, 2).double()  # [R, 27, channels]
        means = [wide[part].transpose(1, 2) @ sight.mean for sight, part in zip(sights, parts(counts))]
        spreads = [sight.covariance @ wide[part] for sight, part in zip(sights, parts(counts))]  # of patch with output
        mean, spread = torch.cat(means), torch.cat(spreads)
        variance = (wide * spread).sum(1).clamp(min=0)
        inverse = (variance + EPSILON).rsqrt()
        scale = gammas[0] * inverse
        shift = (betas[0] - mean * scale).float()
        first = (wide * scale[:, None]).float().view_as(kernels[0])

        for sight, part in zip(sights, parts(counts)):
            of_part = trunk.call(
                sight,
                part.stop - part.start,
                weight=[first[part], *(k[part] for k in kernels[1:])],
                shift=[shift[part]] + [None] * (len(maps) - 1),
                gamma=[None, *(g[part] for g in gammas[1:])],
                beta=[None, *(b[part] for b in betas[1:])],
                map=_of(maps, part),
                norm=_of(norms, part),
                out=out[part],
                sums=trunk.sums(sight, part.stop - part.start),
            )
            trunk.library.forward(ctypes.byref(of_part))

        ctx.trunk, ctx.sights, ctx.counts = trunk, sights, counts
        ctx.maps, ctx.norms, ctx.kernels = maps, norms, kernels
        ctx.first = (first, shift, wide, spread, inverse, scale)
        ctx.save_for_backward(out)
        moments = [mean.float(), variance.float()]
        for norm in norms[1:]:
            assert norm is not None
            moments += [norm[:, 2], norm[:, 4]]
        ctx.mark_non_differentiable(*moments)
        return out, *moments

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError('the trunk has no gradients of gradients; train with trunk="pytorch".')
        trunk, counts, kernels = ctx.trunk, ctx.counts, ctx.kernels
        (out,) = ctx.saved_tensors
        first, shift, wide, spread, inverse, scale = ctx.first
        turned = [None, *(k.transpose(2, 3).contiguous() for k in kernels[1:])]
        gradient = gradient.contiguous()
        scratch = [None, *(torch.empty_like(m) for m in ctx.maps[1:-1]), None]
        weights = [torch.empty_like(k) for k in kernels]
        gammas, betas = ([out.new_empty(len(out), width) for width in trunk.widths] for _ in range(2))
        for sight, part in zip(ctx.sights, parts(counts)):
            runs = part.stop - part.start
            call = trunk.call(
                sight,
                runs,
                weight=[first[part], *(k[part] for k in kernels[1:])],
                turned=_of(turned, part),
                shift=[shift[part]] + [None] * (len(kernels) - 1),
                map=_of(ctx.maps, part),
                norm=_of(ctx.norms, part),
                out=out[part],
                dout=gradient[part],
                dmap=_of(scratch, part),
                sums=trunk.sums(sight, runs),
                partial=out.new_empty(runs, trunk.library.chunks(len(sight.padded)), trunk.library.gradients),
                dweight=_of(weights, part),
                dgamma=_of(gammas, part),
                dbeta=_of(betas, part),
            )
            trunk.library.backward(ctypes.byref(call))

        # The first norm's input was not stored; its gradient follows from sums over images of g (x - mean).
        total = betas[0].double()
        shared = torch.cat([sight.mean.expand(count, -1) for sight, count in zip(ctx.sights, counts)])
        centred = weights[0].flatten(1, 2).double() - shared[..., None] * total[:, None]
        along = (wide * centred).sum(1)  # sum of g times the centred output
        through = scale[:, None] * (centred - spread * (along * inverse**2)[:, None])
        weights[0] = through.float().view_as(weights[0])
        gammas[0] = (along * inverse).float()
        return None, None, None, *(g for w, *rest in zip(weights, gammas, betas) for g in (outer(w), *rest))


def _of(tensors: Sequence[Tensor | None], part: slice) -> list[Tensor | None]:
    return [None if tensor is None else tensor[part] for tensor in tensors]
