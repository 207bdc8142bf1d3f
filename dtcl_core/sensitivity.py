"""How the choices that the paper leaves open move its numbers, and the rule by which the default protocol was chosen.

Open choices may be fitted to three things only: the reported row of standard contrastive learning, that of its oracle with
colour jitter, and the collapse at tau_alpha = 1. The proposed methods' other numbers take no part, so that they can be
measured afterwards. A *variation* is the default protocol with some fields changed. Its *misfit* is the mean over those
three groups of the mean absolute difference between reported and measured accuracies (1 % of labels, sigma 50, means over
seeds; the temperature of a method is selected by validation among those tried).

The rule, fixed before any variation was run:

1. Short runs narrow: variations are ranked by misfit at `SHORT_EPOCHS` epochs.
2. Full runs (400 epochs) decide, among the best of the short ones and the starting point.
3. Variations whose misfit is within `ALIKE` of the smallest fit alike. Among them the one with the fewest changes to the
   plain reading is taken, then the cheaper one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from . import reported, selection
from .config import Protocol, Run

SHORT_EPOCHS = 60
ALIKE = 0.02
PLAIN_TAUS = (0.05, 0.1, 0.2)
SHORT_TAUS = (0.1, 0.2)
COLLAPSE = {"method": "dw_pairs", "tau_alpha": 1.0, "tau_beta": 0.1}
GROUPS = {
    "standard": ("test_ood", "test_id", "d_test_id"),
    "color_jitter": ("test_ood", "test_id", "d_test_id"),
    "collapse": ("validation", "test_ood", "test_id"),
}


@dataclass(frozen=True)
class Variation:
    """The starting protocol with some choices made otherwise.

    Attributes:
        name: what the chapter calls it.
        changes: fields of `Protocol`.
    """

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)

    def protocol(self, epochs: int) -> Protocol:
        return replace(START, epochs=epochs, **self.changes)

    def runs(self, epochs: int, seeds: int) -> list[Run]:
        """Standard at a few temperatures, the oracle, and a cell that should collapse."""
        shared = self.protocol(epochs)
        taus = PLAIN_TAUS if epochs > SHORT_EPOCHS else SHORT_TAUS
        cells = [{"method": "standard", "tau_alpha": tau} for tau in taus]
        cells += [{"method": "color_jitter", "tau_alpha": 0.1}, COLLAPSE]
        return [Run(seed=seed, protocol=shared, **cell) for seed in range(seeds) for cell in cells]


# Where calibration started: written out, so that a default frozen later does not move it.
START = Protocol(
    crop_scale=(0.2, 1.0),
    crop_ratio=(0.75, 1.3333333333333333),
    blur_kernel=3,
    blur_probability=0.5,
    channels=(16, 16, 32),
    dropout=0.1,
    dropout_kind="element",
    batch_size=256,
    probe_features="raw",
    input_normalization="none",
    color_clipping="clip",
    symmetric=False,
)

VARIATIONS = (
    Variation("start"),
    Variation("torchvision's crops", {"crop_scale": (0.08, 1.0)}),
    Variation("no dropout", {"dropout": 0.0}),
    Variation("torchvision's crops, no dropout", {"crop_scale": (0.08, 1.0), "dropout": 0.0}),
    Variation("dropout 0.25", {"dropout": 0.25}),
    Variation("every view blurred, kernel 5", {"blur_probability": 1.0, "blur_kernel": 5}),
    Variation("half the first channels", {"channels": (8, 16, 32)}),
    Variation("batches of 64", {"batch_size": 64}),
    Variation("whole channels dropped", {"dropout_kind": "channel"}),
    Variation("twice the channels", {"channels": (32, 32, 64)}),
    Variation("inputs in [-1, 1]", {"input_normalization": "half"}),
    Variation("colours wrap", {"color_clipping": "wrap"}),
    Variation("symmetric loss", {"symmetric": True}),
)
PROBES = ("raw", "l2", "standardized")  # each variation is probed in these ways: that costs no training


def misfit(frame: pd.DataFrame) -> pd.DataFrame:
    """How far a variation's rows are from the numbers that may be used.

    Args:
        frame: rows of one variation, as from `results.Store.load`.

    Returns:
        Columns: group, metric, reported, measured (mean over seeds), n (seeds); no line for a group without rows.
    """
    rows = frame[(frame.label_fraction == selection.SELECTION_FRACTION) & (frame.status == "ok")]
    lines = []
    for group, metrics in GROUPS.items():
        if group == "collapse":
            chosen = rows[(rows.method == COLLAPSE["method"]) & (rows.tau_alpha == COLLAPSE["tau_alpha"])]
            told = reported.collapse()
        else:
            chosen = selection.rows_of(rows, selection.select(rows[rows.method == group]))
            told = reported.main_comparison()
            told = told[told.method == group]
        for metric in metrics:
            if len(chosen):
                value = told[told.metric == metric].value.mean()
                lines.append((group, metric, value, chosen[metric].mean(), chosen.seed.nunique()))
    return pd.DataFrame(lines, columns=["group", "metric", "reported", "measured", "n"])


def score(table: pd.DataFrame) -> float:
    """The misfit of a variation: over groups, the mean of their mean absolute differences; NaN unless all are there."""
    if set(table.group) != set(GROUPS):
        return float("nan")
    return float((table.measured - table.reported).abs().groupby(table.group).mean().mean())
