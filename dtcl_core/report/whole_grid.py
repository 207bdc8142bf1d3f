"""The paper's whole grid on one seed, as its chapter shows it: how much is there, who is ahead, and what fresh seeds say of rivals."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ..analysis import whole_grid
from ..config import HYPERPARAMETERS, Run
from ..experiments import core
from . import notebook
from .study import Study
from .tables import cell_name, title


def show(study: Study) -> None:
    """Display what the rows of the experiment `whole_grid` say: their count, who is ahead, and what fresh seeds say of rivals."""
    cells = whole_grid.cells(study.measured, study.runs)
    print(counted(cells))
    if len(best := ahead(cells)):
        notebook.show(best, title="Ahead by validation, one seed")
    found = fallen_short(study.measured, study.runs, cells)
    if isinstance(found, str):
        print(found)
    else:
        notebook.show(found, title="Rivals on fresh seeds")


def counted(cells: pd.DataFrame) -> str:
    """How many of the paper's configurations have a row, and of which methods all have, as a line.

    Args:
        cells: as from `whole_grid.cells`.
    """
    sizes = {method: len(core.grid(method)) for method in whole_grid.METHODS}
    there = cells.groupby("method").size()
    whole = [title(method) for method, size in sizes.items() if there.get(method, 0) == size]
    said = f"{len(cells)} of the paper's {sum(sizes.values())} configurations have a row on this seed"
    return f"{said}; all of {', '.join(whole)}." if 0 < len(whole) < len(sizes) else f"{said}."


def ahead(cells: pd.DataFrame) -> pd.DataFrame:
    """The best of each strip and the best outside it, by validation on one seed.

    Args:
        cells: as from `whole_grid.cells`.

    Returns:
        Columns: method, place, cell, validation, test_id, test_ood.
    """
    found = whole_grid.ahead(cells)
    names = [cell_name(values) for values in found[list(HYPERPARAMETERS)].to_numpy().tolist()]
    return found.assign(cell=names)[["method", "place", "cell", *("validation", "test_id", "test_ood")]]


def fallen_short(frame: pd.DataFrame, runs: Sequence[Run], cells: pd.DataFrame) -> pd.DataFrame | str:
    """What fresh seeds say of rivals (`whole_grid.rivals`); or in a sentence that there is none, or none yet.

    Args:
        frame, runs: of the experiment `whole_grid`.
        cells: as from `whole_grid.cells`.
    """
    found = whole_grid.rivals(frame, runs)
    if len(found):
        return found
    best = whole_grid.ahead(cells)
    if best.empty:
        return "No method's grid is whole yet."
    by = best.pivot(index="method", columns="place", values="validation").reindex(
        columns=[whole_grid.WITHIN, whole_grid.OUTSIDE]
    )
    rivals = by[by[whole_grid.OUTSIDE] > by[whole_grid.WITHIN]]
    if rivals.empty:
        return f"No cell outside a strip is ahead of those within ({len(by)} methods)."
    return f"Not yet trained on fresh seeds: {', '.join(map(title, rivals.index))}."
