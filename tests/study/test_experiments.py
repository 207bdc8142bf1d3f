"""What each table and figure asks for."""

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from dtcl_core.config import Protocol, Run
from dtcl_study import experiments, selection
from dtcl_study.experiments import PARTS, PRESETS, REGISTRY, Experiment, comparison
from dtcl_study.study import Evidence

ROOT = Path(__file__).resolve().parents[2]


def keys(name, preset="paper", **options):
    return {run.key for run in REGISTRY[name].runs(preset, **options)}


def test_the_papers_grid_has_the_papers_size():
    grid = keys("sigma_ablation") | keys("global_vs_batch") | keys("projector_head")
    assert len(grid) == 7050 and len(keys("sigma_ablation")) == 4750
    assert len(keys("global_vs_batch") - keys("sigma_ablation")) == 2000
    assert len(keys("projector_head") - keys("sigma_ablation")) == 300
    assert [len(keys(name)) for name in ("projector_head", "weight_outside", "other_temperatures")] == [350, 45, 90]
    assert len(keys("sigma_ablation", sigma="150,75,25,0", seeds=1)) == 760


def test_tables_share_their_runs():
    assert keys("label_fractions") == keys("main_table") == keys("model_selection") < keys("sigma_ablation")
    assert keys("temperature") < keys("main_table") and keys("effective_temperature") < keys("main_table")


def test_the_followed_runs_are_traced_on_the_seeds_of_the_grid_alone():
    (run, *_) = REGISTRY["effective_temperature"].runs("paper")
    assert experiments.wants_trace(run) and not experiments.wants_trace(
        dataclasses.replace(run, seed=experiments.FIRST_FRESH_SEED)
    )
    assert not experiments.wants_trace(dataclasses.replace(run, projector="mlp", projector_dim=16))
    assert not any(map(experiments.wants_trace, REGISTRY["dropout_grid"].runs("paper"))), "no page shows these"


def test_the_experiment_on_temperatures_records_them_whatever_it_is_asked_to_change():
    experiment = REGISTRY["effective_temperature"]
    others = experiment.runs("paper", sigma=25) + experiment.runs("paper", tau_alpha=0.2)
    assert len(others) == 10 and all(map(experiment.records, others)) and not any(map(experiments.wants_trace, others))


def test_a_design_is_filled_seed_by_seed():
    seeds = [run.seed for run in REGISTRY["main_table"].runs("paper")]
    assert seeds == sorted(seeds)


@pytest.mark.parametrize("preset", ["smoke", "laptop"])
def test_short_presets_cover_every_method_with_two_seeds(preset):
    runs = REGISTRY["main_table"].runs(preset)
    assert {run.method for run in runs} == set(REGISTRY["main_table"].methods) and len({run.seed for run in runs}) >= 2
    assert {run.protocol.epochs for run in runs} == {PRESETS[preset].epochs}


