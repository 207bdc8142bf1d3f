"""What the appendix on the first reading shows: how far single choices move an accuracy, beside what chance moves it."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Sequence

import pandas as pd

from ..analysis import reported, selection, sensitivity
from ..analysis.contrasts import SHORT
from ..config import Protocol, Run
from ..experiments import open_choices
from ..experiments.readings import FIRST
from ..methods import ALL_METHODS
from . import figures, notebook

COLLAPSE = open_choices.COLLAPSE
NAMES = {
    "standard": ALL_METHODS["standard"].title,
    "color_jitter": ALL_METHODS["color_jitter"].title,
    "collapse": f"{ALL_METHODS[str(COLLAPSE['method'])].title} at {COLLAPSE['tau_alpha']:g}, {COLLAPSE['tau_beta']:g}",
}  # what each group of reported numbers is about; of the collapse the cell that was measured, tau_alpha and tau_beta
CELLS = sensitivity.cell_titles()
METRICS = sensitivity.GROUPS["standard"]


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


def draw_choices(short: pd.DataFrame, probe: str, save: str | None) -> None:
    """Draw what single choices do to the numbers that calibration may look at, and write it to a folder if asked to.

    Args:
        short: of `sensitivity.portions`.
        probe: whose rows.
        save: a folder, or None.
    """
    titles = {
        "standard": NAMES["standard"],
        "color_jitter": _folded(NAMES["color_jitter"], " w/"),
        "collapse": _folded(NAMES["collapse"]),
    }
    found = sensitivity.by_variation(short, probe, sensitivity.TAU)
    epochs = max(short.epochs, default=open_choices.SHORT_EPOCHS)
    figures.save(figures.open_choices(found, titles, epochs), "sensitivity", save)


def _folded(title: str, at: str = " at ") -> str:
    """A title in two lines, the second of which begins with a word."""
    return title.replace(at, "\n" + at.lstrip())


def every_choice(short: pd.DataFrame, probe: str) -> pd.DataFrame:
    """Every number behind the figure of `draw_choices`, see `sensitivity.by_variation`; groups have their `NAMES`."""
    found = sensitivity.by_variation(short, probe, sensitivity.TAU)
    return found.assign(group=found.group.map(NAMES))


def best_fits(short: pd.DataFrame, lines: int = 12) -> pd.DataFrame:
    """The variations that fit best in short runs, see `sensitivity.ranking`, each group's term under its name."""
    ranked = sensitivity.ranking(sensitivity.at_freeze(short))
    return ranked.head(lines).drop(columns="cost").rename(columns=NAMES)


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


def show_finalists(full: pd.DataFrame) -> None:
    """Display the misfits of full runs and which of them the rule takes; nothing without full runs."""
    ranked = sensitivity.ranking(sensitivity.at_freeze(full))
    if len(ranked):
        notebook.show(ranked.drop(columns=list(sensitivity.GROUPS)))
        print(decision(full))


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


def show_fits(full: pd.DataFrame, probe: str) -> None:
    """Display what each variation of full runs measures beside what is reported, how much lies outside, and near-ties."""
    fitted = sensitivity.by_variation(full, probe)
    for name, part in fitted.groupby("variation", sort=False):
        notebook.show(part.drop(columns="variation").assign(group=part.group.map(NAMES)), title=f"{name}:")
        mine = full[(full.variation == name) & (full.probe == probe)]
        if told := "\n".join(filter(None, [outside(part), near_ties(mine)])):
            print(told)


def near_ties(rows: pd.DataFrame) -> str:
    """Where validation hardly prefers the selected temperature to another, and what that decides; empty where it clearly does.

    Args:
        rows: of one variation and probe, at several temperatures of a method.
    """
    plain = rows[rows.method.isin([name for name in NAMES if name in ALL_METHODS])]
    close = selection.runners_up(plain, METRICS)
    lines = []
    for place in range(0, len(close), 2):
        taken, other = close.iloc[place], close.iloc[place + 1]
        n = selection.compared(plain[plain.method == taken.method]).seed.nunique()
        lines.append(
            f"A near-tie decides {ALL_METHODS[taken.method].title}: validation takes {taken.tau_alpha:g} over"
            f" {other.tau_alpha:g} by {taken.validation - other.validation:.3f} (n = {n}):"
        )
        lines.append("    " + "; ".join(f"{SHORT[m]} {taken[m]:.3f}, not {other[m]:.3f}" for m in METRICS))
    return "\n".join(lines)


