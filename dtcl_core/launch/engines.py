"""Trains what is missing of what is asked for, where the caller says: on this machine, or on a Ray cluster.

The only module that knows both, so that `local` and `cluster` need not know who calls them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..checks import checked_choice
from ..config import Run
from ..results import Store
from . import cluster, local

ENGINES = ("local", "ray")


def compute(
    runs: Sequence[Run], store: Store | None = None, device: str = "auto", *, engine: str = "local", **options: Any
) -> int:
    """Train and store those of `runs` that have no row yet.

    Args:
        runs: the runs asked for.
        store: where rows are looked for and added; None means the project's results.
        device: "auto", "cpu", "cuda" or "cuda:N".
        engine: "local", or "ray" for the machines of a Ray cluster.
        options: see `local.compute`.

    Returns:
        How many runs were trained.

    Raises:
        ValueError: for an unusable device, precision or engine, before any training.
        OSError: if rows cannot be written, before any training.
        Interrupted: when training was asked to stop; what was done is kept, and the next call goes on from there.
    """
    where = {"local": local, "ray": cluster}[checked_choice("engine", engine, ENGINES)]
    return where.compute(runs, store or Store(), device, **options)
