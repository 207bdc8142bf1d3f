"""Intervals over seeds, beside scipy and closed forms."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dtcl_study import compare


def test_an_interval_is_students():
    values = [0.9, 0.92, 0.95, 0.87, 0.91]
    found = compare.mean(values, 0.9)
    reach = stats.t.ppf(0.95, 4) * np.std(values, ddof=1) / 5**0.5
    assert found == pytest.approx((np.mean(values), np.mean(values) - reach, np.mean(values) + reach, 5))


def test_missing_values_do_not_count_and_one_seed_has_no_interval():
    assert compare.mean([0.5, np.nan, 0.7]).n == 2
    one = compare.mean([0.5, np.nan])
    assert one.mean == 0.5 and np.isnan(one.low) and one.n == 1 and one.text() == "0.500"
    assert compare.mean([]).n == 0 and compare.mean([]).text() == "–"


def test_a_limit_near_zero_shows_its_side():
    assert compare.Interval(0.004, 0.0002, 0.008, 5).text(True) == "+0.004 [+0.0002, +0.008]"
    assert compare.Interval(0.004, 0.0, 0.008, 5).text(True) == "+0.004 [+0.000, +0.008]"
    assert compare.Interval(0.004, -0.00006, 0.008, 5).text(True) == "+0.004 [-0.00006, +0.008]"
    assert compare.limit(0.000096) == "0.0001" and compare.limit(1e-17, True) == "+0.000"


def test_values_without_spread_have_an_interval_without_width():
    assert compare.mean([0.5, 0.5, 0.5]) == (0.5, 0.5, 0.5, 3)
    assert compare.mean([0.3 - 0.1, 0.2]) == pytest.approx((0.2, 0.2, 0.2, 2)), "equal but for rounding"
    assert compare.mean([1e-17, 0.0, 0.0]) == (0.0, 0.0, 0.0, 3), "which is on no side of zero"


def test_a_small_spread_has_an_interval_with_a_width():
    assert compare.mean([0.1, 0.1001]).low < 0.1


def test_accuracies_are_cut_where_none_can_be():
    found = compare.accuracy([1.0, 0.9, 1.0])
    assert found.high == 1.0 and found.low < found.mean < 1.0


@pytest.mark.parametrize(("between", "within"), [(0.02, 0.0), (0.02, 0.05), (0.0, 0.05)])
def test_a_prediction_interval_covers_the_mean_of_others_seeds_as_often_as_it_says(between, within):
    """Two studies of the same truth: ours has 20 draws of labels a seed, the other one."""
    rng, covered = np.random.default_rng(0), []
    for _ in range(2000):
        ours, theirs = (0.7 + rng.normal(0, between, (5, 1)) + rng.normal(0, within, (5, k)) for k in (20, 1))
        found = compare.predicted(ours.tolist(), 5)
        covered.append(found.low < theirs.mean() < found.high)
    assert np.mean(covered) == pytest.approx(0.95, abs=0.015)


def test_a_prediction_interval_without_draws_is_students_and_ends_where_accuracies_do():
    values = [0.5, 0.55, 0.6, 0.62, 0.7]
    found = compare.predicted([[value] * 20 for value in values], 7)
    half = stats.t.ppf(0.975, 4) * np.std(values, ddof=1) * (1 / 5 + 1 / 7) ** 0.5
    assert (found.low, found.high) == pytest.approx((np.mean(values) - half, np.mean(values) + half))
    assert compare.predicted([[0.1] * 2, [0.9] * 2], 5)[1:3] == (0.0, 1.0)


def test_a_prediction_interval_of_one_seed_has_no_ends():
    found = compare.predicted([[0.6, 0.8]], 5)
    assert found.mean == pytest.approx(0.7) and np.isnan(found.low) and np.isnan(found.high) and found.n == 1


def test_differences_are_paired_by_seed_and_refuse_a_seed_twice():
    one, other = pd.Series({0: 0.5, 1: 0.7, 2: 0.9}), pd.Series({1: 0.6, 2: 0.7, 3: 0.1})
    assert compare.difference(one, other).to_dict() == pytest.approx({1: 0.1, 2: 0.2})
    twice = pd.concat([one, pd.Series({1: 0.2})])
    for pair in ((twice, other), (other, twice)):
        with pytest.raises(ValueError, match="seed 1 has several values"):
            compare.paired(*pair)


def test_rows_of_two_configurations_are_not_pooled():
    rows = pd.DataFrame({"seed": [0, 0, 1], "projector": [None, "mlp", None], "test_id": [0.5, 0.9, 0.6]})
    with pytest.raises(ValueError, match="seed 0 has several rows"):
        compare.by_seed(rows, "test_id")
    assert compare.by_seed(rows, "test_id", projector=None).to_dict() == {0: 0.5, 1: 0.6}
    assert compare.by_seed(rows, "test_id", projector="mlp").to_dict() == {0: 0.9}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("method", ("mmd", "dann")),
        ("discriminator", ("global", "batch")),
        ("sigma", (25.0, 50.0)),
        ("projector", (None, "mlp")),
        ("projector_dim", (4.0, 8.0)),
        ("label_fraction", (0.01, 0.1)),
    ],
)
def test_rows_of_one_mean_are_alike(name, values):
    apart = pd.DataFrame({"seed": [0, 1], name: values, "test_id": [0.5, 0.9]})
    with pytest.raises(ValueError, match=f"rows have several values of {name} "):
        compare.by_seed(apart, "test_id")
