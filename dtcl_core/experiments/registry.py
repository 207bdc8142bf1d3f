"""Every table and figure as a named list of runs.

An experiment says which runs it needs; it never trains. Tables share runs by sharing keys. Each comes in five presets:
`smoke` (seconds, proves that the machinery works and nothing else), `laptop` (short runs of a sub-grid), `core` (full runs in
parts, each of which goes on with what the rows of those before it select: see `core`), `paper` (the paper's grid) and `first`
(what was run under the first reading, `readings.FIRST`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..checks import checked_choice, checked_number, closest
from ..config import SIGMAS, TAU_ALPHAS, Protocol, Run
from ..methods import ALL_METHODS, METHODS
from ..presets import PRESETS
from . import candidates, core, open_choices, readings, weight_choices

MAX_SEEDS = core.FRESH_SEED  # more are a slip of the keyboard

Setting = dict[str, Any]  # what an experiment sets of a `Run`: all but seed and epochs; "protocol" holds changes to it


def cells(method: str, preset: str) -> list[Setting]:
    """The hyperparameters tried for a method at one sigma (appendix D of the paper)."""
    uses = ALL_METHODS[method].uses
    if preset == "core":
        return [dict(cell) for cell in core.strip(method)]
    if preset == "paper":
        return [dict(cell) for cell in core.grid(method)]
    if "tau_beta" in uses:
        paper = {name: (cell["tau_alpha"], cell["tau_beta"]) for name, cell in weight_choices.PAPER_CELLS.items()}
        chosen, both = paper.get(method, paper["dw_pairs"]), list(paper.values())
        pairs = {"smoke": [chosen], "laptop": both, "first": both}[preset]
        return [{"tau_alpha": a, "tau_beta": b} for a, b in pairs]
    if "lambda_" in uses:
        taus = {"smoke": (0.1,), "laptop": (0.1, 0.2), "first": (0.1,)}[preset]
        lambdas = {"first": (0.1, 1.0)}.get(preset, (0.1,))
        return [{"tau_alpha": tau, "lambda_": lambda_} for tau in taus for lambda_ in lambdas]
    taus = {"smoke": (0.1,), "laptop": (0.1, 0.2), "first": (0.05, 0.1, 0.2)}[preset]
    return [{"tau_alpha": tau} for tau in taus]


def comparison(
    methods: Sequence[str] = tuple(METHODS), sigmas: Sequence[float] = (50.0,)
) -> Callable[[str], list[Setting]]:
    """Every method's cells at every sigma."""

    def settings(preset: str) -> list[Setting]:
        chosen = sigmas[2::2] if preset == "smoke" and len(sigmas) > 2 else sigmas
        return [{"method": m, "sigma": s, **cell} for s in chosen for m in methods for cell in cells(m, preset)]

    return settings


def both_discriminators(preset: str) -> list[Setting]:
    """The domain-weighted methods with a global and with a batch-level discriminator."""
    sigmas = {"smoke": (50.0,), "laptop": (25.0, 50.0, 75.0)}.get(preset, SIGMAS)
    return [
        {**setting, "discriminator": kind}
        for kind in ("global", "batch")
        for setting in comparison(core.PROPOSED, sigmas)(preset)
    ]


def projectors(preset: str) -> list[Setting]:
    """Standard contrastive learning without a projector head and with each kind and width, at sigma 25."""
    widths = {"smoke": (8,), "laptop": (4, 16)}.get(preset, (4, 8, 16))
    taus = {"smoke": (0.1,), "laptop": (0.1,), "core": core.HEAD_TAUS, "first": (0.05, 0.1, 0.2)}.get(
        preset, TAU_ALPHAS
    )
    heads: list[Setting] = [{}]
    heads += [{"projector": kind, "projector_dim": width} for kind in ("linear", "mlp") for width in widths]
    return [{"method": "standard", "sigma": 25.0, "tau_alpha": tau, **head} for head in heads for tau in taus]


