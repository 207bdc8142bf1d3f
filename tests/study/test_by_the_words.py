"""Verdicts, contrasts and selections agree with those that `by_the_words` computes from the preregistration without the project's code."""

import json
import re
from dataclasses import replace
from pathlib import Path

import by_the_words
import pandas as pd
import pytest
import whole_study

from dtcl_core.results import Store
from dtcl_study import claims, experiments, selection
from dtcl_study.experiments import BASELINES, HIGHEST_IN_DROPOUT_GRID, OOD, PROPOSED, REGISTRY
from dtcl_study.study import Evidence, Study, apart

ROOT = Path(__file__).resolve().parents[2]


WORDS = {
    "holds": "confirmed",
    "partly": "partly confirmed",
    "open": "open",
    "fails": "not confirmed",
}  # ours for those of `by_the_words`


def agree(claim, found, told):
    """Whether a claim's verdict and contrasts are the same; states of claim 9 have names of their own."""
    assert found.word == WORDS[told["word"]], claim.number
    lines = told["contrasts"] + told["beside"]
    ours_there = [contrast for contrast in found.contrasts if contrast.interval.n]  # beside a claim some may wait for their rows
    assert len(lines) == len(ours_there)
    for ours, (mean, low, high, n, state) in zip(ours_there, lines):
        assert tuple(ours.interval) == pytest.approx((mean, low, high, n), abs=1e-9), ours.label
        assert ours.state in (state, claims.NOT_YET) or claim.number == 9, ours.label


def second_rows(store, folder):
    """The second study's rows as `by_the_words` reads them: alone, so that dropout 0.25 is their usual protocol."""
    keys = {run.key for name in ("dropout_grid", "dropout_fresh") for run in REGISTRY[name].runs("paper")}
    lines = [line for path in store.glob("rows/*.jsonl") for line in path.read_text(encoding="utf-8").splitlines()]
    (folder / "rows").mkdir(parents=True)
    mine = "\n".join(line for line in lines if json.loads(line)["key"] in keys)
    (folder / "rows" / "second.jsonl").write_text(mine, encoding="utf-8")
    return by_the_words.Rows(folder)


def agree_in_the_second_study(rows):
    """Whether its verdicts and contrasts are those that the words make of these rows."""
    runs = REGISTRY["dropout_fresh"].runs("paper")
    which = {r.method: by_the_words.configuration(r.method, 50.0, r.tau_alpha, r.tau_beta, r.lambda_) for r in runs}
    of = lambda method, metric: rows.values(which[method], range(1150, 1200), metric)
    two, domain = by_the_words.TWO, by_the_words.DOMAIN
    main = [of(one, a) - of(b, a) for a in (OOD, by_the_words.ID) for one in two for b in by_the_words.BASELINES]
    side = [of(b, domain) - of(one, domain) for one in two for b in ("standard", "mmd", "dann")]
    for found, contrasts in zip(claims.second_study(), (main, side), strict=True):
        states = [by_the_words.state(values, len(contrasts)) for values in contrasts]
        assert found.word == WORDS[by_the_words.verdict(states)]
        ours = [c for c in found.contrasts if c.decides]
        assert [c.state for c in ours] == states
        for contrast, values in zip(ours, contrasts, strict=True):
            assert tuple(contrast.interval) == pytest.approx((*by_the_words.interval(values), 50), abs=1e-9), contrast.label


