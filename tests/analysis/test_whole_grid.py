"""The whole grid on one seed: what lies outside the strips, who is ahead, and whether fresh seeds agree."""

import pytest
from made_up_rows import made_up

from dtcl_core.analysis import whole_grid
from dtcl_core.experiments import REGISTRY, core

AHEAD = {"mmd": (0.075, None, 5.0), "dw_pairs": (0.1, 0.25, None)}  # outside their strips


def cell_of(run):
    return run.tau_alpha, run.tau_beta, run.lambda_


def validated(run) -> float:
    return 0.9 if AHEAD.get(run.method) == cell_of(run) else 0.8 - 0.1 * run.tau_alpha


RUNS = REGISTRY["whole_grid"].runs("core", validation=validated)


def rows(better=0.05, hardly=None):
    """Rivals above what their strips selected by `better`, noise shared by seed."""

    def value(run, metric):
        noise = 0.01 * (run.seed % 3)
        if metric == "validation":
            return validated(run)
        more = better if hardly is None else hardly[run.seed % 5]
        return 0.7 + noise + (more + 0.001 * (run.seed % 2)) * (AHEAD.get(run.method) == cell_of(run))

    return made_up(RUNS, value)


def test_every_cell_of_the_grid_is_told_where_it_is():
    found = whole_grid.cells(rows(), RUNS)
    assert len(found) == 3 * 10 + 4 * 40
    inside = found[found.place == whole_grid.WITHIN]
    # The paper's selected cell of negatives or pairs lies in the strip; of the penalties three by three do.
    assert inside.groupby("method").size().to_dict() == {
        method: len(core.strip(method)) for method in whole_grid.METHODS
    }
    assert found.calibrated.sum() == 2 * (4 + 2), "tau_alpha 1, and the two cells at tau_beta 0.1"


def test_who_is_ahead_within_and_outside():
    found = whole_grid.ahead(whole_grid.cells(rows(), RUNS)).set_index(["method", "place"])
    assert len(found) == 2 * len(whole_grid.METHODS) and not found.calibrated.any()
    for method, (alpha, beta, lambda_) in AHEAD.items():
        line = found.loc[(method, whole_grid.OUTSIDE)]
        assert line.tau_alpha == alpha and line.validation == 0.9
        assert (beta is None or line.tau_beta == beta) and (lambda_ is None or line.lambda_ == lambda_)
    assert found.loc[("standard", whole_grid.WITHIN)].tau_alpha == 0.05


def test_a_method_whose_grid_is_not_whole_has_no_one_ahead():
    made = rows()
    found = whole_grid.cells(made[~((made.method == "mmd") & (made.tau_alpha == 1.0))], RUNS)
    assert set(whole_grid.ahead(found).method) == set(whole_grid.METHODS) - {"mmd"}


def test_only_rivals_are_trained_afresh_and_a_better_one_is_told():
    found = whole_grid.rivals(rows(), RUNS)
    assert set(found.method) == set(AHEAD) and (found.n == len(core.RIVAL_SEEDS)).all()
    deciding = found[found.metric == "test_id"].set_index("method")
    assert (deciding.short == "yes").all()
    line = deciding.loc["mmd"]
    assert 0.05 <= line.difference <= 0.051 and line.low < line.difference < line.high
    assert abs(line.rival - line.selected - line.difference) < 1e-12
    assert set(found[found.metric != "test_id"].short) == {"–"}


def test_a_worse_rival_or_a_doubtful_one_shows_no_shortfall():
    worse = whole_grid.rivals(rows(-0.05), RUNS).query("metric == 'test_id'")
    assert (worse.high < 0).all() and (worse.short == "no").all()
    doubtful = whole_grid.rivals(rows(hardly=(0.001, 0.006, 0.007, 0.008, 0.013)), RUNS).query("metric == 'test_id'")
    assert (doubtful.low > 0).all() and (doubtful.short == "yes").all()
    more = whole_grid.rivals(rows(hardly=(-0.002, 0.006, 0.007, 0.008, 0.016)), RUNS).query("metric == 'test_id'")
    assert (more.difference > 0).all() and (more.short == "no").all()


def test_what_was_not_run_is_left_out():
    made = rows()
    assert whole_grid.cells(made.iloc[:0], RUNS).empty and whole_grid.rivals(made.iloc[:0], RUNS).empty
    assert whole_grid.ahead(whole_grid.cells(made.iloc[:0], RUNS)).empty
    old = made[made.key.isin({run.key for run in RUNS if run.seed in core.WHOLE_SEEDS})]
    assert whole_grid.rivals(old, RUNS).empty and len(whole_grid.cells(old, RUNS)) == 190