def test_options_narrow_and_change_the_runs():
    table = REGISTRY["main_table"]
    assert {run.method for run in table.runs("paper", methods="mmd, dann")} == {"mmd", "dann"}
    assert {run.sigma for run in table.runs("smoke", sigma="0,10")} == {0.0, 10.0}
    assert {run.tau_alpha for run in table.runs("smoke", tau_alpha=0.3)} == {0.3}
    assert {run.protocol.epochs for run in table.runs("smoke", epochs=7)} == {7}
    assert len(table.runs("paper", seeds=2)) == 380


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "big"}, "preset must be one of"),
        ({"seeds": 0}, "seeds must be an integer >= 1"),
        ({"seeds": 101}, "seeds must be an integer >= 1 and <= 100"),
        ({"sigma": ""}, "sigma must be numbers"),
        ({"sigma": []}, "sigma must be at least one number"),
        ({"methods": "dw_pair"}, r"no method 'dw_pair' \(did you mean 'dw_pairs'\?\) in main_table"),
        ({"methods": 3}, "methods must be names"),
        ({"tau_alpha": -1}, "tau_alpha must be a number > 0"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        REGISTRY["main_table"].runs(**{"preset": "smoke", **options})


def test_a_comparison_of_an_unknown_method_names_it():
    with pytest.raises(ValueError, match="method must be one of .* got 'simclr'"):
        Experiment("mine", "mine", comparison(("standard", "simclr"))).runs("laptop")


def test_every_run_of_the_paper_preset_belongs_to_a_part():
    asked = {run for part, options in PARTS.items() for run in REGISTRY[part.split(",")[0]].runs("paper", **options)}
    left = [name for name, experiment in REGISTRY.items() if not asked.issuperset(experiment.runs("paper"))]
    assert not left, "add an entry to experiments.PARTS, which `dtcl status` counts"


@pytest.fixture
def frozen(tmp_path, monkeypatch):
    """A frozen selection at sigma 50, one elsewhere, and one of batch-level discriminators."""
    methods = [{"method": m, **c} for m, c in (
        ("standard", {"tau_alpha": 0.05}), ("same_domain", {"tau_alpha": 0.1}), ("mmd", {"tau_alpha": 0.1, "lambda_": 5.0}),
        ("dann", {"tau_alpha": 0.1, "lambda_": 1.0}), ("color_jitter", {"tau_alpha": 0.5}),
        ("dw_negatives", {"tau_alpha": 0.075, "tau_beta": 0.5, "discriminator": "global"}),
        ("dw_pairs", {"tau_alpha": 0.175, "tau_beta": 1.0, "discriminator": "global"}),
    )]  # fmt: skip
    batch = [{**m, "discriminator": "batch"} for m in methods[-2:]]
    found = [
        {"name": "sigma_50", "seeds": [0, 1, 2, 3, 4], "configurations": [{**m, "sigma": 50.0} for m in methods]},
        {"name": "sigma_25", "seeds": [0], "configurations": [{**m, "sigma": 25.0} for m in methods]},
        {"name": "batch", "seeds": [0], "configurations": [{**m, "sigma": 50.0} for m in batch]},
    ]
    monkeypatch.setattr(experiments, "frozen", lambda folder="frozen": tuple(json.loads(json.dumps(found))))
    return found


def test_frozen_configurations_are_trained_on_seeds_that_no_grid_reaches(frozen):
    runs = REGISTRY["fresh"].runs("paper")
    at = {}
    for run in runs:
        at.setdefault((run.sigma, run.discriminator == "batch"), []).append(run)
    assert {k: len(v) for k, v in at.items()} == {(50.0, False): 350, (25.0, False): 70, (50.0, True): 100}
    assert {run.seed for run in runs} == set(range(1100, 1150))
    assert {run.seed for run in REGISTRY["fresh"].runs("paper", seeds=10, sigma=50)} == set(range(1100, 1110)), (
        "whose encoders are kept"
    )
    assert not {run.key for run in runs} & keys("sigma_ablation", seeds=100)


def test_one_choice_is_changed_at_a_time(frozen):
    runs = REGISTRY["choices"].runs("paper")
    assert len(runs) == 340 and {run.seed for run in runs} == set(range(1100, 1110))
    changed = {tuple(n for n in Protocol().__dict__ if getattr(run.protocol, n) != getattr(Protocol(), n)) for run in runs}
    assert len(changed) == 12, "each has a change of its own"
    plain = {dataclasses.replace(run, protocol=Protocol()).key for run in runs}
    assert plain <= keys("fresh"), "each has its partner on the same seed"


def test_the_other_selection_is_the_one_that_redrawn_seeds_select_most_often(monkeypatch):
    monkeypatch.setenv("DTCL_RESULTS", str(ROOT / "results"))
    runs = REGISTRY["other_selection"].runs("paper")
    assert [run.seed for run in runs] == list(range(1100, 1150)) and len({dataclasses.replace(run, seed=0) for run in runs}) == 1
    rows = Evidence().grid.complete
    found = selection.reselected(rows[(rows.method == "dw_negatives") & (rows.label_fraction == 0.01)])
    assert tuple(found[~found.selected].iloc[0][["tau_alpha", "tau_beta"]]) == (runs[0].tau_alpha, runs[0].tau_beta)


def test_the_second_study_repeats_the_grid_and_trains_what_it_selects_on_seeds_of_its_own(frozen):
    changed = dataclasses.replace(Protocol(), dropout=0.25)
    runs = REGISTRY["dropout_grid"].runs("paper")
    first = [run for run in REGISTRY["main_table"].runs("paper") if run.method != "color_jitter" and run.tau_alpha <= 0.175]
    assert len(runs) == 540 and {*runs} == {dataclasses.replace(run, protocol=changed) for run in first}
    again = REGISTRY["dropout_fresh"].runs("paper")  # of the frozen selections of the fixture
    assert {run.seed for run in again} == {*range(1150, 1200)} and {run.protocol for run in again} == {changed}


def test_the_baselines_have_other_temperatures_where_their_dropout_is_changed():
    runs = REGISTRY["retuned"].runs("paper")
    assert len(runs) == 80 and {run.seed for run in runs} == set(range(1100, 1110))
    assert {run.protocol for run in runs} == {dataclasses.replace(Protocol(), dropout=0.25)}
    assert len({run.key for run in runs} & keys("choices")) == 20, "what was selected is among them"


@pytest.mark.skipif(not (ROOT / ".git").exists() or shutil.which("git") is None, reason="needs a checkout")
def test_every_committed_row_trace_and_encoder_is_asked_for():
    told = subprocess.run(
        ["git", "ls-files", "results"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    told = [name for name in told if (ROOT / name).exists()]
    asked, rows = {run.key: run for experiment in REGISTRY.values() for run in experiment.runs("paper")}, []
    for name in (name for name in told if name.startswith("results/rows/")):
        rows += [json.loads(line) for line in (ROOT / name).read_text(encoding="utf-8").splitlines()]
    assert rows and {row["key"] for row in rows} <= asked.keys()
    assert all(Run.from_dict(row["run"]).key == row["key"] for row in rows), "committed rows are golden keys themselves"
    named = {row["encoder"]["file"] for row in rows if isinstance(row.get("encoder"), dict)}
    traced = {key for key, run in asked.items() if experiments.wants_trace(run)}
    for name in told:
        folder, stem = Path(name).parent.name, Path(name).stem
        assert folder != "encoders" or Path(name).name in named, name
        assert folder != "traces" or stem in traced, name
    pictured = {run.key for run in REGISTRY["fresh"].runs("paper", seeds=10) if run.sigma == 50 and run.discriminator != "batch"}
    for row in (row for row in rows if row["key"] in pictured):
        assert f"results/encoders/{row['encoder']['file']}" in told, "the networks of the page `why` come with the project"
