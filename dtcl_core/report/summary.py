"""What the one-page summary says with numbers: how much was trained, and why seeds are the hard part."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd

from ..analysis import contrasts, operating_characteristics, reported
from ..config import Protocol
from ..experiments.open_choices import STATED
from . import findings
from .findings import Numbers, Rows, Sentence

SEEDS = 5  # of the paper
CLAIM = 1  # that the proposed methods lead on the unseen colour


def written() -> str:
    """The day of the newest of the sentences that are the answer."""
    return max(findings.FINDINGS[name].date for name in findings.ANSWER)


def behind(rows: pd.DataFrame) -> str:
    """When the answer was written and how much training is behind it, as a line.

    Args:
        rows: as from `results.load`.
    """
    runs = rows.drop_duplicates("key")
    return f"Found, {written()}, from {len(runs):,} runs, {runs.seconds.sum() / 3600:,.0f} hours of training."


def noise(rows: Rows) -> Numbers:
    """By how much seeds move Test-OOD, beside the lead that the paper reports there.

    Args:
        rows: of selected cells on fresh seeds, under each level of tau_min, in its `measured` alone (`findings.headline`).

    Returns:
        open (settings of ours that the paper does not give), claimed (the lead of the paper's better method over its best
        baseline), least and most (standard deviation over seeds of a method's selected cell), times and times_most (both over claimed), n
        (seeds, the fewest), seeds (the paper's), upheld (how often the rule would support the claim on as many, were the paper's
        means the truth; NaN if that was not simulated).
    """
    in_paper = reported.main_comparison().query("metric == 'test_ood'").set_index("method").value
    claimed = in_paper[list(contrasts.PROPOSED)].max() - in_paper[list(contrasts.BASELINES)].max()
    ours = rows.measured[rows.measured.method.isin([*contrasts.PROPOSED, *contrasts.BASELINES])]
    by = ours.groupby(["method", "level"], dropna=False).test_ood
    tried = operating_characteristics.stored()
    upheld = tried.query(f"claim == {CLAIM} and seeds == {SEEDS} and truth == {operating_characteristics.PAPER!r}")
    return {
        "open": len(dataclasses.fields(Protocol)) - len(STATED), "claimed": claimed,
        "least": by.std().min(), "most": by.std().max(), "times": by.std().min() / claimed, "times_most": by.std().max() / claimed, "n": int(by.count().min()),
        "seeds": SEEDS, "upheld": upheld.supported.iloc[0] if len(upheld) else np.nan,
    }  # fmt: skip


HARD = findings.Finding(
    "2026-11-25",
    "{open} settings of ours are not in the paper. And on the unseen colour accuracy has a standard deviation over seeds of {least:.2f} to"
    " {most:.2f}, method by method ({n} fresh seeds): {times:.1f} to {times_most:.1f} times the lead that the paper reports ({claimed:.3f}). Were"
    " its means the truth, our rule would support that lead on {seeds} seeds, as many as the paper has, in {upheld:.0%} of simulated draws.",
    noise,
    lambda x: x["times"] > 1.5 and x["upheld"] < 0.5,
)


def hard() -> Sentence:
    """What was hard, with its date.

    Raises:
        ValueError: if the rows do not bear it.
    """
    return HARD.dated(Rows((), findings.headline()))
