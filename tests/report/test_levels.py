"""Levels of tau_min stand beside each other in what is shown, never in one line."""

from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from made_up_rows import frame

from dtcl_core.analysis import reported
from dtcl_core.config import Protocol, Run
from dtcl_core.experiments import REGISTRY
from dtcl_core.experiments.core import PROPOSED
from dtcl_core.report import figures, levels, notebook
from dtcl_core.report.findings.finding import WITHOUT_LEVEL

ROOT = Path(__file__).resolve().parents[2]
LOW, HIGH = Protocol(), replace(Protocol(), tau_min=0.05)


def of(method, protocol, seed, value, **cell):
    return method, {**cell, "tau_alpha": 0.1, "protocol": protocol}, seed, value, value


def test_a_chapter_shows_one_level_and_refuses_one_that_was_not_asked_for():
    every, _ = notebook.obtain("main_table", "core", False, "cpu")
    low, _ = notebook.obtain("main_table", "core", False, "cpu", level=0.01)
    high, _ = notebook.obtain("main_table", "core", False, "cpu", level=0.05)
    assert levels.levels_of(every) == [0.01, 0.05] and levels.levels_of(high) == [0.05]
    assert set(low) | set(high) == set(every) and len(low) < len(every)
    assert {run.method for run in set(low) & set(high)} == {"standard", "same_domain", "color_jitter", "mmd", "dann"}
    with pytest.raises(ValueError, match="which is 0.01 and 0.05, got 0.02"):
        notebook.obtain("main_table", "core", False, "cpu", level=0.02)
    plain, _ = notebook.obtain("main_table", "core", False, "cpu", methods="standard", level=0.02)
    assert plain, "a method that sees no tau_min has no level"


def test_a_level_is_refused_before_anything_trains(nothing_trains):
    with pytest.raises(ValueError, match="level must be a tau_min of these runs"):
        notebook.obtain("main_table", "smoke", True, "cpu", level=0.05)


def test_each_level_selects_among_its_own_cells():
    cells = {
        (0.01, 0.5): [0.8, 0.7], (0.01, 1.0): [0.6, 0.6], (0.05, 0.5): [0.5, 0.5], (0.05, 1.0): [0.9, 0.8],
    }  # fmt: skip
    entries = [
        of("dw_pairs", LOW if level == 0.01 else HIGH, seed, value, tau_beta=beta)
        for (level, beta), values in cells.items()
        for seed, value in enumerate(values)
    ] + [of("standard", LOW, seed, 0.99) for seed in (0, 1)]
    rows = frame(entries)
    runs = [run for run in REGISTRY["main_table"].runs("core") if run.key in set(rows.key)]
    table = levels.under_levels(runs, rows, "test_id", 0.01)
    assert table[["tau_min", "tau_beta", "n"]].values.tolist() == [[0.05, 1.0, 2], [0.01, 0.5, 2]], "the better first"
    assert table.measured.tolist() == pytest.approx([0.85, 0.75]) and set(table.method) == {"Domain-Weighted Pairs"}
    assert levels.under_levels(runs, rows[:0], "test_id", 0.01).empty
    shown = levels.selected_at_levels(runs, rows).query("label_fraction == 0.01")
    cells = shown.groupby(["method", "level"], dropna=False).tau_beta.first().to_dict()
    assert cells.pop(("dw_pairs", 0.01)) == 0.5 and cells.pop(("dw_pairs", 0.05)) == 1.0
    assert [method for method, _ in cells] == ["standard"] and shown[shown.method == "standard"].level.isna().all()
    figure = figures.compare_methods(shown, reported.main_comparison().iloc[:0], ["test_id"])
    names = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert [" ".join(name.split("\n")[:-1] or [name]) for name in names] == [
        "Standard CL",
        *["Domain-Weighted Pairs"] * 2,
    ]
    assert "0.01" in names[1] and "0.05" in names[2]
    drawn = [list(line.get_xdata()) for line in figure.axes[0].lines if len(line.get_xdata()) == 2]
    assert [0.8, 0.7] in drawn and [0.9, 0.8] in drawn and [0.6, 0.6] not in drawn


def close_rows():
    """Rows of two levels: validation and Test-OOD of each cell by its tau_beta; and a baseline with a near-tie and one with a gap."""
    cells = {(LOW, 0.5): (0.902, 0.60), (LOW, 1.0): (0.9, 0.75), (LOW, 0.1): (0.893, 0.62), (HIGH, 0.5): (0.9, 0.6), (HIGH, 1.0): (0.8, 0.9)}  # fmt: skip
    weighted = [("dw_pairs", {"tau_alpha": 0.1, "tau_beta": b, "protocol": p}, v) for (p, b), v in cells.items()]
    plain = [("standard", {"tau_alpha": t, "protocol": LOW}, v) for t, v in ((0.1, (0.7, 0.5)), (0.2, (0.695, 0.51)))]
    alone = [("color_jitter", {"tau_alpha": 0.1, "protocol": LOW}, (0.9, 0.9))]
    return frame([(method, cell, seed, *both) for method, cell, both in weighted + plain + alone for seed in (0, 1)])


