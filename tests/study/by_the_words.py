"""The verdicts on trained networks once more, from the words of PREREGISTRATION.md and without a line of the project's code.

Whoever wrote the first version of this file had read the preregistration alone. Like it, this file is not changed once a fresh row exists.
`python tests/study/by_the_words.py results dtcl_study/frozen` prints the verdicts and contrasts of a store.
"""

import json
import math
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path

import numpy as np
from scipy.stats import t as student

OOD, ID, DOMAIN, VALIDATION = "test_ood", "test_id", "d_test_id", "validation"
N, P, ORACLE = "dw_negatives", "dw_pairs", "color_jitter"
TWO, BASELINES = (N, P), ("standard", "same_domain", "mmd", "dann")
METHODS = (*BASELINES, *TWO, ORACLE)
TAU_ALPHAS = (0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2, 0.25, 0.5, 1.0)
TAU_BETAS, LAMBDAS = (0.1, 0.25, 0.5, 1.0), (0.01, 0.1, 1.0, 5.0)
HEADS = (None, *((kind, size) for kind in ("linear", "mlp") for size in (4, 8, 16)))
GRID_SEEDS = range(5)
FRESH_SEEDS = {sigma: range(1100, 1150 if sigma == 50 else 1110) for sigma in (0.0, 25.0, 50.0, 75.0, 150.0)}


# --- the rule ---------------------------------------------------------------------------------------------------------


