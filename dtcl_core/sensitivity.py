"""How the choices that the paper leaves open move its numbers, and the rule by which the default protocol was chosen.

Open choices may be fitted to three things only: the reported row of standard contrastive learning, that of its oracle with
colour jitter, and the collapse at tau_alpha = 1. The proposed methods' other numbers take no part, so that they can be
measured afterwards. A *variation* is the default protocol with some fields changed. Its *misfit* is the mean over those
three groups of the mean absolute difference between reported and measured accuracies (1 % of labels, sigma 50, means over
seeds; the temperature of a method is selected by validation among those tried).

The rule:

1. Short runs narrow: variations are ranked by misfit at `SHORT_EPOCHS` epochs.
2. Full runs (400 epochs) decide, among the best of the short ones and the starting point.
3. Variations whose misfit is within `ALIKE` of the smallest fit alike. Among them the one with the fewest changes to the
   starting point is taken, then the cheaper one.

When was it written? Commit dda97d0 holds it. The short runs of the first four variations (of the fourth in part), and the
beginning of the start's full runs, are older; all else is younger. How many variations go through to full runs was not said
beforehand, and the second finalist was named before all short runs were in; with all of them it is the best short one. The
default was frozen at `FROZEN`.

`LATER` are variations of other choices that standard contrastive learning or its oracle can see, made after the default was
frozen: they show how much a choice moves, and decide nothing. Choices that only the domain weight sees were not calibrated
either: `weight_choices` varies them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from . import reported, selection
from .config import Protocol, Run
from .encoder import IMAGE_SIZE
from .statistics import mean_interval

SHORT_EPOCHS, FULL_EPOCHS = 60, 400
FROZEN = "2026-11-21T10:21:03+00:00"  # commit 4569f72; rows made later decide nothing
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

    def fields(self, probe: str) -> dict[str, Any]:
        """The fields of `Protocol` that it sets, those of the start among them."""
        return {**STARTING, "probe_features": probe, **self.changes}

    def protocol(self, epochs: int, probe: str = "raw") -> Protocol:
        return replace(START, epochs=epochs, **self.fields(probe))

    def settings(self, epochs: int | None = None) -> list[dict[str, Any]]:
        """Standard at a few temperatures, the oracle, and a cell that should collapse; each probed in all ways.

        Args:
            epochs: None leaves them to the preset.
        """
        taus = SHORT_TAUS if epochs is None or epochs <= SHORT_EPOCHS else PLAIN_TAUS
        cells = [{"method": "standard", "tau_alpha": tau} for tau in taus]
        cells += [{"method": "color_jitter", "tau_alpha": 0.1}, COLLAPSE]
        length = {} if epochs is None else {"epochs": epochs}
        return [{**cell, "protocol": {**self.fields(probe), **length}} for probe in PROBES for cell in cells]


# Where calibration started: what it varies is written out, so that a default frozen later does not move it.
STARTING: Mapping[str, Any] = {
    "crop_scale": (0.2, 1.0),
    "crop_ratio": (0.75, 1.3333333333333333),
    "blur_kernel": 3,
    "blur_probability": 0.5,
    "channels": (16, 16, 32),
    "dropout": 0.1,
    "dropout_kind": "element",
    "batch_size": 256,
    "probe_features": "raw",
    "input_normalization": "none",
    "color_clipping": "clip",
    "symmetric": False,
}
START = Protocol(**STARTING)

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
LATER = (  # after the default was frozen: no part in the rule
    Variation("splits stratified", {"stratified_splits": True}),
    Variation("square crops", {"crop_ratio": (1.0, 1.0)}),
    Variation("blur of at most 1 pixel", {"blur_sigma": (0.1, 1.0)}),
    Variation("SimCLR's jitter", {"jitter_strengths": (0.8, 0.8, 0.8, 0.2), "jitter_probability": 0.8}),
    Variation("jitter before blur", {"jitter_position": "before_blur"}),
    Variation("convolutions of 5 x 5", {"kernel_size": 5}),
    Variation("max pooling", {"downsampling": "max_pool"}),
    Variation("norm after ReLU", {"block_order": "relu-norm-dropout"}),
    Variation("last batch kept", {"drop_last": False}),
    Variation("labels stratified", {"stratified_labels": True}),
    Variation("labels not nested", {"nested_labels": False}),
    Variation("domain probe on few labels", {"domain_probe_data": "label_subset"}),
    Variation("probe's penalty / 100", {"probe_l2": 0.01}),
    Variation("probe's penalty x 100", {"probe_l2": 100.0}),
)
ALL = (*VARIATIONS, *LATER)
PROBES = ("raw", "l2", "standardized")  # each variation is probed in these ways: that costs no training
FINALISTS = ("start", "torchvision's crops, no dropout")  # trained in full: where we started, and the best short one


def settings(preset: str) -> list[dict[str, Any]]:
    """What the experiment `sensitivity` sets in a preset."""
    if preset == "smoke":
        return VARIATIONS[0].settings()
    found = [setting for v in ALL for setting in v.settings(SHORT_EPOCHS)]
    if preset != "laptop":
        found += [setting for v in VARIATIONS if v.name in FINALISTS for setting in v.settings(FULL_EPOCHS)]
    return found


def named(frame: pd.DataFrame, runs: Iterable[Run]) -> pd.DataFrame:
    """Rows with columns for the variation, its probe and how many fields it changes, from their runs' configuration."""
    by_protocol = {
        v.protocol(START.epochs, probe): (v.name, probe, len(v.changes) + (probe != START.probe_features))
        for v in ALL
        for probe in PROBES
    }
    sized = [(run.key, replace(run.protocol, epochs=START.epochs, split_sizes=START.split_sizes)) for run in runs]
    names = {key: by_protocol[protocol] for key, protocol in sized}
    told = pd.DataFrame([names[key] for key in frame.key], columns=["variation", "probe", "changes"], index=frame.index)
    return pd.concat([frame, told], axis=1)


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
        chosen, told = rows_of_group(rows, group), targets(group)
        for metric in metrics:
            if len(chosen):
                lines.append((group, metric, told[metric], chosen[metric].mean(), chosen.seed.nunique()))
    return pd.DataFrame(lines, columns=["group", "metric", "reported", "measured", "n"])


