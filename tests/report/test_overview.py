"""All claims at once, and whether their verdicts depend on the reading of the paper."""

import pandas as pd

from dtcl_core.analysis import verdicts
from dtcl_core.analysis.verdicts import Ruling
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
