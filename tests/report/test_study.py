"""What chapters show is what the library's functions compute of the same rows."""

import inspect

import nbformat
import pandas as pd
import pytest
from test_findings import ROOT

from dtcl_core.analysis import reported, selection
from dtcl_core.config import HYPERPARAMETERS, TAU_ALPHAS, TAU_BETAS
from dtcl_core.experiments import core
from dtcl_core.report import curves, levels, notebook, study, tables
from dtcl_core.report.study import Study, show_each


@pytest.fixture(scope="module")
def main():
    return Study("main_table", "first", level=0.01)


def test_a_study_has_the_rows_that_validation_selects(main):
    runs, measured = notebook.obtain("main_table", "first", False, "auto", level=0.01)
    assert main.runs == runs and main.measured.equals(measured)
    chosen = selection.rows_of(measured, selection.select(measured))
    assert main.selected(None).equals(chosen) and main.selected(0.1).equals(chosen[chosen.label_fraction == 0.1])
    assert set(main.selected().label_fraction) == {0.01} and len(main.selected()) < len(main.measured_at())
    other = selection.held_out(measured)
    assert main.held_out().equals(other[other.label_fraction == 0.01])


def test_a_chapter_says_which_level_it_shows(main, capsys):
    main.found()
    assert "with tau_min 0.01," in capsys.readouterr().out
    Study("projector_head", "smoke").found()
    assert "tau_min" not in capsys.readouterr().out


def test_fresh_seeds_are_those_of_the_selected_cells(main):
    runs, rows = main.fresh
    assert {run.method for run in runs} == set(main.chosen.method) and set(rows.key) <= {run.key for run in runs}
    assert not {run.seed for run in runs} & {run.seed for run in main.runs}


def test_only_reported_lines_of_asked_methods_are_shown():
    few = Study("main_table", "smoke", methods="standard,dann")
    assert set(few.reported(reported.main_comparison()).method) == {"standard", "dann"}


def test_every_level_has_the_options_that_were_given():
    few = Study("main_table", "core", level=0.05, methods="dw_pairs", seeds=1)
    every, _ = few.every_level
    assert levels.levels_of(every) == [0.01, 0.05] and {run.method for run in every} == {"dw_pairs"}
    assert set(few.runs) < set(every) and {run.seed for run in every} == {0}


def test_a_table_for_each_accuracy_has_its_name(capsys):
    show_each(["test_id", "d_test_id"], lambda metric: pd.DataFrame(), ", of nothing")
    assert capsys.readouterr().out == "Test-ID, of nothing\nNo runs yet.\nD-Test-ID, of nothing\nNo runs yet.\n"


def test_more_is_shown_right_under_the_table_it_bears_on(capsys):
    then = {"test_id": lambda: print("more")}
    show_each(["test_id", "d_test_id"], lambda metric: pd.DataFrame(), "", then=then)
    assert capsys.readouterr().out == "Test-ID\nNo runs yet.\nmore\nD-Test-ID\nNo runs yet.\n"


def test_close_choices_are_said_of_every_level_on_pages_that_show_one(capsys):
    shown = Study("main_table", "core", level=0.01)
    shown.close_choices(within=1.0, matters=0.0)
    said = capsys.readouterr().out
    _, listed = levels.close_choices(*shown.every_level, within=1.0, matters=0.0)
    assert {"0.01", "0.05", "–"} == {*listed.tau_min} and str(notebook.Shown(listed)) in said
    shown.close_choices(within=0.0)
    assert capsys.readouterr().out.strip() == levels.close_choices(*shown.every_level, within=0.0)[0]
    defaults = {name: p.default for name, p in inspect.signature(Study.close_choices).parameters.items()}
    assert defaults["within"] == 0.01 and defaults["matters"] == 0.03
    selecting = ["main_table", "label_fractions", "sigma_ablation", "temperature", "global_vs_batch", "projector_head"]
    for name in selecting:
        code = "\n".join(c.source for c in nbformat.read(ROOT / f"book/{name}.ipynb", as_version=4).cells)
        assert "study.close_choices" in code, name


