"""Statistics, selection and tables on hand-made rows."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dtcl_core import results
from dtcl_core.analysis import intervals, reported, selection
from dtcl_core.analysis.contrasts import Evidence
from dtcl_core.config import Run
from dtcl_core.data import ColoredDigits
from dtcl_core.experiments import REGISTRY
from dtcl_core.methods import METHODS
from dtcl_core.report import tables


def frame(entries):
    """Rows from (method, hyperparameters, seed, validation, test)."""
    rows = []
    for method, hyperparameters, seed, validation, test in entries:
        run = Run(method, seed=seed, **hyperparameters)
        scores = {"validation": validation, "test_id": test, "test_ood": test, "d_test_id": 0.5}
        rows.append(
            {
                "key": run.key, "run": run.to_dict(), "status": "ok" if validation is not None else "diverged",
                "metrics": {"0.01": scores, "1.0": {**scores, "validation": 1 - (validation or 0)}},
                "provenance": {"created": "2026-01-01"}, "shard": "s",
            }
        )  # fmt: skip
    return results.frame(rows)


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


def test_selection_takes_the_best_mean_validation_at_one_percent():
    chosen = selection.select(
        frame(
            [("standard", {"tau_alpha": 0.1}, s, v, 0.1) for s, v in enumerate([0.6, 0.9])]
            + [("standard", {"tau_alpha": 0.2}, s, v, 0.9) for s, v in enumerate([0.7, 0.7])]
            + [("mmd", {"tau_alpha": 0.2, "lambda_": 1}, s, 0.4, 0.2) for s in range(2)]
        )
    ).set_index("method")
    assert chosen.loc["standard", "tau_alpha"] == 0.1 and chosen.loc["standard", "validation"] == pytest.approx(0.75)
    assert chosen.loc["mmd", "n"] == 2 and len(chosen) == 2


def test_ties_go_to_the_smaller_temperature():
    entries = [
        ("dw_pairs", {"tau_alpha": a, "tau_beta": b}, s, 0.8, 0.5)
        for a in (0.2, 0.1) for b in (1.0, 0.5) for s in (0, 1)
    ]  # fmt: skip
    chosen = selection.select(frame(entries)).iloc[0]
    assert (chosen.tau_alpha, chosen.tau_beta) == (0.1, 0.5)


def test_a_lucky_incomplete_cell_is_not_selected():
    rows = frame(
        [("standard", {"tau_alpha": 0.1}, s, 0.7, 0.5) for s in range(3)]
        + [("standard", {"tau_alpha": 0.2}, 0, 0.99, 0.5)]
        + [("standard", {"tau_alpha": 0.5}, s, v, 0.5) for s, v in enumerate([0.99, 0.99, None])]
    )
    assert selection.select(rows).tau_alpha.tolist() == [0.1]


def test_cells_are_compared_on_the_seeds_they_share():
    easy, hard = 0.9, 0.7  # seeds; the second cell is better by 0.02 wherever both were trained
    rows = frame(
        [("standard", {"tau_alpha": 0.1}, s, v, 0.5) for s, v in enumerate([easy, hard, hard])]
        + [("standard", {"tau_alpha": 0.2}, s, hard + 0.02, 0.5) for s in (1, 2, 3)]
    )
    chosen = selection.select(rows)
    assert chosen.tau_alpha.tolist() == [0.2] and chosen.n.tolist() == [2]
    assert chosen.validation.tolist() == pytest.approx([hard + 0.02])
    chain = [(0.1, (0, 1)), (0.15, (1, 2)), (0.2, (2, 3))]  # no seed is shared by all: each cell keeps its own
    level = {(0.1, 0): 0.9, (0.1, 1): 0.9, (0.15, 1): 0.95, (0.15, 2): 0.85, (0.2, 2): 0.925, (0.2, 3): 0.925}
    rows = frame([("standard", {"tau_alpha": t}, s, level[t, s], 0.5) for t, seeds in chain for s in seeds])
    chosen = selection.select(rows)
    assert chosen.tau_alpha.tolist() == [0.2] and chosen.n.tolist() == [2]


def test_selection_is_separate_for_each_sigma():
    rows = frame([("standard", {"tau_alpha": 0.1, "sigma": s}, 0, 0.5, 0.5) for s in (0, 50)])
    assert selection.select(rows).sigma.tolist() == [0, 50]


def test_rows_of_returns_all_fractions_of_the_chosen_cells():
    rows = frame([("standard", {"tau_alpha": t}, s, t, 0.5) for t in (0.1, 0.2) for s in (0, 1)])
    chosen = selection.rows_of(rows, selection.select(rows))
    assert set(chosen.tau_alpha) == {0.2} and len(chosen) == 4


def test_seeds_that_one_cell_alone_was_given_do_not_decide():
    """Three seeds for every strength of a penalty first, five for the one selected: the first three have decided."""
    good, lucky = {"tau_alpha": 0.1, "lambda_": 0.1}, {"tau_alpha": 0.1, "lambda_": 1.0}

    def rows(first, second, later):
        entries = [("mmd", good, s, v, v) for s, v in enumerate([*first, *later])]
        return frame(entries + [("mmd", lucky, s, v, v) for s, v in enumerate(second)])

    chosen = selection.select(rows([0.8] * 3, [0.7] * 3, [0.1, 0.1]))
    assert chosen.lambda_.tolist() == [0.1] and chosen.n.tolist() == [3]
    assert len(selection.rows_of(rows([0.8] * 3, [0.7] * 3, [0.1, 0.1]), chosen)) == 2 * 5, "all seeds are shown"
    assert selection.select(rows([0.8] * 3, [0.9] * 3, [1.0, 1.0])).lambda_.tolist() == [1.0]
    assert selection.select(rows([0.8] * 3, [0.9, None, 0.9], [1.0, 1.0])).lambda_.tolist() == [0.1], "it diverged"
    held = selection.held_out(rows([0.8, 0.8, 0.5], [0.7, 0.7, 0.9], [0.6, 0.6]))
    by = held[held.label_fraction == 0.01].set_index("seed").lambda_
    assert by.to_dict() == {0: 1.0, 1: 1.0, 2: 0.1}, "seeds 3 and 4 lack what the others select"
    held = selection.held_out(rows([0.8, 0.8, 0.7], [0.7, 0.7, 0.75], [0.6, 0.6]))
    by = held[held.label_fraction == 0.01].set_index("seed").lambda_
    assert by.to_dict() == dict.fromkeys(range(5), 0.1)


def test_the_claims_select_what_the_tables_select():
    """Of two strengths the better one diverged on a seed: neither shows it, nor counts it among the best."""
    cells = {0.1: [0.8] * 5, 1.0: [0.9, 0.9, None, 0.9, 0.9]}
    rows = frame(
        [("mmd", {"tau_alpha": 0.1, "lambda_": k}, s, v, 0.9) for k, of in cells.items() for s, v in enumerate(of)]
    )
    assert selection.select(rows).lambda_.tolist() == [0.1]
    evidence = Evidence(rows)
    assert set(evidence.chosen.lambda_) == {0.1} and evidence.chosen_cell("mmd") == (0.1, -1.0, 0.1)


def test_best_and_selected_are_compared_on_the_same_seeds():
    strengths = {0.1: ([0.7] * 5, 0.5), 1.0: ([0.6] * 3, 0.95)}  # validation by seed, test
    entries = [
        ("mmd", {"tau_alpha": 0.1, "lambda_": k}, s, v, test)
        for k, (of, test) in strengths.items()
        for s, v in enumerate(of)
    ]
    (line,) = tables.selected_and_best(frame(entries)).itertuples(index=False)
    assert (line.selected, line.best, line.cells, line.n) == ("0.1/0.1", "0.1/1", 2, 3) and line.gap == pytest.approx(
        0.45
    )
    strengths[1.0] = ([0.9] * 3, 0.95)
    entries = [
        ("mmd", {"tau_alpha": 0.1, "lambda_": k}, s, v, test)
        for k, (of, test) in strengths.items()
        for s, v in enumerate(of)
    ]
    (line,) = tables.selected_and_best(frame(entries)).itertuples(index=False)
    assert line.selected == line.best == "0.1/1" and line.gap == 0


def test_no_seed_scores_its_own_choice():
    lucky = [0.7, 0.7, 1.0]  # the seed that gives the second cell the highest mean
    rows = frame(
        [("standard", {"tau_alpha": 0.1}, s, 0.75, 0.6) for s in range(3)]
        + [("standard", {"tau_alpha": 0.2}, s, v, v) for s, v in enumerate(lucky)]
        + [("mmd", {"tau_alpha": 0.1, "lambda_": 1}, 0, 0.4, 0.2)]
    )
    assert selection.select(rows[rows.method == "standard"]).tau_alpha.tolist() == [0.2]
    held = selection.held_out(rows)
    assert set(held.method) == {"standard"}, "a single seed has no others to select on"
    by = held[held.label_fraction == 0.01].set_index("seed")
    assert by.tau_alpha.to_dict() == {0: 0.2, 1: 0.2, 2: 0.1} and by.test_ood.to_dict() == {0: 0.7, 1: 0.7, 2: 0.6}
    assert len(held) == 2 * len(by), "all label fractions"
    assert selection.held_out(rows.iloc[:0]).empty


def test_reported_numbers_are_the_papers():
    table = reported.load()
    assert len(table) == 363 and table.value.between(0, 1).all()
    main = reported.main_comparison().set_index(["method", "metric"]).value
    assert main["dw_pairs", "test_ood"] == 0.819 and main["standard", "d_test_id"] == 0.688 and len(main) == 21
    assert len(reported.main_comparison(50, 0.1)) == 14 and len(reported.main_comparison(25)) == 6
    assert reported.main_comparison(33).empty
    with pytest.raises(ValueError, match="unknown source 'table_0'"):
        reported.load("table_0")


def selected_rows():
    rows = frame(
        [("standard", {"tau_alpha": 0.1}, s, 0.5, v) for s, v in enumerate([0.70, 0.74, 0.72])]
        + [("dw_pairs", {"tau_alpha": 0.1, "tau_beta": 1}, s, 0.5, v) for s, v in enumerate([0.80, 0.84, 0.83])]
        + [("color_jitter", {"tau_alpha": 0.1}, s, 0.5, 0.99) for s in range(3)]
    )
    return rows[rows.label_fraction == 0.01]


def test_comparison_table_pairs_reported_with_measured():
    table = tables.compare_methods(selected_rows(), reported.main_comparison(), "test_ood").set_index("method")
    line = table.loc["Domain-Weighted Pairs"]
    assert line.reported == 0.819 and line.measured == pytest.approx(0.8233333) and line.n == 3
    assert line.low < 0.8233 < line.high
    assert len(table) == len(METHODS) and table.loc["CL with DANN", "n"] == 0


def test_difference_table_stars_intervals_that_exclude_zero():
    table = tables.differences(selected_rows(), "test_ood").set_index("method")
    line = table.loc["Domain-Weighted Pairs"]
    theirs = stats.ttest_rel([0.80, 0.84, 0.83], [0.70, 0.74, 0.72]).confidence_interval(0.95)
    assert line.difference == pytest.approx(0.31 / 3) and (line.low, line.high) == pytest.approx(
        (theirs.low, theirs.high)
    )
    assert line.n == 3 and line[""] == "*" and "Standard CL" not in table.index
    assert (tables.differences(selected_rows(), "d_test_id")[""] == " ").all()


def test_the_same_cells_on_other_seeds():
    first = selected_rows()
    fresh = first.assign(seed=first.seed + 1000, test_ood=first.test_ood + 0.1)
    table = tables.again(first, fresh[fresh.method != "dw_pairs"], "test_ood").set_index("method")
    standard, pairs = table.loc["Standard CL"], table.loc["Domain-Weighted Pairs"]
    reach = stats.t.ppf(0.975, 4) * 0.02 * (2 / 3) ** 0.5
    assert standard.fresh == pytest.approx(0.82) and standard.change == f"0.100 ±{reach:.3f}" and standard.n == 3
    assert pairs.change == "-" and pairs.n == 0 and pairs["first"] == pytest.approx(0.8233333)


def test_runs_that_call_every_digit_the_same_are_counted():
    runs = [Run(seed=seed) for seed in range(3)]
    share = [ColoredDigits(seed=seed).split("test_ood").labels.double().mean().item() for seed in range(3)]
    assert max(share) < 0.49  # fives are rarer, so the two shares lie apart
    rows = pd.DataFrame(
        {"method": "standard", "key": [run.key for run in runs], "test_ood": [share[0], 1 - share[1] + 0.002, 0.9]}
    )
    (line,) = tables.extremes(rows, runs).itertuples(index=False)
    assert tuple(line) == ("Standard CL", share[0], 0.9, 2, 3)
    assert tables.extremes(rows, runs, near=0.0001)["near a share"].tolist() == [1]


def test_a_seed_that_counts_twice_is_refused():
    rows = frame([("standard", {"tau_alpha": 0.1, "sigma": s}, 0, 0.5, 0.5) for s in (0, 50)])
    rows = rows[rows.label_fraction == 0.01]
    with pytest.raises(ValueError, match="more than one row for seed 0; choose one sigma"):
        tables.compare_methods(rows, reported.main_comparison(), "test_ood")
    with pytest.raises(ValueError, match="more than one row"):
        tables.differences(rows, "test_ood")


def test_a_protocol_field_added_later_does_not_split_a_protocol():
    run = Run(seed=1)
    old, new = run.to_dict(), Run(seed=0).to_dict()
    del old["protocol"]["tau_min"]  # as if stored before the field came; its default means as before
    scores = {"validation": 0.5, "test_id": 0.5, "test_ood": 0.5, "d_test_id": 0.5}
    rows = [
        {
            "key": str(i),
            "run": r,
            "status": "ok",
            "metrics": {"0.01": scores},
            "provenance": {"created": ""},
            "shard": "",
        }
        for i, r in enumerate([old, new])
    ]
    assert results.frame(rows).protocol.nunique() == 1


def test_ranks_leave_the_oracle_out():
    table = tables.ranks(selected_rows(), reported.main_comparison(), "test_ood")
    assert table.method.tolist() == ["Domain-Weighted Pairs", "Standard CL"]
    assert table["reported rank"].tolist() == ["1", "3"]  # among all that the paper ranks


def test_description_counts_runs_and_cells():
    runs = REGISTRY["main_table"].runs("laptop")
    text = tables.describe("main_table", "laptop", runs, results.frame([]))
    assert "0 of 42 runs exist" in text
    assert "Domain-Weighted Pairs            0      2     40\n" in text
    there = frame([("dw_pairs", {"tau_alpha": 0.075, "tau_beta": 0.5, "protocol": runs[0].protocol}, 0, 0.8, 0.5)])
    text = tables.describe("main_table", "laptop", runs, there.assign(device="cpu", precision="float32"))
    assert text.startswith("Preset laptop: 1 of 42 runs exist, on cpu in float32.")
    assert "Domain-Weighted Pairs            1      2     40  tau_alpha/tau_beta: 0.075/0.5" in text
    assert "seeds                            1      3      5" in text
    cell = {"tau_alpha": 0.075, "tau_beta": 0.5, "protocol": runs[0].protocol}
    entries = [(m, cell, s, 0.8, 0.5) for m, n in (("dw_pairs", 3), ("dw_negatives", 2)) for s in range(n)]
    text = tables.describe("main_table", "laptop", runs, frame(entries).assign(device="cpu", precision="float32"))
    assert "seeds                            3      3      5  0 to 3 a configuration\n" in text
    mixed = pd.concat([there.assign(device=d, precision=p) for d, p in (("cpu", "float32"), ("cuda", "bfloat16"))])
    told = tables.describe("main_table", "laptop", runs, mixed)
    assert "on cpu in float32 and cuda in bfloat16: compared as if alike" in told


def test_tables_of_nothing_are_empty():
    nothing = results.frame([])
    assert selection.select(nothing).empty and tables.differences(nothing, "test_ood").empty
    assert tables.ranks(nothing, reported.main_comparison(), "test_ood").empty
    assert (
        tables.all_cells(nothing, 0.01, ["test_ood"]).empty and tables.selected_cells(selection.select(nothing)).empty
    )


def test_description_counts_discriminators_and_heads_as_cells():
    runs = REGISTRY["global_vs_batch"].runs("laptop")
    cells = [(m, {"tau_alpha": a, "tau_beta": b, "discriminator": "global", "sigma": 50.0, "protocol": runs[0].protocol})
             for m in ("dw_negatives", "dw_pairs") for a, b in ((0.075, 0.5), (0.175, 1.0))]  # fmt: skip
    there = frame([(*cell, 0, 0.8, 0.5) for cell in cells]).assign(device="cpu", precision="float32")
    text = tables.describe("global_vs_batch", "laptop", runs, there)
    assert "Domain-Weighted Pairs            2      4     80" in text and "0.075/0.5/global" in text
    heads = REGISTRY["projector_head"].runs("laptop")
    assert "Standard CL                      0      5     70" in tables.describe(
        "projector_head", "laptop", heads, results.frame([])
    )


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


def test_a_close_selection_is_shown_with_what_it_decides():
    near = [("standard", {"tau_alpha": 0.05}, s, 0.919, 0.66) for s in (0, 1)]
    near += [("standard", {"tau_alpha": 0.1}, s, 0.917, 0.82) for s in (0, 1)]
    clear = [("same_domain", {"tau_alpha": tau}, s, v, 0.5) for tau, v in ((0.05, 0.9), (0.1, 0.8)) for s in (0, 1)]
    alone = [("color_jitter", {"tau_alpha": 0.1}, s, 0.9, 0.5) for s in (0, 1)]
    table = selection.runners_up(frame(near + clear + alone), ["test_ood"])
    assert table.method.tolist() == ["standard"] * 2 and table.tau_alpha.tolist() == [0.05, 0.1]
    assert table.test_ood.tolist() == [0.66, 0.82]
    assert (
        selection.runners_up(frame(clear), ["test_ood"]).empty
        and len(selection.runners_up(frame(clear), ["test_ood"], 0.2)) == 2
    )
