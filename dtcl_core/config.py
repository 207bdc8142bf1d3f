"""What a result is the result *of*: `Protocol` (all that a study fixes) and `Run` (what it varies).

Both are frozen and hashable and refuse values that make no sense, so everything downstream may trust them. A run's
`key` is a hash of its canonical form and names its row in the results store for ever. Three rules let the project grow
without orphaning a row:

- every field in the first version is written into the key, so a default may change later without touching old keys;
- a field added later carries ``metadata={"as_before": value}`` and is left out of the key at that value; a stored row that
  lacks it is read with that value, whatever the default is by then;
- fields that a method does not use are null, and `REVISION` marks a change of meaning that no field shows.

Comments beside a field that say "open" mean: not stated in the paper; chosen because ...
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from .checks import checked_choice, checked_number
from .data import LABEL_FRACTIONS, NUM_DIGITS
from .methods import ALL_METHODS

REVISION = 1
TAU_ALPHAS = (0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2, 0.25, 0.5, 1.0)  # the paper's grids, appendix D
TAU_BETAS = (0.1, 0.25, 0.5, 1.0)
LAMBDAS = (0.01, 0.1, 1.0, 5.0)
SIGMAS = (0.0, 25.0, 50.0, 75.0, 150.0)
# Hyperparameters a cell may set, in the order in which grids and selection compare them.
HYPERPARAMETERS = ("tau_alpha", "tau_beta", "lambda_")
METRICS = ("validation", "test_id", "test_ood", "d_test_id")  # what is measured of a run; `evaluate` says how


def choice(default: Any, *others: Any, **metadata: Any) -> Any:
    """A field that takes one of the values given."""
    return field(default=default, metadata={"choices": (default, *others), **metadata})


def number(default: Any, low: float = 0.0, high: float = math.inf, above: bool = False, **metadata: Any) -> Any:
    """A field that takes a number in [low, high], or in (low, high] where `above` is set; an integer if the default is."""
    spec = {"low": low, "high": high, "above": above, "integer": isinstance(default, int)}
    return field(default=default, metadata={"range": spec, **metadata})


def numbers(
    default: tuple, low: float = 0.0, high: float = math.inf, length: int | None = None, **metadata: Any
) -> Any:
    """A field that takes a tuple of numbers, each in [low, high]; integers if the default's are."""
    spec = {"low": low, "high": high, "integer": isinstance(default[0], int)}
    return field(default=default, metadata={"each": spec, "length": length, **metadata})


def compact(content: Mapping[str, Any]) -> str:
    """Plain values as the shortest JSON, in the order of their names: what keys are made of."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


# The fields of a class; thousands of runs ask for them.
fields_of: Callable[[type], tuple[dataclasses.Field, ...]] = cache(dataclasses.fields)


def check_of(f: dataclasses.Field) -> Callable[[Any], Any] | None:
    """What a field's value must pass, and comes out of as it is kept; None for a field that may hold anything."""
    name, about = f.name, f.metadata
    if "choices" in about:
        return lambda value: checked_choice(name, value, about["choices"])
    if "range" in about:
        return lambda value: checked_number(name, value, **about["range"])
    if "optional" in about:
        return lambda value: None if value is None else checked_number(name, value, **about["optional"])
    if "each" in about:

        def check(value: Any) -> tuple[float, ...]:
            length = about["length"]
            if not isinstance(value, (tuple, list)) or not value or (length and len(value) != length):
                raise ValueError(f"{name} must be {length or 'one or more'} numbers, got {value!r}.")
            return tuple(checked_number(f"each of {name}", v, **about["each"]) for v in value)

        return check
    return None


def _checks(kind: type) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    """The fields of a class that are checked, and how."""
    return tuple((f.name, check) for f in fields_of(kind) if (check := check_of(f)) is not None)


checks_of: Callable[[type], tuple[tuple[str, Callable[[Any], Any]], ...]] = cache(_checks)


