"""The preset `core`: full runs in parts, about a thousand behind claims and four hundred beside them.

A part is asked for once the parts before it have their rows.

| part | what | seeds |
|---|---|---|
| `strip` | sigma 50: a strip of every grid | 0, 1 |
| `further` | sigma 50: the two best cells | 2, 3, 4 |
| `fresh` | sigma 50: the better of the two | 1000 to 1009 |
| `spreads` | the other sigmas: the two cells, and the neighbour in temperature of a better one at an edge of the strip | 0, 1, 2 |
| `ends` | sigma 0 and 150: the best cell there | 3, 4 |
| `batches` | five sigmas: batch-level discriminators in the two cells | 0, 1, 2 |
| `both` | five sigmas: the best cell of either kind of discriminator | 3, 4 |
| `heads` | sigma 25: seven projector heads at two temperatures | 0 to 4 |
| `outside` | sigma 50: the weight outside the exponent, beside one in the temperature and none | 0 to 4 |
| `followed` | sigma 50: the run whose temperatures are recorded | 0 to 4 |
| `first_reading` | sigma 50: the cells of `fresh` under the first reading of the paper | 1000 to 1009 |
| `third` | sigma 50: the strip once more, for claims about all hyperparameters | 2 |
| `unstated` | sigma 50: the cells of `fresh`, one choice about the weight changed at a time; no claim rests on them | 1000 to 1004 |
| `grid` | sigma 50: the paper's whole grid; no claim rests on it | 0 |
| `rivals` | sigma 50: the best cell outside a strip, if it beats all within on seed 0; no claim rests on them | 1000 to 1004 |
| `rematch` | sigma 50: of the cell in `fresh` and its rival the better one on those five seeds (at the second level of tau_min the former alone), colour jitter aside; no verdict on the card rests on them | 1010 to 1019 |
| `unseen` | sigma 50: Standard CL and weighted pairs of `rematch` once more, for the unseen colour; no verdict on the card rests on them | 1020 to 1039 |

Each method has cells of its own, and a proposed method has them at each of two levels of tau_min, which is never selected over
(`batches`, `both`, `unstated`, `grid`, `rivals` and `unseen`: at the first level). Which cells go on is decided by mean validation accuracy at 1 % of labels and by
nothing else; a run that diverged counts as chance. Ties go to the smaller tau_alpha, then tau_beta, then lambda. The cells that
calibration looked at are trained for the tables and go nowhere.

Nothing here reads a store: a part is a function of `Validation`, which gives a run's accuracy, or None while it has no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from ..config import LAMBDAS, SIGMAS, TAU_ALPHAS, TAU_BETAS, Protocol, Run
from ..methods import ALL_METHODS
from .readings import FIRST

Validation = Callable[[Run], float | None]
Cell = Mapping[str, Any]  # tau_alpha, and tau_beta or lambda_
PARTS = (
    "strip", "further", "fresh", "spreads", "ends", "batches", "both", "heads", "outside", "followed",
    "first_reading", "third", "unstated", "grid", "rivals", "rematch", "unseen",
)  # fmt: skip

SIGMA = 50.0  # where hyperparameters are searched
OTHERS = tuple(sigma for sigma in SIGMAS if sigma != SIGMA)
ENDS = (min(SIGMAS), max(SIGMAS))
TAUS = (0.05, 0.1, 0.125, 0.15, 0.175, 0.25)
BETAS = (0.1, 0.5, 1.0)
PENALTY_TAUS, PENALTY_LAMBDAS = (0.05, 0.1, 0.15), (0.01, 0.1, 1.0)
TAU_MINS = (0.01, 0.05)  # the paper gives none
STANDARD = "standard"
PROPOSED, PLAIN, PENALISED = ("dw_negatives", "dw_pairs"), (STANDARD, "same_domain", "color_jitter"), ("mmd", "dann")
PAPER_SELECTED = ((0.075, 0.5), (0.175, 1.0))  # at sigma 50, for negatives and for pairs
CALIBRATED_BETA, CALIBRATED_ALPHAS = 0.1, (0.175, 0.25)  # reported at chance; `calibration` may look at them
PLAIN_BETAS = tuple(beta for beta in BETAS if beta != CALIBRATED_BETA)  # no cell of the strip with these is calibrated
CHANCE = 0.5  # accuracy between two digits, or two domains
FRESH_SEED, FRESH_SEEDS = 1000, 10  # of seeds that take part in no selection
FRESH = range(FRESH_SEED, FRESH_SEED + FRESH_SEEDS)
UNSTATED_SEEDS = RIVAL_SEEDS = FRESH[:5]
REMATCH_SEEDS = range(FRESH.stop, FRESH.stop + FRESH_SEEDS)  # by which no cell was chosen either
UNSEEN_SEEDS = range(REMATCH_SEEDS.stop, REMATCH_SEEDS.stop + 2 * FRESH_SEEDS)  # nor by these
HEADS: tuple[dict[str, Any], ...] = (
    {},
    *({"projector": kind, "projector_dim": width} for kind in ("linear", "mlp") for width in (4, 8, 16)),
)
HEAD_SIGMA, HEAD_TAUS = 25.0, (0.05, 0.1)
SPREADS = {name: (SIGMA,) for name in PARTS} | {  # where each part is
    "spreads": OTHERS, "ends": ENDS, "batches": SIGMAS, "both": SIGMAS, "heads": (HEAD_SIGMA,),
}  # fmt: skip
OUTSIDE_TAU, OUTSIDE_BETA = 0.1, 0.5
FOLLOWED: Cell = {"tau_alpha": 0.125, "tau_beta": 0.1}  # the paper draws its temperatures, for pairs
UNSTATED: Mapping[str, Mapping[str, Any]] = {  # what the paper does not say of the domain weight, beside tau_min
    "weight gradient": {"weight_gradient": True},
    "strong penalty": {"discriminator_l2": 100.0},
    "100 steps of Adam": {"discriminator_fit": "adam"},
    "augmented images": {"discriminator_inputs": "augmented"},
    "directions": {"discriminator_features": "l2"},
    "training mode": {"discriminator_mode": "train"},
    "other view": {"posterior_view": "anchor_view"},
}
SEEDS = (0, 1, 2, 3, 4)
SEARCH_SEEDS, FURTHER_SEEDS = SEEDS[:2], SEEDS[2:]  # where hyperparameters are searched
GRID_SEEDS = SEEDS[:3]  # those of every cell of the strip, with part `third`
WHOLE_SEEDS = SEEDS[:1]  # of the paper's whole grid
SPREAD_SEEDS, END_SEEDS = SEEDS[:3], SEEDS[3:]  # at other sigmas


def validation_of(rows: Mapping[str, Mapping[str, Any]]) -> Validation:
    """What stored rows tell of validation accuracy at 1 % of labels, by which the parts go on; chance for what diverged.

    Args:
        rows: by key, as from `Store.rows`.
    """

    def accuracy(run: Run) -> float | None:
        row = rows.get(run.key)
        if row is None:
            return None
        return row["metrics"]["0.01"]["validation"] if row["status"] == "ok" else CHANCE

    return accuracy


def nothing(run: Run) -> float | None:
    """The `Validation` of an empty store."""
    return None


@cache
def changed(protocol: Protocol, **changes: Any) -> Protocol:
    """A protocol with other values of some fields, made and checked once however many runs share it."""
    return replace(protocol, **changes) if changes else protocol


@cache
def shared_run(**fields: Any) -> Run:
    """A `Run` of these fields, made and checked once however many experiments share it."""
    return Run(**fields)


@dataclass(frozen=True)
class Entry:
    """What competes only with itself: a method, and for a proposed one a level of tau_min."""

    method: str
    tau_min: float | None = None

    def run(self, protocol: Protocol, cell: Cell, sigma: float, seed: int, **more: Any) -> Run:
        """A run of one of its cells."""
        level = {} if self.tau_min is None else {"tau_min": self.tau_min}
        protocol = changed(protocol, **level)
        return shared_run(method=self.method, sigma=sigma, seed=seed, protocol=protocol, **cell, **more)


ENTRIES = (
    *(Entry(method) for method in (*PLAIN, *PENALISED)),
    *(Entry(method, level) for method in PROPOSED for level in TAU_MINS),
)


def entry_of(run: Run) -> Entry:
    """What a run competes as."""
    return Entry(run.method, run.protocol.tau_min if run.method in PROPOSED else None)


UNSEEN_ENTRIES = (Entry(STANDARD), Entry("dw_pairs", TAU_MINS[0]))  # the best baseline and the best method on Test-OOD


def is_calibrated(tau_alpha: float, tau_beta: float | None) -> bool:
    """Whether calibration may look at a cell of the proposed methods, which then is no evidence."""
    return tau_alpha == 1.0 or (tau_alpha in CALIBRATED_ALPHAS and tau_beta == CALIBRATED_BETA)


def strip(method: str) -> list[Cell]:
    """The cells of a method that are searched."""
    if method in PROPOSED:
        grid = [(a, b) for a in TAUS for b in BETAS]
        return [{"tau_alpha": a, "tau_beta": b} for a, b in dict.fromkeys([*grid, *PAPER_SELECTED])]
    if method in PENALISED:
        return [{"tau_alpha": a, "lambda_": strength} for a in PENALTY_TAUS for strength in PENALTY_LAMBDAS]
    return [{"tau_alpha": a} for a in TAUS]


def is_in_strip(method: str, tau_alpha: float, tau_beta: float | None, lambda_: float | None) -> bool:
    """Whether a cell is one of the strip of its method; what it lacks is None or NaN."""
    told = {"tau_alpha": tau_alpha, "tau_beta": tau_beta, "lambda_": lambda_}
    return {name: value for name, value in told.items() if value is not None and value == value} in strip(method)


def grid(method: str) -> list[Cell]:
    """The cells of a method that the paper searches (its appendix D)."""
    if method in PROPOSED:
        return [{"tau_alpha": a, "tau_beta": b} for a in TAU_ALPHAS for b in TAU_BETAS]
    if method in PENALISED:
        return [{"tau_alpha": a, "lambda_": strength} for a in TAU_ALPHAS for strength in LAMBDAS]
    return [{"tau_alpha": a} for a in TAU_ALPHAS]


def neighbours(cell: Cell) -> list[Cell]:
    """The next temperature of the paper's grid beyond an edge of the strip, or, where it has none, before it."""
    place = TAU_ALPHAS.index(cell["tau_alpha"])
    if cell["tau_alpha"] not in (TAUS[0], TAUS[-1]):
        return []
    return [{**cell, "tau_alpha": TAU_ALPHAS[1 if place == 0 else place + 1]}]


