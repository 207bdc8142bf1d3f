"""The rule of `calibration`, on made-up rows."""

import numpy as np
import pytest

from dtcl_core import calibration
from dtcl_core.config import Protocol
from dtcl_core.evaluate import METRICS, means

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
    assert calibration.decide(misfit, calibration.tolerance(tables, 200)) == "dropout 0.25"
    assert calibration.finalists(misfit)[0] == "dropout 0.25"


def test_of_readings_that_fit_alike_the_plainest_is_taken():
    tables = calibration.candidates_with_rows(rows_with({"dropout 0.25", "every view blurred"}))
    misfit = calibration.misfits(calibration.table(tables))
    within = abs(misfit["dropout 0.25"] - misfit["every view blurred"]) + 1e-6
    assert calibration.decide(misfit, within) == "every view blurred"
    assert calibration.decide(misfit.drop("every view blurred"), 0.0) == "dropout 0.25"


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
    rows[absent] = {"status": "diverged"}
    assert calibration.BASE.name not in calibration.candidates_with_rows(rows)


def test_a_choice_of_the_weight_is_judged_with_the_other_anchors_of_the_literal_reading():
    weight = next(c for c in calibration.CANDIDATES if c.weight_only)
    base = {run.key for run in calibration.runs(calibration.BASE)}
    shared = {run.key for run in calibration.runs(weight)} & base
    assert len(shared) == 3 * calibration.SEEDS


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


def test_the_budget_is_kept():
    trained = {run.training for candidate in calibration.CANDIDATES for run in calibration.runs(candidate)}
    more = (
        max(len(calibration.settings(c)) for c in calibration.CANDIDATES)
        * calibration.FINALISTS
        * calibration.MORE_SEEDS
    )
    assert len(calibration.CANDIDATES) <= 16 and len(trained) + more <= 250
    assert all(run.seed >= calibration.FIRST_SEED for run in trained)


def test_the_first_reading_is_what_earlier_rows_were_trained_under():
    """Whatever the default becomes, the protocol of the rows stored before keeps its name and its keys."""
    assert calibration.FIRST.canonical() == Protocol(**{**FIRST_FIELDS}).canonical()


FIRST_FIELDS = {
    "crop_scale": (0.2, 1.0),
    "dropout": 0.1,
    "blur_probability": 0.5,
    "channels": (16, 16, 32),
    "batch_size": 256,
    "tau_min": 0.01,
    "label_draws": 1,
}
