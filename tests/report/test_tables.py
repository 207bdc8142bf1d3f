"""Tables on hand-made rows."""

import math

import pandas as pd
import pytest
from made_up_rows import frame, selected_rows
from scipy import stats

from dtcl_core import results
from dtcl_core.analysis import reported, selection, weight_effects
from dtcl_core.config import Run
from dtcl_core.data import ColoredDigits
from dtcl_core.experiments import REGISTRY
from dtcl_core.experiments.weight_choices import REFERENCES
from dtcl_core.methods import METHODS
from dtcl_core.report import tables


def test_best_and_selected_are_compared_on_the_same_seeds():
    strengths = {0.1: ([0.7] * 5, 0.5), 1.0: ([0.6] * 4, 0.95)}  # validation by seed, test
    entries = [
        ("mmd", {"tau_alpha": 0.1, "lambda_": k}, s, v, test)
        for k, (of, test) in strengths.items()
        for s, v in enumerate(of)
    ]
    (line,) = tables.selected_and_best(frame(entries)).itertuples(index=False)
    assert (line.selected, line.best, line.cells, line.n) == ("0.1/0.1", "0.1/1", 2, 4) and line.gap == pytest.approx(
        0.45
    )
    strengths[1.0] = ([0.9] * 4, 0.95)
    entries = [
        ("mmd", {"tau_alpha": 0.1, "lambda_": k}, s, v, test)
        for k, (of, test) in strengths.items()
        for s, v in enumerate(of)
    ]
    (line,) = tables.selected_and_best(frame(entries)).itertuples(index=False)
    assert line.selected == line.best == "0.1/1" and line.gap == 0


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


def test_ranks_leave_the_oracle_out():
    table = tables.ranks(selected_rows(), reported.main_comparison(), "test_ood")
    assert table.method.tolist() == ["Domain-Weighted Pairs", "Standard CL"]
    assert table["reported rank"].tolist() == ["1", "3"]  # among all that the paper ranks


def asked(experiment, runs, rows):
    table = tables.asked(experiment, runs, rows).set_index("what")
    return {what: (*line[:3],) for what, *line in table.reset_index().itertuples(index=False)}, table.which


def test_what_was_run_counts_runs_and_cells():
    runs = REGISTRY["main_table"].runs("laptop")
    assert tables.counted("laptop", runs, results.frame([])) == "Preset laptop: 0 of 42 runs exist."
    counts, which = asked("main_table", runs, results.frame([]))
    assert counts["Domain-Weighted Pairs"] == (0, 2, 40) and which["Domain-Weighted Pairs"] == ""
    cell = {"tau_alpha": 0.075, "tau_beta": 0.5, "protocol": runs[0].protocol}
    there = frame([("dw_pairs", cell, 0, 0.8, 0.5)]).assign(device="cpu", precision="float32")
    assert tables.counted("laptop", runs, there) == "Preset laptop: 1 of 42 runs exist, on cpu in float32."
    counts, which = asked("main_table", runs, there)
    assert counts["Domain-Weighted Pairs"] == (1, 2, 40) and counts["seeds"] == (1, 3, 5)
    assert which["Domain-Weighted Pairs"] == "tau_alpha/tau_beta: 0.075/0.5"
    entries = [(m, cell, s, 0.8, 0.5) for m, n in (("dw_pairs", 3), ("dw_negatives", 2)) for s in range(n)]
    counts, which = asked("main_table", runs, frame(entries).assign(device="cpu", precision="float32"))
    assert counts["seeds"] == (3, 3, 5) and which["seeds"] == "0 to 3 a configuration"
    mixed = pd.concat([there.assign(device=d, precision=p) for d, p in (("cpu", "float32"), ("cuda", "bfloat16"))])
    assert "on cpu in float32 and cuda in bfloat16: compared as if alike" in tables.counted("laptop", runs, mixed)
    assert "\n1 runs diverged; " in tables.counted("laptop", runs, there.assign(status="diverged"))


def test_all_that_is_asked_for_is_counted():
    table = tables.asked_of_all("first").set_index("experiment")
    assert table.index[-1] == "claims" and set(table.index) == set(REGISTRY)
    main = REGISTRY["main_table"].runs("first")
    there = results.Store().rows()
    assert tuple(table.loc["main_table"]) == (len({r.key for r in main}), sum(r.key in there for r in main))


def test_the_best_line_is_the_first_and_missing_ones_the_last():
    table = pd.DataFrame({"method": list("abcd"), "measured": [0.6, float("nan"), 0.9, 0.45]})
    assert "".join(tables.best_first(table, "measured", "test_id").method) == "cadb"
    assert "".join(tables.best_first(table, "measured", "d_test_id").method) == "dacb"
    nothing = table.assign(measured=float("nan"))
    assert "".join(tables.best_first(nothing, "measured", "test_id").method) == "abcd", "the paper's order"


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
    counts, which = asked("global_vs_batch", runs, there)
    assert counts["Domain-Weighted Pairs"] == (2, 4, 80) and "0.075/0.5/global" in which["Domain-Weighted Pairs"]
    heads = REGISTRY["projector_head"].runs("laptop")
    assert asked("projector_head", heads, results.frame([]))[0]["Standard CL"] == (0, 5, 70)


