"""The misfits of `calibration` once more, by arithmetic of its own: nothing of it but which runs and which reported numbers.

The rule of `calibration` decides how the paper is read, and works on data frames. Here the same is summed seed by seed from the
draws of labels in the rows, so that a mistake in one is not in the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..config import Protocol
from ..experiments.readings import CANDIDATES, FIRST, ORACLE_TAU, runs
from .calibration import anchors

Rows = Mapping[str, dict[str, Any]]


def misfits(rows: Rows, names: Sequence[str], seeds: int, sized: Protocol = FIRST) -> dict[str, float]:
    """The misfit of each of several candidates on as many seeds, chance pooled over them.

    Args:
        rows: by key, as `results.Store.rows` gives them.
        names: of candidates that have all their runs and share no training, as those of the last comparison.
        seeds: how many of each.
        sized: see `readings.runs`.
    """
    each = {name: accuracies(rows, name, seeds, sized) for name in names}
    wanted = anchors().to_dict("records")
    found = {}
    for name in names:
        terms: dict[str, list[float]] = {}
        for place, anchor in enumerate(wanted):
            here = [each[other][place] for other in names]
            moved = here[0].shape[1] > 1 and anchor["metric"] != "d_test_id"
            draw = float(np.mean([np.nanmean(x.var(axis=1, ddof=1)) for x in here])) if moved else 0.0
            whole = [np.nan_to_num(x, nan=0.5) for x in here]  # a run that diverged is at chance
            seed = max(float(np.mean([x.mean(axis=1).var(ddof=1) for x in whole])) - draw / 20, 0.005**2)
            chance = np.sqrt(seed * (1 / seeds + 1 / 5) + draw * (1 / (20 * seeds) + 1 / 5))
            off = (np.nan_to_num(each[name][place], nan=0.5).mean() - anchor["reported"]) / chance
            terms.setdefault(anchor["group"], []).append(float(np.clip(off, -4, 4)))
        found[name] = float(np.mean([np.sqrt(np.mean(np.square(group))) for group in terms.values()]))
    return found


def accuracies(rows: Rows, name: str, seeds: int, sized: Protocol = FIRST) -> list[np.ndarray]:
    """What a candidate measures at each anchor, in their order: [seeds, draws of labels], NaN for a run that diverged."""
    (candidate,) = (c for c in CANDIDATES if c.name == name)
    mine = [(run, rows[run.key]) for run in runs(candidate, seeds, sized)]
    by_tau: dict[float, list[float]] = {}
    for run, row in mine:
        if run.method == "standard":
            value = row["metrics"]["0.01"]["validation"]
            by_tau.setdefault(run.tau_alpha, []).append(0.5 if value is None else value)
    picked = {"standard": max(by_tau, key=lambda tau: np.mean(by_tau[tau])), "color_jitter": ORACLE_TAU}
    found = []
    for anchor in anchors().to_dict("records"):
        tau, at = picked.get(anchor["method"], anchor["tau_alpha"]), str(anchor["label_fraction"])
        seen = [row for run, row in mine if run.method == anchor["method"] and run.tau_alpha == tau]
        found.append(np.array([row["draws"][at][anchor["metric"]] for row in seen], dtype=float))
    return found