@dataclass(frozen=True)
class Checked:
    """Checks and normalises the fields of a frozen dataclass against their metadata."""

    def __post_init__(self) -> None:
        for name, check in checks_of(type(self)):
            object.__setattr__(self, name, check(getattr(self, name)))

    def canonical(self) -> dict[str, Any]:
        """The fields that make up the key: all but those added later that stand at their "as before" value."""
        return {
            f.name: getattr(self, f.name)
            for f in fields_of(type(self))
            if "as_before" not in f.metadata or getattr(self, f.name) != f.metadata["as_before"]
        }


@dataclass(frozen=True)
class Protocol(Checked):
    """Everything a study holds fixed: data, views, encoder, optimisation, discriminator, probes and baselines.

    Defaults follow the paper where it speaks. Each open choice says why it stands where it does; all of them can be
    changed, and a changed protocol gives its runs other keys.

    Some things the paper leaves open are fixed in the code, because a field would buy little: both views pass the
    encoder as one batch (one batch norm over both); a batch-level discriminator is fitted on both views, one fitted on views
    sees the anchor's; training and Test-ID images alternate between the domains, which balances them exactly; a digit keeps
    its colour throughout; MMD is squared, in its biased estimate, with a sum of Gaussian kernels; the adversary of DANN is
    linear on raw embeddings, starts at zero and takes a step of its own Adam with each of the encoder's, at a learning rate
    that decays alike; Adam and batch norm keep PyTorch's other defaults; one coin decides all four operations of colour
    jitter for a view, whose order is drawn for each image.

    Raises:
        ValueError: for a value that a field does not take; the message names the field and what it accepts.
        TypeError: for an unknown field.
    """

    # --- data ---------------------------------------------------------------------------------------------------
    # Paper (appendix E); its main text says 23,100 images, which MNIST's 11,552 threes and fives cannot give.
    split_sizes: tuple[int, ...] = numbers((6930, 1154, 1154, 2310), low=2, length=4)
    # open: clipping keeps a colour near its mean; a cast to uint8 would wrap 256 to black; floats would need neither.
    color_clipping: str = choice("clip", "wrap", "none")
    # open: plain random splits; stratifying by digit moves a class share by about half a percent.
    stratified_splits: bool = choice(False, True)
    # open: "none" feeds [0, 1] as ToTensor gives it; "half" maps it to [-1, 1].
    input_normalization: str = choice("none", "half")

    # --- views --------------------------------------------------------------------------------------------------
    # open: RandomResizedCrop() is named without arguments, so torchvision's own, which may cut a digit to 8 x 8 pixels.
    crop_scale: tuple[float, float] = numbers((0.08, 1.0), low=1e-3, high=1.0, length=2)
    # open: torchvision's default.
    crop_ratio: tuple[float, float] = numbers((0.75, 1.3333333333333333), low=1e-3, length=2)
    # open: SimCLR's blur: a kernel of a tenth of the image, sigma uniform on [0.1, 2], on half of the views.
    blur_kernel: int = number(3, low=1, high=55)
    blur_sigma: tuple[float, float] = numbers((0.1, 2.0), low=1e-2, length=2)
    blur_probability: float = number(0.5, high=1.0)
    # open: brightness, contrast and saturation as in SimCLR; any hue, on every view, because the oracle is reported to
    # leave no domain visible. SimCLR's hue of 0.2 on 80 % of views turns no red digit blue.
    jitter_strengths: tuple[float, float, float, float] = numbers((0.8, 0.8, 0.8, 0.5), length=4)
    jitter_probability: float = number(1.0, high=1.0)
    # open: colours are jittered after crop and blur (which then act on one gray channel), or between them as in SimCLR.
    jitter_position: str = choice("last", "before_blur")

    # --- encoder ------------------------------------------------------------------------------------------------
    # Paper: three blocks of convolution, batch norm, dropout and ReLU, then one linear layer to 16 dimensions.
    # open: widths; narrow, because every run costs in proportion. Calibrated on one seed: twice as wide fits no better.
    channels: tuple[int, ...] = numbers((16, 16, 32), low=1)
    kernel_size: int = number(3, low=1, high=27)
    # open: strided convolutions cost a quarter of convolution then pooling.
    downsampling: str = choice("stride", "max_pool", "average_pool")
    # open: calibrated (chapter `calibration`): of 0, 0.05, 0.1, 0.25 and 0.5 the rule takes 0.1, under which standard CL comes
    # nearest to what is reported; each unit alone as nn.Dropout does, or whole channels as nn.Dropout2d.
    dropout: float = number(0.1, high=0.95)
    dropout_kind: str = choice("element", "channel")
    # open: the order in which the paper lists them. (Dropout and ReLU commute; batch norm and ReLU do not.)
    block_order: str = choice("norm-dropout-relu", "relu-norm-dropout")
    embedding_dim: int = number(16, low=1)
    # open: the hidden layer of the MLP projector is as wide as the embedding, without batch norm.
    projector_hidden: int = number(16, low=1)
    projector_batch_norm: bool = choice(False, True)

    # --- optimisation -------------------------------------------------------------------------------------------
    # Paper: 400 epochs, Adam at 1e-3, StepLR(20, 0.9).
    epochs: int = number(400, low=1)
    learning_rate: float = number(1e-3, above=True)
    lr_step: int = number(20, low=1)
    lr_gamma: float = number(0.9, above=True, high=1.0)
    # open: 256 gives each anchor 255 negatives and 27 steps an epoch.
    batch_size: int = number(256, low=2)
    # open: a last batch of 18 would have a quite different loss.
    drop_last: bool = choice(True, False)
    # Paper's Eq. 2 and 4 have anchors in one view only; True averages both directions.
    symmetric: bool = choice(False, True)
    # open: the last epoch is evaluated; choosing one on the way is not offered.
    epoch_selection: str = choice("last")

    # --- domain discriminator -----------------------------------------------------------------------------------
    # open: solved to its optimum, or that many full-batch Adam steps from zero at each fit.
    discriminator_fit: str = choice("newton", "adam")
    discriminator_steps: int = number(100, low=1)
    discriminator_learning_rate: float = number(0.01, above=True)
    # open: scikit-learn's default penalty (l2 = 1/C = 1); it sets how sharp w is.
    discriminator_l2: float = number(1.0, above=True)
    # open: fitted on clean images in evaluation mode, the embedding that the probes see.
    discriminator_inputs: str = choice("clean", "augmented")
    discriminator_mode: str = choice("eval", "train")
    # open: the embedding is used as it is.
    discriminator_features: str = choice("raw", "l2")
    # open: a negative is z'_j in Eq. 4, so its posterior is that of z'_j; "anchor_view" takes z_j.
    posterior_view: str = choice("negative_view", "anchor_view")
    # Implied, not said: no gradient flows through w_ij.
    weight_gradient: bool = choice(False, True)
    # open, and it matters: in more than half of the paper's grid, selected cells included, Eq. 3 is not positive for pairs
    # that the discriminator is sure of, and then this is their temperature. Large enough for float32.
    tau_min: float = number(0.01, above=True)

    # --- probes: they look at a trained encoder and change nothing of it --------------------------------------------
    # `probe` is the value at which a field stands in the key of a training (`Run.training`), whatever its default is.
    # open: a linear classifier "on top of" the embedding, hence raw; scikit-learn's default penalty.
    probe_features: str = choice("raw", "standardized", "l2", probe="raw")
    probe_l2: float = number(1.0, above=True, probe=1.0)
    # open: labels drawn at random, each smaller subset part of the larger ones.
    stratified_labels: bool = choice(False, True, probe=False)
    nested_labels: bool = choice(True, False, probe=True)
    # open: the paper's accuracies at 1 and 10 % stand on one draw of labels, or do not say. Of more draws the mean is the metric.
    label_draws: int = number(20, low=1, high=1000, probe=20, as_before=1)
    # open: domain labels cost nothing, so the domain probe is trained on the whole training set.
    domain_probe_data: str = choice("train", "label_subset", probe="train")

    # --- baselines ----------------------------------------------------------------------------------------------
    # open: the loss sees directions only, so a penalty on raw embeddings could be met by shrinking them.
    mmd_features: str = choice("l2", "raw")
    mmd_bandwidths: tuple[float, ...] = numbers((0.25, 0.5, 1.0, 2.0), low=1e-6)
    # open: MMD and DANN see the embeddings of both views.
    penalty_views: str = choice("both", "anchor")
    # open: constant lambda, so that the grid means what it says; "ganin" ramps it from 0 as DANN's authors do.
    dann_schedule: str = choice("constant", "ganin")
    dann_learning_rate: float = number(1e-3, above=True)
    # open: beside a loss that ignores length, a reversed gradient inflates raw embeddings; "l2" shows the adversary directions.
    # DANN's own validation accuracy decides (chapter `calibration`).
    dann_features: str = choice("l2", "raw", as_before="raw")

    @cached_property
    def text(self) -> str:
        """Its canonical form as JSON: thousands of runs share a protocol, and its text is a part of each key."""
        return compact(self.canonical())

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("crop_scale", "crop_ratio", "blur_sigma"):
            low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"{name} must be a range (low, high), got {(low, high)!r}.")
        if self.blur_kernel % 2 == 0 or self.kernel_size % 2 == 0:
            raise ValueError(
                f"kernels must be odd, got blur_kernel={self.blur_kernel}, kernel_size={self.kernel_size}."
            )
        if sum(self.split_sizes) > NUM_DIGITS or int(min(LABEL_FRACTIONS) * self.split_sizes[0]) < 2:
            raise ValueError(
                f"split_sizes must sum to at most {NUM_DIGITS} and hold 200 or more training images, so that 1 % are two "
                f"labels or more, got {self.split_sizes!r}."
            )
        if self.jitter_strengths[3] > 0.5:
            raise ValueError(
                f"the hue's strength, last of jitter_strengths, must be <= 0.5, got {self.jitter_strengths!r}."
            )
        if self.batch_size > self.split_sizes[0]:
            raise ValueError(
                f"batch_size must be at most the {self.split_sizes[0]} training images, got {self.batch_size}."
            )


