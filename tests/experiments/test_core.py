"""The preset `core`: which runs go on, by validation alone."""

import random
from dataclasses import replace

import pytest

from dtcl_core.analysis import restated_claims, selection
from dtcl_core.config import SIGMAS, Protocol
from dtcl_core.experiments import REGISTRY, core, readings
from dtcl_core.launch.engines import compute_all

PROTOCOL = Protocol()


def told(run) -> float:
    """A validation accuracy for any run: one number a cell and sigma, and a little for the seed."""
    cell = f"{run.method}{run.tau_alpha}{run.tau_beta}{run.lambda_}{run.sigma}{run.discriminator}{run.protocol.tau_min}"
    return 0.5 + 0.4 * random.Random(cell).random() + 0.001 * random.Random(run.key).random()


def cell_of(run):
    return run.method, run.protocol.tau_min, run.tau_alpha, run.tau_beta, run.lambda_


def test_parts_have_the_size_of_the_design():
    parts = core.parts(PROTOCOL, told)
    assert tuple(parts) == core.PARTS
    sizes = {name: len(runs) for name, runs in parts.items()}
    assert sizes["strip"] == 2 * (2 * 2 * 19 + 3 * 6 + 2 * 9)
    assert sizes["further"] == 9 * 2 * 3 and sizes["fresh"] == 9 * 10
    assert 9 * 2 * 4 * 3 <= sizes["spreads"] <= 9 * 3 * 4 * 3 and sizes["ends"] == 9 * 2 * 2
    assert sizes["batches"] == 2 * 2 * 5 * 3 and sizes["heads"] == 7 * 2 * 5


def test_a_part_is_asked_for_when_those_before_it_have_their_rows():
    known = {}
    order = []
    while True:
        parts = core.parts(PROTOCOL, known.get)
        wanted = {run for runs in parts.values() for run in runs} - set(known)
        if not wanted:
            break
        order.append({name for name, runs in parts.items() if set(runs) & wanted})
        known |= {run: told(run) for run in wanted}
    assert len(order) == 4
    assert "strip" in order[0] and not order[0] & {"further", "fresh", "spreads", "ends", "batches", "both"}
    assert {"further", "batches"} <= order[1] and {"fresh", "spreads"} <= order[2] and "ends" in order[3]
    assert known == {run: told(run) for runs in core.parts(PROTOCOL, told).values() for run in runs}


def test_one_missing_row_holds_its_own_method_back_and_no_other():
    absent = next(run for run in core.parts(PROTOCOL, told)["strip"] if run.method == "mmd")
    parts = core.parts(PROTOCOL, lambda run: None if run == absent else told(run))
    assert {run.method for run in parts["further"]} == {entry.method for entry in core.ENTRIES} - {"mmd"}


def test_the_two_best_by_validation_go_on_and_the_better_of_them_is_run_afresh():
    parts = core.parts(PROTOCOL, told)
    for entry in core.ENTRIES:
        mine = [run for run in parts["strip"] if run.method == entry.method]
        if entry.tau_min is not None:
            mine = [run for run in mine if run.protocol.tau_min == entry.tau_min]
            mine = [run for run in mine if not core.is_calibrated(run.tau_alpha, run.tau_beta)]
        by_cell = {}
        for run in mine:
            by_cell.setdefault(cell_of(run), []).append(told(run))
        ranked = sorted(by_cell, key=lambda cell: -sum(by_cell[cell]))
        assert {cell_of(run) for run in parts["further"]} >= set(ranked[:2])
        assert not {cell_of(run) for run in parts["further"]} & set(ranked[2:])
        assert {cell_of(run) for run in parts["fresh"]} & set(ranked) == {ranked[0]}
    assert {run.seed for run in parts["fresh"]} == set(range(1000, 1010))


def test_the_winners_are_run_under_the_first_reading_too():
    changed = replace(PROTOCOL, crop_scale=(0.08, 1.0), label_draws=20)
    parts = core.parts(changed, told)
    before = {(cell_of(run), run.seed) for run in parts["first_reading"]}
    assert before == {(cell_of(run), run.seed) for run in parts["fresh"]} and len(before) == len(parts["first_reading"])
    levels = {replace(run.protocol, tau_min=readings.FIRST.tau_min) for run in parts["first_reading"]}
    assert levels == {replace(readings.FIRST, epochs=changed.epochs)}


