"""Selection on hand-made rows."""

import json

import numpy as np
import pandas as pd
import pytest
from made_up import frame, standard

from dtcl_core.config import Run
from dtcl_study import selection


def by_table(values):
    """Accuracy of `validation` by (tau_alpha, seed); other accuracies are half of it."""
    return lambda run, fraction, metric: values[run.tau_alpha, run.seed] * (1.0 if metric == "validation" else 0.5)


VALUES = {(0.05, 0): 0.9, (0.05, 1): 0.5, (0.05, 2): 0.6, (0.1, 0): 0.7, (0.1, 1): 0.8, (0.1, 2): 0.6}


def test_only_one_percent_of_the_labels_counts():
    def accuracy(run, fraction, metric):
        return 0.6 if fraction == 0.01 and run.tau_alpha == 0.05 else 0.5 if fraction == 0.01 else 0.9 * (run.tau_alpha == 0.1)

    assert selection.select(frame(standard(), accuracy)).tau_alpha.tolist() == [0.05]


def test_ties_go_to_the_smaller_temperature_then_beta():
    runs = [Run("dw_pairs", a, b, seed=s) for a in (0.2, 0.1) for b in (1.0, 0.5) for s in range(2)]
    chosen = selection.select(frame(runs))
    assert (chosen.tau_alpha[0], chosen.tau_beta[0]) == (0.1, 0.5)


def test_rounding_decides_no_tie():
    values = {0.05: (0.9, 0.8, 0.7, 0.1), 0.1: (0.1, 0.7, 0.8, 0.9)}  # the means are 0.625, and as floats the first is larger
    assert sum(values[0.05]) != sum(values[0.1])
    for order in (1, -1):
        told = dict(zip((0.05, 0.1), list(values.values())[::order]))
        rows = frame(standard(seeds=range(4)), lambda run, f, metric: told[run.tau_alpha][run.seed])
        assert selection.select(rows).tau_alpha.tolist() == [0.05]
        found = selection.reselected(rows)
        assert found[found.selected].tau_alpha.tolist() == [0.05]


def test_each_method_discriminator_sigma_and_head_competes_by_itself():
    runs = [
        *standard(),
        *standard(sigma=25.0),
        *standard(projector="mlp", projector_dim=4),
        *(Run("dw_pairs", 0.1, 0.5, seed=s, discriminator=kind) for kind in ("global", "batch") for s in range(2)),
    ]
    assert len(selection.select(frame(runs))) == 5


def test_rows_of_two_protocols_are_refused():
    rows = frame(standard())
    with pytest.raises(ValueError, match="standard has a configuration twice on seed 0"):
        selection.select(pd.concat([rows, rows]))


def test_no_seed_scores_its_own_choice():
    found = selection.leave_one_seed_out(frame(standard(), by_table(VALUES))).query("label_fraction == 0.01")
    # Without seed 0 the means are 0.55 and 0.70; without 1: 0.75 and 0.65; without 2: 0.70 and 0.75.
    assert found.set_index("seed").tau_alpha.to_dict() == {0: 0.1, 1: 0.05, 2: 0.1}


def test_other_seeds_select_by_the_bootstrap():
    found = selection.reselected(frame(standard(), by_table(VALUES)))
    drawn = [(a, b, c) for a in range(3) for b in range(3) for c in range(3)]
    one, other = (np.array([np.mean([VALUES[tau, s] for s in seeds]) for seeds in drawn]) for tau in (0.05, 0.1))
    share = found.set_index("tau_alpha").share
    assert share[0.1] == pytest.approx((other > one + 1e-12).mean()) and share.sum() == pytest.approx(1.0)
    assert found.set_index("tau_alpha").selected.to_dict() == {0.05: False, 0.1: True}


def test_what_is_frozen_is_what_is_selected_and_is_never_changed(tmp_path):
    rows = frame(standard(sigma=25.0), by_table({**VALUES, (0.05, 2): 1.0}))
    assert selection.select(rows).tau_alpha.tolist() == [0.05], "by three seeds; two select"
    path = selection.freeze("sigma_25", rows, tmp_path)
    assert json.loads(path.read_text()) == {
        "name": "sigma_25",
        "seeds": {"25": [0, 1]},
        "configurations": [{"method": "standard", "sigma": 25.0, "tau_alpha": 0.1}],
    }
    with pytest.raises(ValueError, match="is never changed"):
        selection.freeze("sigma_25", rows, tmp_path)
    with pytest.raises(ValueError, match="no seed is complete"):
        selection.freeze("other", rows.iloc[:0], tmp_path)
    with pytest.raises(ValueError, match=r"at sigma 50 \(global discriminator\) seeds 0 to 4 select; not complete: 3, 4"):
        selection.freeze("sigma_50", frame(standard(), by_table(VALUES)), tmp_path)
    with pytest.raises(ValueError, match="a selection of standard is frozen already"):
        selection.freeze("again", rows, tmp_path)
    with pytest.raises(ValueError, match=r"at sigma 25 \(global discriminator\) seeds 0 to 1 select; not complete: 0\."):
        selection.freeze("later", rows[rows.seed > 0], tmp_path)


