"""The numbers of findings about temperatures, heads, encoders and readings, and of pages that show files instead of runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ... import results
from ...analysis import (
    calibration,
    contrasts,
    learned,
    selection,
    sensitivity,
    specifications,
    unstated,
    weight_effects,
    whole_grid,
)
from ...analysis.claims import CLAIMS
from ...config import Protocol
from ...experiments import core, readings, weight_choices
from ...results import default_store
from .. import benchmarked, first_reading, heads, levels, losses_elsewhere, notebook, tables
from .comparisons import rematched
from .finding import FRACTIONS, LEVELS, METHODS, PRESET, Numbers, Rows, named, short

OWN_FIRST_SEED = 110  # of the chapter on losses: those before were looked at while its code was written
GRADIENT = "weight gradient"  # of `core.UNSTATED`
RAISED = "tau_min 0.05"  # of `weight_choices.CHOICES`
TAU, LOWER_TAU, HIGHER_TAU = 0.1, 0.05, 0.15  # of `adaptive`
PROJECTORS = ("linear", "mlp")


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
            numbers |= named(name, pd.Series(found[what]._asdict()))
        numbers["n"] = found[names[kind]].n
    picked = selection.rows_of(rows.measured, selection.select(rows.measured))
    some = picked[picked.label_fraction == FRACTIONS["some"]]
    told = (
        some.assign(projector=some.projector.fillna("none")).groupby(["seed", "projector"]).d_test_id.mean().unstack()
    )
    for kind in PROJECTORS:
        more = contrasts.mean_interval((told[kind] - told["none"]).tolist())
        numbers |= named(f"{kind}_more", pd.Series(more._asdict()))
    return numbers | {f"{kind}_told": told[kind].mean() for kind in ("none", *PROJECTORS)}


def outside_the_exponent(rows: Rows) -> Numbers:
    """What a weight outside the exponent, and one in the temperature, add to the standard loss, paired by seed; by level of tau_min."""
    numbers: dict[str, Any] = {}
    single = rows.measured[rows.measured.label_fraction == selection.SELECTION_FRACTION]
    for level, tau_min in LEVELS.items():
        numbers[f"level_{level}"] = tau_min
        mine = single[single.key.isin({run.key for run in levels.at_level(rows.runs, tau_min)})]
        for name, metric in {"seen": "test_id", "unseen": "test_ood", "domain": "d_test_id"}.items():
            table = mine.pivot_table(metric, "seed", "method")
            for kind, method in {"outside": "dw_outside", "inside": "dw_negatives"}.items():
                interval = contrasts.mean_interval((table[method] - table["standard"]).dropna().tolist())
                numbers |= named(f"{kind}_{level}_{name}", pd.Series(interval._asdict())) | {"n": interval.n}
    return numbers


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
        numbers[short(method)] = mean[tables.title(method), TAU]
        for name, table in more.items():
            numbers |= named(
                f"{short(method)}_{name}", table[table.tau_alpha == TAU].set_index("method").loc[tables.title(method)]
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
            numbers |= named(f"{short(method)}_{name}", at)
        for name, table in {
            "higher": heads.beside_standard(bare, "test_id", LOWER_TAU),
            "higher_behind": beside["behind"],
        }.items():
            at = table[table.tau_alpha == HIGHER_TAU].set_index("method").loc[tables.title(method)]
            numbers |= named(f"{short(method)}_{name}", at) | {"higher_tau": HIGHER_TAU}
        numbers |= {f"{short(method)}_{place}": told[tables.title(method), place, TAU] for place in heads.PLACES}
    return numbers


def reading(rows: Rows) -> Numbers:
    """How far from the paper the reading is that the rule takes, beside the first and the runner-up; its baseline's accuracies."""
    choice = calibration.choice(notebook.rows_of(rows.preset), rows.runs[0].protocol)
    misfit = choice.summary.set_index("candidate").misfit
    others = [each for name, each in choice.tables.items() if name != choice.taken]
    found = calibration.prediction_intervals(choice.tables[str(choice.taken)], others=others)
    rival = misfit.drop([choice.taken, readings.FIRST_READING.name]).index[0]
    numbers: dict[str, Any] = {
        "readings": len(choice.first), "least": min(choice.first.min(), misfit.min()), "taken": choice.taken, "misfit": misfit[choice.taken], "first": misfit[readings.FIRST_READING.name],
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


def compared(_: Rows) -> Numbers:
    """In how many comparisons of three seeds or more a proposed method leads on Test-ID, and with an interval above zero."""
    found = specifications.effects(
        results.load(), specifications.protocols(default_store(PRESET).rows(shared=True).values())
    )
    found = found[(found.metric == "test_id") & (found.n >= contrasts.MIN_SEEDS)]
    alone = [specifications.name_of(replace(Protocol(), **changes)) for changes in core.UNSTATED.values()]
    found = found[~found.specification.str.partition(";")[0].isin([", ".join(name) for name in alone])]
    numbers: dict[str, Any] = {}
    for name, against in {"standard": "standard", "best": "best baseline"}.items():
        mine = found[found.against == against]
        numbers |= {name: len(mine), f"{name}_led": (mine["mean"] > 0).sum(), f"{name}_clear": (mine.low > 0).sum()}
        numbers[f"{name}_behind"] = (mine.high < 0).sum()
        special = mine.specification.str.contains(f"{RAISED}|sigma {max(core.SIGMAS):g}\\b")
        numbers[f"{name}_special"] = ((mine.low > 0) & special).sum()
    return numbers | {"seeds": contrasts.MIN_SEEDS, "widest": max(core.SIGMAS)}


def outside_the_strips(rows: Rows) -> Numbers:
    """How rivals from outside the strips do on fresh seeds beside what the strips selected, on Test-ID (`whole_grid.rivals`), and
    the rematch (`rematched`)."""
    found = whole_grid.rivals(rows.measured, rows.runs)
    told = found[found.metric == whole_grid.DECIDING]
    there = {run.method for run in rows.runs}
    best = told.loc[told.difference.idxmax()]
    return rematched() | named("best", best.rename({"difference": "mean"})) | {
        "methods": len(there), "all": len(whole_grid.METHODS), "rivals": len(told), "n": int(told.n.min()),
        "short": int((told.short == "yes").sum()), "whose": tables.title(best.method), "least": told.difference.min(),
        **{f"level_{name}": level for name, level in LEVELS.items()},
        "farthest": max(told.high.max(), -told.low.min()),
        "clear": int(((told.low > 0) | (told.high < 0)).sum()),
    }  # fmt: skip


def left_open(rows: Rows) -> Numbers:
    """What the unstated choices about the weight move (`unstated.effects`): the gradient's path, and the others together."""
    found = unstated.effects(rows.measured, rows.runs)
    changed = found[(found.choice != unstated.AS_IT_IS) & (found.metric == unstated.DECIDING)]
    numbers: dict[str, Any] = {
        "tested": len(changed), "moving": int((changed.moves == "yes").sum()), "choices": changed.choice.nunique(),
        "all": len(core.UNSTATED), "n": int(changed.n.min()), "level": Protocol().tau_min,
    }  # fmt: skip
    for method in METHODS:
        name, others = short(method), changed[(changed.method == method) & (changed.choice != GRADIENT)]
        numbers |= {f"{name}_rest_least": others.moved.min(), f"{name}_rest_most": others.moved.max()}
        for metric, place in {"test_id": "seen", "test_ood": "unseen"}.items():
            one = found[(found.choice == GRADIENT) & (found.method == method) & (found.metric == metric)].iloc[0]
            numbers |= named(f"{name}_{place}", one.rename({"moved": "mean"}))
            numbers |= {
                f"{name}_{place}_before": one.before,
                f"{name}_{place}_after": one.after,
                f"{name}_{place}_moves": one.moves,
            }
    return numbers


def elsewhere(_: Rows) -> Numbers:
    """What the losses bring on another data set (the chapter on them): differences to InfoNCE, and how often the first seeds told more."""
    found, plain = losses_elsewhere.fullest(), losses_elsewhere.PLAIN
    later = {True: "", False: "_before"}
    numbers: dict[str, Any] = {}
    for settled, part in found.groupby(found.seed >= OWN_FIRST_SEED):
        for metric in losses_elsewhere.PROBED:
            by = part.pivot(index="seed", columns="loss", values=metric)
            told = [contrasts.mean_interval((by[loss] - by[plain]).tolist()) for loss in by if loss != plain]
            name = f"{metric}{later[bool(settled)]}"
            numbers |= {f"{name}_least": min(d.mean for d in told), f"{name}_most": max(d.mean for d in told)}
            numbers |= {f"{name}_clear": sum(d.low > 0 or d.high < 0 for d in told), "losses": len(told)}
            means = by.mean()
            numbers |= {f"{name}_plain": means[plain], f"{name}_low": means.drop(plain).min()}
            numbers |= {f"{name}_high": means.drop(plain).max(), f"n{later[bool(settled)]}": len(by)}
    return numbers


def kept(_: Rows) -> Numbers:
    """How near to each other the finalists of the first reading fit, and how far seeds move the start's misfit."""
    runs, measured = notebook.obtain("sensitivity", "first", False, "auto")
    full = sensitivity.portions(sensitivity.with_choices(measured, runs)).full
    ranked = sensitivity.ranking(sensitivity.at_freeze(full))
    terms = first_reading.terms_of_start(full, "raw")
    return {
        "alike": int((ranked.misfit <= ranked.misfit.min() + sensitivity.ALIKE).sum()), "finalists": len(ranked),
        "within": sensitivity.ALIKE, "n": int(ranked.n.min()), "seeds": len(terms), "noise": (max(terms) - min(terms)) / len(sensitivity.GROUPS),
    }  # fmt: skip


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
    audits = benchmarked.audits()
    faults, fuzz = benchmarked.load("faults"), benchmarked.load("fuzz")
    return {
        "again": len(audits), "identical": int(audits.identical.sum()), "epochs": " and ".join(map(str, sorted(audits.epochs.unique()))), "kills": int(faults.kills.sum()),
        "tries": int(fuzz.tries.sum()), "silent": int(fuzz.silent.sum()), "failed": int(fuzz.failed.sum()),
    }  # fmt: skip
