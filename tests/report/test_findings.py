"""What chapters say was found is what the stored rows say; a sentence that they no longer bear is named here."""

import dataclasses
import re
from pathlib import Path

import nbformat
import pandas as pd
import pytest

from dtcl_core import results
from dtcl_core.analysis import specifications
from dtcl_core.config import Protocol
from dtcl_core.experiments import REGISTRY
from dtcl_core.experiments.core import FRESH, FRESH_SEED, FRESH_SEEDS, UNSTATED
from dtcl_core.report import benchmarked, findings, heads, levels, notebook
from dtcl_core.report.findings import FINDINGS, PAGES, Finding, Rows, obtained
from dtcl_core.report.findings.comparisons import comparison
from dtcl_core.report.findings.finding import LEVELS, METHODS, PRESET
from dtcl_core.report.findings.others import OWN_FIRST_SEED, is_it_the_domain
from dtcl_core.results import default_store

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
    assert findings.said(page).text.startswith(f"**Found, {PAGES[page].date}: ")
    assert not re.search(r"\d", re.sub(r"\{[^}]*\}", "", PAGES[page].text)), "a number is typed"
    text = next(path for path in (ROOT / f"book/{page}.md", ROOT / f"book/{page}.ipynb") if path.exists()).read_text()
    assert f'findings.said("{page}")' in text.replace("\\", "")


def test_the_seeds_that_count_on_other_data_are_those_of_the_chapter():
    assert f"FIRST_SEED = {OWN_FIRST_SEED} " in (ROOT / "book/losses.ipynb").read_text()


def test_a_page_does_not_say_what_its_files_no_longer_bear(monkeypatch):
    fuzz = benchmarked.load("fuzz")
    load = benchmarked.load
    monkeypatch.setattr(benchmarked, "load", lambda name: fuzz.assign(silent=1) if name == "fuzz" else load(name))
    with pytest.raises(ValueError, match="no longer true"):
        findings.said("trust")


@pytest.mark.parametrize(
    "change",
    [
        lambda f: {"low": f.low.mask(f.against == "best baseline", -0.1)},
        lambda f: {"high": f.high.mask(f.against == "best baseline", 0.1)},
        lambda f: {"mean": 0.1},
        lambda f: {"low": f.low.mask(f.specification == "as in the claims; 400 epochs, sigma 50, fresh seeds", 0.01)},
    ],
    ids=["no clear lead", "no clear lag", "all lead", "a clear lead at the lower level"],
)
def test_what_is_said_of_all_comparisons_hangs_on_them(monkeypatch, change):
    rows = specifications.effects(results.load(), specifications.protocols(default_store("core").rows().values()))
    monkeypatch.setattr(specifications, "effects", lambda *_: rows.assign(**change(rows)))
    with pytest.raises(ValueError, match="no longer true"):
        findings.said("effects")


def worse(rows, change):
    return dataclasses.replace(rows, measured=rows.measured.assign(**change(rows.measured)))


def proposed(frame):
    return frame.method.isin(METHODS)


def raised_keys():
    runs = REGISTRY["weight_choices"].runs("first")
    return {run.key for run in runs if run.protocol.tau_min > Protocol().tau_min}


def changed_keys(choice):
    rows, changes = findings.load("questions"), UNSTATED[choice].items()
    return {run.key for run in rows.runs if all(getattr(run.protocol, name) == value for name, value in changes)}


def at_level(frame, name):
    """Which rows of the temperatures' chapter are of one level of tau_min."""
    runs, _ = obtained("temperature", PRESET, every=True)
    return frame.key.isin({run.key for run in levels.at_level(runs, LEVELS[name])})


