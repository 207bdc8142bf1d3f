import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from test_statistics import selected_rows

from dtcl_core import figures, illustrations, reported, results
from dtcl_core.data import ColoredDigits
from dtcl_core.methods import ALL_METHODS, METHODS

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    figures.use_style()
    yield
    plt.close("all")


def test_every_method_has_a_colour_of_its_own():
    assert figures.METHOD_COLORS.keys() == ALL_METHODS.keys()
    assert len(set(figures.METHOD_COLORS.values())) == len(ALL_METHODS)


def test_comparison_shows_means_seeds_and_reported_values():
    rows = selected_rows()
    figure = figures.compare_methods(rows, reported.main_comparison(), ["test_ood", "test_id"])
    first = figure.axes[0]
    drawn = np.concatenate([line.get_xdata() for line in first.lines])
    assert np.isclose(drawn, 0.819).any() and np.isclose(drawn, (0.80 + 0.84 + 0.83) / 3).any()
    assert {0.80, 0.84, 0.83} <= set(drawn.tolist())
    assert [t.get_text() for t in first.get_yticklabels()] == [m.title for m in METHODS.values()]


def test_comparison_without_rows_still_shows_the_paper():
    figure = figures.compare_methods(results.frame([]), reported.main_comparison(), ["test_ood"])
    figure.canvas.draw()
    assert np.isclose(np.concatenate([line.get_xdata() for line in figure.axes[0].lines]), 0.819).any()


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
