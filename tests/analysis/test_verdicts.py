"""The verdict rule, on made-up contrasts and seeds."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dtcl_core import results
from dtcl_core.analysis import contrasts, operating_characteristics, reported, restated_claims, verdicts
from dtcl_core.analysis.contrasts import Contrast
from dtcl_core.analysis.intervals import mean_interval
from dtcl_core.config import Run
from dtcl_core.experiments import PROPOSED, REGISTRY, core
from dtcl_core.results import RUN_COLUMNS


def contrast(mean, spread=0.01, n=10, metric="test_id", **more):
    """A contrast of n seeds with exactly that mean and deviation."""
    values = np.linspace(-1, 1, n)
    return Contrast("made up", mean_interval(mean + spread * values / values.std(ddof=1)), metric=metric, **more)


HOLDS, OPEN, NEGATIVE, FEW = contrast(0.05), contrast(0.001), contrast(-0.05), contrast(0.05, n=5)


@pytest.mark.parametrize(
    ("contrasts", "word"),
    [
        ([HOLDS, HOLDS], "supported"),
        ([HOLDS, OPEN], "mixed"),
        ([OPEN, OPEN], "inconclusive"),
        ([HOLDS, NEGATIVE], "contradicted"),
        ([HOLDS, FEW], "not tested"),
        ([NEGATIVE, FEW], "contradicted"),  # what is missing cannot save it
        ([], "not tested"),
    ],
)
def test_the_five_words(contrasts, word):
    ruling = verdicts.judge({1: contrasts})[1]
    assert ruling.word == word and word in verdicts.WORDS


def test_an_interval_that_includes_zero_contradicts_nothing():
    """The rule of before called -0.011 [-0.024, 0.002] against a claim."""
    near = contrast(-0.011, spread=0.0182, least=contrasts.LEAST)
    assert near.interval.low < -0.02 and 0 < near.interval.high < 0.005 and near.speaks == "against"
    assert verdicts.judge({1: [near]})[1].word == "inconclusive"


def test_contradictions_are_corrected_over_the_family_of_claims():
    """One of many is not enough; alone it is."""
    barely = contrast(-0.0075)
    assert 0.03 < verdicts.p_value(barely) < 0.05
    assert verdicts.judge({1: [barely]})[1].word == "contradicted"
    assert verdicts.judge({1: [barely], 2: [OPEN] * 3})[1].word == "inconclusive"
    assert verdicts.judge({1: [barely], 4: [OPEN] * 3})[1].word == "contradicted"  # of another family
    assert verdicts.judge({1: [barely], 5: [contrast(0.0, n=2)] * 3})[1].word == "inconclusive", (
        "missing ones count too"
    )


def test_holm_is_the_textbooks():
    assert verdicts.holm([0.01, 0.04, 0.03, 0.005]) == [True, False, False, True]
    assert (
        verdicts.holm([0.04, 0.06]) == [False, False]
        and verdicts.holm([0.02, 0.04]) == [True, True]
        and verdicts.holm([]) == []
    )


def test_p_is_the_two_sided_t_tests():
    values = np.random.default_rng(0).normal(-0.02, 0.03, 10)
    told = Contrast("", mean_interval(values))
    assert verdicts.p_value(told) == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
    assert verdicts.p_value(HOLDS) == 1.0


def test_what_the_seeds_could_have_seen():
    """A t test at 5 % finds an effect of that size four times in five."""
    rng, spread, n = np.random.default_rng(1), 0.03, 10
    size = verdicts.detectable(contrast(0.0, spread, n).interval)
    found = stats.ttest_1samp(rng.normal(size, spread, (4000, n)), 0, axis=1)
    assert ((found.pvalue < 0.05) & (found.statistic > 0)).mean() == pytest.approx(0.8, abs=0.03)


def test_the_unseen_colour_decides_no_verdict_but_one():
    unseen = contrast(-0.3, metric="test_ood")
    ruling = verdicts.judge({1: [HOLDS, unseen]})[1]
    assert ruling.word == "supported" and ruling.apart == (unseen,) and verdicts.on_unseen(unseen) == "below zero"
    assert verdicts.on_unseen(contrast(0.03, 0.2, metric="test_ood")).startswith("open (10 seeds would show")
    assert verdicts.judge({14: [unseen]})[14].word == "contradicted"


def test_no_consistent_sign():
    mixed, alike = contrast(0.001, signs=(1, -1, 1, 1, -1)), contrast(0.001, signs=(1, 1, 1, 1, 1))
    assert verdicts.judge({9: [mixed]})[9].word == "supported"
    assert verdicts.judge({9: [alike]})[9].word == "inconclusive"
    for sign in (1, -1):
        trend = contrast(sign * 0.05, signs=(sign,) * 5)
        assert verdicts.judge({9: [trend]})[9].word == "contradicted"


def test_the_deciding_contrast():
    worse = contrast(-0.08)
    assert verdicts.judge({1: [HOLDS, NEGATIVE, worse]})[1].deciding is worse
    assert verdicts.judge({1: [HOLDS, OPEN]})[1].deciding is OPEN
    assert verdicts.judge({1: [FEW]})[1].deciding is None


def frame(runs, metrics):
    """Rows of runs, at 1 % of labels, their metrics given by a function of the run."""
    lines = [
        {name: getattr(run, name) for name in RUN_COLUMNS}
        | metrics(run)
        | {"epochs": 400, "protocol": "p", "status": "ok", "key": run.key, "label_fraction": 0.01}
        for run in runs
    ]
    table = pd.DataFrame(lines)
    for name in ("tau_beta", "lambda_"):
        table[name] = table[name].astype(float)
    return table


def designed(score, seeds=3, beside=()):
    """Evidence with the whole design, every metric a function of method and cell."""
    runs = [
        Run(m, seed=s, **cell) for m, cells in restated_claims.DESIGN.items() for cell in cells for s in range(seeds)
    ]
    rng = np.random.default_rng(0)

    def metrics(run):
        value = score(run.method, run.tau_alpha)
        return {name: value + rng.normal(0, 1e-3) for name in ("validation", "test_id", "test_ood", "d_test_id")}

    return contrasts.Evidence(frame([*runs, *beside], metrics))


def test_claims_7_and_8_on_a_design():
    better = designed(lambda method, tau: 0.95 - tau if method in contrasts.PROPOSED else 0.6 - tau)
    found = verdicts.judge(verdicts.contrasts(better, only=(7, 8)))
    assert found[8].word == "supported"
    trend = [c for c, _ in found[7].conjuncts if "rank" in c.what]
    assert len(trend) == 4 and all(c.interval.mean > 0.9 for c in trend)
    worse = designed(lambda method, tau: 0.5 + tau)
    assert verdicts.judge(verdicts.contrasts(worse, only=(7,)))[7].word == "contradicted"
    alike = designed(lambda method, tau: 0.8)
    assert verdicts.judge(verdicts.contrasts(alike, only=(8,)))[8].word in ("inconclusive", "mixed")


def test_cells_that_calibration_looks_at_are_no_evidence():
    """They neither count in the design nor are selected, however good they look."""
    seen = [Run("dw_pairs", 0.175, 0.1, seed=s) for s in range(3)]
    e = designed(lambda method, tau: 0.99 if (method, tau) == ("dw_pairs", 0.175) else 0.7)
    assert (0.175, 0.1, -1.0) not in restated_claims.design(e, "dw_pairs", "test_id").columns
    assert len(restated_claims.design(e, "dw_pairs", "test_id").columns) == len(restated_claims.DESIGN["dw_pairs"]) - 2
    assert not e.tried.key.isin([run.key for run in seen]).any()


def test_a_design_without_a_cell_is_no_design():
    whole = designed(lambda method, tau: 0.8)
    whole.tried = whole.tried[~((whole.tried.method == "mmd") & (whole.tried.lambda_ == 0.01))]
    assert restated_claims.design(whole, "mmd", "test_id").shape[1] == 0
    assert verdicts.judge(verdicts.contrasts(whole, only=(8,)))[8].word == "not tested"


def test_claim_13_is_judged_under_its_own_level():
    """In the paper's cells same-domain pairs reach the floor, so that a higher one shrinks what the weight does."""
    low, high = (
        verdicts.contrasts(contrasts.Evidence(results.load().iloc[:0], tau_min=tau_min), only=(13,))[13]
        for tau_min in verdicts.TAU_MINS
    )
    for a, b in zip(low, high):
        if "gradient" in a.what and not a.beside:
            assert a.what == b.what and a.interval.mean > 5 * b.interval.mean > 0


