"""What the chapter shows of the whole grid: its count, who is ahead, and a sentence where there is no table yet."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from made_up_rows import made_up

from dtcl_core.analysis import whole_grid as judged
from dtcl_core.experiments import REGISTRY, core
from dtcl_core.report.whole_grid import WholeGrid

AHEAD = {"dann": (0.2, None, 5.0)}  # outside the strip


def validated(run, ahead=AHEAD):
    return 0.9 if ahead.get(run.method) == (run.tau_alpha, run.tau_beta, run.lambda_) else 0.8 - 0.1 * run.tau_alpha


def grid(ahead=AHEAD, leave=lambda run: False):
    runs = REGISTRY["whole_grid"].runs("core", validation=lambda run: validated(run, ahead))
    made = made_up(runs, lambda run, metric: validated(run, ahead) + 0.01 * (run.seed % 3))
    rows = made[~made.key.isin({run.key for run in runs if leave(run)})]
    return WholeGrid(SimpleNamespace(runs=runs, measured=rows, every_level=(runs, rows)))


def test_all_of_it():
    found = grid()
    assert found.counted == "190 of the paper's 190 configurations have a row on this seed."
    assert found.ahead.groupby("method").place.apply(list).tolist() == [["strip", "outside"]] * 7
    line = found.ahead[(found.ahead.method == "dann") & (found.ahead.place == "outside")]
    assert line.cell.tolist() == ["0.2/5"] and line.test_id.tolist() == [0.9]
    rivals = found.rivals()
    assert set(rivals.method) == {"dann"} and rivals.n.eq(len(core.RIVAL_SEEDS)).all()


@pytest.mark.parametrize(
    "ahead, leave, said",
    [
        ({}, lambda run: False, "No cell outside a strip is ahead of those within (7 methods)."),
        (AHEAD, lambda run: run.seed in core.RIVAL_SEEDS, "Not yet trained on fresh seeds: CL with DANN."),
        (AHEAD, lambda run: run.tau_alpha == 1.0 or run.seed in core.FRESH, "No method's grid is whole yet."),
    ],
)
def test_a_sentence_where_there_is_no_table(ahead, leave, said, capsys):
    found = grid(ahead, leave)
    assert found.rivals() == said
    found.show_rivals()
    assert capsys.readouterr().out == f"{said}\n"


def test_methods_whose_grid_is_whole_are_named():
    found = grid(leave=lambda run: run.method not in ("standard", "dann") and run.tau_alpha == 0.5)
    assert found.counted.endswith("; all of Standard CL, CL with DANN.")
    assert set(found.ahead.method) == {"standard", "dann"}


def test_the_figure_has_a_dot_a_configuration_and_a_large_one_for_those_ahead():
    figure = grid().draw()
    points = [(len(dots.get_offsets()), dots.get_sizes()[0]) for dots in figure.axes[0].collections]
    assert sum(n for n, size in points if size == 18) == 190 and sum(n for n, size in points if size > 18) == 2 * 7
    hollow = [
        len(d.get_offsets())
        for d in figure.axes[0].collections
        if not len(d.get_facecolors()) and d.get_sizes()[0] == 18
    ]
    assert sum(hollow) == 190 - sum(len(core.strip(method)) for method in judged.METHODS)


def test_the_rematch_is_shown_once_it_has_rows(capsys):
    whole = grid()
    assert {level: set(found) for level, found in whole.rulings.items()} == {
        level: set(judged.REJUDGED) for level in core.TAU_MINS
    }
    leads = judged.rematched_leads(whole.rulings)
    assert len(leads) == 2 * 4 * 2 and leads.n.eq(10).all() and leads.lead.is_monotonic_increasing
    line = leads.set_index(["method", "over", "tau_min"]).loc[("dw_pairs", "dann", 0.01)]
    assert abs(line.lead - (0.8 - 0.1 * 0.05 - 0.9)) < 1e-9 and line.conjunct == "negative"
    whole.show_rematch()
    shown = capsys.readouterr().out
    assert "contradicted" in shown and "tried" not in shown and "CL with DANN" in shown
    grid(leave=lambda run: run.seed in core.REMATCH_SEEDS).show_rematch()
    assert capsys.readouterr().out == "Not judged yet: 0 of 80 runs have rows.\n"


def test_what_is_not_judged_says_why(capsys):
    last = core.UNSEEN_SEEDS[-1]
    whole = grid()
    whole.show_unseen()
    assert "Lead over Standard CL on Test-OOD" in capsys.readouterr().out
    grid(leave=lambda run: run.seed == last).show_unseen()
    assert capsys.readouterr().out == "Not judged yet: 58 of 60 runs have rows.\n"
    short = [replace(run, protocol=replace(run.protocol, epochs=2)) for run in whole.study.runs]
    rows = made_up(short, lambda run, metric: 0.8)
    for runs in (short, [run for run in short if run.seed < core.REMATCH_SEEDS.start]):
        part = WholeGrid(SimpleNamespace(runs=runs, measured=rows, every_level=(runs, rows)))
        part.show_rematch()
        part.show_unseen()
    said = capsys.readouterr().out.splitlines()
    assert said == [
        *["Runs of 2 epochs, not the paper's 400: nothing is judged."] * 2,
        *["Only the preset core has these runs, with its own seeds."] * 2,
    ]
