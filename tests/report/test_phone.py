"""Every figure is read on a phone: no letter is smaller than `PIXELS` where the figure is shown on `PHONE` pixels."""

import inspect

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from made_up_rows import frame
from matplotlib.figure import Figure
from matplotlib.text import Text

from dtcl_core.analysis import reported, selection
from dtcl_core.config import TAU_ALPHAS, TAU_BETAS
from dtcl_core.data import ColoredDigits
from dtcl_core.experiments import open_choices
from dtcl_core.methods import METHODS
from dtcl_core.report import figures, forest, illustrations, tables
from dtcl_core.traces import BINS, Trace

matplotlib.use("Agg")

PHONE, PIXELS = 366, 7.0
METRICS = ["test_ood", "test_id", "d_test_id"]


@pytest.fixture(autouse=True)
def close_figures():
    figures.use_style()
    yield
    plt.close("all")


def rows(sigmas=(50.0,), seeds=3):
    """Rows of every method, at 1 % of the labels."""
    setting = {m: {"tau_beta": 0.5} for m in ("dw_negatives", "dw_pairs")} | {
        "mmd": {"lambda_": 1.0},
        "dann": {"lambda_": 1.0},
    }
    entries = [
        (m, {"tau_alpha": 0.1, "sigma": s, **setting.get(m, {})}, seed, 0.9, 0.7 + 0.05 * seed)
        for m in METHODS for s in sigmas for seed in range(seeds)
    ]  # fmt: skip
    found = frame(entries)
    return found[found.label_fraction == 0.01]


def comparison():
    two = rows().assign(level=np.nan)
    mine = two[two.method == "dw_pairs"]
    return figures.compare_methods(
        pd.concat([two[two.method != "dw_pairs"], mine.assign(level=0.01), mine.assign(level=0.05)]),
        reported.main_comparison(), METRICS,
    )  # fmt: skip


def curves(metrics, **options):
    many = rows((0.0, 5.0, 25.0, 50.0, 75.0, 150.0))
    return figures.curves(many, reported.main_comparison(), "sigma", metrics, xlabel=r"$\sigma$", **options)


def maps():
    cells = [
        ("dw_pairs", {"tau_alpha": a, "tau_beta": b}, s, 0.8, 0.7)
        for a in TAU_ALPHAS
        for b in TAU_BETAS
        for s in (0, 1)
    ]
    measured = frame(cells)
    means, chosen = tables.cell_means(measured, ["validation", *METRICS[:2]]), selection.select(measured)
    told = reported.temperature_tables()
    return figures.temperature_maps(
        means, chosen, told, "dw_pairs", ["validation", *METRICS[:2]], TAU_ALPHAS, TAU_BETAS
    )


def configurations():
    one, found = rows(), rows()
    means = tables.cell_means(found, METRICS[:2])
    return figures.all_configurations(one, means, means, METRICS[:2])


def trace():
    counts = np.ones((40, 2, BINS), dtype=np.int64)
    return Trace("a", np.ones(40), 0.05, 0.2, counts)


def choices(dashed="reported", titles=None):
    titles = titles or {
        "standard": "Standard CL",
        "color_jitter": "Colour jitter (oracle)",
        "pairs": "Domain-Weighted Negatives\nat 1, 1",
    }
    lines = [
        (v.name, group, metric, 0.8, 0.7, 0.75, 0.85, 3)
        for v in open_choices.ALL[:6] for group in titles for metric in METRICS
    ]  # fmt: skip
    columns = ["variation", "group", "metric", dashed, "mean", "low", "high", "n"]
    return figures.open_choices(pd.DataFrame(lines, columns=columns), titles, 60, dashed)


def readings():
    anchors = [("standard", "standard", metric, np.nan, share) for metric in METRICS for share in (0.01, 0.1, 1.0)]
    anchors += [("collapse", "dw_negatives", "validation", 0.175, 0.01)]
    names = [f"a reading with a long name {place}" for place in range(16)]
    lines = [(name, *anchor, 2.0, 3) for name in names for anchor in anchors]
    columns = ["candidate", "group", "method", "metric", "tau_alpha", "label_fraction", "distance", "n"]
    return figures.readings(pd.DataFrame(lines, columns=columns), names, names[1])


def embeddings():
    points = pd.DataFrame({"x": [0.0, 1.0], "y": [0.0, 1.0], "digit": ["3", "5"], "color": [(1, 0, 0), (0, 0, 1)]})
    return figures.embeddings({(method, tau): (points, 0.4) for method in METHODS for tau in (0.05, 0.1, 0.2)})


