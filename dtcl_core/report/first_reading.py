"""What the appendix on the first reading shows: how far single choices move an accuracy, beside what chance moves it."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Mapping, Sequence

import pandas as pd

from ..analysis import claims, first_verdicts, selection, sensitivity
from ..analysis.contrasts import MIN_SEEDS, PROPOSED, SHORT
from ..analysis.intervals import paired_difference
from ..config import Protocol, Run
from ..data import LABEL_FRACTIONS
from ..experiments import open_choices
from ..experiments.readings import FIRST
from . import tables

NAMES = {"standard": "Standard CL", "color_jitter": "Oracle", "collapse": "Collapse"}
TITLES = {
    "standard": "Standard CL",
    "color_jitter": "Colour jitter (oracle)",
    "collapse": r"Pairs at $\tau_\alpha = 1$",
}


def counted(preset: str, runs: Sequence[Run], measured: pd.DataFrame, parts: dict[str, pd.DataFrame]) -> str:
    """How many networks and runs there are, and which parts they make up."""
    trained = {run.training.key for run in runs}
    have = {run.training.key for run in runs if run.key in set(measured.key)}
    lines = [
        f"Preset {preset}: {len(have)} of {len(trained)} networks trained, each probed in up to"
        f" {len(open_choices.PROBES)} ways;",
        f"{measured.key.nunique()} of {len(runs)} runs exist.",
    ]
    for name, part in parts.items():
        if len(part):
            seeds = sorted(set(part.seed))
            lines.append(f"{name}: {part.epochs.iloc[0]} epochs, {part.variation.nunique()} variations, seeds {seeds}")
    return "\n".join(lines)


def largest(short: pd.DataFrame, probe: str) -> pd.DataFrame:
    """The largest difference that a choice makes to each accuracy of each group, paired by seed, and whose it is."""
    moved = sensitivity.changes(short, probe)
    moved = moved[~moved.variation.isin(open_choices.YARDSTICKS)]
    lines = []
    for (group, metric), part in moved.groupby(["group", "metric"], sort=False):
        most = part.loc[part.moved.abs().idxmax()]
        lines.append((NAMES[group], metric, most.base, most.moved, most.variation, len(part), most.n))
    return pd.DataFrame(lines, columns=["group", "metric", "from", "largest", "whose", "of", "n"])


def yardsticks(short: pd.DataFrame, probe: str) -> pd.DataFrame:
    """What moves an accuracy and is no choice of training: the start trained again, with other labels, probed otherwise, by seed."""
    moved = sensitivity.changes(short, probe)
    yard = moved[moved.variation.isin(open_choices.YARDSTICKS)]
    yard = yard.pivot(index=["group", "metric"], columns="variation", values="moved")
    yard = yard.reindex(columns=list(open_choices.YARDSTICKS))
    paired = short.seed.isin(set(short[short.variation != "start"].seed))  # the seeds that choices were tried on
    start = short[paired & (short.variation == "start")]
    ways = {way: sensitivity.by_variation(start, way, sensitivity.TAU) for way in open_choices.PROBES}
    own = ways[probe].set_index(["group", "metric"])["mean"]
    probed = pd.concat(ways.values()).groupby(["group", "metric"])["mean"].agg(list)
    yard["probed"] = [max(abs(value - own[key]) for value in probed[key]) for key in yard.index]
    spread = sensitivity.spread(short[short.probe == probe]).set_index(["group", "metric"])
    yard = yard.join(spread).reindex([key for key in own.index if key in yard.index]).reset_index()
    return yard.assign(group=yard.group.map(NAMES))


def beyond(most: pd.DataFrame, yard: pd.DataFrame) -> str:
    """Where the largest difference (`largest`) is beyond every yardstick (`yardsticks`)."""
    names = [*open_choices.YARDSTICKS, "probed", "range"]
    both = most.merge(yard, on=["group", "metric"]).dropna(subset=names)
    far = both[both.largest.abs() > both[names].abs().max(axis=1)]
    lines = [f"In {len(far)} of {len(both)} that have all of them the largest difference is beyond every yardstick:"]
    return "\n".join([*lines, *(f"    {line.group}, {SHORT[line.metric]}: {line.whose}" for line in far.itertuples())])


def decision(full: pd.DataFrame) -> str:
    """Which of the finalists the rule takes."""
    ranked = sensitivity.ranking(sensitivity.at_freeze(full))
    taken = sensitivity.decide(ranked)
    alike = (ranked.misfit <= ranked.misfit.min() + sensitivity.ALIKE).sum()
    return (
        f"{alike} of {len(ranked)} are within {sensitivity.ALIKE} of the smallest misfit; closest to the start is\n"
        f"{taken.variation}, {taken.probe} embeddings (misfit {taken.misfit:.3f}, {taken.n} seeds)"
    )


def order_kept(short: pd.DataFrame, full: pd.DataFrame) -> str:
    """How many of the short runs were there when the second finalist's full ones began, and which fits best with all."""
    _, second = open_choices.FINALISTS
    theirs = full[full.variation == second]
    if theirs.empty or short.empty:
        return "No full runs of a second finalist."
    first = theirs.sort_values("created").iloc[0]
    begun = pd.Timestamp(first.created) - pd.Timedelta(
        seconds=first.seconds * first.stack
    )  # later than that it was not
    field = sensitivity.at_freeze(short)
    named = field[field.variation.isin([v.name for v in open_choices.VARIATIONS])]
    done = pd.to_datetime(named.groupby("variation").created.max(), format="ISO8601") < begun
    lines = [f"Full runs of '{second}' began with the short ones of", f"{done.sum()} of {len(done)} variations stored."]
    lines += [f"With all of them, the best short one is '{b}'." for b in sensitivity.ranking(field).variation.head(1)]
    return "\n".join(lines)


