"""The rule by which claims are judged. Committed before the runs of the experiments that it judges.

A claim is a list of *conjuncts*, quantities over seeds that it says are positive (`contrasts.Contrast`). It is

- **supported** if every conjunct holds: its 95 % t interval lies above zero. All must, so nothing is corrected;
- **contradicted** if a conjunct is negative after Holm's correction at 5 %: over one family, the conjuncts of claims 1, 2, 3 and
  5 (`FAMILY`), under each level of tau_min; over its own conjuncts for every other claim. An interval that includes zero
  contradicts nothing;
- **mixed** if some conjuncts hold, others are open, and none is negative;
- **inconclusive** if none holds and none is negative, with the effect that the seeds could have seen;
- **not tested** while a conjunct has fewer seeds than it needs, unless those that have them contradict the claim.

Accuracy on the unseen colour decides no verdict but that of claim 14, which speaks of nothing else: it is bimodal over seeds, its
paired differences deviate by about 0.2, and five seeds reach no further than 0.24 to either side of a mean where the paper's lead
is 0.03. Contrasts on it are *apart*: estimated, and said to be beyond what the seeds can tell where they are.

Claims about the selected cells at sigma 50 (`ON_FRESH_SEEDS`) are judged on ten fresh seeds, fixed in advance, and on nothing else;
the seeds that selected stand beside them. Claim 5 goes across sigmas, where there are no fresh seeds: it is judged on those of the
grids, and says so. tau_min is a factor of two levels (`TAU_MINS`): the paper gives none. A literal float32
computation of Eq. 4 needs 0.0113 or more; 0.05 is the smallest temperature of the paper's grid and was added after it had been
seen to help. It is never selected over: each level is judged by itself and every verdict says both.

What had been seen when this was written: all rows of the first reading (`calibration.FIRST`) at sigma 50, under which claims 1 to 6
had been judged by the rule in `first_verdicts`, whose verdicts stay in an appendix; of the readings in `calibration.CANDIDATES` nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scipy import stats

from ..config import HYPERPARAMETERS, Run
from ..experiments import REGISTRY
from ..experiments.core import FRESH, FRESH_SEEDS, PROPOSED, is_calibrated
from ..experiments.core import TAU_MINS as TAU_MINS
from ..methods import ALL_METHODS
from . import restated_claims
from .claims import CLAIMS
from .contrasts import MIN_SEEDS, Contrast, Evidence
from .intervals import Interval

WORDS = ("supported", "contradicted", "mixed", "inconclusive", "not tested")
SUPPORTED, CONTRADICTED, MIXED, INCONCLUSIVE, NOT_TESTED = WORDS
FAMILY = (1, 2, 3, 5)
LEVEL = 0.05
POWER = 0.8  # with which an effect counts as one that the seeds could have seen
ON_FRESH_SEEDS = (1, 2, 3, 4, 6)
NEEDS = {9: 5}  # no consistent sign is easily found where little can be seen
UNSEEN = "test_ood"
AT_FIRST_LEVEL = (9,)  # claims whose runs `core` has at the first level of tau_min alone
ABOUT_UNSEEN = (14,)  # claims that speak of the unseen colour alone
COVERED_BY = {
    1: "main_table", 2: "main_table", 3: "main_table", 4: "main_table", 5: "sigma_ablation", 6: "label_fractions",
    7: "temperature", 8: "model_selection", 9: "global_vs_batch", 10: "projector_head", 11: "effective_temperature",
    14: "model_selection", 15: "sigma_ablation",
}  # fmt: skip
ABOUT_ALL = (7, 8, 14)  # claims about all hyperparameters
OF_NO_ROWS = (12, 13)  # claims about gradients, judged on random batches


def contrasts(
    evidence: Evidence,
    fresh: Evidence | None = None,
    only: Sequence[int] | None = None,
    seeds: Sequence[int] = FRESH,
) -> dict[int, list[Contrast]]:
    """The contrasts of every claim, or of `only` some, as this rule reads them.

    Args:
        evidence: rows of the grids.
        fresh: rows of the selected cells on fresh seeds, for `ON_FRESH_SEEDS`; without any, those have nothing to judge.
        only: numbers of claims.
        seeds: the fresh ones.

    Raises:
        ValueError: for rows in `fresh` of a seed that is not one of the fresh ones.
    """
    if fresh is not None and not fresh.seeds() <= set(seeds):
        raise ValueError(f"fresh seeds are {seeds[0]} to {seeds[-1]}, got {sorted(fresh.seeds() - set(seeds))}.")
    found = {}
    for claim in CLAIMS:
        if only is None or claim.number in only:
            seen = evidence if claim.number not in ON_FRESH_SEEDS else fresh
            made = restated_claims.RESTATED.get(claim.number, claim.contrasts)
            found[claim.number] = made(seen if seen is not None else evidence.without_rows())
    return found


@dataclass(frozen=True)
class Ruling:
    """A verdict and what it rests on.

    Attributes:
        number: the claim's.
        word: one of `WORDS`.
        conjuncts: those that decide, each with "holds", "negative", "open" or "missing".
        apart: contrasts that decide nothing.
        reach: the largest effect among the open conjuncts that their seeds could have seen, NaN without any.
        seeds: the fewest behind a conjunct.
    """

    number: int
    word: str
    conjuncts: tuple[tuple[Contrast, str], ...]
    apart: tuple[Contrast, ...]
    reach: float
    seeds: int

    def count(self, state: str) -> int:
        """How many conjuncts are in a state."""
        return sum(found == state for _, found in self.conjuncts)

    @property
    def deciding(self) -> Contrast | None:
        """The conjunct that the verdict hangs on: the most negative of those that are, else the one furthest from holding."""
        negative = [c for c, state in self.conjuncts if state == "negative"]
        there = negative or [c for c, state in self.conjuncts if state != "missing"]
        return min(there, key=lambda c: t_value(c.interval), default=None)


def is_apart(number: int, contrast: Contrast) -> bool:
    """Whether a contrast of a claim decides nothing."""
    return contrast.beside or (contrast.metric == UNSEEN and number not in ABOUT_UNSEEN)


def needs(number: int) -> int:
    """How many seeds each conjunct of a claim must have."""
    return FRESH_SEEDS if number in ON_FRESH_SEEDS else NEEDS.get(number, MIN_SEEDS)


def t_value(interval: Interval) -> float:
    """The mean over its standard error."""
    reach = (interval.high - interval.low) / 2
    if not reach > 0:
        return math.copysign(math.inf, interval.mean) if interval.mean else 0.0
    return interval.mean / reach * float(stats.t.ppf(0.975, interval.n - 1))


def p_value(contrast: Contrast) -> float:
    """Two-sided p of a contrast that speaks against its claim, 1 of another."""
    t = t_value(contrast.interval)
    if contrast.signs is None and t >= 0:
        return 1.0
    return 2 * float(stats.t.sf(abs(t), contrast.interval.n - 1))


def detectable(interval: Interval, power: float = POWER) -> float:
    """The effect that a t test at 5 % sees with that probability, were the spread over seeds as measured."""
    error = (interval.high - interval.low) / 2 / float(stats.t.ppf(0.975, interval.n - 1))
    freedom = interval.n - 1
    return float((stats.t.ppf(0.975, freedom) + stats.t.ppf(power, freedom)) * error)


def holm(p: Sequence[float], level: float = LEVEL) -> list[bool]:
    """Which hypotheses Holm's step-down procedure rejects."""
    order = sorted(range(len(p)), key=lambda i: p[i])
    rejected = [False] * len(p)
    for step, i in enumerate(order):
        if p[i] > level / (len(p) - step):
            break
        rejected[i] = True
    return rejected


