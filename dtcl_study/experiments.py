"""Every table and figure as a named list of runs.

An experiment says which runs it needs and trains nothing. Tables share runs by sharing keys: a run is trained once for all of
them. Most come in three presets: `smoke` (a minute at most, shows that everything works and nothing else), `laptop` (short runs
of a part) and `paper` (full runs: the paper's grid, or what stands beside it). `fresh`, `dropout_fresh` and `left_open` have
runs in `paper` only. In `paper`, the runs of `fresh`, `choices` and `dropout_fresh` exist once `selection.freeze` has written
their selections. The names that modules share are here too: groups of methods, accuracies, `title`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import product
from numbers import Real
from typing import Any

from dtcl_core.checks import checked_choice, checked_number, closest
from dtcl_core.config import LAMBDAS, SIGMAS, TAU_ALPHAS, TAU_BETAS, Protocol, Run
from dtcl_core.methods import ALL_METHODS, METHODS

from . import left_open
from .reported import SEEDS, SIGMA

Setting = Mapping[str, Any]  # what an experiment sets of a `Run`: "seeds": those it is fixed to; "protocol": changes to it

PROPOSED = ("dw_negatives", "dw_pairs")
PAPER_SELECTS = {"dw_negatives": {"tau_alpha": 0.075, "tau_beta": 0.5}, "dw_pairs": {"tau_alpha": 0.175, "tau_beta": 1.0}}
BASELINES = ("standard", "same_domain", "mmd", "dann")
ORACLE = "color_jitter"
HEAD_SIZES = (4, 8, 16)  # dimensions of projector heads
ID, OOD, DOMAIN = "test_id", "test_ood", "d_test_id"
SHORT = {OOD: "Test-OOD", ID: "Test-ID", DOMAIN: "D-Test-ID", "validation": "Validation"}  # accuracies, as tables call them
FIRST_FRESH_SEED, FRESH_SEEDS, FEWER_FRESH_SEEDS = 1100, 50, 10  # fewer: at other spreads than 50, of `choices` and of `retuned`
MAX_SEEDS = 100  # of a grid: other runs take seeds from 100 on


def title(method: str, short: bool = False) -> str:
    """A method's name in tables and figures; `short`: where "Negatives" and "Pairs" are enough."""
    return ALL_METHODS[method].title.removeprefix("Domain-Weighted " if short else "")


def percent(share: float) -> str:
    """A share as text: 0.01 is "1 %"."""
    return f"{100 * share:g} %"


@dataclass(frozen=True)
class Preset:
    """How much of an experiment is asked for: seeds, epochs, what it is for, changes to the protocol, and what to mind."""

    seeds: int
    epochs: int
    purpose: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    caution: str = ""


CAUTION = "Smoke runs train for a few steps, to show that all works; methods may come out alike, and no number means anything."
FIFTH = {"split_sizes": (1386, 231, 231, 462)}
PRESETS = {
    "smoke": Preset(2, 1, "real training on a fifth of the images, in a minute at most", FIFTH, CAUTION),
    "laptop": Preset(3, 100, "short runs of a part of the grid, up to an hour on two CPU cores"),
    "paper": Preset(SEEDS, 400, "the paper's grid"),
}


def grid(method: str) -> list[dict[str, float]]:
    """The configurations of a method that the paper searches at each sigma (its appendix D)."""
    tried = {"tau_alpha": TAU_ALPHAS, "tau_beta": TAU_BETAS, "lambda_": LAMBDAS}
    fields = [name for name in tried if name == "tau_alpha" or name in ALL_METHODS[method].uses]
    return [dict(zip(fields, values)) for values in product(*(tried[name] for name in fields))]


def configurations(method: str, preset: str) -> list[dict[str, float]]:
    """The configurations of a method in a preset: the paper's grid, or one or two of it."""
    uses = ALL_METHODS[checked_choice("method", method, tuple(ALL_METHODS))].uses
    if preset == "paper":
        return grid(method)
    few = [{"tau_alpha": tau} for tau in ((0.1, 0.2) if preset == "laptop" else (0.1,))]
    if "tau_beta" in uses:
        few = list(PAPER_SELECTS.values()) if preset == "laptop" else [PAPER_SELECTS.get(method, PAPER_SELECTS["dw_pairs"])]
    return [one | {"lambda_": 0.1} if "lambda_" in uses else one for one in few]


