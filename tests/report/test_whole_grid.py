"""What the chapter shows of the whole grid: its count, and a sentence where there is no table yet."""

import pytest
from made_up_rows import made_up

from dtcl_core.analysis import whole_grid as judged
from dtcl_core.experiments import REGISTRY, core
from dtcl_core.report import whole_grid

AHEAD = {"dann": (0.2, None, 5.0)}  # outside the strip


def cell_of(run):
    return run.tau_alpha, run.tau_beta, run.lambda_


def validated(run, ahead=AHEAD):
    return 0.9 if ahead.get(run.method) == cell_of(run) else 0.8 - 0.1 * run.tau_alpha


def shown(ahead=AHEAD, leave=lambda run: False):
    runs = REGISTRY["whole_grid"].runs("core", validation=lambda run: validated(run, ahead))
    made = made_up(runs, lambda run, metric: validated(run, ahead) + 0.01 * (run.seed % 3))
    made = made[~made.key.isin({run.key for run in runs if leave(run)})]
    cells = judged.cells(made, runs)
    return whole_grid.counted(cells), whole_grid.ahead(cells), whole_grid.fallen_short(made, runs, cells)


def test_all_of_it():
    said, best, rivals = shown()
    assert said == "190 of the paper's 190 configurations have a row on this seed."
    assert best.groupby("method").place.apply(list).tolist() == [["strip", "outside"]] * 7
    assert best[(best.method == "dann") & (best.place == "outside")].cell.tolist() == ["0.2/5"]
    assert set(rivals.method) == {"dann"} and rivals.n.eq(len(core.RIVAL_SEEDS)).all()


@pytest.mark.parametrize(
    "ahead, leave, said",
    [
        ({}, lambda run: False, "No cell outside a strip is ahead of those within (7 methods)."),
        (AHEAD, lambda run: run.seed in core.RIVAL_SEEDS, "Not yet trained on fresh seeds: CL with DANN."),
        (AHEAD, lambda run: run.tau_alpha == 1.0 or run.seed in core.FRESH, "No method's grid is whole yet."),
    ],
)
def test_a_sentence_where_there_is_no_table(ahead, leave, said):
    assert shown(ahead, leave)[2] == said


def test_methods_whose_grid_is_whole_are_named():
    said, best, _ = shown(leave=lambda run: run.method not in ("standard", "dann") and run.tau_alpha == 0.5)
    assert said.endswith("; all of Standard CL, CL with DANN.") and set(best.method) == {"standard", "dann"}
