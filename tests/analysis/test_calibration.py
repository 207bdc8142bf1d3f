"""The rule of `calibration`, on made-up rows."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dtcl_core.analysis import calibration, summed_again
from dtcl_core.config import METRICS, Protocol, Run
from dtcl_core.evaluate import means
from dtcl_core.experiments import readings
from dtcl_core.results import Store

ROOT = Path(__file__).resolve().parents[2]
ANCHORS = calibration.anchors()


def row(run, off: float, rng, seed_spread: float = 0.02, draw_spread: float = 0.03) -> dict:
    """A row whose accuracies are the reported ones and `off` beside them."""
    centre = {fraction: dict.fromkeys(METRICS, 0.5) for fraction in ("0.01", "0.1", "1.0")}
    for anchor in ANCHORS.itertuples():
        if anchor.method == run.method and (np.isnan(anchor.tau_alpha) or anchor.tau_alpha == run.tau_alpha):
            centre[str(anchor.label_fraction)][anchor.metric] = anchor.reported + off + rng.normal(0, seed_spread)
    if run.method == "standard":
        centre["0.01"]["validation"] = 0.9 if run.tau_alpha == calibration.TAUS[0] else 0.8
    draws = {
        fraction: {
            name: [value] if fraction == "1.0" else list(value + rng.normal(0, draw_spread, calibration.DRAWS))
            for name, value in scores.items()
        }
        for fraction, scores in centre.items()
    }
    return {"status": "ok", "draws": draws, "metrics": means(draws)}


def rows_with(fitting, seeds=calibration.SEEDS, off=0.08) -> dict:
    """Rows of all candidates; those named fit, the others are `off` everywhere."""
    rng, rows = np.random.default_rng(0), {}
    for candidate in calibration.CANDIDATES:
        for run in calibration.runs(candidate, seeds):
            rows.setdefault(run.key, row(run, 0.0 if candidate.name in fitting else off, rng))
    return rows


def test_the_rule_finds_the_reading_that_fits():
    tables = calibration.candidates_with_rows(rows_with({"dropout 0.25"}))
    misfit = calibration.misfits(calibration.table(tables))
    assert len(misfit) == len(calibration.CANDIDATES) and misfit.index[0] == "dropout 0.25"
    assert misfit.iloc[0] < 1.5 < misfit.iloc[1]
    assert calibration.decide(calibration.summary(tables), calibration.tolerance(tables, 200)) == "dropout 0.25"
    assert calibration.finalists(misfit)[0] == "dropout 0.25"


def test_of_readings_that_fit_alike_the_plainest_is_taken():
    tables = calibration.candidates_with_rows(rows_with({"dropout 0.25", "every view blurred"}))
    misfit = calibration.misfits(calibration.table(tables))
    within = abs(misfit["dropout 0.25"] - misfit["every view blurred"]) + 1e-6
    compared = calibration.summary(tables)
    assert calibration.decide(compared, within) == "every view blurred"
    assert calibration.decide(compared[compared.candidate != "every view blurred"], 0.0) == "dropout 0.25"


def test_of_readings_alike_in_all_else_the_baseline_decides():
    """The one whose standard contrastive learning is nearer to the reported, though its other anchors fit less well."""
    compared = pd.DataFrame(
        {"candidate": ["dropout 0.25", "dropout 0.1"], "misfit": [2.0, 2.1], "standard": [3.0, 1.5]}
    )
    assert calibration.decide(compared, 0.2) == "dropout 0.1"
    assert calibration.decide(compared, 0.05) == "dropout 0.25"


def test_distances_are_in_units_of_what_seeds_and_draws_move():
    """Means off by one and the same amount are further away the less chance moves them; more seeds of ours help so far only."""
    rng = np.random.default_rng(1)

    def distance(seed_spread, draw_spread, seeds):
        rows = {}
        for run in calibration.runs(calibration.BASE, seeds):
            rows[run.key] = row(run, 0.1, rng, seed_spread, draw_spread)
        told = calibration.table({"base": calibration.measured(calibration.BASE, rows, seeds)})
        return told[(told.metric == "test_id") & (told.label_fraction == 0.01)].distance.mean()

    assert distance(0.02, 0.02, 40) > 1.5 * distance(0.06, 0.06, 40)
    expected = 0.1 / np.sqrt(0.02**2 * (1 / 40 + 1 / 5) + 0.03**2 * (1 / 800 + 1 / 5))
    assert distance(0.02, 0.03, 40) == pytest.approx(expected, rel=0.2)


def test_a_candidate_without_all_its_runs_is_not_judged():
    rows = rows_with(set())
    absent = calibration.runs(calibration.BASE)[0].key
    del rows[absent]
    assert calibration.BASE.name not in calibration.candidates_with_rows(rows)


def test_a_run_that_diverged_counts_as_chance_and_is_said():
    rows = rows_with(set())
    run = next(run for run in calibration.runs(calibration.BASE) if run.method == "color_jitter")
    nothing = {fraction: dict.fromkeys(METRICS) for fraction in ("0.01", "0.1", "1.0")}
    rows[run.key] = {"status": "diverged", "metrics": nothing, "draws": {}}
    told = calibration.candidates_with_rows(rows)[calibration.BASE.name]
    assert told[told.diverged].value.eq(0.5).all() and told.diverged.sum() == 7


def test_a_cell_that_did_not_collapse_fits_no_better_for_being_less_accurate():
    """Distances are capped: 0.80 where chance is reported is as far off as 0.87."""
    rng, rows = np.random.default_rng(4), rows_with(set(), off=0.0)
    for name, accuracy in (("dropout 0.1", 0.87), ("dropout 0.25", 0.80)):
        candidate = next(c for c in calibration.CANDIDATES if c.name == name)
        for run in calibration.runs(candidate):
            if run.method.startswith("dw_"):
                made = row(run, 0.0, rng)
                spread = 0.01 * rng.standard_normal(calibration.DRAWS)
                made["draws"]["0.01"]["validation"] = list(accuracy + spread)
                rows[run.key] = {**made, "metrics": means(made["draws"])}
    told = calibration.summary(calibration.candidates_with_rows(rows)).set_index("candidate").collapse
    assert (
        told["dropout 0.1"]
        == told["dropout 0.25"]
        == calibration.CAP
        > told.drop(["dropout 0.1", "dropout 0.25"]).max()
    )


def test_a_costly_reading_is_taken_only_where_no_other_fits_alike():
    names = ["twice the channels", "probe standardised", "first reading"]
    compared = pd.DataFrame({"candidate": names, "misfit": [1.0, 1.2, 2.0], "standard": 1.0})
    assert calibration.decide(compared, 0.3) == "probe standardised"
    assert calibration.decide(compared, 0.1) == "twice the channels"


def test_the_last_comparison_is_of_the_finalists_and_the_first_reading():
    few = rows_with({"dropout 0.25"})
    assert calibration.last_comparison(few) == {}
    all_seeds = rows_with({"dropout 0.25"}, calibration.SEEDS + calibration.MORE_SEEDS)
    found = calibration.last_comparison(all_seeds)
    assert len(found) == 3 and {"dropout 0.25", "first reading"} < set(found)
    assert all(table.seed.nunique() == 6 for table in found.values())


def test_the_better_candidates_on_one_seed_get_a_second():
    """Of the eleven that train networks of their own, five go on; the rows of the others on a second seed change nothing."""
    rows = rows_with({"dropout 0.25", "batches of 512"})
    misfit = calibration.first_round(rows)
    assert len(misfit) == len(calibration.CANDIDATES) and set(misfit.index[:2]) == {"dropout 0.25", "batches of 512"}
    stay = calibration.going_on(misfit)
    shared = {"literal crop, dropout 0.05", "probe standardised", "probe on directions", "domain probe on the labelled"}
    assert len(stay) == 5 + calibration.GO_ON and {"dropout 0.25", "batches of 512", "first reading"} | shared < set(
        stay
    )
    needed = {run.key for c in calibration.CANDIDATES for run in calibration.runs(c, 2 if c.name in stay else 1)}
    kept = {key: row for key, row in rows.items() if key in needed}
    assert len(kept) < len(rows)
    assert calibration.first_round(kept).equals(misfit)
    assert set(calibration.two_seeds(kept)) == set(calibration.two_seeds(rows)) == set(stay)
    more = rows_with({"dropout 0.25"}, calibration.SEEDS + calibration.MORE_SEEDS)
    assert len(calibration.last_comparison(kept | more)) == 3
    del kept[calibration.runs(calibration.CANDIDATES[0])[-1].key]
    assert calibration.last_comparison(kept) == {}


def test_the_first_round_measures_in_units_of_the_literal_reading():
    """One seed has no spread of its own: the same deviation is further away where the literal reading's seeds lie closer."""
    rng, sizes = np.random.default_rng(2), []
    for spread in (0.01, 0.05):
        rows = rows_with(set(), off=0.1)
        for run in calibration.runs(calibration.BASE):
            rows[run.key] = row(run, 0.0, rng, spread, 0.01)
        sizes.append(calibration.first_round(rows)["dropout 0.5"])
    assert sizes[0] > 1.2 * sizes[1]