def terms_of_start(full: pd.DataFrame, probe: str) -> list[float]:
    """The term of standard contrastive learning in the start's misfit, one a seed."""
    start = full[(full.variation == "start") & (full.probe == probe)]
    found = [sensitivity.misfit(part) for _, part in start.groupby("seed")]
    found = [table[table.group == "standard"] for table in found]
    return [(table.measured - table.reported).abs().mean() for table in found if len(table)]


def by_seed(full: pd.DataFrame, probe: str) -> str:
    """How far the misfit's term of standard contrastive learning moves from seed to seed; empty for fewer than two."""
    terms = terms_of_start(full, probe)
    if len(terms) < 2:
        return ""
    return (
        f"Standard CL's term of the start's misfit, by seed:\n{', '.join(f'{term:.3f}' for term in terms)};\n"
        f"a third of its range is {(max(terms) - min(terms)) / 3:.3f}, what counts as alike {sensitivity.ALIKE}."
    )


def outside(part: pd.DataFrame) -> str:
    """How many reported accuracies lie outside the interval of the measured ones, of those on three seeds or more, if any."""
    part = part[part.n > 2]
    if part.empty:
        return ""
    far = ((part.reported < part.low) | (part.reported > part.high)).sum()
    return f"Measured on three seeds or more: {far} of {len(part)} reported lie outside the interval.\n"


def largest_elsewhere(unseen: pd.DataFrame) -> pd.DataFrame:
    """As `largest`, of the choices and cells that the calibration does not see, beside the start's range over seeds."""
    start, found = open_choices.UNCHANGED.name, sensitivity.unseen_effects(unseen)
    wide = sensitivity.spread(unseen).set_index(["group", "metric"])
    changed = found[found.variation != start].dropna(subset="moved")
    lines = []
    for (cell, metric), part in changed.groupby(["group", "metric"], sort=False):
        most = part.loc[part.moved.abs().idxmax()]
        range_ = wide.range.get((cell, metric))
        lines.append((cell, metric, most.start, range_, most.moved, most.variation, len(part)))
    return pd.DataFrame(lines, columns=["cell", "metric", "start", "range", "largest", "whose", "of"])


def seeds_elsewhere(unseen: pd.DataFrame) -> str:
    """On how many seeds the start and the choices of `largest_elsewhere` rest; empty without any."""
    start, found = open_choices.UNCHANGED.name, sensitivity.unseen_effects(unseen)
    changed, started = found[found.variation != start].dropna(subset="moved"), found[found.variation == start]
    if changed.empty or started.empty:
        return ""
    seeds = [" to ".join(map(str, sorted({part.min(), part.max()}))) for part in (started.n, changed.moved_n)]
    return f"Seeds: {seeds[0]} of the start, {seeds[1]} of each choice."


def fields(rows: pd.DataFrame, lengths: bool) -> str:
    """The fields of `Protocol` by whether something that was run changes them; `lengths`: runs of several lengths are there."""
    default = FIRST
    stored = [v for v in open_choices.ALL if v.name in set(rows.variation)]
    tried = [v.protocol(default.epochs, other) for v in stored for other in open_choices.PROBES]
    names = [field.name for field in dataclasses.fields(Protocol)]
    varied = [name for name in names if any(getattr(p, name) != getattr(default, name) for p in tried)]
    varied += ["epoch_selection"] if lengths else []
    others = [name for name in names if name not in {*varied, *open_choices.STATED}]
    lines = []
    parts = {"open and varied": varied, "open and not varied": others, "stated by the paper": open_choices.STATED}
    for what, part in parts.items():
        lines.append(f"{len(part)} {what}{':' if part else ''}")
        lines += textwrap.wrap(", ".join(part), 78, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines)


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
        first, second = (claims.judge(e, range(1, 7)) for e in both.values())
        lines.append(first_verdicts.otherwise(first, second, ("default", "other"), epochs))
        for cell in selection.select(other[other.method.isin(methods) & (other.sigma == 50.0)]).itertuples():
            if cell.discriminator == "global":
                picked = f"{cell.tau_alpha:g}/{cell.tau_beta:g}"
                lines.append(f"{tables.title(cell.method)}: validation selects {picked} then.")
        lines.append(leads(both, methods))
    return "\n".join(lines)
