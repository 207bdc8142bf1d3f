"""The numbers of findings about the paper's comparison: its leads, by share of labels, spread of colours, temperature, and cell."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ...analysis import contrasts, operating_characteristics, reported, restated_claims, selection, verdicts, whole_grid
from ...analysis.claims import HIGH
from ...config import HYPERPARAMETERS, Run
from ...experiments import core
from .. import levels, notebook, tables
from .finding import FRACTIONS, LEVELS, METHODS, PRESET, Numbers, Rows, is_looked_at, named, obtained, short


def comparison(rows: Rows) -> Numbers:
    """On fresh seeds, under each level of tau_min: what the proposed methods have on Test-ID and D-Test-ID, their leads over the best
    baseline, over the standard loss and over whichever baseline is hardest to tell apart, and on the seeds that selected; on
    Test-OOD how far a lead's interval reaches, and the lead that the paper reports."""
    numbers: dict[str, Any] = {f"level_{name}": level for name, level in LEVELS.items()}
    reaches, counts = [], []
    for name, level in LEVELS.items():
        e, before = rows.at(level).evidence(fresh=True), rows.at(level).evidence()
        for method in METHODS:
            mine, place = e.selected(method, "test_id"), f"{short(method)}_{name}"
            seen = e.selected(method, "test_ood")
            numbers |= {
                place: mine.mean(),
                f"{place}_green": seen.mean(),
                f"{place}_domain": e.selected(method, "d_test_id").mean(),
            }
            others = {
                "lead": mine - e.best_baseline("test_id"),
                "gain": mine - e.selected("standard", "test_id"),
                "unseen": seen - e.best_baseline("test_ood"),
                "unseen_gain": seen - e.selected("standard", "test_ood"),
                "before": before.selected(method, "test_id") - before.best_baseline("test_id"),
            }
            for what, difference in others.items():
                interval = contrasts.mean_interval(difference.dropna().tolist())
                numbers |= named(f"{place}_{what}", pd.Series(interval._asdict()))
                numbers[f"{place}_{what}_reach"] = (interval.high - interval.low) / 2
                if what in ("lead", "unseen"):
                    counts.append(interval.n)
                if what == "unseen":
                    reaches.append(numbers[f"{place}_{what}_reach"])
            each = [
                contrasts.mean_interval((mine - e.selected(b, "test_id")).dropna().tolist())
                for b in contrasts.BASELINES
            ]
            numbers[f"{place}_least"] = min(interval.low for interval in each)
    plain = rows.at(LEVELS["low"]).evidence(fresh=True)
    means = {m: plain.selected(m, "test_id").mean() for m in contrasts.BASELINES}
    hidden = {m: plain.selected(m, "d_test_id").mean() for m in contrasts.BASELINES}
    first = max(means, key=lambda name: means[name])
    return (
        numbers
        | rematched()
        | {
            "best": means[first],
            "baseline": tables.title(first),
            "standard": means["standard"],
            "standard_green": plain.selected("standard", "test_ood").mean(),
            "standard_domain": hidden["standard"],
            "least_domain": min(hidden[m] for m in contrasts.USING_DOMAINS),
            "most_domain": max(hidden[m] for m in contrasts.USING_DOMAINS),
            "reach": max(reaches),
            "reach_least": min(reaches),
            "n": min(counts),
            "seeds": rows.measured.seed[rows.measured.seed < core.FRESH_SEED].nunique(),
            "claimed": _claimed(),
        }
    )


