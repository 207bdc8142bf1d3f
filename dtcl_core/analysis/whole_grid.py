"""Do cells outside our strips change what is selected? The paper's whole grid at sigma 50, on one seed (`experiments.core.grid`).

Claims rest on a strip of each method's grid, chosen before its rows. Here every cell of the paper's grid is trained on one seed. Where
a cell outside a method's strip has a higher validation accuracy on that seed than every cell within, it is the strip's *rival*: it is
trained on fresh seeds, and compared there with what the strip selected. One seed is a noisy judge, and a rival is the best of many, so
that to be one says little; only the fresh seeds say something. The rule was committed before its rows: a strip *fell short* if its rival
has more Test-ID accuracy than what it selected, paired by fresh seed, after Holm's correction over all rivals. Other accuracies are
told, and decide nothing. Cells that calibration may look at neither are rivals nor have any.

*The rematch* asks whether the claims about selected cells stand where cells outside the strips may compete. Of the cell that a strip
selected and its rival, which one seed of the whole grid put first, the one with the higher mean validation accuracy on the five fresh
seeds of both goes on, for every method but the oracle, to ten seeds by which nothing was chosen (`core.REMATCH_SEEDS`). On these alone
`REJUDGED` are judged as `verdicts` judges them, at each level of tau_min: claims 1 to 3 in one family, which lacks claim 5 and so is
corrected for fewer contrasts, and claim 6 by itself. At the higher level the proposed methods' whole grids were not run: what their
strips selected competes there, against baselines that had more to choose from. The baselines' rows are the same at both levels. The
verdicts on the card stay what they are, and these stand beside them, whatever they come to. When this was written, everything on the
seeds before had been seen (and with it which cells go on), and nothing on these.

*The unseen colour* is the paper's main point, and ten seeds cannot tell on it. One comparison is therefore made on thirty: of
Domain-Weighted Pairs, the paper's better method, at the level of tau_min at which it has more Test-OOD accuracy on our ten fresh seeds,
with Standard CL, which of the strips' cells has most of the baselines', there and in the paper (rivals of CL with MMD Penalty and CL with
DANN are as good as its selected cell). Both are trained in their cells of the rematch on twenty seeds more (`core.UNSEEN_SEEDS`), thirty
with those of the rematch. The lead is *shown* if its 95 % interval lies above zero; the reported one, taken as exact, is *excluded* if the
interval lies below it. By the spread on the seeds before, the interval reaches 0.03 to either side: it would show the reported lead, were
it there, in three of five cases, and exclude it, were there none, as often; *open* means that thirty seeds cannot tell. To beat Standard CL
is less than to beat every baseline. Accuracies there are bimodal over seeds, so that intervals cover less than they say (`intervals`).
At first both proposed methods were to be compared so at both levels, by the training that there was time for; before any of the twenty
seeds was trained it was seen that so many runs would take too long, and would leave most of the four open. Half of the rematch's rows lay
in the store by then, thirteen of this comparison's among them, and had not been looked at; the rematch was, before the twenty were
there. The twenty, which alone came after all that, are therefore told by themselves beside the thirty, and all with the five seeds that
chose the cells, on which weighted pairs were behind; the rule is about the thirty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..config import HYPERPARAMETERS, Run
from ..experiments import core
from ..methods import ALL_METHODS
from . import reported, tau_min_levels, verdicts
from .contrasts import Evidence
from .intervals import mean_interval, p_value
from .selection import SELECTION_FRACTION

METRICS = ("test_id", "test_ood", "validation")
DECIDING, UNSEEN = "test_id", "test_ood"
WITHIN, OUTSIDE = "strip", "outside"
METHODS = (*core.PLAIN, *core.PENALISED, *core.PROPOSED)
REJUDGED = (1, 2, 3, 6)  # claims about selected cells, but that the oracle bounds them


def cells(frame: pd.DataFrame, runs: Iterable[Run]) -> pd.DataFrame:
    """Every configuration of the whole grid that has a row, and where it is.

    Args:
        frame: rows of the experiment `whole_grid`, as from `results.Store.load`.
        runs: its runs, at one level of tau_min.

    Returns:
        A line a configuration: method, the hyperparameters, place ("strip" or "outside"), calibrated (whether calibration may look at
        it), and its accuracies at 1 % of the labels on the seed of the grid; those of a run that diverged are missing.
    """
    keys = {run.key for run in runs if run.seed in core.WHOLE_SEEDS}
    rows = frame[frame.key.isin(keys) & (frame.label_fraction == SELECTION_FRACTION)]
    found = rows[["method", *HYPERPARAMETERS, *METRICS, "d_test_id"]].reset_index(drop=True)
    looked = [
        method in core.PROPOSED and core.is_calibrated(alpha, beta)
        for method, alpha, beta in zip(found.method, found.tau_alpha, found.tau_beta)
    ]
    return found.assign(place=_places(found), calibrated=np.array(looked, dtype=bool))


def ahead(cells: pd.DataFrame) -> pd.DataFrame:
    """The cell of highest validation accuracy within each method's strip and outside it, of those that calibration may not look at.

    Args:
        cells: as from `cells`.

    Returns:
        Its lines, the strip's before the other; of methods alone whose whole grid is there.
    """
    there = cells.groupby("method").size()
    whole = [method for method in METHODS if there.get(method, 0) == len(core.grid(method))]
    ranked = cells[~cells.calibrated & cells.method.isin(whole)].sort_values(
        ["validation", *HYPERPARAMETERS], ascending=[False, True, True, True], kind="stable"
    )
    first = ranked.drop_duplicates(["method", "place"])
    places = [(METHODS.index(line.method), line.place != WITHIN) for line in first.itertuples()]
    return first.iloc[sorted(range(len(first)), key=places.__getitem__)].reset_index(drop=True)


def rivals(frame: pd.DataFrame, runs: Iterable[Run]) -> pd.DataFrame:
    """Each rival beside what its method's strip selected, on the fresh seeds that both have.

    Args:
        frame, runs: as in `cells`.

    Returns:
        A line a method and accuracy: method, metric, selected and rival (mean accuracies), difference with a 95 % interval low and
        high over n seeds, and short ("yes" or "no" by the rule; "–" where it has nothing to say). Methods without rows are left out.
    """
    levels = (None, core.TAU_MINS[0])
    fresh = [run for run in runs if run.seed in core.FRESH]
    keys = {run.key for run in fresh if (run.protocol.tau_min if run.method in core.PROPOSED else None) in levels}
    rows = frame[frame.key.isin(keys) & (frame.label_fraction == SELECTION_FRACTION) & (frame.status == "ok")]
    rows = rows.assign(place=_places(rows))
    by = {cell: part.set_index("seed") for cell, part in rows.groupby(["method", "place"])}
    lines: list[list[Any]] = []
    tested: list[tuple[int, float]] = []
    for method in METHODS:
        if (method, WITHIN) not in by or (method, OUTSIDE) not in by:
            continue
        for metric in METRICS:
            own, other = by[method, WITHIN][metric], by[method, OUTSIDE][metric]
            more = (other - own).dropna()
            if metric == DECIDING and len(more) > 1:
                tested.append((len(lines), p_value(more.tolist())))
            lines.append(
                [method, metric, own[more.index].mean(), other[more.index].mean(), *mean_interval(more.tolist()), "–"]
            )
    for (place, _), rejected in zip(tested, verdicts.holm([p for _, p in tested])):
        lines[place][-1] = "yes" if rejected and lines[place][4] > 0 else "no"
    return pd.DataFrame(
        lines, columns=["method", "metric", "selected", "rival", "difference", "low", "high", "n", "short"]
    )


def rematch_evidence(frame: pd.DataFrame, runs: Sequence[Run]) -> dict[float, Evidence]:
    """The rows of the rematch as claims see them, by level of tau_min; none before all of its runs have rows.

    Args:
        frame, runs: as in `cells`, at every level of tau_min.
    """
    entries = [entry for entry in core.ENTRIES if not ALL_METHODS[entry.method].oracle]
    asked = _entrants(runs, entries, core.REMATCH_SEEDS)
    rows = frame[frame.key.isin(asked)]
    if not asked or rows.key.nunique() < len(asked):
        return {}
    plain = next(run.protocol for run in runs if run.method == core.STANDARD)
    return {level: Evidence(tau_min_levels.at(rows, level, plain), tau_min=level) for level in core.TAU_MINS}


def rematch(frame: pd.DataFrame, runs: Sequence[Run]) -> dict[float, dict[int, verdicts.Ruling]]:
    """The claims about selected cells, judged on the seeds of the rematch alone, by level of tau_min and the claim's number.

    Args:
        frame, runs: as in `cells`, at every level of tau_min.

    Returns:
        Nothing before all of its runs have rows. A seed on which a run diverged is missing from its contrasts, and leaves a claim
        untested unless what is there contradicts it.
    """
    return {  # claims that are judged again are judged on fresh seeds, and look at no other evidence
        level: verdicts.judge(verdicts.contrasts(evidence, evidence, REJUDGED, core.REMATCH_SEEDS))
        for level, evidence in rematch_evidence(frame, runs).items()
    }


def rematched_leads(rulings: Mapping[float, Mapping[int, verdicts.Ruling]]) -> pd.DataFrame:
    """What claim 1 is judged by in a rematch: the proposed methods' leads on the training colours.

    Args:
        rulings: as from `rematch`.

    Returns:
        A line a conjunct, the smallest lead first: method, over (the baseline), tau_min, lead on Test-ID with a 95 % interval low and
        high over n seeds, and "conjunct" ("holds", "negative", "open" or "missing").
    """
    lines = [
        (contrast.method, contrast.baseline, level, *contrast.interval, state)
        for level, found in rulings.items()
        for contrast, state in found[1].conjuncts
    ]
    names = ["method", "over", "tau_min", "lead", "low", "high", "n", "conjunct"]
    return pd.DataFrame(lines, columns=names).sort_values("lead", kind="stable", ignore_index=True)


def unseen_by_seed(
    frame: pd.DataFrame, runs: Iterable[Run], label_fraction: float = SELECTION_FRACTION
) -> pd.DataFrame:
    """Test-OOD of Standard CL and of Domain-Weighted Pairs in their cells of the rematch, on the thirty seeds and the five that chose.

    Args:
        frame, runs: as in `cells`, at every level of tau_min.
        label_fraction: of the labels, 0 to 1.

    Returns:
        A line a seed (the index), a column a method. None before every run of the thirty has a row; a seed on which either diverged
        is left out.
    """
    asked = _entrants(runs, core.UNSEEN_ENTRIES, (*core.REMATCH_SEEDS, *core.UNSEEN_SEEDS))
    names = [entry.method for entry in core.UNSEEN_ENTRIES]
    if not asked or frame.key[frame.key.isin(asked)].nunique() < len(asked):
        return pd.DataFrame(columns=names, index=pd.Index([], name="seed"), dtype=float)
    cells = {_cell(run) for run in runs if run.key in asked}
    chose = {run.key for run in runs if run.seed in core.RIVAL_SEEDS and _cell(run) in cells}
    rows = frame[frame.key.isin(asked | chose) & (frame.label_fraction == label_fraction) & (frame.status == "ok")]
    return rows.pivot(index="seed", columns="method", values=UNSEEN)[names].dropna()


def unseen(frame: pd.DataFrame, runs: Iterable[Run]) -> pd.DataFrame:
    """What Domain-Weighted Pairs have over Standard CL on the unseen colour, in their cells of the rematch, with 1 % of the labels.

    Args:
        frame, runs: as in `cells`, at every level of tau_min.

    Returns:
        Three lines, of all thirty seeds, of the last twenty, and of all with the five that chose the cells: seeds, method, tau_min,
        standard and weighted (mean Test-OOD), lead with a 95 % interval low and high over n seeds, detectable (the lead that these
        seeds would show in four of five cases), reported (the paper's), shown and excluded ("yes", or "open" where the seeds cannot
        tell). None before every run has a row.
    """
    names = ["seeds", "method", "tau_min", "standard", "weighted", "lead", "low", "high"]
    columns = [*names, "n", "detectable", "reported", "shown", "excluded"]
    every = unseen_by_seed(frame, runs)
    if every.empty:
        return pd.DataFrame(columns=columns)
    plain, weighted = core.UNSEEN_ENTRIES
    in_paper = reported.main_comparison().query("metric == @UNSEEN").set_index("method").value
    claimed = in_paper[weighted.method] - in_paper[plain.method]
    of_seeds = {
        "all": every[every.index >= core.REMATCH_SEEDS.start],
        "the last twenty": every[every.index.isin(core.UNSEEN_SEEDS)],
        "with the five that chose": every,
    }
    lines = []
    for seeds, by in of_seeds.items():
        lead = mean_interval((by[weighted.method] - by[plain.method]).tolist())
        told = ["yes" if yes else "open" for yes in (lead.low > 0, lead.high < claimed)]
        means = by[[plain.method, weighted.method]].mean()
        of = (seeds, weighted.method, weighted.tau_min)
        lines.append((*of, *means, *lead, verdicts.detectable(lead), claimed, *told))
    return pd.DataFrame(lines, columns=columns)


def _entrants(runs: Iterable[Run], entries: Sequence[core.Entry], seeds: Sequence[int]) -> set[str]:
    """The keys of the runs of some entries on some seeds; none unless each entry is there on all seeds."""
    asked = {run.key for run in runs if run.seed in seeds and core.entry_of(run) in entries}
    return asked if len(asked) == len(entries) * len(seeds) else set()


def _cell(run: Run) -> tuple[object, ...]:
    """What a run is but for its seed."""
    return core.entry_of(run), *(getattr(run, name) for name in HYPERPARAMETERS)


def _places(rows: pd.DataFrame) -> list[str]:
    """Whether each row's cell lies in the strip of its method."""
    cells = zip(rows.method, *(rows[name] for name in HYPERPARAMETERS))
    return [WITHIN if core.is_in_strip(*cell) else OUTSIDE for cell in cells]