def test_claim_13_is_about_gradients():
    """The formula: with a weight outside, a negative's gradient changes by the weight, up to what all share."""
    import torch

    generator = torch.Generator().manual_seed(0)
    cosine = torch.rand(6, 6, generator=generator, dtype=torch.float64) * 2 - 1
    weight = torch.rand(6, 6, generator=generator, dtype=torch.float64) + 0.5
    tau = torch.full((6, 6), 0.3, dtype=torch.float64)
    ratio = restated_claims.by_similarity(cosine, tau, weight) / restated_claims.by_similarity(cosine, tau) / weight
    off = ~torch.eye(6, dtype=torch.bool)
    for row, keep in zip(ratio, off):
        assert row[keep].std() < 1e-12
    found = verdicts.contrasts(designed(lambda method, tau: 0.8), only=(13,))[13]
    assert sum(not verdicts.is_apart(13, c) for c in found) == 2 and len(found) == 6


def test_every_claim_is_judged_and_its_share_of_the_grid_is_counted():
    e = designed(lambda method, tau: 0.8)
    found = verdicts.judge(verdicts.contrasts(e))
    assert sorted(found) == list(range(1, 16)) and found[12].word == "supported"
    strip = REGISTRY["model_selection"].runs("core")
    cells = {(run.method, run.tau_alpha, run.tau_beta, run.lambda_) for run in strip}
    assert verdicts.coverage(8, strip) == (len(cells), 190) and 0 < len(cells) < 80
    assert verdicts.coverage(8, REGISTRY["projector_head"].runs("core")) == (0, 190), "another sigma"
    assert verdicts.coverage(12, strip) == (0, 0)
    rests = {number: [run for run in strip if verdicts.rests_on(number, run, 0.05)] for number in (1, 8)}
    assert {run.protocol.tau_min for run in rests[1] if run.method in PROPOSED} == {0.05}
    left = {(run.method, run.tau_alpha, run.tau_beta) for run in {*rests[1]} - {*rests[8]}}
    oracle = {("color_jitter", tau, None) for tau in core.TAUS}
    assert (
        left - oracle == {(m, a, core.CALIBRATED_BETA) for m in PROPOSED for a in core.CALIBRATED_ALPHAS}
        and oracle < left
    )


