"""Which configuration a method is shown with: the one with the best validation accuracy, as in the paper.

The paper's rule: the configuration with the highest validation accuracy at 1 % of labels, averaged over seeds, separately for
each method, discriminator, sigma and projector head. The choice at 1 % serves all label fractions. A run that diverged counts as chance. Ties go
to the smaller tau_alpha, then tau_beta, then lambda. `freeze` writes selections to files, `experiments.frozen` reads them.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from dtcl_core.config import HYPERPARAMETERS
from dtcl_core.files import write_whole
from dtcl_core.methods import ALL_METHODS

from .reported import CHANCE, SEEDS, SIGMA

FEWER_SEEDS = 2  # that select at the other spreads than 50
FRACTION = 0.01  # of labels, at which validation accuracies are compared
CONTEXT = ("method", "discriminator", "sigma", "projector", "projector_dim")  # configurations compete within it
CONFIGURATION = (*CONTEXT, *HYPERPARAMETERS)
RESAMPLES = 2000
ROUNDED = 12  # decimals of a mean: equal ones differ by rounding, which must not decide a tie


def by_configuration(frame: pd.DataFrame, metric: str = "validation") -> pd.DataFrame:
    """An accuracy at 1 % of the labels by configuration (lines) and seed (columns).

    Raises:
        ValueError: if a configuration has a seed twice, as rows of two protocols would.
    """
    rows = frame[frame.label_fraction == FRACTION]
    twice = rows.duplicated([*CONFIGURATION, "seed"])
    if twice.any():
        first = rows[twice].iloc[0]
        raise ValueError(f"{first.method} has a configuration twice on seed {first.seed}: several protocols or replicates.")
    table = rows.set_index([*CONFIGURATION, "seed"])[metric].unstack("seed")
    return table.sort_index()  # ties then go to the smaller hyperparameters


def select(frame: pd.DataFrame) -> pd.DataFrame:
    """The selected configuration of each context.

    Args:
        frame: rows as `Study.complete` gives them: every configuration on the same seeds.

    Returns:
        One row per context: the columns of `CONFIGURATION`, mean `validation` and `n` seeds.
    """
    means = by_configuration(frame).agg(["mean", "count"], axis=1).round(ROUNDED)
    found = means.rename(columns={"mean": "validation", "count": "n"}).reset_index().astype({"n": int})
    best = found.sort_values("validation", ascending=False, kind="stable").drop_duplicates(list(CONTEXT))
    return in_order(best.sort_index())


def in_order(lines: pd.DataFrame) -> pd.DataFrame:
    """Lines by method, in the order of the paper's tables, unknown methods last; else as they were."""
    place = {method: i for i, method in enumerate(ALL_METHODS)}
    return lines.sort_values("method", key=lambda names: names.map(place), kind="stable").reset_index(drop=True)


def rows_of(frame: pd.DataFrame, chosen: pd.DataFrame) -> pd.DataFrame:
    """The rows of `frame` (all label fractions) that belong to the given configurations."""
    return frame.merge(chosen[list(CONFIGURATION)].drop_duplicates(), on=list(CONFIGURATION))


