"""What the rule of `verdicts` would say were the truth known: of claims for which the paper gives numbers, in simulated seeds.

Seeds are made by adding to a truth the deviations that whole seeds of ours showed, all methods and metrics of a seed together,
drawn with replacement and with either sign. Two truths: the paper's means (`PAPER`), and all methods alike (`ALIKE`: each at the
mean of the methods that are no oracle). A rule is worth having if it supports claims under the first and not under the second.

Claim 9 compares two discriminators at five sigmas, of which Table 9 gives the means. What their difference deviates by is taken
from the difference between the two proposed methods, the nearest thing there are rows of; it is drawn anew at each sigma. Claim 5 is
not among them: for the baselines at other sigmas the paper gives a figure and no numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from ..config import SIGMAS
from ..data import LABEL_FRACTIONS
from ..methods import METHODS
from . import reported, restated_claims, verdicts
from .claims import Evidence
from .contrasts import NOTHING, PROPOSED

PAPER, ALIKE = "the paper's means", "all methods alike"
SIMULATED = (1, 2, 3, 4, 6)  # claims about the selected cells at sigma 50
SPREADS = 9  # the claim about two discriminators, on seeds of the grids
METRICS = ("test_ood", "test_id", "d_test_id")
DRAWN = 400


class Simulated(Evidence):
    """Evidence whose selected cells are given, for claims about sigma 50.

    Args:
        table: accuracies, columns (method, metric, label fraction), a line a seed.
    """

    def __init__(self, table: pd.DataFrame):
        self.table = table

    def seeds(self) -> set[int]:
        """The seeds that there are rows of."""
        return {int(seed) for seed in self.table.index}

    def without_rows(self) -> Evidence:
        """Evidence without any row."""
        return Simulated(self.table.iloc[:0])

    def selected(
        self, method: str, metric: str, sigma: float = 50.0, fraction: float = 0.01, discriminator: str = "global"
    ) -> pd.Series:
        """A metric of a method's selected cell, by seed."""
        there = sigma == 50.0 and (method, metric, fraction) in self.table.columns
        return self.table[method, metric, fraction].rename(metric) if there else NOTHING


