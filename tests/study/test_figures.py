import inspect

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import same_color, to_rgba
from matplotlib.text import Text

from dtcl_core.config import SIGMAS, TAU_ALPHAS, TAU_BETAS
from dtcl_core.methods import METHODS
from dtcl_core.traces import BINS, Trace
from dtcl_study import figures, reported, style
from dtcl_study.compare import accuracy

matplotlib.use("Agg")
M = ["test_ood", "test_id", "d_test_id"]
NONE = pd.DataFrame(columns=["method", "sigma", "seed", "projector", "projector_dim", "tau_alpha", "tau_beta", "n", "change",
                             "metric", "mean", "low", "high", "value", "validation", *M])  # fmt: skip


@pytest.fixture(autouse=True)
def style_and_close():
    with plt.rc_context():
        style.use_style()
        yield
    plt.close("all")


def crossed(seeds=3, **columns):
    """Every combination of the values of some columns, with accuracies and n, and one row per seed."""
    lines = pd.MultiIndex.from_product([*columns.values(), range(seeds)], names=[*columns, "seed"]).to_frame(index=False)
    values = np.random.default_rng(0).uniform(0.6, 0.95, (len(lines), 4))
    return lines.assign(n=seeds, **dict(zip([*M, "validation"], values.T)))


ROWS, SIGMA = crossed(method=METHODS), crossed(method=METHODS, sigma=SIGMAS)
CELLS = crossed(1, method=["dw_pairs"], tau_alpha=TAU_ALPHAS, tau_beta=TAU_BETAS)
HEADS = pd.concat([crossed(projector=[None], projector_dim=[np.nan], tau_alpha=TAU_ALPHAS),
                   crossed(projector=["linear", "mlp"], projector_dim=[4.0, 8.0, 16.0], tau_alpha=TAU_ALPHAS)])  # fmt: skip
TOLD, GRIDS = reported.load("table_9_global_vs_batch").query("discriminator == 'global'"), reported.temperature_tables()
TRACE = Trace("a", np.ones(40), 0.05, 0.2, np.ones((40, 2, BINS), dtype=np.int64))
POINTS = pd.DataFrame(
    {"split": ["test_id", "test_ood"], "digit": ["3", "5"], "color": [(1, 0, 0), (0, 1, 0)], "x": [0, 1], "y": [0, 1]}
)
DRAW = {  # what each function is given: rows, and none where a page draws without
    "compare_methods": ((ROWS, reported.main_comparison(), M), (NONE, NONE, M)),
    "along_sigma": ((SIGMA, TOLD, M), (NONE, TOLD, M)),
    "heads": ((HEADS[HEADS.tau_alpha == 0.1], M), (NONE, M)),
    "heads_by_temperature": ((HEADS, "test_id"), (NONE, "test_id")),
    "scatter": ((ROWS, ROWS, ROWS[ROWS.seed == 0], M), (NONE, NONE, NONE, M)),
    "maps": ((CELLS.assign(n=3), CELLS[5:6], GRIDS, "dw_pairs", "test_ood"), (NONE, NONE, GRIDS, "dw_pairs", "test_ood")),
    "temperature_lines": ((TRACE, 0.125, 3),),
    "temperature_ridges": ((TRACE, 0.125, 3),),
    "embeddings": ((dict.fromkeys(METHODS, (POINTS, 0.4)),),),
    "idea": ((),),
}
COUNTED = list(DRAW)[:8]  # those that draw means, and say of how many seeds


@pytest.mark.filterwarnings("error", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("name", "empty"), [(name, bool(place)) for name, given in DRAW.items() for place in range(len(given))])
def test_letters_are_read_on_a_phone_and_n_is_said(name, empty):
    assert DRAW.keys() == {
        n for n, f in inspect.getmembers(figures, inspect.isfunction) if f.__annotations__.get("return") == "Figure"
    }
    figure = getattr(figures, name)(*DRAW[name][empty])
    figure.canvas.draw()
    texts = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]
    assert min(t.get_fontsize() for t in texts) >= style.SMALL and figure.get_figwidth() <= style.WIDTH
    box = figure.get_tightbbox(figure.canvas.get_renderer())
    assert (box.min > -0.01).all() and (box.max < figure.get_size_inches() + 0.01).all(), "nothing is cut off"
    said = " ".join(t.get_text() for t in texts)
    assert ("not yet run" in said) == empty
    if name in COUNTED:
        assert ("no seeds yet" if empty else "n = 3 seeds") in said


def drawn(axis, color):
    """The points (x, y) of each line of a colour."""
    return [list(zip(*line.get_data())) for line in axis.lines if same_color(line.get_color(), color)]


def test_comparison_shows_means_intervals_seeds_and_reported_values():
    rows = pd.DataFrame({"method": ["dw_pairs"] * 3 + ["mmd"], "seed": [0, 1, 2, 0], "test_ood": [0.80, 0.84, 0.85, 0.7]})
    (axis,) = figures.compare_methods(rows, reported.main_comparison(), ["test_ood"]).axes
    place, interval = list(METHODS).index("dw_pairs"), accuracy([0.80, 0.84, 0.85])
    seeds, bar, mean = drawn(axis, style.look("dw_pairs").color)
    assert [x for x, _ in seeds] == [0.80, 0.84, 0.85] and mean == [(interval.mean, place)]
    assert bar == [(interval.low, place), (interval.high, place)]
    assert len(drawn(axis, style.look("mmd").color)) == 2, "one seed has no interval"
    diamonds = [line.get_data() for line in axis.lines if line.get_marker() == "D"]
    assert any(x == [0.819] and y == [place + 0.3] for x, y in diamonds)


