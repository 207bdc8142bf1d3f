"""Questions to the authors: what the paper leaves unsaid, in the order of how much it moves the answer."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ..methods import ALL_METHODS

QUESTIONS: Mapping[str, str] = {  # by the field of `config.Protocol`, as `specifications` names it
    "tau_min": "What is tau_min, the floor under the temperatures of Eq. 3?",
    "discriminator fit": "How is the domain discriminator fitted: to convergence, or by how many steps of which optimiser?",
    "discriminator l2": "Is the discriminator regularised, and how strongly?",
    "discriminator inputs": "Is it fitted on clean images or on augmented views?",
    "discriminator mode": "Are embeddings for it computed with batch statistics and dropout, or without?",
    "discriminator features": "Does it see embeddings as they are, or scaled to length one?",
    "posterior view": "Whose domain does it judge for a pair: the negative's, or the anchor's?",
    "weight gradient": "Does the loss's gradient pass through the weight?",
}


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
            effect = (most.change, title, most.before, most.after, most.moved, most.low, most.high, most.n, most.epochs)
            lines.append((field != "tau_min", -abs(most.moved), question, *effect))
    columns = ["question", "tried", "method", "before", "after", "difference", "low", "high", "n", "epochs"]
    return pd.DataFrame([line[2:] for line in sorted(lines, key=lambda line: line[:2])], columns=columns)
