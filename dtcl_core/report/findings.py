"""What was found, in a sentence a chapter: written by a person for the rows of a day, its numbers filled in from rows.

A sentence that the rows no longer bear is not shown, and a test fails that names it: then it is time to write another. Before all
runs of a chapter are there it says how many are missing, and nothing else; but a finding about a part of them waits for that part alone.
Pages about no runs of their own (`PAGES`) have theirs from the files that they show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from .. import results
from ..analysis import (
    calibration,
    contrasts,
    learned,
    reported,
    selection,
    specifications,
    tau_min_levels,
    weight_effects,
)
from ..analysis.claims import CLAIMS, HIGH
from ..config import HYPERPARAMETERS, Protocol, Run
from ..experiments import REGISTRY, core, readings, weight_choices
from ..results import default_store
from . import benchmarked, heads, notebook, tables

PRESET = "core"  # whose runs the findings are about
METHODS = contrasts.PROPOSED
RAISED = "tau_min 0.05"  # of `weight_choices.CHOICES`
TAU, LOWER_TAU, HIGHER_TAU = 0.1, 0.05, 0.15  # of `adaptive`
LEVELS = dict(zip(("low", "raised"), core.TAU_MINS))
PROJECTORS = ("linear", "mlp")
FRACTIONS = {"few": 0.01, "some": 0.1, "all": 1.0}
Numbers = Mapping[str, Any]


@dataclass(frozen=True)
class Rows:
    """The runs of a chapter and those of their rows that are there."""

    runs: Sequence[Run]
    measured: pd.DataFrame
    preset: str = PRESET

    @property
    def missing(self) -> str:
        """How many runs are missing, as a line; empty if none is."""
        asked, there = len({run.key for run in self.runs}), self.measured.key.nunique()
        return "" if there == asked else f"not yet run: {asked - there} of {asked}"

    def evidence(self, fresh: bool = False) -> contrasts.Evidence:
        """The rows as claims see them, of the seeds that selected or of the fresh ones."""
        return contrasts.Evidence(self.measured[(self.measured.seed >= core.FRESH_SEED) == fresh])

    def at(self, level: float) -> Rows:
        """Those of one level of tau_min, beside the baselines, labelled alike."""
        plain = next(run.protocol for run in self.runs if run.method not in METHODS)
        return Rows(notebook.at_level(self.runs, level), tau_min_levels.at(self.measured, level, plain), self.preset)

    def with_fresh(self) -> Rows:
        """These, and what is selected of them under each level of tau_min on the fresh seeds that claims are judged on."""
        again, found = notebook.confirm_at_levels(self.runs, self.measured, self.preset)
        return Rows([*self.runs, *again], notebook.together(self.measured, found.drop(columns="level")), self.preset)


NO_ROWS = Rows((), pd.DataFrame({"key": []}))


@dataclass(frozen=True)
class Finding:
    """A sentence about a chapter's rows.

    Attributes:
        date: when it was written.
        text: the sentence, with the names of numbers in braces.
        numbers: what fills them, from the chapter's rows.
        holds: whether the rows bear what the sentence says of its numbers.
        about: which of the chapter's runs it is about; None: all.
        preset: whose runs it is about.
        chapter: whose runs it is about if its name is no chapter's; None: the main table's.
        levels: whether it is about every level of tau_min, where a chapter shows one.
        fresh: whether it is about what was selected on fresh seeds.
    """

    date: str
    text: str
    numbers: Callable[[Rows], Numbers]
    holds: Callable[[Numbers], bool]
    about: Callable[[Run], bool] | None = None
    preset: str = PRESET
    chapter: str | None = None
    levels: bool = False
    fresh: bool = False

    def part(self, rows: Rows) -> Rows:
        """Those of a chapter's rows that it is about."""
        if self.about is None:
            return rows
        runs = [run for run in rows.runs if self.about(run)]
        return Rows(runs, rows.measured[rows.measured.key.isin({run.key for run in runs})], rows.preset)

    def sentence(self, rows: Rows) -> str:
        """The sentence with its numbers.

        Raises:
            ValueError: if the rows do not bear it.
        """
        numbers = self.numbers(rows)
        said = self.text.format(**numbers)
        if not self.holds(numbers):
            raise ValueError(f"no longer true of the rows: {said!r} (written {self.date})")
        return said


@dataclass(frozen=True)
class Sentence:
    """A line of prose as notebooks display it: as it is, or as Markdown."""

    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return "\n".join(f"> {line}" for line in self.text.split("\n"))


def show(chapter: str, runs: Sequence[Run], measured: pd.DataFrame) -> None:
    """Display a chapter's finding, or how many of its runs are missing; or one of another name, which says nothing of these.

    A reader who asks for other runs than those that the sentence was written about is shown none.
    """
    from IPython.display import display  # not needed to train

    rows, finding = Rows(runs, measured), FINDINGS.get(chapter)
    if rows.missing and chapter in REGISTRY:
        print(rows.missing)
    if finding is None or (part := finding.part(rows)).missing:
        return
    if (finding.levels or finding.fresh) and (part := load(chapter)).missing:
        return
    asked, _ = obtained(chapter if chapter in REGISTRY else finding.chapter or "main_table", finding.preset)
    if {run.key for run in runs} == {run.key for run in asked}:
        try:
            display(Sentence(f"**Found, {finding.date}:** {finding.sentence(part)}"))
        except ValueError:
            print("What was found no longer holds for these rows; it is being written anew.")


def said(name: str) -> Sentence:
    """A finding's sentence, to be displayed by itself; with its date at the head of a page (`PAGES`).

    Raises:
        ValueError: if the rows do not bear it.
    """
    if name in PAGES:
        return Sentence(f"**Found, {PAGES[name].date}:** {PAGES[name].sentence(NO_ROWS)}")
    return Sentence(FINDINGS[name].sentence(load(name)))


