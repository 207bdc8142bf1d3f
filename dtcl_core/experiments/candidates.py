"""What the paper leaves open and its numbers can tell: candidates for the networks, then for the weight, and their runs.

`analysis.inference` is the rule that chooses among them. Candidates are listed plainest first. Every field that a candidate may
change is written out, so that no default moves them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

from ..config import Protocol, Run

Configuration = Mapping[str, Any]  # method, tau_alpha, and tau_beta or lambda_
SIGMA = 50.0
NETWORK_SEEDS, MORE_NETWORK_SEEDS = (100, 101), (102, 103, 104, 105)
WEIGHT_SEEDS, MORE_WEIGHT_SEEDS = (100, 101, 102, 103), (104, 105, 106, 107)
HIGHER_FLOOR, LOWER_FLOOR = 0.05, 0.01

FIXED: Mapping[str, Any] = {
    "color_clipping": "clip",
    "crop_scale": (0.08, 1.0),
    "dropout": 0.1,
    "discriminator_fit": "newton",
    "discriminator_steps": 100,
    "discriminator_learning_rate": 0.01,
    "discriminator_inputs": "clean",
    "discriminator_mode": "eval",
    "tau_min": HIGHER_FLOOR,
    "label_draws": 20,
    "domain_probe_data": "label_subset",
}
# Of the baselines and the oracle; the one with the best validation accuracy is compared with the paper's.
NETWORK_CONFIGURATIONS: tuple[Configuration, ...] = (
    *({"method": "standard", "tau_alpha": tau} for tau in (0.05, 0.075, 0.1)),
    *({"method": "same_domain", "tau_alpha": tau} for tau in (0.075, 0.1, 0.125)),
    *({"method": "mmd", "tau_alpha": tau, "lambda_": 5.0} for tau in (0.05, 0.075, 0.125)),
    *({"method": "dann", "tau_alpha": tau, "lambda_": 1.0} for tau in (0.05, 0.075, 0.1)),
    *({"method": "color_jitter", "tau_alpha": tau} for tau in (0.1, 0.25)),
)
# Of both proposed methods, each compared with its own number in Tables 3 and 6.
WEIGHT_CONFIGURATIONS: tuple[Configuration, ...] = tuple(
    {"method": method, "tau_alpha": tau_alpha, "tau_beta": tau_beta}
    for method in ("dw_negatives", "dw_pairs")
    for tau_alpha, tau_beta in (
        (0.05, 0.1), (0.05, 1.0), (0.1, 0.5), (0.15, 0.1), (0.175, 0.1),
        (0.175, 0.25), (0.2, 0.25), (0.25, 0.5), (0.175, 1.0), (0.5, 1.0),
    )
)  # fmt: skip


@dataclass(frozen=True)
class Candidate:
    """One way to fill what the paper leaves open.

    Attributes:
        name: how pages call it.
        changes: fields of `Protocol`, beside `FIXED`.
    """

    name: str
    changes: Mapping[str, Any]

    @cached_property
    def protocol(self) -> Protocol:
        return Protocol(**{**FIXED, **self.changes})

    def run(self, configuration: Configuration, seed: int, sized: Protocol | None = None) -> Run:
        """A run of it; where both floors lie below every temperature that Eq. 3 can give, that of the higher floor."""
        changes: dict[str, Any] = {}
        lowest = configuration["tau_alpha"] - configuration.get("tau_beta", 0.0) / 2
        if lowest >= HIGHER_FLOOR - 1e-9:
            changes["tau_min"] = HIGHER_FLOOR
        if sized is not None:
            changes |= {"epochs": sized.epochs, "split_sizes": sized.split_sizes}
        return Run(sigma=SIGMA, seed=seed, protocol=replace(self.protocol, **changes), **configuration)


def _network(clipping: str, least: float, dropout: float) -> Candidate:
    colors = {"clip": "colours clipped", "none": "colours not clipped"}[clipping]
    changes = {"color_clipping": clipping, "crop_scale": (least, 1.0), "dropout": dropout}
    return Candidate(f"{colors}, crops from {least:g}, dropout {dropout:g}", changes)


NETWORKS: tuple[Candidate, ...] = (
    *(_network("clip", least, dropout) for dropout, least in product((0.1, 0.0), (0.08, 0.2))),
    *(_network("none", least, dropout) for dropout, least in product((0.1, 0.0), (0.2, 0.35, 0.5))),
)
_ADAM = {"discriminator_fit": "adam"}
_VIEWS = {"discriminator_inputs": "augmented", "discriminator_mode": "train"}
WEIGHTS: tuple[Candidate, ...] = (
    Candidate("solved on clean images, tau_min 0.05", {}),
    Candidate("solved on clean images, tau_min 0.01", {"tau_min": LOWER_FLOOR}),
    Candidate("solved on views in training mode, tau_min 0.05", _VIEWS),
    Candidate("100 Adam steps of 0.01, tau_min 0.05", _ADAM),
    Candidate("100 Adam steps of 0.01, tau_min 0.01", {**_ADAM, "tau_min": LOWER_FLOOR}),
    Candidate("100 Adam steps of 0.005, tau_min 0.05", {**_ADAM, "discriminator_learning_rate": 0.005}),
)

# What the rule said of the rows, stage by stage; a test holds these names to them.
BEST_NETWORKS: tuple[str, ...] = ()  # the two that get more seeds
TAKEN_NETWORKS: tuple[str, ...] = ()  # one, or two that fit alike
BEST_WEIGHTS: tuple[str, ...] = ()
CHOSEN: Mapping[str, Any] | None = None  # the changes to `Protocol` that were chosen


def weight_candidates(networks: Sequence[str]) -> tuple[Candidate, ...]:
    """The candidates of the second stage under some networks of the first."""
    return tuple(
        Candidate(weight.name if len(networks) < 2 else f"{weight.name}; {network.name}", {**network.changes, **weight.changes})
        for network in NETWORKS
        if network.name in networks
        for weight in WEIGHTS
    )


def runs(
    candidates: Sequence[Candidate],
    configurations: Sequence[Configuration],
    seeds: Sequence[int],
    sized: Protocol | None = None,
) -> list[Run]:
    """Every configuration of some candidates on some seeds, each run once."""
    found = [c.run(configuration, seed, sized) for c in candidates for configuration in configurations for seed in seeds]
    return list(dict.fromkeys(found))


def asked(sized: Protocol | None = None) -> list[Run]:
    """The runs of both stages, as far as the choices made tell which they are."""
    found = runs(NETWORKS, NETWORK_CONFIGURATIONS, NETWORK_SEEDS, sized)
    best = [network for network in NETWORKS if network.name in BEST_NETWORKS]
    found += runs(best, NETWORK_CONFIGURATIONS, MORE_NETWORK_SEEDS, sized)
    weights = weight_candidates(TAKEN_NETWORKS)
    found += runs(weights, WEIGHT_CONFIGURATIONS, WEIGHT_SEEDS, sized)
    best = [weight for weight in weights if weight.name in BEST_WEIGHTS]
    found += runs(best, WEIGHT_CONFIGURATIONS, MORE_WEIGHT_SEEDS, sized)
    return list(dict.fromkeys(found))


def settings(preset: str) -> list[dict[str, Any]]:
    """What the experiment sets in a preset of short runs: two networks, one configuration a method."""
    first = {configuration["method"]: configuration for configuration in reversed(NETWORK_CONFIGURATIONS)}
    return [
        {**configuration, "sigma": SIGMA, "protocol": {**FIXED, **network.changes}}
        for network in NETWORKS[:2]
        for configuration in reversed(first.values())
    ]