def holds(contrast: Contrast) -> bool:
    """Whether a conjunct holds: its interval lies above zero; of no consistent sign: it includes zero, and both signs occur."""
    low, high = contrast.interval.low, contrast.interval.high
    if contrast.signs is None:
        return low > 0
    return low <= 0 <= high and {-1, 1} <= set(contrast.signs)


def judge(judged: Mapping[int, Sequence[Contrast]], least: int | None = None) -> dict[int, Ruling]:
    """The ruling on each claim, from the contrasts of all (`contrasts`), under one level of tau_min.

    Args:
        judged: contrasts by the claim's number.
        least: how many seeds every conjunct must have; None asks `needs`.
    """
    deciding = {n: [c for c in found if not is_apart(n, c)] for n, found in judged.items()}
    seen = {n: [c.interval.n >= (least or needs(n)) for c in found] for n, found in deciding.items()}
    families: dict[str, list[tuple[int, int]]] = {}
    for n, found in deciding.items():
        name = "primary" if n in FAMILY else str(n)
        families.setdefault(name, []).extend((n, i) for i in range(len(found)))
    negative = set()
    for places in families.values():
        # What is missing counts in the family: a verdict must not hang on what was run first.
        rejected = holm([p_value(deciding[n][i]) if seen[n][i] else 1.0 for n, i in places])
        negative |= {place for place, said in zip(places, rejected) if said}
    return {n: _ruling(n, judged[n], deciding[n], seen[n], negative) for n in judged}


