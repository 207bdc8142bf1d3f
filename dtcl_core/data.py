"""Coloured MNIST: two digits in several colour domains, the data set of the paper's section 3.

Each gray digit gets one colour, with each channel drawn from N(mu_d, sigma^2), where d is the digit's domain; the background stays
black. An image is therefore the outer product of a gray image and a colour, and the engine uploads only these two. Training and Test-ID
images have the training domains (red and blue), validation images are purple and Test-OOD images are green.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from . import keyed
from .checks import checked_number

MNIST_3V5_SHA256 = "34531d3c0b1d68d9cb7f0afecba900beb7ba09cfacf0046a6f39e33b0d0bccf2"
SPLITS = ("train", "validation", "test_id", "test_ood")
NUM_DIGITS = 11552  # threes and fives in MNIST's training file
PAPER_SIZES = (6930, 1154, 1154, 2310)  # appendix "Dataset Details"; four digits are left over
LABEL_FRACTIONS = (0.01, 0.1, 1.0)
COLORS = {
    "red": (255, 0, 0),
    "blue": (0, 0, 255),
    "purple": (255, 0, 255),
    "green": (0, 255, 0),
    "yellow": (255, 255, 0),
    "cyan": (0, 255, 255),
    "orange": (255, 128, 0),
    "white": (255, 255, 255),
}


class Split(NamedTuple):
    """One split: images [N, 3, 28, 28] float32 (in [0, 1] if colours are clipped), labels [N] int64, domains [N] int64."""

    images: torch.Tensor
    labels: torch.Tensor
    domains: torch.Tensor


def read_verified(path: Path | None = None) -> dict[str, np.ndarray]:
    """Read the packaged digits, or a copy at `path`; raise ValueError unless its SHA-256 is `MNIST_3V5_SHA256`."""
    source = Path(path) if path is not None else resources.files("dtcl_core") / "mnist_3v5.npz"
    content = source.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != MNIST_3V5_SHA256:
        raise ValueError(
            f"{source} is damaged: its SHA-256 is {found}, expected {MNIST_3V5_SHA256}. Reinstall dtcl to restore it."
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


@lru_cache(maxsize=4)
def load_digits(digits: tuple[int, ...], root: str | None = None, download: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Gray images [N, 28, 28] uint8 and labels [N] (positions in `digits`) from MNIST's training file.

    Threes and fives are packaged. Others need `root`, the folder of torchvision's copy of MNIST, or raise ValueError.
    """
    if root is None:
        if set(digits) != {3, 5}:
            raise ValueError(f"digits={digits}: only 3 and 5 are packaged; give root=FOLDER (and download=True) for others.")
        archive = read_verified()
        images, values = archive["train_images"], archive["train_labels"]
    else:
        from torchvision.datasets import MNIST  # imported here: only this path needs it

        mnist = MNIST(root, train=True, download=download)
        images, values = mnist.data.numpy(), mnist.targets.numpy()
    keep = np.isin(values, digits)
    lookup = np.full(256, -1)
    lookup[list(digits)] = np.arange(len(digits))
    return images[keep], lookup[values[keep]]


def domain_color(domain: str | Sequence[float]) -> tuple[float, float, float]:
    """Mean colour of a domain, given as a name in `COLORS` or an RGB triple in 0..255; ValueError for other names or numbers."""
    if isinstance(domain, str):
        if domain not in COLORS:
            raise ValueError(f"unknown domain {domain!r}: known are {', '.join(COLORS)}, or an RGB triple in 0..255.")
        return COLORS[domain]
    color = tuple(float(c) for c in domain)
    if len(color) != 3 or not all(0 <= c <= 255 for c in color):
        raise ValueError(f"a domain's mean colour must be three numbers in 0..255, got {domain!r}.")
    return color


def to_pixel_range(colors: np.ndarray, clipping: str) -> np.ndarray:
    """Bring normally distributed colours into 0..255: "clip", "wrap" as a cast to uint8 does, or "none" to leave them."""
    if clipping == "none":
        return colors
    if clipping == "clip":
        return np.clip(colors, 0.0, 255.0)
    if clipping == "wrap":
        return np.mod(np.trunc(colors), 256.0)
    raise ValueError(f"color_clipping must be 'clip', 'wrap' or 'none', got {clipping!r}.")


