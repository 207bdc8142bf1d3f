"""What chapters need from the library beyond results: parameters that are checked, and tables that print plainly."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from ..analysis import learned, selection
from ..analysis.intervals import accuracy_interval
from ..checks import checked_choice, checked_number, closest
from ..config import Run
from ..engine.device import resolve_device
from ..experiments import PRESETS, REGISTRY, listed_numbers, wants_trace
from ..experiments.core import FRESH_SEEDS, PROPOSED, Validation, nothing, validation_of
from ..files import check_writable
from ..launch.engines import compute, compute_all
from ..results import Store, default_store
from ..traces import Trace
from .html_tables import Shown
from .tables import title

INJECTED = "# Parameters"  # papermill writes its cell with this first line


def assigned_names(source: str) -> set[str]:
    """Names that a cell assigns at its top level."""
    names = set()
    for node in ast.parse(source).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def check_parameters(cells: Sequence[str]) -> None:
    """Refuse a parameter that papermill injected but the chapter does not have (papermill itself only logs a line).

    Args:
        cells: the sources executed so far, IPython's ``In``: the injected cell follows the chapter's own parameters.

    Raises:
        ValueError: naming the unknown parameter and those that exist.
    """
    for before, source in pairwise(cells):
        if source.lstrip().startswith(INJECTED):
            known = assigned_names(before)
            for name in sorted(assigned_names(source) - known):
                raise ValueError(
                    f"unknown parameter {name!r}{closest(name, known)}: this chapter takes {', '.join(sorted(known))}."
                )


def number_list(name: str, text: object) -> list[float]:
    """A parameter that holds numbers with commas between them (papermill's -p leaves lists as text)."""
    try:
        return listed_numbers(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def obtain(
    experiment: str,
    preset: str,
    compute_missing: bool,
    device: str,
    save: str | None = None,
    level: float | None = None,
    **options: object,
) -> tuple[list[Run], pd.DataFrame]:
    """The runs of an experiment and the rows that exist, after training the missing ones if asked to.

    Args:
        experiment: a name in `experiments.REGISTRY`.
        preset: "smoke", "laptop", "core" or "paper".
        compute_missing: train what is missing; False reads only.
        device: "auto", "cpu" or "cuda"; checked in any case.
        save: a folder that figures will be written to, tried before any training.
        level: the tau_min whose runs of the proposed methods are returned, see `at_level`; None: all of them.
        options: seeds, epochs, sigma, methods, tau_alpha, protocol: see `experiments.Experiment.runs`.

    Returns:
        The runs asked for, and a data frame of the rows among them that exist.

    Raises:
        ValueError: for a parameter out of range, before any training.
        OSError: for a folder that cannot be written.
    """
    checked_choice("compute", compute_missing, (True, False))
    resolve_device(device)
    if save is not None and not (isinstance(save, str) and save):
        raise ValueError(f"save must be the name of a folder, got {save!r}.")
    if save is not None:
        check_writable(Path(save), "figures")
    if PRESETS[checked_choice("preset", preset, tuple(PRESETS))].caution:
        print(PRESETS[preset].caution)
    store: Store = default_store(preset)

    def ask(validation: Validation) -> list[Run]:
        return REGISTRY[experiment].runs(preset, validation=validation, **options)  # type: ignore[arg-type]

    asked = ask(nothing)  # a parameter out of range is refused before rows are read
    if level is not None:
        at_level(asked, level)
    if compute_missing:
        compute_all(ask, store, device, record=wants_trace)
    runs = ask(validation_of(store.rows()))
    if level is not None:
        runs = at_level(runs, level)
    return runs, store.load(runs)


def at_level(runs: Sequence[Run], level: float) -> list[Run]:
    """The runs of the proposed methods under one level of tau_min, and all of the others, which do not see it.

    What is shown together is of one level: it is never selected over.

    Raises:
        ValueError: for a level that no run of a proposed method has.
    """
    level = checked_number("level", level)
    if (levels := levels_of(runs)) and level not in levels:
        known = " and ".join(f"{each:g}" for each in levels)
        raise ValueError(f"level must be a tau_min of these runs, which is {known}, got {level:g}.")
    return [run for run in runs if run.method not in PROPOSED or run.protocol.tau_min == level]


def levels_of(runs: Sequence[Run]) -> list[float]:
    """The levels of tau_min that proposed methods have among the runs."""
    return sorted({run.protocol.tau_min for run in runs if run.method in PROPOSED})


def under_levels(runs: Sequence[Run], frame: pd.DataFrame, metric: str, label_fraction: float) -> pd.DataFrame:
    """The selected cell of each proposed method under each level of tau_min, and what it measures.

    Args:
        runs, frame: as from `obtain`, of all levels.
        metric: the metric column to show.
        label_fraction: of the labels, 0 to 1.

    Returns:
        Columns: method, tau_min, tau_alpha, tau_beta, measured (mean over seeds), low and high (its 95 % interval), n (seeds).
    """
    chosen = selected_at_levels(runs, frame).query("level.notna() and label_fraction == @label_fraction")
    lines = [
        (title(method), level, alpha, beta, *accuracy_interval(cell[metric].to_numpy()))
        for (method, level, alpha, beta), cell in chosen.groupby(["method", "level", "tau_alpha", "tau_beta"])
    ]
    names = ["method", "tau_min", "tau_alpha", "tau_beta", "measured", "low", "high", "n"]
    return pd.DataFrame(lines, columns=names).sort_values(["method", "tau_min"], ignore_index=True)


def selected_at_levels(runs: Sequence[Run], frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of what validation selects of each method, and of a proposed one under each level of tau_min.

    Args:
        runs, frame: as from `obtain`, of all levels.

    Returns:
        Lines of `frame` with a column level: the tau_min of a proposed method, NaN of the others.
    """
    found = [
        selection.rows_of(part, selection.select(part)).assign(level=level)
        for level, part in _by_level(runs, frame).items()
    ]
    return pd.concat([part for part in found if len(part)] or found[:1], ignore_index=True)


def _by_level(runs: Sequence[Run], frame: pd.DataFrame) -> dict[float, pd.DataFrame]:
    """The rows of the proposed methods by level of tau_min; those of the others under NaN."""
    sees = frame.method.isin(PROPOSED)
    return {math.nan: frame[~sees]} | {
        level: frame[sees & frame.key.isin({run.key for run in at_level(runs, level)})] for level in levels_of(runs)
    }


def confirm_at_levels(
    runs: Sequence[Run], frame: pd.DataFrame, preset: str, compute_missing: bool = False, device: str = "auto"
) -> tuple[list[Run], pd.DataFrame]:
    """What is selected of each method, and of a proposed one under each level of tau_min, on fresh seeds; see `confirm`.

    Args:
        runs, frame: as from `obtain`, of all levels.
        preset, compute_missing, device: as for `obtain`.

    Returns:
        The fresh runs, and the rows that exist of them with a column level, as from `selected_at_levels`.
    """
    again: list[Run] = []
    for part in _by_level(runs, frame).values():
        again += confirm(selection.select(part), runs, preset, False, device)[0]
    found = rows(again, preset, compute_missing, device)
    level = {run.key: run.protocol.tau_min for run in again if run.method in PROPOSED}
    return again, found.assign(level=[level.get(key, math.nan) for key in found.key])


def rows_of(preset: str) -> dict[str, dict[str, Any]]:
    """The rows of a preset's store, by key, each with all it holds: the draws of labels, say."""
    return default_store(preset).rows()


def competing(frame: pd.DataFrame, preset: str, **options: object) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of the claims in two parts: those whose cells compete in a selection, and those that only one chapter looks at."""
    asking = [experiment for experiment in REGISTRY.values() if experiment.selects]
    known = validation_of(default_store(preset).rows())
    asked = [run for experiment in asking for run in experiment.runs(preset, validation=known, **options)]  # type: ignore[arg-type]
    keys = {run.key for run in asked}
    return frame[frame.key.isin(keys)], frame[~frame.key.isin(keys)]


def confirm(
    chosen: pd.DataFrame, runs: Sequence[Run], preset: str, compute_missing: bool, device: str, seeds: int | None = None
) -> tuple[list[Run], pd.DataFrame]:
    """The selected cells on as many seeds that took no part in the selection, and their rows as far as they exist.

    Args:
        chosen: cells as from `selection.select`.
        runs: the runs among which they were selected; fresh seeds begin beyond all that a grid may have.
        preset, compute_missing, device: as for `obtain`.
        seeds: how many; None takes as many as the claims are judged on in the preset `core`, and five at most in others, where
            fresh seeds are no more than those that selected.
    """
    if seeds is None:
        seeds = FRESH_SEEDS if preset == "core" else min(5, len({run.seed for run in runs}))
    fresh = selection.fresh_runs(chosen, runs, seeds)
    return fresh, rows(fresh, preset, compute_missing, device)


def rows(runs: Sequence[Run], preset: str, compute_missing: bool, device: str) -> pd.DataFrame:
    """The rows of given runs as far as they exist, after training the missing ones if asked to."""
    store = default_store(preset)
    if compute_missing:
        compute(runs, store, device, record=wants_trace)
    return store.load(runs)


def traces(runs: Sequence[Run], preset: str) -> list[Trace]:
    """What the runs recorded, of those that have a trace."""
    store = default_store(preset)
    return [trace for run in runs if (trace := store.trace(run)) is not None]


def pictures(runs: Sequence[Run], preset: str) -> dict[tuple[str, float], tuple[pd.DataFrame, float]]:
    """Embeddings of the runs that `learned.pictured` takes of those whose trained network is here, by method and tau_alpha."""
    store = default_store(preset)
    stored = store.rows()
    here = [
        run
        for run in runs
        if (row := stored.get(run.key)) is not None
        and row["status"] == "ok"
        and (store.encoders_path / (row.get("encoder") or {}).get("file", "")).is_file()
    ]
    found = {(run.method, run.tau_alpha): (store.encoder(stored[run.key]), run) for run in learned.pictured(here)}
    return {cell: learned.picture(encoder, run) for cell, (encoder, run) in found.items() if encoder is not None}


def together(*frames: pd.DataFrame) -> pd.DataFrame:
    """Rows of several experiments, those they share once."""
    some = [frame for frame in frames if len(frame)]
    if not some:
        return frames[0]
    return pd.concat(some, ignore_index=True).drop_duplicates(["key", "label_fraction"], ignore_index=True)


def show(
    table: pd.DataFrame, columns: Mapping[str, str] | None = None, title: str | None = None, best: str | None = None
) -> None:
    """Display a table: HTML on a page, and beside it the plain, aligned text that nbval compares.

    Args:
        table: any data frame; its index is not shown.
        columns: other names for some columns.
        title: a line above the table.
        best: the accuracy whose best line is marked; see `html_tables.Shown`.
    """
    from IPython.display import display  # not needed to train

    if table.empty:
        print(f"{title}\nNo runs yet." if title else "No runs yet.")
        return
    display(Shown(table.rename(columns=dict(columns)) if columns else table, title, best))
