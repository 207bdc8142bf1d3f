"""The plots that explain: what a weight does to a pair, what the digits look like, how colours spread."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
import torch
from matplotlib.figure import Figure

from .. import losses
from ..data import SPLITS, ColoredDigits
from .style import METHOD_COLORS, SMALL, SPLIT_TITLES, WIDTH


def reweighting(
    tau_alpha: float, tau_beta: float, tau_min: float, num_domains: int, similarity: Sequence[float] = (0.8, 0.4, 0.0)
) -> Figure:
    """How w_ij sets tau_ij, and what that does to a negative's weight in the gradient, exp(s / tau) / tau."""
    w = torch.linspace(0, 1, 201)[None]
    tau = losses.pair_temperature(w, tau_alpha, tau_beta, tau_min, num_domains)[0]
    base = torch.tensor(tau_alpha)
    figure, (above, below) = plt.subplots(2, 1, figsize=(WIDTH, 5.0), sharex=True, layout="constrained")
    above.plot(w[0], tau, color=METHOD_COLORS["dw_pairs"], linewidth=2.2)
    above.axhline(tau_alpha, color="0.5", linestyle="--", linewidth=1)
    above.annotate(r"$\tau_\alpha$", (1.0, tau_alpha), ha="right", va="bottom", color="0.35")
    above.set(ylabel=r"$\tau_{ij}$", ylim=(0, None))
    above.set_title("Temperature of a negative pair")
    for shade, s in zip(sns.color_palette("flare", len(similarity)), similarity):
        log_ratio = (s / tau - tau.log()) - (s / base - base.log())
        below.plot(w[0], log_ratio / np.log(10), color=shade, linewidth=2.2, label=f"$s_{{ij}}$ = {s:g}")
    below.axhline(0, color="0.5", linestyle="--", linewidth=1)
    below.axvline(1 / num_domains, color="0.5", linestyle=":", linewidth=1)
    below.set(
        xlabel=r"$w_{ij}$: probability of sharing the anchor's domain",
        ylabel=r"powers of ten over $\tau_{ij} = \tau_\alpha$",
    )
    below.set_title("Push on that negative")
    below.legend()
    return figure


def example_digits(data: ColoredDigits, rows: int = 5, columns: int = 5) -> Figure:
    """Example images of each split (the paper's first appendix figure)."""
    figure, axes = plt.subplots(1, len(SPLITS), figsize=(WIDTH, 1.5), layout="constrained")
    for axis, split in zip(axes, SPLITS):
        images = data.split(split).images[: rows * columns]
        tiles = images.unflatten(0, (rows, columns)).permute(0, 3, 1, 4, 2).flatten(2, 3).flatten(0, 1)
        axis.imshow(tiles.numpy(), interpolation="nearest")
        axis.set_title(SPLIT_TITLES[split])
        axis.axis("off")
    return figure


def color_distributions(sigmas: Sequence[float], seed: int = 0, shown: int = 400) -> Figure:
    """Colours of each domain in RGB space and their marginals, a row a sigma (the paper's second appendix figure)."""
    figure = plt.figure(figsize=(WIDTH, 0.3 + 1.5 * len(sigmas)), layout="constrained")
    grid = figure.add_gridspec(len(sigmas), 4, width_ratios=(1.6, 1, 1, 1))
    for line, sigma in enumerate(sigmas):
        data = ColoredDigits(sigma, seed)
        space = figure.add_subplot(grid[line, 0], projection="3d")
        marginals = [figure.add_subplot(grid[line, 1 + channel]) for channel in range(3)]
        colors = torch.cat([data.colors(split) for split in SPLITS]) * 255
        domains = torch.cat([data.domains(split) for split in SPLITS])
        for index, name in enumerate(data.domain_names):
            chosen = colors[domains == index].numpy()
            space.scatter(*chosen[:shown].T, s=4, c=np.clip(chosen[:shown] / 255, 0, 1), linewidths=0, depthshade=False)
            for channel, axis in enumerate(marginals):
                axis.hist(
                    chosen[:, channel], bins=np.linspace(0, 255, 35).tolist(), density=True, histtype="step", linewidth=1.6,
                    color=str(name), label=str(name),
                )  # fmt: skip
        space.set_title(f"sigma = {sigma:g}", pad=0)
        for name, axis in zip(("R", "G", "B"), marginals):
            axis.set(title=f"{name} intensity" if line == 0 else "", xlim=(0, 255), xticks=(0, 250), yscale="log")
            axis.set_yticks([])
            axis.minorticks_off()
        for setter, name in ((space.set_xlabel, "R"), (space.set_ylabel, "G"), (space.set_zlabel, "B")):
            setter(name, labelpad=-13)
        space.set(xlim=(0, 255), ylim=(0, 255), zlim=(0, 255))
        space.set(xticks=(0, 250), yticks=(0, 250), zticks=(0, 250))
        space.tick_params(labelsize=SMALL, pad=-4)
        if line == 0:
            marginals[-1].legend(handlelength=0.8, borderpad=0.1)
    return figure


