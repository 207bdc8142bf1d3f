"""Every claim judged under every level of tau_min, from the stored rows: what the card and the forest plot show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from ..analysis import restated_claims, selection, verdicts
from ..analysis.claims import CLAIMS
from ..analysis.contrasts import MIN_SEEDS, Contrast, Evidence
from ..analysis.tau_min_levels import at
from ..analysis.verdicts import Ruling
from ..config import Protocol, Run, protocol_hash
from ..experiments import wants_trace
from ..experiments.core import FRESH_SEED, PROPOSED, TAU_MINS, validation_of
from ..experiments.readings import FIRST
from ..experiments.weight_choices import OFF_FLOOR
from . import card, findings, notebook

EPOCHS = Protocol().epochs  # of a run in full


@dataclass(frozen=True)
class Overview:
    """What was judged, and from what.

    Attributes:
        runs: what is asked for.
        measured: the rows there are.
        rulings: by the level of tau_min, then by the claim's number.
        contrasts: by the level of tau_min, then by the name of the seeds, then by the claim's number.
        first: rulings as above on the same cells under the first reading of the paper, of claims that are judged on fresh seeds.
        tried: by the level of tau_min, then by the claim's number, how many of the paper's configurations were run for it, and
            how many there are.
    """

    runs: Sequence[Run]
    measured: pd.DataFrame
    rulings: Mapping[str, Mapping[int, Ruling]]
    contrasts: Mapping[str, Mapping[str, Mapping[int, Sequence[Contrast]]]]
    first: Mapping[str, Mapping[int, Ruling]]
    tried: Mapping[str, Mapping[int, tuple[int, int]]] = field(default_factory=dict)

    def card(self, *numbers: int, link: str = card.LINK) -> card.Card:
        """The verdicts on all claims, or on some at the end of a chapter about them, after the line that short runs need."""
        if self.short:
            print(self.short)
        return card.Card(self.rulings, link, numbers, self.tried, "" if numbers else self.tallied)

    def on_both(self, *numbers: int) -> pd.DataFrame:
        """What was selected, on the seeds that selected it and on fresh ones: the contrasts of some claims, under the first level.

        Returns:
            Columns: claim, what, seeds, mean, low, high, n; without the contrasts that a set of seeds is too small for.
        """
        first = next(iter(self.contrasts.values()))
        lines = [
            (number, c.said, seeds, *c.interval)
            for number in numbers
            for pair in zip(*(judged[number] for judged in first.values()))
            for seeds, c in zip(first, pair)
            if c.interval.n >= MIN_SEEDS
        ]
        return pd.DataFrame(lines, columns=["claim", "what", "seeds", "mean", "low", "high", "n"])

    @property
    def short(self) -> str:
        """Why there is no verdict, as a line, if the runs are shorter than the paper's; empty if not."""
        epochs = self.runs[0].protocol.epochs
        return f"Runs of {epochs} epochs, not the paper's {EPOCHS}: no verdicts." if epochs < EPOCHS else ""

    def readings(self, before: Mapping[str, Mapping[int, Ruling]] | None = None) -> pd.DataFrame:
        """The verdicts beside those under the first reading of the paper.

        Claims that rest on no rows (`verdicts.OF_NO_ROWS`) are left out: they have no reading.

        Args:
            before: rulings on what was run under that reading (`overview` of the preset "first"), for the claims that are not
                judged on the same selected cells; those that it leaves untested are left out.

        Returns:
            Columns: claim, says, level, verdict, first reading, alike ("yes" or "no"; "–" where one has nothing to judge), and
            cells of the first reading ("the same", or "its own" with how many of the claim's lines they decide).
        """
        lines = []
        for claim in (c for c in CLAIMS if c.number not in verdicts.OF_NO_ROWS):
            for level, found in self.rulings.items():
                same = claim.number in verdicts.ON_FRESH_SEEDS
                ruling = (self.first if same else before or {}).get(level, {}).get(claim.number)
                if ruling is None or claim.number not in found or (not same and ruling.word == verdicts.NOT_TESTED):
                    continue
                word, other = found[claim.number].word, ruling.word
                alike = "–" if verdicts.NOT_TESTED in (word, other) else "yes" if word == other else "no"
                of = len(ruling.conjuncts)
                cells = "the same" if same else f"its own, {of - ruling.count('missing')} of {of} lines"
                lines.append((claim.number, card.BRIEF[claim.number], level, word, other, alike, cells))
        return pd.DataFrame(lines, columns=["claim", "says", "level", "verdict", "first reading", "alike", "cells"])

    def conjuncts(self, number: int) -> pd.DataFrame:
        """What a claim says, a line each, with what was measured under each level and the state it leaves the line in.

        Returns:
            Columns: level, what, mean, low, high, n, state ("for", "against", "open", "missing", or what can be said of a line
            that decides nothing).
        """
        lines = [
            (level, c.said, *c.interval, state)
            for level, found in self.rulings.items()
            if number in found
            for c, state in (
                *((c, _state(number, c, state)) for c, state in found[number].conjuncts),
                *((c, f"beside: {verdicts.on_unseen(c)}") for c in found[number].apart),
            )
        ]
        return pd.DataFrame(lines, columns=["level", "what", "mean", "low", "high", "n", "state"])

    @property
    def counted(self) -> str:
        """How many of the runs are there, as a line."""
        return f"{self.measured.key.nunique()} of {len({run.key for run in self.runs})} runs exist."

    @property
    def tallied(self) -> str:
        """How many claims got which verdict under each level, in a sentence, with how many runs are missing."""
        whole = max(self.rulings.values(), key=len)
        tallies = {}
        for level, found in self.rulings.items():
            absent = " and ".join(map(str, sorted(whole.keys() - found.keys())))
            tallies[level] = card.tally(found) + (f" (claim {absent} was not run there)" if absent else "")
        if len(set(tallies.values())) == 1:
            tallies = {"": next(iter(tallies.values()))}
        counted = "; ".join(f"with {level}: {tally}" if level else tally for level, tally in tallies.items())
        there, asked = self.measured.key.nunique(), len({run.key for run in self.runs})
        missing = f" {asked - there} of {asked} runs are still missing." if there < asked else ""
        formal = " and ".join(map(str, card.FORMAL))
        others = sum(number not in card.FORMAL for number in whole)
        return f"Claims {formal} hold nearly by construction; of the other {others}, {counted}.{missing}"

    @property
    def missing(self) -> str:
        """How many of the runs are missing, as a line; empty if none is."""
        there, asked = self.measured.key.nunique(), len({run.key for run in self.runs})
        return "" if there == asked else f"not yet run: {asked - there} of {asked}"


