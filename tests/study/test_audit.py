"""Stored rows are retrained and compared: identical where they must be, in distribution elsewhere."""

import json
from pathlib import Path

import pandas as pd
import pytest
import torch

from dtcl_core.config import METRICS, Protocol, Run
from dtcl_core.launch import local
from dtcl_core.methods import METHODS
from dtcl_core.results import Store, digest, shard_name
from dtcl_study import audit, cli
from dtcl_study.experiments import FIFTH

SHORT = Protocol(epochs=1, **FIFTH)
RUNS = [Run(protocol=SHORT), Run("dw_pairs", 0.175, 1.0, protocol=SHORT)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("audited"))
    local.compute(RUNS, store, "cpu", quiet=True)
    return store


def changed(store, path, change):
    """A copy of a store with each of its rows changed."""
    (shard,) = store.rows_path.glob("*.jsonl")
    rows = [json.loads(line) for line in shard.read_text().splitlines()]
    (path / "rows").mkdir(parents=True)
    text = "".join(json.dumps({**row, "digest": digest(row)}) + "\n" for row in change(rows))
    (path / "rows" / shard_name(text)).write_text(text)
    return Store(path)


def test_a_row_is_made_again_bit_for_bit_with_its_stack(trained):
    found = audit.audit(trained, 1, "cpu", quiet=True)
    assert set(found.key) == {run.key for run in RUNS}, "the whole stack is compared"
    assert found.identical.all() and (found.expected == "identical").all()
    assert audit.verdict(found) == (audit.PASSED, ["2 of 2 rows came out identical, bit for bit."])


def test_a_bent_number_is_found(trained, tmp_path, capsys):
    def bend(rows):
        rows[0]["metrics"]["0.01"]["test_ood"] += 1e-3
        rows[0]["draws"]["0.01"]["test_ood"] = [each + 1e-3 for each in rows[0]["draws"]["0.01"]["test_ood"]]
        return rows

    store = changed(trained, tmp_path, bend)
    status = cli.main(["audit", "--device", "cpu", "--results", str(store.path)])
    printed = capsys.readouterr().out
    assert status == 1 and "should have been identical and was not" in printed and "The audit FAILED." in printed


def test_a_row_without_the_others_of_its_stack_need_not_be_identical(trained, tmp_path):
    found = audit.audit(changed(trained, tmp_path, lambda rows: rows[:1]), 1, "cpu", quiet=True)
    assert list(found.expected) == ["other stack"] and found[list(METRICS)].abs().max().max() < 0.1


def test_rows_of_other_code_are_told_apart(trained, tmp_path):
    def age(rows):
        for row in rows:
            row["provenance"]["sources"] = "older"
            del row["provenance"]["threads"]
        return rows

    found = audit.audit(changed(trained, tmp_path, age), 1, "cpu", quiet=True)
    assert set(found.expected) == {"other sources, threads"} and found.identical.all()


def lines(differences, expected="other device", a_seed=1):
    """An audit of one row per difference, so many rows a seed."""
    made = [
        {"key": str(i), "run": "r", "seed": i // a_seed, "expected": expected, "identical": d == 0}
        for i, d in enumerate(differences)
    ]
    return pd.DataFrame(made).assign(**{m: differences for m in METRICS})


@pytest.mark.parametrize(
    ("found", "outcome", "says"),
    [
        (lines([0.01, 0.011, 0.012, 0.01, 0.011]), audit.PASSED, "over 5 seeds: they agree"),
        (lines([0.01, -0.01, 0.0, 0.0] * 3, a_seed=4), audit.PASSED, "over 3 seeds: they agree"),
        (lines([0.2, -0.2, 0.1, -0.15, 0.05]), audit.UNDECIDED, "cannot be told from more than 0.02"),
        (lines([0.15, 0.3, 0.02, 0.2, 0.1]), audit.UNDECIDED, "cannot be told"),
        (lines([0.15, 0.4, -0.1, 0.2, 0.1]), audit.UNDECIDED, "cannot be told"),
        (lines([0.01, 0.02, 0.02, 0.025]), audit.UNDECIDED, "cannot be told"),
        (lines([0.2, 0.21, 0.22, 0.2, 0.21]), audit.FAILED, "do not agree"),
        (lines([0.3, 0.3]), audit.UNDECIDED, "too few"),
        (lines([0.3] * 12, a_seed=6), audit.UNDECIDED, "of fewer than 3 seeds"),
        (lines([0.0, 0.0]), audit.PASSED, "2 of 2 rows came out identical"),
        (lines([0.001], expected="identical"), audit.FAILED, "should have been identical"),
        (lines([float("nan")] * 5), audit.FAILED, "diverged in one of the two trainings: 0, 1"),
    ],
)
def test_the_rule(found, outcome, says):
    came, said = audit.verdict(found)
    assert came == outcome and says in " ".join(said) and "nan" not in " ".join(said)


def test_rows_that_must_be_identical_are_picked_by_themselves(trained, tmp_path, capsys):
    assert len(audit.audit(trained, 9, "cpu", exact=True, quiet=True)) == len(RUNS)
    for place in ("less", "sources", "torch", "threads"):
        store = changed(
            trained,
            tmp_path / place,
            lambda rows: rows[:1] if place == "less" else [made_by_other(place, row) for row in rows],
        )
        with pytest.raises(ValueError, match="has no whole stack made by this code, on such a machine"):
            audit.audit(store, 1, "cpu", exact=True, quiet=True)
    assert cli.main(["audit", "--exact", "--device", "cpu", "--results", str(tmp_path / "torch")]) == 2
    assert "no whole stack made by this code" in capsys.readouterr().err


def made_by_other(what, row):
    return {**row, "provenance": {**row["provenance"], what: 99 if what == "threads" else "0" * 12}}


def test_an_empty_store_has_nothing_to_audit(tmp_path, capsys):
    assert cli.main(["audit", "--results", str(tmp_path)]) == 2
    assert "has no finished row to audit" in capsys.readouterr().err


GOLDEN = Store(Path(__file__).resolve().parents[1] / "golden" / "store")


def test_committed_rows_are_made_again():
    """One epoch of each method, by `local.compute` at f941df4, so that later code is held against it; made anew only if numbers shall change."""
    stored = [*GOLDEN.rows().values()]
    found = audit.retrained([stored], torch.device("cpu"), quiet=True)
    assert {row["run"]["method"] for row in stored} == {*METHODS} and len(found) == len(METHODS)
    here = found[found.expected.isin(["identical", "other sources"])]
    assert here.identical.all(), "other code has changed the numbers of the same machine"
    # On another machine one epoch leaves rounding little time to grow.
    assert found[list(METRICS)].abs().max(axis=None) < 0.015
    different = {what for told in found.expected for what in told.removeprefix("other ").split(", ")} - {"identical"}
    assert different <= {"sources", "device name", "instructions", "trunk", "torch"}, "rows of the same seven runs and threads"