def comparison(methods: Sequence[str], sigmas: Sequence[float] = (SIGMA,)) -> Callable[[str], list[Setting]]:
    """A function from a preset to settings: every configuration of some methods at some sigmas."""

    def settings(preset: str) -> list[Setting]:
        chosen = [s for s in sigmas if s in (SIGMA, 150.0)] if preset == "smoke" else sigmas
        return [{"method": m, "sigma": s, **c} for s in chosen for m in methods for c in configurations(m, preset)]

    return settings


def both_discriminators(preset: str) -> list[Setting]:
    """The proposed methods with a global and with a batch-level discriminator."""
    sigmas = {"smoke": (SIGMA,), "laptop": (25.0, SIGMA, 75.0)}.get(preset, SIGMAS)
    settings = comparison(PROPOSED, sigmas)(preset)
    return [{**setting, "discriminator": kind} for kind in ("global", "batch") for setting in settings]


def heads(preset: str) -> list[Setting]:
    """Standard contrastive learning without a projector head and with each kind and dimension, at sigma 25."""
    dimensions = {"smoke": (8,), "laptop": (4, 16)}.get(preset, HEAD_SIZES)
    taus = TAU_ALPHAS if preset == "paper" else (0.1,)
    kinds = [{"projector": kind, "projector_dim": k} for kind in ("linear", "mlp") for k in dimensions]
    return [{"method": "standard", "sigma": 25.0, "tau_alpha": tau, **kind} for kind in ({}, *kinds) for tau in taus]


# The runs whose temperatures Figures 6 and 7 follow.
FOLLOWED: Setting = {"method": "dw_pairs", "sigma": SIGMA, "tau_alpha": 0.125, "tau_beta": 0.1, "discriminator": "global"}


def wants_trace(run: Run) -> bool:
    """Whether a run leaves a trace of its temperatures: if the paper follows it, on the grid's seeds, at our rate of dropout."""
    followed = run == Run(**FOLLOWED, seed=run.seed, protocol=run.protocol)
    return followed and run.seed < FIRST_FRESH_SEED and run.protocol.dropout == Protocol().dropout


def weight_outside(preset: str) -> list[Setting]:
    """The weight inside and outside the exponent, and no weight at all."""
    taus = (0.075, 0.1, 0.175) if preset == "paper" else (0.1,)
    kinds: tuple[Setting, ...] = ({"method": "standard"}, {"method": "dw_outside"}, {"method": "dw_negatives", "tau_beta": 0.5})
    return [{"tau_alpha": tau, "sigma": SIGMA, **kind} for tau in taus for kind in kinds]


ADAPTIVE: Mapping[str, Setting] = {  # temperatures that adapt: to domains, to a batch, to an image (the last two as published)
    "dw_negatives": {"tau_beta": 0.1},
    "dw_pairs": {"tau_beta": 0.1},
    "macl": {"lambda_": 0.5},
    "isogclr": {"lambda_": 0.3},
}


def other_temperatures(preset: str) -> list[Setting]:
    """Adaptive temperatures, of domains and of none, beside the standard loss, and some of them behind a projector head."""
    taus = (0.1,) if preset == "smoke" else (0.1, 0.15)
    plain: list[dict[str, Any]] = [{"method": "standard", "tau_alpha": tau} for tau in (0.05, *taus)]
    plain += [{"method": method, "tau_alpha": tau, **more} for method, more in ADAPTIVE.items() for tau in taus]
    behind = [one for one in plain if one["method"] in ("standard", *PROPOSED)]
    head = {"projector": "mlp", "projector_dim": 16}
    return [{"sigma": SIGMA, **one} for one in [*plain, *({**one, **head} for one in behind)]]


# --- frozen selections ------------------------------------------------------------------------------------------------


@cache
def frozen(folder: str = "frozen") -> tuple[dict[str, Any], ...]:
    """The frozen selections: name, seeds (on which they were selected) and configurations (settings), sorted by file name."""
    files = [path for path in (resources.files("dtcl_study") / folder).iterdir() if path.name.endswith(".json")]
    return tuple(json.loads(path.read_text(encoding="utf-8")) for path in sorted(files, key=lambda path: path.name))


