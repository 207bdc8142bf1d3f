import numpy as np
import pytest
import torch
from scipy import stats

from dtcl_core import keyed


def test_raw_words_never_change():
    # Results are keyed by these words: a change here orphans every row ever stored.
    assert [hex(w) for w in keyed.raw(3, 0, "crop", 7)] == [
        "0xfdd0552305cc9fdd",
        "0xb275540c5f7eaca3",
        "0xc34f496a286f9d52",
    ]


def test_a_draw_depends_on_its_key_alone():
    first = keyed.uniform(5, 3, "crop", 1)
    keyed.uniform(1000, 4, "crop", 1)
    assert np.array_equal(first, keyed.uniform(5, 3, "crop", 1))
    for other in [(4, "crop", 1), (3, "blur", 1), (3, "crop", 2), (3, "crop", 11)]:
        assert not np.array_equal(first, keyed.uniform(5, *other))


def test_a_longer_draw_begins_with_the_shorter_one():
    assert np.array_equal(keyed.uniform(10, 0, "x")[:4], keyed.uniform(4, 0, "x"))


def test_distributions():
    assert stats.kstest(keyed.uniform(20_000, 0, "u"), "uniform").pvalue > 0.01
    assert stats.kstest(keyed.normal(20_000, 0, "n"), "norm").pvalue > 0.01
    counts = np.bincount(keyed.bits16(200_000, 0, "b") >> 12, minlength=16)
    assert stats.chisquare(counts).pvalue > 0.01


def test_permutation_holds_every_index_once():
    order = keyed.permutation(1000, 0, "p")
    assert sorted(order) == list(range(1000)) and not np.array_equal(order, np.arange(1000))


@pytest.mark.parametrize("count", [1, 16, 1000])
def test_a_device_draws_the_same_bits(count):
    keys = [(seed, "dropout", 3, 1) for seed in range(20)]
    drawn = keyed.bits16_on(torch.device("cpu"), count, keys)
    assert np.array_equal(drawn.numpy(), np.stack([keyed.bits16(count, *key) for key in keys]))
