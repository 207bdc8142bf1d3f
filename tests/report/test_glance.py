"""All effects in one picture, and the card of the claims: each says what its contrasts and rows say."""

import dataclasses
import math

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from dtcl_core import results
from dtcl_core.analysis import sensitivity, specifications, unstated, verdicts
from dtcl_core.analysis.claims import CLAIMS
from dtcl_core.analysis.contrasts import Contrast
from dtcl_core.analysis.intervals import mean_interval
from dtcl_core.config import Protocol, Run
from dtcl_core.experiments import open_choices, readings, weight_choices
from dtcl_core.experiments.core import FRESH_SEED, REMATCH_SEEDS, UNSEEN_SEEDS, UNSTATED
from dtcl_core.report import card, first_reading, forest, overview, questions
from dtcl_core.results import protocol_hash

matplotlib.use("Agg")


def contrast(mean, what="dw_pairs over standard, test_id", n=10, metric="test_id", spread=0.01):
    values = np.linspace(-1, 1, n)
    return Contrast(what, mean_interval(mean + spread * values / max(values.std(ddof=1), 1e-9)), metric=metric)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_every_claim_has_a_few_words():
    assert card.BRIEF.keys() == {claim.number for claim in CLAIMS}
    assert all(len(words.split()) <= 9 for words in card.BRIEF.values())
    assert card.COLORS.keys() == {*verdicts.WORDS, card.ELSEWHERE}


def test_the_card_tells_each_verdict_and_the_effect_that_decides_it():
    rulings = {
        "0.01": verdicts.judge({3: [contrast(-0.08), contrast(0.2)]}),
        "0.05": verdicts.judge({3: [contrast(0.05)]}),
    }
    line = card.table(rulings).set_index("claim").loc[3]
    assert line["verdict, 0.01"] == "contradicted" and line["verdict, 0.05"] == "supported"
    assert line["effect, 0.01"] == "-0.080 ± 0.007, n = 10"
    assert line["of what, 0.01"] == "Domain-Weighted Pairs over Standard CL, Test-ID"
    others = card.table(rulings).drop(index=2)
    assert set(others["verdict, 0.01"]) == {"not tested"} and set(others["effect, 0.01"]) == {"–"}
    assert card.tally(rulings["0.01"]) == "1 contradicted"
    formal = verdicts.judge({4: [contrast(0.2)], 12: [contrast(0.2)]})
    assert card.tally(formal) == "", "what no run could refute is not counted"


def test_the_cards_words_are_coloured_and_linked():
    judged = {"all": verdicts.judge({3: [contrast(-0.08)]})}
    html = card.Card(judged, link="page.html#c{number}").html()
    assert card.COLORS["contradicted"] in html and card.COLORS["supported"] not in html
    assert 'href="page.html#c3"' in html and html.count("<a href") == len(CLAIMS)
    assert card.Card(judged, only=(1, 3)).table.claim.tolist() == [1, 3]


def test_the_card_of_all_claims_is_brief_and_that_of_some_is_not():
    judged = {"all": verdicts.judge({3: [contrast(-0.08)]})}
    of, small = "Domain-Weighted Pairs over Standard CL, Test-ID", "<small>-0.080 ± 0.007, n&nbsp;=&nbsp;10</small>"
    whole, some = card.Card(judged, title="Three words <here>").html(), card.Card(judged, only=(3,)).html()
    assert f'title="{of}"' in whole and f"<small>{of}</small>" not in whole and f"<small>{of}</small>" in some
    assert small in whole and small in some and "Three words &lt;here&gt;" in whole


def test_an_effect_that_is_no_accuracy_has_its_unit():
    judged = {"all": verdicts.judge({12: [contrast(9.8, "autograd agrees with the formula (digits beyond six)")]})}
    assert "digits, n" in card.Card(judged).html() and card.unit("dw_pairs over mmd, Test-ID") == ""
    told = " ".join(
        c.said for level in overview.overview().rulings.values() for r in level.values() for c, _ in r.conjuncts
    )
    assert all(words in told for words in card.UNITS), "a unit of no line"


