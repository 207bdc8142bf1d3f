"""What the chapter on the losses shows, on made-up trainings."""

import numpy as np
import pandas as pd
import pytest
import torch

from dtcl_core import InfoNCELoss, results
from dtcl_core.report import losses_elsewhere
from dtcl_core.report.losses_elsewhere import PROBED, Trainings

LOSSES = ("InfoNCE", "negatives", "mine")


def entries(seeds, **gains) -> pd.DataFrame:
    """A line a loss and seed: InfoNCE has 0.5 and a wobble, the others what `gains` adds to it, and a small wobble of their own."""
    rng, lines = np.random.default_rng(0), []
    for seed in seeds:
        for loss in LOSSES:
            gain = 0.0 if loss == "InfoNCE" else gains.get(loss, 0.0) + rng.normal(0, 0.01)
            lines.append((loss, seed, 3, "abc", *(0.5 + 0.01 * (seed % 4) + gain for _ in PROBED)))
    return pd.DataFrame(lines, columns=[*losses_elsewhere.WHICH, *PROBED])


def of(rows, earlier=None):
    return Trainings(rows, entries([]) if earlier is None else earlier, LOSSES, 60, 3)


def test_losses_have_the_titles_of_methods_and_a_readers_own_its_own():
    means = of(entries(range(20), negatives=0.1, mine=-0.1)).means()
    assert means.loss.tolist() == ["InfoNCE", "Domain-Weighted Negatives", "mine"] and means.n.tolist() == [20] * 3
    assert means.domain.round(1).tolist() == [0.5, 0.6, 0.4]


def test_a_star_and_a_side_are_of_intervals_that_exclude_zero():
    told = of(entries(range(20), negatives=0.1, mine=-0.1))
    table = told.differences().set_index(["loss", "accuracy of"])
    assert set(table[""]) == {"*"} and table.difference["Domain-Weighted Negatives", "domain"] == pytest.approx(
        0.1, abs=0.02
    )
    assert told.sides().splitlines() == [
        f"{name}: above InfoNCE: Domain-Weighted Negatives; below InfoNCE: mine" for name in PROBED
    ]
    alike = of(entries(range(20), negatives=0.1))
    assert "not told apart: mine" in alike.sides()
    assert set(alike.differences().query("loss == 'mine'")[""]) == {" "}


def test_what_fewer_seeds_told_apart_and_more_do_not_is_named_and_counted():
    told = of(entries(range(20)), entries(range(20, 30), negatives=0.1)).then_and_now()
    lines = told.splitlines()
    assert lines[0] == "Domain-Weighted Negatives" and lines[1].startswith("    then 0.097 [") and lines[3] == "mine"
    assert lines[2].startswith("    now -0.003 [") and lines[2].endswith("n = 20: no longer excludes zero")
    assert told.count("no longer") == 1 and lines[-1].startswith("For 1 of 2 losses")
    held = of(entries(range(20), negatives=0.1), entries(range(20, 30), negatives=0.1)).then_and_now()
    assert "no longer" not in held and len(held.splitlines()) == 6
    only_then = of(entries([]), entries(range(10))).then_and_now()
    assert "now" not in only_then and len(only_then.splitlines()) == 4


def test_nothing_is_said_without_rows():
    none = of(entries([]))
    assert none.counted() == "0 of 60 trainings of 3 epochs are stored."
    assert none.means().empty and none.differences().empty and none.sides() == "" == none.then_and_now()


def view(x):
    return x


def test_other_code_another_colour_and_another_setting_have_another_fingerprint():
    colors, losses = torch.eye(3), {"InfoNCE": lambda known: InfoNCELoss(0.1)}
    same = losses_elsewhere.fingerprint([view], colors, losses)
    assert same == losses_elsewhere.fingerprint([view], colors, losses) and len(same) == 8
    others = [
        losses_elsewhere.fingerprint([entries], colors, losses),
        losses_elsewhere.fingerprint([view], 2 * colors, losses),
        losses_elsewhere.fingerprint([view], colors, {"InfoNCE": lambda known: InfoNCELoss(0.2)}),
        losses_elsewhere.fingerprint([view], colors, {"other": losses["InfoNCE"]}),
    ]
    assert len({same, *others}) == 5


def test_what_is_stored_is_not_trained_again(tmp_path, monkeypatch):
    monkeypatch.setenv("DTCL_RESULTS", str(tmp_path))
    trained = []

    def train(make, seed):
        trained.append((make(None), seed))
        return dict.fromkeys(PROBED, 0.25)

    losses = {"InfoNCE": lambda known: "plain", "pairs": lambda known: "pairs"}
    ask = lambda seeds, train=None, code="abc": losses_elsewhere.trainings(losses, code, seeds, 3, train)
    assert len(ask([10, 11]).rows) == 0 and not trained
    first = ask([10, 11], train)
    assert trained == [("plain", 10), ("pairs", 10), ("plain", 11), ("pairs", 11)]
    assert first.counted() == "4 of 4 trainings of 3 epochs are stored."
    more = ask([11, 12], train)
    assert len(trained) == 6 and len(more.rows) == 4 and set(more.earlier.seed) == {10}
    assert len(ask([10, 11], code="other").rows) == 0
    assert {"commit", "torch", "device"} <= set(results.entries(tmp_path / "own_data")[0])


def test_fits_that_cost_more_than_the_loss_are_listed():
    costs = pd.DataFrame({"batch": 256, "width": 128, "domains": [2, 50], "plain_ms": [2.0, 2.0], "fit_ms": [1.0, 3.0]})
    told = losses_elsewhere.dearer_fits(costs).splitlines()
    assert told[0].endswith("in 1 of 2 settings.") and told[1:] == [
        "1.5 times as much: batch 256, width 128, 50 domains"
    ]
    assert losses_elsewhere.dearer_fits(costs.iloc[:0]) == ""


def test_the_fullest_entries_are_of_one_code_and_length(monkeypatch):
    lines = [
        ("InfoNCE", seed, 5, code, 0.1, 0.2, 0.3) for code, count in (("old", 3), ("new", 2)) for seed in range(count)
    ]
    made = pd.DataFrame(lines, columns=[*losses_elsewhere.WHICH, *losses_elsewhere.PROBED])
    monkeypatch.setattr(losses_elsewhere, "entries", lambda: made)
    assert set(losses_elsewhere.fullest().code) == {"old"} and len(losses_elsewhere.fullest()) == 3
    monkeypatch.setattr(losses_elsewhere, "entries", lambda: made.iloc[:0])
    assert losses_elsewhere.fullest().empty
