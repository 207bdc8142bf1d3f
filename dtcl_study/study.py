"""From an experiment to its rows: which runs exist, which are trained if asked, which seeds are complete, what claims look at."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from dtcl_core.checks import checked_choice
from dtcl_core.config import METRICS, Run
from dtcl_core.engine.device import resolve_device
from dtcl_core.files import check_writable
from dtcl_core.results import Store, default_path
from dtcl_core.traces import Trace

from . import selection
from .compare import by_seed
from .experiments import FRESH_SEEDS, PARTS, PRESETS, PROPOSED, REGISTRY, of_change, other_choices, wants_trace
from .reported import CHANCE, SIGMA


def store_of(preset: str) -> Store:
    """Where a preset's rows belong: the committed results, or for `smoke` a folder beside them that is not committed."""
    return Store(default_path() / "smoke" if preset == "smoke" else default_path())


class Study:
    """The runs of an experiment and their rows, after the missing ones are trained if asked.

    Args:
        experiment: a name in `experiments.REGISTRY`.
        preset: a name in `experiments.PRESETS`.
        compute: train what is missing; False reads only.
        device: "auto", "cpu", "cuda" or "cuda:N"; checked in any case.
        save: a folder that figures will be written to, tried before any training.
        quiet: say nothing of what a preset's numbers mean.
        options: seeds, epochs, sigma, methods, tau_alpha: see `experiments.Experiment.runs`.

    Attributes:
        runs: what is asked for.
        narrowed: whether options other than sigma ask for other runs than the preset's.
        store: where rows are.

    Raises:
        ValueError: for a parameter out of range, before any training.
        OSError: for a folder that cannot be written.
    """

    def __init__(
        self, experiment: str, preset: str, compute: bool = False, device: str = "auto", save: str | None = None, *,
        quiet: bool = False, **options: Any,
    ):  # fmt: skip
        checked_choice("compute", compute, (True, False))
        resolve_device(device)
        self.preset = checked_choice("preset", preset, tuple(PRESETS))
        self.name = checked_choice("experiment", experiment, tuple(REGISTRY))
        self.runs: list[Run] = REGISTRY[self.name].runs(preset, **options)
        self.narrowed = set(self.runs) != set(REGISTRY[self.name].runs(preset, sigma={run.sigma for run in self.runs} or None))
        if save is not None:
            if not (isinstance(save, str) and save):
                raise ValueError(f"save must be the name of a folder, got {save!r}.")
            check_writable(Path(save), "figures")
        if PRESETS[preset].caution and not quiet:
            print(PRESETS[preset].caution)
        self.store = store_of(preset)
        if compute:
            from dtcl_core.launch.local import compute as train  # takes a while to import, and pages mostly read

            train(self.runs, self.store, device, record=REGISTRY[self.name].records)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The rows that exist, one per run and label fraction, chance where a run diverged; see `dtcl_core.results.load`."""
        frame = self.store.load(self.runs)
        frame.loc[frame.status != "ok", list(METRICS)] = CHANCE
        return frame

    @property
    def present(self) -> int:
        """How many of the runs have a row."""
        return self.frame.key.nunique()

    @property
    def whole(self) -> bool:
        """Whether there are runs and all have a row."""
        return 0 < self.present == len(self.runs)

    @cached_property
    def complete(self) -> pd.DataFrame:
        """The rows of complete seeds: those on which every configuration of a grid has a row."""
        return rows_of_complete_seeds(self.runs, self.frame)

    @cached_property
    def chosen(self) -> pd.DataFrame:
        """The configurations that validation selects on the complete seeds, as from `selection.select`."""
        return selection.select(self.complete)

    def selected(self, label_fraction: float | None = selection.FRACTION) -> pd.DataFrame:
        """Rows of the selected configurations on complete seeds; None: at each label fraction."""
        rows = selection.rows_of(self.complete, self.chosen)
        return rows if label_fraction is None else rows[rows.label_fraction == label_fraction]

    @property
    def complete_seeds(self) -> int:
        """How many seeds are complete; where the experiment has several grids, in the one that has fewest."""
        return min(self.counts.values(), default=0)

    @property
    def progress(self) -> str:
        """How many seeds are complete: "2 of 5 seeds"; of several grids "5 of 5 seeds at sigma 50 and none elsewhere"."""
        asked = grids(self.runs)
        if len(asked) == 1:
            (seeds,) = asked.values()
            return f"{self.complete_seeds} of {len(seeds)} seeds"
        several_kinds = len({kind for _, kind in asked}) > 1
        place = lambda sigma, kind: f"sigma {sigma:g}" + (f" ({kind})" if several_kinds and kind else "")
        parts = [f"{n} of {len(asked[at])} seeds at {place(*at)}" for at, n in self.counts.items() if n]
        if 0 < len(parts) < len(asked):
            parts[-1] += " and none elsewhere"
        return ", ".join(parts) or "no seeds"

    @cached_property
    def counts(self) -> dict[tuple[float, str | None], int]:
        """How many seeds are complete in each grid, by sigma and discriminator."""
        return {name: len(seeds) for name, seeds in runs_of_complete_seeds(self.runs, set(self.frame.key)).items()}

    def traces(self) -> list[Trace]:
        """What the runs recorded, of those that have a trace."""
        return [trace for run in self.runs if (trace := self.store.trace(run)) is not None]

    def counted(self) -> str:
        """How many seeds are complete, on what they were trained, and how many of their runs diverged, in a line or two."""
        if not self.runs:
            return f"{self.name}, preset {self.preset}: no run is asked for."
        kinds = sorted({f"{d} in {p}" for d, p in zip(self.complete.device, self.complete.precision)})
        on = f"; trained on {' and '.join(kinds)}" if kinds else ""
        diverged = self.complete[self.complete.status == "diverged"].key.nunique()
        more = f"\nRuns that diverged: {diverged}. They count as chance, {CHANCE}." if diverged else ""
        return f"{self.name}, preset {self.preset}: {self.progress} are complete{on}.{more}"


def grids(runs: Sequence[Run]) -> dict[tuple[float, str | None], dict[int, list[Run]]]:
    """Runs by sigma and kind of discriminator, then by seed; methods that have no discriminator belong to both kinds."""
    kinds: dict[float, set[str]] = {}
    for run in runs:
        if run.discriminator:
            kinds.setdefault(run.sigma, set()).add(run.discriminator)
    found: dict[tuple[float, str | None], dict[int, list[Run]]] = {}
    for run in runs:
        own: list[str | None] = [run.discriminator] if run.discriminator else [*sorted(kinds.get(run.sigma, ()))] or [None]
        for kind in own:
            found.setdefault((run.sigma, kind), {}).setdefault(run.seed, []).append(run)
    return found


def runs_of_complete_seeds(runs: Sequence[Run], there: Collection[str]) -> dict[tuple[float, str | None], list[list[Run]]]:
    """The runs of each complete seed of each grid."""
    return {
        name: [members for members in seeds.values() if all(run.key in there for run in members)]
        for name, seeds in grids(runs).items()
    }


def rows_of_complete_seeds(runs: Sequence[Run], frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of `frame` of complete seeds: for each sigma and kind of discriminator, seeds on which all of `runs` exist."""
    keep = {run.key for seeds in runs_of_complete_seeds(runs, set(frame.key)).values() for members in seeds for run in members}
    return frame[frame.key.isin(keep)].reset_index(drop=True)