def best(
    cells: Iterable[Cell], runs_of: Callable[[Cell], Sequence[Run]], validation: Validation, count: int
) -> list[Cell]:
    """The cells with the highest mean validation accuracy, best first; none while a run of any cell has no row."""
    ranked = []
    for cell in cells:
        found = [validation(run) for run in runs_of(cell)]
        if any(value is None for value in found):
            return []
        ties = (cell["tau_alpha"], cell.get("tau_beta", 0.0), cell.get("lambda_", 0.0))
        ranked.append((-float(np.mean([value for value in found if value is not None])), ties, cell))
    return [cell for *_, cell in sorted(ranked, key=lambda line: line[:2])[:count]]


def parts(protocol: Protocol, validation: Validation) -> dict[str, list[Run]]:
    """The runs of each part as far as the rows before it say which they are, in the order in which they are wanted.

    Args:
        protocol: what all runs share, but for tau_min.
        validation: see `Validation`.
    """

    def made(e: Entry, cells: Iterable[Cell], sigmas: Iterable[float], seeds: Iterable[int], **more: Any) -> list[Run]:
        return [e.run(protocol, c, sigma, seed, **more) for sigma in sigmas for c in cells for seed in seeds]

    def chosen(e: Entry, cells: Sequence[Cell], sigma: float, seeds: Sequence[int], count: int, **m: Any) -> list[Cell]:
        return best(cells, lambda cell: made(e, [cell], [sigma], seeds, **m), validation, count)

    before = replace(FIRST, epochs=protocol.epochs)
    found: dict[str, list[Run]] = {name: [] for name in PARTS}
    for e in ENTRIES:
        tried = strip(e.method)
        found["strip"] += made(e, tried, [SIGMA], SEARCH_SEEDS)
        found["third"] += made(e, tried, [SIGMA], [max(GRID_SEEDS)])
        allowed = [c for c in tried if e.method not in PROPOSED or not is_calibrated(c["tau_alpha"], c["tau_beta"])]
        two = chosen(e, allowed, SIGMA, SEARCH_SEEDS, 2)
        found["further"] += made(e, two, [SIGMA], FURTHER_SEEDS)
        one = chosen(e, two, SIGMA, SEEDS, 1)
        found["fresh"] += made(e, one, [SIGMA], FRESH)
        found["first_reading"] += [e.run(before, cell, SIGMA, seed) for cell in one for seed in FRESH]
        spread = [*two, *(other for cell in one for other in neighbours(cell) if other not in two)] if one else []
        found["spreads"] += made(e, spread, OTHERS, SPREAD_SEEDS)
        for sigma in ENDS:
            found["ends"] += made(e, chosen(e, spread, sigma, SPREAD_SEEDS, 1), [sigma], END_SEEDS)
        rematch = one
        if e.tau_min in (None, TAU_MINS[0]):
            every = grid(e.method)
            found["grid"] += made(e, every, [SIGMA], WHOLE_SEEDS)
            searched = [
                c for c in every if e.method not in PROPOSED or not is_calibrated(c["tau_alpha"], c["tau_beta"])
            ]
            ahead = chosen(e, searched, SIGMA, WHOLE_SEEDS, 1)
            rival = [cell for cell in ahead if cell not in tried]
            found["rivals"] += made(e, rival, [SIGMA], RIVAL_SEEDS)
            rematch = chosen(e, [*one, *rival], SIGMA, RIVAL_SEEDS, 1) if one and ahead else []
        if not ALL_METHODS[e.method].oracle:
            found["rematch"] += made(e, rematch, [SIGMA], REMATCH_SEEDS)
        if e in UNSEEN_ENTRIES:
            found["unseen"] += made(e, rematch, [SIGMA], UNSEEN_SEEDS)
        if e.tau_min == TAU_MINS[0]:
            batch = {"discriminator": "batch"}
            found["batches"] += made(e, two, SIGMAS, SPREAD_SEEDS, **batch)
            others = [changed(protocol, **changes) for changes in UNSTATED.values()]
            found["unstated"] += [
                e.run(p, cell, SIGMA, seed) for p in others for cell in one for seed in UNSTATED_SEEDS
            ]
            for sigma in SIGMAS:
                found["both"] += made(e, chosen(e, two, sigma, SPREAD_SEEDS, 1, **batch), [sigma], END_SEEDS, **batch)
            for sigma in OTHERS:
                found["both"] += made(e, chosen(e, spread, sigma, SPREAD_SEEDS, 1), [sigma], END_SEEDS)
    for head in HEADS:
        found["heads"] += made(Entry("standard"), [{"tau_alpha": a} for a in HEAD_TAUS], [HEAD_SIGMA], SEEDS, **head)
    plain, weighted = {"tau_alpha": OUTSIDE_TAU}, {"tau_alpha": OUTSIDE_TAU, "tau_beta": OUTSIDE_BETA}
    beside = [*made(Entry("standard"), [plain], [SIGMA], SEEDS), *made(Entry("dw_outside"), [plain], [SIGMA], SEEDS)]
    found["outside"] = beside + [
        r for a in TAU_MINS for r in made(Entry("dw_negatives", a), [weighted], [SIGMA], SEEDS)
    ]
    found["followed"] = [r for a in TAU_MINS for r in made(Entry("dw_pairs", a), [FOLLOWED], [SIGMA], SEEDS)]
    return {name: list(dict.fromkeys(runs)) for name, runs in found.items()}
