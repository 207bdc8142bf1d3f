"""Every claim judged under every level of tau_min, from the stored rows: what the card and the forest plot show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from ..analysis import restated, rule, selection, weight_effects
from ..analysis.claims import CLAIMS
from ..analysis.contrasts import Contrast, Evidence
from ..analysis.rule import Ruling
from ..config import Run
from ..experiments import readings, wants_trace
from . import card, findings, notebook

RAISED = "tau_min 0.05"  # of `experiments.weight_choices.CHOICES`


@dataclass(frozen=True)
class Overview:
    """What was judged, and from what.

    Attributes:
        runs: what is asked for.
        measured: the rows there are.
        rulings: by the level of tau_min, then by the claim's number.
        contrasts: by the name of the seeds, then by the claim's number; those of the first level.
    """

    runs: Sequence[Run]
    measured: pd.DataFrame
    rulings: Mapping[str, Mapping[int, Ruling]]
    contrasts: Mapping[str, Mapping[int, Sequence[Contrast]]]

    @property
    def missing(self) -> str:
        """How many of the runs are there, as a line; empty if all are."""
        there, asked = self.measured.key.nunique(), len({run.key for run in self.runs})
        return "" if there == asked else f"not yet run: {asked - there} of {asked}"


def overview(preset: str = "first", device: str = "auto") -> Overview:
    """All claims by `analysis.rule`, from what is stored; nothing is trained."""
    runs, measured = notebook.obtain("claims", preset, False, device)
    grids, beside = notebook.competing(measured, preset)
    traces = notebook.traces([run for run in runs if wants_trace(run)], preset)
    main_runs, main_rows = notebook.obtain("main_table", preset, False, device)
    _, fresh = notebook.confirm(selection.select(main_rows), main_runs, preset, False, device, rule.FRESH_SEEDS)
    among, beyond = notebook.obtain("weight_choices", preset, False, device)
    plain = Evidence(grids, traces, beside)
    raised = Evidence(weight_effects.as_if(grids, beyond, among, RAISED))
    judged = {
        f"tau_min {readings.FIRST.tau_min:g}": rule.contrasts(plain, Evidence(fresh)),
        RAISED: rule.contrasts(raised),  # no selected cell was run on fresh seeds there
    }
    on_grid = {claim.number: restated.RESTATED.get(claim.number, claim.contrasts)(plain) for claim in CLAIMS}
    on_fresh = rule.contrasts(plain, Evidence(fresh), rule.ON_FRESH_SEEDS)
    return Overview(
        runs,
        measured,
        {level: rule.judge(found) for level, found in judged.items()},
        {"the grid's seeds": on_grid, "fresh seeds": on_fresh},
    )


def answer(judged: Overview) -> list[str]:
    """What the whole comes to, in three sentences, each with its numbers from rows.

    The first two are findings of their own (`findings.FINDINGS`), and fail a test when the rows no longer bear them.
    """
    lines = [findings.FINDINGS[name].told(findings.load("main_table")) for name in ("lead", "unseen")]
    tallies = [f"with {level} {card.tally(found)}" for level, found in judged.rulings.items()]
    lines.append(f"The fifteen claims: {'; '.join([*tallies, *filter(None, [judged.missing])])}.")
    return lines
