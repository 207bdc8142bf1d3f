"""The fuzzers in short, and that they would notice."""

import random

import fuzz
import pytest

from dtcl_core import results


def bad(found):
    return {what: dict(counts) for what, counts in found.items() if counts["silent"] or counts["failed"]}


def test_nothing_ends_silently_or_fails(tmp_path):
    found = fuzz.FUZZERS["files"](56, random.Random(100), tmp_path)
    assert not bad(found) and sum(counts.total() for counts in found.values()) == 56
    assert all(counts["named"] for counts in found.values()), "nothing was damaged"


@pytest.mark.parametrize("phase", [fuzz.kill_while_it_writes_networks, fuzz.kill_while_it_merges])
def test_a_kill_leaves_nothing_that_is_believed(phase, tmp_path):
    store, _ = fuzz.trained(tmp_path)
    more = [fuzz.stored(store)] if phase is fuzz.kill_while_it_merges else []
    for seed in range(5):
        assert phase(store, *more, random.Random(seed), tmp_path) in ("as before", "named")


def test_a_store_that_believes_everything_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "check_row", lambda row: None)
    monkeypatch.setattr(results, "check_digest", lambda entry, line="": None)
    found = fuzz.fuzz_files(84, random.Random(1), tmp_path)
    assert "rows" in bad(found)