def test_a_choice_of_the_weight_is_judged_with_the_other_anchors_of_the_literal_reading():
    weight = next(c for c in calibration.CANDIDATES if c.weight_only)
    base = {run.key for run in calibration.runs(calibration.BASE)}
    shared = {run.key for run in calibration.runs(weight)} & base
    assert len(shared) == 3 * calibration.SEEDS


@pytest.mark.parametrize("better", ["raw", "l2"])
def test_the_adversary_sees_what_its_own_validation_prefers(better):
    """By the best cell, not by the mean over cells; what diverged is at chance; nothing is decided while a run is missing."""
    made = calibration.adversary_runs(calibration.BASE)
    rows = {}
    for name, runs in made.items():
        for run in runs:
            best = (run.tau_alpha, run.lambda_) == (0.1, 1.0)
            value = (0.9 if best else 0.6) if name == better else 0.85
            rows[run.key] = {"metrics": {"0.01": {"validation": value}}}
    told = calibration.adversary_features(calibration.BASE, rows)
    assert list(told.features) == [better, "l2" if better == "raw" else "raw"]
    assert tuple(told.loc[0, ["tau_alpha", "lambda_", "validation"]]) == (0.1, 1.0, 0.9)
    best = next(r for r in made[better] if (r.tau_alpha, r.lambda_, r.seed) == (0.1, 1.0, readings.FIRST_SEED))
    rows[best.key] = {"metrics": {"0.01": {"validation": None}}}
    assert calibration.adversary_features(calibration.BASE, rows).features[0] != better
    del rows[best.key]
    assert calibration.adversary_features(calibration.BASE, rows) is None


