"""Train what is missing on this machine (`local`) or on a Ray cluster (`cluster`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..checks import checked_choice
from ..config import Run
from ..results import Store
from . import LAUNCHERS, cluster, local


def compute(
    runs: Sequence[Run], store: Store | None = None, device: str = "auto", *, launcher: str = "local", **options: Any
) -> int:
    """Train and store those of `runs` that have no row yet.

    Args:
        runs, store, device, options: see `local.compute`.
        launcher: "local", or "ray" for the machines of a Ray cluster.

    Returns:
        How many runs were trained.

    Raises:
        ValueError: for an unusable device, precision or launcher, before any training.
        OSError, Interrupted: see `local.compute`.
    """
    where = {"local": local, "ray": cluster}[checked_choice("launcher", launcher, LAUNCHERS)]
    return where.compute(runs, store or Store(), device, **options)
