"""Choices that only the domain weight sees, varied one at a time under the first reading; they decide nothing.

Of the numbers that the first calibration (`analysis.sensitivity`) may look at only the collapse at tau_alpha = 1 depends on
them, and little there, where tau_beta is small; so they were not calibrated. Each of `CHOICES` is made in the two cells that
the paper selected, for both proposed methods. In both cells tau_min sets the temperature of the pairs that surely share a
domain; `OFF_FLOOR` is a cell where it does not. `analysis.weight_effects` makes tables of what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..config import Protocol
from .readings import FIRST

# What only methods with a domain weight see, one choice changed at a time.
CHOICES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "tau_min 0.05": {"tau_min": 0.05},  # the smallest temperature of the paper's grid
    "100 Adam steps": {"discriminator_fit": "adam"},
    "l2 of 100": {"discriminator_l2": 100.0},
    "fitted on views": {"discriminator_inputs": "augmented"},
}
PAPER_CELLS: Mapping[str, Mapping[str, float]] = {  # what the paper selected at sigma 50
    "dw_negatives": {"tau_alpha": 0.075, "tau_beta": 0.5},
    "dw_pairs": {"tau_alpha": 0.175, "tau_beta": 1.0},
}
# The paper draws its temperatures, for pairs; Eq. 3 stays above tau_min for any weight.
OFF_FLOOR: Mapping[str, float] = {"tau_alpha": 0.125, "tau_beta": 0.1}
REFERENCES = ("same_domain", "standard")  # to compare with, at tau 0.1


def settings(preset: str) -> list[dict[str, Any]]:
    """What the experiment `weight_choices` sets in a preset: both cells of both methods under each choice, and references.

    Under the default choice `OFF_FLOOR` is beside them.
    """
    names = list(CHOICES)[: 2 if preset in ("smoke", "first") else None]  # of the first reading no more was run
    weighted = [(name, method, cell) for name in names for method in PAPER_CELLS for cell in PAPER_CELLS.values()]
    return [
        *({"method": method, **cell, "protocol": CHOICES[name]} for name, method, cell in weighted),
        *({"method": method, **OFF_FLOOR} for method in PAPER_CELLS),
        *({"method": method, "tau_alpha": 0.1} for method in REFERENCES),
    ]


def choice_of(protocol: Protocol) -> str:
    """Which of `CHOICES` a protocol makes.

    Raises:
        ValueError: if it makes none of them.
    """
    default, fields = FIRST, {name for changes in CHOICES.values() for name in changes}
    made = {name: getattr(protocol, name) for name in fields if getattr(protocol, name) != getattr(default, name)}
    for name, changes in CHOICES.items():
        if made == changes:
            return name
    raise ValueError(f"no choice in CHOICES is {made!r}.")