def drawn(figure):
    """The means that are drawn, with whether their marker is hollow."""
    points = [line for line in figure.axes[0].lines if line.get_marker() == "o" and len(line.get_xdata()) == 1]
    return [(round(float(p.get_xdata()[0]), 6), p.get_markerfacecolor() == "white") for p in points]


def test_the_forest_shows_every_contrast_of_the_grid_and_of_fresh_seeds():
    unseen = contrast(0.1, "dw_pairs over mmd, test_ood", metric="test_ood")
    judged = {"grid": {1: [contrast(-0.2, n=5), unseen], 4: [contrast(0.3)]}, "fresh": {1: [contrast(-0.1)]}}
    lines = forest.lines_of(judged)
    figure = forest.draw(lines, "effect")
    assert sorted(drawn(figure)) == [(-0.2, False), (-0.1, False), (0.1, True), (0.3, False)]
    words = " ".join(text.get_text().replace("\n", " ") for text in figure.axes[0].texts)
    assert "Domain-Weighted Pairs over CL with MMD Penalty, Test-OOD" in words and "4. Colour jitter" in words
    places = [text.get_position()[1] for text in figure.axes[0].texts]
    assert places == sorted(places) and len(set(places)) == len(places)


def test_an_interval_beyond_the_panel_ends_in_an_arrow():
    lines = forest.lines_of({"grid": {1: [contrast(0.45, spread=0.3), contrast(2.0, "far")]}})
    figure = forest.draw(lines, "effect", cut=0.5)
    assert [line.get_marker() for line in figure.axes[0].lines].count(">") == 2
    assert drawn(figure) == [(0.45, False)]


def test_the_axis_says_which_claims_are_no_accuracy():
    ranks = contrast(0.7, "Test-ID falls with tau_alpha (minus the rank correlation)")
    judged = {
        "grid": {
            1: [contrast(0.2)],
            7: [ranks],
            12: [contrast(9.8, metric=None)],
            13: [dataclasses.replace(contrast(5.0, metric=None), interval=mean_interval([5.0]))],
        }
    }
    assert "(some of claims 7, 12: as their words say)" in forest.unit_of(judged)
    assert "claims" not in forest.unit_of({"grid": {1: [contrast(0.2)]}})


def row(run, **metrics):
    """A line as `results.load` gives it."""
    told = {name: getattr(run, name) for name in results.RUN_COLUMNS}
    told |= {"epochs": run.protocol.epochs, "protocol": protocol_hash(run.protocol), "label_fraction": 0.01}
    return {
        **told,
        "status": "ok",
        "key": run.key,
        "validation": 0.5,
        "test_id": 0.5,
        "test_ood": 0.5,
        "d_test_id": 0.5,
        **metrics,
    }


FIRST = readings.FIRST
RAISED = dataclasses.replace(FIRST, tau_min=0.05)


def frame():
    rows = []
    for seed in (0, 1, 2):
        rows.append(row(Run("standard", 0.1, seed=seed, protocol=FIRST), test_id=0.8, d_test_id=0.9, validation=0.9))
        rows.append(row(Run("standard", 0.2, seed=seed, protocol=FIRST), test_id=0.99, validation=0.1))  # not selected
        for protocol, score in ((FIRST, 0.7), (RAISED, 0.85)):
            run = Run("dw_pairs", 0.1, 0.5, seed=seed, protocol=protocol)
            rows.append(row(run, test_id=score + 0.01 * seed, d_test_id=0.4))
        calibrated = Run("dw_negatives", 0.25, 0.1, seed=seed, protocol=FIRST)
        rows.append(row(calibrated, test_id=0.2))
    return pd.DataFrame(rows, columns=list(results.COLUMNS)), {protocol_hash(p): p for p in (FIRST, RAISED)}


