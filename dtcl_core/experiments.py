"""Every table and figure as a named list of runs.

An experiment says which runs it needs; it never trains. Tables share runs by sharing keys. Each comes in three presets:
`smoke` (seconds, proves that the machinery works and nothing else), `laptop` (about an hour on a CPU) and `paper`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .checks import checked_choice, checked_number
from .config import LAMBDAS, TAU_ALPHAS, TAU_BETAS, Protocol, Run
from .methods import METHODS


@dataclass(frozen=True)
class Preset:
    """How much of an experiment is asked for: number of seeds, epochs, and what it is for."""

    seeds: int
    epochs: int
    purpose: str


PRESETS = {
    "smoke": Preset(2, 1, "real training in seconds; its numbers mean nothing"),
    "laptop": Preset(3, 100, "a sub-grid that two CPU cores train in about an hour"),
    "paper": Preset(5, 400, "the paper's grid"),
}

# Hyperparameters a cell may set, in the order in which grids and selection compare them.
HYPERPARAMETERS = ("tau_alpha", "tau_beta", "lambda_")
Cell = dict[str, float]


def main_table_cells(method: str, preset: str) -> list[Cell]:
    """The hyperparameters tried for a method at one sigma (appendix D of the paper)."""
    uses = METHODS[method].uses
    if "tau_beta" in uses:
        # Selected in the paper: (0.075, 0.5) for negatives, (0.175, 1.0) for pairs; the laptop tries both for both.
        chosen = {"dw_negatives": (0.075, 0.5)}.get(method, (0.175, 1.0))
        pairs = {
            "smoke": [chosen],
            "laptop": [(0.075, 0.5), (0.175, 1.0)],
            "paper": [(a, b) for a in TAU_ALPHAS for b in TAU_BETAS],
        }[preset]
        return [{"tau_alpha": a, "tau_beta": b} for a, b in pairs]
    taus = {"smoke": (0.1,), "laptop": (0.1, 0.2), "paper": TAU_ALPHAS}[preset]
    if "lambda_" in uses:
        lambdas = LAMBDAS if preset == "paper" else (0.1,)
        return [{"tau_alpha": tau, "lambda_": lambda_} for tau in taus for lambda_ in lambdas]
    return [{"tau_alpha": tau} for tau in taus]


@dataclass(frozen=True)
class Experiment:
    """A named list of runs.

    Attributes:
        name: how the command line and the notebooks call it.
        title: what it reproduces.
        cells: the hyperparameters of a method in a preset.
        methods: the methods it compares.
        sigmas: the colour spreads it covers.
    """

    name: str
    title: str
    cells: Callable[[str, str], list[Cell]]
    methods: tuple[str, ...] = tuple(METHODS)
    sigmas: tuple[float, ...] = (50.0,)

    def runs(
        self,
        preset: str = "paper",
        *,
        seeds: int | None = None,
        epochs: int | None = None,
        sigma: float | Iterable[float] | None = None,
        methods: str | Iterable[str] | None = None,
        tau_alpha: float | Iterable[float] | None = None,
        protocol: Protocol | None = None,
    ) -> list[Run]:
        """The runs of the experiment.

        Args:
            preset: "smoke", "laptop" or "paper".
            seeds: how many seeds, counted from 0; None: the preset's number.
            epochs: None: the preset's number.
            sigma: one or more colour spreads; None: the experiment's.
            methods: names, or one string of names with commas; None or "all": the experiment's.
            tau_alpha: temperatures to try instead of the preset's.
            protocol: what all runs share, but for the epochs; None: the default.

        Raises:
            ValueError: for anything out of range or unknown; the message names it.
        """
        size = PRESETS[checked_choice("preset", preset, tuple(PRESETS))]
        count = checked_number("seeds", size.seeds if seeds is None else seeds, 1, integer=True)
        shared = dataclasses.replace(protocol or Protocol(), epochs=size.epochs if epochs is None else epochs)
        spreads = self.sigmas if sigma is None else tuple(listed_numbers(sigma))
        runs = []
        for method in self._chosen(methods):
            cells = self.cells(method, preset)
            if tau_alpha is not None:
                replaced = [{**cell, "tau_alpha": tau} for cell in cells for tau in listed_numbers(tau_alpha)]
                cells = [dict(t) for t in dict.fromkeys(tuple(cell.items()) for cell in replaced)]
            runs += [
                Run(method=method, sigma=spread, seed=seed, protocol=shared, **cell)
                for spread in spreads
                for cell in cells
                for seed in range(int(count))
            ]
        return list(dict.fromkeys(runs))

    def _chosen(self, methods: str | Iterable[str] | None) -> Sequence[str]:
        if methods is None or methods == "all":
            return self.methods
        names = [m.strip() for m in methods.split(",")] if isinstance(methods, str) else list(methods)
        if not names:
            raise ValueError("methods must name at least one method.")
        for name in names:
            if name not in self.methods:
                raise ValueError(f"unknown method {name!r}: the methods are {', '.join(self.methods)}.")
        return list(dict.fromkeys(names))


def listed_numbers(value: Any) -> list[Any]:
    """A number, a sequence of numbers, or a string of numbers with commas, as a list."""
    if isinstance(value, str):
        try:
            return [float(part) for part in value.split(",")]
        except ValueError:
            raise ValueError(f"expected numbers with commas between them, got {value!r}.") from None
    values = list(value) if isinstance(value, Iterable) else [value]
    if not values:
        raise ValueError("expected at least one number.")
    return values


REGISTRY = {
    experiment.name: experiment
    for experiment in (Experiment("main_table", "Table 1: seven methods at sigma 50, 1 % of labels", main_table_cells),)
}