def accuracies(run, metric) -> float:
    """The cells of both proposed methods lead by 0.05 and hide the domain; penalties lag. Noise is shared by seed, most of it."""
    noise = 0.01 * (run.seed % 3) + 0.001 * ((run.seed + len(run.method)) % 2)
    if metric == "validation":
        return validated(run)
    lead = {"mmd": -0.05, "dann": -0.05, "same_domain": -0.05, "dw_negatives": 0.05, "dw_pairs": 0.05}
    told = {"dw_negatives": 0.6, "dw_pairs": 0.6, "same_domain": 0.5}
    if metric == "d_test_id":
        return told.get(run.method, 0.9) + noise
    return 0.7 + noise + lead.get(run.method, 0.0)


def test_a_rematch_judges_claims_on_its_own_seeds_at_each_level():
    made = made_up(RUNS, accuracies)
    found = whole_grid.rematch(made, RUNS)
    assert set(found) == set(core.TAU_MINS)
    for rulings in found.values():
        assert set(rulings) == set(whole_grid.REJUDGED)
        assert {rulings[number].word for number in (1, 2, 3)} == {"supported"}
        assert all(ruling.seeds == len(core.REMATCH_SEEDS) for ruling in rulings.values())
    before = made.seed < core.REMATCH_SEEDS.start
    upset = made.assign(test_id=made.test_id.where(before, 1.0 - made.test_id))
    assert whole_grid.rematch(upset, RUNS)[0.01][1].word == "contradicted"
    moved = made.assign(test_id=made.test_id.where(~before, 1.0 - made.test_id))
    assert whole_grid.rematch(moved, RUNS) == found, "no other seed is looked at"


def test_a_rematch_tells_levels_apart_and_says_what_was_not_run():
    made = made_up(RUNS, accuracies)
    keys = {run.key for run in RUNS if run.seed in core.REMATCH_SEEDS and run.protocol.tau_min == core.TAU_MINS[1]}
    worse = made.assign(test_id=made.test_id.where(~made.key.isin(keys), 0.5))
    found = whole_grid.rematch(worse, RUNS)
    assert (found[0.01][1].word, found[0.05][1].word) == ("supported", "contradicted")
    assert whole_grid.rematch(made[made.seed < core.REMATCH_SEEDS.start], RUNS) == {}
    one = (made.seed == core.REMATCH_SEEDS[0]) & (made.method == "mmd")
    assert whole_grid.rematch(made[~one], RUNS) == {}, "nothing before all rows are there"
    broken = made.assign(status=made.status.where(~one, "diverged"))
    assert whole_grid.rematch(broken, RUNS)[0.01][1].word == "not tested"


@pytest.mark.parametrize("method", ["standard", "dw_pairs", "mmd"])
def test_nothing_is_judged_before_every_methods_cell_is_known(method):
    """Without a row of a method's grid `core` does not say yet which of its cells go on, and asks for fewer runs."""
    known = REGISTRY["whole_grid"].runs(
        "core",
        validation=lambda run: None if (run.method, run.tau_alpha, run.seed) == (method, 0.5, 0) else validated(run),
    )
    made = made_up(known, accuracies)
    assert 0 < sum(run.seed in core.REMATCH_SEEDS for run in known) < 80
    assert whole_grid.rematch(made, known) == {}
    assert whole_grid.unseen(made, known).empty == (method != "mmd")


@pytest.mark.parametrize(
    "lead, swing, shown, excluded",
    [
        (0.05, 0.002, "yes", "open"),
        (-0.03, 0.002, "open", "yes"),
        (0.01, 0.002, "yes", "yes"),
        (0.0175, 0.05, "open", "open"),
    ],
)
def test_the_unseen_colour_is_told_once_all_thirty_seeds_are_there(lead, swing, shown, excluded):
    def value(run, metric):
        if metric == "validation":
            return validated(run)
        if run.method not in ("standard", "dw_pairs") or run.protocol.tau_min != 0.01:
            return 0.9
        before = 0.3 if run.seed < core.REMATCH_SEEDS.start else 0.0
        mine = lead + swing * (run.seed % 5 - 2) if run.method == "dw_pairs" else 0.0
        return 0.5 + 0.01 * (run.seed % 7) + before + mine

    made = made_up(RUNS, value)
    line, later, more = whole_grid.unseen(made, RUNS).itertuples()
    assert (more.seeds, more.n) == ("with the five that chose", 35) and more.lead == pytest.approx(lead)
    assert more.standard > line.standard + 0.01, "the five are higher"
    assert (later.seeds, later.n) == ("the last twenty", 20) and later.lead == pytest.approx(lead)
    assert (line.method, line.tau_min, line.n) == ("dw_pairs", 0.01, 30)
    assert line.lead == pytest.approx(lead) and line.weighted - line.standard == pytest.approx(lead)
    assert line.low < line.lead < line.high and line.reported == pytest.approx(0.035)
    assert (line.shown, line.excluded) == (shown, excluded)
    assert 0 < (line.lead - line.low) < line.detectable
    last = (made.seed == core.UNSEEN_SEEDS[-1]) & (made.method == "standard")
    assert whole_grid.unseen(made[~last], RUNS).empty
    without, *_ = whole_grid.unseen(made.assign(status=made.status.where(~last, "diverged")), RUNS).itertuples()
    assert without.n == 29
