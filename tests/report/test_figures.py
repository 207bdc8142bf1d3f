import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from made_up_rows import frame, selected_rows
from matplotlib.collections import LineCollection

from dtcl_core import results
from dtcl_core.analysis import reported, selection
from dtcl_core.config import TAU_ALPHAS, TAU_BETAS
from dtcl_core.data import ColoredDigits
from dtcl_core.methods import ALL_METHODS, METHODS, Method
from dtcl_core.report import figures, illustrations, style, tables

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    figures.use_style()
    yield
    plt.close("all")


def test_every_method_has_a_colour_of_its_own():
    assert style.METHOD_COLORS.keys() == ALL_METHODS.keys()
    assert len(set(style.METHOD_COLORS.values())) == len(ALL_METHODS)


def test_a_method_that_a_reader_adds_is_drawn(monkeypatch):
    monkeypatch.setitem(ALL_METHODS, "mine", Method("My Method"))
    rows = frame([("mine", {"tau_alpha": 0.1, "sigma": s}, seed, 0.8, 0.5) for s in (0, 50) for seed in (0, 1)])
    rows = rows[rows.label_fraction == 0.01]
    figure = figures.compare_methods(rows[rows.sigma == 50], rows.iloc[:0].assign(metric="", value=0.0), ["test_ood"])
    assert "My Method" in [t.get_text() for t in figure.axes[0].get_yticklabels()]
    curves = figures.curves(rows, rows.iloc[:0].assign(metric="", value=0.0), "sigma", ["test_ood"], xlabel="sigma")
    assert any(line.get_color() == style.OTHER_COLOR for line in curves.axes[0].lines)


def test_an_interval_is_seen_where_its_neighbours_have_none():
    """As on the way to the full grid: several seeds at one spread, one at the others."""
    seeds = [(0, 0), (50, 0), (50, 1), (150, 0)]
    rows = frame([("standard", {"tau_alpha": 0.1, "sigma": s}, seed, 0.5, 0.97 + 0.02 * seed) for s, seed in seeds])
    rows = rows[rows.label_fraction == 0.01]
    (axis,) = figures.curves(rows, rows.iloc[:0].assign(metric="", value=0.0), "sigma", ["test_ood"]).axes
    (bars,) = [c for c in axis.collections if isinstance(c, LineCollection)]
    ends = [segment for segment in bars.get_segments() if len(segment)]
    assert len(ends) == 1 and (ends[0][:, 0] == 50).all() and ends[0][0, 1] < 0.97 and ends[0][1, 1] == 1.0


def test_a_figure_without_rows_says_so():
    nothing = pd.DataFrame(columns=["method", "sigma", "test_ood", "metric", "value"])
    figure = figures.curves(nothing, nothing, "sigma", ["test_ood"], log=True)
    assert [text.get_text() for text in figure.axes[0].texts] == ["not yet run"]
    figure.canvas.draw()


def test_comparison_shows_means_seeds_and_reported_values():
    rows = selected_rows()
    figure = figures.compare_methods(rows, reported.main_comparison(), ["test_ood", "test_id"])
    first = figure.axes[0]
    drawn = np.concatenate([line.get_xdata() for line in first.lines])
    assert np.isclose(drawn, 0.819).any() and np.isclose(drawn, (0.80 + 0.84 + 0.83) / 3).any()
    assert {0.80, 0.84, 0.83} <= set(drawn.tolist())
    names = [t.get_text().replace("\n", " ") for t in first.get_yticklabels()]
    assert names == [m.title for m in METHODS.values()]


def test_comparison_without_rows_still_shows_the_paper():
    figure = figures.compare_methods(results.frame([]), reported.main_comparison(), ["test_ood"])
    figure.canvas.draw()
    assert np.isclose(np.concatenate([line.get_xdata() for line in figure.axes[0].lines]), 0.819).any()


def frames(axis):
    """The cells that a map frames, as (tau_alpha, tau_beta)."""
    places = [patch.get_xy() for patch in axis.patches]
    return [(TAU_ALPHAS[round(x + 0.5)], TAU_BETAS[round(y + 0.5)]) for x, y in places]


def maps(rows):
    means, chosen = tables.cell_means(rows, ["validation", "test_ood"]), selection.select(rows)
    metrics = ["validation", "test_ood"]
    return figures.temperature_maps(
        means, chosen, reported.temperature_tables(), "dw_pairs", metrics, TAU_ALPHAS, TAU_BETAS
    )


