"""Which seeds are complete, and what a study refuses before any work."""

from types import SimpleNamespace

import pandas as pd
import pytest
from made_up import frame, standard
from made_up_rows import row

from dtcl_core import results
from dtcl_core.config import METRICS, Run
from dtcl_core.methods import METHODS
from dtcl_study import experiments, study
from dtcl_study.experiments import BASELINES, HIGHER_DROPOUT, PROPOSED, REGISTRY, of_change
from dtcl_study.reported import CHANCE
from dtcl_study.study import Study, under_changes

DW = [Run("dw_pairs", 0.1, 0.5, seed=s, discriminator=kind) for kind in ("global", "batch") for s in range(3)]


def test_a_seed_is_complete_if_every_configuration_has_it():
    runs = standard(taus=(0.05, 0.1), seeds=range(3))
    there = [run for run in runs if (run.tau_alpha, run.seed) != (0.1, 1)]
    found = study.rows_of_complete_seeds(runs, frame(there))
    assert set(found.seed) == {0, 2} and len(found) == 2 * 2 * 3
    assert study.rows_of_complete_seeds(runs, frame(runs).iloc[:0]).empty


def test_each_sigma_and_kind_of_discriminator_is_a_grid_of_its_own():
    runs = [*standard(taus=(0.1,), seeds=range(3)), *standard(taus=(0.1,), seeds=range(3), sigma=25.0)]
    found = study.rows_of_complete_seeds(runs, frame(runs[:4]))
    assert set(zip(found.sigma, found.seed)) == {(50.0, 0), (50.0, 1), (50.0, 2), (25.0, 0)}
    found = study.rows_of_complete_seeds(DW, frame(DW[:4]))
    assert set(zip(found.discriminator, found.seed)) == {("global", 0), ("global", 1), ("global", 2), ("batch", 0)}


def test_progress_is_told_of_each_grid():
    one, other = standard(taus=(0.1,), seeds=range(5)), standard(taus=(0.1,), seeds=range(2), sigma=25.0)
    both = "{} of 5 seeds at sigma 50, {} of 2 seeds at sigma 25"
    for runs, there, told in (
        ([*one, *other], [*one[1:], *other], both.format(4, 2)),
        ([*one, *other], [*one, *other[:-1]], both.format(5, 1)),
        ([*one, *other], one[1:], "4 of 5 seeds at sigma 50 and none elsewhere"),
        ([*one, *other], [], "no seeds"),
        (one, one[:3], "3 of 5 seeds"),
        (one, [], "0 of 5 seeds"),
        (DW, DW, "3 of 3 seeds at sigma 50 (global), 3 of 3 seeds at sigma 50 (batch)"),
    ):
        found = Study("main_table", "smoke", quiet=True)
        found.runs, found.frame = runs, frame(there) if there else frame(runs).iloc[:0]
        assert found.progress == told


def test_a_method_without_a_discriminator_is_part_of_the_grid_beside_it():
    runs = [*standard(taus=(0.1,), seeds=range(2)), *(r for r in DW if r.discriminator == "global" and r.seed < 2)]
    found = study.rows_of_complete_seeds(runs, frame([r for r in runs if (r.method, r.seed) != ("standard", 1)]))
    assert set(found.seed) == {0}


def test_what_is_left_counts_a_run_once_with_the_first_experiment(tmp_path):
    store = results.Store(tmp_path)
    found = {part.name: part for part in study.parts(store, store.rows())}
    first, second = found["main_table"], found["global_vs_batch, sigma 50"]
    assert len(first.to_train) == 950 and len(second.missing) == 800 and len(second.to_train) == 400
    assert all(part.missing == part.runs for part in found.values())
    every = [run.key for part in found.values() for run in part.to_train]
    assert len(every) == len(set(every)) == len({run.key for part in found.values() for run in part.runs})
    traced = [run for run in first.runs if experiments.wants_trace(run)]
    store.add([row(run) for run in first.runs])
    found = {part.name: part for part in study.parts(store, store.rows())}
    assert found["main_table"].to_train == traced == found["main_table"].missing, "a trace is missing"
    assert not any(
        run.method == "dw_negatives" for run in found["global_vs_batch, sigma 50"].missing if run.discriminator == "global"
    )