def apart(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Whether no processor or GPU (by name and instructions) trained runs of both; others may round differently."""
    kinds = [{*zip(rows.device_name, rows.instructions.fillna(""))} for rows in (one, other)]
    return kinds[0].isdisjoint(kinds[1])


def under_changes(base: pd.DataFrame, study: Study, methods: Sequence[str]) -> dict[str, pd.DataFrame]:
    """For each of `other_choices` whose runs all have rows: the rows of some methods under it, at 1 % of labels.

    `study` is of `choices`. `base` are rows of the same configurations under the protocol as it is: on the study's seeds they are
    the entry "as taken", and they stand in for each method that a change does not touch.
    """
    rows = study.frame[study.frame.label_fraction == selection.FRACTION]
    base = base[base.seed.isin({run.seed for run in study.runs}) & (base.label_fraction == selection.FRACTION)]
    found = {"as taken": base[base.method.isin(methods)]}
    for change in other_choices():
        keys = {run.key for run in of_change(study.runs, change, methods)}
        mine = rows[rows.key.isin(keys)]
        if len(mine) == len(keys) > 0:
            found[change] = pd.concat([mine, found["as taken"][~found["as taken"].method.isin(mine.method)]])
    return found


@dataclass(eq=False)
class Evidence:
    """The rows that claims look at, read when first asked for. `fresh` may be set, to judge other rows as if they were fresh."""

    preset: str = "paper"  # whose rows

    @cached_property
    def fresh(self) -> pd.DataFrame:
        """Fresh rows of each sigma and kind of discriminator whose seeds are all there."""
        study = Study("fresh", self.preset, quiet=True)
        asked = grids(study.runs)
        whole = [(sigma, kind or "global") for (sigma, kind), n in study.counts.items() if n == len(asked[sigma, kind])]
        grid_of_row = pd.MultiIndex.from_arrays([study.frame.sigma, study.frame.discriminator.fillna("global")])
        return study.frame[grid_of_row.isin(whole)].reset_index(drop=True)

    def at(self, sigma: float, label_fraction: float | None = None) -> pd.DataFrame:
        """Fresh rows at a spread, without those of batch-level discriminators; None: at all label fractions."""
        rows = self.fresh[(self.fresh.sigma == sigma) & (self.fresh.discriminator != "batch")]
        return rows if label_fraction is None else rows[rows.label_fraction == label_fraction]

    @cached_property
    def grid(self) -> Study:
        """The main table's grid."""
        return Study("main_table", self.preset, quiet=True)

    @property
    def shown(self) -> pd.DataFrame:
        """Rows of Tables 1 and 2: the frozen configurations on fresh seeds; until there are some, what the grid selects."""
        mine = self.at(SIGMA)
        return mine if len(mine) else self.grid.selected(None)

    @property
    def awaited(self) -> str:
        """What the verdict on the main claim waits for, and how much of it is there."""
        fresh = Study("fresh", self.preset, quiet=True).counts.get((SIGMA, "global"), 0)
        decide = f"Fresh seeds, which took no part in the selection, decide the claim (complete: {fresh} of {FRESH_SEEDS})."
        return f"The grid of {len({replace(run, seed=0) for run in self.grid.runs})} configurations is complete on {self.grid.progress}. {decide}"

    @cached_property
    def heads(self) -> Study:
        """The projector heads' grid."""
        return Study("projector_head", self.preset, quiet=True)

    @cached_property
    def traces(self) -> list[Trace]:
        """What the followed runs recorded."""
        return Study("effective_temperature", self.preset, quiet=True).traces()

    def of(self, method: str, metric: str, sigma: float = SIGMA, label_fraction: float = 0.01, kind: str = "global") -> pd.Series:
        """An accuracy of a method's frozen configuration by fresh seed; empty before it is run."""
        rows = self.fresh
        rows = rows[(rows.method == method) & (rows.sigma == sigma) & (rows.label_fraction == label_fraction)]
        if method in PROPOSED:
            rows = rows[rows.discriminator == kind]
        return by_seed(rows, metric, f"{method} at sigma {sigma:g}")

    def all_of(self, methods: Sequence[str], metric: str, **more: Any) -> pd.Series:
        """The mean of some methods by seed."""
        return pd.concat([self.of(m, metric, **more) for m in methods], axis=1, join="inner").mean(axis=1)

    def by_configuration(self, method: str, metric: str) -> pd.DataFrame:
        """An accuracy on the grid: configurations (lines) by complete seed (columns)."""
        rows = self.grid.complete
        return selection.by_configuration(rows[rows.method == method], metric)


class Part(NamedTuple):
    """A part of the design (`experiments.PARTS`) in the preset `paper`: its runs, and those that are not there yet."""

    name: str
    runs: list[Run]
    missing: list[Run]  # those that lack a row, or the trace that they should have
    to_train: list[Run]  # those missing that no earlier part trains


def parts(store: Store, present: Collection[str]) -> list[Part]:
    """What each of `experiments.PARTS` asks for, and what a store with rows of these keys lacks of it."""
    asked = {name: REGISTRY[name.split(",")[0]].runs("paper", **options) for name, options in PARTS.items()}
    left = {run.key for run in store.missing(chain.from_iterable(asked.values()), wants_trace, present)}
    found, counted = [], set[str]()
    for name, runs in asked.items():
        missing = [run for run in runs if run.key in left]
        found.append(Part(name, runs, missing, [run for run in missing if run.key not in counted]))
        counted |= {run.key for run in missing}
    return found
