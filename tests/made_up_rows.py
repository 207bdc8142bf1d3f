"""Hand-made rows, for tests of what is concluded and shown."""

from dtcl_core.config import Run


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
