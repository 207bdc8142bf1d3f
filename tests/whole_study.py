"""The study on made-up rows, as it is before its last part, so that what pages do with it is tested, and can be looked at.

`python tests/whole_study.py FOLDER` writes such a store and the frozen selections; see `settled` for what goes with it.
"""

import json
import sys
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from dtcl_core.config import LABEL_FRACTIONS, METRICS
from dtcl_core.results import Store
from dtcl_core.traces import BINS, Trace
from dtcl_study import experiments, left_open, reported
from dtcl_study.experiments import DOMAIN, ORACLE, PROPOSED, REGISTRY
from dtcl_study.study import parts

CONFIGURATIONS = {
    "standard": {"tau_alpha": 0.1}, "same_domain": {"tau_alpha": 0.1}, "mmd": {"tau_alpha": 0.1, "lambda_": 5.0},
    "dann": {"tau_alpha": 0.1, "lambda_": 1.0}, "dw_negatives": {"tau_alpha": 0.075, "tau_beta": 0.5},
    "dw_pairs": {"tau_alpha": 0.175, "tau_beta": 1.0}, "color_jitter": {"tau_alpha": 0.1},
}  # fmt: skip
LAST = ("sigma_ablation", "global_vs_batch")  # the parts that are not there yet: further seeds and spreads
TOLD = {(line.method, line.metric): line.value for line in reported.load("table_1_main").itertuples()}
PROVENANCE = {
    "sources": "0" * 12,
    "torch": "2.6.0",
    "device": "cpu",
    "device_name": "made up",
    "instructions": None,
    "threads": 1,
}
PROVENANCE |= {"precision": "float32", "stack": 1, "seconds": 1.0, "trunk": None, "commit": None}


def selections():
    """Frozen selections: at sigma 50, at the other spreads, and with batch-level discriminators."""

    def frozen(method, sigma, kind="global"):
        return {
            "method": method,
            "sigma": sigma,
            **CONFIGURATIONS[method],
            **({"discriminator": kind} if method in PROPOSED else {}),
        }

    plain = {s: [frozen(method, s) for method in CONFIGURATIONS] for s in (0.0, 25.0, 50.0, 75.0, 150.0)}
    others = [one for sigma, every in plain.items() if sigma != 50 for one in every]
    batch = [frozen(method, 50.0, "batch") for method in PROPOSED]
    parts = {"sigma_50": plain[50.0], "sigma_others": others, "batch_50": batch}
    return tuple({"name": name, "seeds": {"50": [0, 1, 2, 3, 4]}, "configurations": found} for name, found in parts.items())


def settled(patch):
    """Give every stage of the settings its outcome, and a frozen selection to all methods; `patch` sets an attribute."""
    patch(left_open, "BEST_NETWORKS", tuple(n.name for n in left_open.NETWORKS[:2]))
    patch(left_open, "TAKEN_NETWORKS", (left_open.NETWORKS[0].name,))
    patch(left_open, "BEST_WEIGHTS", tuple(w.name for w in left_open.WEIGHTS[:2]))
    patch(left_open, "CHOSEN", dict(left_open.BASE))
    found = selections()
    again = [c for c in found[0]["configurations"] if c["method"] != ORACLE]
    second = ({"name": "dropout", "seeds": {"50": [0, 1, 2, 3, 4]}, "configurations": again},)
    patch(experiments, "frozen", lambda folder="frozen": found if folder == "frozen" else second)


def accuracies(run, generator):
    """The paper's mean of the method, worse away from its configuration and with label fraction and sigma, and a run's scatter."""
    away = abs(run.tau_alpha - CONFIGURATIONS.get(run.method, {"tau_alpha": 0.1})["tau_alpha"])
    scatter = dict(
        zip(
            METRICS,
            generator.normal(0, [{"validation": 0.05, "test_id": 0.03, "test_ood": 0.085, DOMAIN: 0.05}[m] for m in METRICS]),
        )
    )
    found = {}
    for fraction in LABEL_FRACTIONS:
        found[str(fraction)] = {}
        for metric in METRICS:
            mean = TOLD.get((run.method, "test_id" if metric == "validation" else metric), 0.6)
            mean -= (
                0.0 if metric == DOMAIN else 0.05 * away + (0.0 if run.method == ORACLE else run.sigma * 1e-4) - 0.03 * fraction
            )
            found[str(fraction)][metric] = float(np.clip(mean + scatter[metric], 0.4, 1))
    return found


def row(run):
    """A made-up row, always the same for a run; one in fifty diverged."""
    number = int(run.key, 16)
    generator, diverged = np.random.default_rng(number % 2**63), number % 50 == 0
    draws, metrics = {}, {}
    for fraction, scores in accuracies(run, generator).items():
        count = run.protocol.label_draws if float(fraction) < 1 else 1
        draws[fraction] = {m: np.clip(v + generator.normal(0, 0.01, count), 0, 1).tolist() for m, v in scores.items()}
        metrics[fraction] = {m: sum(values) / len(values) for m, values in draws[fraction].items()}
        if diverged:
            draws[fraction] = {m: [None] * count for m in scores}
            metrics[fraction] = dict.fromkeys(scores)
    told = PROVENANCE | {"created": datetime(2026, 1, 1, tzinfo=timezone.utc).isoformat()}
    status = "diverged" if diverged else "ok"
    return {"key": run.key, "run": run.to_dict(), "metrics": metrics, "draws": draws, "status": status, "provenance": told}


def trace(run):
    """Temperatures of pairs of a domain that rise to tau_alpha, as the paper draws them."""
    counts = np.zeros((run.protocol.epochs, 2, BINS), dtype=int)
    for epoch in range(run.protocol.epochs):
        counts[epoch, 0, min(5 + epoch // 5, BINS // 2)] = 100
        counts[epoch, 1, max(95 - epoch // 5, BINS // 2)] = 100
    half = run.tau_beta / 2
    return Trace(run.key, np.linspace(5, 4, run.protocol.epochs), run.tau_alpha - half, run.tau_alpha + half, counts)


def write(folder):
    """Write the store; what `settled` patches must be patched already."""
    store, runs = Store(folder), {}
    for part in parts(store, ()):
        runs |= {run.key: run for run in part.runs if part.name not in LAST}
    store.add([row(run) for run in runs.values()])
    for run in REGISTRY["effective_temperature"].runs("paper"):
        store.add_trace(trace(run))
    return store


if __name__ == "__main__":
    settled(setattr)
    place = Path(sys.argv[1])
    write(place)
    for selection in selections():
        (place / f"{selection['name']}.json").write_text(json.dumps(selection, indent=1) + "\n")