class ColoredDigits:
    """The paper's data set for one seed: the split, the domain and the colour of each digit.

    Args:
        sigma: standard deviation of each colour channel, in units of 0..255; at least 0.
        seed: of the splits, domains and colours; at least 0. Data sets that differ only in sigma share their random draws.
        digits: the classes; label c is ``digits[c]``.
        training_domains: names in `COLORS` or RGB triples; the index of a domain is its position here.
        validation_domain, test_domain: a name or a triple each; their indices follow those of the training domains.
        color_clipping: "clip", "wrap" or "none", see `to_pixel_range`; runs use `Protocol().color_clipping`, which is "none".
        stratified: keep the class proportions equal across the splits.
        sizes: images in train, validation, test_id, test_ood. None means the paper's sizes for digits 3 and 5, else 60/10/10/20 %.
        root, download: folder of torchvision's copy of MNIST, and whether to download it; needed for digits other than 3 and 5.

    Raises:
        ValueError: for a negative sigma or seed, unknown domains, digits or clipping, or sizes that do not fit the data.
    """

    def __init__(
        self,
        sigma: float = 50.0,
        seed: int = 0,
        *,
        digits: Sequence[int] = (3, 5),
        training_domains: Sequence[str | Sequence[float]] = ("red", "blue"),
        validation_domain: str | Sequence[float] = "purple",
        test_domain: str | Sequence[float] = "green",
        color_clipping: str = "clip",
        stratified: bool = False,
        sizes: Sequence[int] | None = None,
        root: str | Path | None = None,
        download: bool = False,
    ):
        if len(digits) < 2 or len(set(digits)) != len(digits) or not all(0 <= int(d) <= 9 for d in digits):
            raise ValueError(f"digits must be two or more different ones of 0..9, got {digits!r}.")
        if len(training_domains) < 1:
            raise ValueError("training_domains must name at least one domain.")
        self.sigma, self.seed = checked_number("sigma", sigma), int(checked_number("seed", seed, integer=True))
        self.digits = tuple(int(d) for d in digits)
        self.num_training_domains = len(training_domains)
        self.domain_names = [*training_domains, validation_domain, test_domain]
        images, labels = load_digits(self.digits, None if root is None else str(root), download)

        count = len(images)
        if sizes is None:
            paper = set(self.digits) == {3, 5}
            sizes = PAPER_SIZES if paper else tuple(int(f * count) for f in (0.6, 0.1, 0.1, 0.2))
        if len(sizes) != 4 or min(sizes) < 1 or sum(sizes) > count:
            raise ValueError(f"sizes must be four positive counts that sum to at most {count}, got {tuple(sizes)}.")

        # A digit's domain follows from its place in its split, so that domains are balanced to within one image.
        ends = np.cumsum(sizes)
        order = self._order(labels, stratified)
        self._index = {name: order[end - size : end] for name, size, end in zip(SPLITS, sizes, ends)}
        held_out = {"validation": self.num_training_domains, "test_ood": self.num_training_domains + 1}
        self._domain = {
            name: np.full(size, held_out[name]) if name in held_out else np.arange(size) % self.num_training_domains
            for name, size in zip(SPLITS, sizes)
        }
        means = np.array([domain_color(d) for d in self.domain_names], dtype=np.float64)
        draws = keyed.normal((count, 3), self.seed, "color")
        self._color = {
            name: to_pixel_range(means[self._domain[name]] + self.sigma * draws[self._index[name]], color_clipping) / 255
            for name in SPLITS
        }
        self._images, self._labels = images, labels

    def _order(self, labels: np.ndarray, stratified: bool) -> np.ndarray:
        order = keyed.permutation(len(labels), self.seed, "split")
        return interleave_classes(order, labels) if stratified else order

    def index(self, split: str) -> np.ndarray:
        """Positions [N] of a split's images among the loaded digits (the packaged ones: in `train_images`)."""
        if split not in self._index:
            raise ValueError(f"unknown split {split!r}: the splits are {', '.join(SPLITS)}.")
        return self._index[split]

    def gray(self, split: str) -> torch.Tensor:
        """Gray images [N, 28, 28], float32 in [0, 1]."""
        return torch.from_numpy(self._images[self.index(split)]).float() / 255

    def colors(self, split: str) -> torch.Tensor:
        """Colours [N, 3], float32; in [0, 1] unless `color_clipping` is "none"."""
        self.index(split)
        return torch.from_numpy(self._color[split]).float()

    def labels(self, split: str) -> torch.Tensor:
        """Class of each image [N], int64: 0 for ``digits[0]``, 1 for ``digits[1]``, ..."""
        return torch.from_numpy(self._labels[self.index(split)].astype(np.int64))

    def domains(self, split: str) -> torch.Tensor:
        """Domain index of each image [N], int64: training domains first, then validation, then test."""
        self.index(split)
        return torch.from_numpy(self._domain[split].astype(np.int64))

    def split(self, name: str) -> Split:
        """The coloured images, labels and domains of "train", "validation", "test_id" or "test_ood"."""
        return Split(colorize(self.gray(name), self.colors(name)), self.labels(name), self.domains(name))

    def label_subset(self, fraction: float, *, stratified: bool = False, nested: bool = True, draw: int = 0) -> np.ndarray:
        """Positions [n] of the training images whose digit label may be used, where n is ``int(fraction * N)``.

        Args:
            fraction: in (0, 1]; the paper uses 0.01, 0.1 and 1 (69, 693 and 6,930 labels).
            stratified: keep the class proportions.
            nested: make each smaller subset part of every larger one.
            draw: number of the random draw; another number gives another subset.

        Raises:
            ValueError: if the fraction is out of range or leaves fewer images than classes.
        """
        labels = self._labels[self.index("train")]
        if not 0 < fraction <= 1 or int(fraction * len(labels)) < len(self.digits):
            raise ValueError(f"label fraction must be in (0, 1] and leave a label a class, got {fraction!r}.")
        purpose = [] if nested else [repr(float(fraction))]
        purpose += [f"draw {draw}"] if draw else []
        order = keyed.permutation(len(labels), self.seed, "labels", *purpose)
        if stratified:
            order = interleave_classes(order, labels)
        return order[: int(fraction * len(labels))]


def interleave_classes(order: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Reorder `order` so that every stretch of it holds the classes in their overall proportions."""
    place = np.empty(len(labels))
    for c in np.unique(labels):
        members = order[labels[order] == c]
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return order[np.argsort(place[order], kind="stable")]


def colorize(gray: torch.Tensor, colors: torch.Tensor) -> torch.Tensor:
    """Outer product [..., 3, H, W] of gray images [..., H, W] and colours [..., 3]."""
    return colors[..., :, None, None] * gray[..., None, :, :]