def outside(part: pd.DataFrame) -> str:
    """How many reported accuracies lie outside the interval of the measured ones, of those on three seeds or more, if any."""
    part = part[part.n > 2]
    if part.empty:
        return ""
    far = ((part.reported < part.low) | (part.reported > part.high)).sum()
    return f"Measured on three seeds or more: {far} of {len(part)} reported lie outside the interval."


def largest_elsewhere(unseen: pd.DataFrame) -> pd.DataFrame:
    """As `largest`, of the choices and cells that the calibration does not see, beside the start's range over seeds.

    Returns:
        Columns: cell (its title in `CELLS`), metric, start, range, largest, whose, of.
    """
    start, found = open_choices.UNCHANGED.name, sensitivity.unseen_effects(unseen)
    wide = sensitivity.spread(unseen).set_index(["group", "metric"])
    changed = found[found.variation != start].dropna(subset="moved")
    lines = []
    for (cell, metric), part in changed.groupby(["group", "metric"], sort=False):
        most = part.loc[part.moved.abs().idxmax()]
        range_ = wide.range.get((cell, metric))
        lines.append((CELLS[cell], metric, most.start, range_, most.moved, most.variation, len(part)))
    return pd.DataFrame(lines, columns=["cell", "metric", "start", "range", "largest", "whose", "of"])


def seeds_elsewhere(unseen: pd.DataFrame) -> str:
    """On how many seeds the start and the choices of `largest_elsewhere` rest; empty without any."""
    start, found = open_choices.UNCHANGED.name, sensitivity.unseen_effects(unseen)
    changed, started = found[found.variation != start].dropna(subset="moved"), found[found.variation == start]
    if changed.empty or started.empty:
        return ""
    seeds = [" to ".join(map(str, sorted({part.min(), part.max()}))) for part in (started.n, changed.moved_n)]
    return f"Seeds: {seeds[0]} of the start, {seeds[1]} of each choice."


def draw_elsewhere(unseen: pd.DataFrame, cells: Sequence[str], name: str, save: str | None) -> None:
    """Draw what choices that the calibration does not see do in some cells, if there are any rows of them.

    Args:
        unseen: of `sensitivity.portions`.
        cells: keys of `open_choices.CELLS`.
        name: of the file.
        save: a folder, or None.
    """
    found, titles = sensitivity.unseen_effects(unseen), {cell: _folded(CELLS[cell]) for cell in cells}
    shown = found[found.group.isin(list(cells))]
    if len(shown):
        epochs = max(unseen.epochs, default=open_choices.SHORT_EPOCHS)
        figures.save(figures.open_choices(shown, titles, epochs, "start"), name, save)


def every_elsewhere(unseen: pd.DataFrame) -> pd.DataFrame:
    """Every number behind the figures of `draw_elsewhere`: columns variation, cell, metric, start, mean, n and moved."""
    found = sensitivity.unseen_effects(unseen).rename(columns={"group": "cell"})
    return found.assign(cell=found.cell.map(CELLS)).drop(columns=["low", "high", "moved_n"])


def reported_collapse() -> str:
    """What the paper reports of the one cell among `CELLS` that calibration could have looked at."""
    cell = open_choices.CELLS["collapsed"]
    paper = reported.collapse()
    here = paper[(paper.method == cell["method"]) & (paper.tau_beta == cell["tau_beta"])].set_index("metric").value
    told = ", ".join(f"{SHORT[metric]} {here[metric]:.3f}" for metric in sensitivity.GROUPS["collapse"])
    return f"Reported of {CELLS['collapsed']}: {told}"


def show_lengths(lengths: pd.DataFrame) -> None:
    """Display the length of training that validation would take, what each accuracy gains there, and how often it is the last.

    Args:
        lengths: of `sensitivity.portions`.
    """
    print(f"Lengths tried: {', '.join(map(str, open_choices.LENGTHS))} epochs.")
    chosen = sensitivity.validated_epoch(lengths)
    if chosen.empty:
        print("No run has all lengths yet.")
        return
    gained = {metric: chosen[metric] - chosen[f"{metric}_last"] for metric in ("validation", *METRICS)}
    notebook.show(chosen[["method", "tau_alpha", "seed", "epoch"]].assign(**gained))
    print(
        f"The last epoch is the validated one in {(chosen.epoch == open_choices.FULL_EPOCHS).sum()} of {len(chosen)}."
    )


def fields(rows: pd.DataFrame) -> str:
    """The fields of `Protocol` by whether something that was run changes them, be it the length of training."""
    default, lengths = FIRST, len(sensitivity.validated_epoch(sensitivity.portions(rows).lengths)) > 0
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
