"""An earlier rule for verdicts, kept for the appendix; `verdicts` has the one that decides. And how it writes claims as text.

Once every contrast rests on the paper's `FULL_SEEDS` seeds, the verdict is

- all for: reproduced;  more than half for, the others against or open: partly;
- at least half against: not reproduced;
- else the intervals are too wide to tell: open.

Before that it is not tested. So no claim falls by what the runs could not see. `standing` says what an untested or open claim
lacks, and in how many contrasts it is contradicted all the same. Judged claims are what `claims.judge` returns: the contrasts of each claim, by its number.
Texts fit a page.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from ..methods import ALL_METHODS
from .claims import CLAIMS
from .contrasts import MIN_SEEDS, Contrast

FULL_SEEDS = 5
PAPER_EPOCHS = 400
VERDICTS = ("reproduced", "partly", "not reproduced", "open", "not tested")
REPRODUCED, PARTLY, NOT_REPRODUCED, OPEN, NOT_TESTED = VERDICTS
EARLY = "early look"  # in place of a verdict, on runs shorter than the paper's
WIDTH = 78

Judged = Mapping[int, Sequence[Contrast]]


def verdict(contrasts: Sequence[Contrast]) -> str:
    """One of `VERDICTS`, by the rule in this module's first lines."""
    said = [contrast.speaks for contrast in contrasts]
    if min((contrast.interval.n for contrast in contrasts), default=0) < FULL_SEEDS:
        return NOT_TESTED
    if 2 * said.count("for") > len(said):
        return REPRODUCED if set(said) == {"for"} else PARTLY
    return NOT_REPRODUCED if 2 * said.count("against") >= len(said) else OPEN


def first_verdict(contrasts: Sequence[Contrast]) -> str:
    """The rule as first committed (485ad52), on contrasts as they are made now: it asked for less, in both directions.

    It stands beside `verdict` so that a reader sees what the change of rule does. One contrast for was enough for "partly";
    none for, and five seeds or one contrast against, for "not reproduced".
    """
    said = {contrast.speaks for contrast in contrasts}
    if not said or "missing" in said:
        return NOT_TESTED
    if "for" in said:
        return REPRODUCED if said == {"for"} else PARTLY
    few = any(contrast.interval.n < FULL_SEEDS for contrast in contrasts)
    return NOT_TESTED if few and "against" not in said else NOT_REPRODUCED


def standing(contrasts: Sequence[Contrast]) -> str:
    """What an untested or open claim lacks: how many of its contrasts have their seeds, or that the seeds cannot tell; else empty.

    Few may have them although much was run: some contrasts wait for the last configuration of a grid.
    Contrasts that speak against the claim are counted behind missing ones, and stand in place of what the seeds cannot tell.
    """
    seeds = [contrast.interval.n for contrast in contrasts]
    against = [contrast.speaks for contrast in contrasts].count("against")
    if (found := verdict(contrasts)) == NOT_TESTED:
        ready = sum(n >= FULL_SEEDS for n in seeds)
        lacking = f"{ready} of {len(seeds)} contrasts have {FULL_SEEDS} seeds"
        return f"{lacking}, {against} speak against it" if against else lacking
    if found == OPEN:
        return f"contradicted in {against} of {len(seeds)} contrasts" if against else f"{min(seeds)} seeds cannot tell"
    return ""


def in_words(contrasts: Sequence[Contrast]) -> str:
    """A claim's verdict and, where it has none, what it lacks."""
    return ": ".join(filter(None, (verdict(contrasts), standing(contrasts))))