def _ruling(
    number: int, found: Sequence[Contrast], deciding: Sequence[Contrast], seen: Sequence[bool], negative: set
) -> Ruling:
    states = []
    for i, contrast in enumerate(deciding):
        if not seen[i]:
            states.append("missing")
        elif (number, i) in negative:
            states.append("negative")
        else:
            states.append("holds" if holds(contrast) else "open")
    reach = max((detectable(c.interval) for c, s in zip(deciding, states) if s == "open"), default=math.nan)
    return Ruling(
        number,
        word_of(states),
        tuple(zip(deciding, states)),
        tuple(c for c in found if is_apart(number, c)),
        reach,
        min((c.interval.n for c in deciding), default=0),
    )


def word_of(states: Sequence[str]) -> str:
    """The verdict, from the states of the conjuncts."""
    if "negative" in states:
        return CONTRADICTED
    if not states or "missing" in states:
        return NOT_TESTED
    if set(states) == {"holds"}:
        return SUPPORTED
    return MIXED if "holds" in states else INCONCLUSIVE


def on_unseen(contrast: Contrast) -> str:
    """What can be said of a contrast on the unseen colour, which decides nothing."""
    n, interval = contrast.interval.n, contrast.interval
    if n < MIN_SEEDS:
        return f"{n} of {MIN_SEEDS} seeds" if n else "not run"
    if interval.low <= 0 <= interval.high:
        return f"open ({n} seeds would show {detectable(interval):.2f} or more)"
    return "above zero" if interval.low > 0 else "below zero"


def rests_on(number: int, run: Run, tau_min: float) -> bool:
    """Whether a claim, judged under a level of tau_min, looks at a run of its experiment: not at another level's, nor, if it is about
    all hyperparameters (`ABOUT_ALL`), at cells that calibration looked at, nor at the oracle."""
    if run.method in PROPOSED:
        return run.protocol.tau_min == tau_min and not (
            number in ABOUT_ALL and is_calibrated(run.tau_alpha, run.tau_beta)
        )
    return number not in ABOUT_ALL or not ALL_METHODS[run.method].oracle


def coverage(number: int, runs: Iterable[Run]) -> tuple[int, int]:
    """How many of the configurations that the paper has behind a claim are among some runs, and how many there are."""
    if number not in COVERED_BY:
        return 0, 0
    wanted = {_configuration(run) for run in REGISTRY[COVERED_BY[number]].runs("paper", seeds=1)}
    return len(wanted & {_configuration(run) for run in runs}), len(wanted)


def _configuration(run: Run) -> tuple[object, ...]:
    """What the paper varies of a run, but for its seed."""
    return (run.method, run.discriminator, run.sigma, run.projector, run.projector_dim) + tuple(
        getattr(run, name) for name in HYPERPARAMETERS
    )