def test_a_specification_is_the_selected_cell_less_that_of_standard_borrowed_where_only_the_weight_differs():
    effects = specifications.effects(*frame()).set_index(["specification", "metric"])
    assert set(effects.method) == {"dw_pairs"}, "cells that calibration may look at are no specification"
    assert set(effects.against) == {"standard"}, "not all baselines are there"
    first, raised = "first reading; 400 epochs, sigma 50", "first reading, tau_min 0.05; 400 epochs, sigma 50"
    assert effects.loc[(first, "test_id"), "mean"] == pytest.approx(0.71 - 0.8)
    assert effects.loc[(raised, "test_id"), "mean"] == pytest.approx(0.86 - 0.8)
    assert effects.loc[(raised, "d_test_id"), "mean"] == pytest.approx(0.4 - 0.1), "nearer to one half is better"
    assert set(effects.n) == {3}


def test_nothing_is_borrowed_where_the_baselines_would_differ():
    other = dataclasses.replace(RAISED, dropout=0.3)
    rows, of = frame()
    only = rows[rows.protocol != protocol_hash(RAISED)]
    changed = rows[rows.protocol == protocol_hash(RAISED)].assign(protocol=protocol_hash(other))
    effects = specifications.effects(pd.concat([only, changed]), {**of, protocol_hash(other): other})
    assert set(effects.specification) == {"first reading; 400 epochs, sigma 50"}


def test_the_best_baseline_is_picked_on_the_other_seeds():
    rows, of = frame()
    more = [
        row(
            Run(m, 0.1, seed=seed, protocol=FIRST, **kind),
            test_id=0.6 + (0.3 if seed == lucky else 0.0),
            validation=0.9,
        )
        for m, kind, lucky in (("same_domain", {}, 0), ("mmd", {"lambda_": 1.0}, 1), ("dann", {"lambda_": 1.0}, 2))
        for seed in (0, 1, 2)
    ]
    effects = specifications.effects(pd.concat([rows, pd.DataFrame(more)], ignore_index=True), of)
    best = effects[(effects.against == "best baseline") & (effects.metric == "test_id")].set_index("specification")[
        "mean"
    ]
    assert best["first reading; 400 epochs, sigma 50"] == pytest.approx(0.71 - 0.8), (
        "a lucky seed makes no baseline the best"
    )


def test_fresh_seeds_are_a_specification_of_their_own():
    rows, of = frame()
    again = rows.assign(seed=rows.seed + FRESH_SEED, test_id=rows.test_id + 0.05 * (rows.method == "dw_pairs"))
    plain, both = (specifications.effects(part, of) for part in (rows, pd.concat([rows, again], ignore_index=True)))
    name = "first reading; 400 epochs, sigma 50"
    found = both[both.metric == "test_id"].set_index("specification")["mean"]
    assert len(both) == 2 * len(plain) and found[name] == pytest.approx(0.71 - 0.8)
    assert found[f"{name}, fresh seeds"] == pytest.approx(0.76 - 0.8)
    for later in (REMATCH_SEEDS, UNSEEN_SEEDS):  # a comparison by itself (`whole_grid`), not one of many
        more = pd.concat([rows, again, again.assign(seed=rows.seed + later[0], test_id=0.1)], ignore_index=True)
        assert specifications.effects(more, of).equals(both)


def test_the_curve_begins_with_the_largest_effect():
    lines = forest.specification_lines(specifications.effects(*frame()), "test_id")
    assert list(lines["mean"]) == sorted(lines["mean"], reverse=True) and len(lines) == 2
    assert list(lines.series) == ["less Standard CL"] * 2


def test_weight_fields_are_those_that_a_method_without_weight_does_not_see():
    assert {"tau_min", "discriminator_l2", "posterior_view", "weight_gradient"} <= set(specifications.WEIGHT_FIELDS)
    assert specifications.without_weight(RAISED) == specifications.without_weight(FIRST)
    assert specifications.without_weight(FIRST) != specifications.without_weight(
        dataclasses.replace(FIRST, dropout=0.3)
    )
    assert specifications.name_of(Protocol())[1] == ""