def test_only_one_costly_finalist():
    misfit = calibration.misfits(
        calibration.table(calibration.candidates_with_rows(rows_with({"twice the channels", "dropout 0.1"})))
    )
    assert set(calibration.finalists(misfit)) == {"twice the channels", "dropout 0.1"}
    assert sum(c.cost >= calibration.COSTLY * calibration.BASE.cost for c in calibration.CANDIDATES) == 1


def test_the_tolerance_shrinks_with_seeds():
    few, many = (calibration.candidates_with_rows(rows_with(set(), seeds), seeds) for seeds in (2, 6))
    assert calibration.tolerance(many, 400) < calibration.tolerance(few, 400)


def test_prediction_intervals_hold_what_is_drawn_from_the_reading():
    tables = calibration.candidates_with_rows(rows_with({"dropout 0.25"}))
    others = [table for name, table in tables.items() if name != "dropout 0.25"]
    told = calibration.prediction_intervals(tables["dropout 0.25"], others=others)
    assert told.inside.mean() > 0.85
    off = calibration.prediction_intervals(tables["dropout 0"], others=others)
    assert off.inside.mean() < 0.5


def test_a_choice_is_settled_once_nothing_is_missing():
    nothing = calibration.choice({})
    assert len(nothing.summary) == 0 and nothing.taken is None and not nothing.settled
    assert nothing.in_words().startswith("0 of 16 candidates")
    two = calibration.choice(rows_with({"dropout 0.25"}))
    assert two.seeds == 2 and two.taken == "dropout 0.25" and not two.settled and "nothing is" in two.in_words()
    rows = rows_with({"dropout 0.25"}, calibration.SEEDS + calibration.MORE_SEEDS)
    six = calibration.choice(rows)
    assert six.seeds == 6 and len(six.tables) == 3 and six.settled and six.in_words().endswith("takes: dropout 0.25.")
    assert set(six.summary.candidate) == set(six.tables) and six.within == calibration.tolerance(six.tables)
    finalist = next(c for c in calibration.CANDIDATES if c.name in six.tables and c.name != "first reading")
    del rows[calibration.runs(finalist, 6)[5].key]  # its last seed of one cell
    assert not calibration.choice(rows).settled


def test_what_the_rule_said_of_the_rows_is_written_down():
    rows = Store(ROOT / "results").rows()
    first = calibration.first_round(rows)
    assert len(first) == len(calibration.CANDIDATES)
    rest = {c.name for c in calibration.CANDIDATES} - {*readings.WENT_ON}
    assert {*calibration.going_on(first)} - rest == {*readings.WENT_ON}
    second = calibration.two_seeds(rows)
    complete = {*second} == {*calibration.going_on(first)}
    assert {*readings.LAST} == (
        {*calibration.finalists(calibration.misfits(calibration.table(second)))} if complete else set()
    )
    chosen = calibration.choice(rows)
    assert readings.TAKEN == (chosen.taken if chosen.settled else None)
    if readings.TAKEN is not None:
        (taken,) = (c for c in calibration.CANDIDATES if c.name == readings.TAKEN)
        told = calibration.adversary_features(taken, rows)
        features = "raw" if told is None else told.features[0]
        assert Protocol() == replace(taken.protocol, dann_features=features)