def test_every_verdict_on_networks_follows_from_the_words(tmp_path, monkeypatch):
    monkeypatch.setitem(whole_study.TOLD, (PROPOSED[0], OOD), 0.70)  # so that claims hold, hold partly, fail and are open
    whole_study.settled(monkeypatch.setattr)
    monkeypatch.setenv("DTCL_RESULTS", str(tmp_path))
    parts = ("main_table", "fresh", "projector_head", "effective_temperature")
    runs = {run.key: run for part in parts for run in REGISTRY[part].runs("paper")}
    store = Store(tmp_path)
    store.add([whole_study.row(run) for run in runs.values()])
    for run in REGISTRY["effective_temperature"].runs("paper"):
        store.add_trace(whole_study.trace(run))
    for one in whole_study.selections():
        (tmp_path / f"{one['name']}.json").write_text(json.dumps(one))
    told = by_the_words.everything(tmp_path, tmp_path)
    assert sorted(told) == [claim.number for claim in claims.CLAIMS if claim.judged_on in ("fresh", "grid")]
    evidence, words = Evidence(), set()
    for claim in claims.CLAIMS:
        if claim.number in told:
            agree(claim, found := claim.judged(evidence), told[claim.number])
            words.add(found.word)
    assert words == {*WORDS.values()}
    rows = by_the_words.Rows(tmp_path)
    for ours in selection.select(evidence.grid.complete).itertuples():
        numbers = [None if value != value else value for value in (ours.tau_alpha, ours.tau_beta, ours.lambda_)]
        assert by_the_words.selected(rows, ours.method)[2:5] == tuple(numbers)
    judged = lambda: {number for number in (7, 8, 10, 11, 14) if claims.judged(number, evidence).word != claims.NOT_YET}
    assert judged() == {7, 8, 10, 11, 14}
    monkeypatch.setattr(evidence.heads, "counts", dict.fromkeys(evidence.heads.counts, 4))
    assert judged() == {7, 8, 11, 14}, "claim 10 asks for five seeds of the heads"
    evidence.traces = evidence.traces[:4]
    assert judged() == {7, 8, 14}, "claim 11 asks for five traces"
    monkeypatch.setattr(Study, "complete_seeds", 4)
    assert {claims.judged(number, evidence).word for number in (7, 8, 10, 11, 14)} == {claims.NOT_YET}, "five seeds are asked for"


def test_committed_rows_say_what_the_words_make_of_them(monkeypatch):
    monkeypatch.setenv("DTCL_RESULTS", str(ROOT / "results"))
    told, evidence = by_the_words.everything(ROOT / "results", ROOT / "dtcl_study" / "frozen"), Evidence()
    assert told, "there are rows of the grid"
    for claim in claims.CLAIMS:
        if claim.number in told:
            agree(claim, claim.judged(evidence), told[claim.number])
        elif claim.judged_on in ("fresh", "grid"):
            assert claim.judged(evidence).word == claims.NOT_YET, claim.number


def test_what_the_main_claim_waits_for_is_counted(tmp_path, monkeypatch):
    whole_study.settled(monkeypatch.setattr)
    monkeypatch.setenv("DTCL_RESULTS", str(tmp_path))
    store = Store(tmp_path)
    assert "complete on 0 of 5 seeds" in Evidence().awaited and "(complete: 0 of 50)" in Evidence().awaited
    fresh = [run for run in REGISTRY["fresh"].runs("paper", seeds=3) if run.sigma == 50 and run.discriminator != "batch"]
    store.add([whole_study.row(run) for run in [*REGISTRY["main_table"].runs("paper", seeds=2), *fresh[:-1]]])
    assert "complete on 2 of 5 seeds" in Evidence().awaited and "(complete: 2 of 50)" in Evidence().awaited


def test_what_a_contrast_is_about_is_what_its_label_says():
    about = [c for number in range(1, len(claims.CLAIMS) + 1) for c in claims.judged(number).contrasts if c.metric]
    for c in about:
        named = ".*".join(experiments.title(method) for method in (c.method, c.other) if method)
        assert re.match(rf"{experiments.SHORT[c.metric]}[,: ].*{named}", c.label), c
    assert len(about) > 150 and sum(bool(c.other) for c in about) > 100


def test_kinds_of_processors_are_names_with_instructions():
    one = pd.DataFrame({"device_name": ["A"], "instructions": ["AVX512"]})
    assert apart(one, one.assign(device_name="B")) and apart(one, one.assign(instructions="AVX2")) and not apart(one, one)
    assert not apart(pd.concat([one.assign(device_name="B"), one]), one)
    gpu = one.assign(device_name="B", instructions=None)
    assert apart(gpu, one) and not apart(gpu, pd.concat([gpu, one]))