def outside(preset: str) -> list[Setting]:
    """The weight inside and outside the exponent, and no weight at all."""
    taus = (0.1,) if preset in ("smoke", "laptop") else (0.075, 0.1, 0.175)
    shared = {"sigma": 50.0}
    return [
        setting
        for tau in taus
        for setting in (
            {"method": "standard", "tau_alpha": tau, **shared},
            {"method": "dw_outside", "tau_alpha": tau, **shared},
            {"method": "dw_negatives", "tau_alpha": tau, "tau_beta": 0.5, **shared},
        )
    ]


HEAD = {"projector": "mlp", "projector_dim": 16}
ADAPTIVE: dict[
    str, Setting
] = {  # temperatures that adapt: to domains by Eq. 3, far from tau_min; to a batch; to an image
    "dw_negatives": {"tau_beta": 0.1},
    "dw_pairs": {"tau_beta": 0.1},
    "macl": {"lambda_": 0.5},  # as published, and so is the next
    "isogclr": {"lambda_": 0.3},
}
HEADED = ("standard", "dw_negatives", "dw_pairs")


def heads_and_temperatures(preset: str) -> list[Setting]:
    """Adaptive temperatures, of domains and of none, beside the standard loss, and behind a projector head.

    The standard loss is there at the lowest temperatures that Eq. 3 gives the others too.
    """
    taus = (0.1,) if preset == "smoke" else (0.1, 0.15)
    cells = [
        *({"method": "standard", "tau_alpha": tau} for tau in (0.05, *taus)),
        *({"method": method, "tau_alpha": tau, **more} for method, more in ADAPTIVE.items() for tau in taus),
    ]
    return [
        {"sigma": 50.0, **cell, **head} for head in ({}, HEAD) for cell in cells if not head or cell["method"] in HEADED
    ]


def unstated(preset: str) -> list[Setting]:
    """The proposed methods with each choice about the weight changed alone (`core.UNSTATED`), and what they are compared with."""
    weighted: list[Setting] = [
        {"method": method, **cell, "protocol": changes}
        for changes in ({}, *core.UNSTATED.values())
        for method, cell in weight_choices.PAPER_CELLS.items()
    ]
    plain: list[Setting] = [{"method": name, "tau_alpha": 0.1} for name in ("standard", "same_domain")]
    plain += [{"method": name, "tau_alpha": 0.1, "lambda_": 0.1} for name in core.PENALISED]
    return [{"sigma": core.SIGMA, **setting} for setting in (*weighted, *plain)]


FOLLOWED = {"method": "dw_pairs", "sigma": 50.0, **weight_choices.OFF_FLOOR, "discriminator": "global"}


def one_trace(preset: str) -> list[Setting]:
    """The run whose temperatures the paper follows."""
    return [FOLLOWED]


def wants_trace(run: Run) -> bool:
    """Whether a run's temperatures are to be recorded, whoever trains it: it is trained once for all experiments."""
    return all(getattr(run, name) == value for name, value in FOLLOWED.items())


