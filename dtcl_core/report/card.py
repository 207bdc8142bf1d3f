"""The fifteen claims at a glance: each in a few words, its verdict as a coloured word, and the effect that decides it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ..analysis import verdicts
from ..analysis.claims import CLAIMS
from ..analysis.verdicts import Ruling
from .html_tables import BOX, escaped, interval_text

BRIEF = {
    1: "Both proposed methods beat every baseline (training colours)",
    2: "They hide the domain better than most",
    3: "MMD and DANN do worse than no change",
    4: "Colour jitter bounds them all (nearly by construction)",
    5: "They lead at every spread of colours",
    6: "They gain most where labels are few",
    7: "Lower temperatures are better",
    8: "They lead averaged over all settings",
    9: "Global or batch discriminators: no clear trend",
    10: "A projector head does harm",
    11: "Temperatures converge to their centre",
    12: "The gradient's formula (nearly by construction)",
    13: "A weight outside the exponent does little",
    14: "Validation picks cells that fall short",
    15: "They hold as colours spread, others fall",
}
ELSEWHERE = "at the other level alone"  # of a claim whose runs do not have every level of tau_min
LINK = "claims.html#claim-{number}"
COLORS = {  # translucent: they suit light and dark pages
    verdicts.SUPPORTED: "rgba(0, 158, 115, 0.35)",
    verdicts.CONTRADICTED: "rgba(213, 94, 0, 0.45)",
    verdicts.MIXED: "rgba(230, 159, 0, 0.35)",
    verdicts.INCONCLUSIVE: "rgba(127, 127, 127, 0.30)",
    verdicts.NOT_TESTED: "transparent",
    ELSEWHERE: "transparent",
}


def effect(ruling: Ruling) -> str:
    """The conjunct that a verdict hangs on, with its interval and seeds; a dash before there is one."""
    if ruling.deciding is None:
        return "–"
    interval = ruling.deciding.interval
    return f"{interval_text(interval.mean, interval.low, interval.high, signed=True)}, n = {interval.n}"


def table(
    rulings: Mapping[str, Mapping[int, Ruling]],
    only: Sequence[int] = (),
    tried: Mapping[str, Mapping[int, tuple[int, int]]] | None = None,
) -> pd.DataFrame:
    """One line a claim: its number and words, and for each level its verdict and the effect that decides it.

    Args:
        rulings: by the name of a level of tau_min, then by the claim's number, as from `verdicts.judge`.
        only: numbers of claims; all of them without any.
        tried: by the name of a level, then by the claim's number, how many of the paper's configurations were run for it, and how
            many there are.

    Returns:
        Columns: claim, says, tried; then for each level its name, "effect" and "of what" after it (with the level's name where
        there are several).
    """
    lines = []
    for claim in CLAIMS:
        if only and claim.number not in only:
            continue
        line: dict[str, Any] = {"claim": claim.number, "says": BRIEF[claim.number]}
        counts = [level[claim.number] for level in (tried or {}).values() if claim.number in level]
        here = ", ".join(dict.fromkeys(str(count) for count, _ in counts))
        line["tried"] = f"{here} of {counts[0][1]}" if counts else "–"
        for level, found in rulings.items():
            end = f", {level}" if len(rulings) > 1 else ""
            ruling = found.get(claim.number)
            absent = ELSEWHERE if any(claim.number in other for other in rulings.values()) else verdicts.NOT_TESTED
            line[f"verdict{end}"] = ruling.word if ruling else absent
            line[f"effect{end}"] = effect(ruling) if ruling else "–"
            deciding = ruling.deciding if ruling else None
            line[f"of what{end}"] = deciding.said if deciding else "–"
        lines.append(line)
    return pd.DataFrame(lines)


UNITS = {  # of effects that are no differences of accuracy, by words of what they are of
    "rank correlation": "rank",
    "slope a doubling": "a doubling",
    "digits beyond six": "digits",
    "half the weight's effect": "log",
    "5 to 95 % range": "tau",
    "share of unselected runs": "of runs",
}


def unit(what: str) -> str:
    """The unit of an effect, with a space before it; nothing for a difference of accuracies."""
    return next((f" {told}" for words, told in UNITS.items() if words in what), "")


FORMAL = (4, 12)  # nearly true by construction: an oracle is an upper bound, a formula is a formula


def tally(found: Mapping[int, Ruling]) -> str:
    """How many claims have which verdict, as a line, without those that no run could refute (`FORMAL`)."""
    words = [ruling.word for number, ruling in found.items() if number not in FORMAL]
    return ", ".join(f"{words.count(word)} {word}" for word in verdicts.WORDS if word in words)


class Card:
    """`table` as notebooks display it: text, and HTML with a coloured word for each verdict and a link for each claim.

    Args:
        rulings, only, tried: as for `table`; without `tried` there is no column for it.
        link: what a claim links to; {number} in it stands for the claim's.
        title: a line above it.
    """

    def __init__(
        self,
        rulings: Mapping[str, Mapping[int, Ruling]],
        link: str = LINK,
        only: Sequence[int] = (),
        tried: Mapping[str, Mapping[int, tuple[int, int]]] | None = None,
        title: str = "",
    ):
        self.table, self.link, self.brief, self.title = table(rulings, only, tried), link, not only, title
        self.shows_tried = tried is not None
        if not self.shows_tried:
            self.table = self.table.drop(columns="tried")

    def __repr__(self) -> str:
        text = self.table.to_string(index=False)
        return f"{self.title}\n{text}" if self.title else text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self.html()}

    def html(self) -> str:
        """The card as a table in a box that scrolls by itself: the claims, how much of each was run, and a column for each level.

        Of all claims, each is a line, and names what its effect is of when pointed at; of some, it says so under it.
        """
        names = [name for name in self.table if name.startswith("verdict")]
        words = self.table[names]
        claims = zip(self.table.claim, self.table.says)
        shown = pd.DataFrame(
            {
                "the paper's claim": [
                    f'<a href="{self.link.format(number=number)}">{number}. {escaped(says)}</a>'
                    for number, says in claims
                ]
            }
        )
        for name in names:
            level = name.removeprefix("verdict").removeprefix(", ")
            parts = (self.table[name.replace("verdict", part)] for part in ("verdict", "effect", "of what"))
            shown[level or "verdict"] = [self._cell(*of) for of in zip(*parts)]
        if self.shows_tried:
            shown["configurations run"] = [f"<small>{escaped(tried)}</small>" for tried in self.table.tried]
        colors = pd.DataFrame("", shown.index, shown.columns)
        for place, name in enumerate(names):
            colors.iloc[:, 1 + place] = [f"background-color: {COLORS[word]}" for word in words[name]]
        style = shown.style.hide(axis="index").set_uuid("card").set_table_attributes('class="dataframe"')
        style.apply(lambda _: colors, axis=None)
        style.set_properties(**{"text-align": "left", "vertical-align": "top", "padding": "0.15em 0.4em"})
        style.set_table_styles([{"selector": "th", "props": "text-align: left; padding: 0.15em 0.4em"}])
        if self.title:
            style.set_caption(escaped(self.title))
        return f"{BOX}{style.to_html()}</div>"

    def _cell(self, word: str, effect: str, what: str) -> str:
        """A verdict's word, the effect that decides it with its unit unless it is an accuracy, and what it is of."""
        if what == "–":
            return f"<b>{word}</b>"
        number, comma, seeds = effect.partition(", ")
        told = f"{escaped(number)}{escaped(unit(what))}{comma}{escaped(seeds).replace(' ', '&nbsp;')}"
        said = f"<b>{word}</b><br><small>{told}</small>"
        if self.brief:
            return f'<span title="{escaped(what)}">{said}</span>'
        return f"{said}<br><small>{escaped(what)}</small>"
