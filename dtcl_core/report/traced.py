"""Plots of what runs recorded while they trained: the temperatures of their negative pairs, by epoch."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.figure import Figure

from ..traces import Trace
from .style import WIDTH, n_said

KIND_STYLES = {"same_domain": ("#D55E00", "pairs of one domain"), "cross_domain": ("#0072B2", "pairs across domains")}


def temperature_bands(
    trace: Trace, tau_alpha: float, seeds: int, quantiles: Sequence[float] = (0.05, 0.5, 0.95)
) -> Figure:
    """Median and range of the temperatures by epoch: of all pairs, as the paper draws them, and by kind.

    Args:
        trace: of one run, or of several pooled.
        tau_alpha: drawn as a line.
        seeds: how many runs are pooled.
        quantiles: the low end of the band, its line, and the high end.
    """
    figure, axes = plt.subplots(2, 1, figsize=(WIDTH, 5.2), sharex=True, layout="constrained")
    epochs = np.arange(1, len(trace.loss) + 1)
    panels = [(axes[0], None, ("#6A3D9A", "all pairs")), *((axes[1], k, style) for k, style in KIND_STYLES.items())]
    for axis, kind, (color, label) in panels:
        low, median, high = trace.quantiles(quantiles, kind).T
        axis.plot(epochs, median, color=color, linewidth=2.2, label=label, marker="o" if len(epochs) == 1 else None)
        axis.fill_between(epochs, low, high, color=color, alpha=0.18, linewidth=0)
    for axis, title in zip(axes, ("All negative pairs", "By kind")):
        axis.axhline(tau_alpha, color="0.4", linestyle="--", linewidth=1)
        axis.annotate(r"$\tau_\alpha$", (epochs[-1], tau_alpha), ha="right", va="bottom", color="0.3")
        axis.set(title=title, ylabel=r"effective temperature $\tau_{ij}$")
    axes[-1].set_xlabel("epoch")
    low, middle, high = (f"{100 * q:g}" for q in quantiles)
    title = f"line: {middle} % of pairs are below; band: {low} to {high} %; {n_said([seeds])} together"
    figure.legend(loc="outside lower center", ncols=3, title=title)
    return figure


def temperature_ridges(trace: Trace, tau_alpha: float, seeds: int, ridges: int = 9) -> Figure:
    """The whole distribution of the temperatures at a few epochs, one above the other.

    Args:
        trace, tau_alpha, seeds: as for `temperature_bands`.
        ridges: at most so many epochs.
    """
    last = len(trace.loss)
    shown = sorted({round(e) for e in np.geomspace(1, last, min(ridges, last))})
    height = 0.55 * len(shown) + 1.1
    figure, axes = plt.subplots(len(shown), 1, figsize=(WIDTH, height), sharex=True, squeeze=False)
    centers = (trace.edges[1:] + trace.edges[:-1]) / 2
    counts = np.zeros((last, 2, len(centers))) if trace.counts is None else trace.counts
    for axis, epoch in zip(axes[:, 0], shown):
        for kind, (color, label) in zip(counts[epoch - 1], KIND_STYLES.values()):
            level = kind / max(kind.max(), 1)
            axis.fill_between(centers, level, color=color, alpha=0.45, linewidth=0, label=label)
            axis.plot(centers, level, color=color, linewidth=1)
        axis.axvline(tau_alpha, color="0.4", linestyle="--", linewidth=1)
        axis.text(-0.02, 0.15, str(epoch), transform=axis.transAxes, ha="right", fontsize=8)
        axis.patch.set_alpha(0)
        axis.set(yticks=[], ylim=(0, 1.25))
        sns.despine(ax=axis, left=True)
        axis.grid(visible=False)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="upper center", ncols=2)
    axes[-1, 0].set_xlabel(rf"effective temperature $\tau_{{ij}}$; left: epoch; {n_said([seeds])} together")
    figure.subplots_adjust(hspace=-0.1, left=0.1, right=0.97, top=1 - 0.3 / height, bottom=0.5 / height)
    return figure