def test_a_close_choice_that_decides_a_number_is_said_with_both_sides_of_it():
    rows = close_rows()
    runs = [run for run in REGISTRY["main_table"].runs("core") if run.key in set(rows.key)]
    runs += [Run("standard", 0.2, protocol=LOW, seed=seed) for seed in (0, 1)]
    said, listed = levels.close_choices(runs, rows)
    assert said == (
        "**Close choices:** 2 of 3 selections among several cells are within 0.01 of a runner-up in validation;"
        " where Test-OOD then differs by more than 0.03:"
    )
    (line,) = listed.to_dict("records")
    told = {"method": "Domain-Weighted Pairs", "tau_min": "0.01", "selected": "0.1/0.5", "runner-up": "0.1/1"}
    numbers = {"validation": 0.902, "test_ood": 0.6, "its validation": 0.9, "its Test-OOD": 0.75}
    assert list(line) == [*list(told)[:3], "validation", "test_ood", "runner-up", "its validation", "its Test-OOD"]
    assert {name: line[name] for name in told} == told
    assert {name: line[name] for name in numbers} == pytest.approx(numbers)
    said, listed = levels.close_choices(runs, rows, matters=0.015)
    assert listed["runner-up"].tolist() == ["0.1/1", "0.1/0.1"], "every near cell, the largest difference first"
    said, listed = levels.close_choices(runs, rows, matters=0.2)
    assert said.endswith("in validation; none of these then differs by more than 0.2 on Test-OOD.") and listed.empty
    said, listed = levels.close_choices(runs, rows, within=0.001)
    assert said.endswith("0 of 3 selections among several cells are within 0.001 of a runner-up in validation.")
    assert listed.empty and "0 of 0" in levels.close_choices(runs, rows[:0])[0]


def test_close_choices_are_told_apart_by_what_there_are_several_of():
    several = [
        ("dw_pairs", {"tau_alpha": 0.1, "tau_beta": b, "sigma": s, "discriminator": d, "protocol": LOW}, 0, v, o)
        for s, d in ((25.0, "batch"), (50.0, "global"))
        for b, v, o in ((0.5, 0.9, 0.5 + s / 250), (1.0, 0.895, 0.9))
    ]
    rows = frame(several)
    runs = [Run(method, seed=seed, **cell) for method, cell, seed, *_ in several]
    _, listed = levels.close_choices(runs, rows, label_fractions=[0.01, 1.0])
    assert listed.labels.tolist() == ["0.01", "1"] * 2 and "tau_min" not in listed and "head" not in listed
    assert listed.sigma.tolist() == ["25", "25", "50", "50"], "the largest difference first"
    assert listed.discriminator.tolist() == ["batch", "batch", "global", "global"]
    heads = [("standard", {"tau_alpha": t, "projector": "mlp", "projector_dim": 4}, 0, 0.9, t) for t in (0.1, 0.2)]
    _, listed = levels.close_choices([Run(m, seed=n, **cell) for m, cell, n, *_ in heads], frame(heads))
    assert listed["head"].tolist() == ["mlp 4"] and listed.selected.tolist() == ["0.1"]


def test_lines_along_the_temperature_are_means_over_tau_beta_of_each_seed_and_level():
    values = {
        (LOW, 0.5): [0.8, 0.6, 0.4],
        (LOW, 1.0): [0.4, 0.5],
        (HIGH, 0.5): [0.9],
        (HIGH, 1.0): [0.7],
        (HIGH, 0.1): [0.1],
    }
    rows = frame(
        [
            of("dw_pairs", protocol, seed, value, tau_beta=beta)
            for (protocol, beta), seeds in values.items()
            for seed, value in enumerate(seeds)
        ]
        + [of("standard", LOW, 0, 0.99)]
    )
    runs = [run for run in REGISTRY["model_selection"].runs("core") if run.key in set(rows.key)]
    lines = levels.along_temperature(runs, rows, ["test_id"], [0.5, 1.0], 0.01)
    found = lines.set_index(["level", "seed"]).test_id.to_dict()
    assert found == pytest.approx({(0.01, 0): 0.6, (0.01, 1): 0.55, (0.05, 0): 0.8}), "the third seed lacks a cell"
    told = levels.along_temperature_in_paper(reported.temperature_tables(), [0.5, 1.0], [0.1])
    pairs = told[(told.method == "dw_pairs") & (told.metric == "test_id")]
    assert pairs.value.tolist() == pytest.approx([(0.933 + 0.931) / 2]) and pairs.level.isna().all()
    figure = figures.curves(lines, told, "tau_alpha", ["test_id"], figures.level_style, by=["method", "level"])
    assert [line.get_linestyle() for line in figure.axes[0].lines[:2]] == ["-", "--"]
    nothing = levels.along_temperature(runs, rows[:0], ["test_id"], [0.5, 1.0], 0.01)
    assert nothing.empty and list(nothing) == list(lines)


@pytest.mark.parametrize("name", [name for name, e in REGISTRY.items() if e.parts and name not in WITHOUT_LEVEL])
def test_every_chapter_whose_runs_may_have_several_levels_takes_one(name):
    runs = REGISTRY[name].runs("core")
    source = "\n".join(c.source for c in nbformat.read(ROOT / f"book/{name}.ipynb", as_version=4).cells)
    takes = "\nlevel: float = 0.01" in source
    assert takes or not any(run.method in PROPOSED for run in runs)
    assert takes == ("level" in source[source.index(" Study(") :].partition(")\n")[0])
