"""All claims at once, and whether their verdicts depend on the reading of the paper."""

from dataclasses import replace

import pandas as pd
import pytest

from dtcl_core import results
from dtcl_core.analysis import verdicts
from dtcl_core.analysis.contrasts import Contrast, one
from dtcl_core.analysis.intervals import Interval
from dtcl_core.analysis.verdicts import Ruling
from dtcl_core.config import Protocol, Run
from dtcl_core.experiments import REGISTRY
from dtcl_core.experiments.core import validation_of
from dtcl_core.report import card, dependence, overview
from dtcl_core.report.overview import Overview


def rulings(word, **others):
    words = dict.fromkeys(verdicts.ON_FRESH_SEEDS, word) | {int(name[1:]): said for name, said in others.items()}
    return {number: Ruling(number, said, (), (), float("nan"), 10) for number, said in words.items()}


def test_readings_stand_side_by_side():
    low, high = "tau_min 0.01", "tau_min 0.05"
    judged = Overview(
        [],
        pd.DataFrame(),
        {low: rulings("supported", _3="contradicted"), high: rulings("mixed")},
        {},
        {low: rulings("supported", _6="not tested"), high: rulings("inconclusive")},
    )
    found = judged.readings().set_index(["claim", "level"])
    assert len(found) == 2 * len(verdicts.ON_FRESH_SEEDS)
    assert found.loc[(1, low), "alike"] == "yes" and found.loc[(3, low), "alike"] == "no"
    assert found.loc[(6, low), "alike"] == "–", "nothing to judge is no agreement"
    assert found.loc[(2, high), ["verdict", "first reading", "alike"]].tolist() == ["mixed", "inconclusive", "no"]
    more = {
        low: dict(judged.rulings[low]) | rulings("mixed", _7="mixed", _11="supported", _13="supported"),
        high: judged.rulings[high],
    }
    before = {
        low: rulings("contradicted", _7="not tested", _11="supported", _13="supported"),
        high: rulings("mixed", _11="mixed"),
    }
    found = replace(judged, rulings=more).readings(before).set_index(["claim", "level"])
    assert found.loc[(11, low), ["alike", "cells"]].tolist() == ["yes", "its own, 0 of 0 lines"]
    assert not {(11, high), (7, low), (13, low)} & {*found.index}, "not judged here, nothing to judge there, of no rows"
    assert found.loc[(1, low), ["first reading", "cells"]].tolist() == ["supported", "the same"]
    table = judged.readings()
    said = "Alike of the verdicts that both readings give (but of claims 4 and 12): with tau_min 0.01 2 of 3; with tau_min 0.05 0 of 4."
    assert dependence.agreement(table) == said and "No verdict" in dependence.agreement(table[table.alike == "–"])


def of_two_readings(first=("mixed", "supported"), second="contradicted", then="mixed", least=0.0004):
    """Claims 1 and 2 under two levels: of the first by level, of the second alike; and under the first reading.

    Of two lines of claim 1 the interval of one begins at `least` under the second level."""
    low, high = "tau_min 0.01", "tau_min 0.05"
    now = {low: rulings("mixed", _1=first[0], _2=second), high: rulings("mixed", _1=first[1], _2=second)}
    lines = [
        Contrast(f"dw_pairs over {b}", Interval(0.03, begins, 0.06, 10))
        for b, begins in (("mmd", least), ("dann", 0.02))
    ]
    now[high][1] = replace(now[high][1], conjuncts=tuple((line, "holds") for line in lines))
    judged = Overview([], pd.DataFrame(), now, {}, {level: rulings(then, _2="contradicted") for level in now})
    return judged, judged.readings()


def test_how_far_verdicts_hang_on_the_reading_is_counted():
    said = dependence.sentence(*of_two_readings(then="inconclusive")).text
    assert "in 1 of the 4 combinations" in said and "contradicted in all 4" in said
    assert "our reading with tau_min 0.05, where the nearest of its intervals begins at 0.0004." in said
    assert "4 claims that tau_min touches, 3 have one verdict" in said
    assert "8 verdicts given under both readings, 2 agree" in said
    for other in (
        {"first": ("supported", "supported"), "then": "supported"},
        {"first": ("mixed", "mixed")},
        {"second": "mixed"},
        {"then": "inconclusive", "least": 0.01},
    ):
        with pytest.raises(ValueError, match="no longer true of the rows"):
            dependence.sentence(*of_two_readings(**other))


