"""Plots to turn and to step through, that work offline: the book carries one copy of plotly's script for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..config import TAU_ALPHAS, TAU_BETAS
from ..traces import Trace
from .style import method_color, n_said
from .traced import KIND_STYLES

SCRIPT = "_static/plotly.min.js"  # beside every page; `book/_ext/offline_pages.py` puts it there


class Page:
    """A figure that shows itself as HTML in a notebook and in the book.

    Args:
        figure: a plotly figure.
        name: of its element on the page; fixed, so that pages do not differ between builds.
        says: what it shows, for readers who cannot see it.
    """

    def __init__(self, figure: Any, name: str, says: str):
        self.figure, self.name, self.says = figure, name, says

    def _repr_html_(self) -> str:
        plot = self.figure.to_html(
            include_plotlyjs=SCRIPT, full_html=False, div_id=self.name, config={"displaylogo": False}
        )
        return f'<div role="img" aria-label="{self.says}">{plot}</div>'


def _layout(**more: Any) -> dict[str, Any]:
    return {
        "margin": {"l": 10, "r": 10, "t": 30, "b": 10},
        "height": 430,
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "legend": {"orientation": "h", "y": -0.12},
        **more,
    }


def temperature_surface(means: pd.DataFrame, reported: pd.DataFrame, method: str, metric: str = "test_ood") -> Page:
    """Accuracy over the two temperatures: a surface as reported, points as measured.

    Args:
        means: a line a cell: method, tau_alpha, tau_beta, the metric's mean, n.
        reported: the paper's numbers: method, tau_alpha, tau_beta, metric, value.
    """
    import plotly.graph_objects as go

    paper = reported[(reported.method == method) & (reported.metric == metric)]
    grid = paper.pivot_table(index="tau_beta", columns="tau_alpha", values="value").reindex(
        TAU_BETAS, columns=TAU_ALPHAS
    )
    figure = go.Figure()
    # Temperatures are placed by rank: their grid is neither even nor geometric.
    hover = "tau_alpha %{customdata[0]}<br>tau_beta %{customdata[1]}<br>%{z:.3f}"
    names = np.array([[(a, b) for a in TAU_ALPHAS] for b in TAU_BETAS])
    figure.add_surface(
        z=grid.to_numpy().tolist(), customdata=names.tolist(), hovertemplate=hover, opacity=0.75, showscale=False,
        colorscale="Viridis", name="reported", showlegend=True, cmin=0.45, cmax=1,
    )  # fmt: skip
    mine = means[(means.method == method) & means.tau_alpha.isin(TAU_ALPHAS) & means.tau_beta.isin(TAU_BETAS)]
    if len(mine):
        figure.add_scatter3d(
            x=[TAU_ALPHAS.index(a) for a in mine.tau_alpha], y=[TAU_BETAS.index(b) for b in mine.tau_beta],
            z=mine[metric].tolist(), customdata=mine[["tau_alpha", "tau_beta", "n"]].to_numpy().tolist(),
            hovertemplate=hover + "<br>%{customdata[2]} seeds", mode="markers", name=f"measured, {n_said(mine.n)}",
            marker={"size": 5, "color": method_color(method)},
        )  # fmt: skip
    axis = {"title": "tau_alpha", "tickvals": list(range(len(TAU_ALPHAS))), "ticktext": [f"{a:g}" for a in TAU_ALPHAS]}
    other = {"title": "tau_beta", "tickvals": list(range(len(TAU_BETAS))), "ticktext": [f"{b:g}" for b in TAU_BETAS]}
    scene = {"xaxis": axis, "yaxis": other, "zaxis": {"title": metric, "range": [0.4, 1]}}
    figure.update_layout(**_layout(scene=scene))
    return Page(figure, f"surface-{method}", f"{metric} accuracy over tau_alpha and tau_beta, reported and measured")


def temperature_by_epoch(trace: Trace, tau_alpha: float, seeds: int, most: int = 60) -> Page:
    """The distribution of the temperatures, with a slider over epochs.

    Args:
        trace: of one run, or of several pooled.
        tau_alpha: drawn as a line.
        seeds: how many runs are pooled.
        most: at most so many epochs.
    """
    import plotly.graph_objects as go

    last = len(trace.loss)
    epochs = sorted({round(e) for e in np.geomspace(1, last, min(most, last))})
    all_counts = np.zeros((last, 2, 1)) if trace.counts is None else trace.counts
    centers = ((trace.edges[1:] + trace.edges[:-1]) / 2).round(6).tolist()

    def bars(epoch: int) -> list[Any]:
        counts = all_counts[epoch - 1]
        return [
            go.Bar(
                x=centers, y=(kind / max(kind.sum(), 1)).round(5).tolist(), name=label, marker_color=color, opacity=0.65
            )
            for kind, (color, label) in zip(counts, KIND_STYLES.values())
        ]

    figure = go.Figure(bars(epochs[0]), frames=[go.Frame(data=bars(e), name=str(e)) for e in epochs])
    steps = [
        {"label": str(e), "method": "animate", "args": [[str(e)], {"mode": "immediate", "frame": {"duration": 0}}]}
        for e in epochs
    ]
    figure.add_vline(x=tau_alpha, line_dash="dash", line_color="gray")
    figure.update_layout(
        **_layout(
            barmode="overlay", bargap=0, sliders=[{"steps": steps, "currentvalue": {"prefix": "epoch "}}],
            xaxis={"title": "effective temperature"}, yaxis={"title": f"share of pairs, {n_said([seeds])} together"}, legend={"orientation": "h", "y": 1.12},
        )
    )  # fmt: skip
    return Page(figure, "temperature-by-epoch", "histogram of the effective temperatures at the chosen epoch")