_FIXED_PROBES = {f.name: f.metadata["probe"] for f in dataclasses.fields(Protocol) if "probe" in f.metadata}


def protocol_hash(protocol: Protocol) -> str:
    """Eight hexadecimal digits of all that a protocol fixes, by which tables tell protocols apart."""
    return hashlib.sha256(json.dumps(protocol.canonical(), sort_keys=True).encode()).hexdigest()[:8]


def optional_number(low: float, above: bool = False, integer: bool = False) -> Any:
    """A field that takes a number >= low (> low where `above` is set), or None."""
    return field(default=None, metadata={"optional": {"low": low, "above": above, "integer": integer}})


def as_before(kind: type[Checked]) -> dict[str, Any]:
    """What the fields that were added later stand at in rows that lack them."""
    return {f.name: f.metadata["as_before"] for f in dataclasses.fields(kind) if "as_before" in f.metadata}


@cache
def stored_protocol(text: str) -> Protocol:
    """The protocol of these fields, as JSON: made and checked once for the thousands of rows that share it."""
    return Protocol(**json.loads(text))


@dataclass(frozen=True)
class Run(Checked):
    """One pre-training: a method with its hyperparameters, a colour spread and a seed, under a protocol.

    Args:
        method: a name in `methods.ALL_METHODS`.
        tau_alpha: the base temperature (for methods with one temperature: the temperature), > 0.
        tau_beta: how strongly w_ij moves the temperature, >= 0; domain-weighted methods only.
        lambda_: weight of the penalty, >= 0; MMD and DANN only.
        sigma: standard deviation of the colours in a domain, >= 0.
        seed: seed of data and initial weights, an integer >= 0.
        discriminator: "global" (default) or "batch"; domain-weighted methods only.
        projector, projector_dim: None, "linear" or "mlp", and the projector's output dimension.
        protocol: what the study holds fixed.
        replicate: tells trainings of one and the same run apart, 0 for the first. It decides nothing: what replicates differ by
            is rounding alone, which is what any other difference is held against.

    Raises:
        ValueError: for values out of range, a field the method does not use, or one it needs and lacks.
    """

    method: str = "standard"
    tau_alpha: float = number(0.1, above=True)
    tau_beta: float | None = optional_number(0.0)
    lambda_: float | None = optional_number(0.0)
    sigma: float = number(50.0)
    seed: int = number(0)
    discriminator: str | None = choice(None, "global", "batch")
    projector: str | None = choice(None, "linear", "mlp")
    projector_dim: int | None = optional_number(1, integer=True)
    protocol: Protocol = field(default_factory=Protocol)
    replicate: int = number(0, as_before=0)

    def __post_init__(self) -> None:
        if not isinstance(self.method, str) or self.method not in ALL_METHODS:
            raise ValueError(f"unknown method {self.method!r}: the methods are {', '.join(ALL_METHODS)}.")
        super().__post_init__()
        uses = ALL_METHODS[self.method].uses
        if "discriminator" in uses and self.discriminator is None:
            object.__setattr__(self, "discriminator", "global")
        for name in ("tau_beta", "lambda_", "discriminator"):
            value = getattr(self, name)
            if name in uses and value is None:
                raise ValueError(f"method {self.method!r} needs {name}.")
            if name not in uses and value is not None:
                raise ValueError(f"method {self.method!r} does not use {name}, got {value!r}.")
        if (self.projector is None) != (self.projector_dim is None):
            raise ValueError(
                f"projector and projector_dim go together, got {self.projector!r} and {self.projector_dim!r}."
            )
        if not isinstance(self.protocol, Protocol):
            raise ValueError(f"protocol must be a Protocol, got {self.protocol!r}.")

    def to_dict(self) -> dict[str, Any]:
        """The whole configuration as plain values, the protocol nested; `from_dict` undoes it."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Run:
        """Rebuild a run from `to_dict` (also after a trip through JSON)."""
        protocol = stored_protocol(json.dumps({**as_before(Protocol), **values["protocol"]}))
        return cls(**{**as_before(cls), **values, "protocol": protocol})

    @cached_property
    def key(self) -> str:
        """Sixteen hexadecimal digits that name this run in the store."""
        text = compact({**self.canonical(), "protocol": None, "revision": REVISION})
        text = text.replace('"protocol":null', f'"protocol":{self.protocol.text}', 1)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def training(self) -> Run:
        """The run with fixed probes: runs that share it are trained once, and each is probed in its own way."""
        return self._probed(_FIXED_PROBES)

    @property
    def training_keys(self) -> tuple[str, str]:
        """The keys by which a file of encoders may name this run's training: today's, and that of one draw of labels."""
        return self.training.key, self._probed({**_FIXED_PROBES, "label_draws": 1}).key

    def _probed(self, probes: Mapping[str, Any]) -> Run:
        if all(getattr(self.protocol, name) == value for name, value in probes.items()):
            return self
        return dataclasses.replace(self, protocol=dataclasses.replace(self.protocol, **probes))

    def __str__(self) -> str:
        parts = [
            f"{n}={getattr(self, n):g}" for n in ("tau_alpha", "tau_beta", "lambda_") if getattr(self, n) is not None
        ]
        parts += [f"{n}={getattr(self, n)}" for n in ("discriminator", "projector", "replicate") if getattr(self, n)]
        return f"{self.method}({', '.join(parts)}, sigma={self.sigma:g}, seed={self.seed})"
