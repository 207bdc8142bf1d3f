"""What a run is: `Protocol`, all that a study holds fixed, and `Run`, what it varies.

Both are frozen and refuse values that make no sense, so that everything else may trust them. A run's `key` is a hash of its
canonical form and names its row in the results for ever. So that no key changes while the project grows,

- every field of the first version is written into the key, whatever its default;
- a field added later has ``metadata={"as_before": value}``: it is left out of the key at that value, and a stored row that
  lacks it is read with that value, whatever the default is by then;
- `REVISION` marks a change of meaning that no field shows.

A comment beside a field that says "open" means: not stated in the paper; chosen because ...
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any

from .checks import checked_choice, checked_number, checked_numbers, closest
from .data import LABEL_FRACTIONS, NUM_DIGITS
from .files import content_hash
from .methods import ALL_METHODS

REVISION = 1
TAU_ALPHAS = (0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2, 0.25, 0.5, 1.0)  # the paper's grids, appendix D
TAU_BETAS = (0.1, 0.25, 0.5, 1.0)
LAMBDAS = (0.01, 0.1, 1.0, 5.0)
SIGMAS = (0.0, 25.0, 50.0, 75.0, 150.0)
# Hyperparameters of a method, in the order in which grids and selection compare them.
HYPERPARAMETERS = ("tau_alpha", "tau_beta", "lambda_")
USABLE = ("tau_beta", "lambda_", "discriminator", "adversary", "memory")  # what `Method.uses` may name
METRICS = ("validation", "test_id", "test_ood", "d_test_id")  # what is measured of a run; `evaluate` says how


def choice(*accepted: Any, **metadata: Any) -> Any:
    """A field that takes one of these values; the first is the default."""
    check = lambda name, value: checked_choice(name, value, accepted)
    return field(default=accepted[0], metadata={"check": check, "choices": accepted, **metadata})


def number(
    default: Any, low: float = 0.0, high: float = math.inf, above: bool = False, integer: bool = False, **metadata: Any
) -> Any:
    """A field for a number >= low (> if `above`) and <= high, an integer if `integer` or if the default is one; None too, if that is the default."""
    spec: dict[str, Any] = {"low": low, "high": high, "above": above, "integer": integer or isinstance(default, int)}
    optional = default is None
    check = lambda name, value: None if optional and value is None else checked_number(name, value, **spec)
    return field(default=default, metadata={"check": check, "range": spec, **metadata})


def numbers(default: tuple, low: float = 0.0, high: float = math.inf, length: int | None = None) -> Any:
    """A field that takes a tuple of numbers, each in [low, high]; integers if the default's are."""
    spec: dict[str, Any] = {"low": low, "high": high, "integer": isinstance(default[0], int)}
    check = partial(checked_numbers, length=length, **spec)
    return field(default=default, metadata={"check": check, "each": spec, "length": length})