def rows_of_group(rows: pd.DataFrame, group: str) -> pd.DataFrame:
    """Those of a variation's rows that are compared with a group of reported numbers."""
    if group == "collapse":
        return rows[(rows.method == COLLAPSE["method"]) & (rows.tau_alpha == COLLAPSE["tau_alpha"])]
    return selection.rows_of(rows, selection.select(rows[rows.method == group]))


def targets(group: str) -> pd.Series:
    """The reported numbers of a group, by metric."""
    told = reported.collapse() if group == "collapse" else reported.main_comparison()
    told = told if group == "collapse" else told[told.method == group]
    return told.groupby("metric").value.mean()


def score(table: pd.DataFrame) -> float:
    """The misfit of a variation: over groups, the mean of their mean absolute differences; NaN unless all are there."""
    if set(table.group) != set(GROUPS):
        return float("nan")
    return float((table.measured - table.reported).abs().groupby(table.group).mean().mean())


def on_shared_seeds(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of those seeds for which every variation, probe and method shown was trained; all if there is none."""
    by = [part for _, part in rows.groupby(["variation", "probe", "method"]).seed]
    shared = set.intersection(*(set(seeds) for seeds in by)) if by else set()
    return rows[rows.seed.isin(shared)] if shared else rows


def ranking(rows: pd.DataFrame) -> pd.DataFrame:
    """Variations by misfit on the seeds they share, smallest first; those of `LATER` take no part.

    Args:
        rows: as from `named`, of one number of epochs.

    Returns:
        Columns: variation, probe, changes, misfit, n (seeds), cost (see `cost`); variations with a misfit only.
    """
    rows = rows[rows.variation.isin([v.name for v in VARIATIONS])]
    lines = []
    for (variation, probe, changes), part in on_shared_seeds(rows).groupby(["variation", "probe", "changes"]):
        table = misfit(part)
        protocol = next(v for v in VARIATIONS if v.name == variation).protocol(1, probe)
        lines.append((variation, probe, changes, score(table), table.n.min(), cost(protocol)))
    table = pd.DataFrame(lines, columns=["variation", "probe", "changes", "misfit", "n", "cost"])
    return table.dropna(subset="misfit").sort_values(["misfit", "changes"], ignore_index=True)


def decide(full: pd.DataFrame) -> pd.Series:
    """The line of a `ranking` of full runs that the rule takes.

    Raises:
        ValueError: if there is none.
    """
    if full.empty:
        raise ValueError("no variation has its full runs yet.")
    alike = full[full.misfit <= full.misfit.min() + ALIKE]
    return alike.sort_values(["changes", "cost", "misfit"], kind="stable").iloc[0]


def cost(protocol: Protocol) -> float:
    """Millions of multiplications of the convolutions for one image, forward: what a run costs, but for a factor."""
    side, before, total = IMAGE_SIZE, 3, 0
    for width in protocol.channels:
        if protocol.downsampling == "stride":
            side = -(-side // 2)
        total += side**2 * before * width * protocol.kernel_size**2
        if protocol.downsampling != "stride":
            side //= 2
        before = width
    return total / 1e6


def effects(rows: pd.DataFrame, probe: str = "raw") -> pd.DataFrame:
    """What each variation measures, in the groups and metrics of the misfit.

    Args:
        rows: as from `named`, of one number of epochs.
        probe: whose rows.

    Returns:
        Columns: variation, group, metric, reported, mean, low, high (95 % interval over seeds) and n.
    """
    lines = []
    for variation in (v.name for v in ALL):
        part = rows[(rows.variation == variation) & (rows.probe == probe)]
        part = part[(part.label_fraction == selection.SELECTION_FRACTION) & (part.status == "ok")]
        for group, metrics in GROUPS.items():
            chosen = rows_of_group(part, group)
            for metric in metrics if len(chosen) else ():
                lines.append((variation, group, metric, targets(group)[metric], *mean_interval(chosen[metric])))
    return pd.DataFrame(lines, columns=["variation", "group", "metric", "reported", "mean", "low", "high", "n"])
