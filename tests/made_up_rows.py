"""Hand-made rows, for tests of what is concluded and shown."""

from dtcl_core import results
from dtcl_core.config import METRICS, Run
from dtcl_core.data import LABEL_FRACTIONS


def with_draws(row):
    """A row with the draws of labels that its protocol asks for, all alike, if it asks for several."""
    count = Run.from_dict(row["run"]).protocol.label_draws
    if count == 1:
        return row
    draws = {
        fraction: {name: [value] * (count if float(fraction) < 1 else 1) for name, value in scores.items()}
        for fraction, scores in row["metrics"].items()
    }
    return {**row, "draws": draws}


def frame(entries):
    """Rows from (method, hyperparameters, seed, validation, test)."""
    rows = []
    for method, hyperparameters, seed, validation, test in entries:
        run = Run(method, seed=seed, **hyperparameters)
        scores = {"validation": validation, "test_id": test, "test_ood": test, "d_test_id": 0.5}
        rows.append(
            {
                "key": run.key, "run": run.to_dict(), "status": "ok" if validation is not None else "diverged",
                "metrics": {"0.01": scores, "1.0": {**scores, "validation": 1 - (validation or 0)}},
                "provenance": {"created": "2026-01-01"}, "shard": "s",
            }
        )  # fmt: skip
    return results.frame(rows)


def made_up(runs, value):
    """Rows in which every metric of a run is value(run, metric)."""
    rows = []
    for run in runs:
        scores = {metric: value(run, metric) for metric in METRICS}
        rows.append({"key": run.key, "run": run.to_dict(), "status": "ok", "provenance": {"created": "2026"}, "shard": "s",
                     "metrics": {str(f): scores for f in LABEL_FRACTIONS}})  # fmt: skip
    return results.frame(rows)


def selected_rows():
    rows = frame(
        [("standard", {"tau_alpha": 0.1}, s, 0.5, v) for s, v in enumerate([0.70, 0.74, 0.72])]
        + [("dw_pairs", {"tau_alpha": 0.1, "tau_beta": 1}, s, 0.5, v) for s, v in enumerate([0.80, 0.84, 0.83])]
        + [("color_jitter", {"tau_alpha": 0.1}, s, 0.5, 0.99) for s in range(3)]
    )
    return rows[rows.label_fraction == 0.01]