def seeds_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Accuracies of selected cells, columns (method, metric, label fraction), of the seeds that have all methods.

    Args:
        rows: of selected cells at sigma 50, one a method, seed and label fraction.
    """
    both = [
        rows.pivot_table(index="seed", columns=["method", "label_fraction"], values=metric).swaplevel(axis=1)
        for metric in METRICS
    ]
    wide = pd.concat(both, axis=1, keys=METRICS)
    wide.columns = pd.MultiIndex.from_tuples([(method, metric, fraction) for metric, fraction, method in wide.columns])
    return wide.dropna()


def truth(kind: str) -> Mapping[tuple[str, str, float], float]:
    """The mean of each (method, metric, label fraction) that the paper reports, or one mean for all methods."""
    paper = pd.concat([reported.main_comparison(label_fraction=f) for f in LABEL_FRACTIONS])
    means = paper.set_index(["method", "metric", "label_fraction"]).value
    if kind == PAPER:
        return means.to_dict()
    plain = means[[not METHODS[method].oracle for method, *_ in means.index]].groupby(level=[1, 2]).mean()
    return {(method, metric, fraction): plain[metric, fraction] for method, metric, fraction in means.index}


def simulate(kind: str, seeds: int, deviations: pd.DataFrame, rng: np.random.Generator) -> Simulated:
    """Seeds with a known truth.

    Args:
        kind: `PAPER` or `ALIKE`.
        deviations: as from `seeds_of`, less their means.
    """
    means = truth(kind)
    columns = [column for column in deviations.columns if tuple(column) in means]
    drawn = deviations[columns].to_numpy()[rng.integers(len(deviations), size=seeds)]
    drawn = drawn * rng.choice([-1, 1], size=(seeds, 1)) * np.sqrt(len(deviations) / (len(deviations) - 1))
    values = np.clip(drawn + [means[tuple(column)] for column in columns], 0.0, 1.0)
    index = range(verdicts.FRESH[0], verdicts.FRESH[0] + seeds)
    return Simulated(pd.DataFrame(values, columns=pd.MultiIndex.from_tuples(columns), index=index))


class Discriminators(Evidence):
    """Evidence of both kinds of discriminator at every sigma, simulated; see `Simulated`.

    Args:
        kind: `PAPER` or `ALIKE`.
        seeds: how many.
        deviations: as from `seeds_of`, less their means.
        rng: where seeds are drawn from.
    """

    def __init__(self, kind: str, seeds: int, deviations: pd.DataFrame, rng: np.random.Generator):
        paper = reported.load("table_9_global_vs_batch").set_index(["discriminator", "method", "metric", "sigma"]).value
        scale = np.sqrt(len(deviations) / (len(deviations) - 1))
        self.table: dict[tuple, pd.Series] = {}
        for metric in ("test_ood", "test_id"):
            beside = deviations[PROPOSED[0], metric, 0.01] - deviations[PROPOSED[1], metric, 0.01]
            for method in PROPOSED:
                for sigma in SIGMAS:
                    gap = paper["global", method, metric, sigma] - paper["batch", method, metric, sigma]
                    drawn = rng.choice(beside.to_numpy(), seeds) * rng.choice([-1, 1], seeds) * scale
                    made = drawn + (gap if kind == PAPER else 0.0)
                    self.table[method, metric, sigma] = pd.Series(made, index=range(seeds))

    def selected(
        self, method: str, metric: str, sigma: float = 50.0, fraction: float = 0.01, discriminator: str = "global"
    ) -> pd.Series:
        """The difference between the two for one, and nothing for the other: only differences are looked at."""
        difference = self.table[method, metric, sigma]
        return difference if discriminator == "global" else 0.0 * difference


def characteristics(
    rows: pd.DataFrame, seeds: Sequence[int] = (verdicts.FRESH_SEEDS,), drawn: int = DRAWN
) -> pd.DataFrame:
    """How often the rule says each word, by claim, truth and number of seeds.

    Args:
        rows: of selected cells at sigma 50, whose deviations between seeds are used.
        seeds: how many seeds a claim is judged on, ten at most; the rule then needs as many for a verdict.
        drawn: simulated data sets.

    Returns:
        Columns: claim, truth, seeds, and a share of each of `verdicts.WORDS`. Claim 9 where five seeds are asked for.
    """
    wide = seeds_of(rows)
    deviations, lines = wide - wide.mean(), []
    for kind in (PAPER, ALIKE):
        for count in seeds:
            rng = np.random.Generator(np.random.Philox([count, kind == PAPER]))
            said: dict[int, list[str]] = {number: [] for number in SIMULATED}
            for _ in range(drawn):
                made = simulate(kind, count, deviations, rng)
                found = verdicts.judge(verdicts.contrasts(made.without_rows(), made, SIMULATED), least=count)
                for number, ruling in found.items():
                    said[number].append(ruling.word)
                if count == verdicts.NEEDS[SPREADS]:
                    trend = restated_claims.no_trend(Discriminators(kind, count, deviations, rng))
                    said.setdefault(SPREADS, []).append(verdicts.judge({SPREADS: trend})[SPREADS].word)
            for number, words in said.items():
                lines.append((number, kind, count, *(words.count(word) / drawn for word in verdicts.WORDS)))
    return pd.DataFrame(lines, columns=["claim", "truth", "seeds", *verdicts.WORDS])


def stored() -> pd.DataFrame:
    """`characteristics` as `benchmarks/operating.py` found them, from the committed table; empty without a checkout or a table."""
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "operating.csv"
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=["claim", "truth", "seeds", *verdicts.WORDS])
