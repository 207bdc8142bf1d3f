"""Backbone and head, each probed."""

import numpy as np
import pandas as pd
import pytest

from dtcl_core import evaluate, pretrain
from dtcl_core.config import METRICS, Run
from dtcl_core.experiments import REGISTRY
from dtcl_core.launch import engines
from dtcl_core.methods import METHODS
from dtcl_core.report import heads
from dtcl_core.results import Store


def lines_of(**accuracies):
    """A line a seed, all metrics alike, for each cell "method head place"."""
    found = []
    for cell, values in accuracies.items():
        method, head, place = cell.split("__")
        for seed, value in enumerate(values):
            found.append((method, head, place, 0.1, seed, *[value] * len(METRICS)))
    return pd.DataFrame(found, columns=[*heads.CELL, "seed", *METRICS])


def test_a_head_is_probed_as_the_backbone_is_but_behind_it(tiny, tmp_path):
    runs = [Run("standard", 0.2, projector="mlp", projector_dim=4, protocol=tiny), Run("standard", 0.2, protocol=tiny)]
    store = Store(tmp_path)
    engines.compute(runs, store, "cpu")
    found = heads.probed(runs, store)
    assert list(zip(found["head"], found.place)) == [("mlp 4", "backbone"), ("mlp 4", "head"), ("none", "backbone")]
    encoder = store.encoder(store.rows()[runs[0].key])
    encoder.head = encoder.head[:0]  # a head that passes on what it gets: the row's own numbers, but for rounding
    own = store.rows()[runs[0].key]["metrics"]["0.01"]
    assert heads.probed_behind(encoder, runs[0], 0.01) == pytest.approx(own, abs=0.03)
    stack = pretrain.train(runs[:1], "cpu")
    told = evaluate.evaluate(stack)[runs[0].key]["0.01"]
    assert own == pytest.approx(told, abs=0.03)


def test_differences_are_paired_by_seed_within_a_head_a_place_and_a_temperature():
    lines = lines_of(
        standard__none__backbone=[0.5, 0.7, 0.6],
        dw_pairs__none__backbone=[0.6, 0.8, 0.71],
        standard__mlp__backbone=[0.9, 0.9, 0.8],
        standard__mlp__head=[0.5, 0.6, 0.4],
        macl__mlp__head=[0.4, 0.7, 0.4],
    )
    more = heads.beside_standard(lines, "test_ood")
    assert list(more.method) == ["Domain-Weighted Pairs", "MACL"]
    np.testing.assert_allclose(more["mean"], [0.31 / 3, 0.0], atol=1e-12)
    assert list(more[""]) == ["*", " "] and list(more.n) == [3, 3]
    lower = lines_of(standard__none__backbone=[0.4, 0.4, 0.4]).assign(tau_alpha=0.05)
    beside = heads.beside_standard(pd.concat([lines, lower]), "test_ood", 0.05)
    assert list(beside.method) == ["Domain-Weighted Pairs"], "beside a standard loss that was not run there"
    assert beside["mean"].item() == pytest.approx(0.91 / 3) and beside.tau_alpha.item() != 0.05
    (between,) = heads.behind(lines[lines.method == "standard"], "test_ood").itertuples()
    assert between.mean == pytest.approx(1.1 / 3) and between.n == 3
    assert len(heads.means(lines, "test_ood")) == 5
    assert heads.means(lines[:0], "test_ood").empty and heads.beside_standard(lines[:0], "test_ood").empty
    assert heads.behind(lines[:0], "test_ood").empty


def test_the_question_is_asked_with_standards_at_every_temperature_that_the_weights_reach():
    runs = REGISTRY["heads_and_temperatures"].runs("core")
    plain = {(run.projector, run.tau_alpha) for run in runs if run.method == "standard"}
    for run in runs:
        assert (run.projector, run.tau_alpha) in plain
        if run.tau_beta is not None:
            lowest = run.tau_alpha - run.tau_beta / 2
            assert lowest > run.protocol.tau_min
            assert any(head == run.projector and abs(tau - lowest) < 1e-9 for head, tau in plain)
    assert {run.method for run in runs} - METHODS.keys() == {"macl", "isogclr"}
    assert {run.seed for run in runs} == set(range(5)) and len(runs) == 90