def test_a_change_of_the_weight_is_told_in_words():
    for changes in (*UNSTATED.values(), *(v.changes for v in open_choices.UNSEEN), *weight_choices.CHOICES.values()):
        if set(changes) <= set(specifications.WEIGHT_FIELDS):
            _, said = specifications.name_of(dataclasses.replace(Protocol(), **changes))
            assert "_" not in said.replace("tau_min", "") and "True" not in said and bool(said) == bool(changes)
    assert specifications.name_of(Protocol())[0] == specifications.AS_CLAIMED
    one = dataclasses.replace(Protocol(), discriminator_fit="adam", discriminator_steps=1000)
    assert specifications.name_of(one)[1] == "discriminator fitted by Adam, in 1000 steps"


def test_a_question_tells_by_how_much_a_change_moves_the_same_cells_on_the_same_seeds():
    rows, of = frame()
    other = row(
        Run("dw_pairs", 0.1, 1.0, seed=0, protocol=FIRST), test_id=0.1
    )  # a cell that was run without the change only
    late = row(Run("dw_pairs", 0.1, 0.5, seed=7, protocol=RAISED), test_id=0.1)  # and a seed with it only
    moved = specifications.moves(pd.concat([rows, pd.DataFrame([other, late])], ignore_index=True), of)
    (line,) = questions.floor(moved).itertuples(index=False)
    assert line.method == "dw_pairs" and line.n == 3
    assert (line.before, line.after, line.difference) == pytest.approx((0.71, 0.86, 0.15))
    assert questions.floor(moved.assign(epochs=60)).empty, "a short run"


def reading(values, metric="test_id"):
    lines = [("standard", metric, 0.01, seed, value) for seed, value in enumerate(values)]
    return pd.DataFrame(lines, columns=["group", "metric", "label_fraction", "seed", "value"])


def test_what_every_method_sees_is_asked_with_the_change_that_moves_most():
    readings = {
        questions.START: reading([0.9, 0.8, 0.7]), "dropout 0": reading([0.91, 0.8]), "dropout 0.25": reading([0.6, 0.6]),
        "batches of 512": reading([0.5]), "first reading": reading([0.1]),
    }  # fmt: skip
    table = questions.seen_by_all(readings)
    assert table.tried.tolist() == ["batches of 512", "dropout 0.25"] and table.n.tolist() == [1, 2]
    assert table.difference.tolist() == pytest.approx([-0.4, -0.25]) and table.before[1] == pytest.approx(0.85)
    assert math.isnan(table.low[0]) and table.low[1] < -0.25 < table.high[1]
    assert questions.seen_by_all({}).empty


def test_what_only_short_runs_answer_is_asked_with_the_change_that_moves_most(monkeypatch):
    effects = [("labels stratified", "standard", 0.9, -0.01, 1), ("labels drawn again", "standard", 0.9, 0.02, 1),
               ("no dropout", "standard", 0.9, 0.5, 1)]  # fmt: skip
    told = pd.DataFrame(effects, columns=["variation", "group", "base", "moved", "n"]).assign(metric="test_id")
    cells = [
        ("MMD of raw embeddings", "mmd", 0.8, 0.7, -0.1, 2),
        ("MMD of one bandwidth", "mmd", 0.8, math.nan, math.nan, 0),
    ]
    unseen = pd.DataFrame(cells, columns=["variation", "group", "start", "mean", "moved", "moved_n"]).assign(
        metric="test_id", n=3
    )
    ends = [("standard", 0.1, 0, 0.9, 0.85), ("standard", 0.1, 1, 0.8, 0.8), ("standard", 0.2, 0, 0.1, 0.9)]
    best = pd.DataFrame(ends, columns=["method", "tau_alpha", "seed", "test_id", "test_id_last"])
    rows = pd.DataFrame({"epochs": [60]})
    for name, found in {"with_choices": None, "portions": sensitivity.Portions(rows, rows, rows, rows), "changes": told,
                        "unseen_effects": unseen, "validated_epoch": best}.items():  # fmt: skip
        monkeypatch.setattr(sensitivity, name, lambda *_, found=found: found)
    monkeypatch.setattr(questions.notebook, "obtain", lambda *_: ([], None))
    table = questions.in_short_runs()
    assert table.tried.tolist() == ["MMD of raw embeddings", "the best of 60, 100, 400", "labels drawn again"]
    assert table.difference.tolist() == pytest.approx([-0.1, 0.025, 0.02]) and table.before[1] == pytest.approx(0.825)
    assert table.n.tolist() == [2, 2, 1] and table.epochs.tolist() == [60, 400, 60]