def test_what_is_shown_on_fresh_seeds_is_counted_and_compared(capsys):
    shown = Study("main_table", "core", level=0.01, methods="standard,mmd")
    runs, rows = shown.fresh
    shown.on_fresh_seeds(shown.selected(), ["test_id"], 0.01)
    told = capsys.readouterr().out
    table = tables.again(shown.selected(), rows[rows.label_fraction == 0.01], "test_id")
    assert f"{rows.key.nunique()} of {len(runs)} fresh runs are stored." in told
    assert str(notebook.Shown(table, "Test-ID accuracy on fresh seeds", "test_id")) in told
    shown.extremes(["test_id"], 0.01)
    told = capsys.readouterr().out
    table = tables.extremes(rows[rows.label_fraction == 0.01], runs, "test_id")
    assert "Test-ID, the grid's seeds" in told and str(notebook.Shown(table, "Test-ID, fresh seeds")) in told


def test_differences_are_shown_at_each_share_of_labels(capsys):
    shown = Study("main_table", "core", level=0.01, methods="standard,mmd")
    rows = shown.selected(None)
    shown.differences(rows, ["test_id"])
    told = capsys.readouterr().out
    for share, name in ((0.01, "1%"), (0.1, "10%"), (1.0, "100%")):
        table = tables.differences(rows[rows.label_fraction == share], "test_id")
        title = f"Test-ID, {name} of labels, difference to Standard CL"
        assert str(notebook.Shown(table, title)) in told


def test_single_draws_are_those_of_the_study_s_rows(capsys):
    shown = Study("main_table", "core", level=0.01, methods="standard")
    shown.single_draws(["test_id"])
    stored = notebook.rows_of("core")
    drawn = selection.by_draw([stored[key] for key in shown.measured.key.unique()], ["test_id"])
    assert str(notebook.Shown(tables.single_draws(drawn, ["test_id"]))) in capsys.readouterr().out
    values = shown.measured_at().test_id
    assert shown.values("test_id").endswith(", ".join(f"{value:.3f}" for value in values))