def fresh(preset: str) -> list[Setting]:
    """Every frozen configuration: fifty fresh seeds at sigma 50, ten elsewhere."""
    found: list[Setting] = []
    for selection in frozen() if preset == "paper" else ():
        for setting in selection["configurations"]:
            count = FRESH_SEEDS if setting["sigma"] == SIGMA else FEWER_FRESH_SEEDS
            found.append({**setting, "seeds": range(FIRST_FRESH_SEED, FIRST_FRESH_SEED + count)})
    return found


# Tried below in all four baselines, because its leads came near the paper's; the second study takes it.
HIGHER_DROPOUT, HIGHER_DROPOUT_CHANGE = "dropout 0.25", {"dropout": 0.25}


def other_choices() -> dict[str, tuple[dict[str, Any], tuple[str, ...]]]:
    """What the paper leaves open, changed one at a time: the change to the protocol, and the methods that it is tried in."""
    weight: dict[str, dict[str, Any]] = {
        "tau_min 0.01": {"tau_min": 0.01},
        "discriminator fitted on views in training mode": {"discriminator_inputs": "augmented", "discriminator_mode": "train"},
        "discriminator solved to its optimum": {"discriminator_fit": "newton"},
        "posterior of the anchor's view": {"posterior_view": "anchor_view"},
        "gradient through the weight": {"weight_gradient": True},
    }
    networks: dict[str, dict[str, Any]] = {
        "colours clipped": {"color_clipping": "clip"},
        "crops from 0.2": {"crop_scale": (0.2, 1.0)},
        HIGHER_DROPOUT: HIGHER_DROPOUT_CHANGE,
        "batches of 128": {"batch_size": 128},
        "both directions of the loss": {"symmetric": True},
        "max pooling": {"downsampling": "max_pool"},
        "twice the channels": {"channels": tuple(2 * n for n in Protocol().channels)},
    }
    every = {name: (change, PROPOSED) for name, change in weight.items()}
    tried_in = {name: BASELINES if name == HIGHER_DROPOUT else BASELINES[:1] for name in networks}
    return every | {name: (change, (*tried_in[name], *PROPOSED)) for name, change in networks.items()}


def of_change(runs: Iterable[Run], change: str, methods: Collection[str]) -> list[Run]:
    """Those of some runs of `choices` that one of `other_choices` asks for, in some methods."""
    settings = other_choices()[change][0].items()
    return [run for run in runs if run.method in methods and settings <= vars(run.protocol).items()]


def choices(preset: str) -> list[Setting]:
    """Each of `other_choices` alone, in the frozen configurations at sigma 50; in smoke and laptop of Standard CL and Pairs only."""
    if preset == "paper":
        chosen = [c for s in frozen() for c in s["configurations"] if c["sigma"] == SIGMA and c.get("discriminator") != "batch"]
        seeds = {"seeds": range(FIRST_FRESH_SEED, FIRST_FRESH_SEED + FEWER_FRESH_SEEDS)}
    else:
        chosen = comparison(("standard", "dw_pairs"))("smoke")
        seeds = {}
    tried = [(c, change) for change, methods in other_choices().values() for c in chosen if c["method"] in methods]
    return [{**c, **seeds, "protocol": change} for c, change in tried]


def retuned(preset: str) -> list[Setting]:
    """Standard CL and Same Domain Negatives with dropout 0.25 at several temperatures, so that each may choose its own again."""
    taus, count = ((0.05, 0.075, 0.1, 0.125), FEWER_FRESH_SEEDS) if preset == "paper" else ((0.1, 0.125), PRESETS[preset].seeds)
    shared = {"sigma": SIGMA, "protocol": HIGHER_DROPOUT_CHANGE, "seeds": range(FIRST_FRESH_SEED, FIRST_FRESH_SEED + count)}
    return [{"method": method, "tau_alpha": tau, **shared} for method in BASELINES[:2] for tau in taus]


