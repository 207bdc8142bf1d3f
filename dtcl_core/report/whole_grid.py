"""The paper's whole grid on one seed, as its chapter shows it: how much is there, who is ahead, and what fresh seeds say of rivals and claims."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from ..analysis import verdicts, whole_grid
from ..config import HYPERPARAMETERS
from ..experiments import core
from . import findings, notebook
from .card import Card
from .overview import EPOCHS
from .study import Study
from .style import METHOD_COLORS, METRIC_TITLES, WIDTH
from .tables import cell_name, title


class WholeGrid:
    """What the rows of the experiment `whole_grid` say.

    Args:
        study: of that experiment, at one level of tau_min.

    Attributes:
        cells: every configuration that has a row, see `whole_grid.cells`.
        first: those that validation puts first, see `whole_grid.ahead`.
    """

    def __init__(self, study: Study):
        self.study = study
        self.cells = whole_grid.cells(study.measured, study.runs)
        self.first = whole_grid.ahead(self.cells)

    @property
    def counted(self) -> str:
        """How many of the paper's configurations have a row, and of which methods all have, as a line."""
        sizes = {method: len(core.grid(method)) for method in whole_grid.METHODS}
        there = self.cells.groupby("method").size()
        whole = [title(method) for method, size in sizes.items() if there.get(method, 0) == size]
        said = f"{len(self.cells)} of the paper's {sum(sizes.values())} configurations have a row on this seed"
        return f"{said}; all of {', '.join(whole)}." if 0 < len(whole) < len(sizes) else f"{said}."

    @cached_property
    def ahead(self) -> pd.DataFrame:
        """The best of each strip and the best outside it, by validation: method, place, cell, validation, test_id, test_ood."""
        found = self.first
        names = [cell_name(values) for values in found[list(HYPERPARAMETERS)].to_numpy().tolist()]
        return found.assign(cell=names)[["method", "place", "cell", *("validation", "test_id", "test_ood")]]

    def show_ahead(self) -> None:
        """Display how much of the grid is there, and `ahead` once that of a method is whole."""
        from IPython.display import display  # not needed to train

        display(findings.Sentence(self.counted))
        if len(self.ahead):
            notebook.show(self.ahead)

    def draw(self, metric: str = whole_grid.DECIDING) -> Figure:
        """Every configuration by method: a dot within a strip, a ring outside; what validation puts first of either is large."""
        figure, axis = plt.subplots(figsize=(WIDTH, 3.6), layout="constrained")
        for place, method in enumerate(whole_grid.METHODS):
            for inside, shift in ((True, 0.14), (False, -0.14)):
                where = whole_grid.WITHIN if inside else whole_grid.OUTSIDE
                for of, size in ((self.cells, 18), (self.first, 75)):
                    mine = of[(of.method == method) & (of.place == where)]
                    edge = METHOD_COLORS[method]
                    fill = edge if inside else "none"
                    axis.scatter(
                        mine[metric], [-place + shift] * len(mine), s=size, facecolor=fill, edgecolor=edge, alpha=0.8
                    )
        axis.set_yticks([-place for place in range(len(whole_grid.METHODS))], [title(m) for m in whole_grid.METHODS])
        axis.set(xlabel=f"{METRIC_TITLES[metric]}, one seed")
        keys = [
            plt.Line2D([], [], marker="o", linestyle="", color="0.3", label="within the strip"),
            plt.Line2D([], [], marker="o", linestyle="", color="0.3", markerfacecolor="none", label="outside"),
        ]
        figure.legend(handles=keys, loc="outside lower center", ncols=2)
        return figure

    def rivals(self) -> pd.DataFrame | str:
        """What fresh seeds say of rivals (`whole_grid.rivals`); or in a sentence that there is none, or none yet."""
        found = whole_grid.rivals(self.study.measured, self.study.runs)
        if len(found):
            return found
        best = self.first
        if best.empty:
            return "No method's grid is whole yet."
        places = [whole_grid.WITHIN, whole_grid.OUTSIDE]
        by = best.pivot(index="method", columns="place", values="validation").reindex(columns=places)
        ahead = by[by[whole_grid.OUTSIDE] > by[whole_grid.WITHIN]]
        if ahead.empty:
            return f"No cell outside a strip is ahead of those within ({len(by)} methods)."
        return f"Not yet trained on fresh seeds: {', '.join(map(title, ahead.index))}."

    @cached_property
    def rulings(self) -> dict[float, dict[int, verdicts.Ruling]]:
        """What the rematch comes to, by level of tau_min and the claim's number, see `whole_grid.rematch`."""
        runs, measured = self.study.every_level
        return {} if self.unjudged(core.REMATCH_SEEDS) else whole_grid.rematch(measured, runs)

    def unjudged(self, seeds: Sequence[int], entries: Sequence[core.Entry] = core.ENTRIES) -> str:
        """Why nothing is said of some methods on these seeds, in a sentence; empty where all is there."""
        runs, measured = self.study.every_level
        asked = {run.key for run in runs if run.seed in seeds and core.entry_of(run) in entries}
        if not asked:
            return "Only the preset core has these runs, with its own seeds."
        if (epochs := runs[0].protocol.epochs) < EPOCHS:
            return f"Runs of {epochs} epochs, not the paper's {EPOCHS}: nothing is judged."
        there = measured[measured.key.isin(asked)].key.nunique()
        return f"Not judged yet: {there} of {len(asked)} runs have rows." if there < len(asked) else ""

    def show_rematch(self) -> None:
        """Display the verdicts of the rematch, and the leads on the training colours that claim 1 is judged by."""
        from IPython.display import display  # not needed to train

        if not self.rulings:
            print(self.unjudged(core.REMATCH_SEEDS))
            return
        display(Card({f"tau_min {level:g}": found for level, found in self.rulings.items()}, only=whole_grid.REJUDGED))
        notebook.show(whole_grid.rematched_leads(self.rulings), title="Claim 1: leads on Test-ID")

    def show_unseen(self) -> None:
        """Display what weighted pairs have over Standard CL on the unseen colour on thirty seeds (`whole_grid.unseen`)."""
        runs, measured = self.study.every_level
        if said := self.unjudged((*core.REMATCH_SEEDS, *core.UNSEEN_SEEDS), core.UNSEEN_ENTRIES):
            print(said)
        else:
            table = whole_grid.unseen(measured, runs).drop(columns=["method", "tau_min"])
            notebook.show(table, {"weighted": "weighted pairs"}, title="Lead over Standard CL on Test-OOD")

    def show_rivals(self) -> None:
        """Display `rivals`."""
        found = self.rivals()
        if isinstance(found, str):
            print(found)
        else:
            notebook.show(found)
