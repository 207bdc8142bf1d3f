"""What the chapter on how we read the paper shows, on the committed rows."""

import re
from types import SimpleNamespace

import pandas as pd
import pytest

from dtcl_core.analysis import calibration
from dtcl_core.report import calibrated
from dtcl_core.report.calibrated import Readings
from dtcl_core.report.study import Study


@pytest.fixture(scope="module")
def found():
    return Readings(Study("calibration", "core"))


def test_the_table_and_the_independent_sum_agree(found):
    told = found.summed_again()
    assert told.endswith("As in the table.")
    for line in found.compared().itertuples():
        assert f"{line.candidate} {line.misfit:.3f}" in told


def test_a_misfit_that_the_independent_sum_does_not_find_is_said(found, monkeypatch):
    wrong = found.choice.summary.assign(misfit=found.choice.summary.misfit + 0.01)
    monkeypatch.setitem(found.choice.__dict__, "summary", wrong)
    assert found.summed_again().endswith("The table has others.")


def test_groups_of_anchors_have_the_titles_of_methods(found):
    columns = set(found.compared().columns)
    assert {"Standard CL", "Standard CL w/ Color Jitter"} <= columns and not {"oracle", "standard"} & columns


def test_reported_numbers_inside_are_counted_with_their_seeds(found):
    inside = found.prediction().inside
    assert found.inside().startswith(f"{inside.sum()} of {len(inside)} reported") and "(n = 6 seeds)." in found.inside()


def test_every_reading_of_the_figure_has_its_seeds_below(found):
    told = " ".join(found.seeds().split())
    names = [name for part in re.split(r"n = \d+: ", told) for name in part.strip().split("; ") if name]
    assert sorted(names) == sorted(found.every) and len(names) == len(calibration.CANDIDATES)
    assert "dropout 0.1" in told.split("n = 2")[0]


def test_a_choice_of_features_is_a_convention_unless_it_moves_more_than_seeds(found):
    (taken,) = (c for c in calibration.CANDIDATES if c.name == found.choice.taken)
    table = calibration.adversary_features(taken, found.rows, found.sized)
    assert found.adversary_spread(taken, table).endswith("a convention, no difference shown.")
    far = table.assign(validation=[0.95, 0.45])
    told = found.adversary_spread(taken, far)
    assert "differ by 0.500" in told and told.endswith("more than seeds do.")


def test_nothing_is_drawn_or_said_while_there_is_nothing_to_compare(capsys):
    none = Readings.__new__(Readings)
    none.choice = calibration.Choice(pd.Series(dtype=float), {}, 2, False)
    none.rows, none.every, none.sized = {}, {}, calibration.FIRST
    assert none.figure() is None and none.prediction().empty and none.inside() == "" and none.seeds() == ""
    assert none.single_draws().empty and none.summed_again() == "No runs yet."
    none.adversary()
    assert capsys.readouterr().out.strip() == calibrated.NOTHING


def test_fewer_seeds_than_the_rule_asks_for_settle_nothing(found):
    first = sorted({run.seed for run in found.study.runs})[:2]
    runs = [run for run in found.study.runs if run.seed in first]
    two = Readings(SimpleNamespace(runs=runs, measured=found.study.measured, preset="core", options={"seeds": 2}))
    assert two.choice.seeds == 2 and not two.choice.settled
    assert "nothing is settled" in " ".join(two.standing().split()) and "The two smallest" not in two.standing()
    runs = [run for run in found.study.runs if run.seed == first[0]]
    one = Readings(SimpleNamespace(runs=runs, measured=found.study.measured, preset="core", options={"seeds": 1}))
    assert one.figure() is None and one.compared().empty and len(one.on_one_seed()) == len(calibration.CANDIDATES)
    assert "0 are compared here" in one.standing()
