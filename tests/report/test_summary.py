"""What the summary says is hard is what the rows say, and a sentence that they do not bear is refused."""

import pandas as pd
import pytest

from dtcl_core.report import findings, summary
from dtcl_core.report.findings import Rows


def test_the_rows_bear_what_was_hard():
    said = summary.hard().text
    assert said.startswith(f"**Found, {summary.HARD.date}:** 45 settings of ours")


@pytest.fixture
def fresh():
    """Ten seeds of each method with a standard deviation of its own."""
    deviations = {
        "standard": 0.10,
        "same_domain": 0.08,
        "mmd": 0.07,
        "dann": 0.09,
        "dw_negatives": 0.11,
        "dw_pairs": 0.14,
    }
    lines = [
        {"method": method, "level": None, "seed": seed, "test_ood": 0.6 + sd * (2 * (seed % 2) - 1) * 0.9**0.5}
        for method, sd in deviations.items()
        for seed in range(10)
    ]
    return pd.DataFrame([*lines, {"method": "color_jitter", "level": None, "seed": 0, "test_ood": 0.9}])


def test_the_noise_is_that_of_seeds_by_method_without_the_oracle(fresh):
    x = summary.noise(Rows((), fresh))
    assert (x["least"], x["most"], x["n"]) == (pytest.approx(0.07), pytest.approx(0.14), 10)
    assert x["times"] == pytest.approx(0.07 / x["claimed"]) and x["times_most"] == pytest.approx(0.14 / x["claimed"])
    assert 0.03 < x["claimed"] < 0.04 and 0 < x["upheld"] < 0.5
    assert summary.HARD.sentence(Rows((), fresh))


def test_seeds_that_agree_are_not_called_hard(fresh, monkeypatch):
    alike = fresh.assign(test_ood=0.6 + 0.1 * (fresh.test_ood - 0.6))
    with pytest.raises(ValueError, match="no longer true of the rows"):
        summary.HARD.sentence(Rows((), alike))
    monkeypatch.setattr(
        summary.operating_characteristics, "stored", lambda: pd.DataFrame(columns=["claim", "seeds", "truth"])
    )
    with pytest.raises(ValueError, match="no longer true of the rows"):
        summary.HARD.sentence(Rows((), fresh))


def test_training_is_counted_once_a_run_and_dated():
    rows = pd.DataFrame({"key": ["a", "a", "b"], "seconds": [3600.0, 3600.0, 7200.0]})
    assert summary.behind(rows) == f"Found, {summary.written()}, from 2 runs, 3 hours of training."
    assert summary.written() == max(findings.FINDINGS[name].date for name in findings.ANSWER)