def test_the_card_counts_the_configurations_behind_a_claim():
    judged = Overview([Run(tau_alpha=0.1)], pd.DataFrame(), {"low": rulings("mixed")}, {}, {}, {"low": {1: (74, 190)}})
    shown = judged.card(1, 2)
    assert shown.table.tried.tolist() == ["74 of 190", "–"] and shown.html().count("74 of 190") == 1
    whole, known = overview.overview("core"), validation_of(results.Store().rows())
    low, high = whole.tried.values()
    assert set(low) == set(verdicts.COVERED_BY) == {*high, *verdicts.AT_FIRST_LEVEL}
    assert all(0 < here <= paper for here, paper in low.values()) and low[10] == (14, 70), "those of its chapter alone"
    batch = [run for run in REGISTRY["global_vs_batch"].runs("core", validation=known) if run.protocol.tau_min == 0.01]
    cells = {(run.method, run.discriminator, run.sigma, run.tau_alpha, run.tau_beta) for run in batch}
    assert low[9] == (len(cells), 800), "of the level that it is judged at"
    assert whole.card(5).table.tried[0] == f"{low[5][0]}, {high[5][0]} of 950"


def test_a_chapter_shows_its_claims_and_short_runs_say_that_they_are(capsys):
    low = {"tau_min 0.01": rulings("supported")}
    for epochs, told in ((400, ""), (100, "Runs of 100 epochs, not the paper's 400: no verdicts.\n")):
        judged = Overview([Run(tau_alpha=0.1, protocol=Protocol(epochs=epochs))], pd.DataFrame(), low, {}, {})
        assert judged.card(2, 4).table.claim.tolist() == [2, 4] and capsys.readouterr().out == told


def test_short_runs_get_no_verdict():
    """Laptop runs have rows of claims 1 to 4 that would decide, were they long enough."""
    short = overview.overview("laptop")
    words = {ruling.word for found in (*short.rulings.values(), *short.first.values()) for ruling in found.values()}
    assert words == {"not tested"}
    kept = overview._untested({"low": rulings("supported")})
    assert {ruling.word for ruling in kept["low"].values()} == {"not tested"}


def test_what_was_selected_stands_beside_its_fresh_seeds():
    grid = [one("a over b, test_id", [0.1, 0.2, 0.3]), one("a over b, test_ood", [0.1, 0.2, 0.3])]
    fresh = [one("a over b, test_id", [-0.1, -0.2, -0.3]), one("a over b, test_ood", [0.1])]
    judged = Overview([], pd.DataFrame(), {}, {"low": {"grid": {1: grid}, "fresh": {1: fresh}}}, {})
    table = judged.on_both(1)
    assert table.seeds.tolist() == ["grid", "fresh", "grid"], "one seed has no interval"
    assert table["mean"].round(3).tolist() == [0.2, -0.2, 0.2] and table.n.tolist() == [3, 3, 3]


def test_verdicts_are_counted_under_each_level_where_they_differ():
    run, measured = Run(tau_alpha=0.1), pd.DataFrame({"key": []})
    low, high = "tau_min 0.01", "tau_min 0.05"
    apart = Overview([run], measured, {low: rulings("mixed"), high: rulings("mixed", _1="supported")}, {}, {})
    number = len(verdicts.ON_FRESH_SEEDS) - 1  # claim 4 is formal
    said = apart.tallied
    assert f"of the other {number}, with {low}: {number} mixed; with {high}: 1 supported, {number - 1} mixed." in said
    assert said.endswith(" 1 of 1 runs are still missing.")
    alike = Overview([run], pd.DataFrame({"key": [run.key]}), {low: rulings("mixed"), high: rulings("mixed")}, {}, {})
    assert alike.tallied.endswith(f"hold nearly by construction; of the other {number}, {number} mixed.")
    at_one = {low: rulings("mixed", _9="inconclusive"), high: rulings("mixed")}
    told = Overview([run], measured, at_one, {}, {})
    assert f"with {high}: {number} mixed (claim 9 was not run there)." in told.tallied
    table = told.card(9).table.loc[0]
    assert (table[f"verdict, {low}"], table[f"verdict, {high}"]) == ("inconclusive", card.ELSEWHERE)
    assert told.conjuncts(9).empty


def test_the_answer_is_three_points_and_the_verdicts_if_asked_for():
    judged = overview.overview()
    short, whole = (said._repr_markdown_().split("\n") for said in (overview.answer(), overview.answer(judged)))
    assert len(short) == 3 and all(line.startswith("> - **") for line in short)
    assert whole == [*short, f"> - **The claims.** {judged.tallied}"]
    assert repr(judged.card()).startswith(judged.tallied) and not repr(judged.card(1)).startswith(judged.tallied)