def other_selection(preset: str) -> list[Setting]:
    """Negatives in the configuration that redrawn seeds of the grid select most often besides the frozen one, on the fresh seeds.

    Asked for before its rows, as a look at how much the selection decides; whatever they say, no verdict changes.
    """
    seeds = range(FIRST_FRESH_SEED, FIRST_FRESH_SEED + (FRESH_SEEDS if preset == "paper" else PRESETS[preset].seeds))
    return [{"method": "dw_negatives", "tau_alpha": 0.075, "tau_beta": 0.25, "sigma": SIGMA, "seeds": seeds}]


# The second study: the main comparison with dropout 0.25 (PREREGISTRATION_DROPOUT.md).
HIGHEST_IN_DROPOUT_GRID = 0.175  # tau_alpha; these methods select no higher one, in the paper's text or in the first study


def dropout_grid(preset: str) -> list[Setting]:
    """The lower temperatures of the main comparison's grid, its oracle aside, with dropout 0.25."""
    every = [{**one, "protocol": HIGHER_DROPOUT_CHANGE} for one in comparison((*BASELINES, *PROPOSED))(preset)]
    return [one for one in every if one["tau_alpha"] <= HIGHEST_IN_DROPOUT_GRID or preset != "paper"]


def dropout_fresh(preset: str) -> list[Setting]:
    """What `dropout_grid` selects, once it is frozen, on fifty further fresh seeds, on which no settings were compared."""
    chosen = [c for one in frozen("frozen_dropout") for c in one["configurations"]] if preset == "paper" else []
    first = FIRST_FRESH_SEED + FRESH_SEEDS
    return [{**c, "protocol": HIGHER_DROPOUT_CHANGE, "seeds": range(first, first + FRESH_SEEDS)} for c in chosen]