def rematched() -> dict[str, Any]:
    """The rematch (`whole_grid.rematch`): each proposed method's lead on Test-ID over the baseline nearest to it, whether it leads all
    of them, and the verdicts, by level; leads over the nearest baseline and Standard CL by share of labels, on Test-OOD too; and
    `_on_thirty`."""
    runs, measured = obtained("whole_grid", PRESET, every=True)
    rulings = whole_grid.rematch(measured, runs)
    found = whole_grid.rematched_leads(rulings)
    numbers: dict[str, Any] = {"again_n": int(found.n.min()) if len(found) else 0, "few": FRACTIONS["few"]}
    numbers["dann_open"] = any(
        c.baseline == "dann" and state == "open" for r in rulings.values() for c, state in r[3].conjuncts
    )
    for name, level in LEVELS.items():
        for method in METHODS:
            mine, place = found[(found.method == method) & (found.tau_min == level)], f"{short(method)}_{name}_again"
            of = mine.iloc[0] if len(mine) else found.reindex([0]).iloc[0]  # the smallest lead comes first
            numbers |= named(place, of.rename({"lead": "mean"})) | {f"{place}_reach": (of.high - of.low) / 2}
            numbers[f"{place}_leads"] = len(mine) > 0 and bool(mine.conjunct.eq("holds").all())
            numbers[f"{place}_whose"] = tables.title(of.over) if len(mine) else ""
        words = rulings.get(level, {})
        numbers |= {
            f"again_{name}_{n}": words[n].word if n in words else verdicts.NOT_TESTED for n in whole_grid.REJUDGED
        }
    seen = whole_grid.rematch_evidence(measured, runs)
    for (name, level), method in itertools.product(LEVELS.items(), METHODS):
        for share, fraction in FRACTIONS.items() if level in seen else ():
            for what, metric in (("", "test_id"), ("_unseen", "test_ood")):
                over = {b: _lead(seen[level], method, b, metric, fraction) for b in contrasts.BASELINES}
                nearest = min(over, key=lambda b: over[b].mean)
                place = f"{short(method)}_{name}_again{what}_{share}"
                numbers |= named(place, pd.Series(over[nearest]._asdict()))
                numbers |= {
                    f"{place}_whose": tables.title(nearest),
                    f"{place}_least": min(i.low for i in over.values()),
                }
                numbers |= named(f"{place}_plain", pd.Series(over[core.STANDARD]._asdict()))
    return numbers | _on_thirty(runs, measured)


def _on_thirty(runs: Sequence[Run], measured: pd.DataFrame) -> dict[str, Any]:
    """On the unseen colour, weighted pairs over Standard CL on thirty seeds (`whole_grid.unseen`): by share of labels, on the last
    twenty, without the two of these that favour them most, and on the five seeds that chose their cell."""
    numbers: dict[str, Any] = {}
    in_paper = reported.main_comparison().query("metric == 'test_ood'").set_index("method").value
    numbers["paper_plain"] = in_paper[core.STANDARD]
    for share, fraction in FRACTIONS.items():
        by = whole_grid.unseen_by_seed(measured, runs, fraction)
        lead = (by.dw_pairs - by[core.STANDARD])[by.index >= core.REMATCH_SEEDS.start]
        numbers |= named(f"thirty_{share}", pd.Series(contrasts.mean_interval(lead.tolist())._asdict()))
        if share == "few":
            last = lead[lead.index.isin(core.UNSEEN_SEEDS)].sort_values().iloc[:-2]
            numbers |= named("trimmed", pd.Series(contrasts.mean_interval(last.tolist())._asdict()))
            chose = (by.dw_pairs - by[core.STANDARD])[by.index < core.REMATCH_SEEDS.start]
            numbers |= {"chose": chose.mean(), "chose_n": len(chose)}
    told = whole_grid.unseen(measured, runs)
    of = (told if len(told) else told.reindex([0])).iloc[0].rename({"lead": "mean"})
    numbers |= named("thirty", of) | {"thirty_reach": (of.high - of.low) / 2, "thirty_n": of.n}
    numbers |= {f"thirty_{name}": of[name] for name in ("reported", "shown", "excluded", "standard", "weighted")}
    by = (
        told.set_index("seeds")
        .rename(columns={"lead": "mean"})
        .reindex(["the last twenty", "with the five that chose"])
    )
    numbers |= named("twenty", by.iloc[0]) | named("more", by.iloc[1])
    numbers |= {"twenty_reach": (by.high - by.low).iloc[0] / 2, "twenty_n": by.n.iloc[0], "more_n": by.n.iloc[1]}
    return numbers


def _lead(e: contrasts.Evidence, method: str, baseline: str, metric: str, fraction: float) -> contrasts.Interval:
    """What a method's selected cell has over a baseline's."""
    difference = e.selected(method, metric, fraction=fraction) - e.selected(baseline, metric, fraction=fraction)
    return contrasts.mean_interval(difference.dropna().tolist())