def test_what_is_asked_for_follows_what_the_rule_said(monkeypatch):
    monkeypatch.setattr(readings, "TAKEN", None)
    asked = readings.asked(readings.FIRST)
    by_seed = {seed: {run for run in asked if run.seed == readings.FIRST_SEED + seed} for seed in range(6)}
    each = {run for c in calibration.CANDIDATES for run in calibration.runs(c, 1)}
    assert by_seed[0] == each and set(calibration.runs(calibration.BASE)) <= set(asked)
    fallen = next(c for c in calibration.CANDIDATES if c.name == "dropout 0.5")
    assert not {run for run in calibration.runs(fallen) if run.seed > readings.FIRST_SEED} & set(asked)
    monkeypatch.setattr(readings, "LAST", ("dropout 0.25", "dropout 0.1"))
    monkeypatch.setattr(readings, "TAKEN", "dropout 0.25")
    more = set(readings.asked(readings.FIRST))
    (taken,) = (c for c in calibration.CANDIDATES if c.name == "dropout 0.25")
    assert set(calibration.runs(taken, 6)) | set(calibration.runs(calibration.FIRST_READING, 6)) <= more
    assert {run for runs in calibration.adversary_runs(taken).values() for run in runs} <= more
    literal = {run for run in calibration.runs(calibration.BASE, 6) if run.seed > readings.FIRST_SEED + 1}
    assert not literal & more


def test_the_budget_is_kept():
    trained = {run.training for candidate in calibration.CANDIDATES for run in calibration.runs(candidate)}
    more = (
        max(len(readings.settings(c)) for c in calibration.CANDIDATES) * calibration.FINALISTS * calibration.MORE_SEEDS
    )
    assert len(calibration.CANDIDATES) <= 16 and len(trained) + more <= 250
    assert all(run.seed >= readings.FIRST_SEED for run in trained)


def test_the_first_reading_is_what_earlier_rows_were_trained_under():
    """Whatever the default becomes: a key of a stored row, and every field is written out."""
    import ast
    import inspect

    assert Run("standard", 0.05, protocol=calibration.FIRST).key == "c07d635c09d93073"
    call = next(
        node.value
        for node in ast.parse(inspect.getsource(readings)).body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "FIRST"
    )
    assert {keyword.arg for keyword in call.keywords} == {f.name for f in fields(Protocol)}


def test_a_choice_says_where_the_earlier_tie_break_would_have_taken_another():
    summary = pd.DataFrame(
        {"candidate": ["dropout 0.25", "dropout 0.1"], "misfit": [2.0, 2.2], "standard": [3.2, 1.9]}
    ).assign(departures=2, cost=0.27)
    for within, taken, said in ((0.3, "dropout 0.1", True), (0.1, "dropout 0.25", False)):
        made = calibration.Choice(pd.Series(dtype=float), {"dropout 0.25": summary, "dropout 0.1": summary}, 6, True)
        made.__dict__.update(summary=summary, within=within)
        assert made.taken == taken and made.by_misfit == "dropout 0.25"
        assert ("it would take dropout 0.25." in " ".join(made.in_words().split())) is said


@pytest.mark.parametrize("seeds", [2, 6])
def test_misfits_summed_by_other_arithmetic_are_the_same(seeds):
    """On made-up rows whose readings differ, and where a run diverged."""
    rows = rows_with({"dropout 0.25"}, seeds)
    diverged = calibration.runs(calibration.FIRST_READING, seeds)[0]
    assert diverged.method == "standard"
    nothing = {fraction: dict.fromkeys(METRICS) for fraction in ("0.01", "0.1", "1.0")}
    draws = {
        fraction: {name: [None] * len(each) for name, each in scores.items()}
        for fraction, scores in rows[diverged.key]["draws"].items()
    }
    rows[diverged.key] = {"status": "diverged", "draws": draws, "metrics": nothing}
    apart = ("dropout 0.25", "dropout 0.1", "first reading", "batches of 512")
    tables = {name: t for name, t in calibration.candidates_with_rows(rows, seeds).items() if name in apart}
    ours = calibration.misfits(calibration.table(tables))
    again = summed_again.misfits(rows, list(tables), seeds)
    assert {name: pytest.approx(value, abs=1e-9) for name, value in ours.items()} == again
    assert len(set(np.round(list(again.values()), 6))) == 4 and min(again, key=lambda name: again[name]) == apart[0]


def test_what_the_chapter_says_of_the_cap_holds_for_the_rows(monkeypatch):
    """'Without a cap dropout 0.1 would be taken outright' of those compared last: no other fits alike then."""
    tables = calibration.last_comparison(Store(ROOT / "results").rows())
    monkeypatch.setattr(calibration, "CAP", float("inf"))
    summary, within = calibration.summary(tables), calibration.tolerance(tables)
    alike = summary[summary.misfit <= summary.misfit.min() + within]
    assert alike.candidate.tolist() == ["dropout 0.1"] == [calibration.decide(summary, within)]
