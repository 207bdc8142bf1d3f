"""How far the verdicts hang on what the paper leaves open: on the level of tau_min, and on the reading of the rest."""

from __future__ import annotations

import math

import pandas as pd

from ..analysis import verdicts
from . import card, findings
from .overview import Overview

DATE = "2026-11-25"
OURS = "our reading"
TEXT = (  # at the head of the chapter on claims
    "how a claim fares hangs on what the paper leaves open.\n"
    "Claim 1, that both methods beat every baseline, is supported in {led} of the {ways} combinations of two levels of tau_min and two readings"
    " of the paper (ours, and the one taken first): {where}, where the nearest of its intervals begins at {least:.4f}. Claim 2, that they hide"
    " the domain better than most, is contradicted in all {ways}. Of {levels} claims that tau_min touches, {same_levels} have one verdict at both"
    " levels; of {readings} verdicts given under both readings, {same_readings} agree (those nearly true by construction aside)."
)


def agreement(readings: pd.DataFrame) -> str:
    """How many of the verdicts that both readings give are alike, by level: a sentence on what `Overview.readings` returns."""
    both = _given_twice(readings)
    if both.empty:
        return "No verdict is given under both readings yet."
    alike = (both.alike == "yes").groupby(both.level, sort=False).agg(["sum", "count"])
    counted = "; ".join(f"with {level} {row['sum']} of {row['count']}" for level, row in alike.iterrows())
    formal = " and ".join(map(str, card.FORMAL))
    return f"Alike of the verdicts that both readings give (but of claims {formal}): {counted}."


def sentence(judged: Overview, readings: pd.DataFrame) -> findings.Sentence:
    """What the chapter on claims opens with.

    Args:
        judged: the claims under each level.
        readings: as `judged.readings` gives them.

    Raises:
        ValueError: if the verdicts do not bear the sentence.
    """
    low, *others = judged.rulings.values()
    touched = [n for n in low if n not in card.FORMAL and all(n in other for other in others) and _touched(n, judged)]
    told = _given_twice(readings)
    told = told[told.claim.isin(touched) | ~told.duplicated("claim")]  # what the level does not touch counts once
    ours = readings.assign(word=readings.verdict, reading=OURS)
    first = readings.assign(word=readings["first reading"], reading="the first")
    ways = pd.concat([ours, first])
    led = ways[(ways.claim == 1) & (ways.word == verdicts.SUPPORTED)]
    numbers = {
        "ways": int((ways.claim == 1).sum()),
        "led": len(led),
        "where": " and ".join(led.reading + " with " + led.level),
        "least": min((_nearest(judged, level) for level in led.level[led.reading == OURS]), default=math.nan),
        "hidden": int(((ways.claim == 2) & (ways.word == verdicts.CONTRADICTED)).sum()),
        "levels": len(touched),
        "same_levels": sum(len({found[number].word for found in judged.rulings.values()}) == 1 for number in touched),
        "readings": len(told),
        "same_readings": int((told.alike == "yes").sum()),
    }
    finding = findings.Finding(DATE, TEXT, lambda rows: numbers, _holds)
    return finding.dated(findings.NO_ROWS)


def _holds(x: findings.Numbers) -> bool:
    some = x["led"] == 1 < x["ways"] == x["hidden"] and 0 < x["least"] < 0.005
    return some and x["same_levels"] < x["levels"] and x["same_readings"] < x["readings"]


def _nearest(judged: Overview, level: str) -> float:
    """The least end of an interval among those that claim 1 rests on."""
    return min((contrast.interval.low for contrast, _ in judged.rulings[level][1].conjuncts), default=math.nan)


def _given_twice(readings: pd.DataFrame) -> pd.DataFrame:
    """The verdicts that both readings give, without those that no run could refute."""
    return readings[(readings.alike != "–") & ~readings.claim.isin(card.FORMAL)]


def _touched(number: int, judged: Overview) -> bool:
    """Whether any line of a claim differs between levels of tau_min; where no line is known, it may."""
    lines = [[(c.said, str(c.interval)) for c, _ in found[number].conjuncts] for found in judged.rulings.values()]
    return not lines[0] or any(other != lines[0] for other in lines)