# --- the registry -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Experiment:
    """A named list of runs.

    Attributes:
        name: how the command line and chapters call it.
        title: what it reproduces.
        settings: what its runs set in a preset. A setting that names its `seeds` takes no others.
        records: whether a run leaves a trace of its temperatures.
    """

    name: str
    title: str
    settings: Callable[[str], Sequence[Setting]]
    records: Callable[[Run], bool] = wants_trace

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods it compares."""
        return tuple(dict.fromkeys(setting["method"] for setting in self.settings("paper")))

    def runs(
        self, preset: str = "paper", *, seeds: int | None = None, epochs: int | None = None,
        sigma: float | str | Iterable[float] | None = None, methods: str | Iterable[str] | None = None,
        tau_alpha: float | str | Iterable[float] | None = None,
    ) -> list[Run]:  # fmt: skip
        """The runs of the experiment, those of a seed together.

        Args:
            preset: a name in `PRESETS`.
            seeds: number of seeds, from 0, or how many of those that settings have of their own; None: the preset's, or all of those.
            epochs: None: the preset's number.
            sigma: one or more colour spreads, in their order; None: the experiment's.
            methods: names, or one string of names with commas; None or "all": the experiment's.
            tau_alpha: temperatures to try instead of the preset's.

        Raises:
            ValueError: for anything out of range or unknown, and for `tau_alpha` where settings have seeds of their own.
        """
        size = PRESETS[checked_choice("preset", preset, tuple(PRESETS))]
        count = int(checked_number("seeds", size.seeds if seeds is None else seeds, 1, MAX_SEEDS, integer=True))
        shared = replace(Protocol(), **{**size.changes, "epochs": size.epochs if epochs is None else epochs})
        chosen = self._chosen(methods)
        settings = [setting for setting in self.settings(preset) if setting["method"] in chosen]
        fixed = any("seeds" in setting for setting in settings)
        if fixed and tau_alpha is not None:
            raise ValueError(f"the runs of {self.name} are fixed: tau_alpha cannot be changed in preset {preset}.")
        if sigma is not None:
            usual, settings = settings, []
            for spread in listed_numbers("sigma", sigma):
                there = [setting for setting in usual if setting["sigma"] == spread]
                if fixed and not there:
                    raise ValueError(f"the runs of {self.name} are fixed, and none is at sigma {spread:g} in preset {preset}.")
                settings += there or [{**setting, "sigma": spread} for setting in usual]
        if tau_alpha is not None:
            taus = listed_numbers("tau_alpha", tau_alpha)
            settings = [{**setting, "tau_alpha": tau} for setting in settings for tau in taus]
        runs: list[Run] = []
        for setting in settings:
            fields = {name: value for name, value in setting.items() if name not in ("seeds", "protocol")}
            protocol = replace(shared, **setting["protocol"]) if "protocol" in setting else shared
            own = setting.get("seeds", range(count))
            runs += [Run(seed=seed, protocol=protocol, **fields) for seed in (own if seeds is None else own[:count])]
        return list(dict.fromkeys(sorted(runs, key=lambda run: run.seed)))

    def _chosen(self, methods: str | Iterable[str] | None) -> set[str]:
        if methods is None or methods == "all":
            return {*self.methods}
        if not isinstance(methods, Iterable):
            raise ValueError(f"methods must be names with commas between them, got {methods!r}.")
        names = [m.strip() for m in methods.split(",")] if isinstance(methods, str) else list(methods)
        known = self.methods or tuple(ALL_METHODS)  # it has none before a selection is frozen
        if unknown := [name for name in names if name not in known]:
            it = f"no method {unknown[0]!r}{closest(unknown[0], known)} in {self.name}"
            raise ValueError(f"{it}; there are {', '.join(known)}.")
        if not names:
            raise ValueError("methods must name at least one method.")
        return {*names}


def listed_numbers(name: str, value: Any) -> list[Any]:
    """A number, a sequence of numbers, or a string of numbers with commas, as a list.

    Raises:
        ValueError: naming what was given, for anything else or nothing at all.
    """
    values = value.split(",") if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
    try:
        numbers = [one if isinstance(one, Real) else float(one) for one in values]
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers with commas between them, got {value!r}.") from None
    if not numbers:
        raise ValueError(f"{name} must be at least one number.")
    return numbers


REGISTRY = {
    experiment.name: experiment
    for experiment in (
        Experiment("main_table", "Table 1: seven methods at sigma 50, 1 % of labels", comparison(tuple(METHODS))),
        Experiment("label_fractions", "Table 2: 1, 10 and 100 % of labels", comparison(tuple(METHODS))),
        Experiment("temperature", "Tables 3 to 8: tau_alpha by tau_beta", comparison(PROPOSED)),
        Experiment("model_selection", "Figure 4: every configuration", comparison(tuple(METHODS))),
        Experiment("sigma_ablation", "Figure 1: seven methods at five spreads", comparison(tuple(METHODS), SIGMAS)),
        Experiment("global_vs_batch", "Table 9: two kinds of discriminator", both_discriminators),
        Experiment("projector_head", "Figure 5: projector heads, at sigma 25", heads),
        Experiment("effective_temperature", "Figures 6 and 7: temperatures by epoch", lambda _: [FOLLOWED], lambda _: True),
        Experiment("fresh", "the selected configurations on fresh seeds", fresh),
        Experiment("choices", "what the paper leaves open, changed one at a time", choices),
        Experiment("retuned", "two baselines with dropout 0.25 and several temperatures", retuned),
        Experiment("other_selection", "Domain-Weighted Negatives as other seeds would select it", other_selection),
        Experiment("dropout_grid", "Table 1 with dropout 0.25, its oracle aside: temperatures up to 0.175", dropout_grid),
        Experiment("dropout_fresh", "Table 1 with dropout 0.25: what is selected, on further fresh seeds", dropout_fresh),
        Experiment("weight_outside", "claim 13: a weight outside the exponent", weight_outside),
        Experiment("other_temperatures", "temperatures that know no domain, and projector heads", other_temperatures),
        Experiment("left_open", "what the paper leaves open, inferred from what it reports", left_open.settings),
    )
}

# What is trained, in this order. A name begins with its experiment; after a comma, what part of it. Other experiments show these runs.
PARTS: dict[str, dict[str, Any]] = {
    "main_table": {}, "fresh": {}, "projector_head": {}, "sigma_ablation, seed 0": {"sigma": (150, 75, 25, 0), "seeds": 1},
    "global_vs_batch, sigma 50": {"sigma": 50}, "choices": {}, "retuned": {}, "other_selection": {},
    "dropout_grid": {}, "dropout_fresh": {}, "weight_outside": {}, "other_temperatures": {}, "sigma_ablation": {}, "global_vs_batch": {}, "left_open": {},
}  # fmt: skip
