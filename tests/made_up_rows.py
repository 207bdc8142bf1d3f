"""Hand-made rows, for tests of what is concluded and shown."""

from dtcl_core.config import METRICS, Protocol, Run


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


def row(run=None, created="2026-01-01T00:00:00+00:00", status="ok", accuracy=0.8):
    """A row of a run, all of whose accuracies are alike."""
    run = run or Run(protocol=Protocol(epochs=1))
    scores = {name: accuracy if status == "ok" else None for name in METRICS}
    made = {
        "key": run.key,
        "run": run.to_dict(),
        "metrics": {f: dict(scores) for f in ("0.01", "0.1", "1.0")},
        "status": status,
        "provenance": {
            "created": created,
            "device": "cpu",
            "precision": "float32",
            "torch": "2",
            "sources": "0",
            "stack": 1,
            "seconds": 1,
        },  # fmt: skip
    }
    return with_draws(made)