CONTRADICTIONS = {
    "main_table: they lead at both levels": lambda f: {"test_id": f.test_id.mask(proposed(f), 0.99)},
    "main_table: they trail": lambda f: {"test_id": f.test_id.mask(proposed(f), 0.6)},
    "main_table: they lead on the unseen colour": lambda f: {"test_ood": f.test_ood.mask(proposed(f), 0.99)},
    "main_table: they hide the domain": lambda f: {"d_test_id": f.d_test_id.mask(proposed(f), 0.5)},
    "unseen: they trail": lambda f: {"test_ood": f.test_ood.mask(proposed(f), 0.1)},
    "unseen: seeds agree": lambda f: {"test_ood": 0.6 + f.seed % 2 * 0.001 * proposed(f)},
    "label_fractions: they lead with all labels": lambda f: {
        "test_id": f.test_id.mask(proposed(f) & (f.label_fraction == 1.0), 0.999)
    },
    "label_fractions: they do not lead with few": lambda f: {
        "test_id": f.test_id.mask(proposed(f) & (f.label_fraction == 0.01), 0.8)
    },
    "whole_grid: a rival is better": lambda f: {
        "test_id": f.test_id.mask((f.tau_alpha == 0.05) & (f.tau_beta == 0.25), 0.99)
    },
    "global_vs_batch: they are alike": lambda f: {"test_id": 0.9 + 0.001 * f.seed},
    "global_vs_batch: they differ by much": lambda f: {"test_id": f.test_id.mask(f.discriminator == "batch", 0.7)},
    "global_vs_batch: neither hides the domain": lambda f: {
        "d_test_id": f.d_test_id.mask(f.discriminator == "batch", 0.9)
    },
    "global_vs_batch: the unseen colour is told": lambda f: {
        "test_ood": f.test_ood.mask(f.discriminator == "batch", 0.2)
    },
    "projector_head: it does no harm": lambda f: {"test_id": 0.8 + 0.001 * f.seed},
    "projector_head: the unseen colour is told": lambda f: {"test_ood": f.test_ood.mask(f.projector.notna(), 0.2)},
    "projector_head: heads hide the domain": lambda f: {"d_test_id": f.d_test_id.mask(f.projector.notna(), 0.5)},
    "projector_head: it rises with the dimension": lambda f: {"d_test_id": 0.5 + 0.01 * f.projector_dim.fillna(0)},
    "spread: they do not lead where colours spread": lambda f: {
        "test_id": f.test_id.mask(proposed(f) & (f.sigma == 150.0), 0.8)
    },
    "sigma_ablation: they lead where colours do not spread": lambda f: {
        "test_id": f.test_id.mask(proposed(f) & (f.sigma == 0.0), 0.999)
    },
    "sigma_ablation: they do not lead where they do": lambda f: {
        "test_id": f.test_id.mask(proposed(f) & (f.sigma == 150.0), 0.8)
    },
    "temperature: low is bad at the lower level": lambda f: {
        "test_id": f.test_id.mask((f.tau_alpha > 0.2) & at_level(f, "low"), 0.99)
    },
    "temperature: low is best at the higher level": lambda f: {
        "test_id": f.test_id.mask((f.tau_alpha == 0.05) & at_level(f, "raised"), 0.99)
    },
    "temperature: it is alike": lambda f: {"test_id": f.test_id.mask(at_level(f, "low"), 0.9)},
    "model_selection: Test-OOD is as near": lambda f: {"test_ood": 0.8 * f.validation},
    "model_selection: Test-ID is not near": lambda f: {"test_id": f.test_ood},
    "model_selection: a run is high": lambda f: {
        "test_ood": f.test_ood.mask(f.key == f.key[(f.method == "dw_pairs") & (f.tau_beta == 1.0)].iloc[0], 0.95)
    },
    "model_selection: a baseline is ahead": lambda f: {"test_id": f.test_id.mask(f.method == "mmd", 0.99)},
    "model_selection: the coldest lead too": lambda f: {
        "test_ood": f.test_ood.mask((f.method == "dw_pairs") & (f.tau_alpha <= 0.1), 0.89)
    },
    "model_selection: seeds agree": lambda f: {"test_ood": 0.8 - f.tau_alpha},
    "adding_a_method: outside it hides nothing": lambda f: {
        "d_test_id": f.d_test_id.mask(f.method == "dw_outside", 0.9)
    },
    "adding_a_method: outside it hides more": lambda f: {"d_test_id": f.d_test_id.mask(f.method == "dw_outside", 0.4)},
    "adding_a_method: it helps outside": lambda f: {"test_id": f.test_id.mask(f.method == "dw_outside", 0.99)},
    "adding_a_method: it does not inside": lambda f: {"test_id": f.test_id.mask(f.method == "dw_negatives", 0.8)},
    "weight_choices: no rise": lambda f: {"test_id": f.test_id.mask(f.key.isin(raised_keys()), 0.5)},
    "questions: the gradient does nothing": lambda f: {
        "test_id": f.test_id.mask(f.key.isin(changed_keys("weight gradient")), 0.93)
    },
    "questions: a fit matters": lambda f: {"test_id": f.test_id.mask(f.key.isin(changed_keys("directions")), 0.7)},
    "encoders: hiding helps": lambda f: {"test_ood": 1.4 - 0.9 * f.d_test_id},
    "encoders: hiding does harm where it is seen": lambda f: {"test_id": f.d_test_id},
}