def load(name: str) -> Rows:
    """The rows that a finding is about: those of its chapter, or of the main table, or its part of them."""
    finding = FINDINGS.get(name)
    preset = PRESET if finding is None else finding.preset
    other = None if finding is None else finding.chapter
    every = finding is not None and finding.levels
    runs, measured = obtained(name if name in REGISTRY else other or "main_table", preset, every)
    rows = Rows(runs, measured, preset)
    if finding is None:
        return rows
    return finding.part(rows.with_fresh() if finding.fresh else rows)


def headline() -> pd.DataFrame:
    """What the first figure shows: each method's selected cell on fresh seeds, a proposed one's under each level of tau_min."""
    _, found = notebook.confirm_at_levels(*obtained("main_table", PRESET, every=True), PRESET)
    return found[found.label_fraction == selection.SELECTION_FRACTION]


def obtained(experiment: str, preset: str, every: bool = False) -> tuple[Sequence[Run], pd.DataFrame]:
    """Runs and rows as the chapter has them without other parameters: of one level of tau_min, where it takes one; or of every."""
    level = Protocol().tau_min if REGISTRY[experiment].parts and experiment != "claims" and not every else None
    return notebook.obtain(experiment, preset, False, "auto", level=level)


def compared(_: Rows) -> Numbers:
    """In how many comparisons of three seeds or more a proposed method leads on Test-ID, and with an interval above zero."""
    found = specifications.effects(results.load(), specifications.protocols(default_store(PRESET).rows().values()))
    found = found[(found.metric == "test_id") & (found.n >= contrasts.MIN_SEEDS)]
    numbers: dict[str, Any] = {}
    for name, against in {"standard": "standard", "best": "best baseline"}.items():
        mine = found[found.against == against]
        numbers |= {name: len(mine), f"{name}_led": (mine["mean"] > 0).sum(), f"{name}_clear": (mine.low > 0).sum()}
        numbers[f"{name}_behind"] = (mine.high < 0).sum()
        special = mine.specification.str.contains(f"{RAISED}|sigma {max(core.SIGMAS):g}\\b")
        numbers[f"{name}_special"] = ((mine.low > 0) & special).sum()
    return numbers | {"seeds": contrasts.MIN_SEEDS, "widest": max(core.SIGMAS)}


def pace(_: Rows) -> Numbers:
    """What the paper costs on a CPU, how much faster the engine is than a plain loop, and how many targets are met."""
    frame, targets = benchmarked.load("cpu"), benchmarked.targets()
    ours, runs = targets[targets["where"] != "one GPU"], benchmarked.papers_runs()
    speedup = frame.set_index("contender").speedup
    return {
        "hours": benchmarked.core_hours(), "runs": len(runs), "epochs": runs[0].protocol.epochs, "machine": frame.machine[0],
        "mixed": speedup["paper's runs"], "alone": speedup[[name for name in speedup.index if name.startswith("engine")]].max(),
        "threads": frame.threads[0], "met": int((ours.met == "yes").sum()), "set": len(ours),
        "no_gpu": bool((targets[targets["where"] == "one GPU"].met == "-").all()),
    }  # fmt: skip


def tried(_: Rows) -> Numbers:
    """What audits, fuzzers and kills came to."""
    audits = benchmarked.load("audits").sort_values("identical").drop_duplicates(["key", "sources", "date"])
    faults, fuzz = benchmarked.load("faults"), benchmarked.load("fuzz")
    return {
        "again": len(audits), "identical": int(audits.identical.sum()), "kills": int(faults.kills.sum()),
        "tries": int(fuzz.tries.sum()), "silent": int(fuzz.silent.sum()), "failed": int(fuzz.failed.sum()),
    }  # fmt: skip


