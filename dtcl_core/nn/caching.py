"""Embeddings of a batch whose activations do not fit into memory: gradient caching (Gao et al. 2021, arXiv 2101.06983)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..checks import checked_number, shown


def embed_in_chunks(encoder: Callable[[Any], Tensor], x: Tensor | Mapping[str, Tensor], chunk_size: int) -> Tensor:
    """`encoder(x)`, computed one chunk of examples at a time, and once more in the backward pass.

    A contrastive loss needs all embeddings at once, but not all activations: memory holds those of one chunk. The loss may
    have a `chunk_size` of its own, for the matrix of pairs.

    Args:
        encoder: from examples [n, ...] to embeddings [n, k].
        x: [N, ...] examples, or a dictionary of such tensors, as tokenizers give it. The encoder is then given dictionaries;
            one with named arguments is ``lambda part: net(**part).last_hidden_state[:, 0]``, for example.
        chunk_size: examples embedded at a time, at least 1.

    Returns:
        [N, k] embeddings. Their gradients are those of the whole batch, if the encoder treats each example alone. Batch norm
        does not: it takes the statistics of each chunk, and updates its running ones twice. Dropout draws the same again.

    Raises:
        ValueError: unless x is a tensor, or a dictionary of one or more tensors of one length, chunk_size at least 1, and the
            encoder returns a tensor with a row for each example.

    >>> x = torch.arange(6.0).reshape(3, 2).requires_grad_()
    >>> embed_in_chunks(torch.nn.Identity(), x, chunk_size=2).equal(x)
    True
    """
    size = int(checked_number("chunk_size", chunk_size, 1, integer=True))
    if not isinstance(x, (Tensor, Mapping)) or (isinstance(x, Tensor) and not x.dim()):
        raise ValueError(f"x must be a tensor [N, ...] or a dictionary of such tensors, got {shown(x)}.")
    parts = x.split(size) if isinstance(x, Tensor) else _parts(x, size)
    found = [checkpoint(encoder, part, use_reentrant=False) for part in parts]
    for part, z in zip(parts, found):
        n = len(part if isinstance(part, Tensor) else next(iter(part.values())))
        if not isinstance(z, Tensor) or not z.dim() or len(z) != n:
            got = str(tuple(z.shape)) if isinstance(z, Tensor) else type(z).__name__
            raise ValueError(f"the encoder must return embeddings [n, k] of n examples, got {got} for {n} examples.")
    return torch.cat(found)


def _parts(x: Mapping[str, Tensor], size: int) -> list[dict[str, Tensor]]:
    """A dictionary of tensors [N, ...] as one dictionary for each chunk of `size` examples."""
    lengths = {name: len(t) if isinstance(t, Tensor) and t.dim() else None for name, t in x.items()}
    if None in lengths.values() or len(set(lengths.values())) != 1:
        raise ValueError(f"x must be tensors of one length, got lengths {lengths}.")
    return [dict(zip(x, values)) for values in zip(*(t.split(size) for t in x.values()))]
