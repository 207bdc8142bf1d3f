"""The effect of the proposed methods under every reading and every choice that there are rows of.

A *specification* is a protocol, a number of epochs, a spread of colours and a discriminator. In each, a proposed method stands
with the cell that validation selects among all that were run there, whatever for, and so does what it is compared with: standard contrastive
learning, and the best baseline, which is picked on the other seeds (`contrasts.best_elsewhere`). What only a domain weight sees
(`WEIGHT_FIELDS`) does not change the others, so they are borrowed from a protocol that differs in nothing else. Cells that
calibration may look at are left out, as everywhere. What was selected is shown on the seeds that selected it, and apart from them on
fresh ones, where there are some. Specifications were run for many reasons, with one seed often: the curve shows
how far the effect moves, and is no test.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from ..config import HYPERPARAMETERS, Protocol, Run
from ..experiments import open_choices, readings
from ..experiments.core import FRESH_SEED, REMATCH_SEEDS, SIGMA, UNSEEN_SEEDS, is_in_strip
from ..results import protocol_hash
from . import selection
from .contrasts import BASELINES, PROPOSED, Evidence, best_elsewhere
from .intervals import mean_interval

WEIGHT_FIELDS = tuple(
    field.name
    for field in dataclasses.fields(Protocol)
    if field.name.startswith("discriminator_") or field.name in ("posterior_view", "weight_gradient", "tau_min")
)
SAID = {  # by field, and value where it is a choice: what a change is called
    "discriminator_fit adam": "discriminator fitted by Adam",
    "discriminator_steps": "in {} steps",
    "discriminator_learning_rate": "in steps of {}",
    "discriminator_l2": "discriminator's penalty {}",
    "discriminator_inputs augmented": "discriminator fitted on augmented views",
    "discriminator_mode train": "discriminator fitted in training mode",
    "discriminator_features l2": "discriminator on scaled embeddings",
    "posterior_view anchor_view": "weight from a negative's other view",
    "weight_gradient True": "gradient through the weight",
    "tau_min": "tau_min {}",
}
METRICS = ("test_id", "test_ood", "d_test_id")
LATER = (*REMATCH_SEEDS, *UNSEEN_SEEDS)  # of a comparison by itself (`whole_grid`), not one of many
AS_CLAIMED = "as in the claims"  # what the default is called: every verdict rests on it
COLUMNS = ("specification", "method", "against", "metric", "mean", "low", "high", "n")
MOVES = ("change", "method", "epochs", "sigma", "before", "after", "moved", "low", "high", "n")


def protocols(rows: Iterable[Mapping[str, Any]]) -> dict[str, Protocol]:
    """The protocols that rows of a store have, by their hash."""
    found = {}
    for row in rows:
        protocol = Run.from_dict(row["run"]).protocol
        found[protocol_hash(protocol)] = protocol
    return found


def without_weight(protocol: Protocol) -> str:
    """A hash of what a method without a domain weight sees of a protocol."""
    default = Protocol()
    return protocol_hash(dataclasses.replace(protocol, **{name: getattr(default, name) for name in WEIGHT_FIELDS}))


def name_of(protocol: Protocol) -> tuple[str, str]:
    """The reading of the paper that a protocol is nearest to, and what it changes of it.

    >>> name_of(dataclasses.replace(readings.FIRST, tau_min=0.2))
    ('first reading', 'tau_min 0.2')
    """
    changes = {}
    for name, other in {"first reading": readings.FIRST, AS_CLAIMED: Protocol()}.items():
        other = dataclasses.replace(other, epochs=protocol.epochs)
        changed = [f.name for f in dataclasses.fields(Protocol) if getattr(protocol, f.name) != getattr(other, f.name)]
        changes[name] = [_words(field, _short(getattr(protocol, field))) for field in changed]
    nearest = min(changes, key=lambda name: len(changes[name]))
    return nearest, ", ".join(changes[nearest])


def _words(field: str, value: str) -> str:
    """A change as `SAID` has it; of a field that it has not, its name and value."""
    plain = f"{field} {value}"
    return SAID.get(plain, SAID.get(field, plain.replace("_", " ")).format(value))


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def effects(frame: pd.DataFrame, of: Mapping[str, Protocol]) -> pd.DataFrame:
    """The proposed methods less what they are compared with, a line for each specification, method, metric and comparison.

    Args:
        frame: rows as from `results.load`.
        of: the protocol behind each hash in `frame`, as from `protocols`.

    Returns:
        `COLUMNS`: specification (in words), method, against ("standard" or "best baseline"), metric, and the difference over
        seeds (mean, low, high, n; no interval for one seed). For `d_test_id` the difference is how much *nearer to one half* the
        proposed method is.
    """
    rows = frame[
        (frame.label_fraction == selection.SELECTION_FRACTION) & (frame.status == "ok") & frame.projector.isna()
    ]
    rows = rows[rows.epochs >= open_choices.SHORT_EPOCHS]  # shorter ones prove that something works, nothing else
    rows = rows[~(rows.method.isin(PROPOSED) & _calibrated(rows))]
    # On fresh seeds only rivals of what was selected lie outside a strip (`whole_grid`).
    rows = rows[~((rows.seed >= FRESH_SEED) & _outside(rows)) & ~rows.seed.isin(LATER)]
    if rows.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    rows = rows.assign(shared=[without_weight(of[name]) for name in rows.protocol], fresh=rows.seed >= FRESH_SEED)
    others = rows[rows.method.isin(BASELINES)].drop_duplicates(
        ["shared", "epochs", "sigma", "method", "tau_alpha", "lambda_", "seed"]
    )
    place = ["shared", "epochs", "sigma", "fresh"]
    proposed, others = _selected(rows[rows.method.isin(PROPOSED)], "protocol"), _selected(others, "shared")
    beside = {where: dict(iter(theirs.groupby("method"))) for where, theirs in others.groupby(place)}
    lines: list[tuple[Any, ...]] = []
    for (name, *_), mine in proposed.groupby(["protocol", "epochs", "sigma", "discriminator", "fresh"]):
        first = mine.iloc[0]
        chosen = beside.get(tuple(first[place]), {})
        title = ", ".join(filter(None, name_of(of[name])))
        title += (
            f"; {first.epochs:g} epochs, sigma {first.sigma:g}"
            + ("" if first.discriminator == "global" else f", {first.discriminator}-level")
            + (", fresh seeds" if first.fresh else "")
        )
        for method, part in mine.groupby("method"):
            lines += [(title, method, *line) for line in _compared(part, chosen)]
    return pd.DataFrame(lines, columns=list(COLUMNS))


def _outside(rows: pd.DataFrame) -> pd.Series:
    """Whether each row's cell lies outside the strip that its method was searched in at sigma 50; no other spread has a strip."""
    cells = zip(rows.sigma, rows.method, *(rows[name] for name in HYPERPARAMETERS))
    searched = (*BASELINES, *PROPOSED)
    found = [sigma == SIGMA and method in searched and not is_in_strip(method, *cell) for sigma, method, *cell in cells]
    return pd.Series(found, rows.index, dtype=bool)


