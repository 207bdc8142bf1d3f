"""Readings of the paper: the first one, the candidates that calibration compares, and the runs that it asks for.

The paper names its parts and leaves most of their settings open. `FIRST` is the protocol of everything that was measured before
calibration; each of `CANDIDATES` is one change to the plainest reading (`LITERAL`). `analysis.calibration` is the rule that
chooses among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any

from ..config import Protocol, Run
from ..encoder import IMAGE_SIZE

FIRST_SEED = 2000  # of the seeds that calibration uses, and nothing else does
SEEDS, MORE_SEEDS = 2, 4
DRAWS = 20
TAUS = (0.05, 0.1)  # of standard contrastive learning
ORACLE_TAU = 0.1
ADVERSARY: tuple[dict[str, Any], ...] = tuple(
    {"tau_alpha": tau, "lambda_": strength} for tau in TAUS for strength in (0.1, 1.0)
)
COLLAPSED = tuple(
    {"method": method, "tau_alpha": tau_alpha, "tau_beta": 0.1}
    for method in ("dw_negatives", "dw_pairs")
    for tau_alpha in (0.175, 0.25)
)

# The reading of everything measured before: what its rows were trained with, whatever the default is.
FIRST = Protocol(  # every field: a default that changes must not move it
    split_sizes=(6930, 1154, 1154, 2310),
    color_clipping="clip",
    stratified_splits=False,
    input_normalization="none",
    crop_scale=(0.2, 1.0),
    crop_ratio=(0.75, 1.3333333333333333),
    blur_kernel=3,
    blur_sigma=(0.1, 2.0),
    blur_probability=0.5,
    jitter_strengths=(0.8, 0.8, 0.8, 0.5),
    jitter_probability=1.0,
    jitter_position="last",
    channels=(16, 16, 32),
    kernel_size=3,
    downsampling="stride",
    dropout=0.1,
    dropout_kind="element",
    block_order="norm-dropout-relu",
    embedding_dim=16,
    projector_hidden=16,
    projector_batch_norm=False,
    epochs=400,
    learning_rate=0.001,
    lr_step=20,
    lr_gamma=0.9,
    batch_size=256,
    drop_last=True,
    symmetric=False,
    epoch_selection="last",
    discriminator_fit="newton",
    discriminator_steps=100,
    discriminator_learning_rate=0.01,
    discriminator_l2=1.0,
    discriminator_inputs="clean",
    discriminator_mode="eval",
    discriminator_features="raw",
    posterior_view="negative_view",
    weight_gradient=False,
    tau_min=0.01,
    probe_features="raw",
    probe_l2=1.0,
    stratified_labels=False,
    nested_labels=True,
    label_draws=1,
    domain_probe_data="train",
    mmd_features="l2",
    mmd_bandwidths=(0.25, 0.5, 1.0, 2.0),
    penalty_views="both",
    dann_schedule="constant",
    dann_learning_rate=0.001,
    dann_features="raw",
)
LITERAL: Mapping[str, Any] = {"crop_scale": (0.08, 1.0), "dropout": 0.05}  # the crop that `RandomResizedCrop()` makes


@dataclass(frozen=True)
class Candidate:
    """A reading: what it changes of `FIRST`, and whether it trains networks of its own.

    Attributes:
        name: what the chapter calls it.
        changes: fields of `Protocol`.
        weight_only: whether the choice is one that only the weighted methods see; the other anchors are then those of `LITERAL`.
    """

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    weight_only: bool = False

    @cached_property
    def protocol(self) -> Protocol:
        return replace(FIRST, label_draws=DRAWS, **self.changes)

    @property
    def departures(self) -> int:
        """How often it departs from what a library does where the paper names something without arguments.

        The crop's scale (torchvision's default is 0.08), `GaussianBlur` on every view, `Dropout` at PyTorch's 0.5 (none at all
        counts twice: the paper has dropout), a linear probe on the embedding as it is, a discriminator solved as
        scikit-learn's default does, and fitted on embeddings as they are. Widths and batch sizes have no default.
        """
        p = self.protocol
        return (
            (p.crop_scale != (0.08, 1.0))
            + (p.blur_probability != 1.0)
            + (p.dropout != 0.5)
            + (p.dropout == 0.0)
            + (p.probe_features != "raw")
            + (p.domain_probe_data != "train")
            + (p.discriminator_l2 != 1.0 or p.discriminator_fit != "newton")
            + (p.discriminator_features != "raw")
        )

    @property
    def cost(self) -> float:
        """Millions of multiplications of the convolutions for one image, forward."""
        side, before, total = IMAGE_SIZE, 3, 0
        for width in self.protocol.channels:
            side = -(-side // 2)
            total += side**2 * before * width * self.protocol.kernel_size**2
            before = width
        return total / 1e6


FIRST_READING, BASE = Candidate("first reading"), Candidate("literal crop, dropout 0.05", LITERAL)
CANDIDATES = (
    FIRST_READING,
    BASE,
    Candidate("dropout 0.1", {**LITERAL, "dropout": 0.1}),
    Candidate("dropout 0", {**LITERAL, "dropout": 0.0}),
    Candidate("dropout 0.25", {**LITERAL, "dropout": 0.25}),
    Candidate("dropout 0.5", {**LITERAL, "dropout": 0.5}),
    Candidate("every view blurred", {**LITERAL, "blur_probability": 1.0}),
    Candidate("batches of 128", {**LITERAL, "batch_size": 128}),
    Candidate("batches of 512", {**LITERAL, "batch_size": 512}),
    Candidate("probe standardised", {**LITERAL, "probe_features": "standardized"}),
    Candidate("probe on directions", {**LITERAL, "probe_features": "l2"}),
    Candidate("domain probe on the labelled", {**LITERAL, "domain_probe_data": "label_subset"}),
    Candidate("discriminator's l2 100", {**LITERAL, "discriminator_l2": 100.0}, weight_only=True),
    Candidate("100 Adam steps", {**LITERAL, "discriminator_fit": "adam"}, weight_only=True),
    Candidate("discriminator on directions", {**LITERAL, "discriminator_features": "l2"}, weight_only=True),
    Candidate("twice the channels", {**LITERAL, "channels": (32, 32, 64)}),
)


def settings(candidate: Candidate) -> list[dict[str, Any]]:
    """What a candidate trains: standard at `TAUS`, the oracle, and the four cells at chance; or these four alone."""
    plain: list[dict[str, Any]] = [{"method": "standard", "tau_alpha": tau} for tau in TAUS]
    plain += [{"method": "color_jitter", "tau_alpha": ORACLE_TAU}]
    tried = [*([] if candidate.weight_only else plain), *COLLAPSED]
    return [{**cell, "sigma": 50.0, "protocol": candidate.protocol} for cell in tried]


def runs(candidate: Candidate, seeds: int = SEEDS, sized: Protocol = FIRST) -> list[Run]:
    """A candidate's runs; those of `LITERAL` stand for what a choice of the weight cannot change.

    Args:
        seeds: how many.
        sized: whose epochs and splits they have: other ones for a look in seconds.
    """
    mine = settings(candidate)
    if candidate.weight_only:
        mine += [setting for setting in settings(BASE) if setting["method"] in ("standard", "color_jitter")]
    size = {"epochs": sized.epochs, "split_sizes": sized.split_sizes}
    mine = [{**setting, "protocol": replace(setting["protocol"], **size)} for setting in mine]
    return [Run(seed=FIRST_SEED + seed, **setting) for setting in mine for seed in range(seeds)]


# What the rule (`analysis.calibration`) said of the rows, stage by stage; a test holds it to them.
WENT_ON = (
    "dropout 0.25",
    "dropout 0.1",
    "batches of 128",
    "batches of 512",
    "discriminator's l2 100",
)  # best on one seed
LAST: tuple[str, ...] = ("dropout 0.25", "dropout 0.1")  # the two that fit best on two seeds
TAKEN: str | None = "dropout 0.1"  # the reading that became the default


def experiment(preset: str) -> list[dict[str, Any]]:
    """What the experiment `calibration` sets in a preset of short runs: all candidates, in "smoke" two of them."""
    chosen = (FIRST_READING, BASE) if preset == "smoke" else CANDIDATES
    sized = ("epochs", "split_sizes")
    found = []
    for setting in (setting for candidate in chosen for setting in settings(candidate)):
        fixed = {f.name: getattr(setting["protocol"], f.name) for f in fields(Protocol) if f.name not in sized}
        found.append({**setting, "protocol": fixed})
    return found


def asked(sized: Protocol) -> list[Run]:
    """The runs of calibration in full, as far as what the rule said of earlier ones tells: fewer candidates, more seeds.

    Args:
        sized: whose epochs and splits they have.
    """
    return list(_asked(sized, WENT_ON, LAST, TAKEN))


@cache
def _asked(sized: Protocol, went_on: tuple[str, ...], last: tuple[str, ...], taken: str | None) -> tuple[Run, ...]:
    networks = {run.training for run in runs(BASE, 1)}
    found: list[Run] = []
    for candidate in CANDIDATES:
        shared = {run.training for run in runs(candidate, 1)} <= networks
        seeds = 1 + (SEEDS - 1) * (shared or candidate in (FIRST_READING, BASE) or candidate.name in went_on)
        if candidate.name in last or (last and candidate is FIRST_READING):
            seeds = SEEDS + MORE_SEEDS
        found += runs(candidate, seeds, sized)
    for candidate in CANDIDATES:
        if candidate.name == taken:
            found += [run for each in adversary_runs(candidate, sized).values() for run in each]
    return tuple(dict.fromkeys(found))


def adversary_runs(candidate: Candidate, sized: Protocol = FIRST) -> dict[str, list[Run]]:
    """What decides DANN's features under a reading: its runs by features, those of a cell next to each other."""
    size: dict[str, Any] = {"epochs": sized.epochs, "split_sizes": sized.split_sizes}
    seen = {name: replace(candidate.protocol, dann_features=name, **size) for name in ("raw", "l2")}
    seeds = range(FIRST_SEED, FIRST_SEED + SEEDS)
    return {
        name: [Run("dann", sigma=50.0, seed=seed, protocol=protocol, **cell) for cell in ADVERSARY for seed in seeds]
        for name, protocol in seen.items()
    }