@pytest.mark.parametrize(
    ("chapter", "change"),
    [(name.partition(":")[0], change) for name, change in CONTRADICTIONS.items()],
    ids=CONTRADICTIONS,
)
def test_a_sentence_that_rows_contradict_is_named(chapter, change):
    rows = worse(findings.load(chapter), change)
    with pytest.raises(ValueError, match="no longer true of the rows") as error:
        FINDINGS[chapter].sentence(rows)
    assert FINDINGS[chapter].text.partition("{")[0].replace("\n", " ") in str(error.value)


def test_a_page_shows_no_sentence_that_is_no_longer_true(capsys, monkeypatch):
    rows = obtained("main_table", PRESET)
    monkeypatch.setitem(
        FINDINGS, "main_table", Finding("2026-01-01", "all is {x}", lambda _: {"x": 1}, lambda n: n["x"] > 1)
    )
    findings.show("main_table", *rows)
    told = capsys.readouterr().out
    assert "no longer holds" in told and "all is" not in told


def test_missing_runs_are_all_that_is_said_of_them(capsys):
    runs, measured = obtained("main_table", PRESET)
    some = measured[measured.key != runs[0].key]
    findings.show("main_table", runs, some)
    assert capsys.readouterr().out == f"not yet run: 1 of {len(runs)}\n"


def test_a_finding_about_a_part_waits_for_that_part_alone(capsys):
    runs, measured = notebook.obtain("temperature", PRESET, False, "auto", level=Protocol().tau_min)
    part = [run for run in runs if FINDINGS["temperature"].about(run)]
    measured = measured[measured.key.isin({run.key for run in part})]
    assert 0 < len(part) < len(runs)
    findings.show("temperature", runs, measured)
    told = capsys.readouterr().out
    assert told.startswith(f"not yet run: {len(runs) - len(part)} of {len(runs)}\n") and "Found, " in told
    findings.show("temperature", runs, measured[measured.key != part[0].key])
    assert "Found" not in capsys.readouterr().out


def test_other_runs_than_those_it_is_about_get_no_sentence(capsys):
    runs, measured = notebook.obtain("main_table", PRESET, False, "auto", level=Protocol().tau_min, seeds=1)
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
    assert chapter in FINDINGS


def test_rows_know_what_is_missing():
    runs, measured = notebook.obtain("main_table", "first", False, "auto")
    assert (
        Rows(runs, measured).missing == ""
        and Rows(runs, pd.DataFrame({"key": []})).missing == f"not yet run: {len(runs)} of {len(runs)}"
    )


def test_the_introduction_says_whose_rows_it_shows():
    text = (ROOT / "book/intro.md").read_text()
    assert re.search(rf"the preset\s+`{PRESET}`", text) and "under way" not in text
    assert f"the preset `{PRESET}`" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("chapter", sorted(REGISTRY))