def test_maps_frame_what_the_paper_selects_and_what_selection_does():
    easy, hard = (
        0.9,
        0.7,
    )  # seeds; the cell at 0.2 is better wherever both were trained, yet has the lower mean of its own
    first, second = {"tau_alpha": 0.1, "tau_beta": 0.5}, {"tau_alpha": 0.2, "tau_beta": 0.5}
    rows = frame(
        [("dw_pairs", first, s, v, 0.5) for s, v in enumerate([easy, hard, hard])]
        + [("dw_pairs", second, s, hard + 0.02, 0.5) for s in (1, 2, 3)]
        + [("dw_negatives", {"tau_alpha": 0.5, "tau_beta": 0.1}, 0, 0.99, 0.5)]
    )
    means = tables.cell_means(rows, ["validation"])
    assert means[means.method == "dw_pairs"].set_index("tau_alpha").validation.idxmax() == 0.1
    told, measured = maps(rows).axes[:2]
    assert frames(told) == [(0.175, 1.0)] and frames(measured) == [(0.2, 0.5)]


def test_maps_without_rows_or_of_another_grid_frame_nothing_measured():
    for rows in (results.frame([]), frame([("dw_pairs", {"tau_alpha": 0.3, "tau_beta": 0.5}, 0, 0.8, 0.5)])):
        figure = maps(rows)
        figure.canvas.draw()
        assert [len(axis.patches) for axis in figure.axes[:4]] == [1, 0, 1, 0]


def test_configurations_are_shown_beside_their_runs():
    pairs = [
        ("dw_pairs", {"tau_alpha": a, "tau_beta": 1.0}, s, a, 0.2 + a + 0.1 * s) for a in (0.1, 0.2) for s in (0, 1)
    ]
    rows = frame(
        [*pairs, ("standard", {"tau_alpha": 0.1}, 0, None, 0.4), ("standard", {"tau_alpha": 0.1}, 1, 0.5, 0.6)]
    )
    single = rows[rows.label_fraction == 0.01]
    means = tables.cell_means(rows, ["test_ood"])
    chosen = tables.cell_means(selection.rows_of(rows, selection.select(rows)), ["test_ood"])
    (axis,) = figures.all_configurations(single, means, chosen, ["test_ood"]).axes
    drawn = [np.sort(line.get_xdata()).tolist() for line in axis.lines]
    assert drawn[4:8] == [pytest.approx(v) for v in ([0.3, 0.4, 0.4, 0.5], [0.35, 0.45], [0.4, 0.4], [0.45])]
    assert axis.lines[4].get_alpha() < axis.lines[5].get_alpha()
    assert axis.get_xlim()[0] < 0.3
    nothing = results.frame([])
    figure = figures.all_configurations(nothing, tables.cell_means(nothing, ["test_ood"]), chosen[:0], ["test_ood"])
    figure.canvas.draw()
    assert not figure.axes[0].get_yticklabels()


def test_reweighting_follows_the_equation():
    figure = illustrations.reweighting(0.2, 0.1, 0.01, 2, similarity=(0.5,))
    w, tau = figure.axes[0].lines[0].get_data()
    assert np.allclose(tau, 0.2 + 0.1 * (0.5 - w), atol=1e-6)
    _, push = figure.axes[1].lines[0].get_data()
    expected = (0.5 / tau - np.log(tau)) - (0.5 / 0.2 - np.log(0.2))
    assert np.allclose(push, expected / np.log(10), atol=1e-4)


def test_digits_and_colours_are_drawn():
    data = ColoredDigits(seed=0)
    tiles = illustrations.example_digits(data, 2, 3).axes[0].images[0].get_array()
    assert tiles.shape == (56, 84, 3)
    assert np.allclose(tiles[:28, :28], data.split("train").images[0].permute(1, 2, 0))
    assert len(illustrations.color_distributions([0, 50], shown=20).axes) == 8


def test_a_head_is_drawn_from_its_output_to_the_backbone_at_the_lowest_shared_temperature():
    cells = [("standard", "none", "backbone", 0.05, 0.9), ("dw_pairs", "none", "backbone", 0.1, 0.8)]
    cells += [("dw_pairs", "mlp 16", place, tau, value) for place, tau, value in (
        ("backbone", 0.1, 0.7), ("head", 0.1, 0.6), ("backbone", 0.15, 0.95), ("head", 0.15, 0.55))]  # fmt: skip
    lines = pd.DataFrame(
        [(*cell, seed, value + seed / 100, value) for *cell, value in cells for seed in (0, 1)],
        columns=["method", "head", "place", "tau_alpha", "seed", "test_id", "d_test_id"],
    )
    figure = figures.with_and_without_head(lines)
    figure.canvas.draw()
    bare, headed, told, key = figure.axes
    assert key.get_legend().get_title().get_text() == "n = 2 seeds"
    assert sorted(line.get_ydata()[0] for line in bare.lines if len(line.get_ydata()) == 1) == pytest.approx(
        [0.805, 0.905]
    )
    assert headed.lines[0].get_ydata() == pytest.approx([0.705, 0.955]), "the backbone's, not the head's"
    assert told.lines[0].get_xdata() == pytest.approx([0.6, 0.7]), "from the head's output to the backbone"
    figures.with_and_without_head(lines[:0]).canvas.draw()