def leave_one_seed_out(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of each seed for the configuration that the *other* seeds select, so that no seed scores its own choice."""
    seeds = sorted(set(frame.seed))
    parts = [rows_of(frame[frame.seed == s], select(frame[frame.seed != s])) for s in seeds if len(seeds) > 1]
    return pd.concat(parts, ignore_index=True) if parts else frame.iloc[:0]


def reselected(frame: pd.DataFrame, resamples: int = RESAMPLES) -> pd.DataFrame:
    """How often each configuration is selected if seeds are drawn again with replacement (in all ways if at most five).

    Returns:
        One row per context and configuration that is ever selected: columns of `CONFIGURATION`, `share` of the draws in which it
        is, and `selected` (whether the seeds themselves select it); the most frequent first within a context.
    """
    lines = []
    for _, part in by_configuration(frame).groupby(level=list(CONTEXT), dropna=False, sort=False):
        part = part.dropna(axis=1)  # the seeds of this context
        n, generator = part.shape[1], np.random.Generator(np.random.Philox(0))
        seeds = np.array([*product(range(n), repeat=n)] if n <= 5 else generator.integers(n, size=(resamples, n)))
        means = part.to_numpy()[:, seeds].mean(axis=2).round(ROUNDED)  # [configurations, resamples]
        share = np.bincount(means.argmax(axis=0), minlength=len(part)) / len(seeds)
        first = int(part.mean(axis=1).round(ROUNDED).to_numpy().argmax())
        for place in np.argsort(-share, kind="stable"):
            if share[place] > 0 or place == first:
                lines.append((*part.index[place], share[place], place == first))
    return in_order(pd.DataFrame(lines, columns=[*CONFIGURATION, "share", "selected"]))


def freeze(name: str, frame: pd.DataFrame, folder: Path) -> Path:
    """Write what the grid's first seeds select (rows of complete seeds) as a frozen selection; fresh seeds are trained from it.

    Five seeds select at sigma 50 and two at any other, whether or not more are complete.

    Raises:
        ValueError: if the file exists or a method is frozen already (a frozen selection is never changed), or a seed that is to
            select is not complete.
    """
    target = folder / f"{name}.json"
    if target.exists():
        raise ValueError(f"{target.name} exists, and a frozen selection is never changed.")
    if frame.empty:
        raise ValueError("no seed is complete, so nothing can be selected.")
    count = frame.sigma.map(lambda sigma: SEEDS if sigma == SIGMA else FEWER_SEEDS)
    for (sigma, kind), part in frame.assign(kind=frame.discriminator.fillna("global")).groupby(["sigma", "kind"]):
        selecting = set(range(count[part.index[0]]))
        if lacking := selecting - set(part.seed):
            whose = f"at sigma {sigma:g} ({kind} discriminator)"
            raise ValueError(f"{whose} seeds 0 to {max(selecting)} select; not complete: {str(sorted(lacking))[1:-1]}.")
    frame = frame[frame.seed < count]
    chosen = select(frame)[list(CONFIGURATION)].to_dict("records")
    earlier = [c for path in folder.glob("*.json") for c in json.loads(path.read_text(encoding="utf-8"))["configurations"]]
    held = {(c["method"], c["sigma"], c.get("discriminator")) for c in earlier}
    settings = [{key: value for key, value in line.items() if value is not None and value == value} for line in chosen]
    if twice := [s["method"] for s in settings if (s["method"], s["sigma"], s.get("discriminator")) in held]:
        raise ValueError(f"a selection of {twice[0]} is frozen already at one of these sigmas; name others by --sigma.")
    seeds = {f"{sigma:g}": sorted(map(int, set(part.seed))) for sigma, part in frame.groupby("sigma")}
    write_whole(json.dumps({"name": name, "seeds": seeds, "configurations": settings}, indent=1) + "\n", target)
    return target


def strategies(frame: pd.DataFrame) -> pd.DataFrame:
    """Ways to select a configuration, and what each gives.

    A way selects the configuration with the largest `score`. Validation accuracy is the paper's way; no user knows Test-OOD.

    Returns:
        One row per context, way and seed: the columns of `CONTEXT`, way, seed, and the accuracies of digits in known and unseen
        colours (test_id, test_ood) of the configuration selected on the other seeds.
    """
    rows = frame[frame.label_fraction == FRACTION]
    distance = (rows.d_test_id - CHANCE).abs().where(rows.status == "ok", 1.0)  # worse than any other for a run that diverged
    score = {
        "validation (the paper)": rows.validation,
        "Test-ID": rows.test_id,
        "D-Test-ID nearest 0.5": -distance,
        "a mix of the three": (rows.validation + rows.test_id) / 2 - distance,
        "Test-OOD": rows.test_ood,
    }
    # `select` reads the column validation, so each way's score takes its place.
    parts = [leave_one_seed_out(rows.assign(validation=values)).assign(way=way) for way, values in score.items()]
    found = in_order(pd.concat(parts, ignore_index=True))
    return found[[*CONTEXT, "way", "seed", "test_id", "test_ood"]]