def test_each_sigma_and_kind_of_discriminator_needs_its_own_seeds(tmp_path):
    def rows(seeds):
        runs = [Run("dw_pairs", 0.1, 0.5, sigma=s, discriminator=k, seed=i) for (s, k), n in seeds.items() for i in range(n)]
        return frame(runs)

    short = rows({(50.0, "global"): 5, (50.0, "batch"): 4})
    with pytest.raises(ValueError, match=r"at sigma 50 \(batch discriminator\) seeds 0 to 4 select; not complete: 4\."):
        selection.freeze("batch_50", short, tmp_path)
    both = json.loads(selection.freeze("both", rows({(25.0, "batch"): 2, (75.0, "batch"): 3}), tmp_path).read_text())
    assert both["seeds"] == {"25": [0, 1], "75": [0, 1]} and len(both["configurations"]) == 2


def test_more_than_five_seeds_are_drawn_at_random():
    six = {(tau, s): VALUES[tau, s % 3] for tau in (0.05, 0.1) for s in range(6)}
    share = selection.reselected(frame(standard(seeds=range(6)), by_table(six)), resamples=4000).set_index("tau_alpha").share
    drawn = np.random.default_rng(1).integers(6, size=(4000, 6))
    one, other = (np.array([six[tau, s] for s in range(6)])[drawn].mean(1) for tau in (0.05, 0.1))
    assert share[0.1] == pytest.approx((other > one + 1e-12).mean(), abs=0.03) and 0 < share[0.05] < 1


def test_other_seeds_are_those_of_each_context():
    rows = pd.concat([frame(standard(), by_table(VALUES)), frame(standard(seeds=range(2), sigma=25.0), by_table(VALUES))])
    found = selection.reselected(rows)
    assert found.groupby("sigma").share.sum().to_dict() == pytest.approx({25.0: 1.0, 50.0: 1.0})
    assert found[found.selected].groupby("sigma").size().to_dict() == {25.0: 1, 50.0: 1}


def test_ways_to_select_look_at_what_they_say():
    def accuracy(run, fraction, metric):
        good = {"validation": 0.05, "test_id": 0.1, "test_ood": 0.2}.get(metric)
        if metric == "d_test_id":
            return 0.5 if run.tau_alpha == 0.3 else 0.9
        return 0.8 if run.tau_alpha == good else 0.6

    found = selection.strategies(frame(standard(taus=(0.05, 0.1, 0.2, 0.3)), accuracy))
    ood = found.groupby("way").test_ood.mean()
    assert ood["Test-OOD"] == pytest.approx(0.8) and ood["validation (the paper)"] == pytest.approx(0.6)
    assert found[found.way == "Test-ID"].test_id.mean() == pytest.approx(0.8)
    assert (found.groupby("way").size() == 3).all(), "each seed once"


def test_each_way_to_select_takes_the_configuration_with_the_highest_score():
    names = ("validation", "test_id", "d_test_id", "test_ood")
    values = {0.05: (0.9, 0.5, 0.5, 0.1), 0.1: (0.5, 0.9, 0.9, 0.2), 0.2: (0.8, 0.8, 0.52, 0.3), 0.3: (0.6, 0.6, 0.2, 0.4)}
    rows = frame(standard(taus=(*values,)), lambda run, f, metric: values[run.tau_alpha][names.index(metric)])
    assert selection.strategies(rows).groupby("way").test_ood.first().to_dict() == {
        "validation (the paper)": 0.1,
        "Test-ID": 0.2,
        "D-Test-ID nearest 0.5": 0.1,
        "a mix of the three": 0.3,
        "Test-OOD": 0.4,
    }


def test_heads_and_dimensions_compete_each_with_its_own():
    kinds = [{}, *({"projector": kind, "projector_dim": k} for kind, k in (("mlp", 4), ("mlp", 8), ("linear", 4)))]
    rows = pd.concat([frame(standard(**kind), by_table(VALUES)) for kind in kinds])
    assert len(selection.select(rows)) == 4


def test_a_method_is_frozen_once_at_a_sigma_for_each_kind_of_discriminator(tmp_path):
    rows = {
        k: frame([Run("dw_pairs", 0.1, 0.5, sigma=25.0, discriminator=k, seed=i) for i in range(2)]) for k in ("global", "batch")
    }
    selection.freeze("first", rows["global"], tmp_path)
    with pytest.raises(ValueError, match="a selection of dw_pairs is frozen already"):
        selection.freeze("second", rows["global"], tmp_path)
    assert selection.freeze("third", rows["batch"], tmp_path).exists()


def test_a_run_that_diverged_hides_no_domain():
    """It counts as chance, which is the best D-Test-ID there is."""
    rows = frame(standard(taus=(0.05, 0.1)), lambda run, fraction, metric: 0.5 if run.tau_alpha == 0.05 else 0.7)
    rows["status"] = rows.status.where(rows.tau_alpha != 0.05, "diverged")
    found = selection.strategies(rows)
    assert (found[found.way == "D-Test-ID nearest 0.5"].test_ood == 0.7).all()
