"""What the appendix on the earlier rule of verdicts shows: claims judged by `first_verdicts`, and how far that hangs on choices."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from ..analysis import claims, first_verdicts, reported, selection, weight_effects
from ..analysis.contrasts import BASELINES, MIN_SEEDS, PROPOSED, SHORT, Contrast
from ..analysis.first_verdicts import FULL_SEEDS
from ..analysis.intervals import paired_difference
from ..config import HYPERPARAMETERS, Run
from ..data import LABEL_FRACTIONS
from ..experiments import wants_trace, weight_choices
from . import findings, notebook, tables

FINDING = findings.Finding(
    "2026-11-25",
    "by the earlier rule, on the rows of the first reading, no claim about a lead of the proposed methods is reproduced, and half of all claims"
    " could not be judged.\n"
    "Of {claims} claims {untested} are not tested, {reproduced} reproduced (those on colour jitter, converging temperatures and the gradient's"
    " formula), {refuted} not reproduced (that leads are largest where labels are few), and {open} open.",
    lambda rows: {},
    lambda x: x["which"] == [4, 11, 12] and x["not"] == [6] and 0.4 * x["claims"] < x["untested"] < 0.6 * x["claims"],
)
ON_SELECTED = range(1, 7)  # the claims about selected cells, which can be judged on other seeds and with other choices


class EarlierRule:
    """The claims as the earlier rule judges them, on the rows of a preset.

    Args:
        preset, compute, device: see `notebook.obtain`, which checks them before any work.
        seeds, epochs: None takes the preset's.

    Attributes:
        runs: what is asked for.
        grids: rows whose cells compete in a selection.
        judged: the contrasts of each claim.
    """

    def __init__(
        self,
        preset: str,
        compute: bool = False,
        device: str = "auto",
        seeds: int | None = None,
        epochs: int | None = None,
    ):
        self.preset, self.device = preset, device
        self.size: dict[str, Any] = {"seeds": seeds, "epochs": epochs}
        self.runs, measured = notebook.obtain("claims", preset, compute, device, **self.size)
        self.grids, beside = notebook.competing(measured, preset, **self.size)
        traces = notebook.traces([run for run in self.runs if wants_trace(run)], preset)
        self.judged = claims.judge(claims.Evidence(self.grids, traces, beside))

    @property
    def epochs(self) -> int:
        """Of each run."""
        return self.runs[0].protocol.epochs

    @cached_property
    def fresh(self) -> tuple[list[Run], pd.DataFrame]:
        """The runs of the main table's selected cells on fresh seeds, and the rows that exist of them."""
        runs, rows = notebook.obtain("main_table", self.preset, False, self.device, **self.size)
        seeds = min(5, len({run.seed for run in runs}))
        return notebook.confirm(selection.select(rows), runs, self.preset, False, self.device, seeds=seeds)

    @cached_property
    def on_fresh(self) -> Mapping[int, Sequence[Contrast]]:
        """Claims 1 to 6 on fresh seeds."""
        return claims.judge(claims.Evidence(self.fresh[1]), ON_SELECTED)

    def asked(self) -> pd.DataFrame:
        """What was asked of all experiments, see `tables.asked_of_all`."""
        return tables.asked_of_all(self.preset, **self.size)

    def provenance(self) -> pd.DataFrame:
        """How many runs come from which device, precision, torch and code, see `tables.provenance`."""
        return tables.provenance(self.grids)

    def verdicts(self) -> pd.DataFrame:
        """A line a claim, see `first_verdicts.summary`."""
        return first_verdicts.summary(self.judged, self.epochs)

    def finding(self) -> findings.Sentence:
        """What the appendix opens with; for other rows than those that it was written about, how many claims have which verdict.

        Raises:
            ValueError: if the verdicts do not bear it.
        """
        if self.preset != "first" or any(self.size.values()):
            return findings.Sentence(self.counted().replace("\n", "; "))
        words = self.verdicts().set_index("claim").verdict.str.partition(":")[0]
        which = {word: sorted(words.index[words == word]) for word in set(words)}
        numbers = {
            "claims": len(words), "untested": len(which.get("not tested", [])), "open": len(which.get("open", [])),
            "which": which.get("reproduced", []), "reproduced": len(which.get("reproduced", [])),
            "not": which.get("not reproduced", []), "refuted": len(which.get("not reproduced", [])),
        }  # fmt: skip
        return dataclasses.replace(FINDING, numbers=lambda rows: numbers).dated(findings.NO_ROWS)

    def counted(self) -> str:
        """How many claims have which verdict, see `first_verdicts.counted`."""
        return first_verdicts.counted(self.judged, self.epochs)

    def spoken(self) -> str:
        """The contrasts that speak, with a star where they speak alike on fresh seeds; see `first_verdicts.spoken`."""
        return first_verdicts.spoken(self.judged, self.on_fresh)

    def as_first_written(self) -> str:
        """What the rule as first committed would say otherwise, see `first_verdicts.as_first_written`."""
        return first_verdicts.as_first_written(self.judged, self.epochs)

    def held_out(self) -> str:
        """What claims 1 to 6 say otherwise where no seed scores its own choice, and which seeds then score which other cell."""
        other, plain = claims.Evidence(self.grids, held_out=True), claims.Evidence(self.grids)
        names = ("grid", "held out")
        told = first_verdicts.otherwise(self.judged, claims.judge(other, ON_SELECTED), names, self.epochs)
        return "\n".join([told, *scored_otherwise(plain.chosen, other.chosen)])

    def on_fresh_seeds(self) -> None:
        """Display how many fresh runs there are, what claims 1 to 6 say otherwise on them, and how many contrasts speak alike."""
        asked, found = self.fresh
        print(counted_fresh(asked, found))
        if len(found):
            print(first_verdicts.otherwise(self.judged, self.on_fresh, ("grid", "fresh"), self.epochs))
            table = first_verdicts.agreement(self.judged, self.on_fresh)
            notebook.show(table) if len(table) else print(f"No contrast has {MIN_SEEDS} fresh seeds.")

    @cached_property
    def _weights(self) -> tuple[list[Run], pd.DataFrame]:
        return notebook.obtain("weight_choices", self.preset, False, self.device, **self.size)

    def one_more_cell(self) -> str:
        """What claims 1 to 6 say otherwise were one more cell of a proposed method, above the floor, among those tried."""
        runs, rows = self._weights
        parts = []
        for method in PROPOSED:
            off = {r.key for r in runs if r.method == method and r.tau_alpha == weight_choices.OFF_FLOOR["tau_alpha"]}
            added = rows[rows.key.isin(off)]
            same = self.grids[self.grids.seed.isin(added.seed)]
            named, both = f"{tables.title(method)} with one more cell", notebook.together(same, added)
            parts.append(otherwise(same, both, named, self.epochs, [method]))
        return "\n".join(parts)

    def other_weights(self) -> str:
        """What claims 1 to 6 say otherwise under each other choice of `weight_choices`, on the seeds that have it."""
        runs, rows = self._weights
        plain, parts = weight_effects.as_if(self.grids, rows, runs, "default"), []
        for choice in list(weight_choices.CHOICES)[1:]:
            there = weight_effects.as_if(self.grids, rows, runs, choice)
            same = plain[plain.seed.isin(there.seed)]
            parts.append(otherwise(same, there, choice, self.epochs))
        return "\n".join(parts)

    def power(self) -> pd.DataFrame:
        """What five seeds can see of claim 1, see `power`."""
        return power(self.judged[1])

    def every_contrast(self) -> None:
        """Display each claim with all its contrasts."""
        for claim in claims.CLAIMS:
            title = f"Claim {claim.number} ({claim.source}): {claim.says}"
            notebook.show(first_verdicts.details(self.judged[claim.number]), title=title)


