"""Questions to the authors: what the paper leaves unsaid, each by how much it moves the answer."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ..analysis import calibration, unstated
from ..analysis.intervals import paired_difference
from ..analysis.selection import SELECTION_FRACTION
from ..methods import ALL_METHODS
from . import forest
from .html_tables import interval_text
from .style import METRIC_TITLES

QUESTIONS: Mapping[str, str] = {  # by the field of `config.Protocol`, as `specifications` names it
    "tau_min": "What is tau_min, the floor under the temperatures of Eq. 3?",
    "discriminator fit": "How is the domain discriminator fitted: to convergence, or by how many steps of which optimiser?",
    "discriminator l2": "Is the discriminator regularised, and how strongly?",
    "discriminator inputs": "Is it fitted on clean images or on augmented views?",
    "discriminator mode": "Are the embeddings that it is fitted on computed with batch statistics and dropout, or without?",
    "discriminator features": "Does it see embeddings as they are, or scaled to length one?",
    "posterior view": "Which of a negative's two views does it judge: the one that the loss compares (ours), or the other, as the paper writes it?",
    "weight gradient": "Does the loss's gradient pass through the weight?",
}
TRIED: Mapping[str, str] = {  # changes as `specifications` names them, in a reader's words
    "weight gradient True": "it does",
    "discriminator l2 100": "a penalty of 100",
    "posterior view anchor_view": "the other",
    "discriminator fit adam, discriminator steps 1000": "1000 steps of Adam",
    "discriminator fit adam": "100 steps of Adam",
    "discriminator inputs augmented": "on augmented views",
    "discriminator mode train": "with both",
    "discriminator features l2": "scaled to length one",
}

CHANGED: Mapping[str, str] = {  # what `core.UNSTATED` changes, in a reader's words
    unstated.AS_IT_IS: "nothing",
    "weight gradient": "the loss's gradient passes through the weight",
    "strong penalty": "the discriminator has a penalty of 100, not 1",
    "other view": "it judges the other view of a negative, as the paper writes it",
    "100 steps of Adam": "it is fitted by 100 steps of Adam from zero each epoch, not solved",
    "augmented images": "it is fitted on augmented views, not on clean images",
    "training mode": "it is fitted on embeddings made with batch statistics and dropout",
    "directions": "it sees embeddings scaled to length one",
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


def table(moved: pd.DataFrame) -> pd.DataFrame:
    """One line a question: the change tried that moves a proposed method most, and by how much.

    Args:
        moved: as from `specifications.moves`.

    Returns:
        Columns: question, tried, method, before and after (mean accuracy), difference with its interval, epochs and n; tau_min
        first, for every verdict is made under two levels of it, then the largest difference. Full runs stand for a question where
        there are any, else short ones.
    """
    lines = []
    for field, question in QUESTIONS.items():
        mine = moved[moved.change.str.startswith(f"{field} ")]
        mine = mine[mine.epochs == mine.epochs.max()]
        if len(mine):
            most = mine.loc[mine.moved.abs().idxmax()]
            title = ALL_METHODS[most.method].title
            effect = (
                TRIED.get(most.change, most.change),
                title,
                most.before,
                most.after,
                most.moved,
                most.low,
                most.high,
                most.n,
                most.epochs,
            )
            lines.append((field != "tau_min", -abs(most.moved), question, *effect))
    columns = ["question", "tried", "method", "before", "after", "difference", "low", "high", "n", "epochs"]
    return pd.DataFrame([line[2:] for line in sorted(lines, key=lambda line: line[:2])], columns=columns)


def in_selected(effects: pd.DataFrame, metric: str = unstated.DECIDING) -> pd.DataFrame:
    """One line a choice and method: what it moves in the cell that was selected, and the lead that is left.

    Args:
        effects: as from `unstated.effects`.
        metric: of which accuracy.

    Returns:
        Columns: method, changed, after (mean accuracy), difference with its interval and n, moves, and over the best baseline: the
        lead with its interval, as text. By method, the default first, then the largest difference.
    """
    part = effects[effects.metric == metric]
    leads = [
        "–" if m != m else interval_text(m, a, b, True) for m, a, b in zip(part.lead, part.lead_low, part.lead_high)
    ]
    table = part.assign(changed=part.choice.map(CHANGED), lead=leads, size=-part.moved.abs().fillna(9.0))
    table = table.sort_values(["method", "size"], kind="stable").rename(columns={"moved": "difference"})
    shown = table[["method", "changed", "after", "difference", "low", "high", "n", "moves", "lead"]]
    return shown.rename(columns={"lead": "over the best baseline"}).reset_index(drop=True)


def lines(effects: pd.DataFrame, metric: str = unstated.DECIDING) -> pd.DataFrame:
    """What `forest.draw` shows of `unstated.effects`: by method and choice, what it moves and the lead that is left.

    Returns:
        `forest.COLUMNS`; hollow where the rule says that nothing moves.
    """
    found = []
    for line in effects[effects.metric == metric].itertuples():
        group, what = ALL_METHODS[line.method].title, CHANGED[line.choice]
        if line.n > 1:
            found.append((group, what, "moves it by", line.moved, line.low, line.high, line.n, line.moves == "yes"))
        if line.lead_low == line.lead_low:
            found.append(
                (group, what, "lead over the best baseline", line.lead, line.lead_low, line.lead_high, 0, True)
            )
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
