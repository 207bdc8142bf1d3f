"""What the paper leaves unstated about the weight: each choice is told alone, paired by seed, beside the lead that is left."""

from dataclasses import replace

import pytest
from made_up_rows import made_up

from dtcl_core.analysis import unstated
from dtcl_core.config import Protocol
from dtcl_core.experiments import REGISTRY, core

RUNS = REGISTRY["questions"].runs("core", validation=lambda run: 0.7 + 0.01 * (run.seed % 3))
PLAIN = Protocol()


def rows(moved=0.05, method="dw_pairs", choice="strong penalty"):
    """Proposed methods at 0.90, baselines at 0.80 to 0.83, and what one choice moves; with noise that seeds share."""
    changed = replace(PLAIN, **core.UNSTATED[choice])

    def value(run, metric):
        noise = 0.01 * (run.seed % 3) + 0.001 * ((run.seed * len(run.method)) % 2)
        if run.method not in core.PROPOSED:
            return {"standard": 0.80, "same_domain": 0.81, "mmd": 0.83}.get(run.method, 0.82) + noise
        return 0.9 + noise + (moved + 0.002 * (run.seed % 2)) * (run.protocol == changed and run.method == method)

    return made_up(RUNS, value)


def test_every_choice_is_one_change_of_what_was_selected():
    asked = [run for run in RUNS if unstated.choice_of(run.protocol, PLAIN) in core.UNSTATED]
    assert len(asked) == 2 * len(core.UNSTATED) * len(core.UNSTATED_SEEDS)
    for run in asked:
        default = replace(run, protocol=PLAIN)
        assert default in RUNS, "nothing to compare it with"
        assert unstated.choice_of(default.protocol, PLAIN) == unstated.AS_IT_IS
    assert unstated.choice_of(replace(PLAIN, tau_min=0.05), PLAIN) is None
    assert not {run.key for run in asked} & {
        run.key for run in REGISTRY["claims"].runs("core", validation=lambda r: 0.7)
    }


@pytest.mark.parametrize("moved", [0.05, -0.05])
def test_a_choice_that_moves_a_method_is_told_and_no_other(moved):
    found = unstated.effects(rows(moved), RUNS).set_index(["choice", "method", "metric"])
    assert len(found) == (1 + len(core.UNSTATED)) * len(core.PROPOSED) * len(unstated.METRICS)
    line = found.loc[("strong penalty", "dw_pairs", "test_id")]
    assert line.moves == "yes" and line.moved == pytest.approx(moved + 0.0008, abs=1e-6) and line.n == 5
    assert line.after - line.before == pytest.approx(line.moved) and line.low < line.moved < line.high
    assert line.lead == pytest.approx(0.07 + line.moved, abs=0.002) and line.lead_low < line.lead < line.lead_high
    still = found[(found.index.get_level_values("choice") != "strong penalty") & (found.moves != "–")]
    assert len(still) == 2 * (len(core.UNSTATED) - 1) and (still.moves == "no").all() and (still.moved == 0).all()
    nearer = found.loc[("strong penalty", "dw_pairs", "d_test_id")]
    assert nearer.lead == pytest.approx(0.80 - nearer.after, abs=0.02) and nearer.moves == "–"


def test_many_choices_are_corrected_for():
    """A difference that excludes zero by itself, hardly, is none among fourteen."""
    made = rows(0.0)
    hardly = {run.key: 0.004 + 0.0018 * (run.seed % 5 - 2) for run in RUNS if run.method == "dw_negatives"
              and unstated.choice_of(run.protocol, PLAIN) == "directions"}  # fmt: skip
    made["test_id"] += made.key.map(hardly).fillna(0.0)
    line = (
        unstated.effects(made, RUNS)
        .set_index(["choice", "method", "metric"])
        .loc[("directions", "dw_negatives", "test_id")]
    )
    assert line.low > 0 and line.moves == "no"


def test_what_was_not_run_is_left_out():
    made = rows()
    some = made[~made.key.isin({run.key for run in RUNS if unstated.choice_of(run.protocol, PLAIN) == "directions"})]
    assert "directions" not in set(unstated.effects(some, RUNS).choice)
    assert unstated.effects(made.iloc[:0], RUNS).empty
    alone = unstated.effects(made[made.method.isin(core.PROPOSED)], RUNS)
    assert alone.lead.isna().all() and alone.moved.notna().any(), "a lead over no one"
