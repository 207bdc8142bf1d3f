"""The tables of the chapter on choices about the weight, from made-up effects."""

import pandas as pd
import pytest

from dtcl_core.experiments import REGISTRY
from dtcl_core.experiments.weight_choices import CHOICES, PAPER_CELLS
from dtcl_core.report import weight_tables

RUNS = REGISTRY["weight_choices"].runs("first")


@pytest.fixture
def effects():
    lines = []
    for place, group in enumerate(PAPER_CELLS):
        for moved, variation in ((0.0, "default"), (0.1, "tau_min 0.05")):
            line = {"variation": variation, "group": group, "cell": "0.175/1", "metric": "test_id", "mean": 0.8 + moved}
            line |= {"n": 5, "moved": moved, "moved_low": moved - 0.02, "moved_high": moved + 0.02, "moved_n": 5}
            for name, n in (("same_domain", 5), ("standard", 4 - 4 * place)):
                nothing = float("nan")
                parts = (0.1, 0.0, 0.2) if n else (nothing,) * 3
                line |= dict(zip((name, f"{name}_low", f"{name}_high", f"{name}_n"), (*parts, n)))
            lines.append(line)
    return pd.DataFrame(lines)


def test_differences_carry_titles_their_reach_and_fewer_seeds(effects):
    table = weight_tables.moved(effects, "test_id")
    assert list(table.columns) == [
        "method", "choice", "measured", "less the default", "less Same Domain Negatives", "less Standard CL", "n",
    ]  # fmt: skip
    assert table.method.tolist() == ["Domain-Weighted Negatives"] * 2 + ["Domain-Weighted Pairs"] * 2
    assert table["less the default"].tolist() == ["0.000 ±0.020", "0.100 ±0.020"] * 2
    assert table["less Same Domain Negatives"].tolist() == ["0.100 ±0.100"] * 4, "as many seeds need not be told"
    assert table["less Standard CL"].tolist() == ["0.100 ±0.100 (n = 4)"] * 2 + ["-"] * 2
    assert weight_tables.moved(effects, "test_ood").empty


def test_choices_say_what_they_set_what_was_run_and_what_is_asked_elsewhere(effects, tmp_path, monkeypatch):
    monkeypatch.setenv("DTCL_RESULTS", str(tmp_path))
    one = [run for run in RUNS if run.method == "dw_pairs"][:1]
    measured = pd.DataFrame({"key": [run.key for run in one]})
    table = weight_tables.choices(effects, RUNS, measured).set_index("choice")
    assert list(table.index) == list(CHOICES)
    assert table.loc["default", "sets"] == weight_tables.UNCHANGED
    assert table.loc["tau_min 0.05", "sets"] == "tau_min = 0.05 instead of 0.01"
    assert table.loc["default", "Domain-Weighted Pairs"] == "0.175/1 (n = 5)"
    assert table.loc["l2 of 100", "Domain-Weighted Pairs"] == "–"
    assert (table.loc["default", "runs"], table.loc["l2 of 100", "runs"]) == ("1 of 30", "not asked")
    assert table.loc["l2 of 100", "in preset core"] == "0 of 20"
    assert (
        weight_tables.counted("first", RUNS, measured) == f"Preset first: 1 of {len(RUNS)} runs exist, of 400 epochs."
    )


def test_what_no_choice_varies_is_listed_with_its_value(effects):
    table = weight_tables.not_varied(effects).set_index("field").value
    assert "tau_min" not in table.index and table["discriminator_l2"] == "1.0"
    fewer = weight_tables.not_varied(effects[effects.variation == "default"]).set_index("field").value
    assert set(fewer.index) - set(table.index) == {"tau_min"}


def test_a_cell_off_the_floor_is_shown_of_both_methods(tmp_path, capsys):
    keys = [run.key for run in RUNS if run.method in PAPER_CELLS]
    by = {run.key: run for run in RUNS}
    rows = pd.DataFrame({"key": keys}).assign(label_fraction=0.01, status="ok")
    for name in ("seed", "tau_alpha", "tau_beta"):
        rows[name] = [getattr(by[key], name) for key in keys]
    weight_tables.show_off_floor(RUNS, rows.assign(test_ood=rows.tau_alpha), ["test_ood"])
    printed = capsys.readouterr().out
    for title in weight_tables.TITLES.values():
        assert f"{title}, 400 epochs" in printed and f"{title}: what the cell off the floor has more than" in printed
    assert "0.050 ±0.000" in printed and "-0.050 ±0.000" in printed, "0.125 less 0.075, and less 0.175"
    weight_tables.show_off_floor(RUNS, rows.assign(test_ood=1.0).iloc[:0], ["test_ood"])
    assert capsys.readouterr().out.count("No runs yet") == 2