def test_a_chapter_shows_the_runs_that_its_finding_is_about(chapter):
    code = [cell.source for cell in nbformat.read(ROOT / f"book/{chapter}.ipynb", as_version=4).cells]
    (shown,) = {found for source in code for found in re.findall(r'^preset: str = "(\w+)"', source, re.M)}
    finding = FINDINGS.get(chapter)
    assert shown == (("first" if chapter == "sensitivity" else PRESET) if finding is None else finding.preset)


def lines_of_heads(change=None):
    """What `heads.probed` says of the chapter's runs, after a change of it."""
    lines = heads.probed(REGISTRY["heads_and_temperatures"].runs("core"), default_store("core"))
    return lines if change is None else lines.assign(**change(lines))


CHANGED_HEADS = {
    "negatives lead without a head": lambda f: {
        "test_id": f.test_id.mask((f.method == "dw_negatives") & (f["head"] == "none"), 0.99)
    },
    "no lead behind a head": lambda f: {"test_id": f.test_id.mask(f["head"] != "none", 0.7)},
    "a method that knows no domain is as good": lambda f: {"test_id": f.test_id.mask(f.method == "macl", 0.95)},
    "they lead at the higher temperature too": lambda f: {"test_id": f.test_id.mask(f.tau_alpha == 0.15, 0.99)},
    "heads hide nothing": lambda f: {"d_test_id": f.d_test_id.mask(f["head"] != "none", 0.9)},
    "the unseen colour is told": lambda f: {"test_ood": f.test_ood.mask(f.method == "dw_pairs", 0.99)},
}


@pytest.mark.parametrize("change", CHANGED_HEADS.values(), ids=CHANGED_HEADS)
def test_what_is_said_of_heads_and_temperatures_hangs_on_each_of_its_parts(change):
    holds = FINDINGS["heads_and_temperatures"].holds
    assert holds(is_it_the_domain(lines_of_heads()))
    assert not holds(is_it_the_domain(lines_of_heads(change)))


def rows_of_two_levels(pairs, negatives, baseline=0.93, standard=0.88):
    """The main table's rows with other Test-ID: of the proposed methods by level, of the standard loss and another baseline.

    Seeds scatter by some thousandths around them, in each method otherwise; on the seeds that select all have 0.5.
    """
    rows = findings.load("lead")
    low = {run.key for run in levels.at_level(rows.runs, LEVELS["low"])}
    ours, others = {"dw_pairs": pairs, "dw_negatives": negatives}, {"standard": standard, "same_domain": baseline}
    measured = rows.measured
    methods = sorted(measured.method.unique())
    test_id = [
        (ours[method]["low" if key in low else "raised"] if method in ours else others.get(method, 0.8))
        + 0.003 * ((1 + methods.index(method) % 4) * seed % 5 - 2)
        if seed >= FRESH_SEED
        else 0.5
        for method, key, seed in zip(measured.method, measured.key, measured.seed)
    ]
    return dataclasses.replace(rows, measured=measured.assign(test_id=test_id))


@pytest.mark.parametrize(
    ("pairs", "negatives", "standard", "borne"),
    [
        ({"low": 0.932, "raised": 0.96}, {"low": 0.9, "raised": 0.937}, 0.88, True),
        ({"low": 0.96, "raised": 0.96}, {"low": 0.9, "raised": 0.937}, 0.88, False),
        ({"low": 0.932, "raised": 0.93}, {"low": 0.9, "raised": 0.937}, 0.88, False),
        ({"low": 0.932, "raised": 0.96}, {"low": 0.9, "raised": 0.93}, 0.88, False),
        ({"low": 0.932, "raised": 0.96}, {"low": 0.9, "raised": 0.96}, 0.88, False),
        ({"low": 0.932, "raised": 0.96}, {"low": 0.9, "raised": 0.937}, 0.92, False),
    ],
    ids=[
        "it hangs on the level",
        "pairs lead at the lower level too",
        "pairs do not lead at the higher",
        "negatives do not lead at the higher",
        "negatives lead there by much",
        "the standard loss is as good as the negatives",
    ],
)
def test_the_lead_hangs_on_the_level(pairs, negatives, standard, borne):
    numbers = comparison(rows_of_two_levels(pairs, negatives, standard=standard))
    assert FINDINGS["lead"].holds(numbers) == borne
    assert numbers["pairs_low"] == pytest.approx(pairs["low"], abs=0.004)
    assert numbers["negatives_raised"] == pytest.approx(negatives["raised"], abs=0.004)
    assert numbers["best"] == pytest.approx(max(0.93, standard), abs=0.004)
    assert numbers["pairs_low_lead_low"] < numbers["pairs_low_lead_mean"] < numbers["pairs_low_lead_high"]
    assert numbers["pairs_low_gain_mean"] == pytest.approx(pairs["low"] - standard, abs=0.006)
    assert numbers["pairs_low_before_mean"] == 0 and numbers["n"] == FRESH_SEEDS