def summary(judged: Judged, epochs: int = PAPER_EPOCHS) -> pd.DataFrame:
    """A line a claim.

    Args:
        judged: judged claims.
        epochs: of the runs; short runs get no verdicts.

    Returns:
        Columns: claim (its number), says, verdict, contrasts (how they speak) and n (the fewest seeds behind one). Behind the
        verdict stands what an untested or open claim lacks, behind the number of open contrasts how far the widest of their
        intervals reaches to either side, in its unit.
    """
    lines = []
    for claim in (claim for claim in CLAIMS if claim.number in judged):
        contrasts = judged[claim.number]
        said = [c.speaks for c in contrasts]
        tally = ", ".join(f"{said.count(s)} {s}" for s in ("for", "against", "open", "missing") if s in said)
        widths = [(c.interval.high - c.interval.low) / 2 for c in contrasts if c.speaks == "open"]
        tally = tally.replace(" open", f" open (to ±{max(widths):.2f})") if widths else tally
        seeds = min((c.interval.n for c in contrasts), default=0)
        word = in_words(contrasts) if epochs >= PAPER_EPOCHS else EARLY
        lines.append((claim.number, claim.says, word, tally or "no contrasts", seeds))
    return pd.DataFrame(lines, columns=["claim", "says", "verdict", "contrasts", "n"])


def counted(judged: Judged, epochs: int = PAPER_EPOCHS) -> str:
    """How many claims have which verdict, and which, a line a verdict; or that short runs get none."""
    if epochs < PAPER_EPOCHS:
        return f"Runs of {epochs} epochs, not the paper's {PAPER_EPOCHS}: an early look, no verdicts."
    having = {word: [number for number, contrasts in judged.items() if verdict(contrasts) == word] for word in VERDICTS}
    lines = [f"{len(found)} {word}: {', '.join(map(str, found))}" for word, found in having.items() if found]
    return "\n".join([f"Of {len(judged)} claims", *lines])


def as_first_written(judged: Judged, epochs: int = PAPER_EPOCHS) -> str:
    """The claims on which the rule as first committed (`first_verdict`) says otherwise; short runs get no verdicts."""
    if epochs < PAPER_EPOCHS:
        return counted(judged, epochs)
    lines = [
        f"Claim {number}: {first}; now {in_words(contrasts)}"
        for number, contrasts in judged.items()
        if (first := first_verdict(contrasts)) != verdict(contrasts)
    ]
    return "\n".join(lines) or "No claim has another verdict."


def details(contrasts: Sequence[Contrast]) -> pd.DataFrame:
    """A line a contrast: what, mean, low, high, n, and how it speaks."""
    lines = [(c.said, *c.interval, c.speaks) for c in contrasts]
    return pd.DataFrame(lines, columns=["contrast", "mean", "low", "high", "n", "speaks"])


def spoken(judged: Judged, again: Judged | None = None) -> str:
    """Each claim with the contrasts that speak for or against it, and their intervals.

    Args:
        judged: judged claims.
        again: claims judged by other rows; a star marks what speaks alike there.
    """
    lines, says = [], {claim.number: claim.says for claim in CLAIMS}
    for number, contrasts in judged.items():
        there = (again or {}).get(number, [None] * len(contrasts))
        both = [(c, other) for c, other in zip(contrasts, there, strict=True) if c.speaks in ("for", "against")]
        if both:
            lines += textwrap.wrap(f"Claim {number}. {says[number]}", WIDTH, subsequent_indent=" " * 9)
        for word in ("for", "against"):
            chosen = [(c, other) for c, other in both if c.speaks == word]
            lines += [f"  {word}:"] * bool(chosen)
            for c, other in chosen:
                mark = "  * " if other and other.speaks == word else "    "
                what, numbers = f"{mark}{c.said}", f"{c.interval}  n = {c.interval.n}"
                fits = len(what) + 2 + len(numbers) <= WIDTH
                wrapped = textwrap.wrap(c.said, WIDTH, initial_indent=mark, subsequent_indent=" " * 6)
                lines += [what + numbers.rjust(WIDTH - len(what))] if fits else [*wrapped, numbers.rjust(WIDTH)]
    return "\n".join(lines) or "No contrast speaks yet."