def test_a_run_that_diverged_counts_as_chance_in_the_frame_and_in_the_selection(tmp_path, monkeypatch):
    monkeypatch.setenv("DTCL_RESULTS", str(tmp_path))
    runs = experiments.REGISTRY["main_table"].runs("paper", seeds=1, methods="standard,same_domain")
    ill = [run for run in runs if run.method == "standard" or run.tau_alpha == 0.05]
    rows = [row(run, accuracy=0.45, status="diverged" if run in ill else "ok") for run in runs]
    for scores in (
        *rows[0]["metrics"].values(),
        *rows[0].get("draws", {}).values(),
    ):  # an accuracy that could be computed all the same
        scores["test_id"] = [0.9 for _ in scores["test_id"]] if isinstance(scores["test_id"], list) else 0.9
    assert rows[0]["status"] == "diverged"
    results.Store(tmp_path).add(rows)
    found = Study("main_table", "paper", seeds=1, methods="standard,same_domain")
    accuracies = found.frame.set_index("status")[list(METRICS)]
    assert (accuracies.loc["diverged"] == CHANCE).all(axis=None) and (accuracies.loc["ok"] == 0.45).all(axis=None)
    assert found.chosen[found.chosen.method == "same_domain"].tau_alpha.item() == 0.05, "better than those that ended worse"
    assert f"Runs that diverged: {len(ill)}. They count as chance" in found.counted()


@pytest.mark.parametrize(
    ("options", "narrowed"),
    [
        ({}, False),
        ({"methods": "all", "seeds": 5}, False),
        ({"sigma": 25}, False),
        ({"sigma": (spread for spread in (25, 50))}, False),
        ({"epochs": 100}, True),
        ({"methods": "dann"}, True),
    ],
)
def test_options_other_than_sigma_narrow_a_study_and_fresh_rows_are_not_its(options, narrowed):
    found = Study("main_table", "paper", **options)
    assert found.narrowed is narrowed


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"preset": "big"}, "preset must be one of 'smoke', 'laptop', 'paper', got 'big'"),
        ({"compute": "yes"}, "compute must be one of True, False"),
        ({"device": "tpu"}, "device must be auto, cpu or cuda"),
        ({"seeds": 0}, "seeds must be an integer >= 1"),
        ({"save": ""}, "save must be the name of a folder"),
        ({"methods": "simclr"}, "no method 'simclr' in main_table"),
        ({"experiment": "main"}, "experiment must be one of 'main_table',"),
    ],
)
def test_a_mistake_is_refused_before_any_work(parameters, message, nothing_trains):
    with pytest.raises(ValueError, match=message):
        Study(**{"experiment": "main_table", "preset": "smoke", "compute": True, **parameters})


def test_a_study_trains_what_is_missing_and_says_how_much_is_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DTCL_RESULTS", str(tmp_path))
    study = Study("effective_temperature", "smoke", seeds=1)
    assert study.frame.empty and study.complete_seeds == 0 and not study.traces()
    trained = Study("effective_temperature", "smoke", True, "cpu", seeds=1)
    assert trained.store.path == tmp_path / "smoke", "apart from runs that mean something"
    assert trained.complete_seeds == 1 and len(trained.traces()) == 1 and len(trained.selected()) == 1
    assert trained.counted() == "effective_temperature, preset smoke: 1 of 1 seeds are complete; trained on cpu in float32."
    assert Study("fresh", "smoke").counted() == "fresh, preset smoke: no run is asked for."
    assert "no number means anything" in capsys.readouterr().out


def lines_of(runs):
    return pd.DataFrame([{"key": run.key, "method": run.method, "seed": run.seed, "label_fraction": 0.01} for run in runs])


def test_rows_under_a_change_are_there_once_all_its_runs_are():
    runs, trio = REGISTRY["choices"].runs("paper"), ("standard", "dw_negatives", "dw_pairs")
    base = lines_of(run for run in REGISTRY["fresh"].runs("paper", sigma=50) if run.discriminator != "batch")
    weight, everywhere, missing = "tau_min 0.01", HIGHER_DROPOUT, "crops from 0.2"
    there = [run for change in (weight, everywhere, missing) for run in of_change(runs, change, METHODS)]
    found = under_changes(base, SimpleNamespace(runs=runs, frame=lines_of(there[:-1])), trio)
    assert [*found] == ["as taken", weight, everywhere], "one run of the last is missing"
    assert all(part.method.value_counts().to_dict() == dict.fromkeys(trio, 10) for part in found.values())
    proposed = found[weight][found[weight].method != "standard"]
    assert {*found[weight].key} - {*proposed.key} <= {*base.key}, "a change of the weight leaves Standard CL as it is"
    assert not {*proposed.key} & {*base.key} and not {*found[everywhere].key} & {*base.key}
    alone = under_changes(base.iloc[:0], SimpleNamespace(runs=runs, frame=lines_of(there)), (*BASELINES, *PROPOSED))
    assert {name: len(part) for name, part in alone.items()} == {"as taken": 0, weight: 20, missing: 30, everywhere: 60}