def test_an_interval_that_leaves_the_panel_has_an_arrow():
    values = {"dann": (0.70, 0.78), "mmd": (0.79, 0.80, 0.80, 0.81)}  # the interval of two seeds reaches from 0.232 past 1
    rows = pd.DataFrame(
        [(m, seed, v) for m, each in values.items() for seed, v in enumerate(each)], columns=["method", "seed", "test_id"]
    )
    (axis,) = figures.compare_methods(rows, reported.main_comparison()[:0], ["test_id"]).axes
    arrows = [(line.get_marker(), line.get_xdata()[0], line.get_ydata()[0]) for line in axis.lines if line.get_marker() in "<>"]
    dann, mmd = map([method for method in METHODS if method in values].index, ("dann", "mmd"))
    assert arrows == [(mark, end, dann) for mark, end in zip("<>", axis.get_xlim())]
    assert "an arrow" in axis.figure.legends[0].get_title().get_text()
    interval = accuracy(values["mmd"])
    assert [(interval.low, mmd), (interval.high, mmd)] in drawn(axis, style.look("mmd").color)


def test_sigma_is_in_categories_with_methods_beside_each_other():
    rows = SIGMA[SIGMA.method.isin(["standard", "dw_pairs"])]
    panels = figures.along_sigma(rows, TOLD[:0], M).axes
    for axis, metric in zip(panels, M):
        one, other = (drawn(axis, style.look(m).color)[0] for m in ("standard", "dw_pairs"))
        assert [y for _, y in one] == pytest.approx(rows[rows.method == "standard"].groupby("sigma")[metric].mean().tolist())
        assert all(x < z for (x, _), (z, _) in zip(one, other)) and [round(x) for x, _ in one] == [0, 1, 2, 3, 4]
    assert len({axis.get_ylim() for axis in panels}) == 3


def test_maps_frame_the_selected_cell_and_print_every_number():
    gone = CELLS[~((CELLS.tau_alpha == 1.0) & (CELLS.tau_beta == 0.1))]
    told, measured = figures.maps(gone, gone[5:6], GRIDS, "dw_pairs", "test_ood").axes
    for axis, (a, b) in ((told, (0.175, 1.0)), (measured, (0.075, 0.25))):
        (place,) = {patch.get_xy() for patch in axis.patches}
        assert place == (TAU_BETAS.index(b) - 0.5, TAU_ALPHAS.index(a) - 0.5)
    texts = {t.get_position(): t.get_text() for t in measured.texts}
    assert len(texts) == 39 and texts[1, 1] == f"{gone.test_ood.iloc[5]:.3f}" and (0, 9) not in texts
    assert [t.get_text() for t in told.texts if t.get_weight() == "bold"] == ["0.881"], "the paper's best"


def test_scatter_shows_every_configuration_and_marks_the_selected():
    (axis,) = figures.scatter(ROWS, ROWS, ROWS[ROWS.seed == 1], ["test_ood"]).axes
    assert [x for ((x, _),) in drawn(axis, style.SELECTED)] == ROWS[ROWS.seed == 1].test_ood.tolist()
    assert sorted(x for x, _ in drawn(axis, "0.42")[0]) == sorted(ROWS[ROWS.method == "standard"].test_ood)


def test_heads_stand_beside_a_band_of_what_there_is_without():
    rows = HEADS[HEADS.tau_alpha == 0.1]
    axis, bare = figures.heads(rows, ["test_id"]).axes[0], accuracy(rows[rows.projector.isna()].test_id)
    assert [bare.mean] * 2 == next(line.get_ydata() for line in axis.lines if same_color(line.get_color(), style.GRAY))
    band = axis.transData.inverted().transform(axis.patches[0].get_extents().get_points())
    assert band[:, 1] == pytest.approx([bare.low, bare.high])
    large = [line for line in axis.lines if line.get_markersize() == 6 and line.get_marker() == "o"]
    seeds = [sorted(line.get_ydata()) for line in axis.lines if line.get_markersize() == 2.5]
    assert seeds == [sorted(part.test_id) for _, part in rows[rows.projector.notna()].groupby(["projector", "projector_dim"])]
    filled = [line.get_ydata()[0] for line in large if same_color(line.get_markerfacecolor(), style.INK)]
    assert filled == pytest.approx(rows[rows.projector == "mlp"].groupby("projector_dim").test_id.mean().tolist())


def test_green_digits_are_drawn_on_the_right_alone():
    left, right = figures.embeddings({"standard": (POINTS, 0.4)}).axes
    shown = [{tuple(c) for p in axis.collections if len(p.get_offsets()) for c in p.get_facecolors()} for axis in (left, right)]
    assert shown == [{to_rgba("red")}, {to_rgba("0.82"), to_rgba((0, 1, 0))}]
