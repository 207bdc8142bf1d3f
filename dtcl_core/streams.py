"""What runs look at: images, and an epoch's views of them, made once for all runs that share them.

A *stream* is a seed, a sigma and whether colours are jittered. Orders, crops, blurs, jitter and dropout masks are drawn
on the host by key, an epoch at a time, and uploaded; the draws are indexed by image, so that the batch size does not
decide what an image looks like.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from . import augment, keyed
from .config import Protocol, Run
from .data import ColoredDigits
from .encoder import dropout_shapes
from .methods import METHODS


class Stream(NamedTuple):
    """What decides the views: runs that agree on it share them."""

    seed: int
    sigma: float
    jitter: bool


def stream_of(run: Run) -> Stream:
    return Stream(run.seed, run.sigma, METHODS[run.method].jitter)


class Streams:
    """The data of V streams on a device, and the views drawn for one epoch at a time.

    Attributes:
        data: the `ColoredDigits` of each stream.
        gray, colors, domains: training images [V, N, 28, 28], their colours [V, N, 3] and domains [V, N].
        order: [V, N] the order of the drawn epoch.
    """

    def __init__(self, streams: Sequence[Stream], protocol: Protocol, device: torch.device):
        self.streams, self.protocol, self.device = list(streams), protocol, device
        made = {
            (s.seed, s.sigma): ColoredDigits(
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

    def upload(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device, non_blocking=True)

    def draw(self, epoch: int) -> None:
        """Draw order, crops, blurs and jitter of an epoch for every stream, keyed by (seed, purpose, epoch)."""
        p = self.protocol

        def both(drawing, *arguments, purpose: str, seed: int) -> np.ndarray:
            return np.stack([drawing(self.size, *arguments, (seed, purpose, epoch, view)) for view in range(2)])

        def boxes(count: int, key: tuple) -> np.ndarray:
            return augment.random_resized_crop_boxes(count, p.crop_scale, p.crop_ratio, key=key)

        seeds = [s.seed for s in self.streams]
        self.host_order = np.stack([keyed.permutation(self.size, seed, "order", epoch) for seed in seeds])
        self.order = self.upload(self.host_order)
        self.boxes = self.upload(np.stack([both(boxes, purpose="crop", seed=seed) for seed in seeds]))
        blur = (augment.random_blur_sigmas, p.blur_sigma, p.blur_probability)
        self.blurs = self.upload(np.stack([both(*blur, purpose="blur", seed=seed) for seed in seeds]))
        self.jitters = [
            [
                augment.random_color_jitter(
                    self.size, p.jitter_strengths, p.jitter_probability, (s.seed, "jitter", epoch, view)
                )
                for view in range(2)
            ]
            if s.jitter
            else None
            for s in self.streams
        ]

    def views(self, stream: int, index: Tensor, host_index: np.ndarray, view: int) -> Tensor:
        """One view [B, 3, 28, 28] (channels last in memory) of the images at `index`, as drawn for this epoch."""
        p, jitter = self.protocol, self.jitters[stream]
        blur = self.blurs[stream, view][index]
        early = jitter is not None and p.jitter_position == "before_blur"
        gray = augment.resize_crop_blur(
            self.gray[stream][index], self.boxes[stream, view][index], None if early else blur, p.blur_kernel
        )
        images = self.paint(gray, self.colors[stream][index])
        if jitter is not None:
            factors, order = jitter[view]
            images = augment.color_jitter(images, self.upload(factors[host_index]), order[host_index])
            if early:
                matrix = augment.blur_matrix(blur, p.blur_kernel, images.shape[-1])[:, None]
                images = matrix @ images @ matrix.transpose(-1, -2)
        return self.normalize(images).contiguous(memory_format=torch.channels_last)

    def clean(self, stream: int, index: Tensor) -> Tensor:
        """Training images [B, 3, 28, 28] as they are."""
        return self.normalize(self.paint(self.gray[stream][index], self.colors[stream][index]))

    def clean_chunks(self, stream: int, split: str, size: int) -> list[Tensor]:
        """A split's images as they are, `size` at a time."""
        gray, colors = self.data[stream].gray(split).to(self.device), self.data[stream].colors(split).to(self.device)
        return [self.normalize(self.paint(g, c)) for g, c in zip(gray.split(size), colors.split(size))]

    @staticmethod
    def paint(gray: Tensor, colors: Tensor) -> Tensor:
        """Coloured images [B, 3, H, W], channels last in memory."""
        return (gray[..., None] * colors[:, None, None, :]).permute(0, 3, 1, 2)

    def normalize(self, images: Tensor) -> Tensor:
        return 2 * images - 1 if self.protocol.input_normalization == "half" else images

    def dropout_masks(self, count: int, *purpose: str | int) -> list[list[Tensor]] | None:
        """Masks [count, side, side, channels] of each block for each stream, divided by the keep rate.

        They are keyed by seed and purpose, and so shared by the runs of a seed. None if nothing is dropped.
        """
        rate = self.protocol.dropout
        if rate == 0:
            return None
        made: dict[tuple[int, int], Tensor] = {}
        shapes = dropout_shapes(self.protocol)
        for seed in {s.seed for s in self.streams}:
            for block, shape in enumerate(shapes):
                bits = keyed.bits16(count * int(np.prod(shape)), seed, "dropout", *purpose, block)
                keep = self.upload(bits >= round(rate * 65536))
                made[seed, block] = keep.view(count, *shape).float().div_(1 - rate)
        return [[made[s.seed, block] for s in self.streams] for block in range(len(shapes))]