def test_no_runs_show_no_numbers(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DTCL_RESULTS", str(tmp_path))
    empty = Study("main_table", "core", level=0.01)
    empty.single_draws(["test_id"])
    empty.on_fresh_seeds(empty.selected(), ["test_id"], 0.01)
    empty.close_choices()
    told = capsys.readouterr().out
    assert "one draw each" in told and "0 of 0 selections" in told and "accuracy on fresh seeds" not in told
    assert empty.values("test_id") == "Test-ID accuracy of each run: no runs yet"
    assert curves.of_levels(empty.at_levels(), reported.by_sigma(), ["test_id"]) is None
    assert curves.along_alpha(*empty.every_level, reported.temperature_tables(), ["test_id"]) is None
    assert curves.of_fresh_seeds(empty.fresh_at_levels(), reported.main_comparison(), ["test_id"]) is None
    curves.save(None, "nothing", str(tmp_path / "figures"))
    assert not (tmp_path / "figures").exists()


def test_curves_draw_a_line_a_level_a_discriminator_and_a_head():
    shown = Study("sigma_ablation", "core", level=0.01)
    figure = curves.of_levels(shown.at_levels(), reported.by_sigma(), ["test_id"])
    labels = figure.axes[0].get_legend_handles_labels()[1]
    titles = ("Domain-Weighted Negatives", "Domain-Weighted Pairs")
    assert labels == [f"{title}, tau_min {level:g}" for title in titles for level in (0.01, 0.05)]
    figure = curves.of_heads(Study("projector_head", "core").measured_at(0.1), ["test_id"])
    assert len(figure.axes[0].get_legend_handles_labels()[1]) == 7 and figure.axes[0].get_xscale() == "log"
    both = Study("global_vs_batch", "core", level=0.01)
    figure = curves.of_discriminators(both.selected(), reported.load("table_9_global_vs_batch"), ["test_id"])
    assert [line.get_linestyle() for line in figure.axes[0].lines if len(line.get_xdata()) == 5][:2] == ["--", "-"]
    figure = curves.along_alpha(*Study("temperature", "core", level=0.01).every_level, reported.temperature_tables(), ["test_id"])  # fmt: skip
    assert len(figure.axes[0].get_legend_handles_labels()[1]) == 4


def test_cells_above_the_line_are_counted():
    rows = pd.DataFrame(
        [("standard", 0.1, seed, value, "ok") for seed, value in enumerate((0.95, 0.91, 0.5))],
        columns=["method", "tau_alpha", "seed", "test_ood", "status"],
    )
    whole = Study("main_table", "first", level=0.01).measured.iloc[:0]
    table = tables.high_cells(whole, rows, reported.temperature_tables(), 50.0).set_index("method")
    assert table.loc["Standard CL"].tolist()[-2:] == [pytest.approx(2 / 3), 3]
    told = reported.temperature_tables().query("metric == 'test_ood' and sigma == 50 and method == 'dw_pairs'").value
    assert table.loc["Domain-Weighted Pairs"].tolist()[:2] == [pytest.approx((told > 0.9).mean()), len(told)]


def test_cells_of_the_paper_that_are_clipped_are_named():
    told = tables.clipped_in_paper(0.01, tables.selected_and_best_in_paper(reported.temperature_tables(), ["test_id"]))
    cells = len(TAU_ALPHAS) * len(TAU_BETAS)
    clipped = sum(alpha - beta / 2 < 0.01 for alpha in TAU_ALPHAS for beta in TAU_BETAS)
    assert f"{clipped} of the {cells} cells are clipped" in told and "0.075/0.5: clipped beyond" in told


def test_selections_that_differ_are_counted():
    table = pd.DataFrame(
        {"at 1 %": ["a", "b"], "here": ["a", "c"], "Test-ID at 1 %": [0.5, 0.5], "Test-ID here": [0.5, 0.75]}
    )
    told = tables.otherwise_selected(table, ["test_id"])
    assert told == "1 of 2 selections differ from that at 1 %.\nLargest change of a mean Test-ID accuracy: 0.250"
    assert tables.otherwise_selected(table[:0], ["test_id"]) == ""


def test_chapters_leave_selecting_and_confirming_to_the_study():
    for path in sorted((ROOT / "book").glob("*.ipynb")):
        code = "\n".join(c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code")
        if "Study(" in code:
            assert "selection.select(" not in code and "notebook.confirm(" not in code, path.stem
    assert study.Study.__doc__


def test_all_configurations_compete_on_the_seeds_that_all_have(tmp_path, monkeypatch):
    shown = Study("model_selection", "core", level=0.01)
    configuration = ["method", *HYPERPARAMETERS]
    asked = len(shown.measured[configuration].astype(object).drop_duplicates())
    by_seed = shown.measured.drop_duplicates("key").groupby("seed").size()
    assert set(core.SEARCH_SEEDS) <= set(shown.shared.seed) == set(by_seed.index[by_seed == asked]) < set(by_seed.index)
    table = shown.at_each_level(tables.selected_and_best, shared=True)
    assert (table.gap >= 0).all() and set(table.n) == {shown.shared.seed.nunique()}
    low = table[table.tau_min.isin(["–", "0.01"])]
    assert low.cells.sum() == asked and len(low) == 7 and len(table) == 9
    same = shown.shared[shown.shared.seed.isin(range(table.n.max()))]
    assert low.drop(columns="tau_min").reset_index(drop=True).equals(tables.selected_and_best(same))
    assert "tau_min" not in Study("temperature", "first", level=0.01).at_each_level(tables.selected_and_best)
    averages = shown.at_each_level(lambda rows: tables.grid_averages(rows, reported.main_comparison(), "test_id"))
    assert len(averages) == 9 and averages.cells.tolist() == table.cells.tolist()
    monkeypatch.setenv("DTCL_RESULTS", str(tmp_path))
    assert Study("temperature", "core", level=0.01).at_each_level(tables.selected_and_best).empty
