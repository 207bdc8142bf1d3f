"""What is varied where the paper leaves a choice open, each as a change to the protocol that calibration started from.

`VARIATIONS` took part in the calibration (`sensitivity` has its rule) and were compared with the numbers that it may look at.
The others came after the default was frozen; they show how much a choice moves, and decide nothing: `LATER` are choices that
the same numbers see, `UNSEEN` those that they do not, each tried in the `CELLS` that see it. `YARDSTICKS` change nothing but
chance. `LENGTHS` are for the choice between the last epoch and the best one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..config import Protocol
from .readings import FIRST
from .weight_choices import CHOICES, PAPER_CELLS

SHORT_EPOCHS, FULL_EPOCHS = 60, 400
LENGTHS = (SHORT_EPOCHS, 100, FULL_EPOCHS)  # a validated epoch is one of these
PLAIN_TAUS = (0.05, 0.1, 0.2)
SHORT_TAUS = (0.1, 0.2)
COLLAPSE = {"method": "dw_pairs", "tau_alpha": 1.0, "tau_beta": 0.1}
PROBES = ("raw", "l2", "standardized")  # each variation is probed in these ways: that costs no training

# Where choices that the calibration's numbers do not see can be seen. The first of them it may look at too: at tau_beta = 1 the
# temperatures of a collapsed run depend on the weight.
CELLS: Mapping[str, Mapping[str, Any]] = {
    "collapsed": {"method": "dw_pairs", "tau_alpha": 1.0, "tau_beta": 1.0},
    "pairs": {"method": "dw_pairs", **PAPER_CELLS["dw_pairs"]},
    "negatives": {"method": "dw_negatives", **PAPER_CELLS["dw_negatives"]},
    "mmd": {"method": "mmd", "tau_alpha": 0.1, "lambda_": 1.0},
    "dann": {"method": "dann", "tau_alpha": 0.1, "lambda_": 1.0},
    "projector": {"method": "standard", "tau_alpha": 0.1, "projector": "mlp", "projector_dim": 8},
}
SELECTED_CELLS = ("pairs", "negatives")  # what the paper selected for the proposed methods
WEIGHTED_CELLS = ("collapsed", *SELECTED_CELLS)
SEEN = ("standard", "color_jitter", "collapse")  # the runs that the calibration looks at


@dataclass(frozen=True)
class Variation:
    """The starting protocol with some choices made otherwise.

    Attributes:
        name: what the chapter calls it.
        changes: fields of `Protocol`.
        cells: names in `CELLS` it is tried in; empty for the runs that the calibration looks at.
        reaches: which of those runs it can change.
        replicate: which training of the same runs it is, see `config.Run`.
    """

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    cells: Sequence[str] = ()
    reaches: Sequence[str] = SEEN
    replicate: int = 0

    def fields(self, probe: str) -> dict[str, Any]:
        """The fields of `Protocol` that it sets, those of the start among them."""
        return {**STARTING, "probe_features": probe, **self.changes}

    def protocol(self, epochs: int, probe: str = "raw") -> Protocol:
        return replace(START, epochs=epochs, **self.fields(probe))

    def settings(self, epochs: int | None = None) -> list[dict[str, Any]]:
        """Standard at a few temperatures, the oracle, and a cell that should collapse, each probed in all ways; or `cells`.

        Args:
            epochs: None leaves them to the preset.
        """
        taus = SHORT_TAUS if epochs is None or epochs <= SHORT_EPOCHS else PLAIN_TAUS
        tried: list[Mapping[str, Any]] = [{"method": "standard", "tau_alpha": tau} for tau in taus]
        tried += [{"method": "color_jitter", "tau_alpha": 0.1}, COLLAPSE]
        tried = [CELLS[name] for name in self.cells] or tried
        probes = PROBES[:1] if self.cells else PROBES
        length = {} if epochs is None else {"epochs": epochs}
        again = {"replicate": self.replicate} if self.replicate else {}
        return [{**cell, **again, "protocol": {**self.fields(probe), **length}} for probe in probes for cell in tried]


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
START = replace(FIRST, **STARTING)

UNCHANGED = Variation("start")
VARIATIONS = (
    UNCHANGED,
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
FINALISTS = ("start", "torchvision's crops, no dropout")  # trained in full: where we started, and the best short one

AGAIN = Variation("trained again", replicate=1)  # the start, by later code
LATER = (  # after the default was frozen: no part in the rule
    AGAIN,
    Variation("splits stratified", {"stratified_splits": True}),
    Variation("square crops", {"crop_ratio": (1.0, 1.0)}),
    Variation("blur of at most 1 pixel", {"blur_sigma": (0.1, 1.0)}),
    Variation(
        "SimCLR's jitter",
        {"jitter_strengths": (0.8, 0.8, 0.8, 0.2), "jitter_probability": 0.8},
        reaches=("color_jitter",),
    ),
    Variation("jitter before blur", {"jitter_position": "before_blur"}, reaches=("color_jitter",)),
    Variation("convolutions of 5 x 5", {"kernel_size": 5}),
    Variation("max pooling", {"downsampling": "max_pool"}),
    Variation("norm after ReLU", {"block_order": "relu-norm-dropout"}),
    Variation("last batch kept", {"drop_last": False}),
    Variation("labels stratified", {"stratified_labels": True}),
    Variation("labels drawn again", {"nested_labels": False}),  # at one fraction that is all it does
    Variation("domain probe on few labels", {"domain_probe_data": "label_subset"}),
    Variation("probe's penalty / 100", {"probe_l2": 0.01}),
    Variation("probe's penalty x 100", {"probe_l2": 100.0}),
)
YARDSTICKS = (AGAIN.name, "labels drawn again")
UNCHANGED_IN_CELLS = Variation(UNCHANGED.name, cells=tuple(CELLS))  # what those of `UNSEEN` are compared with
UNSEEN = (  # by numbers the calibration may look at, or hardly: no part in the rule either
    Variation("tau_min 0.05", CHOICES["tau_min 0.05"], SELECTED_CELLS),
    Variation("tau_min 0.005", {"tau_min": 0.005}, SELECTED_CELLS),
    Variation("l2 of 100", CHOICES["l2 of 100"], WEIGHTED_CELLS),
    Variation("l2 of 0.01", {"discriminator_l2": 0.01}, WEIGHTED_CELLS),
    Variation("100 Adam steps", CHOICES["100 Adam steps"], WEIGHTED_CELLS),
    Variation("1,000 Adam steps", {"discriminator_fit": "adam", "discriminator_steps": 1000}, WEIGHTED_CELLS),
    Variation(
        "100 Adam steps of 0.1", {"discriminator_fit": "adam", "discriminator_learning_rate": 0.1}, WEIGHTED_CELLS
    ),
    Variation("fitted on views", CHOICES["fitted on views"], WEIGHTED_CELLS),
    Variation("fitted in training mode", {"discriminator_mode": "train"}, WEIGHTED_CELLS),
    Variation("fitted on directions", {"discriminator_features": "l2"}, WEIGHTED_CELLS),
    Variation("posterior of the anchor's view", {"posterior_view": "anchor_view"}, WEIGHTED_CELLS),
    Variation("gradient through the weight", {"weight_gradient": True}, WEIGHTED_CELLS),
    Variation("MMD of raw embeddings", {"mmd_features": "raw"}, ("mmd",)),
    Variation("MMD of one bandwidth", {"mmd_bandwidths": (1.0,)}, ("mmd",)),
    Variation("MMD of wider bandwidths", {"mmd_bandwidths": (1.0, 2.0, 4.0, 8.0)}, ("mmd",)),
    Variation("lambda ramped up", {"dann_schedule": "ganin"}, ("dann",)),
    Variation("adversary's rate x 10", {"dann_learning_rate": 1e-2}, ("dann",)),
    Variation("adversary's rate / 10", {"dann_learning_rate": 1e-4}, ("dann",)),
    Variation("penalty on anchors alone", {"penalty_views": "anchor"}, ("mmd", "dann")),
    Variation("hidden layer of 64", {"projector_hidden": 64}, ("projector",)),
    Variation("hidden batch norm", {"projector_batch_norm": True}, ("projector",)),
)
ALL = (*VARIATIONS, *LATER, *UNSEEN)
JUDGED_ELSEWHERE = ("label_draws", "dann_features")  # added with `calibration`
STATED = ("split_sizes", "embedding_dim", "epochs", "learning_rate", "lr_step", "lr_gamma")  # fields the paper gives


def settings(preset: str) -> list[dict[str, Any]]:
    """What the experiment `sensitivity` sets in a preset."""
    if preset == "smoke":  # a yardstick trained, two choices of the probe, one of a cell
        raw = next(v for v in UNSEEN if v.cells == ("mmd",))
        probed = [v for v in LATER if set(v.changes) & {"nested_labels", "stratified_labels"}]
        tried = (UNCHANGED, AGAIN, *probed, replace(UNCHANGED, cells=raw.cells), raw)
        return [setting for v in tried for setting in v.settings()]
    found = [
        setting for v in (*VARIATIONS, *LATER, UNCHANGED_IN_CELLS, *UNSEEN) for setting in v.settings(SHORT_EPOCHS)
    ]
    if preset != "laptop":
        found += [setting for v in VARIATIONS if v.name in FINALISTS for setting in v.settings(FULL_EPOCHS)]
        lengths = [epochs for epochs in LENGTHS if epochs not in (SHORT_EPOCHS, FULL_EPOCHS)]
        short = UNCHANGED.settings(SHORT_EPOCHS)
        short = [s for s in short if s["protocol"]["probe_features"] == START.probe_features]
        found += [{**s, "protocol": {**s["protocol"], "epochs": epochs}} for epochs in lengths for s in short]
    return found
