"""Which configuration a method is shown with: the one with the best validation accuracy, as in the paper.

The paper's rule: the configuration with the highest validation accuracy at 1 % of labels, averaged over seeds, separately for each
method, discriminator and sigma. The choice at 1 % serves all label fractions. A run that diverged counts as chance. Ties go to the
smaller tau_alpha, then tau_beta, then lambda.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dtcl_core.config import HYPERPARAMETERS

FRACTION = 0.01  # of labels, at which validation accuracies are compared
CHANCE = 0.5
CONTEXT = ("method", "discriminator", "sigma", "projector", "projector_dim")  # configurations compete within it
CONFIGURATION = (*CONTEXT, *HYPERPARAMETERS)
RESAMPLES = 2000


def validation(frame: pd.DataFrame, label_fraction: float = FRACTION) -> pd.DataFrame:
    """Validation accuracy by configuration (lines) and seed (columns); chance where a run diverged.

    Raises:
        ValueError: if a configuration has a seed twice, as rows of two protocols would.
    """
    rows = frame[frame.label_fraction == label_fraction]
    twice = rows.duplicated([*CONFIGURATION, "seed"])
    if twice.any():
        first = rows[twice].iloc[0]
        raise ValueError(f"{first.method} has a configuration twice on seed {first.seed}: the rows are of several protocols.")
    filled = rows.assign(validation=rows.validation.fillna(CHANCE))
    table = filled.set_index([*CONFIGURATION, "seed"]).validation.unstack("seed")
    return table.sort_index()  # ties then go to the smaller hyperparameters


def select(frame: pd.DataFrame, label_fraction: float = FRACTION) -> pd.DataFrame:
    """The selected configuration of each context.

    Args:
        frame: rows as `Study.complete` gives them: every configuration on the same seeds.
        label_fraction: at which validation accuracy is compared.

    Returns:
        A line a context: the columns of `CONFIGURATION`, mean `validation` and `n` seeds.
    """
    table = validation(frame, label_fraction)
    found = pd.DataFrame({"validation": table.mean(axis=1), "n": table.notna().sum(axis=1)}).reset_index()
    best = found.sort_values("validation", ascending=False, kind="stable").drop_duplicates(list(CONTEXT))
    return best.sort_index().reset_index(drop=True)


def rows_of(frame: pd.DataFrame, chosen: pd.DataFrame) -> pd.DataFrame:
    """The rows of `frame` (all label fractions) that belong to the given configurations."""
    wanted = set(_names(chosen))
    return frame[np.array([name in wanted for name in _names(frame)], dtype=bool)].reset_index(drop=True)


def elsewhere(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of each seed for the configuration that the *other* seeds select, so that no seed scores its own choice."""
    seeds = sorted(set(frame.seed))
    parts = [rows_of(frame[frame.seed == s], select(frame[frame.seed != s])) for s in seeds if len(seeds) > 1]
    return pd.concat(parts, ignore_index=True) if parts else frame.iloc[:0]


def reselected(frame: pd.DataFrame, resamples: int = RESAMPLES) -> pd.DataFrame:
    """What as many other seeds would select: the seeds are drawn again with replacement, and selected on.

    Returns:
        A line a context and configuration that is ever selected: the columns of `CONFIGURATION`, `share` of the resamples in which it
        is, and `selected` (whether the seeds themselves select it); the most frequent first within a context.
    """
    table, generator = validation(frame), np.random.Generator(np.random.Philox(0))
    seeds = generator.integers(table.shape[1], size=(resamples, table.shape[1]))
    lines = []
    for _, part in table.groupby(level=list(CONTEXT), dropna=False, sort=False):
        means = part.to_numpy()[:, seeds].mean(axis=2)  # [configurations, resamples]
        share = np.bincount(means.argmax(axis=0), minlength=len(part)) / resamples
        first = int(part.mean(axis=1).to_numpy().argmax())
        for place in np.argsort(-share, kind="stable"):
            if share[place] > 0 or place == first:
                lines.append((*part.index[place], share[place], place == first))
    return pd.DataFrame(lines, columns=[*CONFIGURATION, "share", "selected"])


def freeze(name: str, frame: pd.DataFrame, folder: Path) -> Path:
    """Write what the complete seeds select as a frozen selection, from which fresh seeds are trained.

    Args:
        name: of the file.
        frame: rows of complete seeds.
        folder: where it goes.

    Raises:
        ValueError: if there is no complete seed, or the file exists: a frozen selection is never changed.
    """
    target = folder / f"{name}.json"
    if target.exists():
        raise ValueError(f"{target.name} exists, and a frozen selection is never changed.")
    if frame.empty:
        raise ValueError("no seed is complete, so nothing can be selected.")
    chosen = select(frame)[list(CONFIGURATION)].to_dict("records")
    plain = [{key: value for key, value in line.items() if value is not None and value == value} for line in chosen]
    seeds = sorted({int(seed) for seed in frame.seed})
    target.write_text(json.dumps({"name": name, "seeds": seeds, "configurations": plain}, indent=1) + "\n", encoding="utf-8")
    return target


def strategies(frame: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Ways to select a configuration, and what each gives: the means of the accuracies over seeds.

    The ways: the held-out colour (the paper's), held-out digits of the training colours, the embedding that tells the domain least, the
    mean of the first two less what the third tells, and the oracle that looks at Test-OOD.

    Returns:
        A line a context and way: the columns of `CONTEXT`, way, seed, and each metric of the configuration selected on the other seeds.
    """
    rows = frame[frame.label_fraction == FRACTION]
    score = {
        "held-out colour": rows.validation,
        "held-out digits": rows.test_id,
        "domain least told": -(rows.d_test_id - 0.5).abs(),
        "a mix of the three": (rows.validation + rows.test_id) / 2 - (rows.d_test_id - 0.5).abs(),
        "oracle: Test-OOD": rows.test_ood,
    }
    parts = [elsewhere(rows.assign(validation=values)).assign(way=way) for way, values in score.items()]
    found = pd.concat(parts, ignore_index=True)
    return found[[*CONTEXT, "way", "seed", *(m for m in metrics if m != "validation")]]


def _names(table: pd.DataFrame) -> list[tuple[Any, ...]]:
    """The configuration that each line belongs to, None for what it lacks."""
    keys = table[list(CONFIGURATION)].astype(object)
    return list(keys.where(keys.notna(), None).itertuples(index=False, name=None))


def named(configuration: Iterable[float | None]) -> str:
    """Hyperparameters as tables show them.

    >>> named([0.1, np.nan, 5.0]), named([0.175, 1.0, None])
    ('0.1/5', '0.175/1')
    """
    return "/".join(f"{value:g}" for value in configuration if value is not None and value == value)