def heads():
    lines = [
        (method, head, place, tau, seed, 0.8, 0.6)
        for method in ("standard", "dw_negatives", "dw_pairs", "dann")
        for head, place in (("none", "backbone"), ("mlp 16", "backbone"), ("mlp 16", "head"))
        for tau in (0.05, 0.1, 0.2) for seed in (0, 1)
    ]  # fmt: skip
    columns = ["method", "head", "place", "tau_alpha", "seed", "test_id", "d_test_id"]
    return figures.with_and_without_head(pd.DataFrame(lines, columns=columns))


def intervals():
    words = "gradient: half the weight's effect in the temperature over its effect outside, at a temperature of 0.075 and 0.5"
    lines = [(f"{g}. They lead at every spread of colours", words, name, mean, mean - 0.1, mean + 0.1, 5, name == "grid")
             for g in (1, 2) for name, mean in (("grid", 0.1), ("fresh", 9.8))]  # fmt: skip
    return forest.draw(pd.DataFrame(lines, columns=list(forest.COLUMNS)), "difference in accuracy")


def costs():
    table = pd.DataFrame({"runs": [1, 10, 100], "seconds": [1.0, 2.0, 9.0], "a_run": [1.0, 0.2, 0.09]})
    return figures.stack_cost({"cpu": table, "cuda": table})


FIGURES = {  # by the function that draws it
    "compare_methods": [comparison],
    "curves": [
        lambda: curves(METRICS),
        lambda: curves(METRICS[:2], style=lambda m: figures.level_style(m, 0.05)),
        lambda: curves(METRICS[:1]),
    ],
    "stack_cost": [costs],
    "all_configurations": [configurations],
    "temperature_maps": [maps],
    "readings": [readings],
    "temperature_bands": [lambda: figures.temperature_bands(trace(), 0.125, 5)],
    "temperature_ridges": [lambda: figures.temperature_ridges(trace(), 0.125, 5)],
    "open_choices": [choices, lambda: choices("start", {"negatives": "Domain-Weighted Negatives\nat 0.075, 0.5"})],
    "embeddings": [embeddings],
    "hiding": [lambda: figures.hiding(rows())],
    "with_and_without_head": [heads],
    "draw": [intervals],
    "reweighting": [lambda: illustrations.reweighting(0.2, 0.1, 0.01, 2)],
    "example_digits": [lambda: illustrations.example_digits(ColoredDigits(seed=0))],
    "color_distributions": [lambda: illustrations.color_distributions([0, 50], shown=20)],
    "idea": [illustrations.idea],
}
WITHOUT_SEEDS = {"stack_cost", "embeddings", "reweighting", "example_digits", "color_distributions", "idea"}
DRAWN = [(name, draw) for name, draws in FIGURES.items() for draw in draws]


def letters(figure):
    """The texts that a figure shows."""
    figure.canvas.draw()
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]


def test_every_function_that_draws_is_looked_at():
    drawing = {
        name
        for module in (figures, forest, illustrations)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if not name.startswith("_") and inspect.signature(function).return_annotation in (Figure, "Figure")
    }
    assert drawing == set(FIGURES)


@pytest.mark.parametrize(("name", "draw"), DRAWN, ids=[name for name, _ in DRAWN])
def test_letters_are_read_on_a_phone(name, draw):
    figure = draw()
    shown = letters(figure)
    width = figure.get_tightbbox(figure.canvas.get_renderer()).width + 2 * plt.rcParams["savefig.pad_inches"]
    small = {text.get_text(): text.get_fontsize() * PHONE / (72 * width) for text in shown}
    assert shown and min(small.values()) >= PIXELS, {t: p for t, p in small.items() if p < PIXELS}


@pytest.mark.parametrize(
    ("name", "draw"),
    [d for d in DRAWN if d[0] not in WITHOUT_SEEDS],
    ids=[n for n, _ in DRAWN if n not in WITHOUT_SEEDS],
)
def test_a_figure_of_means_says_how_many_seeds_they_have(name, draw):
    said = "\n".join(text.get_text().replace("\n", " ") for text in letters(draw()))
    seeds = {"temperature_maps": 2, "with_and_without_head": 2, "temperature_bands": 5, "temperature_ridges": 5}
    if name == "draw":  # a column of its own
        assert said.count("\n5") == 4 and "over n seeds" in said
    else:
        assert f"n = {seeds.get(name, 3)} seeds" in said


def test_what_lies_beyond_the_panel_carries_its_value():
    texts = [text.get_text() for text in letters(intervals())]
    assert [text for text in texts if "±" in text] == ["+9.80 ± 0.10"] * 2
