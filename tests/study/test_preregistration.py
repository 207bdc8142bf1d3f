"""What is compared and concluded was written down first: at the commit that trained a fresh row, and unchanged since."""

import subprocess
from pathlib import Path

import pytest

import dtcl_study
from dtcl_core.results import Store
from dtcl_study.experiments import REGISTRY, frozen

ROOT = Path(dtcl_study.__file__).resolve().parent.parent
WRITTEN = "PREREGISTRATION.md"


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
    fresh = [run for run in REGISTRY["fresh"].runs("paper") if run.key in rows]
    trained = {(rows[run.key]["provenance"]["commit"], selection[run.method, run.sigma, run.discriminator]) for run in fresh}
    assert len({rows[run.key]["provenance"]["sources"] for run in fresh}) <= 1, "fresh rows are of one numeric code"
    for commit, file in trained:
        assert not commit.endswith("+"), "trained with code that is not committed"
        for name in (WRITTEN, file):
            assert text_at(commit, name) == (ROOT / name).read_text(), f"{name} was otherwise at {commit}"


def test_a_file_that_was_not_there_or_was_otherwise_is_noticed():
    *_, first = git("log", "--format=%H", "--", WRITTEN).stdout.split()
    assert text_at(f"{first}^", WRITTEN) is None
    assert text_at(first, WRITTEN) != text_at(first, "README.md")
