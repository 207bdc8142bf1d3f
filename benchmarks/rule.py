"""What the rule of `dtcl_study.claims` says when the truth is known: `python benchmarks/rule.py` writes `rule.csv`.

Made-up grids and fresh seeds, selection included: 190 configurations on five seeds, what their validation selects on fifty others. Three truths:

- *as reported*: Tables 1, 2, 3 to 8 and 9 are true. A baseline's other configurations are as good as the one that is reported, since the
  paper gives no others.
- *training colours only*: the same, but on the unseen colour the six methods have one mean, that of the six as reported.
- *no difference*: the six methods have one mean of everything, that of the six as reported; the oracle keeps its own.

Runs scatter over seeds as in the committed rows of the settings' choice (`scatter`), each method as its own; a method without six seeds there
scatters as the baselines do on average. The scatter is that at 1 % of the labels for every fraction. The runs of a seed are independent. Nine tenths of a run's variance are common to its label fractions
(an assumption). Claims that need other sigmas or other runs are left out.
"""

import math
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
from machine import write

from dtcl_core.config import HYPERPARAMETERS, Run
from dtcl_core.results import Store
from dtcl_study import claims, left_open, reported
from dtcl_study.experiments import BASELINES, DOMAIN, FRESH_SEEDS, ID, OOD, ORACLE, PROPOSED, REGISTRY, SEEDS, grid
from dtcl_study.study import Evidence

METRICS = ("validation", OOD, ID, DOMAIN)
JUDGED = {
    "as reported": (1, 2, 3, 4, 6, 7, 9),
    "training colours only": (1,),
    "no difference": (1, 2, 3, 4, 6, 7, 8, 9, 14),
}  # 8 and 14 need the baselines' grids
WORLDS, COMMON = 200, 0.9
ALIKE = (*BASELINES, *PROPOSED)


def number(table: pd.DataFrame, **where) -> float:
    """The one number of a table of the paper."""
    for name, value in where.items():
        table = table[table[name] == value]
    return table.value.item()


def scatter() -> dict[str, np.ndarray]:
    """Covariance over seeds of a method's four accuracies at 1 % of the labels, under the networks taken."""
    runs = [run for run in REGISTRY["left_open"].runs("paper") if _taken(run)]
    rows = Store().load(runs).query("label_fraction == 0.01")
    found = {}
    for method, mine in rows.groupby("method"):
        parts = [part[list(METRICS)] for _, part in mine.groupby(["protocol", *HYPERPARAMETERS], dropna=False) if len(part) >= 6]
        if parts:
            apart = pd.concat([part - part.mean() for part in parts]).to_numpy()
            found[method] = apart.T @ apart / (len(apart) - len(parts))
    average = np.mean([found[m] for m in BASELINES], axis=0)
    return {method: found.get(method, average) for method in (*ALIKE, ORACLE)}


def _taken(run: Run) -> bool:
    """Whether a candidate's run has the networks that were taken."""
    changes = [{**left_open.BASE, **n.changes} for n in left_open.NETWORKS if n.name in left_open.TAKEN_NETWORKS]
    fields = ("color_clipping", "crop_scale", "dropout")
    return any(all(getattr(run.protocol, f) == change[f] for f in fields) for change in changes)


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
    columns = {"as reported": [], "training colours only": [METRICS.index(OOD)], "no difference": list(range(4))}[name]
    if columns:
        best = {m: means[m, "global", 0.01][:, 0].argmax() for m in ALIKE}
        for fraction in (0.01, 0.1, 1.0):
            same = np.mean([means[m, "global", fraction][best[m]] for m in ALIKE], axis=0)
            for method, kind, f in means:
                if f == fraction and method != ORACLE:
                    means[method, kind, f][:, columns] = same[columns]
    return means


class MadeUp(Evidence):
    """Five grid seeds and fifty fresh ones, drawn around true means."""

    def __init__(
        self, means: dict[tuple[str, str, float], np.ndarray], spread: dict[str, np.ndarray], generator: np.random.Generator
    ):
        super().__init__()
        self.known, self.found = {}, {}
        for method, kind in {(m, k): None for m, k, _ in means}:
            whole = means[method, kind, 0.01]
            draws = generator.multivariate_normal(np.zeros(4), spread[method], (len(whole), SEEDS))
            on_grid = np.clip(whole[:, None] + draws, 0, 1)
            best = int(on_grid[:, :, 0].mean(axis=1).argmax())
            if kind == "global":
                self.known[method] = on_grid
            fresh = generator.multivariate_normal(np.zeros(4), spread[method], (4, FRESH_SEEDS))
            for place, fraction in enumerate((0.01, 0.1, 1.0), 1):
                off = math.sqrt(COMMON) * fresh[0] + math.sqrt(1 - COMMON) * fresh[place]
                self.found[method, kind, fraction] = np.clip(means[method, kind, fraction][best] + off, 0, 1)
        self.grid = SimpleNamespace(complete_seeds=SEEDS)

    def of(self, method, metric, sigma=50.0, label_fraction=0.01, kind="global"):
        return pd.Series(self.found[method, kind, label_fraction][:, METRICS.index(metric)])

    def by_configuration(self, method, metric):
        cells = [(c["tau_alpha"], c.get("tau_beta", np.nan), c.get("lambda_", np.nan)) for c in grid(method)]
        index = pd.MultiIndex.from_tuples(cells, names=["tau_alpha", "tau_beta", "lambda_"])
        return pd.DataFrame(self.known[method][:, :, METRICS.index(metric)], index=index)


def main() -> None:
    lines, spread = [], scatter()
    for place, (name, judged) in enumerate(JUDGED.items()):
        means, words = truth(name), {claim: Counter() for claim in judged}
        for world in range(WORLDS):
            evidence = MadeUp(means, spread, np.random.Generator(np.random.Philox([place, world])))
            for claim in judged:
                verdict = claims.judged(claim, evidence)
                words[claim][verdict.word] += 1
                for metric in (OOD, ID) if claim == 1 else ():
                    mine = claims.about(verdict.contrasts, metric)
                    words.setdefault(f"1, {claims.SHORT[metric]} alone", Counter())[claims.by_the_rule(mine)] += 1
        for claim, said in words.items():
            lines.append(
                {
                    "truth": name,
                    "claim": claim,
                    **{word.replace(" ", "_"): said[word] for word in ("confirmed", "partly confirmed", "open", "not confirmed")},
                    "n": WORLDS,
                }
            )
            print(lines[-1], flush=True)
    write(Path(__file__).parent / "rule.csv", lines)


if __name__ == "__main__":
    main()