def overview(
    preset: str = findings.PRESET,
    device: str = "auto",
    compute: bool = False,
    seeds: int | None = None,
    epochs: int | None = None,
) -> Overview:
    """All claims by `analysis.verdicts`.

    Args:
        preset, device, compute: see `notebook.obtain`; what was selected is trained on fresh seeds too.
        seeds, epochs: None takes the preset's.
    """
    size: dict[str, Any] = {"seeds": seeds, "epochs": epochs}
    runs, measured = notebook.obtain("claims", preset, compute, device, **size)
    grids, beside = notebook.competing(measured[measured.seed < FRESH_SEED], preset, **size)
    main_runs, main_rows = notebook.obtain("main_table", preset, False, device, **size)
    if preset == "first":  # its higher level is among the choices of the weight
        among, other = notebook.obtain("weight_choices", preset, False, device, **size)
        other = other[other.tau_alpha != OFF_FLOOR["tau_alpha"]]
        grids, main_rows = notebook.together(grids, other), notebook.together(main_rows, other)
        measured = notebook.together(measured, other[other.protocol.isin(_hashes(runs[0].protocol))])
        runs = list(
            dict.fromkeys([*runs, *(r for r in among if protocol_hash(r.protocol) in _hashes(runs[0].protocol))])
        )
    plain, nothing = runs[0].protocol, Evidence(measured.iloc[:0])
    judged: dict[str, Mapping[int, Ruling]] = {}
    shown: dict[str, Mapping[str, Mapping[int, Sequence[Contrast]]]] = {}
    under_first: dict[str, Mapping[int, Ruling]] = {}
    for tau_min in TAU_MINS:
        traces = [run for run in runs if wants_trace(run) and run.protocol == replace(plain, tau_min=tau_min)]
        here = Evidence(
            at(grids, tau_min, plain), notebook.traces(traces, preset), at(beside, tau_min, plain), tau_min=tau_min
        )
        chosen = selection.select(at(main_rows, tau_min, plain))
        again = _as_run(selection.fresh_runs(chosen, main_runs, verdicts.FRESH_SEEDS), tau_min)
        fresh = at(notebook.rows(again, preset, compute, device), tau_min, plain)
        before = replace(FIRST, epochs=plain.epochs, split_sizes=plain.split_sizes)
        then = [replace(run, protocol=replace(before, tau_min=run.protocol.tau_min)) for run in again]
        old = at(notebook.rows(then, preset, compute and preset == "core", device), tau_min, before)
        found_then = verdicts.contrasts(nothing, Evidence(old) if len(old) else None)
        under_first[f"tau_min {tau_min:g}"] = {
            number: ruling for number, ruling in verdicts.judge(found_then).items() if number in verdicts.ON_FRESH_SEEDS
        }
        found = verdicts.contrasts(here, Evidence(fresh) if len(fresh) else None)
        here_alone = verdicts.AT_FIRST_LEVEL if judged and preset == findings.PRESET else ()
        ruled = verdicts.judge(found)
        judged[f"tau_min {tau_min:g}"] = {
            number: ruling for number, ruling in ruled.items() if number not in here_alone
        }
        on_fresh = {n: found[n] for n in verdicts.ON_FRESH_SEEDS}
        on_grid = {
            c.number: found[c.number]
            if c.number not in on_fresh
            else restated_claims.RESTATED.get(c.number, c.contrasts)(here)
            for c in CLAIMS
            if c.number not in here_alone
        }
        shown[f"tau_min {tau_min:g}"] = {"the grid's seeds": on_grid, "fresh seeds": on_fresh}
    whole = Overview(runs, measured, judged, shown, under_first, _tried(preset, judged, size))
    return replace(whole, rulings=_untested(judged), first=_untested(under_first)) if whole.short else whole