def test_cells_that_calibration_looked_at_go_nowhere():
    def best(run):
        return 1.0 if run.tau_beta is not None and core.is_calibrated(run.tau_alpha, run.tau_beta) else told(run)

    parts = core.parts(PROTOCOL, best)
    assert any(best(run) == 1.0 for run in parts["strip"])
    assert not any(
        best(run) == 1.0 for name in core.PARTS if name not in ("strip", "third", "grid") for run in parts[name]
    )


def test_a_rival_is_the_best_outside_a_strip_if_it_beats_all_within():
    parts = core.parts(PROTOCOL, told)
    assert len(parts["grid"]) == 3 * 10 + 4 * 40 and {run.seed for run in parts["grid"]} == {0}
    assert {run.protocol.tau_min for run in parts["grid"]} == {core.TAU_MINS[0]}
    rivals = {run.method: run for run in parts["rivals"]}
    for method in (*core.PLAIN, *core.PENALISED, *core.PROPOSED):
        mine = [run for run in parts["grid"] if run.method == method]
        if method in core.PROPOSED:
            mine = [run for run in mine if not core.is_calibrated(run.tau_alpha, run.tau_beta)]
        best = max(mine, key=told)
        inside = best in parts["strip"]
        assert inside == (method not in rivals), method
        if not inside:
            assert cell_of(best) == cell_of(rivals[method])
    assert 0 < len(rivals) < 7, "both cases are to be met"
    assert len(parts["rivals"]) == len(rivals) * len(core.RIVAL_SEEDS)


def test_the_better_of_a_selected_cell_and_its_rival_is_rematched_on_seeds_that_chose_nothing():
    def turned(run):
        return 1.0 - told(run) if run.seed in core.RIVAL_SEEDS and run.method in core.PLAIN else told(run)

    parts = core.parts(PROTOCOL, turned)
    by_cell = {}
    for run in (*parts["fresh"], *parts["rivals"]):
        if run.seed in core.RIVAL_SEEDS:
            by_cell.setdefault(cell_of(run), []).append(turned(run))
    goes_on = {cell_of(run) for run in parts["rematch"]}
    whole = {None, core.TAU_MINS[0]}
    won = set()
    for entry in core.ENTRIES:
        level = PROTOCOL.tau_min if entry.tau_min is None else entry.tau_min
        mine = {cell: sum(found) for cell, found in by_cell.items() if cell[:2] == (entry.method, level)}
        best = {max(mine, key=mine.__getitem__)} if entry.method != "color_jitter" else set()
        assert {cell for cell in goes_on if cell[:2] == (entry.method, level)} == best
        if len(mine) == 2 and best:
            assert entry.tau_min in whole
            won.add(best.pop() in {cell_of(run) for run in parts["rivals"]})
    assert won == {True, False}, "both cases are to be met"
    assert len(parts["rematch"]) == 8 * 10 and {run.seed for run in parts["rematch"]} == set(range(1010, 1020))
    assert len(parts["unseen"]) == 2 * 20 and {run.seed for run in parts["unseen"]} == set(range(1020, 1040))
    assert {core.entry_of(run) for run in parts["unseen"]} == {core.Entry("standard"), core.Entry("dw_pairs", 0.01)}
    again = {cell_of(run) for run in parts["rematch"] if core.entry_of(run) in core.UNSEEN_ENTRIES}
    assert {cell_of(run) for run in parts["unseen"]} == again


def test_no_rematch_before_the_whole_grid_and_the_rival_have_rows():
    parts = core.parts(PROTOCOL, told)
    of = next(iter(run.method for run in parts["rivals"] if run.method in core.PENALISED))
    for part in ("grid", "rivals"):
        absent = next(run for run in parts[part] if run.method == of)
        without = core.parts(PROTOCOL, lambda run: None if run == absent else told(run))
        assert of not in {run.method for run in without["rematch"]} and without["rematch"]


def test_levels_of_tau_min_have_winners_of_their_own():
    """What one level's rows say moves no run of the other."""

    def other(run):
        return 1.0 - told(run) if run.protocol.tau_min == core.TAU_MINS[1] else told(run)

    def at(level, parts):
        return {run for runs in parts.values() for run in runs if run.protocol.tau_min == level}

    first, second = core.parts(PROTOCOL, told), core.parts(PROTOCOL, other)
    assert at(core.TAU_MINS[0], first) == at(core.TAU_MINS[0], second)
    assert at(core.TAU_MINS[1], first) != at(core.TAU_MINS[1], second)


def test_ties_go_to_the_smaller_temperature():
    parts = core.parts(PROTOCOL, lambda run: 0.7)
    assert {run.tau_alpha for run in parts["fresh"]} == {core.TAUS[0]}
    # At the edge of the strip the next temperature of the paper's grid is tried too.
    assert {run.tau_alpha for run in parts["spreads"] if run.method == "standard"} == {0.05, 0.075, 0.1}


