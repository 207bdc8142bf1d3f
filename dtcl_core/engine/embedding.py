"""Embeddings outside training steps: of whole splits for probes, and of training images for a discriminator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from ..encoder import Encoder
from .device import release_memory, reproducible
from .groups import Group
from .streams import Streams
from .trunk import Tinted

EMBED_BATCH = 1155  # images embedded at a time; divides the splits nearly evenly


@torch.no_grad()
def embed(encoder: Encoder, streams: Streams, counts: Sequence[int], split: str, group: Group | None = None) -> Tensor:
    """Embeddings [R, N, embedding_dim] of a split's clean images, in evaluation mode, for all runs or only for a group's.

    `counts` holds the number of runs that see each stream. If the device runs out of memory, the batch size is halved.
    """
    which, counts = (range(len(counts)), counts) if group is None else (group.streams, group.counts)
    runs, size = None if group is None else group.runs, EMBED_BATCH
    if encoder.trunk is not None and encoder.trunk.library.stores_maps:
        size *= 3  # the first block is not stored, and launches cost more than numbers
    while True:
        try:
            chunks = zip(*(streams.clean_chunks(s, split, size) for s in which))
            with mode(encoder, training=False), reproducible(streams.device):
                return torch.cat([encoder(images, counts, runs=runs) for images in chunks], 1)
        except torch.OutOfMemoryError:
            if size == 1:
                raise
        size //= 2  # a step of training fits, so a few images will
        release_memory(streams.device)


@torch.no_grad()
def for_discriminator(encoder: Encoder, streams: Streams, counts: Sequence[int], group: Group, epoch: int) -> Tensor:
    """Projected embeddings [r, N, k] of a group's training images, as `discriminator_inputs` and `discriminator_mode` say."""
    p = streams.protocol
    if p.discriminator_inputs == "clean" and p.discriminator_mode == "eval":
        return projected(encoder, embed(encoder, streams, counts, "train", group), group.runs)
    parts, training = [], p.discriminator_mode == "train"
    with mode(encoder, training), reproducible(streams.device):
        for start in range(0, streams.size, p.batch_size):
            host = np.arange(start, min(start + p.batch_size, streams.size))
            index = streams.upload(host)
            images: list[Tensor | Tinted]
            if p.discriminator_inputs == "augmented":
                images = [streams.views(s, index, host, 0) for s in group.streams]
            else:
                images = [streams.clean(s, index) for s in group.streams]
            masks = streams.dropout_masks(len(host), epoch, "discriminator", start) if training else None
            if masks is not None:
                masks = [[block[s] for s in group.streams] for block in masks]
            parts.append(encoder(images, group.counts, masks, runs=group.runs))
    return projected(encoder, torch.cat(parts, 1), group.runs)


def projected(encoder: Encoder, z: Tensor, runs: Tensor) -> Tensor:
    """Embeddings [r, N, embedding_dim] of some runs after their projector heads: [r, N, k]."""
    if not len(encoder.head):
        return z
    full = z.new_zeros(encoder.runs, *z.shape[1:])
    full[runs] = z
    return encoder.project(full)[runs]


@contextmanager
def mode(encoder: Encoder, training: bool) -> Iterator[None]:
    """Put the encoder in training or evaluation mode inside a `with` block."""
    before = encoder.training
    encoder.train(training)
    try:
        yield
    finally:
        encoder.train(before)