def _tried(
    preset: str, judged: Mapping[str, Mapping[int, Ruling]], size: Mapping[str, Any]
) -> dict[str, dict[int, tuple[int, int]]]:
    """How many configurations were run for each claim, at each level where it is judged: see `Overview`."""
    there = notebook.rows_of(preset)
    known = validation_of(there)
    asked = {
        name: [run for run in notebook.runs_of(name, preset, known, **size) if run.key in there]
        for name in {*verdicts.COVERED_BY.values()}
    }
    return {
        level: {
            number: verdicts.coverage(number, (r for r in asked[name] if verdicts.rests_on(number, r, tau_min)))
            for number, name in verdicts.COVERED_BY.items()
            if number in judged[level]
        }
        for level, tau_min in zip(judged, TAU_MINS)
    }


def _untested(judged: Mapping[str, Mapping[int, Ruling]]) -> dict[str, dict[int, Ruling]]:
    """The same rulings without a verdict: short runs get none."""
    return {
        level: {number: replace(ruling, word=verdicts.NOT_TESTED) for number, ruling in found.items()}
        for level, found in judged.items()
    }


def _state(number: int, contrast: Contrast, state: str) -> str:
    """A line's state in words a reader knows, and of a missing one how many seeds it needs."""
    if state == "missing":
        return f"missing: {contrast.interval.n} of {verdicts.needs(number)} seeds"
    return {"holds": "for", "negative": "against"}.get(state, state)


def _hashes(protocol: Protocol) -> set[str]:
    """The protocol's name under each level."""
    return {protocol_hash(replace(protocol, tau_min=tau_min)) for tau_min in TAU_MINS}


def _as_run(runs: Sequence[Run], tau_min: float) -> list[Run]:
    """The runs with this tau_min for the proposed methods."""
    return [
        replace(run, protocol=replace(run.protocol, tau_min=tau_min)) if run.method in PROPOSED else run for run in runs
    ]


def answer(judged: Overview | None = None) -> findings.Sentence:
    """What the whole comes to, in three points with numbers from rows (`findings.answer`); and in a fourth the verdicts, if given."""
    points = [*findings.answer(), *([f"**The claims.** {judged.tallied}"] if judged else [])]
    return findings.Sentence("\n".join(f"- {point}" for point in points))