@pytest.mark.parametrize("tau_min", [0.01, 0.05])
def test_eq_3_is_tau_min_beyond_the_posterior_that_the_table_gives(tau_min):
    table = tables.clipped(tau_min).set_index("tau_alpha")
    for tau_alpha, line in table.iterrows():
        for name, limit in line.items():
            tau_beta = float(name.removeprefix("tau_beta "))
            at = 1.0 if math.isnan(limit) else limit
            value = float(tau_alpha) + tau_beta * (1 / 2 - at)
            assert value >= tau_min - 1e-12 if math.isnan(limit) else value == pytest.approx(tau_min)
    assert table.notna().any(axis=None) and table.isna().any(axis=None)


def test_the_papers_selected_cells_are_those_it_marks():
    table = tables.selected_and_best_in_paper(reported.temperature_tables(), ["test_ood", "test_id"])
    main = reported.main_comparison().set_index(["method", "metric"]).value
    assert len(table) == 4 and (table.gap >= 0).all()
    for method in ("dw_pairs", "dw_negatives"):
        mine = table[table.method == tables.title(method)].set_index("accuracy")
        assert mine.value["Test-ID"] == main[method, "test_id"] and mine.value["Test-OOD"] == main[method, "test_ood"]


def test_choices_are_counted_by_where_their_interval_lies():
    lines = {"above": (0.1, 0.3), "below": (-0.3, -0.1), "open": (-0.1, 0.1), "default": (0.1, 0.2)}
    effects = pd.DataFrame(
        [
            {"variation": name, "metric": "test_id"}
            | {
                f"{beside}{end}": v
                for beside in ("moved", *REFERENCES)
                for end, v in (("_low", low), ("_high", high), ("_n", 5))
            }
            for name, (low, high) in lines.items()
        ]
    )
    found = weight_effects.counted(effects).query("metric == 'test_id'").set_index("beside")
    assert found.loc["default", ["choices", "above", "below"]].tolist() == [3, 1, 1]
    assert all(found.loc[name, ["choices", "above", "below"]].tolist() == [4, 2, 1] for name in REFERENCES)


def led(cells):
    """Rows of one label fraction: of each method (and level) an accuracy a seed."""
    return pd.DataFrame(
        [(m, level, 0.01, seed, v) for (m, level), values in cells.items() for seed, v in enumerate(values)],
        columns=["method", "level", "label_fraction", "seed", "test_id"],
    )


def test_a_lead_is_over_the_baseline_that_the_other_seeds_put_first():
    plain = {
        ("standard", math.nan): [0.5, 0.5, 0.5],
        ("mmd", math.nan): [0.7, 0.7, 0.7],
        ("dann", math.nan): [0.6, 0.6, 0.6],
    }
    lucky = {
        ("same_domain", math.nan): [0.9, 0.62, 0.65]
    }  # best by its mean, and on the others' seeds but for its lucky one
    mine = {("dw_pairs", 0.01): [0.7, 0.8, 0.9], ("dw_pairs", 0.05): [0.75, 0.75, 0.8]}
    low, raised = tables.leads(led(plain | lucky | mine), "test_id").itertuples(index=False, name=None)
    best = [0.7, 0.62, 0.65]
    for line, level in ((low, 0.01), (raised, 0.05)):
        difference = [a - b for a, b in zip(mine["dw_pairs", level], best)]
        interval = stats.ttest_1samp(difference, 0).confidence_interval()
        assert line[1:3] == (level, 0.01) and line[6] == 3 and line[7] == ("*" if interval.low > 0 else " ")
        assert line[3:6] == pytest.approx((sum(difference) / 3, *interval))
    assert raised[7] == " " and tables.leads(led(plain | mine), "test_id").empty


def test_nothing_reported_is_no_column():
    rows, keys = selected_rows(), ["method", "label_fraction"]
    in_paper = reported.load("table_2_label_fraction").query("sigma == 50")
    assert "reported" not in tables.compare(rows, rows.iloc[:0], keys, "test_id")
    assert "reported" in tables.compare(rows, in_paper, keys, "test_id")


def of_cells(entries):
    """Rows at 1 % of labels of (method, hyperparameters, accuracies by seed); what a method needs beyond its temperature is 1."""
    needs = {"mmd": {"lambda_": 1.0}, "dann": {"lambda_": 1.0}, "dw_pairs": {"tau_beta": 1.0}}
    entries = [(method, needs.get(method, {}) | cell, values) for method, cell, values in entries]
    rows = frame([(method, cell, s, v, v) for method, cell, values in entries for s, v in enumerate(values)])
    return rows[rows.label_fraction == 0.01]


