"""What the page on trust shows is what its files say, and a gap where nothing was measured is a line that says so."""

import numpy as np
import pandas as pd
import pytest
import torch

from dtcl_core.engine import provenance
from dtcl_core.report import benchmarked, notebook, trusted


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Writes a file of figures; those that a test does not write are missing."""
    monkeypatch.setattr(benchmarked, "FOLDER", tmp_path)
    return lambda name, lines: pd.DataFrame(lines).to_csv(tmp_path / f"{name}.csv", index=False)


def test_of_a_row_audited_twice_in_a_day_the_failure_counts(files):
    shared = {"epochs": 60, "sources": "a" * 12, "date": "2026-01-01", "largest": 0.0, "identical": True}
    failed = shared | {"key": "one", "identical": False, "largest": 0.0123}
    later = shared | {"key": "one", "date": "2026-01-02", "sources": "b" * 12}
    files("audits", [shared | {"key": "one"}, failed, shared | {"key": "two"}, later])
    table = trusted.stacks_again("b" * 12).set_index("date")
    assert table.loc["2026-01-01", ["rows", "identical", "largest", "code"]].tolist() == [2, 1, "1e-02", "a" * 12]
    assert table.loc["2026-01-02", ["rows", "identical", "largest", "code"]].tolist() == [1, 1, "0", trusted.NOW]


def test_what_was_not_tried_is_told_and_nothing_fails(files, capsys):
    now = provenance.SOURCES
    for table in (trusted.stacks_again(now), trusted.kills(now), trusted.damage(now), trusted.both_paths()):
        assert table.empty
        notebook.show(table)
    assert trusted.rows_elsewhere() == "not run yet" and trusted.paths_in_words() == "not yet run"
    assert trusted.determinism(now).condition.tolist() == [
        f"not measured: benchmarks/determinism.py {device}" for device in ("cpu", "cuda")
    ]
    assert trusted.rounding().arithmetic.tolist() == [
        f"not measured: benchmarks/rounding.py {device}" for device in ("cpu", "cuda")
    ]
    assert trusted.environments().python.tolist() == ["not tried yet"]


def test_of_kills_and_damage_only_the_code_as_it_is_now_is_shown_where_it_was_tried(files):
    lines = [{"kills": 100, "code": code, "torch": "2", "date": "d", "seed": 0} for code in ("old", "new")]
    files("faults", [line | {"resumed": n, "writes hit": 3} for line, n in zip(lines, (None, 94))])
    files("fuzz", [line | {"tries": 5, "silent": 0} for line in lines])
    assert trusted.kills("new").to_dict("records") == [
        {"kills": 100, "code": trusted.NOW, "resumed": "94", "writes hit": "3"}
    ]
    assert trusted.damage("new").code.tolist() == [trusted.NOW]
    assert trusted.damage("newer").code.tolist() == ["old", "new"]
    assert trusted.kills("newer").resumed.tolist() == ["-", "94"]


def test_differences_name_their_code_and_means_are_over_seeds(files):
    line = {"condition": "two threads", "epochs": 1, "runs": 6, "identical": 0, "embeddings": 0.42, "accuracy": 0.08}
    files("determinism_cuda", [line | {"sources": "now"}, line | {"sources": "old"}])
    table = trusted.determinism("now")
    assert table.device.tolist() == ["cpu", "cuda", "cuda"] and table.code.tolist() == ["-", trusted.NOW, "old"]
    assert table.iloc[1][["epochs", "runs", "identical", "embeddings"]].tolist() == ["1", "6", "0", "4e-01"]
    files("rounding_cpu", [{"arithmetic": "float32", "seed": s, "median": m, "worst": 4 * m} for s, m in ((0, 1e-3), (1, 3e-3))])  # fmt: skip
    assert trusted.rounding().iloc[0].tolist() == ["cpu", "float32", "2e-03", "8e-03", "2"]


def test_what_rows_lack_is_counted_and_a_missing_trunk_is_none():
    whole = dict.fromkeys([*provenance.ORIGIN, "commit"], "x")
    rows = [{"provenance": whole | {"trunk": None}}, {"provenance": whole | {"device_name": None}}]
    assert trusted.lacking(rows[:1], provenance.ORIGIN).values.tolist() == [["nothing", 1, 1]]
    del rows[0]["provenance"]["commit"]
    assert trusted.lacking(rows, provenance.ORIGIN).values.tolist() == [["commit", 1, 2], ["device name", 1, 2]]


def test_batch_norm_in_the_other_layout_rounds_a_hundred_times_less():
    before = torch.get_num_threads()
    table = trusted.batch_norm_error(sides=(14,))
    assert table["values a channel"].tolist() == [512 * 14 * 14] and torch.get_num_threads() == before
    last, first = table["channels last"][0], table["channels first"][0]
    assert 0 < first < 1e-6 and last > 20 * first, "PyTorch's batch norm on a CPU has changed: the page says otherwise"


def test_values_tried_are_read_from_the_tests(tmp_path):
    table = trusted.tries().set_index("what").tries
    assert table["a run"] > 100 and (table > 0).all() and len(table) >= 8
    (tmp_path / "other.py").write_text("OTHER = {'a': 1}\nEXAMPLES = {'a run': 7}\n")
    assert trusted.tries(tmp_path / "other.py").values.tolist() == [["a run", 7]]
    (tmp_path / "other.py").write_text("OTHER = {'a': 1}\n")
    with pytest.raises(ValueError, match="other.py sets no EXAMPLES"):
        trusted.tries(tmp_path / "other.py")


def test_stored_rows_are_counted_by_code(monkeypatch):
    columns = {"key": ["a", "a", "b", "c"], "device": "cpu", "precision": "float32", "torch": "2"}
    rows = pd.DataFrame(columns).assign(sources=["now", "now", "old", "old"])
    monkeypatch.setattr(trusted.results, "load", lambda: rows)
    table = trusted.stored("now")
    assert dict(zip(table.code, table.runs)) == {trusted.NOW: 1, "old": 2, f"1 with the code {trusted.NOW}": 3}


def test_the_machine_is_told_with_the_versions_of_packages():
    table = trusted.this_machine({"device_name": "X", "threads": None}).set_index("what").value
    assert table["device name"] == "X" and table["threads"] == "None" and table["numpy"] == np.__version__


def test_both_paths_show_the_largest_differences_first():
    table = trusted.both_paths(4)
    assert len(table) == 4 and table.difference.abs().is_monotonic_decreasing
    assert trusted.paths_in_words().count("\n") == 2