def _calibrated(rows: pd.DataFrame) -> pd.Series:
    """Whether each row is of a cell that calibration may look at, for a proposed method."""
    return pd.Series(
        [Evidence.is_calibrated(a, b) for a, b in zip(rows.tau_alpha, rows.tau_beta)], rows.index, dtype=bool
    )


def _selected(rows: pd.DataFrame, whose: str) -> pd.DataFrame:
    """Of each method's rows, those of the cell that validation selects among all of one `whose` (a column), one a seed."""
    together = rows.assign(protocol=rows[whose] + rows.fresh.map({True: ", fresh", False: ""}), of=rows.protocol)
    chosen = selection.rows_of(together, selection.select(together))
    one = chosen.drop_duplicates(["method", "discriminator", "sigma", "epochs", "protocol", "seed"])
    return one.assign(protocol=one.of).set_index("seed")


def _compared(mine: pd.DataFrame, chosen: Mapping[str, pd.DataFrame]) -> list[tuple[Any, ...]]:
    """Differences of a method to standard contrastive learning and to the best baseline: against, metric, interval."""
    lines: list[tuple[Any, ...]] = []
    for metric in METRICS:
        good = {name: _goodness(part[metric], metric) for name, part in {"mine": mine, **chosen}.items()}
        against = {"standard": good["standard"]} if "standard" in good else {}
        if set(BASELINES) <= set(good):
            table = pd.concat([good[name] for name in BASELINES], axis=1, join="inner").dropna()
            against["best baseline"] = best_elsewhere(table)
        for name, other in against.items():
            found = mean_interval((good["mine"] - other).dropna().tolist())
            if found.n:
                lines.append((name, metric, *found))
    return lines


def _goodness(values: pd.Series, metric: str) -> pd.Series:
    """Accuracy, or for that of telling domains apart minus its distance from one half."""
    return -(values - 0.5).abs() if metric == "d_test_id" else values


def moves(frame: pd.DataFrame, of: Mapping[str, Protocol], metric: str = "test_id") -> pd.DataFrame:
    """By how much each change of what only the weight sees moves the proposed methods, the largest first.

    The same configurations on the same seeds, with the change and without: differences are paired, averaged over the
    configurations that have both, and their interval is over seeds. What they are compared with does not change, so their lead
    over it moves by as much.

    Args:
        frame: rows as from `results.load`.
        of: the protocol behind each hash in `frame`, as from `protocols`.
        metric: of which accuracy.

    Returns:
        `MOVES`: before and after are means, n counts seeds.
    """
    rows = frame[
        (frame.label_fraction == selection.SELECTION_FRACTION) & (frame.status == "ok") & frame.method.isin(PROPOSED)
    ]
    rows = rows[(rows.epochs >= open_choices.SHORT_EPOCHS) & ~rows.seed.isin(LATER)]
    rows = rows[~_calibrated(rows)]
    if rows.empty:
        return pd.DataFrame(columns=list(MOVES))
    named = {name: name_of(protocol) for name, protocol in of.items()}
    shared = {name: without_weight(protocol) for name, protocol in of.items()}
    rows = rows.assign(change=[named[p][1] for p in rows.protocol], shared=[shared[p] for p in rows.protocol])
    same = ["shared", "epochs", "sigma", "discriminator", "method", "tau_alpha", "tau_beta", "seed"]
    starts = rows[rows.change == ""].drop_duplicates(same).set_index(same)[metric].rename("before")
    both = rows[rows.change != ""].join(starts, on=same, how="inner")
    lines = []
    for setting, part in both.groupby(["change", "method", "epochs", "sigma"]):
        by_seed = part.assign(moved=part[metric] - part.before).groupby("seed")[["before", metric, "moved"]].mean()
        lines.append((*setting, by_seed.before.mean(), by_seed[metric].mean(), *mean_interval(by_seed.moved.tolist())))
    table = pd.DataFrame(lines, columns=list(MOVES))
    return table.sort_values("moved", key=lambda moved: -moved.abs(), kind="stable", ignore_index=True)
