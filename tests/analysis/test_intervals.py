"""Intervals and corrections against scipy, closed forms and definitions."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dtcl_core.analysis import intervals


def test_mean_interval_is_scipys():
    x = [0.7, 0.8, 0.75, 0.9]
    interval = intervals.mean_interval(x)
    theirs = stats.ttest_1samp(x, 0).confidence_interval(0.95)
    assert interval.mean == pytest.approx(np.mean(x)) and interval.n == 4
    assert (interval.low, interval.high) == pytest.approx((theirs.low, theirs.high))


def test_mean_interval_of_few_values():
    assert intervals.mean_interval([]).n == 0
    one = intervals.mean_interval([0.5, np.nan])
    assert one.n == 1 and one.mean == 0.5 and np.isnan(one.low)
    assert intervals.mean_interval([0.5, 0.5])[:3] == (0.5, 0.5, 0.5)


def test_the_interval_covers_as_often_as_it_says():
    generator = np.random.default_rng(0)
    hits = [i.low <= 0 <= i.high for i in (intervals.mean_interval(generator.normal(size=3)) for _ in range(2000))]
    assert np.mean(hits) == pytest.approx(0.95, abs=0.015)


def test_an_accuracys_interval_stays_where_accuracies_are():
    values = [0.99, 1.0, 0.97, 1.0]
    whole, kept = intervals.mean_interval(values), intervals.accuracy_interval(values)
    assert whole.high > 1 and kept == whole._replace(high=1.0)
    assert intervals.accuracy_interval([0.0, 0.01]).low == 0.0
    assert intervals.accuracy_interval([0.5, 0.51]) == intervals.mean_interval([0.5, 0.51])
    assert str(intervals.accuracy_interval([0.5])) == "0.500" and np.isnan(intervals.accuracy_interval([]).high)


def test_paired_difference_uses_common_seeds_only():
    a, b = pd.Series([0.9, 0.8, 0.7], index=[0, 1, 2]), pd.Series([0.5, 0.7, 0.1], index=[1, 0, 9])
    d = intervals.paired_difference(a, b)
    theirs = stats.ttest_rel([0.9, 0.8], [0.7, 0.5]).confidence_interval(0.95)
    assert d.n == 2 and d.mean == pytest.approx(0.25) and (d.low, d.high) == pytest.approx((theirs.low, theirs.high))


def test_unrelated_seeds_are_compared_by_welchs_interval():
    generator = np.random.default_rng(0)
    a, b = generator.normal(0.2, 0.1, 5), generator.normal(0.0, 0.3, 3)
    told = intervals.unpaired_difference(a, [*b, np.nan])
    theirs = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert told == pytest.approx((a.mean() - b.mean(), theirs.low, theirs.high, 3))
    assert intervals.unpaired_difference([1.0, 1.0], [0.5, 0.5]) == (0.5, 0.5, 0.5, 2)
    one, none = intervals.unpaired_difference([1.0], [0.5, 0.6]), intervals.unpaired_difference([], [0.5])
    assert one.mean == pytest.approx(0.45) and np.isnan(one.low) and np.isnan(none.mean) and none.n == 0


def by_definition(p_values, alpha=0.05):
    """Holm's correction as it is written: which hypotheses are rejected."""
    rejected, order = set(), sorted(range(len(p_values)), key=lambda i: p_values[i])
    for k, place in enumerate(order):
        if p_values[place] > alpha / (len(p_values) - k):
            break
        rejected.add(place)
    return rejected


def test_intervals_at_holms_confidences_exclude_zero_where_holm_rejects():
    draw = np.random.default_rng(1)
    counts = set()
    for _ in range(50):
        family = [draw.normal(shift, 1, 8) for shift in (0, 0.5, 1, 1.5, 2, 3)]
        p_values = [intervals.p_value(x) for x in family]
        found = [intervals.mean_interval(x, c) for x, c in zip(family, intervals.holm_confidences(p_values))]
        apart = {i for i, interval in enumerate(found) if interval.low > 0 or interval.high < 0}
        assert apart == by_definition(p_values)
        counts.add(len(apart))
    assert len(counts) > 3, "the families do not differ enough to tell"


def test_a_p_value_without_spread_or_pairs():
    assert intervals.p_value([0.0, 0.0]) == 1 and intervals.p_value([0.1, 0.1]) == 0 and intervals.p_value([0.3]) == 1
    assert intervals.p_value([0.1, np.nan, -0.2, 0.4]) == pytest.approx(stats.ttest_1samp([0.1, -0.2, 0.4], 0).pvalue)