def compact(content: Mapping[str, Any]) -> str:
    """Plain values as the shortest JSON, sorted by name: what keys are made of."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _about_fields(kind: type, what: str) -> tuple[tuple[str, Any], ...]:
    """The fields of a dataclass whose metadata has an entry, by name, with that entry."""
    return tuple((f.name, f.metadata[what]) for f in dataclasses.fields(kind) if what in f.metadata)


about_fields: Callable[[type, str], tuple[tuple[str, Any], ...]] = cache(_about_fields)  # as a decorator mypy would refuse it


@dataclass(frozen=True)
class Checked:
    """A frozen dataclass whose fields are checked and normalised as their metadata says."""

    def __post_init__(self) -> None:
        for name, check in about_fields(type(self), "check"):
            object.__setattr__(self, name, check(name, getattr(self, name)))

    def canonical(self) -> dict[str, Any]:
        """The fields that make up the key: all but those added later that stand at their "as before" value."""
        left_out = {name for name, value in about_fields(type(self), "as_before") if getattr(self, name) == value}
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in left_out}


@dataclass(frozen=True)
class Protocol(Checked):
    """Everything a study holds fixed: data, views, encoder, optimisation, discriminator, probes and baselines.

    Defaults follow the paper where it speaks; comments say why open choices stand where they do. A changed protocol gives its
    runs other keys.

    Some things the paper leaves open are fixed in the code: both views pass the encoder as one batch (one batch norm over
    both); a batch-level discriminator is fitted on both views, a global one with `discriminator_inputs="augmented"` on the anchor's;
    training and Test-ID images alternate between the domains, which balances them exactly; a digit keeps its colour throughout; MMD is squared, in
    its biased estimate, with a sum of Gaussian kernels; the adversary of DANN is linear, starts at zero and takes a step of
    its own Adam with each of the encoder's, at a learning rate that decays alike; Adam and batch norm keep PyTorch's other
    defaults; for each view one coin decides whether colour jitter applies its four operations, in an order drawn for each image.

    Raises:
        ValueError: for a value that a field does not take; the message names the field and what it accepts.
        TypeError: for an unknown field.
    """

    # --- data ---------------------------------------------------------------------------------------------------
    # Paper (appendix E); its main text says 23,100 images, more than the 11,552 threes and fives of MNIST's training file.
    split_sizes: tuple[int, ...] = numbers((6930, 1154, 1154, 2310), low=2, length=4)
    # open, chosen by the rule of `dtcl_study.left_open`: "none" leaves channels outside 0 to 255 as they are; "clip" cuts them;
    # "wrap" casts to uint8, which turns 256 into 0.
    color_clipping: str = choice("none", "clip", "wrap")
    # open: plain random splits; stratifying by digit moves a class share by about half a percent.
    stratified_splits: bool = choice(False, True)
    # open: "none" feeds [0, 1] as ToTensor gives it; "half" maps it to [-1, 1].
    input_normalization: str = choice("none", "half")

    # --- views --------------------------------------------------------------------------------------------------
    # open, chosen by the rule: the paper names RandomResizedCrop without arguments. torchvision's default, 0.08, can leave 8 x 8 pixels.
    crop_scale: tuple[float, float] = numbers((0.5, 1.0), low=1e-3, high=1.0, length=2)
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
    # open: widths; narrow, because every run costs in proportion.
    channels: tuple[int, ...] = numbers((16, 16, 32), low=1)
    kernel_size: int = number(3, low=1, high=27)
    # open: strided convolutions cost a quarter of convolution then pooling.
    downsampling: str = choice("stride", "max_pool", "average_pool")
    # open: the rule chose the rate. Each unit is dropped alone, as by nn.Dropout; "channel" drops whole channels.
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
    # open, chosen by the rule: `discriminator_steps` full-batch Adam steps from zero at each fit, or ("newton") the optimum.
    discriminator_fit: str = choice("adam", "newton")
    discriminator_steps: int = number(100, low=1)
    discriminator_learning_rate: float = number(0.01, above=True)
    # open: scikit-learn's default penalty (l2 = 1/C = 1); with Adam the steps limit how sharp w is, too.
    discriminator_l2: float = number(1.0, above=True)
    # open, chosen by the rule: clean images in evaluation mode (behind a projector head, unlike the probes), or views in training mode.
    discriminator_inputs: str = choice("clean", "augmented")
    discriminator_mode: str = choice("eval", "train")
    # open: the embedding is used as it is.
    discriminator_features: str = choice("raw", "l2")
    # open: a negative is z'_j in Eq. 4, so its posterior is that of z'_j; "anchor_view" takes z_j.
    posterior_view: str = choice("negative_view", "anchor_view")
    # No gradient flows through w_ij: that of the paper's appendix B has no such term.
    weight_gradient: bool = choice(False, True)
    # open, chosen by the rule from 0.05 and 0.01, and it matters: in more than half of the paper's grid, and where the paper
    # selects, Eq. 3 gives no positive temperature to pairs of which the discriminator is sure. They get this one.
    tau_min: float = number(0.05, above=True)

    # --- probes: they look at a trained encoder and change nothing of it --------------------------------------------
    # `probe`: the value of a field in `Run.training`, whatever its default: runs that differ in probes alone are trained once.
    # open: a linear classifier "on top of" the embedding, hence raw; scikit-learn's default penalty.
    probe_features: str = choice("raw", "standardized", "l2", probe="raw")
    probe_l2: float = number(1.0, above=True, probe=1.0)
    # open: labels drawn at random, each smaller subset part of the larger ones.
    stratified_labels: bool = choice(False, True, probe=False)
    nested_labels: bool = choice(True, False, probe=True)
    # open: the paper does not say how many draws of labels are behind its accuracies at 1 and 10 %. Of more draws the mean is the metric.
    label_draws: int = number(20, low=1, high=1000, probe=20, as_before=1)
    # open: "label_subset" fits the domain's probe on the labelled images, like the digits' probes; "train" on all.
    domain_probe_data: str = choice("label_subset", "train", probe="train")

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
    # DANN's own validation accuracy was higher with it.
    dann_features: str = choice("l2", "raw", as_before="raw")

    @cached_property
    def text(self) -> str:
        """Its canonical form as JSON, a part of the key of each of its runs."""
        return compact(self.canonical())

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("crop_scale", "crop_ratio", "blur_sigma"):
            low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"{name} must be a range (low, high), got {(low, high)!r}.")
        if self.blur_kernel % 2 == 0 or self.kernel_size % 2 == 0:
            raise ValueError(f"kernels must be odd, got blur_kernel={self.blur_kernel}, kernel_size={self.kernel_size}.")
        train = self.split_sizes[0]
        if sum(self.split_sizes) > NUM_DIGITS or int(min(LABEL_FRACTIONS) * train) < 2:
            accepted = f"sum to at most {NUM_DIGITS} and start with 200 or more, so that 1 % are two labels"
            raise ValueError(f"split_sizes must {accepted}, got {self.split_sizes!r}.")
        if self.jitter_strengths[3] > 0.5:
            raise ValueError(f"the hue's strength, last of jitter_strengths, must be <= 0.5, got {self.jitter_strengths!r}.")
        if self.batch_size > train:
            raise ValueError(f"batch_size must be at most the {train} training images, got {self.batch_size}.")


_FIXED_PROBES = dict(about_fields(Protocol, "probe"))


@cache
def stored_protocol(text: str) -> Protocol:
    """The protocol of these stored fields, as JSON; one object for the thousands of rows that share it."""
    return Protocol(**{**dict(about_fields(Protocol, "as_before")), **json.loads(text)})


@dataclass(frozen=True)
class Run(Checked):
    """One pre-training and its probes: a method with its hyperparameters, a colour spread and a seed, under a protocol.

    Args:
        method: a name in `methods.ALL_METHODS`.
        tau_alpha: the base temperature (for methods with one temperature: the temperature), > 0.
        tau_beta: how strongly w_ij moves the temperature, >= 0; domain-weighted methods only.
        lambda_: strength, >= 0, for the methods that use it, such as MMD and DANN.
        sigma: standard deviation of the colours in a domain, >= 0.
        seed: of everything random: data, initial weights, batch order, views, dropout and label subsets; an integer >= 0.
        discriminator: "global" (default) or "batch", for methods that use one; None for others.
        projector, projector_dim: None, "linear" or "mlp", and the projector's output dimension.
        protocol: what the study holds fixed.
        replicate: tells repeated trainings of the same run apart, 0 for the first; they differ by rounding alone.

    Raises:
        ValueError: for values out of range, a field the method does not use, or one it needs and lacks.
    """

    method: str = "standard"
    tau_alpha: float = number(0.1, above=True)
    tau_beta: float | None = number(None)
    lambda_: float | None = number(None)
    sigma: float = number(50.0)
    seed: int = number(0)
    discriminator: str | None = choice(None, "global", "batch")
    projector: str | None = choice(None, "linear", "mlp")
    projector_dim: int | None = number(None, low=1, integer=True)
    protocol: Protocol = field(default_factory=Protocol)
    replicate: int = number(0, as_before=0)

    def __post_init__(self) -> None:
        if not isinstance(self.method, str) or self.method not in ALL_METHODS:
            raise ValueError(f"unknown method {self.method!r}: the methods are {', '.join(ALL_METHODS)}.")
        super().__post_init__()
        uses = ALL_METHODS[self.method].uses
        for name in uses - {*USABLE}:
            known = f"a method may use {', '.join(USABLE)}"
            raise ValueError(f"method {self.method!r} uses {name!r}{closest(name, USABLE)}: {known}.")
        if "discriminator" in uses and self.discriminator is None:
            object.__setattr__(self, "discriminator", "global")
        for name in ("tau_beta", "lambda_", "discriminator"):
            value = getattr(self, name)
            if name in uses and value is None:
                raise ValueError(f"method {self.method!r} needs {name}.")
            if name not in uses and value is not None:
                raise ValueError(f"method {self.method!r} does not use {name}, got {value!r}.")
        if (self.projector is None) != (self.projector_dim is None):
            raise ValueError(f"projector and projector_dim go together, got {self.projector!r} and {self.projector_dim!r}.")
        if not isinstance(self.protocol, Protocol):
            raise ValueError(f"protocol must be a Protocol, got {self.protocol!r}.")

    def to_dict(self) -> dict[str, Any]:
        """The whole configuration as plain values, the protocol nested; `from_dict` undoes it."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Run:
        """Rebuild a run from `to_dict`, also after a trip through JSON."""
        protocol = stored_protocol(json.dumps(values["protocol"]))
        return cls(**{**dict(about_fields(cls, "as_before")), **values, "protocol": protocol})

    @cached_property
    def key(self) -> str:
        """Sixteen hexadecimal digits that name this run in the store."""
        text = compact({**self.canonical(), "protocol": None, "revision": REVISION})  # thousands of runs share a protocol's text
        text = text.replace('"protocol":null', f'"protocol":{self.protocol.text}', 1)
        return content_hash(text.encode(), 16)

    @property
    def training(self) -> Run:
        """The run with its probes at fixed values: runs that share it are trained once."""
        if all(getattr(self.protocol, name) == value for name, value in _FIXED_PROBES.items()):
            return self
        return dataclasses.replace(self, protocol=dataclasses.replace(self.protocol, **_FIXED_PROBES))

    def __str__(self) -> str:
        parts = [f"{n}={getattr(self, n):g}" for n in HYPERPARAMETERS if getattr(self, n) is not None]
        names = ("discriminator", "projector", "projector_dim", "replicate")
        parts += [f"{n}={getattr(self, n)}" for n in names if getattr(self, n)]
        return f"{self.method}({', '.join(parts)}, sigma={self.sigma:g}, seed={self.seed})"