def scored_otherwise(plain: pd.DataFrame, other: pd.DataFrame) -> list[str]:
    """The seeds that score another cell than the selected one, a line each.

    Args:
        plain: rows of the selected cells.
        other: rows of the cells that the other seeds select (`selection.held_out`).
    """
    scored = other[~other.key.isin(plain.key) & (other.sigma == 50.0) & (other.discriminator != "batch")]
    scored = scored[scored.label_fraction == selection.SELECTION_FRACTION]
    cells = scored[list(HYPERPARAMETERS)].itertuples(index=False)
    return [
        f"Seed {run.seed} scores {tables.title(run.method)} with {tables.cell_name(cell)}."
        for run, cell in zip(scored.itertuples(), cells)
    ]


def counted_fresh(asked: Sequence[Run], found: pd.DataFrame) -> str:
    """How many of the fresh runs are stored, and of how many seeds the method has that has the fewest."""
    seeds = found.groupby("method").seed.nunique().reindex(list({run.method for run in asked}), fill_value=0)
    fewest = int(seeds.min()) if len(seeds) else 0
    return f"{found.key.nunique()} of {len(asked)} fresh runs are stored, {fewest} or more a method."


def power(contrasts: Sequence[Contrast]) -> pd.DataFrame:
    """How far an interval of five seeds reaches, by the spread over seeds of the differences that a claim is about.

    Args:
        contrasts: of claim 1.

    Returns:
        Columns: accuracy, contrasts (how many have `MIN_SEEDS` seeds), spread (root mean square over these of the deviation over
        seeds), reach of five seeds (half of a 95 % t interval), and the paper's difference (the mean of the proposed methods less
        the best baseline).
    """
    paper = reported.main_comparison().pivot(index="method", columns="metric", values="value")
    lines = []
    for metric in ("test_ood", "test_id"):
        here = [c.interval for c in contrasts if c.metric == metric and c.interval.n >= MIN_SEEDS]
        spreads = [(i.high - i.low) / 2 * i.n**0.5 / stats.t.ppf(0.975, i.n - 1) for i in here]
        claimed = paper.loc[list(PROPOSED), metric].mean() - paper.loc[list(BASELINES), metric].max()
        spread = np.mean(np.square(spreads)) ** 0.5 if spreads else np.nan
        reach = spread * stats.t.ppf(0.975, FULL_SEEDS - 1) / FULL_SEEDS**0.5
        lines.append((SHORT[metric], len(here), spread, reach, claimed))
    return pd.DataFrame(
        lines, columns=["accuracy", "contrasts", "spread", "reach of five seeds", "the paper's difference"]
    )


