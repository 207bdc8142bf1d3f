"""What the chapter on choices about the weight shows, from `analysis.weight_effects`: which were run, what they move, and a cell off
the floor."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pandas as pd

from ..analysis import weight_effects
from ..config import Protocol, Run
from ..experiments.readings import FIRST
from ..experiments.weight_choices import CHOICES, PAPER_CELLS, REFERENCES, choice_of
from . import notebook, tables

TITLES = {method: tables.title(method) for method in PAPER_CELLS}
ABOUT = ("discriminator", "posterior", "weight", "tau_min")  # how the names of fields about the weight begin
UNCHANGED = "the protocol as it is"


def changed(choice: str) -> str:
    """What one of `CHOICES` sets otherwise, in words."""
    changes = CHOICES[choice].items()
    return ", ".join(f"{field} = {value} instead of {getattr(FIRST, field)}" for field, value in changes) or UNCHANGED


def there(runs: Sequence[Run], measured: pd.DataFrame) -> pd.DataFrame:
    """Of each choice, how many runs of the proposed methods are there: columns choice, there and asked."""
    stored = set(measured.key)
    lines = []
    for choice in CHOICES:
        mine = {run.key for run in runs if run.method in PAPER_CELLS and choice_of(run.protocol) == choice}
        lines.append((choice, len(mine & stored), len(mine)))
    return pd.DataFrame(lines, columns=["choice", "there", "asked"])


def choices(effects: pd.DataFrame, runs: Sequence[Run], measured: pd.DataFrame, other: str = "core") -> pd.DataFrame:
    """The choices, how much of each was run, and what validation selects under it.

    Args:
        effects: as from `weight_effects.by_choice`.
        runs, measured: of a study.
        other: a preset whose rows are counted beside.

    Returns:
        Columns: choice, sets, of each proposed method the selected cell with n ("–" before both cells can be compared), runs (of
        how many that are asked for, if any) and those in the other preset.
    """
    beside = there(*notebook.obtain("weight_choices", other, False, "auto"))
    selected = effects.drop_duplicates(["variation", "group"]).set_index(["variation", "group"])
    lines = []
    for here, second in zip(there(runs, measured).itertuples(), beside.itertuples()):
        cells = [
            f"{line.cell} (n = {line.n})"
            if (line := selected.loc[key] if key in selected.index else None) is not None
            else "–"
            for key in ((here.choice, method) for method in PAPER_CELLS)
        ]
        counts = [f"{each.there} of {each.asked}" if each.asked else "not asked" for each in (here, second)]
        lines.append((here.choice, changed(here.choice), *cells, *counts))
    return pd.DataFrame(lines, columns=["choice", "sets", *TITLES.values(), "runs", f"in preset {other}"])


def counted(preset: str, runs: Sequence[Run], measured: pd.DataFrame) -> str:
    """How many of the runs exist, with their length, as a line."""
    return f"Preset {preset}: {measured.key.nunique()} of {len(runs)} runs exist, of {runs[0].protocol.epochs} epochs."


def not_varied(effects: pd.DataFrame) -> pd.DataFrame:
    """The fields about the weight that no choice with rows varies: columns field and value."""
    default = Protocol()
    varied = {name for choice in set(effects.variation) for name in CHOICES[choice]}
    names = [f.name for f in dataclasses.fields(Protocol) if f.name.startswith(ABOUT) and f.name not in varied]
    return pd.DataFrame([(name, str(getattr(default, name))) for name in names], columns=["field", "value"])


def moved(effects: pd.DataFrame, metric: str) -> pd.DataFrame:
    """What a metric has more under each choice than under the default, and than each reference, paired by seed.

    Args:
        effects: as from `weight_effects.by_choice`.
        metric: one of its metrics.

    Returns:
        Columns: method, choice, measured (mean), "less" each of the default and `REFERENCES` by its title (the difference, and how
        far its 95 % interval reaches; with its n where it has fewer seeds), and n.
    """
    part = effects[effects.metric == metric]
    table = part[["group", "variation", "mean"]].rename(
        columns={"group": "method", "variation": "choice", "mean": "measured"}
    )
    for name, header in {"moved": "the default", **{name: tables.title(name) for name in REFERENCES}}.items():
        reach = (part[f"{name}_high"] - part[f"{name}_low"]) / 2
        fewer = ["" if n == whole else f" (n = {n})" for n, whole in zip(part[f"{name}_n"], part.n)]
        table[f"less {header}"] = [
            f"{d:.3f} ±{r:.3f}{n}" if r == r else "-" for d, r, n in zip(part[name], reach, fewer)
        ]
    return table.assign(n=part.n).replace({"method": TITLES})


def show_off_floor(runs: Sequence[Run], measured: pd.DataFrame, metrics: Sequence[str]) -> None:
    """Display `weight_effects.off_floor` of both proposed methods: means by cell, then differences."""
    for method, title in TITLES.items():
        means, more = weight_effects.off_floor(measured, runs, method, metrics)
        notebook.show(means, tables.SHORT, title=f"{title}, {runs[0].protocol.epochs} epochs")
        if len(more):
            notebook.show(more, tables.SHORT, title=f"{title}: what the cell off the floor has more than")
