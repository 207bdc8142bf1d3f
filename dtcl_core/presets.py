"""What can be asked for, by name: the experiments, and how much of one.

Nothing heavy is imported here, so that the command line explains itself at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Preset:
    """How much of an experiment is asked for: seeds, epochs, what it is for, changes to the protocol, and what to mind."""

    seeds: int
    epochs: int
    purpose: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    caution: str = ""


PRESETS = {
    "smoke": Preset(
        2,
        1,
        "real training on a fifth of the images, in seconds",
        {"split_sizes": (1386, 231, 231, 462)},
        "Smoke runs train for a few steps, to show that all works; methods may come out alike, and no number means anything.",
    ),
    "laptop": Preset(3, 100, "short runs of a sub-grid, hours on a CPU at most"),
    "core": Preset(5, 400, "full runs: a strip of every grid, then what validation selects"),
    "paper": Preset(5, 400, "the paper's grid"),
    "first": Preset(5, 400, "full runs under the first reading, part of the paper's grid"),
}

# The experiments; `experiments.REGISTRY` says which runs each needs.
EXPERIMENTS = (
    "main_table", "sigma_ablation", "label_fractions", "temperature", "model_selection", "global_vs_batch",
    "projector_head", "effective_temperature", "encoders", "readings", "calibration", "sensitivity", "weight_choices",
    "questions", "whole_grid", "adding_a_method", "heads_and_temperatures", "claims",
)  # fmt: skip
ENGINES = ("local", "ray")
