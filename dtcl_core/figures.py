"""Every plot of the book, from data frames. One style, one colour a method, readable in light and dark."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import torch
from matplotlib.figure import Figure

from . import losses, statistics
from .data import SPLITS, ColoredDigits
from .methods import METHODS

# Okabe and Ito's palette, told apart by colour-blind readers; the proposed methods get its two strongest hues.
METHOD_COLORS = {
    "standard": "#56B4E9",
    "same_domain": "#009E73",
    "mmd": "#CC79A7",
    "dann": "#A6761D",
    "dw_negatives": "#E69F00",
    "dw_pairs": "#D55E00",
    "color_jitter": "#7F7F7F",
}
METRIC_TITLES = {
    "test_ood": "Test-OOD accuracy",
    "test_id": "Test-ID accuracy",
    "d_test_id": "D-Test-ID accuracy",
    "validation": "Validation accuracy",
}
SPLIT_TITLES = {"train": "Train", "validation": "Validation", "test_id": "Test-ID", "test_ood": "Test-OOD"}


def use_style() -> None:
    """Set the book's style; every chapter calls this once."""
    sns.set_theme(
        context="notebook",
        style="whitegrid",
        rc={
            "figure.dpi": 120,
            "figure.facecolor": "white",
            "savefig.facecolor": "white",
            "savefig.bbox": "tight",
            "axes.titlesize": "medium",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "font.size": 10,
            "legend.frameon": False,
            "svg.hashsalt": "dtcl",
        },
    )


def compare_methods(rows: pd.DataFrame, reported: pd.DataFrame, metrics: Sequence[str]) -> Figure:
    """Methods down, a panel a metric: seeds as points, their mean with a 95 % interval, and the paper's value.

    Args:
        rows: selected rows at one label fraction, one a method and seed.
        reported: the paper's numbers, with columns method, metric, value.
        metrics: metric columns to show.
    """
    order = [m for m in METHODS if m in set(rows.method) | set(reported.method)]
    height = 1.4 + 0.42 * max(len(order), 1)
    figure, axes = plt.subplots(
        1, len(metrics), figsize=(2.6 * len(metrics), height), sharey=True, layout="constrained"
    )
    for axis, metric in zip(np.atleast_1d(axes), metrics):
        for place, method in enumerate(order):
            values = rows.loc[rows.method == method, metric].to_numpy()
            color, interval = METHOD_COLORS[method], statistics.mean_interval(values)
            axis.plot(values, np.full(len(values), place), "o", color=color, alpha=0.45, markersize=4)
            if interval.n > 1:
                axis.plot([interval.low, interval.high], [place, place], color=color, linewidth=2.2, alpha=0.9)
            if interval.n > 0:
                axis.plot(interval.mean, place, "o", color=color, markersize=8, markeredgecolor="white")
            told = reported[(reported.method == method) & (reported.metric == metric)].value
            axis.plot(told, [place] * len(told), "D", markersize=6, markerfacecolor="none", markeredgecolor="black")
        axis.axvline(0.5, color="0.6", linewidth=0.8, linestyle=":")
        axis.set_title(METRIC_TITLES[metric])
        lowest = min([0.42, *(v for line in axis.lines for v in line.get_xdata() if np.isfinite(v))])
        axis.set_xlim(max(lowest - 0.02, -0.02), 1.02)
        axis.grid(axis="y", visible=False)
    first = np.atleast_1d(axes)[0]
    first.set_yticks(range(len(order)), [METHODS[m].title for m in order])
    first.invert_yaxis()
    keys = [
        plt.Line2D([], [], marker="o", linestyle="-", color="0.3", label="measured: mean, 95 % interval"),
        plt.Line2D(
            [], [], marker="o", linestyle="", color="0.3", alpha=0.45, markersize=4, label="measured: each seed"
        ),
        plt.Line2D([], [], marker="D", linestyle="", markerfacecolor="none", markeredgecolor="black", label="reported"),
    ]
    figure.legend(handles=keys, loc="outside lower center", ncols=3)
    return figure


