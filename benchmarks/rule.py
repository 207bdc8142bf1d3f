"""What the rule of `dtcl_study.claims` says when the truth is known: `python benchmarks/rule.py` writes `rule.csv`.

Made-up grids and fresh seeds, selection included: 190 configurations on five seeds, what their validation selects on fifty others. Two truths:

- *as reported*: Tables 1, 2, 3 to 8 and 9 are true. A baseline's other configurations are as good as the one that is reported, since the
  paper gives no others.
- *no difference*: the six methods have one mean, that of the six as reported; the oracle keeps its own.

Runs scatter as measured over ten to forty seeds of eleven configurations at commit 3140e7a (`SPREAD`, `TOGETHER`), those of a seed independently.
Nine tenths of a run's variance are common to its label fractions (an assumption).
Claims that need other sigmas or other runs are left out.
"""

import csv
import math
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd

from dtcl_study import claims, reported
from dtcl_study.experiments import BASELINES, DOMAIN, FRESH_SEEDS, ID, OOD, ORACLE, PROPOSED, SEEDS, grid

METRICS = ("validation", OOD, ID, DOMAIN)
SPREAD = np.array([0.05, 0.085, 0.03, 0.05])  # standard deviations of a run's accuracies
TOGETHER = np.array([[1.0, 0.1, 0.75, 0.1], [0.1, 1.0, 0.2, -0.1], [0.75, 0.2, 1.0, 0.1], [0.1, -0.1, 0.1, 1.0]])
COVARIANCE = SPREAD[:, None] * TOGETHER * SPREAD
JUDGED = {
    "as reported": (1, 2, 3, 4, 6, 7, 9),
    "no difference": (1, 2, 3, 4, 6, 7, 8, 9, 14),
}  # 8 and 14 need the baselines' grids
WORLDS, COMMON = 200, 0.9
ALIKE = (*BASELINES, *PROPOSED)


def number(table: pd.DataFrame, **where) -> float:
    """The one number of a table of the paper."""
    for name, value in where.items():
        table = table[table[name] == value]
    return table.value.item()


def truth(name: str) -> dict[tuple[str, str, float], np.ndarray]:
    """True means [configurations, metrics] by method, kind of discriminator and label fraction."""
    temperatures, nine = reported.temperature_tables(), reported.load("table_9_global_vs_batch")
    means = {}
    for fraction in (0.01, 0.1, 1.0):
        table, first = (reported.main_comparison(label_fraction=f) for f in (fraction, 0.01))
        for method in (*ALIKE, ORACLE):
            told = {m: number(first, method=method, metric=m) for m in (OOD, ID, DOMAIN)}
            told |= {m: number(table, method=method, metric=m) for m in (OOD, ID)}
            rows = np.array([[told[ID], told[OOD], told[ID], told[DOMAIN]]] * len(grid(method)))
            if method in PROPOSED:
                for line, cell in enumerate(grid(method)):
                    for column, metric in enumerate(METRICS[:3]):
                        rows[line, column] = number(temperatures, method=method, metric=metric, **cell)
                    for column, metric in ((1, OOD), (2, ID)):  # a label fraction moves all configurations alike
                        rows[line, column] += told[metric] - number(first, method=method, metric=metric)
                where = {"method": method, "sigma": 50.0}
                moved = [number(nine, metric=m, discriminator="batch", **where) - number(nine, metric=m, discriminator="global", **where)
                         for m in METRICS[1:]]  # fmt: skip
                means[method, "batch", fraction] = rows + np.array([0.0, *moved])
            means[method, "global", fraction] = rows
    if name == "no difference":
        for fraction in (0.01, 0.1, 1.0):
            same = np.mean([means[m, "global", fraction][means[m, "global", 0.01][:, 0].argmax()] for m in ALIKE], axis=0)
            for method, kind, f in means:
                if f == fraction and method != ORACLE:
                    means[method, kind, f] = np.tile(same, (len(means[method, kind, f]), 1))
    return means


class MadeUp(claims.Evidence):
    """Five grid seeds and fifty fresh ones, drawn around true means."""

    settled = True

    def __init__(self, means: dict[tuple[str, str, float], np.ndarray], generator: np.random.Generator):
        super().__init__()
        self.known, self.found, lines = {}, {}, []
        for method, kind in {(m, k): None for m, k, _ in means}:
            whole = means[method, kind, 0.01]
            draws = generator.multivariate_normal(np.zeros(4), COVARIANCE, (len(whole), SEEDS))
            on_grid = np.clip(whole[:, None] + draws, 0, 1)
            best = int(on_grid[:, :, 0].mean(axis=1).argmax())
            if kind == "global":
                self.known[method] = on_grid
                lines.append({"method": method, "tau_beta": np.nan, "lambda_": np.nan, **grid(method)[best]})
            fresh = generator.multivariate_normal(np.zeros(4), COVARIANCE, (4, FRESH_SEEDS))
            for place, fraction in enumerate((0.01, 0.1, 1.0), 1):
                scatter = math.sqrt(COMMON) * fresh[0] + math.sqrt(1 - COMMON) * fresh[place]
                self.found[method, kind, fraction] = np.clip(means[method, kind, fraction][best] + scatter, 0, 1)
        self.grid = SimpleNamespace(chosen=pd.DataFrame(lines), seeds=SEEDS)

    def of(self, method, metric, sigma=50.0, label_fraction=0.01, kind="global"):
        return pd.Series(self.found[method, kind, label_fraction][:, METRICS.index(metric)])

    def by_configuration(self, method, metric):
        cells = [(c["tau_alpha"], c.get("tau_beta", np.nan), c.get("lambda_", np.nan)) for c in grid(method)]
        index = pd.MultiIndex.from_tuples(cells, names=["tau_alpha", "tau_beta", "lambda_"])
        return pd.DataFrame(self.known[method][:, :, METRICS.index(metric)], index=index)


def main() -> None:
    lines = []
    for place, (name, judged) in enumerate(JUDGED.items()):
        means, words = truth(name), {claim: Counter() for claim in judged}
        for world in range(WORLDS):
            evidence = MadeUp(means, np.random.Generator(np.random.Philox([place, world])))
            for claim in judged:
                words[claim][claims.judged(claim, evidence).word] += 1
        for claim, said in words.items():
            lines.append(
                {
                    "truth": name,
                    "claim": claim,
                    **{word: said[word] for word in ("holds", "partly", "open", "fails")},
                    "n": WORLDS,
                }
            )
            print(lines[-1], flush=True)
    with (Path(__file__).parent / "rule.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)


if __name__ == "__main__":
    main()
