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
from ..checks import checked_choice, closest
from ..config import Run
from ..engine.device import resolve_device
from ..experiments import PRESETS, REGISTRY, listed_numbers, wants_trace
from ..experiments.core import FRESH_SEEDS, PROPOSED, Validation, nothing, validation_of
from ..files import check_writable
from ..launch.engines import compute, compute_all
from ..methods import ALL_METHODS
from ..results import Store, default_store, frame
from ..traces import Trace
from .html_tables import Shown
from .levels import at_level, by_level

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
        preset: "smoke", "laptop", "core", "paper" or "first".
        compute_missing: train what is missing; False reads only.
        device: "auto", "cpu" or "cuda"; checked in any case.
        save: a folder that figures will be written to, tried before any training.
        level: the tau_min whose runs of the proposed methods are returned, see `levels.at_level`; None: all of them.
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
        return runs_of(experiment, preset, validation, **options)

    first = ask(nothing)  # a parameter out of range is refused before rows are read
    if level is not None:
        at_level(first, level)
    if compute_missing:
        compute_all(ask, store, device, record=wants_trace)
    runs = ask(validation_of(store.rows(shared=True)))
    if level is not None:
        runs = at_level(runs, level)
    return runs, store.load(runs)


def confirm_at_levels(
    runs: Sequence[Run], frame: pd.DataFrame, preset: str, compute_missing: bool = False, device: str = "auto"
) -> tuple[list[Run], pd.DataFrame]:
    """What is selected of each method, and of a proposed one under each level of tau_min, on fresh seeds; see `confirm`.

    Args:
        runs, frame: as from `obtain`, of all levels.
        preset, compute_missing, device: as for `obtain`.

    Returns:
        The fresh runs, and the rows that exist of them with a column level, as from `levels.selected_at_levels`.
    """
    again: list[Run] = []
    for part in by_level(runs, frame).values():
        again += confirm(selection.select(part), runs, preset, False, device)[0]
    found = rows(again, preset, compute_missing, device)
    level = {run.key: run.protocol.tau_min for run in again if run.method in PROPOSED}
    return again, found.assign(level=[level.get(key, math.nan) for key in found.key])


def rows_behind(experiment: str | None, preset: str, fresh: bool = False) -> pd.DataFrame:
    """All rows that the chapter of an experiment draws from: of its runs at every level, and if asked of what they select on
    fresh seeds; or every row there is (None). With tau_min, NaN of a method that does not see it."""
    if experiment is None:
        stored = rows_of(preset).values()
        runs, measured = [Run.from_dict(row["run"]) for row in stored], frame(stored)
    else:
        runs, measured = obtain(experiment, preset, False, "auto")
    if fresh:
        again, found = confirm_at_levels(runs, measured, preset)
        runs, measured = [*runs, *again], together(measured, found.drop(columns="level"))
    level = {run.key: run.protocol.tau_min for run in runs if "tau_beta" in ALL_METHODS[run.method].uses}
    return measured.assign(tau_min=[level.get(key, math.nan) for key in measured.key])


def rows_of(preset: str) -> dict[str, dict[str, Any]]:
    """The rows of a preset's store, by key, each with all it holds (the draws of labels, say); not to be changed."""
    return default_store(preset).rows(shared=True)


def runs_of(experiment: str, preset: str, validation: Validation, **options: object) -> list[Run]:
    """The runs of an experiment, as far as what is known of validation says which they are; options as for `obtain`."""
    return REGISTRY[experiment].runs(preset, validation=validation, **options)  # type: ignore[arg-type]


def competing(frame: pd.DataFrame, preset: str, **options: object) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of the claims in two parts: those whose cells compete in a selection, and those that only one chapter looks at."""
    asking = [name for name, experiment in REGISTRY.items() if experiment.selects]
    known = validation_of(rows_of(preset))
    keys = {run.key for name in asking for run in runs_of(name, preset, known, **options)}
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
    stored = store.rows(shared=True)
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
    table: pd.DataFrame,
    columns: Mapping[str, str] | None = None,
    title: str | None = None,
    best: str | None = None,
    none: str = "No runs yet.",
) -> None:
    """Display a table: HTML on a page, and beside it the plain, aligned text that nbval compares.

    Args:
        table: any data frame; its index is not shown.
        columns: other names for some columns.
        title: a line above the table.
        best: the accuracy whose best line is marked; see `html_tables.Shown`.
        none: what is said instead of a table without lines.
    """
    from IPython.display import display  # not needed to train

    if table.empty:
        print(f"{title}\n{none}" if title else none)
        return
    display(Shown(table.rename(columns=dict(columns)) if columns else table, title, best))