def test_the_rule_tells_the_papers_means_from_nothing():
    """Small spreads: then each claim that the paper's numbers bear out is supported, and none where all methods are alike."""
    rng = np.random.default_rng(0)
    columns = pd.MultiIndex.from_tuples(list(operating_characteristics.truth(operating_characteristics.PAPER)))
    deviations = pd.DataFrame(rng.normal(0, 1e-3, (10, len(columns))), columns=columns)
    deviations -= deviations.mean()

    def words(kind):
        made = operating_characteristics.simulate(kind, 10, deviations, np.random.default_rng(2))
        return {
            n: r.word
            for n, r in verdicts.judge(
                verdicts.contrasts(made.without_rows(), made, operating_characteristics.SIMULATED)
            ).items()
        }

    assert words(operating_characteristics.PAPER) == {
        1: "supported",
        2: "supported",
        3: "supported",
        4: "supported",
        6: "supported",
    }
    assert "supported" not in words(operating_characteristics.ALIKE).values()


def test_simulated_seeds_have_the_truths_means_and_our_spread():
    told = reported.main_comparison()
    columns = pd.MultiIndex.from_tuples(list(operating_characteristics.truth(operating_characteristics.PAPER)))
    rng = np.random.default_rng(3)
    deviations = pd.DataFrame(rng.normal(0, 0.01, (10, len(columns))), columns=columns)
    deviations -= deviations.mean()
    made = operating_characteristics.simulate(operating_characteristics.PAPER, 500, deviations, rng)
    value = told[(told.method == "mmd") & (told.metric == "test_id")].value.item()
    assert made.selected("mmd", "test_id").mean() == pytest.approx(value, abs=0.003)
    assert made.selected("mmd", "test_id").std() == pytest.approx(deviations["mmd", "test_id", 0.01].std(), rel=0.1)
    assert made.selected("mmd", "test_id", sigma=25.0).empty


def test_claims_about_selected_cells_are_judged_on_fresh_seeds_alone():
    """Seeds that selected are refused, and without fresh ones there is nothing to judge."""
    e = designed(lambda method, tau: 0.9 if method in contrasts.PROPOSED else 0.6, seeds=10)
    assert {verdicts.judge(verdicts.contrasts(e))[n].word for n in verdicts.ON_FRESH_SEEDS} == {"not tested"}
    with pytest.raises(ValueError, match="fresh seeds are 1000 to 1009"):
        verdicts.contrasts(e, e)


def test_simulated_discriminators_differ_as_the_paper_reports():
    told = reported.load("table_9_global_vs_batch").set_index(["discriminator", "method", "metric", "sigma"]).value
    columns = pd.MultiIndex.from_tuples(list(operating_characteristics.truth(operating_characteristics.PAPER)))
    rng = np.random.default_rng(4)
    deviations = pd.DataFrame(rng.normal(0, 0.01, (10, len(columns))), columns=columns)
    deviations -= deviations.mean()
    for kind, share in ((operating_characteristics.PAPER, 1.0), (operating_characteristics.ALIKE, 0.0)):
        made = operating_characteristics.Discriminators(kind, 500, deviations, rng)
        for sigma in (0.0, 150.0):
            both = [made.selected("dw_pairs", "test_id", sigma, discriminator=d) for d in ("global", "batch")]
            gap = told["global", "dw_pairs", "test_id", sigma] - told["batch", "dw_pairs", "test_id", sigma]
            assert (both[0] - both[1]).mean() == pytest.approx(share * gap, abs=0.004)
    assert (both[0] - both[1]).std() > 0.005
