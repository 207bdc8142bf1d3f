"""What the appendix on the earlier rule shows, on made-up contrasts and rows."""

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dtcl_core.analysis.contrasts import Contrast
from dtcl_core.analysis.intervals import mean_interval
from dtcl_core.report import earlier_rule


def test_power_is_the_spread_of_paired_differences_and_what_five_seeds_make_of_it():
    rng = np.random.default_rng(0)
    values = {n: rng.normal(0, 0.1, n) for n in (5, 10)}
    contrasts = [Contrast("a", mean_interval(v), metric="test_id") for v in values.values()]
    contrasts.append(Contrast("too few", mean_interval([0.0, 5.0]), metric="test_id"))
    table = earlier_rule.power(contrasts).set_index("accuracy")
    spread = np.sqrt(np.mean([np.var(v, ddof=1) for v in values.values()]))
    assert table.contrasts.to_dict() == {"Test-OOD": 0, "Test-ID": 2} and np.isnan(table.spread["Test-OOD"])
    assert table.spread["Test-ID"] == pytest.approx(spread)
    assert table["reach of five seeds"]["Test-ID"] == pytest.approx(spread * stats.t.ppf(0.975, 4) / np.sqrt(5))
    assert table["the paper's difference"]["Test-OOD"] == pytest.approx(0.029, abs=5e-4)  # (0.819 + 0.807) / 2 - 0.784


def line(key, **fields):
    cell = {"tau_alpha": 0.1, "tau_beta": float("nan"), "lambda_": float("nan"), "discriminator": None}
    about = {"method": "standard", "seed": 3, "sigma": 50.0, "label_fraction": 0.01}
    return {"key": key, **about, **cell, **fields}


def test_seeds_that_score_another_cell_are_listed():
    plain = pd.DataFrame([line("a"), line("b", seed=4)])
    weighted = {"method": "dw_pairs", "tau_beta": 1.0, "tau_alpha": 0.175}
    other = pd.DataFrame([
        line("a"), line("c", seed=4, tau_alpha=0.2), line("d", seed=4, label_fraction=0.1), line("e", sigma=100.0),
        line("f", **weighted, discriminator="batch"), line("g", **weighted, discriminator="global"),
    ])  # fmt: skip
    assert earlier_rule.scored_otherwise(plain, other) == [
        "Seed 4 scores Standard CL with 0.2.", "Seed 3 scores Domain-Weighted Pairs with 0.175/1.",
    ]  # fmt: skip
    assert earlier_rule.scored_otherwise(plain, plain) == []


def test_a_method_without_fresh_runs_has_none():
    asked = [SimpleNamespace(method=method) for method in ("standard", "mmd") for _ in range(2)]
    found = pd.DataFrame({"method": ["standard"] * 4, "seed": [1, 1, 2, 2], "key": ["a", "a", "b", "b"]})
    assert earlier_rule.counted_fresh(asked, found) == "2 of 4 fresh runs are stored, 0 or more a method."
    assert earlier_rule.counted_fresh(asked[:2], found) == "2 of 2 fresh runs are stored, 2 or more a method."
    assert earlier_rule.counted_fresh([], found.iloc[:0]).startswith("0 of 0 ")


def test_the_finding_hangs_on_the_verdicts(monkeypatch):
    earlier = earlier_rule.EarlierRule("first")
    table = earlier.verdicts()
    said = earlier.finding().text
    assert said.startswith(f"**Found, {earlier_rule.FINDING.date}: by the earlier rule") and "Of 15 claims" in said
    assert not re.search(r"\d", re.sub(r"\{[^}]*\}", "", earlier_rule.FINDING.text)), "a number is typed"
    for number, word in ((1, "reproduced"), (6, "open"), (4, "open")):
        other = table.assign(verdict=table.verdict.mask(table.claim == number, word))
        monkeypatch.setattr(earlier, "verdicts", lambda other=other: other)
        with pytest.raises(ValueError, match="no longer true of the rows"):
            earlier.finding()
    smoke = earlier_rule.EarlierRule("smoke")
    assert smoke.finding().text == smoke.counted().replace("\n", "; "), "other rows get no sentence about these"
