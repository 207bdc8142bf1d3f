"""Questions to the authors: what the paper leaves unsaid, each by how much it moves the answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from .. import results
from ..analysis import calibration, sensitivity, specifications, unstated
from ..analysis.intervals import paired_difference
from ..analysis.selection import SELECTION_FRACTION
from ..config import Protocol
from ..experiments import open_choices
from ..experiments.core import TAU_MINS
from ..methods import ALL_METHODS
from . import forest, notebook
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
IN_SHORT_RUNS: Sequence[
    tuple[str, str, tuple[str, ...]]
] = (  # asked of what only short runs change: the question, whose runs tell (a group of `sensitivity.GROUPS` or a cell), what was tried
    ("Which crops were used (scale, ratio)?", "standard", ("torchvision's crops", "square crops")),
    (
        "Which colour jitter, on how many views, before or after the blur?",
        "color_jitter",
        ("SimCLR's jitter", "jitter before blur"),
    ),
    (
        "Are a probe's 1 % of labels drawn anew for each seed, by class?",
        "standard",
        ("labels stratified", "labels drawn again"),
    ),
    (
        "Which bandwidths has MMD, on raw embeddings or on scaled ones?",
        "mmd",
        ("MMD of raw embeddings", "MMD of one bandwidth", "MMD of wider bandwidths"),
    ),
    (
        "What schedule and learning rate has DANN's adversary?",
        "dann",
        ("lambda ramped up", "adversary's rate x 10", "adversary's rate / 10"),
    ),
)
EPOCH = ("Is the last epoch evaluated, or the one with the best validation accuracy?", "the best of {}")
START = "literal crop, dropout 0.05"  # of `calibration.CANDIDATES`: the others change one thing in it


def moved() -> pd.DataFrame:
    """`specifications.moves` of all rows there are."""
    return specifications.moves(results.load(), specifications.protocols(results.Store().rows(shared=True).values()))


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
        the lead with its interval, as text. What was selected comes first, with the seeds of its lead, then the question whose
        answer moves a method most.
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
            **{"n": part.n.where(part.choice != unstated.AS_IT_IS, part.lead_n), "moves": part.moves},
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
        lead = (line.lead, line.lead_low, line.lead_high, line.lead_n, True)
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


def in_short_runs(preset: str = "first", metric: str = "test_id") -> pd.DataFrame:
    """One line a question that only short runs answer: of the changes tried the one that moves a method most, paired by seed.

    Args:
        preset: whose rows of the experiment `sensitivity`.
        metric: which accuracy.

    Returns:
        Columns: question, tried, method, before (mean accuracy at 1 % of the labels), difference, epochs, and n (seeds). Which epoch
        is evaluated is told by full runs that have shorter ones beside them. The largest comes first; questions whose changes were not run are left out.
    """
    runs, measured = notebook.obtain("sensitivity", preset, False, "auto")
    portions = sensitivity.portions(sensitivity.with_choices(measured, runs))
    unseen = (
        sensitivity.unseen_effects(portions.unseen).drop(columns="n").rename(columns={"start": "base", "moved_n": "n"})
    )
    effects = pd.concat([sensitivity.changes(portions.short), unseen], ignore_index=True)
    effects = effects[effects.metric == metric].dropna(subset="moved")
    lines = []
    for question, method, tried in IN_SHORT_RUNS:
        part = effects[(effects.group == method) & effects.variation.isin(tried)]
        if len(part):
            most = part.loc[part.moved.abs().idxmax()]
            epochs = (portions.short if method in sensitivity.GROUPS else portions.unseen).epochs.max()
            lines.append((question, most.variation, method, most.base, most.moved, epochs, most.n))
    found = sensitivity.validated_epoch(portions.lengths)
    found = found[(found.method == "standard") & (found.tau_alpha == sensitivity.TAU)]
    if len(found):
        best = EPOCH[1].format(", ".join(map(str, open_choices.LENGTHS)))
        gained = (found[metric] - found[f"{metric}_last"]).mean()
        lines.append(
            (EPOCH[0], best, "standard", found[f"{metric}_last"].mean(), gained, open_choices.FULL_EPOCHS, len(found))
        )
    lines.sort(key=lambda line: -abs(line[4]))
    return pd.DataFrame(lines, columns=["question", "tried", "method", "before", "difference", "epochs", "n"])


def counted(effects: pd.DataFrame) -> pd.DataFrame:
    """How many seeds each choice was run on, by method; those that were not run are left out."""
    found = in_selected(effects)
    return found[found.n > 0][["question", "tried", "method", "n"]]


def beside(effects: pd.DataFrame, metric: str) -> pd.DataFrame:
    """`in_selected` of an accuracy that decides nothing, without what the rule says."""
    return in_selected(effects, metric).drop(columns="moves")


def _standard(reading: pd.DataFrame, metric: str) -> pd.Series:
    """Standard contrastive learning's accuracy by seed, at the temperature that its validation selects."""
    lines = reading[(reading.group == "standard") & (reading.metric == metric)]
    return lines[lines.label_fraction == SELECTION_FRACTION].set_index("seed").value