def leads(by: Mapping[str, claims.Evidence], methods: Sequence[str] = PROPOSED) -> str:
    """What proposed methods have over the best baseline on Test-ID, as several bodies of evidence have it, in lines."""
    lines = []
    for method in methods:
        lines.append(f"{tables.title(method)} over the best baseline, Test-ID:")
        for name, e in by.items():
            for share in LABEL_FRACTIONS:
                mine, best = e.selected(method, "test_id", fraction=share), e.best_baseline("test_id", fraction=share)
                gain = paired_difference(mine, best)
                lines.append(f"    {name:<16}{100 * share:>3g} % of labels{str(gain):>26}  n = {gain.n}")
    return "\n".join([*lines, ""])


def otherwise(
    plain: pd.DataFrame, other: pd.DataFrame, name: str, epochs: int, methods: Sequence[str] = PROPOSED
) -> str:
    """Claims 1 to 6 by the earlier rule, as two sets of rows of as many seeds have them, and the leads, in lines.

    Args:
        plain, other: rows; those of `other` were made by another choice.
        name: of that choice.
        epochs: of the runs.
        methods: whose cells and leads are shown.
    """
    seen = other.seed.nunique()
    lines = [f"{name}: {seen} seeds" if seen >= MIN_SEEDS else f"{name}: not tested, {seen} of {MIN_SEEDS} seeds"]
    if seen >= MIN_SEEDS:
        both = {"default": claims.Evidence(plain), "other": claims.Evidence(other)}
        first, second = (claims.judge(e, ON_SELECTED) for e in both.values())
        lines.append(first_verdicts.otherwise(first, second, ("default", "other"), epochs))
        for cell in selection.select(other[other.method.isin(methods) & (other.sigma == 50.0)]).itertuples():
            if cell.discriminator == "global":
                picked = f"{cell.tau_alpha:g}/{cell.tau_beta:g}"
                lines.append(f"{tables.title(cell.method)}: validation selects {picked} then.")
        lines.append(leads(both, methods))
    return "\n".join(lines)