def idea(tau_alpha: float = 0.125, tau_beta: float = 0.1, tau_min: float = 0.01, seed: int = 0) -> Figure:
    """The paper in one picture: colours of training and of the test, and the temperature of an anchor's negative pairs.

    Temperatures are those of Eq. 3 for a discriminator that is nearly sure (w of 0.95 and 0.05); by default in the cell in which
    the paper draws its temperatures.
    """
    data = ColoredDigits(50.0, seed)
    train, unseen = data.split("train"), data.split("test_ood")
    figure = plt.figure(figsize=(4.2, 2.55))  # small, so that its letters are read on a telephone
    seen = _strip(
        train.images, [int(i) for d in (0, 1, 0, 1, 0, 1) for i in [(train.domains == d).nonzero()[0, 0]]], step=3
    )
    for place, images, title in (
        ((0.0, 0.69, 0.64, 0.20), seen, "seen in pre-training"),
        ((0.68, 0.69, 0.32, 0.20), unseen.images[:3], "to be classified"),
    ):
        axis = figure.add_axes(place)
        axis.imshow(images.permute(2, 0, 3, 1).flatten(1, 2).numpy())
        axis.set_title(title, fontsize=10)
        axis.axis("off")
    axis = figure.add_axes((0, 0, 1, 0.66))
    axis.set(xlim=(0, 8), ylim=(0.05, 3.25))
    axis.axis("off")
    anchor = train.domains == train.domains[0]
    others = [int(anchor.nonzero()[1, 0]), int((~anchor).nonzero()[0, 0])]
    _image(axis, train.images[0], 0.85, 1.75, 1.5)
    axis.text(0.85, 0.4, "an image", ha="center", fontsize=10)
    for y, index, w in zip((2.4, 0.85), others, (0.95, 0.05)):
        tau = losses.pair_temperature(torch.tensor([[w]]), tau_alpha, tau_beta, tau_min, 2).item()
        same = w > 0.5
        color = "#D55E00" if same else "#0072B2"
        axis.annotate(
            "", (2.75, y), (1.7, 1.75), arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": 0.25 / tau}
        )
        _image(axis, train.images[index], 3.45, y, 1.25)
        axis.barh(y + 0.37, 8 * tau, left=4.3, height=0.42, color=color, alpha=0.5)
        axis.text(4.42 + 8 * tau, y + 0.37, f"$\\tau$ = {tau:.2f}", va="center", fontsize=10)
        told = "same domain:\npushed apart hard" if same else "another domain:\npushed apart less"
        axis.text(4.3, y - 0.33, told, va="center", fontsize=10, linespacing=1.05)
    return figure


def _strip(images: torch.Tensor, starts: Sequence[int], step: int) -> torch.Tensor:
    """One image for each of `starts`, all different: place p takes image start + 2 step p."""
    return torch.stack([images[start + 2 * step * place] for place, start in enumerate(starts)])


def _image(axis: plt.Axes, image: torch.Tensor, x: float, y: float, size: float) -> None:
    """A digit, centred."""
    half = size / 2
    axis.imshow(
        image.permute(1, 2, 0).numpy(), extent=(x - half, x + half, y - half, y + half), aspect="auto", zorder=3
    )