def interval(values, confidence=0.95):
    """Mean and limits by Student's t."""
    mean, half = float(np.mean(values)), 0.0
    if np.ptp(values) > 0:
        half = float(student.ppf((1 + confidence) / 2, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return mean, mean - half, mean + half


def state(values, m):
    """What a contrast says, one of m."""
    (_, low, _), (_, _, corrected), (_, near_low, near_high) = (interval(values, c) for c in (0.95, 1 - 0.05 / m, 0.90))
    if low > 0:
        return "for"
    if corrected < 0:
        return "against"
    return "alike" if -0.02 < near_low and near_high < 0.02 else "open"


def verdict(states):
    """What a claim's contrasts come to."""
    if "against" in states:
        return "fails"
    share = states.count("for") / len(states)
    return "holds" if share == 1 else "partly" if share >= 0.5 else "open"


def no_trend(contrasts):
    """Claim 9; its contrasts are in pairs, of N and of P."""
    sides = [(low > 0) - (high < 0) for _, low, high in map(interval, contrasts)]
    return "fails" if any(one == other != 0 for one, other in zip(sides[::2], sides[1::2])) else "holds"


# --- the rows ---------------------------------------------------------------------------------------------------------


def configuration(method, sigma, tau_alpha, tau_beta=None, lambda_=None, discriminator="global", head=None):
    """What tells one configuration from another."""
    return (method, sigma, tau_alpha, tau_beta, lambda_, discriminator if method in TWO else None, head)


def grid(method, sigma=50.0, **more):
    """The configurations of a method, in the order in which ties are broken."""
    name, values = ("tau_beta", TAU_BETAS) if method in TWO else ("lambda_", LAMBDAS) if method in ("mmd", "dann") else ("", ())
    second = [{name: value} for value in values] or [{}]
    return [configuration(method, sigma, tau_alpha, **other, **more) for tau_alpha in TAU_ALPHAS for other in second]


class Rows:
    """The runs of a store under its usual protocol: each field has its most frequent value, or is not there yet, as in older rows."""

    def __init__(self, store):
        lines = [line for path in sorted(Path(store).glob("rows/*.jsonl")) for line in path.read_text().splitlines()]
        read = [json.loads(line) for line in lines if line.strip()]
        protocols = [{name: json.dumps(value) for name, value in row["run"]["protocol"].items()} for row in read]
        names = {name for protocol in protocols for name in protocol}
        usual = {name: Counter(p[name] for p in protocols if name in p).most_common(1)[0][0] for name in names}
        self.metrics, self.of_key, order = {}, {}, {}
        for row, protocol in zip(read, protocols):
            run = row["run"]
            if not protocol.items() <= usual.items() or run.get("replicate"):
                continue
            head = (run["projector"], run["projector_dim"]) if run.get("projector") else None
            seconds = [run.get(name) for name in ("tau_beta", "lambda_", "discriminator")]
            key = (configuration(run["method"], run["sigma"], run["tau_alpha"], *seconds, head), run["seed"])
            self.of_key[row["key"]] = key
            made = datetime.fromisoformat(row["provenance"]["created"])
            rank = (row["status"] == "diverged", made)  # a finished row counts first, then the one made first
            if key not in order or rank < order[key]:
                order[key], self.metrics[key] = rank, row["metrics"] if row["status"] == "ok" else None

    def values(self, which, seeds, metric, share="0.01"):
        """An accuracy by seed; a run that diverged counts as chance."""
        found = (self.metrics[which, seed] for seed in seeds)
        return np.array([0.5 if metrics is None else metrics[share][metric] for metrics in found])

    def complete(self, configurations, seeds):
        """The seeds on which all of them were trained."""
        return [seed for seed in seeds if all((which, seed) in self.metrics for which in configurations)]

    def best(self, configurations, seeds, metric=VALIDATION):
        """The configuration with the best mean, to twelve decimals; the first of equals."""
        return max(configurations, key=lambda which: round(float(self.values(which, seeds, metric).mean()), 12))


def selected(rows, method, sigma=50.0, discriminator="global"):
    """The configuration that is to be frozen: five seeds select at sigma 50, two elsewhere."""
    return rows.best(grid(method, sigma, discriminator=discriminator), range(5 if sigma == 50 else 2))


# --- the claims -------------------------------------------------------------------------------------------------------


def on_fresh_seeds(rows, frozen):
    """Contrasts of claims 1 to 6, 9 and 15 and those beside, by claim; a claim of which runs are missing is left out."""

    def there(sigma, kind="global"):
        mine = [which for at, which in frozen.items() if at[1:] == (sigma, kind)]
        return len(mine) == (2 if kind == "batch" else 7) and rows.complete(mine, FRESH_SEEDS[sigma]) == [*FRESH_SEEDS[sigma]]

    def of(method, metric, share="0.01", sigma=50.0, kind="global"):
        return rows.values(frozen[method, sigma, kind], FRESH_SEEDS[sigma], metric, share)

    def mean_of(methods, metric, **more):
        return sum(of(method, metric, **more) for method in methods) / len(methods)

    found, beside = {}, {}
    if there(50.0):
        found[1] = [of(one, a) - of(b, a) for a in (OOD, ID) for one in TWO for b in BASELINES]
        found[2] = [of(b, DOMAIN) - of(one, DOMAIN) for one in TWO for b in ("standard", "mmd", "dann")]
        beside[2] = [of(one, DOMAIN) - of("same_domain", DOMAIN) for one in TWO]
        found[3] = [of("standard", a) - of(b, a) for a in (OOD, ID) for b in ("mmd", "dann")]
        found[4] = [of(ORACLE, a) - of(b, a) for a in (OOD, ID) for b in (*BASELINES, *TWO)]
        lead = {(one, s): of(one, ID, s) - mean_of(BASELINES, ID, share=s) for one in TWO for s in ("0.01", "1.0")}
        found[6] = [lead[one, "0.01"] - lead[one, "1.0"] for one in TWO]
        found[6] += [of(one, ID, s) - of(b, ID, s) for s in ("0.1", "1.0") for one in TWO for b in BASELINES]

    def spread(sigma, with_ood):
        yield from (of(one, ID, sigma=sigma) - of(b, ID, sigma=sigma) for one in TWO for b in BASELINES)
        yield from (of(one, OOD, sigma=sigma) - mean_of(BASELINES, OOD, sigma=sigma) for one in TWO if with_ood)
        yield from (mean_of(("standard", "mmd", "dann"), DOMAIN, sigma=sigma) - of(one, DOMAIN, sigma=sigma) for one in TWO)

    if all(map(there, (50.0, 75.0, 150.0))):
        found[5] = [c for sigma in (50.0, 75.0, 150.0) for c in spread(sigma, with_ood=True)]
        beside[5] = [c for sigma in (0.0, 25.0) if there(sigma) for c in spread(sigma, with_ood=False)]
    if there(50.0) and there(50.0, "batch"):
        found[9] = [of(one, a) - of(one, a, kind="batch") for a in (OOD, ID, DOMAIN) for one in TWO]
    if there(25.0) and there(150.0):
        change = {method: of(method, ID, sigma=150.0) - of(method, ID, sigma=25.0) for method in (*TWO, *BASELINES)}
        found[15] = [change[one] - change[b] for one in TWO for b in BASELINES]
    return found, beside


def on_the_grid(rows):
    """Contrasts of claims 7, 8, 10 and 14 by claim, on the complete seeds, and how many of these each has."""
    of_method = {method: grid(method) for method in METHODS}
    seeds = rows.complete([which for mine in of_method.values() for which in mine], GRID_SEEDS)
    found, n = {}, dict.fromkeys((7, 8, 14), len(seeds))

    def slope(x, lines):
        x = np.asarray(x, float) - np.mean(x)
        return x @ lines / (x @ x)

    def shortfall(method):
        pairs = [(seed, [s for s in seeds if s != seed]) for seed in seeds]
        best = [rows.values(rows.best(of_method[method], others, OOD), [seed], OOD)[0] for seed, others in pairs]
        return np.array(best) - [rows.values(rows.best(of_method[method], others), [seed], OOD)[0] for seed, others in pairs]

    if len(seeds) > 1:
        ranks = [TAU_ALPHAS.index(which[2]) + 1 for which in of_method[N]]
        found[7] = [-slope(ranks, np.stack([rows.values(w, seeds, ID) for w in of_method[one]])) for one in TWO]
        found[7] += [shortfall(one) for one in TWO]
        means = {(m, a): np.mean([rows.values(w, seeds, a) for w in of_method[m]], 0) for m in METHODS for a in (OOD, ID)}
        found[8] = [means[one, a] - means[b, a] for a in (OOD, ID) for one in TWO for b in BASELINES]
        found[14] = [shortfall(m) - shortfall("standard") for m in ("same_domain", "mmd", "dann", *TWO)]

    of_head = {head: grid("standard", 25.0, head=head) for head in HEADS}
    seeds_10 = rows.complete([which for mine in of_head.values() for which in mine], GRID_SEEDS)
    n[10] = len(seeds_10)
    if len(seeds_10) > 1:

        def of(head, metric, share):
            chosen = [rows.best(of_head[head], [s for s in seeds_10 if s != seed]) for seed in seeds_10]
            return np.array([rows.values(which, [seed], metric, share)[0] for which, seed in zip(chosen, seeds_10)])

        found[10] = [of(None, a, "0.1") - of(head, a, "0.1") for a in (ID, OOD) for head in HEADS[1:]]
        sizes = (4, 8, 16)
        found[10] += [slope(sizes, np.stack([of((kind, k), DOMAIN, "0.01") for k in sizes])) for kind in ("linear", "mlp")]
    return found, n


def middle(share, edges):
    """Where the share of values below passes one half, on a straight line within the bin."""
    upper = int(np.searchsorted(share, 0.5))
    return np.interp(0.5, share[upper - 1 : upper + 1], edges[upper - 1 : upper + 1])


def of_temperatures(rows, store):
    """Contrasts of claim 11."""
    followed, start, end = configuration(P, 50.0, 0.125, 0.1), [], []
    for path in Path(store).glob("traces/*.json"):
        trace = json.loads(path.read_text())
        which, seed = rows.of_key.get(trace["key"], (None, None))
        counts = np.array(trace["counts"], float)[:, 0]  # of pairs of one domain: [epochs, bins]
        if which == followed and seed in GRID_SEEDS and counts.any(axis=1).all():
            edges = np.linspace(trace["low"], trace["high"], counts.shape[1] + 1)
            medians = [middle(np.r_[0, c.cumsum() / c.sum()], edges) for c in counts]
            start.append(0.125 - np.median(medians[:10]))
            end.append(0.01 - abs(medians[-1] - 0.125))
    return [np.array(start), np.array(end)]


def everything(store, folder):
    """By claim: the verdict, and (mean, low, high, n, state) of each contrast and of those beside it."""
    frozen = {}
    for path in Path(folder).glob("*.json"):
        for one in json.loads(path.read_text())["configurations"]:
            kind = one.get("discriminator", "global")
            seconds = (one.get("tau_beta"), one.get("lambda_"), kind)
            frozen[one["method"], one["sigma"], kind] = configuration(one["method"], one["sigma"], one["tau_alpha"], *seconds)
    rows = Rows(store)
    found, aside = on_fresh_seeds(rows, frozen)
    of_grid, n = on_the_grid(rows)
    if len((of_traces := of_temperatures(rows, store))[0]) > 1:
        of_grid[11], n[11] = of_traces, min(len(of_traces[0]), n[7])
    told = {}
    for number, contrasts in sorted((found | of_grid).items()):
        m = len(contrasts)
        states = [state(values, m) for values in contrasts]
        word = no_trend(contrasts) if number == 9 else verdict(states)
        lines, others = (
            [(*interval(values), len(values), state(values, m)) for values in some] for some in (contrasts, aside.get(number, []))
        )
        told[number] = {"word": word if n.get(number, 5) == 5 else "not judged yet", "contrasts": lines, "beside": others}
    return told


if __name__ == "__main__":
    print(json.dumps(everything(*sys.argv[1:3]), indent=1))
