"""Trained networks, kept beside their rows, so that embeddings are computed without training.

A file holds the parameters and running statistics of one stack as float32 in NumPy's format, and the keys of its runs. Its
name is a hash of its content, and rows name it, so that damage is noticed. No code in a file is run.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .config import Run
from .encoder import Encoder
from .files import content_hash

KEYS = "keys"


def packed(encoder: Encoder, runs: Sequence[Run]) -> tuple[str, bytes]:
    """The name and the content of the file of a stack's R networks, whose runs are given in order."""
    arrays = {name: value.detach().float().cpu().numpy() for name, value in encoder.state_dict().items()}
    memory = io.BytesIO()
    arrays[KEYS] = np.array([run.training.key for run in runs])
    np.savez(memory, **arrays)
    content = memory.getvalue()
    return f"{content_hash(content, 24)}.npz", content


def read(row: dict[str, Any], folder: Path) -> Encoder:
    """The network of a row, in evaluation mode.

    Raises:
        ValueError: if the row names none, the file is not there or not as it was written, or it holds no such run.
        OSError: if it cannot be read.
    """
    entry = row.get("encoder")
    name = entry.get("file") if isinstance(entry, dict) else None
    if not isinstance(name, str) or not name:
        raise ValueError("its row names no file")
    path = folder / Path(name).name
    if not path.exists():
        raise ValueError(f"{path.name} is not here; it may be in the archive")
    content = path.read_bytes()
    if content_hash(content, 24) != path.stem:
        raise ValueError(f"{path.name} is not as it was written")
    run, place = Run.from_dict(row["run"]), row["encoder"].get("place")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        keys = list(arrays[KEYS])
        if not isinstance(place, int) or not 0 <= place < len(keys) or keys[place] != run.training.key:
            raise ValueError(f"{path.name} holds other runs")
        encoder = Encoder([run.seed], run.protocol, run.projector, run.projector_dim)
        state = {name: torch.from_numpy(arrays[name][place : place + 1].copy()) for name in encoder.state_dict()}
    encoder.load_state_dict(state)
    return encoder.eval()