def _claimed() -> float:
    """By how much the paper's better method leads the best baseline on Test-OOD there."""
    in_paper = reported.main_comparison().query("metric == 'test_ood'").set_index("method").value
    return in_paper[list(METHODS)].max() - in_paper[list(contrasts.BASELINES)].max()


def leads(rows: Rows) -> Numbers:
    """Each proposed method's lead over the best baseline on Test-ID and fresh seeds, by level of tau_min and label fraction."""
    numbers: dict[str, Any] = {}
    for name, level in LEVELS.items():
        e = rows.at(level).evidence(fresh=True)
        numbers[f"level_{name}"] = level
        for share, f in FRACTIONS.items():
            best = e.best_baseline("test_id", fraction=f)
            for method in METHODS:
                lead = (e.selected(method, "test_id", fraction=f) - best).dropna().tolist()
                interval = contrasts.mean_interval(lead)
                numbers |= named(f"{short(method)}_{name}_{share}", pd.Series(interval._asdict()))
                numbers["n"] = interval.n
    return numbers


def by_spread(rows: Rows) -> Numbers:
    """Test-ID at the narrowest and the widest spread of colours, and each proposed method's lead there, by level: over the best baseline, as
    the other seeds pick it, and the least of those over each."""
    ends = {"narrow": min(core.SIGMAS), "wide": max(core.SIGMAS)}
    numbers: dict[str, Any] = {f"sigma_{end}": sigma for end, sigma in ends.items()}
    counts = []
    for name, level in LEVELS.items():
        numbers[f"level_{name}"] = level
        e = rows.at(level).evidence()
        for end, sigma in ends.items():
            best = e.best_baseline("test_id", sigma)
            numbers[f"standard_{end}"] = e.selected("standard", "test_id", sigma).mean()
            for method in METHODS:
                mine = e.selected(method, "test_id", sigma)
                interval = contrasts.mean_interval((mine - best).dropna().tolist())
                numbers[f"{short(method)}_{name}_{end}"] = mine.mean()
                numbers |= named(f"{short(method)}_{name}_{end}_lead", pd.Series(interval._asdict()))
                counts.append(interval.n)
                seen = e.selected(method, "test_ood", sigma) - e.best_baseline("test_ood", sigma)
                unseen = contrasts.mean_interval(seen.dropna().tolist())
                numbers |= named(f"{short(method)}_{name}_{end}_unseen", pd.Series(unseen._asdict()))
                for metric, what in {"test_id": "each", "test_ood": "unseen_each"}.items():
                    each = [
                        contrasts.mean_interval(
                            (e.selected(method, metric, sigma) - e.selected(b, metric, sigma)).dropna().tolist()
                        )
                        for b in contrasts.BASELINES
                    ]
                    place = f"{short(method)}_{name}_{end}_{what}"
                    numbers |= {f"{place}_mean": min(i.mean for i in each), f"{place}_low": min(i.low for i in each)}
    behind = [numbers[f"{short(method)}_{name}_narrow_lead_high"] < 0 for method in METHODS for name in LEVELS]
    return numbers | {"n": min(counts), "behind": sum(behind), "cases": len(behind)}