def test_swapped_rows_take_the_place_of_the_frozen_ones(tmp_path, monkeypatch):
    whole_study.settled(monkeypatch.setattr)
    monkeypatch.setenv("DTCL_RESULTS", str(tmp_path))
    Store(tmp_path).add(
        [whole_study.row(run) for run in REGISTRY["fresh"].runs("paper", sigma=50) if run.discriminator != "batch"]
    )
    mine = Evidence().at(50)[lambda rows: rows.method == PROPOSED[0]]
    frozen = claims.judged(1)
    assert len(claims.about(frozen.contrasts, method=PROPOSED[0])) == 8 and claims.swapped(mine) == frozen
    for before, now in zip(frozen.contrasts, claims.swapped(mine.assign(test_id=mine.test_id + 0.01)).contrasts, strict=True):
        moved = before.method == PROPOSED[0] and before.metric == "test_id"
        assert now.interval.mean - before.interval.mean == pytest.approx(0.01 if moved else 0)
    for wrong in (mine[:0], Evidence().at(50).query("method in ('dw_pairs', 'mmd')")):
        with pytest.raises(ValueError, match="rows must be of dw_negatives or dw_pairs, got"):
            claims.swapped(wrong)


def test_the_second_study_has_a_verdict_once_all_its_seeds_are_there(tmp_path, monkeypatch):
    whole_study.settled(monkeypatch.setattr)
    monkeypatch.setenv("DTCL_RESULTS", str(tmp_path))
    assert not claims.second_study() and "(0 of 300 runs on fresh seeds)" in claims.second_said(())
    *most, last = REGISTRY["dropout_fresh"].runs("paper")
    store = Store(tmp_path)
    store.add([whole_study.row(run) for run in most])
    assert not claims.second_study()
    assert claims.second_said(()) == "not finished (299 of 300 runs on fresh seeds)"
    store.add([whole_study.row(last)])
    first, again = replace(claims.judged(1), word="not confirmed"), claims.second_study()
    told = claims.second_said(again)
    main, side = (replace(one, word=word) for one, word in zip(again, ("confirmed", "open")))
    said, table, _ = claims.headline(first, replace(side, word="open"), (main, side))
    assert "tests 0.25" in said and said.endswith(" anew on 50 other seeds.")
    for rate, verdict in (("0.1", first), ("0.25", main)):
        for m, cell in zip(PROPOSED, table.frame[f"unseen colour, dropout {rate}"], strict=False):
            assert cell == claims.sides(claims.about(verdict.contrasts, "test_ood", m))
    assert said.startswith("**The answer depends on the dropout rate, which the paper does not name.** With dropout 0.1 the main")
    assert "main claim is **not confirmed**" in said.partition("With dropout 0.25")[0]
    assert "main claim is **confirmed**" in said.partition("With dropout 0.25")[2] and said.count("side claim is **open**") == 2
    alike, *_ = claims.headline(main, side, (main, side))
    assert "depends on the dropout rate" not in alike and alike.count("main claim is **confirmed**") == 2
    counts = [[int(n) for n in found] for found in re.findall(r"(\d+) for, (\d+) open, (\d+) against", told)]
    assert [sum(each) for each in counts] == [16, 6] and told.startswith("the main claim is "), told
    agree_in_the_second_study(second_rows(tmp_path, tmp_path / "second"))


def test_the_second_study_is_what_the_words_make_of_its_committed_rows(tmp_path, monkeypatch):
    monkeypatch.setenv("DTCL_RESULTS", str(ROOT / "results"))
    rows, study = second_rows(ROOT / "results", tmp_path), Study("dropout_grid", "paper", quiet=True)
    lower = {m: [which for which in by_the_words.grid(m) if which[2] <= HIGHEST_IN_DROPOUT_GRID] for m in (*BASELINES, *PROPOSED)}
    seeds = rows.complete([which for mine in lower.values() for which in mine], range(5))
    assert len(seeds) == study.complete_seeds > 0
    selects = {m: rows.best(mine, seeds)[2:5] for m, mine in lower.items()}
    for ours in selection.select(study.complete).itertuples():
        numbers = [None if value != value else value for value in (ours.tau_alpha, ours.tau_beta, ours.lambda_)]
        assert selects[ours.method] == tuple(numbers)
    for one in (c for chosen in experiments.frozen("frozen_dropout") for c in chosen["configurations"]):
        assert len(seeds) == 5 and selects[one["method"]] == (one["tau_alpha"], one.get("tau_beta"), one.get("lambda_"))
    if claims.second_study():
        agree_in_the_second_study(rows)