def reweighting(
    tau_alpha: float, tau_beta: float, tau_min: float, num_domains: int, similarity: Sequence[float] = (0.8, 0.4, 0.0)
) -> Figure:
    """How w_ij sets tau_ij, and what that does to a negative's weight in the gradient, exp(s / tau) / tau."""
    w = torch.linspace(0, 1, 201)[None]
    tau = losses.pair_temperature(w, tau_alpha, tau_beta, tau_min, num_domains)[0]
    base = torch.tensor(tau_alpha)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    left.plot(w[0], tau, color=METHOD_COLORS["dw_pairs"], linewidth=2.2)
    left.axhline(tau_alpha, color="0.5", linestyle="--", linewidth=1)
    left.annotate(r"$\tau_\alpha$", (1.0, tau_alpha), ha="right", va="bottom", color="0.35")
    left.set(xlabel=r"$w_{ij}$: probability of sharing the anchor's domain", ylabel=r"$\tau_{ij}$", ylim=(0, None))
    left.set_title("Temperature of a negative pair")
    for shade, s in zip(sns.color_palette("flare", len(similarity)), similarity):
        log_ratio = (s / tau - tau.log()) - (s / base - base.log())
        right.plot(w[0], log_ratio / np.log(10), color=shade, linewidth=2.2, label=f"$s_{{ij}}$ = {s:g}")
    right.axhline(0, color="0.5", linestyle="--", linewidth=1)
    right.axvline(1 / num_domains, color="0.5", linestyle=":", linewidth=1)
    right.set(xlabel=r"$w_{ij}$", ylabel=r"powers of ten over $\tau_{ij} = \tau_\alpha$")
    right.set_title("Push on that negative")
    right.legend()
    return figure


def stack_cost(tables: dict[str, pd.DataFrame]) -> Figure:
    """What an epoch of a stack costs as runs are added, beside a cost in proportion.

    Args:
        tables: for each machine's name, `speed.stacks` of its figures.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.3), layout="constrained")
    for (name, table), color in zip(tables.items(), sns.color_palette("colorblind")):
        left.plot(table.runs, table.seconds, marker="o", color=color, label=name)
        left.plot(table.runs, table.seconds.iloc[0] * table.runs, color=color, linestyle=":", linewidth=1)
        right.plot(table.runs, table.a_run, marker="o", color=color, label=name)
    left.plot([], [], color="0.4", linestyle=":", linewidth=1, label="in proportion")
    left.set(xlabel="runs in the stack", ylabel="seconds an epoch", xscale="log", yscale="log", title="The whole stack")
    right.set(
        xlabel="runs in the stack", ylabel="seconds a run-epoch", xscale="log", ylim=(0, None), title="A run's share"
    )
    for axis in (left, right):
        axis.xaxis.set_major_formatter("{x:g}")
    left.legend()
    return figure


def example_digits(data: ColoredDigits, rows: int = 5, columns: int = 5) -> Figure:
    """Example images of each split (the paper's first appendix figure)."""
    figure, axes = plt.subplots(1, len(SPLITS), figsize=(2.1 * len(SPLITS), 2.5), layout="constrained")
    for axis, split in zip(axes, SPLITS):
        images = data.split(split).images[: rows * columns]
        tiles = images.unflatten(0, (rows, columns)).permute(0, 3, 1, 4, 2).flatten(2, 3).flatten(0, 1)
        axis.imshow(tiles.numpy(), interpolation="nearest")
        axis.set_title(SPLIT_TITLES[split])
        axis.axis("off")
    return figure


def color_distributions(sigmas: Sequence[float], seed: int = 0, shown: int = 400) -> Figure:
    """Colours of each domain in RGB space and their marginals, a row a sigma (the paper's second appendix figure)."""
    figure = plt.figure(figsize=(8.6, 2.3 * len(sigmas)), layout="constrained")
    grid = figure.add_gridspec(len(sigmas), 4, width_ratios=(1.5, 1, 1, 1))
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
                    chosen[:, channel], bins=np.linspace(0, 255, 35), density=True, histtype="step", linewidth=1.6,
                    color=str(name), label=str(name),
                )  # fmt: skip
        space.set_title(f"sigma = {sigma:g}", pad=0)
        for name, axis in zip(("R", "G", "B"), marginals):
            axis.set(title=f"{name} intensity" if line == 0 else "", xlim=(0, 255), yscale="log")
            axis.set_yticks([])
            axis.minorticks_off()
        for setter, name in ((space.set_xlabel, "R"), (space.set_ylabel, "G"), (space.set_zlabel, "B")):
            setter(name, labelpad=-8)
        space.set(xlim=(0, 255), ylim=(0, 255), zlim=(0, 255))
        space.tick_params(labelsize=6, pad=-3)
        space.locator_params(nbins=3)
        if line == 0:
            marginals[-1].legend(fontsize="x-small")
    return figure
