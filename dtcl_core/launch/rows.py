"""The rows of a trained and evaluated stack, as `results.Store` keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from ..config import REVISION, Run
from ..engine.provenance import commit
from ..evaluate import Draws, means
from ..pretrain import Stack


def make_rows(
    stack: Stack, draws: dict[str, Draws], runs: Sequence[Run] | None = None, encoder: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """Rows of a trained stack.

    Args:
        stack: trained.
        draws: what `evaluate.measure` returned; kept of runs with more than one draw of labels.
        runs: those that rows are made of; None: the stack's.
        encoder: what `Store.add_encoders` returned.
    """
    provenance = {
        **stack.machine,
        "commit": commit(),
        "precision": stack.precision,
        "stack": len(stack.runs),
        "seconds": round(stack.seconds / len(stack.runs), 2),
        "created": datetime.now(timezone.utc).isoformat(timespec="microseconds"),
    }
    rows, place = [], {run.training: number for number, run in enumerate(stack.runs)}
    for run in stack.runs if runs is None else runs:
        scores = means(draws[run.key])
        finished = all(value is not None for fraction in scores.values() for value in fraction.values())
        row = {"key": run.key, "revision": REVISION, "run": run.to_dict(), "metrics": scores}
        row |= {"status": "ok" if finished else "diverged", "provenance": dict(provenance)}
        if run.protocol.label_draws > 1:
            row["draws"] = draws[run.key]
        if encoder is not None:
            row["encoder"] = {**encoder, "place": place[run.training]}
        rows.append(row)
    return rows
