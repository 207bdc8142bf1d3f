"""What chapters say was found is what the stored rows say; a sentence that they no longer bear is named here."""

import dataclasses
import re
from pathlib import Path

import nbformat
import pandas as pd
import pytest

from dtcl_core.config import Protocol
from dtcl_core.experiments import REGISTRY
from dtcl_core.report import benchmarked, findings, notebook
from dtcl_core.report.findings import FINDINGS, PAGES, Finding, Rows

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("chapter", FINDINGS)
def test_the_rows_bear_what_a_chapter_says(chapter):
    rows = findings.load(chapter)
    assert not rows.missing, f"{chapter} says what was found before all its runs are there"
    assert FINDINGS[chapter].sentence(rows)  # names the sentence if the rows do not bear it


@pytest.mark.parametrize("chapter", FINDINGS)
def test_no_measured_number_is_typed(chapter):
    words = re.sub(r"\{[^}]*\}", "", FINDINGS[chapter].text)
    assert not re.search(r"\d\.\d", words)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", FINDINGS[chapter].date)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_without_runs_of_its_own_opens_with_what_its_files_say(page):
    assert findings.said(page).text.startswith(f"**Found, {PAGES[page].date}:** ")
    assert not re.search(r"\d", re.sub(r"\{[^}]*\}", "", PAGES[page].text)), "a number is typed"
    text = next(path for path in (ROOT / f"book/{page}.md", ROOT / f"book/{page}.ipynb") if path.exists()).read_text()
    assert f'findings.said("{page}")' in text.replace("\\", "")


def test_a_page_does_not_say_what_its_files_no_longer_bear(monkeypatch):
    fuzz = benchmarked.load("fuzz")
    load = benchmarked.load
    monkeypatch.setattr(benchmarked, "load", lambda name: fuzz.assign(silent=1) if name == "fuzz" else load(name))
    with pytest.raises(ValueError, match="no longer true"):
        findings.said("trust")


def worse(rows, change):
    return dataclasses.replace(rows, measured=rows.measured.assign(**change(rows.measured)))


def proposed(frame):
    return frame.method.isin(findings.METHODS)


def raised_keys():
    runs = REGISTRY["weight_choices"].runs("first")
    return {run.key for run in runs if run.protocol.tau_min > Protocol().tau_min}


@pytest.mark.parametrize(
    ("chapter", "change"),
    [
        ("main_table", lambda f: {"test_id": f.test_id.mask(proposed(f), 0.99)}),
        ("label_fractions", lambda f: {"test_id": f.test_id.mask(proposed(f) & (f.label_fraction == 1.0), 0.999)}),
        ("temperature", lambda f: {"test_id": f.test_id.mask(f.tau_alpha > 0.1, 0.99)}),
        ("model_selection", lambda f: {"test_ood": f.test_ood.mask(proposed(f), 0.95)}),
        ("weight_choices", lambda f: {"test_id": f.test_id.mask(f.key.isin(raised_keys()), 0.5)}),
        ("encoders", lambda f: {"test_ood": 1.4 - 0.9 * f.d_test_id}),
    ],
)
def test_a_sentence_that_rows_contradict_is_named(chapter, change):
    rows = worse(findings.load(chapter), change)
    with pytest.raises(ValueError, match="no longer true of the rows") as error:
        FINDINGS[chapter].sentence(rows)
    assert FINDINGS[chapter].text.partition("{")[0] in str(error.value)


def test_a_page_shows_no_sentence_that_is_no_longer_true(capsys, monkeypatch):
    rows = findings.load("main_table")
    monkeypatch.setitem(
        FINDINGS, "main_table", Finding("2026-01-01", "all is {x}", lambda _: {"x": 1}, lambda n: n["x"] > 1)
    )
    findings.show("main_table", rows.runs, rows.measured)
    told = capsys.readouterr().out
    assert "no longer holds" in told and "all is" not in told


def test_missing_runs_are_all_that_is_said_of_them(capsys):
    runs, measured = notebook.obtain("main_table", "first", False, "auto")
    some = measured[measured.key != runs[0].key]
    findings.show("main_table", runs, some)
    assert capsys.readouterr().out == f"not yet run: 1 of {len(runs)}\n"