def test_changes_asked_of_short_runs_are_changes_that_there_are():
    known = {v.name for v in (*open_choices.ALL, *open_choices.UNSEEN)}
    assert {name for *_, tried in questions.IN_SHORT_RUNS for name in tried} <= known
    assert {where for _, where, _ in questions.IN_SHORT_RUNS} <= {*sensitivity.GROUPS, *open_choices.CELLS}


def test_each_choice_is_asked_about_and_of_the_weight_alone():
    assert set(questions.ASKED) == {unstated.AS_IT_IS, *UNSTATED}
    assert {field for changes in UNSTATED.values() for field in changes} <= set(specifications.WEIGHT_FIELDS)


def test_the_question_that_moves_most_comes_after_what_was_selected():
    def line(choice, method, moved, moves="no"):
        return (
            choice,
            method,
            "test_id",
            0.9,
            0.9 + moved,
            moved,
            moved - 0.1,
            moved + 0.1,
            5,
            moves,
            0.02,
            -0.01,
            0.05,
            4,
        )

    lines = [line(unstated.AS_IT_IS, "dw_pairs", math.nan, "–"), line("directions", "dw_pairs", 0.01)]
    lines += [line("strong penalty", "dw_pairs", -0.3, "yes")]
    effects = pd.DataFrame(lines, columns=list(unstated.COLUMNS))
    assert questions.in_selected(effects).tried.tolist() == ["–", "a penalty of 100, not 1", "scaled"]
    drawn = questions.lines(effects).query("series == 'moves it by'").set_index("mean")
    leads = questions.lines(effects).query("series == 'lead over the best baseline'")
    assert leads.n.tolist() == [4, 4, 4], "its own seeds, also of what was selected"
    assert questions.counted(effects).n.tolist() == [4, 5, 5]
    assert "moves" not in questions.beside(effects, "test_id") and questions.beside(effects, "test_ood").empty
    assert drawn.decides.to_dict() == {0.01: False, -0.3: True} and len(questions.lines(effects)) == 5


def test_a_difference_is_beyond_the_yardsticks_only_if_it_is_beyond_every_one():
    most = pd.DataFrame(
        {"group": ["Oracle"] * 2, "metric": ["test_ood", "test_id"], "largest": [-0.3, 0.2], "whose": ["crop", "blur"]}
    )
    yard = pd.DataFrame(
        {
            "group": ["Oracle"] * 2,
            "metric": ["test_ood", "test_id"],
            "trained again": [0.1, 0.1],
            "probed": 0.1,
            "range": 0.25,
        }
    )
    told = first_reading.beyond(most, yard.assign(**{"labels drawn again": [-0.29, 0.0]}))
    assert told.startswith("In 1 of 2 ") and "Oracle, Test-OOD: crop" in told and "blur" not in told


def test_reported_numbers_outside_their_interval_are_counted_on_three_seeds_or_more():
    part = pd.DataFrame({"reported": [0.5, 0.9, 0.9], "low": [0.4, 0.4, 0.4], "high": [0.6, 0.6, 0.6], "n": [3, 3, 2]})
    assert "1 of 2 reported" in first_reading.outside(part) and first_reading.outside(part[part.n < 3]) == ""
