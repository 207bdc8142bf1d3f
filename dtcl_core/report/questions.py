"""Questions to the authors: what the paper leaves unsaid, each by how much it moves the answer."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from ..analysis import calibration, unstated
from ..analysis.intervals import paired_difference
from ..analysis.selection import SELECTION_FRACTION
from ..config import Protocol
from ..experiments.core import TAU_MINS
from ..methods import ALL_METHODS
from . import forest
from .html_tables import interval_text
from .style import METRIC_TITLES

ASKED: Mapping[
    str, tuple[str, str]
] = {  # by a choice of `core.UNSTATED`: the question, and the answer that is tried for ours
    unstated.AS_IT_IS: ("as selected", "–"),
    "weight gradient": ("Does the loss's gradient pass through the weight?", "it does"),
    "strong penalty": ("Is the discriminator regularised, and how strongly?", "a penalty of 100, not 1"),
    "100 steps of Adam": (
        "How is the discriminator fitted: to convergence, or by how many steps of which optimiser?",
        "100 steps of Adam from zero each epoch, not solved",
    ),
    "augmented images": ("Is it fitted on clean images or on augmented views?", "on views"),
    "training mode": ("Are embeddings that it is fitted on made with batch statistics and dropout?", "with both"),
    "directions": ("Does it see embeddings as they are, or scaled to length one?", "scaled"),
    "other view": (
        "Which of a negative's two views does it judge: the one that the loss compares, or, as the paper writes it, the other?",
        "the other",
    ),
}

OF_ALL: Mapping[
    str, tuple[str, str]
] = {  # by field, of what every method sees: the question, and the accuracy that it is about
    "dropout": ("How much dropout has the encoder, and where?", "test_id"),
    "blur_probability": ("Is each view blurred, or how many are, and with which kernel?", "test_id"),
    "batch_size": ("What is the batch size, and is the last, smaller batch of an epoch dropped?", "test_id"),
    "channels": ("How wide is the encoder, and where does it halve the image?", "test_id"),
    "probe_features": ("Is the probe given embeddings as they are, and is it regularised?", "test_id"),
    "domain_probe_data": ("Is the domain's probe fitted on all training images, or on the labelled ones?", "d_test_id"),
}
START = "literal crop, dropout 0.05"  # of `calibration.CANDIDATES`: the others change one thing in it


def floor(moved: pd.DataFrame) -> pd.DataFrame:
    """What the higher tau_min does in full runs, a line a method.

    Args:
        moved: as from `specifications.moves`.

    Returns:
        Columns: method, before and after (mean accuracy), difference with its interval, and n.
    """
    full = moved[(moved.change == f"tau_min {max(TAU_MINS):g}") & (moved.epochs == Protocol().epochs)]
    columns = ["method", "before", "after", "moved", "low", "high", "n"]
    return full[columns].rename(columns={"moved": "difference"}).reset_index(drop=True)


def in_selected(effects: pd.DataFrame, metric: str = unstated.DECIDING) -> pd.DataFrame:
    """One line a choice and method: what it moves in the cell that was selected, and the lead that is left.

    Args:
        effects: as from `unstated.effects`.
        metric: of which accuracy.

    Returns:
        Columns: question, tried, method, after (mean accuracy), difference with its interval and n, moves, and over the best baseline:
        the lead with its interval, as text. What was selected comes first, then the question whose answer moves a method most.
    """
    part = effects[effects.metric == metric]
    shown = pd.DataFrame(
        {
            "question": [ASKED[choice][0] for choice in part.choice],
            "tried": [ASKED[choice][1] for choice in part.choice],
            **{
                "method": part.method,
                "after": part.after,
                "difference": part.moved,
                "low": part.low,
                "high": part.high,
            },
            **{"n": part.n, "moves": part.moves},
            "over the best baseline": list(map(_lead, part.lead, part.lead_low, part.lead_high)),
        }
    )
    most = part.moved.abs().groupby(part.choice).transform("max").where(part.choice != unstated.AS_IT_IS, float("inf"))
    return shown.loc[most.sort_values(ascending=False, kind="stable").index].reset_index(drop=True)


def _lead(mean: float, low: float, high: float) -> str:
    return "–" if math.isnan(mean) else interval_text(mean, low, high, signed=True)


def lines(effects: pd.DataFrame, metric: str = unstated.DECIDING) -> pd.DataFrame:
    """What `forest.draw` shows of `unstated.effects`: by method and choice, what it moves and the lead that is left.

    Returns:
        `forest.COLUMNS`; what the rule calls no move does not decide.
    """
    found = []
    for line in effects[effects.metric == metric].itertuples():
        group, what = ALL_METHODS[line.method].title, " ".join(ASKED[line.choice]).removesuffix(" –")
        lead = (line.lead, line.lead_low, line.lead_high, line.n, True)
        if line.choice != unstated.AS_IT_IS:
            found.append((group, what, "moves it by", line.moved, line.low, line.high, line.n, line.moves == "yes"))
        if not math.isnan(line.lead):
            found.append((group, what, "lead over the best baseline", *lead))
    return pd.DataFrame(found, columns=list(forest.COLUMNS)).sort_values("group", kind="stable", ignore_index=True)


def seen_by_all(readings: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One line a question about what every method sees: the change tried that moves standard contrastive learning most.

    Args:
        readings: rows of candidates as from `calibration.on_all_seeds`; changes are from `START`, paired by seed.

    Returns:
        Columns: question, tried, accuracy, before and after (means at 1 % of the labels), difference with its interval, and n; the
        largest difference first, and only questions whose change was run.
    """
    candidates, lines = {c.name: c.changes for c in calibration.CANDIDATES}, []
    for field, (question, metric) in OF_ALL.items():
        moved = []
        for name in readings:
            changed = {key for key, value in candidates[name].items() if candidates[START].get(key) != value}
            if changed == {field}:
                before, after = (_standard(readings[each], metric) for each in (START, name))
                seeds = before.index.intersection(after.index)
                means = before[seeds].mean(), after[seeds].mean()
                moved.append((*means, *paired_difference(after, before), name))
        if moved:
            *numbers, tried = max(moved, key=lambda line: abs(line[2]))
            lines.append((question, tried, METRIC_TITLES[metric].removesuffix(" accuracy"), *numbers))
    columns = ["question", "tried", "accuracy", "before", "after", "difference", "low", "high", "n"]
    return pd.DataFrame(sorted(lines, key=lambda line: -abs(line[5])), columns=columns)


def _standard(reading: pd.DataFrame, metric: str) -> pd.Series:
    """Standard contrastive learning's accuracy by seed, at the temperature that its validation selects."""
    lines = reading[(reading.group == "standard") & (reading.metric == metric)]
    return lines[lines.label_fraction == SELECTION_FRACTION].set_index("seed").value
