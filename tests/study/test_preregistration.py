"""What is compared and concluded was written down first: at the commit that trained a fresh row, and unchanged since."""

import re
import subprocess
from pathlib import Path

import by_the_words
import pytest

import dtcl_study
from dtcl_core.results import Store
from dtcl_study.experiments import BASELINES, FIRST_FRESH_SEED, PROPOSED, REGISTRY, frozen
from dtcl_study.selection import select
from dtcl_study.study import Study

ROOT = Path(dtcl_study.__file__).resolve().parent.parent
WRITTEN, SECOND = ("PREREGISTRATION.md", "tests/study/by_the_words.py"), "PREREGISTRATION_DROPOUT.md"


def git(*arguments):
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)


def text_at(commit, name):
    """A file as it was at a commit; None if it was not there."""
    found = git("show", f"{commit}:{name}")
    return found.stdout if found.returncode == 0 else None


@pytest.fixture(autouse=True)
def whole_history():
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("needs the whole history")


def test_fresh_rows_are_younger_than_what_they_are_judged_by():
    rows = Store(ROOT / "results").rows()
    selection = {  # the file that a frozen configuration stands in
        (c["method"], c["sigma"], c.get("discriminator")): f"dtcl_study/frozen/{chosen['name']}.json"
        for chosen in frozen()
        for c in chosen["configurations"]
    }
    fresh = {run.key: selection[run.method, run.sigma, run.discriminator] for run in REGISTRY["fresh"].runs("paper")}
    trained, devices = set(), {}
    for key, row in rows.items():
        run, told = row["run"], row["provenance"]
        if run["seed"] >= FIRST_FRESH_SEED:
            trained |= {(told["commit"], name) for name in (*WRITTEN, fresh.get(key, WRITTEN[0]))}
            devices.setdefault((run["sigma"], run["seed"]), set()).add(told["device"])
        assert told["precision"] == "float32", f"{key}: all are in float32"
    for commit, name in trained:
        assert commit and not commit.endswith("+"), "trained with code that is not committed"
        assert text_at(commit, name) == (ROOT / name).read_text(), f"{name} was otherwise at {commit}"
    assert all(len(kinds) == 1 for kinds in devices.values()), "one kind of device trains all runs of a fresh seed"


# The written hash, with native code for AVX2 too: for AVX-512 it compiles to the same instructions (`book/trust.md`, Deviation).
FOR_AVX2_TOO = "c4bc2c62d935"


def test_the_grid_and_fresh_seeds_are_of_one_numeric_code():
    sources = {
        row["provenance"]["sources"] for row in Store(ROOT / "results").rows().values() if not 100 <= row["run"]["seed"] < 200
    }
    (written,) = re.findall(r"has the hash `(\w{12})`", (ROOT / WRITTEN[0]).read_text())
    assert {written} <= sources <= {written, FOR_AVX2_TOO}
    later = [r["provenance"] for r in Store(ROOT / "results").rows().values() if r["provenance"]["sources"] == FOR_AVX2_TOO]
    assert all(told["created"] > "2026-11-29T05:53" for told in later), "when that code was committed"


def test_what_is_frozen_is_what_the_committed_rows_select():
    rows = by_the_words.Rows(ROOT / "results")
    for one in (c for chosen in frozen() for c in chosen["configurations"]):
        numbers = (one["tau_alpha"], one.get("tau_beta"), one.get("lambda_"))
        again = by_the_words.selected(rows, one["method"], one["sigma"], one.get("discriminator", "global"))
        assert again[2:5] == numbers, f"{one} was frozen"


def test_the_second_study_is_younger_than_its_rule_and_its_selection():
    rows, frozen_later = Store(ROOT / "results").rows(), frozen("frozen_dropout")
    written = {"dropout_grid": [SECOND], "dropout_fresh": [SECOND, "dtcl_study/frozen_dropout/dropout.json"]}
    trained = {
        (rows[run.key]["provenance"]["commit"], name)
        for experiment, names in written.items()
        for run in REGISTRY[experiment].runs("paper")
        if run.key in rows
        for name in names
    }
    for commit, name in trained:
        assert text_at(commit, name) == (ROOT / name).read_text(), f"{name} was otherwise at {commit}"
    kinds = {rows[run.key]["provenance"]["device"] for run in REGISTRY["dropout_fresh"].runs("paper") if run.key in rows}
    assert len(kinds) < 2, "one kind of device trains all of its fresh seeds"
    by_seed = {}
    for run in REGISTRY["dropout_grid"].runs("paper"):
        if run.key in rows:
            by_seed.setdefault(run.seed, set()).add(rows[run.key]["provenance"]["device"])
    assert all(len(kinds) == 1 for kinds in by_seed.values()), "one kind of device trains a seed of its grid"
    for selection in frozen_later:
        study = Study("dropout_grid", "paper", quiet=True)
        assert selection["name"] == "dropout" and study.complete_seeds == 5
        again = {line["method"]: line for line in select(study.complete).to_dict("records")}
        found = {one["method"]: one for one in selection["configurations"]}
        assert again.keys() == found.keys() == {*BASELINES, *PROPOSED}
        assert all(again[m][name] == value for m, one in found.items() for name, value in one.items())


def test_a_file_that_was_not_there_or_was_otherwise_is_noticed():
    *_, first = git("log", "--format=%H", "--", WRITTEN[0]).stdout.split()
    assert text_at(f"{first}^", WRITTEN[0]) is None
    assert text_at(first, WRITTEN[0]) != text_at(first, "README.md")