def test_a_finding_about_a_part_waits_for_that_part_alone(capsys):
    runs, measured = notebook.obtain("weight_choices", "first", False, "auto")
    part = findings.load("weight_choices")
    measured = measured[measured.key.isin(part.measured.key)]
    findings.show("weight_choices", runs, measured)
    told = capsys.readouterr().out
    assert told.startswith(f"not yet run: {len(runs) - len(part.runs)} of {len(runs)}\n") and "Found, " in told
    findings.show("weight_choices", runs, measured[measured.key != part.runs[0].key])
    assert "Found" not in capsys.readouterr().out


def test_other_runs_than_those_it_is_about_get_no_sentence(capsys):
    runs, measured = notebook.obtain("main_table", "first", False, "auto", seeds=3)
    findings.show("main_table", runs, measured)
    assert capsys.readouterr().out == ""


def test_a_finding_is_markdown_on_a_page_and_plain_in_text():
    sentence = findings.Sentence("**Found:** more")
    assert repr(sentence) == "**Found:** more" and sentence._repr_markdown_() == "> **Found:** more"


@pytest.mark.parametrize("chapter", sorted(set(REGISTRY) - {"claims", "sensitivity"}))
def test_every_results_chapter_opens_with_its_finding(chapter):
    cells = nbformat.read(ROOT / f"book/{chapter}.ipynb", as_version=4).cells
    cells = [cell for cell in cells if "install" not in cell.metadata.get("tags", [])]
    assert cells[0].source.startswith("# ") and "\n" not in cells[0].source
    assert f'study = Study("{chapter}", ' in cells[2].source and cells[3].source == "study.found()"
    assert cells[4].cell_type == "markdown"


def test_rows_know_what_is_missing():
    runs, measured = notebook.obtain("main_table", "first", False, "auto")
    assert (
        Rows(runs, measured).missing == ""
        and Rows(runs, pd.DataFrame({"key": []})).missing == f"not yet run: {len(runs)} of {len(runs)}"
    )


def test_the_introduction_says_whose_rows_it_shows():
    """Its findings are of the first reading, and so says its text; when they are of another, it is time to rewrite both."""
    text = (ROOT / "book/intro.md").read_text()
    shown = "These pages show the first reading." in text
    assert shown == ('findings.said("taken")' in text) == (findings.PRESET == "first")


def lines_of_heads(change=None):
    """What `heads.probed` says of the chapter's runs, after a change of it."""
    lines = findings.heads.probed(REGISTRY["heads_and_temperatures"].runs("core"), findings.default_store("core"))
    return lines if change is None else lines.assign(**change(lines))


CHANGED_HEADS = {
    "negatives lead without a head": lambda f: {
        "test_id": f.test_id.mask((f.method == "dw_negatives") & (f["head"] == "none"), 0.99)
    },
    "no lead behind a head": lambda f: {"test_id": f.test_id.mask(f["head"] != "none", 0.7)},
    "a method that knows no domain is as good": lambda f: {"test_id": f.test_id.mask(f.method == "macl", 0.95)},
    "heads hide nothing": lambda f: {"d_test_id": f.d_test_id.mask(f["head"] != "none", 0.9)},
    "the unseen colour is told": lambda f: {"test_ood": f.test_ood.mask(f.method == "dw_pairs", 0.99)},
}


@pytest.mark.parametrize("change", CHANGED_HEADS.values(), ids=CHANGED_HEADS)
def test_what_is_said_of_heads_and_temperatures_hangs_on_each_of_its_parts(change):
    holds = FINDINGS["heads_and_temperatures"].holds
    assert holds(findings.is_it_the_domain(lines_of_heads()))
    assert not holds(findings.is_it_the_domain(lines_of_heads(change)))


def test_a_lead_under_the_reading_since_taken_is_said_only_while_there_is_one():
    bare = lines_of_heads()[lambda f: f["head"] == "none"]
    holds = FINDINGS["taken"].holds
    assert holds(findings.adaptive_of(bare))
    assert not holds(findings.adaptive_of(bare.assign(test_id=bare.test_id.mask(bare.method == "standard", 0.95))))
    assert not holds(findings.adaptive_of(bare.assign(test_id=0.9 + 0.01 * bare.seed)))


def test_a_finding_can_be_shown_by_itself():
    assert findings.said("lead").text == FINDINGS["lead"].sentence(findings.load("lead"))
