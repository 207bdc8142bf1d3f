"""All claims at once, and whether their verdicts depend on the reading of the paper."""

import pandas as pd

from dtcl_core.analysis import verdicts
from dtcl_core.analysis.contrasts import one
from dtcl_core.analysis.verdicts import Ruling
from dtcl_core.config import Protocol, Run
from dtcl_core.report import card, overview
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
    judged = Overview([], pd.DataFrame(), {}, {"grid": {1: grid}, "fresh": {1: fresh}}, {})
    table = judged.on_both(1)
    assert table.seeds.tolist() == ["grid", "fresh", "grid"], "one seed has no interval"
    assert table["mean"].round(3).tolist() == [0.2, -0.2, 0.2] and table.n.tolist() == [3, 3, 3]


def test_verdicts_are_counted_under_each_level_where_they_differ():
    run, measured = Run(tau_alpha=0.1), pd.DataFrame({"key": []})
    low, high = "tau_min 0.01", "tau_min 0.05"
    apart = Overview([run], measured, {low: rulings("mixed"), high: rulings("mixed", _1="supported")}, {}, {})
    number = len(verdicts.ON_FRESH_SEEDS) - 1  # claim 4 is formal
    said = apart.tallied
    assert f"The others with {low}: {number} mixed; with {high}: 1 supported, {number - 1} mixed." in said
    assert said.endswith(" 1 of 1 runs are still missing.")
    alike = Overview([run], pd.DataFrame({"key": [run.key]}), {low: rulings("mixed"), high: rulings("mixed")}, {}, {})
    assert alike.tallied.endswith(f"hold nearly by construction. The others {number} mixed.")
    at_one = {low: rulings("mixed", _9="inconclusive"), high: rulings("mixed")}
    told = Overview([run], measured, at_one, {}, {})
    assert f"with {high}: {number} mixed (9 was not run at this level)." in told.tallied
    table = told.card(9).table.loc[0]
    assert (table[f"verdict, {low}"], table[f"verdict, {high}"]) == ("inconclusive", card.ELSEWHERE)
    assert told.conjuncts(9).empty


def test_the_answer_is_four_points():
    said = overview.answer(overview.overview())._repr_markdown_().split("\n")
    assert len(said) == 4 and all(line.startswith("> - **") for line in said)