def test_fresh_seeds_are_those_of_what_was_selected():
    rows = Rows(*obtained("main_table", PRESET, every=True))
    again = rows.with_fresh()
    fresh = [run for run in again.runs if run.seed >= FRESH_SEED]
    assert not again.missing and len(fresh) == FRESH_SEEDS * (5 + 2 * len(LEVELS))
    for level in LEVELS.values():
        chosen = rows.at(level).evidence()
        found = again.at(level).evidence(fresh=True)
        for method in (*METHODS, "mmd"):
            assert found.chosen_cell(method) == chosen.chosen_cell(method)
            assert list(found.selected(method, "test_id").index) == list(FRESH)


def test_a_finding_can_be_shown_by_itself():
    assert findings.said("lead").text == FINDINGS["lead"].sentence(findings.load("lead"))


def test_the_readme_says_what_the_introduction_does():
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert all(" ".join(findings.said(name).text.split()) in readme for name in ("lead", "unseen", "spread"))


def test_the_headline_is_of_fresh_seeds():
    shown = findings.headline()
    assert set(shown.seed) == set(FRESH) and set(shown.level.dropna()) == set(LEVELS.values())
    assert not shown.duplicated(["method", "level", "seed"]).any()
    means = shown[shown.level == LEVELS["raised"]].groupby("method").test_id.mean()
    assert means["dw_pairs"] == pytest.approx(comparison(findings.load("lead"))["pairs_raised"])


CONTRADICTED = {  # a number of a finding that is not of the rows of its chapter alone, and what would contradict the finding
    "effective_temperature": {"last": 0.09},
    "calibration": {"least": 1.1},
    "speed": {"mixed": 5.0},
    "losses": {"unseen_color_clear": 1},
    "sensitivity": {"noise": 0.0},
    "questions": {"pairs_seen_after": 0.9},
    "model_selection": {"cold_most": 0.3},
    "whole_grid": {
        "short": 1,
        "clear": 1,
        "again_low_1": "mixed",
        "again_low_2": "mixed",
        "thirty_shown": "open",
        "negatives_low_again_unseen_few_least": 0.01,
        "pairs_low_again_whose": "Standard CL",
    },
    "unseen": {
        "twenty_low": -0.01,
        "pairs_low_again_unseen_few_least": -0.01,
        "pairs_raised_again_unseen_few_mean": 0.01,
        "thirty_some_low": 0.01,
    },
    "lead": {
        "pairs_low_again_leads": False,
        "negatives_raised_again_leads": True,
        "pairs_low_again_some_least": 0.01,
        "pairs_raised_again_mean": 0.05,
    },
    "spread": {"behind": 1},
}


@pytest.mark.parametrize("name", CONTRADICTED)
def test_a_finding_hangs_on_its_numbers(name):
    finding = (PAGES if name in PAGES else FINDINGS)[name]
    numbers = finding.numbers(findings.NO_ROWS if name in PAGES else findings.load(name))
    assert finding.holds(numbers)
    for other, value in CONTRADICTED[name].items():
        assert other in numbers and not finding.holds({**numbers, other: value})