def side_by_side(number: int, judged: Mapping[str, Contrast]) -> str:
    """A contrast of a claim as several judgements have it, by their names: how it speaks, its interval and n, a line each."""
    lines = textwrap.wrap(f"Claim {number}: {next(iter(judged.values())).said}", WIDTH, subsequent_indent="    ")
    size = max(10, 2 + max(map(len, judged)))
    lines += [f"    {name:<{size}}{c.speaks:<9}{str(c.interval):>24}  n = {c.interval.n}" for name, c in judged.items()]
    return "\n".join(lines)


def pairs(first: Judged, second: Judged) -> Iterator[tuple[int, Contrast, Contrast]]:
    """The contrasts that two judgements share, by claim."""
    for number, contrasts in second.items():
        yield from ((number, a, b) for a, b in zip(first[number], contrasts, strict=True))


def otherwise(first: Judged, second: Judged, names: tuple[str, str], epochs: int = PAPER_EPOCHS) -> str:
    """What a second judgement of the same claims has otherwise: contrasts side by side under the two names, and verdicts.

    Contrasts that are missing in the second are left out, and the verdicts on claims that have such, or of short runs.
    """
    both = [(number, a, b) for number, a, b in pairs(first, second) if b.interval.n >= MIN_SEEDS]
    changed = [(number, a, b) for number, a, b in both if a.speaks != b.speaks]
    lines = [side_by_side(number, dict(zip(names, (a, b)))) for number, a, b in changed]
    lines.append(f"{len(changed)} of {len(both)} contrasts speak otherwise.")
    return "\n".join([*lines, *(other_verdicts(first, second) if epochs >= PAPER_EPOCHS else [])])


def other_verdicts(first: Judged, second: Judged) -> list[str]:
    """Lines for each claim on which a second judgement has another verdict; it has none on fewer than `FULL_SEEDS` seeds."""
    lines = []
    for number, contrasts in second.items():
        if min((contrast.interval.n for contrast in contrasts), default=0) >= FULL_SEEDS:
            before, now = in_words(first[number]), in_words(contrasts)
            if verdict(first[number]) != verdict(contrasts):
                lines += [f"Claim {number} would be: {now};", f"    instead of: {before}."]
    return lines


def agreement(first: Judged, second: Judged) -> pd.DataFrame:
    """How the contrasts that speak in `first` fare in `second`, by the accuracy they are about, those with the oracle apart.

    Returns:
        Columns: contrasts of, speak (how many speak in `first` and are not missing in `second`), alike (speak so in both), same
        sign and opposite (of those that do not), only there (open in `first`, and speak in `second`). What two claims share
        is counted once.
    """
    groups = {"d_test_id": "D-Test-ID", "test_ood": "Test-OOD", "test_id": "Test-ID"}
    found: dict[str, dict[tuple, tuple[Contrast, Contrast]]] = {}
    for _, a, b in pairs(first, second):
        with_oracle = any(ALL_METHODS[name].oracle for name in (a.method, a.baseline) if name is not None)
        group = "the oracle" if with_oracle else groups.get(a.metric or "", "other")
        if b.interval.n >= MIN_SEEDS:
            found.setdefault(group, {})[a.interval, b.interval] = (a, b)
    lines = []
    for group in ("Test-OOD", "Test-ID", "D-Test-ID", "other", "the oracle"):
        both = list(found.get(group, {}).values())
        spoke = [(a, b) for a, b in both if a.speaks in ("for", "against")]
        rest = [np.sign(a.interval.mean) == np.sign(b.interval.mean) for a, b in spoke if a.speaks != b.speaks]
        new = sum(a.speaks == "open" and b.speaks in ("for", "against") for a, b in both)
        if both:
            lines.append((group, len(spoke), len(spoke) - len(rest), sum(rest), len(rest) - sum(rest), new))
    return pd.DataFrame(lines, columns=["contrasts of", "speak", "alike", "same sign", "opposite", "only there"])
