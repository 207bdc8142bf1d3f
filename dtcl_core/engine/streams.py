"""The images that runs see: the data of each stream, and each epoch's views, made once for all runs that share them.

A *stream* is a seed, a sigma and whether colours are jittered. Orders, crops, blurs, jitter and dropout masks are drawn by key, an epoch at
a time, on the host; a GPU draws the same masks itself. Views are drawn for each image, so the batch size does not change them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import augment, keyed
from ..config import Protocol, Run
from ..data import ColoredDigits
from ..encoder import dropout_shapes
from ..methods import ALL_METHODS
from .device import is_accelerator, upload
from .native import LANES, Library
from .trunk import Padded, Tinted, Trunk


class Stream(NamedTuple):
    """The settings that decide the views; runs with the same settings share their views."""

    seed: int
    sigma: float
    jitter: bool


def stream_of(run: Run) -> Stream:
    """The stream of images that a run sees."""
    return Stream(run.seed, run.sigma, ALL_METHODS[run.method].jitter)


class Inputs(NamedTuple):
    """What a step sees: the images' places in the training set [V, B], the views of each stream, and its dropout masks by block."""

    places: Tensor
    images: list[Tensor | Tinted | Padded]
    masks: list[list[Tensor]] | None


class Streams:
    """The data of V streams on a device, and the views drawn for one epoch at a time.

    Args:
        trunk: what computes the encoder's blocks; None for PyTorch's operators. With a trunk, images that are gray times a colour are
            `Tinted`, and dropout masks are bits.
        data: makes the data of a seed and sigma: `ColoredDigits`, or a class with its interface.

    Attributes:
        data: the `ColoredDigits` of each stream.
        gray, colors, domains: training images [V, N, 28, 28], their colours [V, N, 3] and domains [V, N].
        order: [V, N], the order of images in the drawn epoch.
    """

    def __init__(
        self,
        streams: Sequence[Stream],
        protocol: Protocol,
        device: torch.device,
        trunk: Trunk | None = None,
        data: Callable[..., ColoredDigits] = ColoredDigits,
    ):
        self.streams, self.protocol, self.device, self.trunk = list(streams), protocol, device, trunk
        made = {
            (s.seed, s.sigma): data(
                s.sigma,
                s.seed,
                color_clipping=protocol.color_clipping,
                stratified=protocol.stratified_splits,
                sizes=protocol.split_sizes,
            )
            for s in self.streams
        }
        self.data = [made[s.seed, s.sigma] for s in self.streams]
        self.gray = torch.stack([d.gray("train") for d in self.data]).to(device)
        self.colors = torch.stack([d.colors("train") for d in self.data]).to(device)
        self.domains = torch.stack([d.domains("train") for d in self.data]).to(device)
        self.size, self.num_domains = self.gray.shape[1], self.data[0].num_training_domains
        self._dropped_below = round(protocol.dropout * 65536)  # of the 16 bits drawn for a unit
        self._infinity = torch.tensor(torch.inf, device=device)
        self._kept: dict[tuple[int, int, int], Tensor] = {}
        self._prepared: tuple[list[Any], list[list[Tensor]]] | None = None
        self._thread = ThreadPoolExecutor(1)
        self._ahead: dict[int, Future] = {}

    def upload(self, array: np.ndarray) -> Tensor:
        """A host array on the device; a CPU may share its memory, and for a GPU the host does not wait."""
        return upload(torch.from_numpy(np.ascontiguousarray(array)), self.device)

    @property
    def steps(self) -> int:
        """Training steps in an epoch."""
        p = self.protocol
        return self.size // p.batch_size if p.drop_last else -(-self.size // p.batch_size)

    def draw(self, epoch: int) -> None:
        """Draw an epoch's order, crops, blurs and jitter. For a GPU, mostly dropout too; a thread then draws the next epoch."""
        drawn = self._ahead.pop(epoch).result() if epoch in self._ahead else self._drawn(epoch)
        self.host_order: np.ndarray = drawn[0]
        _, boxes, blurs, jitters = drawn
        self.order, self.boxes, self.blurs = self.upload(self.host_order), self.upload(boxes), self.upload(blurs)
        self.jitters = [[(self.upload(f), order) for f, order in both] if both else None for both in jitters]
        if is_accelerator(self.device):
            self._ahead = {epoch + 1: self._thread.submit(self._drawn, epoch + 1)}
            if self.trunk is None:
                self._draw_dropout(epoch)
            elif self.protocol.drop_last:
                self._prepare(self.trunk, epoch)

    def _drawn(self, epoch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, list]:
        """An epoch's orders [V, N], boxes [V, 2, N, 4], blurs [V, 2, N] and jitters, on the host."""
        p, seeds = self.protocol, [s.seed for s in self.streams]

        def both(draw: Callable[[tuple], Any], purpose: str, seed: int) -> list:
            return [draw((seed, purpose, epoch, view)) for view in range(2)]

        def boxes(key: tuple) -> np.ndarray:
            return augment.random_resized_crop_boxes(self.size, p.crop_scale, p.crop_ratio, key=key)

        def blurs(key: tuple) -> np.ndarray:
            return augment.random_blur_sigmas(self.size, p.blur_sigma, p.blur_probability, key)

        def jitter(key: tuple) -> tuple[np.ndarray, np.ndarray]:
            return augment.random_color_jitter(self.size, p.jitter_strengths, p.jitter_probability, key)

        return (
            np.stack([keyed.permutation(self.size, seed, "order", epoch) for seed in seeds]),
            np.stack([both(boxes, "crop", seed) for seed in seeds]),
            np.stack([both(blurs, "blur", seed) for seed in seeds]),
            [both(jitter, "jitter", s.seed) if s.jitter else None for s in self.streams],
        )

    def _draw_dropout(self, epoch: int) -> None:
        """Draw the dropout masks of all steps of an epoch at once: on a GPU, launches cost more than numbers."""
        self._kept = {}
        if self.protocol.dropout:
            for seed in {s.seed for s in self.streams}:
                for block, shape in enumerate(dropout_shapes(self.protocol)):
                    keys = [(seed, "dropout", epoch, step, block) for step in range(self.steps)]
                    count = 2 * self.protocol.batch_size * math.prod(shape)
                    bits = keyed.bits16_on(self.device, count, keys)
                    self._kept[seed, epoch, block] = bits >= self._dropped_below

    def _prepare(self, trunk: Trunk, epoch: int) -> None:
        """Make the views and dropout masks of all steps of an epoch at once, for a trunk on a GPU."""
        self._prepared = None  # those of the epoch before make room
        steps, size, seeds = self.steps, self.protocol.batch_size, {s.seed for s in self.streams}

        def by_step(x: Tensor) -> Tensor:  # from [2 * steps * B, ...] to [steps, 2 * B, ...]
            return x.unflatten(0, (2, steps, size)).transpose(0, 1).flatten(1, 2).contiguous()

        looks = self.step_views(self.order[:, : steps * size], self.host_order[:, : steps * size])
        images = [Padded.of(look) if isinstance(look, Tensor) else look for look in looks]
        purposes, kept = [(epoch, step) for step in range(steps)], {}
        for block, shape in enumerate(dropout_shapes(self.protocol)):
            for seed in seeds:
                if self.protocol.dropout:
                    kept[seed, block] = self._kept_bits(trunk, 2 * size, shape, seed, purposes, block)
                else:
                    kept[seed, block] = trunk.masks(2 * size)[block].expand(steps, -1, -1)
        masks = [[kept[s.seed, block] for s in self.streams] for block in range(len(self.protocol.channels))]
        self._prepared = [type(look)(*map(by_step, look)) for look in images], masks

    def inputs(self, number: int, epoch: int) -> Inputs:
        """What step `number` of the drawn epoch sees."""
        size = self.protocol.batch_size
        place = slice(number * size, (number + 1) * size)
        index = self.order[:, place]
        if self._prepared is None:
            images = self.step_views(index, self.host_order[:, place])
            return Inputs(index, images, self.dropout_masks(2 * index.shape[1], epoch, number))
        images, masks = self._prepared
        seen = [type(look)(*(x[number] for x in look)) for look in images]
        return Inputs(index, seen, [[m[number] for m in block] for block in masks])

    def dropout_masks(self, count: int, *purpose: str | int) -> list[list[Tensor]] | None:
        """Dropout ceilings [count, side, side, channels] of each block and stream: 0 drops a unit, infinity keeps it; None without dropout.

        They are keyed by seed and `purpose`, which is (epoch, step) in training: runs of a seed share them, and they are the same on every
        device. For a trunk they are bits, int16 [count, side * side * channels / 16].
        """
        if not self.protocol.dropout:
            return None
        shapes, made = dropout_shapes(self.protocol), {}
        for seed in {s.seed for s in self.streams}:
            for block, shape in enumerate(shapes):
                if self.trunk is not None:
                    made[seed, block] = self._kept_bits(self.trunk, count, shape, seed, [purpose], block)[0]
                    continue
                kept = self._kept_units(count * math.prod(shape), seed, purpose, block).view(count, *shape)
                made[seed, block] = torch.where(kept, self._infinity, 0.0)
        return [[made[s.seed, block] for s in self.streams] for block in range(len(shapes))]

    def _kept_bits(
        self,
        trunk: Trunk,
        count: int,
        shape: tuple[int, int, int],
        seed: int,
        purposes: Sequence[tuple[str | int, ...]],
        block: int,
    ) -> Tensor:
        """A block's dropout masks for the trunk, as bits: int16 [purposes, count, side * side * channels / 16]."""
        keys = np.stack([keyed.words_of((seed, "dropout", *purpose, block)) for purpose in purposes]).astype(np.int64)
        bits = trunk.library.masks(self.upload(keys), count * math.prod(shape) // LANES, self._dropped_below)
        area = trunk.areas[block] // LANES
        bits = bits.view(len(keys), count, -1, shape[-1] // LANES)  # [.., pixels, vectors]; one pixel for whole channels
        return bits.expand(-1, -1, area * LANES // shape[-1], -1).reshape(len(keys), count, area).contiguous()

    def _kept_units(self, count: int, seed: int, purpose: tuple[str | int, ...], block: int) -> Tensor:
        """Whether dropout keeps each of `count` units, bool [count]."""
        if not is_accelerator(self.device):
            bits = keyed.bits16(count, seed, "dropout", *purpose, block)
            return torch.from_numpy(bits >= self._dropped_below)
        match purpose:
            case (int() as epoch, int() as step) if (seed, epoch, block) in self._kept:
                return self._kept[seed, epoch, block][step, :count]
        return keyed.bits16_on(self.device, count, [(seed, "dropout", *purpose, block)])[0] >= self._dropped_below

    def step_views(self, index: Tensor, host_index: np.ndarray) -> list[Tensor | Tinted | Padded]:
        """`both_views` of each stream's images at `index` [V, B]; an accelerator makes all of them together, which saves launches."""
        p, jittered = self.protocol, [s for s, jitter in enumerate(self.jitters) if jitter is not None]
        if not is_accelerator(self.device) or (jittered and p.jitter_position == "before_blur"):
            return [self.both_views(s, index[s], host_index[s]) for s in range(len(self.streams))]
        both = index[:, None].expand(-1, 2, -1)  # [V, 2, B]
        gray = self.gray[torch.arange(len(index), device=self.device)[:, None], index]
        boxes = self.boxes.gather(2, both[..., None].expand(-1, -1, -1, 4))
        views = augment.resize_crop_blur(gray[:, None], boxes, self.blurs.gather(2, both), p.blur_kernel)
        colors = self.colors.gather(1, index[..., None].expand(-1, -1, 3))
        colors = colors[:, None].expand(-1, 2, -1, -1)
        images: list[Any] = [
            Tinted.of(gray, color) if self._is_tinted and s not in jittered else self.paint(gray, color)
            for s, (gray, color) in enumerate(zip(views.flatten(1, 2), colors.flatten(1, 2)))
        ]
        if jittered:
            pairs = [(s, *view) for s, jitter in enumerate(self.jitters) for view in jitter or ()]
            places, counts = augment.jitter_places(np.concatenate([order[host_index[s]] for s, _, order in pairs]))
            factors = torch.cat([factors[index[s]] for s, factors, _ in pairs])
            chosen = torch.cat([images[s] for s in jittered]).contiguous()
            done = augment.color_jitter(chosen, factors, self.upload(places), counts)
            for s, part in zip(jittered, done.split(2 * index.shape[1])):
                images[s] = part
        return [x if isinstance(x, Tinted) else self.normalize(x).contiguous(memory_format=torch.channels_last) for x in images]

    def both_views(self, stream: int, index: Tensor, host_index: np.ndarray) -> Tensor | Tinted | Padded:
        """Both views of a stream's images at `index` [B], concatenated: [2 B, 3, 28, 28], or `Tinted` or `Padded` for a trunk."""
        p, jitter = self.protocol, self.jitters[stream]
        library, early = None if self.trunk is None else self.trunk.library, p.jitter_position == "before_blur"
        if not isinstance(library, Library) or (jitter is not None and early):  # a GPU makes views by `step_views`, if it can
            return torch.cat([self.views(stream, index, host_index, view) for view in range(2)])
        tinted = jitter is None and self._is_tinted
        gray = library.views(self.gray[stream], index, self.boxes[stream], self.blurs[stream], p.blur_kernel, border=int(tinted))
        colors = self.colors[stream][index].repeat(2, 1)
        if tinted:
            return Tinted(gray, colors)
        if jitter is None:
            return self.normalize(self.paint(gray, colors))
        factors = torch.cat([factors[index] for factors, _ in jitter])
        order = torch.from_numpy(np.concatenate([order[host_index] for _, order in jitter]))
        scale, offset = (2.0, -1.0) if p.input_normalization == "half" else (1.0, 0.0)  # as `normalize`
        return Padded(library.jitter(gray, colors, factors, order, scale, offset))

    @property
    def _is_tinted(self) -> bool:
        """Whether the trunk gets images without jitter as gray times a colour."""
        return self.trunk is not None and self.protocol.input_normalization == "none"

    def views(self, stream: int, index: Tensor, host_index: np.ndarray, view: int) -> Tensor:
        """One view [B, 3, 28, 28] (channels last in memory) of a stream's images at `index` [B], as drawn for this epoch."""
        p, jitter = self.protocol, self.jitters[stream]
        blur = self.blurs[stream, view][index]
        early = jitter is not None and p.jitter_position == "before_blur"
        gray = augment.resize_crop_blur(
            self.gray[stream][index], self.boxes[stream, view][index], None if early else blur, p.blur_kernel
        )
        images = self.paint(gray, self.colors[stream][index])
        if jitter is not None:
            factors, order = jitter[view]
            places, counts = augment.jitter_places(order[host_index])
            images = augment.color_jitter(images.contiguous(), factors[index], self.upload(places), counts)
            if early:
                matrix = augment.blur_matrix(blur, p.blur_kernel, images.shape[-1])[:, None]
                images = matrix @ images @ matrix.transpose(-1, -2)
        return self.normalize(images).contiguous(memory_format=torch.channels_last)

    def clean(self, stream: int, index: Tensor) -> Tensor | Tinted:
        """Training images [B, 3, 28, 28] without augmentation, or as `Tinted`."""
        return self._shown(self.gray[stream][index], self.colors[stream][index])

    def _shown(self, gray: Tensor, colors: Tensor) -> Tensor | Tinted:
        return Tinted.of(gray, colors) if self._is_tinted else self.normalize(self.paint(gray, colors))

    def clean_chunks(self, stream: int, split: str, size: int) -> Iterator[Tensor | Tinted]:
        """A split's images [N, 3, 28, 28] without augmentation, or as `Tinted`, in chunks of `size`."""
        if split == "train":  # on the device already: embedded in every epoch, for the discriminators
            gray, colors = self.gray[stream], self.colors[stream]
        else:
            data = self.data[stream]
            gray, colors = data.gray(split).to(self.device), data.colors(split).to(self.device)
        for g, c in zip(gray.split(size), colors.split(size)):
            yield self._shown(g, c)

    @staticmethod
    def paint(gray: Tensor, colors: Tensor) -> Tensor:
        """Coloured images [B, 3, H, W], channels last in memory."""
        return (gray[..., None] * colors[:, None, None, :]).permute(0, 3, 1, 2)

    def normalize(self, images: Tensor) -> Tensor:
        """Scale images [..., 3, 28, 28] from [0, 1] to the encoder's input range."""
        return 2 * images - 1 if self.protocol.input_normalization == "half" else images
