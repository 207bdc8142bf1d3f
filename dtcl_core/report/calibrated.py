"""What the chapter on how we read the paper shows: where the rule of `calibration` stands, what fits, and what lies outside."""

from __future__ import annotations

import textwrap
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ..analysis import calibration, selection, summed_again
from ..experiments.readings import ADVERSARY, CANDIDATES, SEEDS, Candidate, adversary_runs
from ..methods import ALL_METHODS
from . import figures, notebook, tables
from .study import Study

METRICS = ("test_id", "test_ood", "d_test_id")
TITLES = {"standard": ALL_METHODS["standard"].title, "oracle": ALL_METHODS["color_jitter"].title}  # groups of anchors
SHOWN = ["method", "tau_alpha", "metric", "label_fraction", "reported", "mean", "low", "high", "inside"]
NOTHING = "Not asked yet: the reading is settled first."
AGREES = 5e-4  # what three decimals show


class Readings:
    """Candidate readings of the paper, as far as a study's rows tell.

    Args:
        study: of the experiment "calibration".

    Attributes:
        rows: by key, as `notebook.rows_of` gives them.
        choice: what the rule says of them; of fewer seeds or shorter runs, a comparison that settles nothing.
    """

    def __init__(self, study: Study):
        self.study, self.rows = study, notebook.rows_of(study.preset)
        self.sized = study.runs[0].protocol
        in_full = len(study.runs) > 100 and study.options.get("seeds") is None and study.preset != "laptop"
        seeds = None if in_full else len({run.seed for run in study.runs})
        self.choice = calibration.choice(self.rows, self.sized, seeds)
        if seeds == 1:  # no spread over seeds, no unit to compare in
            self.choice = replace(self.choice, tables={})
        self.every = calibration.on_all_seeds(self.rows, self.sized)

    def standing(self) -> str:
        """How many runs exist, and where the choice stands, in lines."""
        asked, here = len({run.key for run in self.study.runs}), self.study.measured.key.nunique()
        lines = [f"Preset {self.study.preset}: {here} of {asked} runs exist, of {self.sized.epochs} epochs."]
        lines.append(self.choice.in_words())
        if self.choice.settled:
            first, second = self.choice.summary.misfit[:2]
            lines.append(
                f"The two smallest misfits differ by {second - first:.3f}; within {self.choice.within:.3f} is alike."
            )
        return "\n".join(lines)

    def on_one_seed(self) -> pd.DataFrame:
        """Columns candidate and misfit, of those with a first seed, the smallest first."""
        return self.choice.first.rename("misfit").rename_axis("candidate").reset_index()

    def compared(self) -> pd.DataFrame:
        """The candidates that are compared last, see `calibration.summary`; groups of anchors under the names of methods."""
        return self.choice.summary.rename(columns=TITLES)

    def misfits(self) -> None:
        """Display the misfits on one seed, as far as there are any, and those of the last comparison."""
        if len(self.choice.first):
            notebook.show(self.on_one_seed(), title="On one seed")
        notebook.show(self.compared(), title=f"On {self.choice.seeds} seeds")

    def figure(self) -> Figure | None:
        """Every candidate's distance from every anchor, those with most seeds first; None while there is nothing to compare."""
        if len(self.choice.tables) < 2:
            return None
        distances = calibration.table(self.every)
        misfit = calibration.misfits(distances)
        order = sorted(self.every, key=lambda name: (-self.every[name].seed.nunique(), misfit[name]))
        return figures.readings(distances, order, self.choice.taken)

    def draw(self, save: str | None) -> None:
        """Display the `figure`, and write it to a folder if asked to."""
        figure = self.figure()
        if figure is not None:
            figures.save(figure, "calibration", save)
            figures.plt.show()

    def seeds(self) -> str:
        """On how many seeds each candidate of the figure stands, the most first; empty while there are none."""
        by_seeds: dict[int, list[str]] = {}
        for name, table in self.every.items():
            by_seeds.setdefault(table.seed.nunique(), []).append(name)
        lines = [f"n = {n}: {'; '.join(by_seeds[n])}" for n in sorted(by_seeds, reverse=True)]
        return "\n".join(textwrap.fill(line, calibration.WIDTH, subsequent_indent="    ") for line in lines)

    def prediction(self) -> pd.DataFrame:
        """Of the reading taken, see `calibration.prediction_intervals`; without lines while none is taken."""
        taken = self.choice.taken
        if taken is None:
            return pd.DataFrame(columns=SHOWN)
        others = [part for name, part in self.choice.tables.items() if name != taken]
        return calibration.prediction_intervals(self.choice.tables[taken], others=others)[SHOWN]

    def inside(self) -> str:
        """How many reported numbers lie inside their interval under the reading taken, and on how many seeds; else empty."""
        found = self.prediction()
        if found.empty:
            return ""
        told = f"{int(found.inside.sum())} of {len(found)} reported numbers lie inside under: {self.choice.taken}"
        return f"{told} (n = {self.choice.seeds} seeds)."

    def single_draws(self) -> pd.DataFrame:
        """What single draws of labels select and measure of Standard CL under the reading taken, see `tables.single_draws`."""
        chosen = [c for c in CANDIDATES if c.name == self.choice.taken]
        runs = [run for c in chosen for run in calibration.runs(c, self.choice.seeds, self.sized)]
        plain = [self.rows[run.key] for run in runs if run.method == "standard"]
        return tables.single_draws(selection.by_draw(plain, METRICS), METRICS)

    def adversary(self) -> None:
        """Display DANN's best cell by what its adversary sees, and how far that is from what seeds move; or that it is not asked yet."""
        taken = next((c for c in CANDIDATES if c.name == self.choice.taken and self.choice.settled), None)
        found = None if taken is None else calibration.adversary_features(taken, self.rows, self.sized)
        if taken is None or found is None:
            print(NOTHING)
            return
        notebook.show(found)
        print(self.adversary_spread(taken, found))

    def adversary_spread(self, taken: Candidate, found: pd.DataFrame) -> str:
        """How far the kinds of features are apart, beside how far two seeds of one cell are.

        Args:
            taken: the reading.
            found: of `calibration.adversary_features`.
        """
        apart, most = float(np.ptp(found.validation)), 0.0
        for runs in adversary_runs(taken, self.sized).values():
            each = [self.rows[run.key]["metrics"]["0.01"]["validation"] for run in runs]
            cells = np.array([calibration.CHANCE if v is None else v for v in each]).reshape(len(ADVERSARY), SEEDS)
            most = max(most, float(np.ptp(cells, axis=1).max()))
        told = f"The two kinds differ by {apart:.3f}, two seeds of one cell by up to {most:.3f}"
        return f"{told}: {'a convention, no difference shown' if apart <= most else 'more than seeds do'}."

    def summed_again(self) -> str:
        """The last comparison's misfits by arithmetic that shares nothing with the rule's, and whether both agree."""
        names = list(self.choice.tables)
        if len(names) < 2:
            return "No runs yet."
        again = summed_again.misfits(self.rows, names, self.choice.seeds, self.sized)
        ours = self.choice.summary.set_index("candidate").misfit
        agree = all(abs(again[name] - ours[name]) < AGREES for name in names)
        told = ", ".join(f"{name} {again[name]:.3f}" for name in names)
        return f"Summed again from the rows: {told}. {'As in the table.' if agree else 'The table has others.'}"