@dataclass(frozen=True)
class Experiment:
    """A named list of runs.

    Attributes:
        name: how the command line and the notebooks call it.
        title: what it reproduces.
        settings: what its runs set in a preset.
        first_seed: where its seeds begin.
        most_seeds: how many it takes unless asked for another number; None: the preset's.
        parts: those of `core` that it shows.
        reading: the protocol of its runs; None: the default.
        in_claims: whether the experiment `claims` asks for its runs too: claims rest on them.
        selects: whether hyperparameters are selected among its cells; those of other experiments compete nowhere.
        whole: its runs where all train in full, if not all cells have the same seeds; from a protocol that says their size.
    """

    name: str
    title: str
    settings: Callable[[str], list[Setting]]
    first_seed: int = 0
    most_seeds: int | None = None
    parts: tuple[str, ...] = ()
    reading: Protocol | None = None
    in_claims: bool = True
    selects: bool = True
    whole: Callable[[Protocol], list[Run]] | None = None

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods it compares."""
        return tuple(dict.fromkeys(setting["method"] for setting in self.settings("paper")))

    def sets_epochs(self, preset: str) -> bool:
        """Whether it says itself how long its runs train."""
        return any("epochs" in setting.get("protocol", {}) for setting in self.settings(preset))

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
        validation: core.Validation = core.nothing,
    ) -> list[Run]:
        """The runs of the experiment.

        Args:
            preset: "smoke", "laptop", "core", "paper" or "first".
            seeds: how many seeds, counted from the experiment's first, mostly 0; None: the preset's number.
            epochs: None: the preset's number. Runs whose length the experiment itself sets take no other.
            sigma: one or more colour spreads; None: the experiment's.
            methods: names, or one string of names with commas; None or "all": the experiment's.
            tau_alpha: temperatures to try instead of the preset's.
            protocol: what all runs share, but for the epochs; None: the default (on fewer images in "smoke").
            validation: what is known of validation accuracies, by which `core` goes on; see `core.Validation`.

        Raises:
            ValueError: for anything out of range or unknown; the message names it.
        """
        size = PRESETS[checked_choice("preset", preset, tuple(PRESETS))]
        usual = min(size.seeds, self.most_seeds or size.seeds)
        count = checked_number("seeds", usual if seeds is None else seeds, 1, MAX_SEEDS, integer=True)
        reading = readings.FIRST if preset == "first" else self.reading or Protocol()
        start = dataclasses.replace(reading, **size.changes)
        shared = dataclasses.replace(protocol or start, epochs=size.epochs if epochs is None else epochs)
        chosen = set(self._chosen(methods))
        settings = [setting for setting in self.settings(preset) if setting["method"] in chosen]
        if epochs is not None and self.sets_epochs(preset):
            raise ValueError(f"{self.name} sets the epochs of its runs itself; leave epochs out, got {epochs!r}.")
        there = {spread for name in self.parts for spread in core.SPREADS[name]}
        wanted = there if sigma is None else listed_numbers(sigma)
        if preset == "core" and self.parts and tau_alpha is None and all(spread in there for spread in wanted):
            parts = core.parts(shared, validation)
            found = [run for name in self.parts for run in parts[name] if run.method in chosen and run.sigma in wanted]
            return [run for run in dict.fromkeys(found) if seeds is None or run.seed < count]
        if self.whole and size.epochs == Protocol.epochs and sigma is None and tau_alpha is None:
            mine = [run for run in self.whole(shared) if run.method in chosen]
            return mine if seeds is None else [run for run in mine if run.seed < self.first_seed + count]
        if sigma is not None:
            settings = [{**setting, "sigma": spread} for spread in wanted for setting in settings]
        if tau_alpha is not None:
            settings = [{**setting, "tau_alpha": tau} for setting in settings for tau in listed_numbers(tau_alpha)]
        make = core.shared_run if sigma is None and tau_alpha is None else Run  # a user's values may be anything
        runs = []
        for setting in settings:
            whole = {**setting, "protocol": core.changed(shared, **setting.get("protocol", {}))}
            runs += [make(seed=seed, **whole) for seed in range(self.first_seed, self.first_seed + int(count))]
        return list(dict.fromkeys(runs))

    def _chosen(self, methods: str | Iterable[str] | None) -> Sequence[str]:
        if methods is None or methods == "all":
            return self.methods
        if not isinstance(methods, Iterable):
            raise ValueError(f"methods must be names with commas between them, got {methods!r}.")
        names = [m.strip() for m in methods.split(",")] if isinstance(methods, str) else list(methods)
        if not names:
            raise ValueError("methods must name at least one method.")
        for name in names:
            if name not in self.methods:
                raise ValueError(
                    f"unknown method {name!r}{closest(name, self.methods)}: the methods are {', '.join(self.methods)}."
                )
        return list(dict.fromkeys(names))


def listed_numbers(value: Any) -> list[Any]:
    """A number, a sequence of numbers, or a string of numbers with commas, as a list.

    Raises:
        ValueError: for text that holds anything else, or nothing at all.
    """
    if isinstance(value, str):
        try:
            return [float(part) for part in value.split(",")]
        except ValueError:
            raise ValueError(f"expected numbers with commas between them, got {value!r}.") from None
    values = list(value) if isinstance(value, Iterable) else [value]
    if not values:
        raise ValueError("expected at least one number.")
    return values


SEARCHED = ("strip", "further")  # parts of `core` at sigma 50
CLAIMED = tuple(name for name in core.PARTS if name not in ("unstated", "grid", "rivals", "rematch", "unseen"))
REGISTRY = {
    experiment.name: experiment
    for experiment in (
        Experiment("main_table", "Table 1: seven methods at sigma 50, 1 % of labels", comparison(), parts=SEARCHED),
        Experiment(
            "sigma_ablation",
            "the sigma figure: seven methods at five spreads",
            comparison(sigmas=SIGMAS),
            parts=(*SEARCHED, "spreads", "ends"),
        ),
        Experiment("label_fractions", "Table 2: 1, 10 and 100 % of labels", comparison(), parts=SEARCHED),
        Experiment(
            "temperature", "Tables 3-8: tau_alpha by tau_beta", comparison(core.PROPOSED), parts=(*SEARCHED, "third")
        ),
        Experiment(
            "model_selection",
            "the distribution figure: every configuration",
            comparison(),
            parts=(*SEARCHED, "third"),
        ),
        Experiment(
            "global_vs_batch",
            "Table 9: two kinds of discriminator",
            both_discriminators,
            parts=(*SEARCHED, "spreads", "ends", "batches", "both"),
        ),
        Experiment("projector_head", "the projector figure, at sigma 25", projectors, parts=("heads",)),
        Experiment(
            "effective_temperature", "the temperature figures, by epoch", one_trace, parts=("followed",), selects=False
        ),
        Experiment(
            "encoders",
            "what the encoders learned: embeddings, and whether hiding the domain helps",
            comparison(),
            parts=(*SEARCHED, "third", "fresh"),
            in_claims=False,
            selects=False,
        ),
        Experiment(
            "readings",
            "what the paper leaves open, inferred from what it reports",
            candidates.settings,
            candidates.NETWORK_SEEDS[0],
            len(candidates.NETWORK_SEEDS),
            in_claims=False,
            selects=False,
            whole=candidates.asked,
        ),
        Experiment(
            "calibration",
            "which reading of the paper: candidates beside its anchors",
            readings.experiment,
            readings.FIRST_SEED,
            readings.SEEDS,
            in_claims=False,
            selects=False,
            whole=readings.asked,
        ),
        Experiment(
            "sensitivity",
            "how the first reading was chosen",
            open_choices.settings,
            reading=readings.FIRST,
            in_claims=False,
            selects=False,
        ),
        Experiment(
            "weight_choices",
            "choices that only the domain weight sees, under the first reading",
            weight_choices.settings,
            reading=readings.FIRST,
            in_claims=False,
            selects=False,
        ),
        Experiment(
            "questions",
            "what the paper does not say of the weight, one choice at a time in what was selected",
            unstated,
            parts=(*SEARCHED, "fresh", "unstated"),
            in_claims=False,
            selects=False,
        ),
        Experiment(
            "whole_grid",
            "the paper's whole grid at sigma 50 on one seed: do cells outside our strips change what is selected?",
            comparison(),
            most_seeds=1,
            parts=("grid", "fresh", "rivals", "rematch", "unseen"),
            in_claims=False,
            selects=False,
        ),
        Experiment(
            "adding_a_method", "claim 13: a weight outside the exponent", outside, parts=("outside",), selects=False
        ),
        Experiment(
            "heads_and_temperatures",
            "is it the domain that helps, and what does a head leave of it?",
            heads_and_temperatures,
            in_claims=False,
            selects=False,
        ),
    )
}


def everything(preset: str) -> list[Setting]:
    """What all experiments set that a claim rests on: the paper's runs, and those of the weight outside the exponent."""
    return [setting for e in REGISTRY.values() if e.in_claims for setting in e.settings(preset)]


REGISTRY["claims"] = Experiment(
    "claims",
    "the fifteen claims: the runs of all the others",
    everything,
    parts=CLAIMED,
    in_claims=False,
    selects=False,
)
