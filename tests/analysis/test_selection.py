"""Model selection on hand-made rows."""

import pytest
from made_up_rows import frame, with_draws

from dtcl_core.analysis import selection
from dtcl_core.analysis.contrasts import Evidence
from dtcl_core.config import Protocol, Run
from dtcl_core.report import tables


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
    """Four seeds for every strength of a penalty first, six for the one selected: the first four have decided."""
    good, lucky = {"tau_alpha": 0.1, "lambda_": 0.1}, {"tau_alpha": 0.1, "lambda_": 1.0}

    def rows(first, second, later):
        entries = [("mmd", good, s, v, v) for s, v in enumerate([*first, *later])]
        return frame(entries + [("mmd", lucky, s, v, v) for s, v in enumerate(second)])

    chosen = selection.select(rows([0.8] * 4, [0.7] * 4, [0.1, 0.1]))
    assert chosen.lambda_.tolist() == [0.1] and chosen.n.tolist() == [4]
    assert len(selection.rows_of(rows([0.8] * 4, [0.7] * 4, [0.1, 0.1]), chosen)) == 2 * 6, "all seeds are shown"
    assert selection.select(rows([0.8] * 4, [0.9] * 4, [0.1, 0.1])).lambda_.tolist() == [1.0]
    assert selection.select(rows([0.8] * 4, [0.9, None, 0.9, 0.9], [0.1, 0.1])).lambda_.tolist() == [0.1], "it diverged"
    held = selection.held_out(rows([0.8, 0.8, 0.8, 0.5], [0.7, 0.7, 0.7, 0.9], [0.6, 0.6]))
    by = held[held.label_fraction == 0.01].set_index("seed").lambda_
    assert by.to_dict() == {0: 1.0, 1: 1.0, 2: 1.0, 3: 0.1}, "seeds 4 and 5 lack what the others select"
    held = selection.held_out(rows([0.8, 0.8, 0.8, 0.7], [0.7, 0.7, 0.7, 0.75], [0.6, 0.6]))
    by = held[held.label_fraction == 0.01].set_index("seed").lambda_
    assert by.to_dict() == dict.fromkeys(range(6), 0.1)


def test_the_claims_select_what_the_tables_select():
    """Of two strengths the better one diverged on a seed: neither shows it, nor counts it among the best."""
    cells = {0.1: [0.8] * 5, 1.0: [0.9, 0.9, None, 0.9, 0.9]}
    rows = frame(
        [("mmd", {"tau_alpha": 0.1, "lambda_": k}, s, v, 0.9) for k, of in cells.items() for s, v in enumerate(of)]
    )
    assert selection.select(rows).lambda_.tolist() == [0.1]
    evidence = Evidence(rows)
    assert set(evidence.chosen.lambda_) == {0.1} and evidence.chosen_cell("mmd") == (0.1, -1.0, 0.1)


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


def test_each_draw_of_labels_selects_for_itself():
    """At tau 0.1 draws alternate between 0.6 and 0.9 on validation, at 0.2 all are at 0.7: the means select 0.1, half of the draws 0.2."""
    protocol, rows = Protocol(label_draws=4), []
    for tau, validation, test in ((0.1, [0.6, 0.9, 0.6, 0.9], 0.8), (0.2, [0.7] * 4, 0.5)):
        for seed in (0, 1):
            run = Run(tau_alpha=tau, seed=seed, protocol=protocol)
            scores = {"validation": 0.75, "test_id": test, "test_ood": test, "d_test_id": 0.5}
            row = with_draws(
                {
                    "key": run.key, "run": run.to_dict(), "status": "ok", "provenance": {"created": "2026-01-01"},
                    "shard": "s", "metrics": {"0.01": scores, "1.0": scores},
                }
            )  # fmt: skip
            row["draws"]["0.01"] |= {"validation": validation, "test_id": [test + d / 100 for d in range(4)]}
            rows.append(row)
    found = selection.by_draw(rows, ["test_id"]).sort_values("draw")
    assert found.tau_alpha.tolist() == [0.2, 0.1, 0.2, 0.1] and found.n.tolist() == [2] * 4
    assert found.test_id.tolist() == pytest.approx([0.5, 0.81, 0.52, 0.83])
    (line,) = tables.single_draws(found, ["test_id"]).to_dict("records")
    assert line["cells"] == 2 and line["draws"] == 4 and line["most often"] in ("0.1 (2)", "0.2 (2)")
    assert (line["Test-ID lowest"], line["Test-ID highest"]) == pytest.approx((0.5, 0.83))
    (run,) = {Run(protocol=Protocol(label_draws=1))}
    single = {**rows[0], "run": run.to_dict(), "key": run.key}
    del single["draws"]
    assert selection.by_draw([single], ["test_id"]).empty
