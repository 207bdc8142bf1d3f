"""Whether two ways to compute the same agree, from hand-made figures: precisions, and the two paths of a CPU."""

import numpy as np
import pandas as pd
import pytest

from dtcl_core.config import METRICS
from dtcl_core.report import agreement


def test_precisions_are_compared_seed_by_seed():
    rows = [
        dict(method="standard", tau_alpha=0.1, tau_beta=None, seed=s, precision=p, **dict.fromkeys(agreement.PRECISION_METRICS, v))
        for s, exact in enumerate([0.5, 0.7, 0.9])
        for p, v in [("float32", exact), ("bfloat16", exact + 0.01 * (s + 1))]
    ]  # fmt: skip
    table = agreement.precision_differences(pd.DataFrame(rows))
    assert len(table) == 4 and (table.n == 3).all()
    assert table.difference.tolist() == pytest.approx([0.02] * 4) and table.float32.tolist() == pytest.approx([0.7] * 4)
    assert ((table.low < 0.02) & (table.high > 0.02)).all()
    assert agreement.precision_differences(pd.DataFrame()).empty


def test_a_seed_counts_once_when_configurations_are_pooled():
    gaps = {(None, 0): 0.01, (1.0, 0): 0.03, (None, 1): 0.05, (1.0, 1): 0.07}  # means of the seeds: 0.02 and 0.06
    rows = [
        dict(
            method="m",
            tau_alpha=0.1,
            tau_beta=b,
            seed=s,
            precision=p,
            **dict.fromkeys(agreement.PRECISION_METRICS, v),
        )
        for (b, s), gap in gaps.items()
        for p, v in [("float32", 0.5 + 0.1 * s), ("bfloat16", 0.5 + 0.1 * s + gap)]
    ]
    unfinished = rows[0] | {"seed": 2}  # float32 is done, bfloat16 not yet
    table = agreement.precision_pooled(pd.DataFrame([*rows, unfinished]))
    assert len(table) == 4 and (table.n == 2).all()
    assert table.difference.tolist() == pytest.approx([0.04] * 4)
    assert table.float32.tolist() == pytest.approx([0.55] * 4)
    assert table.low.tolist() == pytest.approx([0.04 - 12.706 * 0.02] * 4, abs=1e-3)  # t with one degree of freedom
    assert table["sd of a pair"].tolist() == pytest.approx([0.02582] * 4, abs=1e-4)
    assert table["sd of a seed"].tolist() == pytest.approx([0.0707] * 4, abs=1e-3)
    assert agreement.precision_pooled(pd.DataFrame()).empty


def test_precisions_are_told_in_words():
    pooled = pd.DataFrame({"low": [-0.02, 0.01, -0.03], "high": [0.05, 0.04, -0.01]})
    single = pd.DataFrame({"low": [-0.5], "high": [0.5]})
    assert agreement.precision_in_words(pooled, single) == (
        "2 of 3 pooled intervals exclude zero.\n0 of 1 single intervals exclude zero.\n"
        "The pooled ones leave no room for a difference beyond 0.050."
    )


def both_paths(seeds=10, **shifts):
    """Accuracies by both paths, apart by noise of 0.01 and by `shifts` of a metric."""
    draw = np.random.default_rng(0)
    lines = []
    for method in ("standard", "dw_pairs"):
        for seed in range(seeds):
            for fraction in (0.01, 1.0):
                line = {"method": method, "seed": seed, "label_fraction": fraction}
                for metric in METRICS:
                    line[f"{metric}_operators"] = 0.7
                    line[f"{metric}_trunk"] = 0.7 + shifts.get(metric, 0.0) + 0.01 * draw.standard_normal()
                lines.append(line)
    return pd.DataFrame(lines)


def test_paths_that_differ_by_chance_alone_agree():
    table = agreement.path_differences(both_paths())
    assert len(table) == 2 * 2 * 4 and (table.n == 10).all() and not table.apart.any()
    assert table.difference.abs().is_monotonic_decreasing and table.operators.tolist() == pytest.approx([0.7] * 16)
    wide, plain = table.high - table.low, 2 * 2.262 * 0.01 / 10**0.5
    assert wide.median() > 1.3 * plain, "intervals are no wider than that of one difference alone"
    assert agreement.equivalence(both_paths()).endswith("By the rule the two paths agree.")


def test_a_metric_that_moves_is_found_and_a_test_id_that_moves_is_not_equivalent():
    table = agreement.path_differences(both_paths(d_test_id=0.03))
    assert table[table.apart].metric.unique().tolist() == ["d_test_id"] and table.apart.sum() == 4
    said = agreement.equivalence(both_paths(d_test_id=0.03))
    assert "4 of 16" in said and "): shown equivalent" in said and said.endswith("are not shown to agree.")
    assert "not shown equivalent within 0.02" in agreement.equivalence(both_paths(test_id=0.019))
    assert agreement.equivalence(both_paths(seeds=1)).endswith("not shown to agree.")
    assert agreement.equivalence(pd.DataFrame()) == "not yet run" and agreement.path_differences(pd.DataFrame()).empty


def test_a_seed_that_lacks_a_method_does_not_count_for_equivalence():
    frame = both_paths(seeds=3)
    lacking = frame.drop(frame[(frame.seed == 2) & (frame.method == "standard")].index)
    assert agreement.path_equivalence(frame).n == 3 and agreement.path_equivalence(lacking).n == 2
    whole = frame[frame.seed < 2]
    by_seed = (whole.test_id_trunk - whole.test_id_operators).groupby(whole.seed).mean()
    d = agreement.path_equivalence(lacking)
    assert d.mean == pytest.approx(by_seed.mean()) and d.high - d.mean == pytest.approx(
        6.314 * by_seed.std() / 2**0.5, rel=1e-3
    )