def by_temperature(rows: Rows) -> Numbers:
    """Mean Test-ID at both ends of tau_alpha and where it is highest, by method and level of tau_min; where it is in the paper; and how
    much more it falls from one end to the other under the lower level, paired by seed.

    Means are over the tau_beta that were tried at every tau_alpha of the strip. Cells that calibration may look at are left out.
    """
    numbers: dict[str, Any] = {"n": rows.measured.seed.nunique(), "lowest": min(core.TAUS), "highest": max(core.TAUS)}
    numbers["betas"] = " and ".join(f"{beta:g}" for beta in core.PLAIN_BETAS)
    in_paper = levels.along_temperature_in_paper(reported.temperature_tables(), core.PLAIN_BETAS, core.TAUS)
    in_paper = in_paper[in_paper.metric == "test_id"]
    share = selection.SELECTION_FRACTION
    here = levels.along_temperature(rows.runs, rows.measured, ["test_id"], core.PLAIN_BETAS, share)
    for method in METHODS:
        told = in_paper[in_paper.method == method].set_index("tau_alpha").value
        numbers[f"{short(method)}_paper"] = told.idxmax()
        for name, level in LEVELS.items():
            mine = here[(here.method == method) & (here.level == level) & here.tau_alpha.isin(core.TAUS)]
            line = mine.groupby("tau_alpha").test_id.mean()
            numbers[f"level_{name}"] = level
            found = {"first": line.iloc[0], "last": line.iloc[-1], "peak": line.idxmax(), "most": line.max()}
            numbers |= {f"{short(method)}_{name}_{what}": value for what, value in found.items()}
        ends = here[(here.method == method) & here.tau_alpha.isin([numbers["lowest"], numbers["highest"]])]
        seeds = ends.pivot_table("test_id", "seed", ["level", "tau_alpha"])
        falls = [seeds[level, numbers["lowest"]] - seeds[level, numbers["highest"]] for level in LEVELS.values()]
        turn = contrasts.mean_interval((falls[0] - falls[1]).dropna().tolist())
        numbers |= named(f"{short(method)}_turn", pd.Series(turn._asdict()))
    return numbers


def by_validation(rows: Rows) -> Numbers:
    """How validation goes with Test-ID and with Test-OOD over cells, each less the mean of its method (and level of tau_min), the
    oracle's and those that calibration may look at aside; how two seeds of a cell agree on Test-OOD, over pairs of seeds; how high runs come there."""
    metrics = ["validation", "test_id", "test_ood"]
    plain = [run.key for run in rows.runs if run.method in contrasts.BASELINES]
    parts = [rows.measured[rows.measured.key.isin(plain)]]
    for level in LEVELS.values():
        keys = {run.key for run in levels.at_level(rows.runs, level) if run.method in METHODS and not is_looked_at(run)}
        parts.append(rows.measured[rows.measured.key.isin(keys)])
    single = [part[part.label_fraction == selection.SELECTION_FRACTION] for part in parts]
    cells = [tables.cell_means(part, metrics) for part in single]
    matrix = pd.concat([part[metrics] - part.groupby("method")[metrics].transform("mean") for part in cells]).corr()
    twice = []
    for part in single:
        less = part.assign(test_ood=part.test_ood - part.groupby(["method", "seed"]).test_ood.transform("mean"))
        twice.append(less.fillna({"tau_beta": 0.0, "lambda_": 0.0}).pivot_table(
            "test_ood", ["method", *HYPERPARAMETERS], "seed"
        ))  # fmt: skip
    between = pd.concat(twice).corr().to_numpy()  # of seeds
    plain_cells = cells[0][cells[0].method == "standard"].test_id
    stored, runs = notebook.rows_of(rows.preset), pd.concat(single[1:])
    draws = np.array([stored[key]["draws"][f"{selection.SELECTION_FRACTION:g}"]["test_ood"] for key in runs.key])
    return _averaged(rows) | {
        "runs": len(runs), "highest": runs.test_ood.max(), "line": HIGH, "cells": sum(map(len, cells)),
        "seen": matrix.loc["validation", "test_id"], "unseen": matrix.loc["validation", "test_ood"],
        "standard_worst": plain_cells.min(), "standard_best": plain_cells.max(),
        "agree": between[np.triu_indices_from(between, 1)].mean(), "draws": draws.size, "above": int((draws > HIGH).sum()),
        "n": rows.measured.seed.nunique(), "comparisons": len(METHODS) * len(LEVELS),
    }  # fmt: skip