def test_what_validation_does_not_say_cannot_matter():
    """The design sees runs and one number of each: the same numbers, the same runs."""
    assert core.parts(PROTOCOL, told) == core.parts(PROTOCOL, lambda run: told(run))


def test_batch_level_discriminators_are_run_in_the_cells_of_global_ones():
    parts = core.parts(PROTOCOL, told)
    level = core.TAU_MINS[0]
    cells = {cell_of(run) for run in parts["further"] if run.discriminator and run.protocol.tau_min == level}
    assert {cell_of(run) for run in parts["batches"]} == cells and {run.sigma for run in parts["batches"]} == set(
        SIGMAS
    )
    assert {run.discriminator for run in parts["batches"]} == {"batch"}


def test_selection_in_chapters_finds_the_cell_that_went_on():
    """`selection.select`, by its own rule on all rows, and the design agree, with the third seed of the strip and without."""
    import pandas as pd

    parts = core.parts(PROTOCOL, told)
    runs = [run for name in ("strip", "further", "third") for run in parts[name] if run.method == "same_domain"]
    lines = [
        {"method": r.method, "discriminator": None, "sigma": r.sigma, "projector": None, "projector_dim": None, "replicate": 0, "epochs": 400,
         "protocol": "p", "tau_alpha": r.tau_alpha, "tau_beta": None, "lambda_": None, "seed": r.seed, "key": r.key,
         "label_fraction": 0.01, "status": "ok", "validation": told(r)}
        for r in dict.fromkeys(runs)
    ]  # fmt: skip
    (chosen,) = selection.select(pd.DataFrame(lines)).tau_alpha
    assert {run.tau_alpha for run in parts["fresh"] if run.method == "same_domain"} == {chosen}


def test_claims_about_all_hyperparameters_look_at_the_strip():
    assert restated_claims.DESIGN["dw_pairs"] == core.strip("dw_pairs") and len(restated_claims.DESIGN["mmd"]) == 9


@pytest.mark.parametrize("seeds", [1, 3])
def test_fewer_seeds_are_a_part_of_the_design(seeds):
    whole = set(REGISTRY["main_table"].runs("core", validation=told))
    some = set(REGISTRY["main_table"].runs("core", validation=told, seeds=seeds))
    assert some == {run for run in whole if run.seed < seeds}


def test_a_run_that_diverged_counts_as_chance():
    run = core.parts(PROTOCOL, told)["strip"][0]
    scores = {"0.01": {"validation": None}}
    assert core.validation_of({run.key: {"status": "diverged", "metrics": scores}})(run) == core.CHANCE
    assert core.validation_of({})(run) is None


def test_training_goes_on_with_what_rows_select(tmp_path):
    """Real training, small: the second part is asked for when the first has its rows."""
    from dtcl_core.config import Run
    from dtcl_core.results import Store

    small = replace(PROTOCOL, epochs=1, channels=(8, 8, 8), split_sizes=(1024, 256, 256, 256))
    first = [Run("standard", tau, protocol=small) for tau in (0.1, 0.5)]

    def ask(validation):
        known = {run: validation(run) for run in first}
        if None in known.values():
            return first
        return [*first, replace(max(known, key=known.get), seed=1)]

    store = Store(tmp_path)
    assert compute_all(ask, store, "cpu", quiet=True) == 3
    assert {row["run"]["seed"] for row in store.rows().values()} == {0, 1}
    assert compute_all(ask, store, "cpu", quiet=True) == 0


@pytest.mark.parametrize(
    "name", ["main_table", "label_fractions", "model_selection", "sigma_ablation", "global_vs_batch"]
)
def test_a_spread_that_the_parts_have_asks_for_their_runs_there_and_another_for_a_grid(name):
    experiment = REGISTRY[name]
    for validation in (core.nothing, told):
        whole = experiment.runs("core", validation=validation)
        assert experiment.runs("core", validation=validation, sigma=50.0) == [r for r in whole if r.sigma == 50.0]
        assert experiment.runs("core", validation=validation, sigma="50") == [r for r in whole if r.sigma == 50.0]
    grid = experiment.runs("core", validation=told, sigma=30.0)
    assert grid and {run.sigma for run in grid} == {30.0}


def test_each_part_is_where_it_says():
    for name, runs in core.parts(PROTOCOL, told).items():
        assert {run.sigma for run in runs} == set(core.SPREADS[name])