def test_comparisons_have_the_best_line_first_within_groups_in_their_order():
    at = {("standard", 50.0): 0.7, ("standard", 150.0): 0.8, ("dw_pairs", 50.0): 0.9, ("dann", 0.0): 0.6, ("dann", 150.0): 0.85}  # fmt: skip
    rows = of_cells([(method, {"tau_alpha": 0.1, "sigma": sigma}, [v, v]) for (method, sigma), v in at.items()])
    table = tables.compare(rows, None, ["method", "sigma"], "test_ood", within=["sigma"])
    assert list(table)[:2] == ["sigma", "method"]
    names = [("0", "dann"), ("50", "dw_pairs"), ("50", "standard"), ("150", "dann"), ("150", "standard")]
    assert list(zip(table.sigma, table.method)) == [(sigma, tables.title(method)) for sigma, method in names]
    table = tables.compare(rows, None, ["method", "sigma"], "test_ood", within=["method"])
    names = [("standard", "150"), ("standard", "50"), ("dann", "150"), ("dann", "0"), ("dw_pairs", "50")]
    assert list(zip(table.method, table.sigma)) == [(tables.title(method), sigma) for method, sigma in names]
    assert tables.compare(rows, None, ["method", "sigma"], "test_ood").measured.is_monotonic_decreasing
    hidden = rows.assign(d_test_id=rows.test_ood)
    assert tables.compare(hidden, None, ["method", "sigma"], "d_test_id").measured.is_monotonic_increasing


def test_differences_and_leads_have_the_largest_first():
    rows = of_cells([(m, {"tau_alpha": 0.1}, [v, v + 0.01]) for m, v in (("standard", 0.7), ("same_domain", 0.6), ("mmd", 0.8))])  # fmt: skip
    assert tables.differences(rows, "test_ood").difference.tolist() == pytest.approx([0.1, -0.1])
    told = tables.differences(rows.assign(d_test_id=rows.test_ood), "d_test_id")
    assert told.difference.tolist() == pytest.approx([-0.1, 0.1]), "the lower, the better hidden"
    kinds = [
        ("dw_pairs", {"tau_alpha": 0.1, "tau_beta": 0.5, "sigma": s, "discriminator": d}, [v, v])
        for s, d, v in ((0.0, "global", 0.6), (0.0, "batch", 0.5), (50.0, "global", 0.4), (50.0, "batch", 0.7))
    ]
    table = tables.discriminator_differences(of_cells(kinds), "test_ood")
    assert table.sigma.tolist() == ["50", "0"] and table.difference.tolist() == pytest.approx([-0.3, 0.1])


def test_selected_cells_have_the_best_validated_first_at_each_sigma():
    at = {("standard", 50.0): 0.7, ("dann", 50.0): 0.9, ("dann", 150.0): 0.6, ("standard", 150.0): 0.5, ("mmd", 0.0): 0.1}  # fmt: skip
    chosen = selection.select(of_cells([(m, {"tau_alpha": 0.1, "sigma": s}, [v]) for (m, s), v in at.items()]))
    table = tables.selected_cells(chosen, ["sigma"])
    assert table.sigma.tolist() == ["0", "50", "50", "150", "150"]
    assert table["mean validation"].tolist() == [0.1, 0.9, 0.7, 0.6, 0.5]
    assert tables.selected_cells(chosen)["mean validation"].is_monotonic_decreasing


def test_the_widest_range_over_seeds_is_first():
    rows = of_cells([(m, {"tau_alpha": 0.1}, v) for m, v in (("standard", [0.9, 0.91]), ("mmd", [0.3, 0.9]))])
    runs = [Run(method, 0.1, seed=s, lambda_=k) for method, k in (("standard", None), ("mmd", 1.0)) for s in (0, 1)]
    table = tables.extremes(rows, runs)
    assert table.method.tolist() == ["CL with MMD Penalty", "Standard CL"] and table.lowest.tolist() == [0.3, 0.9]
    assert list(table) == ["method", "lowest", "highest", "near a share", "n"]


def test_a_choice_that_moves_a_mean_most_is_first_at_its_fraction():
    rows = []
    for method, second in (
        ("standard", 0.5),
        ("same_domain", 0.9),
    ):  # with all labels validation prefers the second cell
        rows += [(method, {"tau_alpha": t}, 0, v, test) for t, v, test in ((0.1, 0.8, 0.45), (0.2, 0.3, second))]
    table = tables.selected_at_fractions(frame(rows), ["test_ood"])
    assert table.method.tolist() == ["Same Domain Negatives", "Standard CL"]
    assert (table["Test-OOD here"] - table["Test-OOD at 1 %"]).tolist() == pytest.approx([0.45, 0.05])


def test_methods_of_several_cells_are_named():
    one = of_cells([("standard", {"tau_alpha": 0.1}, [0.5, 0.6])])
    assert tables.with_several_cells(one) == "Methods with more than one cell: none"
    two = pd.concat([one, of_cells([("mmd", {"tau_alpha": t}, [0.5]) for t in (0.1, 0.2)])])
    assert tables.with_several_cells(two) == "Methods with more than one cell: CL with MMD Penalty"