def _averaged(rows: Rows) -> dict[str, Any]:
    """Leads of the mean over a method's configurations, as claim 8 takes it, by level: over the standard loss's, over whichever
    baseline's is nearest, and the least end of an interval over any; on Test-ID and on Test-OOD."""
    numbers: dict[str, Any] = {}
    for name, level in LEVELS.items():
        numbers[f"level_{name}"] = level
        found = restated_claims.all_hyperparameters(rows.at(level).evidence())
        for method, (metric, what) in itertools.product(METHODS, {"test_id": "seen", "test_ood": "unseen"}.items()):
            each = {c.baseline or "": c.interval for c in found if (c.method, c.metric) == (method, metric)}
            nearest = min(each, key=lambda baseline: each[baseline].mean)
            place = f"{short(method)}_{name}_{what}"
            numbers |= named(f"{place}_plain", pd.Series(each["standard"]._asdict()))
            numbers |= named(f"{place}_nearest", pd.Series(each[nearest]._asdict()))
            numbers[f"{place}_whose"] = tables.title(nearest)
            numbers[f"{place}_each_low"] = min(interval.low for interval in each.values())
        numbers |= _kept(rows.at(level), numbers) if name == "raised" else _coldest(rows.at(level))
    cold = [_at_the_lowest(rows.at(level), method) for level in LEVELS.values() for method in METHODS]
    return numbers | {"cold_least": min(cold), "cold_most": max(cold)}


def _at_the_lowest(rows: Rows, method: str) -> float:
    """A method's mean lead over the standard loss on Test-ID over the cells at the two lowest temperatures."""
    e, lowest = rows.evidence(), core.TAUS[:2]
    tables = [e.cells(name, "test_id") for name in (method, "standard")]
    mine, plain = (t[[cell for cell in t.columns if cell[0] in lowest]].mean(axis=1) for t in tables)
    return float((mine - plain).dropna().mean())


def _kept(rows: Rows, numbers: Numbers) -> dict[str, Any]:
    """The leads over the nearest baseline on Test-ID with every configuration of the strip, those that calibration looks at too."""
    single = rows.measured[rows.measured.label_fraction == selection.SELECTION_FRACTION]
    means = single.pivot_table("test_id", "seed", "method")
    found: dict[str, Any] = {}
    for method in METHODS:
        (nearest,) = (
            b for b in contrasts.BASELINES if tables.title(b) == numbers[f"{short(method)}_raised_seen_whose"]
        )
        lead = contrasts.mean_interval((means[method] - means[nearest]).tolist())
        found |= named(f"{short(method)}_kept", pd.Series(lead._asdict()))
    return found


def _coldest(rows: Rows) -> dict[str, Any]:
    """The least end of an interval of weighted pairs' lead over any baseline on Test-OOD, at the two lowest temperatures alone."""
    e, lowest = rows.evidence(), core.TAUS[:2]

    def average(method: str) -> pd.Series:
        table = e.cells(method, "test_ood")
        return table[[cell for cell in table.columns if cell[0] in lowest]].mean(axis=1)

    leads = [average("dw_pairs") - average(baseline) for baseline in contrasts.BASELINES]
    return {"coldest_low": min(contrasts.mean_interval(lead.dropna().tolist()).low for lead in leads)}


def by_discriminator(rows: Rows) -> Numbers:
    """Global less batch-level discriminators, paired by seed, of each method and accuracy: the mean over spreads as claim 9 takes it, and
    at how many spreads the global one is ahead; and how often claim 9 would be contradicted, and supported, were the paper's means the truth."""
    e, tried = rows.evidence(), operating_characteristics.stored()
    (own,) = tried[(tried.claim == 9) & (tried.truth == operating_characteristics.PAPER)].itertuples()
    numbers: dict[str, Any] = {"sigmas": len(core.SIGMAS), "level": core.TAU_MINS[0]}
    numbers |= {"own": own.contradicted, "upheld": own.supported}
    for method in METHODS:
        for metric, name in {"test_id": "seen", "test_ood": "unseen", "d_test_id": "domain"}.items():
            place = f"{short(method)}_{name}"
            kinds = {
                kind: {sigma: e.selected(method, metric, sigma, discriminator=kind) for sigma in core.SIGMAS}
                for kind in ("global", "batch")
            }
            each = [(kinds["global"][sigma] - kinds["batch"][sigma]).dropna() for sigma in core.SIGMAS]
            interval = contrasts.mean_interval(pd.concat(each, axis=1, join="inner").mean(axis=1).tolist())
            numbers |= named(place, pd.Series(interval._asdict()))
            numbers["n"] = interval.n
            means = [part.mean() for part in each]
            numbers[f"{place}_ahead"] = sum(mean > 0 for mean in means)
    return numbers