def comparison(rows: Rows) -> Numbers:
    """On fresh seeds, under each level of tau_min: what the proposed methods have on Test-ID and D-Test-ID, their leads over the best
    baseline, over the standard loss and over whichever baseline is hardest to tell apart, and on the seeds that selected; on
    Test-OOD how far a lead's interval reaches, and the lead that the paper reports."""
    numbers: dict[str, Any] = {f"level_{name}": level for name, level in LEVELS.items()}
    reaches, counts = [], []
    for name, level in LEVELS.items():
        e, before = rows.at(level).evidence(fresh=True), rows.at(level).evidence()
        for method in METHODS:
            mine, place = e.selected(method, "test_id"), f"{_short(method)}_{name}"
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
                numbers |= _interval(f"{place}_{what}", pd.Series(interval._asdict()))
                if what in ("lead", "unseen"):
                    counts.append(interval.n)
                if what == "unseen":
                    reaches.append((interval.high - interval.low) / 2)
            each = [
                contrasts.mean_interval((mine - e.selected(b, "test_id")).dropna().tolist())
                for b in contrasts.BASELINES
            ]
            numbers[f"{place}_least"] = min(interval.low for interval in each)
    plain = rows.at(LEVELS["low"]).evidence(fresh=True)
    means = {m: plain.selected(m, "test_id").mean() for m in contrasts.BASELINES}
    hidden = {m: plain.selected(m, "d_test_id").mean() for m in contrasts.BASELINES}
    first = max(means, key=lambda name: means[name])
    return numbers | {
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


def close_choice(rows: Rows) -> Numbers:
    """Of the selections within a hundredth of validation accuracy, the oracle's aside, that which decides most on Test-OOD: the cell
    taken, the runner-up, and what both have; with the lead that the paper reports."""
    close = selection.runners_up(rows.measured, ["test_ood"])
    pairs = [part for method, part in close.groupby("method", sort=False) if method != "color_jitter"]
    both = max(pairs, key=lambda part: np.ptp(part.test_ood.to_numpy()))
    taken, other = both.itertuples()
    names = [tables.cell_name(line) for line in both[list(HYPERPARAMETERS)].to_numpy().tolist()]
    return {
        "method": tables.title(taken.method), "cell": names[0], "runner_up": names[1], "more": taken.validation - other.validation,
        "has": taken.test_ood, "had": other.test_ood, "claimed": _claimed(),
    }  # fmt: skip


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
                numbers |= _interval(f"{_short(method)}_{name}_{share}", pd.Series(interval._asdict()))
                numbers["n"] = interval.n
    return numbers


def by_spread(rows: Rows) -> Numbers:
    """Test-ID at the narrowest and the widest spread of colours, and each proposed method's lead over the best baseline there, by level."""
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
                numbers[f"{_short(method)}_{name}_{end}"] = mine.mean()
                numbers |= _interval(f"{_short(method)}_{name}_{end}_lead", pd.Series(interval._asdict()))
                counts.append(interval.n)
                seen = e.selected(method, "test_ood", sigma) - e.best_baseline("test_ood", sigma)
                unseen = contrasts.mean_interval(seen.dropna().tolist())
                numbers |= _interval(f"{_short(method)}_{name}_{end}_unseen", pd.Series(unseen._asdict()))
    wide = [numbers[f"{_short(method)}_{name}_wide_lead_mean"] for method in METHODS for name in LEVELS]
    return numbers | {"n": min(counts), "least_wide": min(wide), "most_wide": max(wide)}


def by_temperature(rows: Rows) -> Numbers:
    """Mean Test-ID at both ends of tau_alpha and where it is highest, by method and level of tau_min; where it is in the paper.

    Means are over the tau_beta that were tried at every tau_alpha of the strip. Cells that calibration may look at are left out.
    """
    numbers: dict[str, Any] = {"n": rows.measured.seed.nunique(), "lowest": min(core.TAUS), "highest": max(core.TAUS)}
    betas = [beta for beta in core.BETAS if beta != core.CALIBRATED_BETA]
    numbers["betas"] = " and ".join(f"{beta:g}" for beta in betas)

    def along(means: pd.DataFrame, accuracy: str) -> pd.Series:
        return means.pivot_table(accuracy, "tau_alpha", "tau_beta").loc[list(core.TAUS), betas].mean(axis=1)

    in_paper = reported.temperature_tables().query("metric == 'test_id'")
    for method in METHODS:
        numbers[f"{_short(method)}_paper"] = along(in_paper[in_paper.method == method], "value").idxmax()
    for name, level in LEVELS.items():
        numbers[f"level_{name}"] = level
        keys = {run.key for run in notebook.at_level(rows.runs, level)}
        means = tables.cell_means(rows.measured[rows.measured.key.isin(keys)], ["test_id"])
        for method in METHODS:
            line = along(means[means.method == method], "test_id")
            mine = {"first": line.iloc[0], "last": line.iloc[-1], "peak": line.idxmax(), "most": line.max()}
            numbers |= {f"{_short(method)}_{name}_{what}": value for what, value in mine.items()}
    return numbers


def by_validation(rows: Rows) -> Numbers:
    """How validation goes with Test-ID and with Test-OOD over cells, each less the mean of its method (and level of tau_min), the
    oracle's and those that calibration may look at aside; how two seeds of a cell agree on Test-OOD; how high runs come there."""
    metrics = ["validation", "test_id", "test_ood"]
    plain = [run.key for run in rows.runs if run.method in contrasts.BASELINES]
    parts = [rows.measured[rows.measured.key.isin(plain)]]
    for level in LEVELS.values():
        keys = {
            run.key
            for run in notebook.at_level(rows.runs, level)
            if run.method in METHODS and not core.is_calibrated(run.tau_alpha, run.tau_beta)
        }
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
    each = pd.concat(cells).groupby("method")[["validation", "test_ood"]].corr().iloc[::2, 1].droplevel(1)
    stored, runs = notebook.rows_of(rows.preset), pd.concat(single)
    draws = np.array([stored[key]["draws"][f"{selection.SELECTION_FRACTION:g}"]["test_ood"] for key in runs.key])
    return {
        "runs": len(runs), "highest": runs.test_ood.max(), "line": HIGH, "cells": sum(map(len, cells)),
        "seen": matrix.loc["validation", "test_id"], "unseen": matrix.loc["validation", "test_ood"],
        "least": each.min(), "least_of": tables.title(each.idxmin()), "most": each.max(), "most_of": tables.title(each.idxmax()),
        "agree": pd.concat(twice).corr().iloc[0, 1], "draws": draws.size, "above": int((draws > HIGH).sum()),
        "n": rows.measured.seed.nunique(),
    }  # fmt: skip


def convergence(rows: Rows) -> Numbers:
    """How far 90 % of the temperatures reach at the first and the last epoch, and their median at the last, means over seeds; how many
    seeds' range keeps more than half its width; and how low temperatures came."""
    traces = notebook.traces(rows.runs, rows.preset)
    quantiles = np.array([trace.quantiles([0.0, 0.05, 0.5, 0.95], None)[[0, -1]] for trace in traces])
    spread = quantiles[..., 3] - quantiles[..., 1]
    first, last = spread.mean(axis=0)
    return {
        "first": first, "last": last, "median": quantiles[:, 1, 2].mean(), "center": rows.runs[0].tau_alpha, "n": len(traces),
        "wider": int((spread[:, 1] > spread[:, 0] / 2).sum()), "reached": quantiles[..., 0].min(),
    }  # fmt: skip


def headed(rows: Rows) -> Numbers:
    """How much the standard loss loses behind a head, by its kind, as claim 10 sees it; and how often a probe names the domain."""
    (claim,) = (claim for claim in CLAIMS if claim.number == 10)
    found = {each.what: each.interval for each in claim.contrasts(rows.evidence())}
    numbers: dict[str, Any] = {}
    for kind in PROJECTORS:
        names = {
            kind: f"no head over a {kind} one, test_id",
            f"{kind}_unseen": f"no head over a {kind} one, test_ood",
            f"{kind}_slope": f"{kind} head: d_test_id rises with its dimension (slope a doubling)",
        }
        for name, what in names.items():
            numbers |= _interval(name, pd.Series(found[what]._asdict()))
        numbers["n"] = found[names[kind]].n
    picked = selection.rows_of(rows.measured, selection.select(rows.measured))
    some = picked[picked.label_fraction == FRACTIONS["some"]]
    told = (
        some.assign(projector=some.projector.fillna("none")).groupby(["seed", "projector"]).d_test_id.mean().unstack()
    )
    for kind in PROJECTORS:
        more = contrasts.mean_interval((told[kind] - told["none"]).tolist())
        numbers |= _interval(f"{kind}_more", pd.Series(more._asdict()))
    return numbers | {f"{kind}_told": told[kind].mean() for kind in ("none", *PROJECTORS)}


def hiding(rows: Rows) -> Numbers:
    """How D-Test-ID goes with Test-OOD and with Test-ID over runs, all but the oracle's."""
    found = learned.association(rows.measured[rows.measured.label_fraction == selection.SELECTION_FRACTION])
    numbers: dict[str, Any] = {"level": Protocol().tau_min, "seeds": rows.measured.seed.nunique()}
    for name, metric in (("unseen", "test_ood"), ("seen", "test_id")):
        together, within = found[found.metric == metric].iloc[:2].itertuples()
        numbers |= {name: together.r, f"{name}_low": together.low, f"{name}_high": together.high, "n": together.n}
        numbers |= {f"{name}_within": within.r, f"{name}_within_low": within.low, f"{name}_within_high": within.high}
    return numbers


def floors(rows: Rows) -> Numbers:
    """What the higher tau_min adds to Test-ID of each proposed method, paired by seed, with 95 % intervals."""
    found = weight_effects.by_choice(rows.measured, rows.runs)
    raised = found[(found.variation == RAISED) & (found.metric == "test_id")].set_index("group")
    numbers: dict[str, Any] = {
        "lowest": Protocol().tau_min,
        "raised": weight_choices.CHOICES[RAISED]["tau_min"],
        "n": int(raised.moved_n.min()),
    }
    for method in METHODS:
        name = method.removeprefix("dw_")
        for field in ("moved", "moved_low", "moved_high"):
            numbers[f"{name}_{field}"] = raised.loc[method, field]
    return numbers


def adaptive(rows: Rows) -> Numbers:
    """What runs without a head have at tau_alpha 0.1 on Test-ID, and more than the standard loss there and at 0.05."""
    return adaptive_of(heads.probed([run for run in rows.runs if run.projector is None], default_store(rows.preset)))


def adaptive_of(lines: pd.DataFrame) -> dict[str, Any]:
    """`adaptive`, from the lines of `heads.probed`."""
    plain, mean = tables.title("standard"), heads.means(lines, "test_id").set_index(["method", "tau_alpha"])["mean"]
    numbers: dict[str, Any] = {"tau": TAU, "lower": LOWER_TAU, "n": int(lines.groupby(heads.CELL).seed.nunique().min())}
    numbers |= {"plain": mean[plain, TAU], "plain_lower": mean[plain, LOWER_TAU]}
    more = {
        "same": heads.beside_standard(lines, "test_id"),
        "lower": heads.beside_standard(lines, "test_id", LOWER_TAU),
    }
    for method in (method for method in lines.method.unique() if method != "standard"):
        numbers[_short(method)] = mean[tables.title(method), TAU]
        for name, table in more.items():
            numbers |= _interval(
                f"{_short(method)}_{name}", table[table.tau_alpha == TAU].set_index("method").loc[tables.title(method)]
            )
    return numbers


def behind_a_head(rows: Rows) -> Numbers:
    """`is_it_the_domain` of all runs that the chapter asks for."""
    return is_it_the_domain(heads.probed(rows.runs, default_store(rows.preset)))


def is_it_the_domain(lines: pd.DataFrame) -> Numbers:
    """`adaptive`, the same behind a head and on Test-OOD, and how well backbones and heads tell a domain; from `heads.probed`."""
    bare, headed = lines[lines["head"] == "none"], lines[(lines["head"] != "none")]
    beside = {
        "unseen": heads.beside_standard(bare, "test_ood", LOWER_TAU),
        "behind": heads.beside_standard(headed[headed.place == "backbone"], "test_id", LOWER_TAU),
        "kept": heads.behind(headed, "d_test_id"),
    }
    told = heads.means(headed, "d_test_id").set_index(["method", "place", "tau_alpha"])["mean"]
    numbers = adaptive_of(bare) | {"n": int(lines.groupby(heads.CELL).seed.nunique().min())}
    for method in METHODS:
        for name, table in beside.items():
            at = table[table.tau_alpha == TAU].set_index("method").loc[tables.title(method)]
            numbers |= _interval(f"{_short(method)}_{name}", at)
        for name, table in {
            "higher": heads.beside_standard(bare, "test_id", LOWER_TAU),
            "higher_behind": beside["behind"],
        }.items():
            at = table[table.tau_alpha == HIGHER_TAU].set_index("method").loc[tables.title(method)]
            numbers |= _interval(f"{_short(method)}_{name}", at) | {"higher_tau": HIGHER_TAU}
        numbers |= {f"{_short(method)}_{place}": told[tables.title(method), place, TAU] for place in heads.PLACES}
    return numbers


def _short(method: str) -> str:
    return method.removeprefix("dw_")


def _interval(name: str, line: pd.Series) -> dict[str, float]:
    return {f"{name}_{field}": line[field] for field in ("mean", "low", "high")}


def reading(rows: Rows) -> Numbers:
    """How far from the paper the reading is that the rule takes, beside the first and the runner-up; its baseline's accuracies."""
    choice = calibration.choice(notebook.rows_of(rows.preset), rows.runs[0].protocol)
    misfit = choice.summary.set_index("candidate").misfit
    others = [each for name, each in choice.tables.items() if name != choice.taken]
    found = calibration.prediction_intervals(choice.tables[str(choice.taken)], others=others)
    rival = misfit.drop([choice.taken, readings.FIRST_READING.name]).index[0]
    numbers: dict[str, Any] = {
        "taken": choice.taken, "misfit": misfit[choice.taken], "first": misfit[readings.FIRST_READING.name],
        "rival": rival, "its": misfit[rival], "within": choice.within, "settled": choice.settled,
        "inside": int(found.inside.sum()), "of": len(found),
    }  # fmt: skip
    baseline = found[found.group == "standard"].set_index(["metric", "label_fraction"])
    for name, place in FRACTIONS.items():
        line = baseline.loc["test_id", place]
        numbers |= {name: line["mean"], f"{name}_reported": line.reported, f"{name}_inside": line.inside}
    domain, unseen = baseline.loc["d_test_id", 0.01], baseline.loc["test_ood", 0.01]
    theirs = [each for name, each in choice.tables.items() if name != rival]
    numbers["its_inside"] = int(calibration.prediction_intervals(choice.tables[rival], others=theirs).inside.sum())
    numbers |= {"unseen": unseen["mean"], "unseen_reported": unseen.reported, "unseen_inside": unseen.inside}
    return numbers | {"domain": domain["mean"], "domain_reported": domain.reported, "domain_inside": domain.inside}


def searched(run: Run) -> bool:
    """Whether a run is one of those that hyperparameters are searched on: all cells, the seeds of the strip."""
    return run.seed in core.SEARCH_SEEDS and run.sigma == core.SIGMA


def _places(*levels: str) -> list[str]:
    """The names of the proposed methods' numbers in `comparison` under some levels of tau_min, or all."""
    return [f"{_short(method)}_{level}" for level in levels or LEVELS for method in METHODS]


def _lead_hangs_on_the_floor(x: Numbers) -> bool:
    """On Test-ID all beat the standard loss; every baseline, both under the higher tau_min, and neither clearly the best under the lower."""
    return (
        all(x[f"{place}_gain_low"] > 0 for place in _places())
        and all(min(x[f"{place}_least"], x[f"{place}_lead_low"]) > 0 for place in _places("raised"))
        and all(x[f"{place}_lead_low"] <= 0 for place in _places("low"))
    )


def _open(x: Numbers) -> bool:
    """Each interval of a lead on Test-OOD holds zero: over the best baseline, and over the standard loss."""
    names = [f"{place}_{what}" for place in _places() for what in ("unseen", "unseen_gain")]
    return all(x[f"{name}_low"] < 0 < x[f"{name}_high"] for name in names)


def _told_between(x: Numbers) -> bool:
    """Weighted pairs' domain accuracy lies below the standard loss's, and above those of the baselines that are told the domain."""
    return all(x["most_domain"] + 0.02 < x[f"pairs_{level}_domain"] < x["standard_domain"] - 0.05 for level in LEVELS)


FINDINGS: Mapping[str, Finding] = {  # by chapter; "lead", "unseen" and "spread" are the introduction's, "close_choice" the main table's
    "main_table": Finding(
        "2026-11-24",
        "whether the proposed methods lead hangs on tau_min, which the paper does not give. On held-out digits of the training colours and"
        " {n} fresh seeds weighted pairs lie {pairs_raised_lead_mean:+.3f} [{pairs_raised_lead_low:+.3f}, {pairs_raised_lead_high:+.3f}]"
        " from the best baseline with tau_min {level_raised:g}, and weighted negatives {negatives_raised_lead_mean:+.3f}"
        " [{negatives_raised_lead_low:+.4f}, {negatives_raised_lead_high:+.3f}]; with {level_low:g} they lie {pairs_low_lead_mean:+.3f}"
        " [{pairs_low_lead_low:+.3f}, {pairs_low_lead_high:+.3f}] and {negatives_low_lead_mean:+.3f} [{negatives_low_lead_low:+.3f},"
        " {negatives_low_lead_high:+.3f}]. Both beat the standard loss ({standard:.3f}) at either level. On the {seeds} seeds that selected them"
        " the leads were {pairs_raised_before_mean:+.3f}, {negatives_raised_before_mean:+.3f}, {pairs_low_before_mean:+.3f} and"
        " {negatives_low_before_mean:+.3f}. On the unseen colour none of their leads, over the best baseline or over the standard loss, can be told from zero. Weighted pairs hide the"
        " domain less well than the baselines that are told it: a probe names it with {pairs_low_domain:.2f} and {pairs_raised_domain:.2f},"
        " against {least_domain:.2f} to {most_domain:.2f} for those, and {standard_domain:.2f} for the standard loss.",
        comparison,
        lambda x: _lead_hangs_on_the_floor(x) and _open(x) and _told_between(x),
        levels=True,
        fresh=True,
    ),
    "lead": Finding(
        "2026-11-24",
        "**New digits of the training colours: it depends** on the lowest temperature allowed (tau_min), which the paper does not give. With"
        " {level_raised:g} both methods beat every baseline: weighted pairs lead the best one ({baseline}, {best:.3f}) by"
        " {pairs_raised_lead_mean:.3f} [{pairs_raised_lead_low:.3f}, {pairs_raised_lead_high:.3f}], weighted negatives by"
        " {negatives_raised_lead_mean:.3f} [{negatives_raised_lead_low:.4f}, {negatives_raised_lead_high:.3f}]. With {level_low:g} neither"
        " lead is clear: {pairs_low_lead_mean:+.3f} [{pairs_low_lead_low:+.3f}, {pairs_low_lead_high:+.3f}] and"
        " {negatives_low_lead_mean:+.3f} [{negatives_low_lead_low:+.3f}, {negatives_low_lead_high:+.3f}]. All beat the standard"
        " contrastive loss ({standard:.3f}).",
        comparison,
        lambda x: _lead_hangs_on_the_floor(x) and x["negatives_raised_lead_low"] < 0.005,
        levels=True,
        fresh=True,
    ),
    "unseen": Finding(
        "2026-11-24",
        "**The unseen colour, the paper's main point: undecided.** On green digits, at the spread of colours of the paper's"
        " main table, weighted pairs have an accuracy of {pairs_low_green:.2f}"
        " (tau_min {level_low:g}) and {pairs_raised_green:.2f} ({level_raised:g}), weighted negatives {negatives_low_green:.2f} and"
        " {negatives_raised_green:.2f}, the standard contrastive loss {standard_green:.2f}: means of {n} fresh seeds, none of which"
        " chose a setting. These seeds are too few: the 95 % intervals of the leads, over the best baseline and over the standard loss, include"
        " zero and reach {reach_least:.2f} to {reach:.2f} to either side; the paper reports a lead of {claimed:.3f}.",
        comparison,
        lambda x: _open(x) and x["reach_least"] > x["claimed"],
        levels=True,
        fresh=True,
    ),
    "close_choice": Finding(
        "2026-11-24",
        "a close choice decides a number here: for {method} validation takes the cell {cell} (temperature first) and not {runner_up}, by"
        " {more:.3f}; on Test-OOD they have {has:.3f} and {had:.3f}, a larger difference than the lead that the paper reports there"
        " ({claimed:.3f}).",
        close_choice,
        lambda x: x["more"] < 0.01 and abs(x["has"] - x["had"]) > x["claimed"],
    ),
    "label_fractions": Finding(
        "2026-11-24",
        "the lead on the training colours is larger where labels are few, as the paper says; but that there is one is clear only with the"
        " higher tau_min. With 1, 10 and 100 % of the labels weighted pairs lie {pairs_raised_few_mean:+.3f}, {pairs_raised_some_mean:+.3f} and"
        " {pairs_raised_all_mean:+.3f} from the best baseline on Test-ID with tau_min {level_raised:g}, each clearly, and"
        " {pairs_low_few_mean:+.3f}, {pairs_low_some_mean:+.3f} and {pairs_low_all_mean:+.3f} with {level_low:g}; weighted negatives"
        " {negatives_raised_few_mean:+.3f} (barely clear), {negatives_raised_some_mean:+.3f} and {negatives_raised_all_mean:+.3f}, and"
        " {negatives_low_few_mean:+.3f}, {negatives_low_some_mean:+.3f} and {negatives_low_all_mean:+.3f} ({n} fresh seeds).",
        leads,
        lambda x: all(
            x[f"{place}_few_mean"] > max(x[f"{place}_some_mean"], x[f"{place}_all_mean"]) for place in _places()
        )
        and all(x[f"pairs_raised_{share}_low"] > 0 for share in FRACTIONS)
        and 0 < x["negatives_raised_few_low"] < 0.005
        and all(x[f"negatives_raised_{share}_low"] < 0 for share in ("some", "all"))
        and all(x[f"{place}_{share}_low"] <= 0 for place in _places("low") for share in FRACTIONS),
        levels=True,
        fresh=True,
    ),
    "spread": Finding(
        "2026-11-24",
        "**The wider colours spread, the larger the lead.** With one colour a domain (spread sigma {sigma_narrow:g}) neither method leads. At sigma"
        " {sigma_wide:g} both lead the best baseline on the training colours, by {least_wide:.2f} to {most_wide:.2f}, and on the unseen"
        " colour weighted pairs lead it by {pairs_low_wide_unseen_mean:.2f} [{pairs_low_wide_unseen_low:.2f}, {pairs_low_wide_unseen_high:.2f}]"
        " with tau_min {level_low:g} and, not clearly, by {pairs_raised_wide_unseen_mean:.2f} [{pairs_raised_wide_unseen_low:.2f},"
        " {pairs_raised_wide_unseen_high:.2f}] with {level_raised:g} ({n} seeds, which also chose the settings).",
        by_spread,
        lambda x: all(x[f"{place}_narrow_lead_low"] <= 0 < x[f"{place}_wide_lead_low"] for place in _places())
        and x["pairs_low_wide_unseen_low"] > 0 > x["pairs_raised_wide_unseen_low"] and x["pairs_raised_wide_unseen_mean"] > 0,
        levels=True,
        chapter="sigma_ablation",
    ),
    "sigma_ablation": Finding(
        "2026-11-24",
        "the wider the colours spread, the more the proposed methods have over the baselines on the training colours. Where each domain has"
        " one colour (sigma {sigma_narrow:g}) neither leads: weighted pairs lie {pairs_low_narrow_lead_mean:+.3f}"
        " [{pairs_low_narrow_lead_low:+.3f}, {pairs_low_narrow_lead_high:+.3f}] from the best baseline with tau_min {level_low:g} and"
        " {pairs_raised_narrow_lead_mean:+.3f} [{pairs_raised_narrow_lead_low:+.3f}, {pairs_raised_narrow_lead_high:+.3f}] with"
        " {level_raised:g}, weighted negatives {negatives_low_narrow_lead_mean:+.3f} [{negatives_low_narrow_lead_low:+.3f},"
        " {negatives_low_narrow_lead_high:+.3f}] and {negatives_raised_narrow_lead_mean:+.3f} [{negatives_raised_narrow_lead_low:+.3f},"
        " {negatives_raised_narrow_lead_high:+.3f}]. At sigma {sigma_wide:g} both lead: weighted pairs lie {pairs_low_wide_lead_mean:+.3f}"
        " [{pairs_low_wide_lead_low:+.3f}, {pairs_low_wide_lead_high:+.3f}] and {pairs_raised_wide_lead_mean:+.3f}"
        " [{pairs_raised_wide_lead_low:+.3f}, {pairs_raised_wide_lead_high:+.3f}] from it, weighted negatives"
        " {negatives_low_wide_lead_mean:+.3f} [{negatives_low_wide_lead_low:+.3f}, {negatives_low_wide_lead_high:+.3f}] and"
        " {negatives_raised_wide_lead_mean:+.3f} [{negatives_raised_wide_lead_low:+.3f}, {negatives_raised_wide_lead_high:+.3f}]. All fall:"
        " the standard loss from {standard_narrow:.2f} to {standard_wide:.2f}, weighted pairs from {pairs_low_narrow:.2f} to"
        " {pairs_low_wide:.2f} and from {pairs_raised_narrow:.2f} to {pairs_raised_wide:.2f}. On the unseen colour weighted pairs lie, at sigma"
        " {sigma_wide:g}, {pairs_low_wide_unseen_mean:+.2f} [{pairs_low_wide_unseen_low:+.2f}, {pairs_low_wide_unseen_high:+.2f}] and"
        " {pairs_raised_wide_unseen_mean:+.2f} [{pairs_raised_wide_unseen_low:+.2f}, {pairs_raised_wide_unseen_high:+.2f}] from the best"
        " baseline. {n} seeds, which selected the cells too.",
        by_spread,
        lambda x: all(
            x[f"{place}_narrow_lead_low"] <= 0 and x[f"{place}_wide_lead_mean"] > x[f"{place}_narrow_lead_mean"] + 0.02
            for place in _places()
        )
        and all(x[f"{place}_wide_lead_low"] > 0 for place in _places())
        and all(x[f"pairs_{level}_narrow"] > x[f"pairs_{level}_wide"] for level in LEVELS)
        and x["standard_narrow"] - x["standard_wide"] > 0.1,
        levels=True,
    ),
    "temperature": Finding(
        "2026-11-24",
        "how Test-ID goes with tau_alpha hangs on tau_min, which the paper does not give. Averaged over tau_beta {betas}, with tau_min"
        " {level_low:g} it is highest at the lowest tau_alpha, {lowest:g}, and falls from {negatives_low_first:.2f} to"
        " {negatives_low_last:.2f} (negatives) and from {pairs_low_first:.2f} to {pairs_low_last:.2f} (pairs) at {highest:g}. With"
        " {level_raised:g} the lowest is not the best: {negatives_raised_first:.2f} and {pairs_raised_first:.2f} there,"
        " {negatives_raised_last:.2f} and {pairs_raised_last:.2f} at {highest:g}, and up to {negatives_raised_most:.2f} and"
        " {pairs_raised_most:.2f} between, which is where the paper's tables have their best too. {n} seeds.",
        by_temperature,
        lambda x: all(
            x[f"{m}_low_peak"] == x["lowest"]
            and x[f"{m}_low_first"] > x[f"{m}_low_last"] + 0.05
            and x[f"{m}_raised_most"] > max(x[f"{m}_raised_first"], x[f"{m}_raised_last"]) + 0.02
            and x["lowest"] < x[f"{m}_paper"] < x["highest"]
            for m in map(_short, METHODS)
        ),
        searched,
        levels=True,
    ),
    "model_selection": Finding(
        "2026-11-24",
        "validation accuracy goes with Test-ID, at {seen:.2f}, more closely than with Test-OOD, at {unseen:.2f} (method by method"
        " from {least:.2f}, {least_of}, to {most:.2f}, {most_of}): correlations over {cells} configurations, each less the mean of its method. But two seeds of one configuration agree on Test-OOD at {agree:.2f} only. The"
        " paper says that many of its methods' models exceed {line:.2f} there; none of {runs} runs does with 1 % of the labels in its mean over draws of"
        " them (the best has {highest:.2f}), and {above} of {draws:,} single draws do. {n} seeds, the oracle aside.",
        by_validation,
        lambda x: x["seen"] > 0.8 > x["unseen"] + 0.15 and x["agree"] < 0.5 and x["highest"] <= x["line"] and x["above"] < 0.05 * x["draws"],
        searched,
        levels=True,
    ),
    "effective_temperature": Finding(
        "2026-11-24",
        "temperatures converge as the paper draws them: the range that holds nine tenths of them shrinks from {first:.3f} at the"
        " first epoch to {last:.3f} at the last, around {median:.3f}, with tau_alpha {center:g}. In {wider} of {n} seeds by less"
        " than half, which leaves that part of the claim open. No pair of this cell comes below {reached:.3f}, so that both levels of tau_min"
        " are the same runs.",
        convergence,
        lambda x: x["last"] < 0.6 * x["first"] and abs(x["median"] - x["center"]) < 0.1 * x["center"] and 0 < x["wider"] < x["n"]
        and x["reached"] > max(core.TAU_MINS),
    ),
    "projector_head": Finding(
        "2026-11-24",
        "a projector head does harm on the training colours, as the paper says: without one Test-ID is {linear_mean:.3f}"
        " [{linear_low:.3f}, {linear_high:.3f}] higher than behind a linear one and {mlp_mean:.3f} [{mlp_low:.3f}, {mlp_high:.3f}] than"
        " behind an MLP, averaged over their dimensions. On the unseen colour {n} seeds cannot tell. Behind an MLP a probe names the domain"
        " more often ({mlp_told:.2f}) than without ({none_told:.2f}), each at its selected temperature; behind a linear head"
        " ({linear_told:.2f}) that cannot be told; that it rises with the head's dimension is not"
        " seen: {linear_slope_mean:+.3f} [{linear_slope_low:+.3f}, {linear_slope_high:+.3f}] and {mlp_slope_mean:+.3f}"
        " [{mlp_slope_low:+.3f}, {mlp_slope_high:+.3f}] a doubling.",
        headed,
        lambda x: min(x["linear_low"], x["mlp_low"]) > 0
        and all(x[f"{kind}_unseen_low"] < 0 < x[f"{kind}_unseen_high"] for kind in PROJECTORS)
        and all(x[f"{kind}_slope_low"] < 0 < x[f"{kind}_slope_high"] for kind in PROJECTORS)
        and x["mlp_more_low"] > 0 and x["linear_more_low"] < 0 < x["linear_more_high"],
    ),
    "weight_choices": Finding(
        "2026-11-23",
        "tau_min, which the paper does not tell, matters. With {raised:g} in place of {lowest:g} Test-ID of what is selected under each rises by"
        " {negatives_moved:.3f} [{negatives_moved_low:.3f}, {negatives_moved_high:.3f}] for weighted negatives and by"
        " {pairs_moved:.3f} [{pairs_moved_low:.3f}, {pairs_moved_high:.3f}] for weighted pairs ({n} seeds of the first reading; the cell changes with"
        " the level).",
        floors,
        lambda x: x["negatives_moved_low"] > 0 and x["pairs_moved_low"] > 0,
        lambda run: weight_choices.choice_of(run.protocol) in ("default", RAISED),
        preset="first",
    ),
    "calibration": Finding(
        "2026-11-23",
        "none of sixteen readings fits as the authors' own would, with a misfit of about one. The rule takes {taken}, at {misfit:.2f};"
        " the first reading has {first:.2f}. It hangs on a tie-break that was changed on the way: {rival} has the smaller misfit,"
        " {its:.2f}, which just counts as alike (within {within:.2f}), and the baseline decided. Under {taken} Standard CL's Test-ID fits:"
        " {few:.2f}, {some:.2f} and {all:.2f} with 1, 10 and 100 % of the labels, where {few_reported:.2f}, {some_reported:.2f} and"
        " {all_reported:.2f} are reported. Its D-Test-ID ({domain:.2f}, reported {domain_reported:.2f}) and Test-OOD at 1 %"
        " ({unseen:.2f}, reported {unseen_reported:.2f}) do not. {inside} of {of} reported numbers lie inside, as many as under {rival}.",
        reading,
        lambda x: x["settled"] and x["few_inside"] and x["some_inside"] and x["all_inside"] and not x["domain_inside"] and not x["unseen_inside"] and x["inside"] == x["its_inside"]
        and x["its"] < x["misfit"] < x["first"],
    ),
    "heads_and_temperatures": Finding(
        "2026-11-23",
        "on digits of the training colours knowing the domain seems to help, and more behind a head. Beside the standard loss at"
        " {lower:g}, the lowest temperature that they give any pair, weighted pairs at tau_alpha {tau:g} have {pairs_lower_mean:.3f}"
        " [{pairs_lower_low:.3f}, {pairs_lower_high:.3f}] more on Test-ID without a head and {pairs_behind_mean:.2f}"
        " [{pairs_behind_low:.2f}, {pairs_behind_high:.2f}] behind one; weighted negatives {negatives_lower_mean:.3f}"
        " [{negatives_lower_low:.3f}, {negatives_lower_high:.3f}], no clear lead, and {negatives_behind_mean:.2f}"
        " [{negatives_behind_low:.2f}, {negatives_behind_high:.2f}]. At tau_alpha {higher_tau:g} no such lead is seen. On the unseen colour, without a head, neither can be told. MACL"
        " ({macl:.2f}) and iSogCLR ({isogclr:.2f}), which know no domain, stay below the standard loss ({plain:.2f}) at their published"
        " settings. A head's output hides the domain better than the backbone that people keep: a probe names it with"
        " {negatives_head:.2f} against {negatives_backbone:.2f} (negatives) and {pairs_head:.2f} against {pairs_backbone:.2f} (pairs)."
        " {n} seeds; the intervals are not corrected for being many.",
        behind_a_head,
        lambda x: x["pairs_lower_low"] > 0 and x["negatives_lower_low"] < 0 < x["negatives_lower_high"]
        and min(x["pairs_behind_low"], x["negatives_behind_low"]) > 0
        and x["pairs_behind_mean"] > x["pairs_lower_mean"] and x["negatives_behind_mean"] > x["negatives_lower_mean"]
        and all(x[f"{name}_{what}_low"] < 0 < x[f"{name}_{what}_high"] for name in ("pairs", "negatives") for what in ("unseen", "higher", "higher_behind"))
        and max(x["macl_same_high"], x["isogclr_same_high"]) < 0
        and min(x["pairs_kept_low"], x["negatives_kept_low"]) > 0,
    ),
    "encoders": Finding(
        "2026-11-24",
        "no link is seen between hiding the domain and accuracy on the unseen colour. Over the {n} runs of the search with tau_min {level:g} (the"
        " tables below have more) the two"
        " correlate by {unseen:+.2f} [{unseen_low:+.2f}, {unseen_high:+.2f}], within methods by {unseen_within:+.2f}. On the training"
        " colours runs that hide the domain better are a little more accurate: D-Test-ID and Test-ID correlate by {seen:+.2f}"
        " [{seen_low:+.2f}, {seen_high:+.2f}], within methods by {seen_within:+.2f}. {seeds} seeds, the oracle aside.",
        hiding,
        lambda x: x["unseen_low"] < 0 < x["unseen_high"] and abs(x["unseen_within"]) < 0.2
        and x["seen_high"] < 0 and x["seen_within_high"] < 0,
        searched,
    ),
}  # fmt: skip

PAGES: Mapping[str, Finding] = {  # by page, of what it shows beside the runs of a chapter
    "effects": Finding(
        "2026-11-24",
        "with whom the proposed methods are compared decides much. Of {standard} comparisons with the standard loss on {seeds} seeds or more"
        " they lead on Test-ID in {standard_led}, in {standard_clear} with an interval above zero; of {best} with the best baseline in"
        " {best_led}, and in {best_clear} so, each with the higher tau_min or where colours spread most (sigma {widest:g}); in {best_behind}"
        " they clearly trail it.",
        compared,
        lambda x: x["standard_led"] / x["standard"] > x["best_led"] / x["best"] + 0.15
        and x["best_clear"] == x["best_special"] > 0
        and x["best_behind"] > 0,
    ),
    "speed": Finding(
        "2026-11-23",
        "the whole paper, {runs:,} pre-trainings of {epochs} epochs, is {hours:.0f} hours of one core of this {machine} (multiplied, not"
        " run). On {threads} cores the paper's mix of runs trains {mixed:.0f} times as fast as a loop that one writes first, stacks of"
        " the standard loss up to {alone:.0f} times. {met} of the {set} targets for CPUs are met; those of one core suppose"
        " twice the multipliers that this one has. No GPU was at hand.",
        pace,
        lambda x: x["mixed"] > 20 and x["met"] < x["set"] and x["no_gpu"],
    ),
    "trust": Finding(
        "2026-11-23",
        "{identical} of {again} rows that were trained again in their stacks came out bit for bit. Over all versions of the code that were"
        " tried, {kills:,} kills of a trainer cost no run, and of {tries:,} damaged files, odd commands and ill-timed stops {silent} changed a number in silence and {failed} ended unexplained.",
        tried,
        lambda x: x["identical"] == x["again"] and x["silent"] == x["failed"] == 0,
    ),
}  # fmt: skip
