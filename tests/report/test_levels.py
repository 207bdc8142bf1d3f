"""Levels of tau_min stand beside each other in what is shown, never in one line."""

from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from made_up_rows import frame

from dtcl_core.analysis import reported
from dtcl_core.config import Protocol
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
    assert table[["tau_min", "tau_beta", "n"]].values.tolist() == [[0.01, 0.5, 2], [0.05, 1.0, 2]]
    assert table.measured.tolist() == pytest.approx([0.75, 0.85]) and set(table.method) == {"Domain-Weighted Pairs"}
    assert levels.under_levels(runs, rows[:0], "test_id", 0.01).empty
    shown = levels.selected_at_levels(runs, rows).query("label_fraction == 0.01")
    cells = shown.groupby(["method", "level"], dropna=False).tau_beta.first().to_dict()
    assert cells.pop(("dw_pairs", 0.01)) == 0.5 and cells.pop(("dw_pairs", 0.05)) == 1.0
    assert [method for method, _ in cells] == ["standard"] and shown[shown.method == "standard"].level.isna().all()
    figure = figures.compare_methods(shown, reported.main_comparison().iloc[:0], ["test_id"])
    names = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert [name.partition("\n")[0] for name in names] == ["Standard CL", *["Domain-Weighted Pairs"] * 2]
    assert "0.01" in names[1] and "0.05" in names[2]
    drawn = [list(line.get_xdata()) for line in figure.axes[0].lines if len(line.get_xdata()) == 2]
    assert [0.8, 0.7] in drawn and [0.9, 0.8] in drawn and [0.6, 0.6] not in drawn


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
