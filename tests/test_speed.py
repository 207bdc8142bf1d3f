"""Speed figures read back: ratios from hand-made files, and an honest gap where nothing was measured."""

import pandas as pd
import pytest
import torch

from dtcl_core import __main__ as command_line
from dtcl_core import figures, pretrain, speed


@pytest.fixture
def folder(tmp_path):
    seconds = {"plain loop": 8.0, "batched loop": 2.0, "engine, stack of 1": 1.0, "engine, stack of 6": 0.5}
    seconds["paper's runs"] = 0.6
    frame = pd.DataFrame({"contender": seconds.keys(), "median_s": seconds.values(), "precision": "float32"})
    times = frame.median_s.max() / frame.median_s
    frame.assign(speedup=times, speedup_low=times - 1, speedup_high=times + 2).to_csv(tmp_path / "cpu.csv", index=False)
    return tmp_path


def test_targets_compare_the_stacks_that_training_uses_and_say_what_was_not_measured(folder):
    table = speed.targets(folder).set_index(["where", "what"]).measured
    assert table["two CPU cores", "against the plain loop"] == "13.3 times (12.3 to 15.3)", "that of all methods"
    assert table["two CPU cores", "the same, standard CL alone"] == "16.0 times (15.0 to 18.0)"
    assert (table["one GPU"] == "not measured").all() and len(table["one GPU"]) >= 4
    frame = speed.load("cpu", folder).assign(median_s=lambda f: f.median_s / 1000)
    frame.to_csv(folder / "cuda.csv", index=False)
    pd.DataFrame({"part": ["views", "loss"], "ratio": [1.5, 2.5]}).to_csv(folder / "cuda_parts.csv", index=False)
    table = speed.targets(folder).set_index(["where", "what"]).measured
    assert table["one GPU", "950 runs of 400 epochs"] == f"{950 * 400 * 0.0006 / 60:.1f} minutes"
    assert table["one GPU", "against the plain loop"] == "13.3 times (12.3 to 15.3)"
    assert table["one GPU", "against a batched single run"] == "3.3 times"
    assert table["one GPU", "slowest part over its floor"] == "2.5 times (loss)"


def test_without_the_plain_loop_its_target_is_not_measured(folder):
    frame = speed.load("cpu", folder)
    frame[frame.contender != "plain loop"].assign(speedup="").to_csv(folder / "cpu.csv", index=False)
    assert (
        speed.targets(folder).set_index(["where", "what"]).measured["two CPU cores", "against the plain loop"]
        == "not measured"
    )


def test_growth_is_above_one_only_if_a_larger_stack_costs_more_than_in_proportion(folder):
    frame = speed.load("cpu", folder)
    assert speed.growth(frame) == pytest.approx(0.5)
    worse = pd.concat([frame, frame.tail(1).assign(contender="engine, stack of 8", median_s=0.6)])
    assert speed.growth(worse) == pytest.approx(1.2)
    table = speed.stacks(worse)
    assert list(table.runs) == [1, 6, 8] and list(table.seconds) == pytest.approx([1.0, 3.0, 4.8])
    assert len(figures.stack_cost({"here": table}).axes) == 2


def test_precisions_are_compared_seed_by_seed():
    rows = [
        dict(method="standard", tau_alpha=0.1, tau_beta=None, seed=s, precision=p, **dict.fromkeys(speed.PRECISION_METRICS, v))
        for s, exact in enumerate([0.5, 0.7, 0.9])
        for p, v in [("float32", exact), ("bfloat16", exact + 0.01 * (s + 1))]
    ]  # fmt: skip
    table = speed.precision_differences(pd.DataFrame(rows))
    assert len(table) == 4 and (table.n == 3).all()
    assert table.difference.tolist() == pytest.approx([0.02] * 4) and table.float32.tolist() == pytest.approx([0.7] * 4)
    assert ((table.low < 0.02) & (table.high > 0.02)).all()
    assert speed.precision_differences(speed.load("nothing")).empty


def test_a_seed_counts_once_when_configurations_are_pooled():
    gaps = {(None, 0): 0.01, (1.0, 0): 0.03, (None, 1): 0.05, (1.0, 1): 0.07}  # means of the seeds: 0.02 and 0.06
    rows = [
        dict(method="m", tau_alpha=0.1, tau_beta=b, seed=s, precision=p, **dict.fromkeys(speed.PRECISION_METRICS, v))
        for (b, s), gap in gaps.items()
        for p, v in [("float32", 0.5 + 0.1 * s), ("bfloat16", 0.5 + 0.1 * s + gap)]
    ]
    unfinished = rows[0] | {"seed": 2}  # float32 is done, bfloat16 not yet
    table = speed.precision_pooled(pd.DataFrame([*rows, unfinished]))
    assert len(table) == 4 and (table.n == 2).all()
    assert table.difference.tolist() == pytest.approx([0.04] * 4)
    assert table.float32.tolist() == pytest.approx([0.55] * 4)
    assert table.low.tolist() == pytest.approx([0.04 - 12.706 * 0.02] * 4, abs=1e-3)  # t with one degree of freedom
    assert table["sd of a pair"].tolist() == pytest.approx([0.02582] * 4, abs=1e-4)
    assert table["sd of a seed"].tolist() == pytest.approx([0.0707] * 4, abs=1e-3)
    assert speed.precision_pooled(speed.load("nothing")).empty


def test_what_was_counted_becomes_floors_and_minutes():
    shared = dict(runs=190, launches=1000, gflop=150.0, gb=25.0, peak_gb=4.0, estimate_gb=8.0, launch_ms=5.0)
    shared |= dict(stack="the paper's", stacks=5, epoch_launch_ms=150.0)
    rows = [
        shared | dict(gpu="A", device_ms=7.0, epoch_device_ms=210.0),
        shared | dict(gpu="B", device_ms=4.0, epoch_device_ms=120.0),
        shared | dict(gpu="A", stack="one", runs=1, stacks=0, device_ms=0.1, epoch_device_ms=9e9),
    ]
    table = speed.computed(pd.DataFrame(rows))
    assert list(table.columns[-2:]) == ["A", "B"] and len(table) == 2
    assert table.iloc[0][["A", "B"]].tolist() == [7.0, 5.0], "the longer of what the host and the device do"
    minutes = speed.computed_minutes(pd.DataFrame(rows))
    assert minutes == {"A": pytest.approx(5 * 400 * 0.21 / 60), "B": pytest.approx(5 * 400 * 0.15 / 60)}
    assert speed.computed(speed.load("nothing")).empty and speed.computed_minutes(speed.load("nothing")) == {}
    committed = speed.load("simulated")
    assert committed.machine.str.contains("not measured").all() and len(speed.computed(committed)) >= 4
    assert all(minutes < 8 for minutes in speed.computed_minutes(committed).values())


def test_the_committed_figures_can_be_read():
    assert len(speed.load("cpu")) > 5 and speed.growth(speed.load("cpu")) > 0
    assert set(speed.load("cpu_parts").part) >= {"forward", "backward", "whole step"}


def test_a_stack_that_does_not_fit_costs_the_others_nothing(tiny, monkeypatch, capsys):
    monkeypatch.syspath_prepend(speed.FOLDER)
    import compare

    def small(members, *arguments, stack=pretrain.Stack):
        if len(members) == 2:
            raise torch.OutOfMemoryError("no memory is left")
        return stack(members, *arguments)

    monkeypatch.setattr(compare.pretrain, "Stack", small)
    found = compare.stacks(tiny, torch.device("cpu"), "float32", [1, 2, 3])
    assert set(found) == {"engine, stack of 1", "engine, stack of 3"} and min(found.values()) > 0
    assert "a stack of 2 failed: no memory is left" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rounds", "0"], "--rounds must be an integer >= 1, got 0"),
        (["--stacks", "two"], "expected numbers with commas between them, got 'two'"),
        (["--stacks", "0"], "each of --stacks must be an integer >= 1, got 0"),
        (["--device", "tpu"], "device must be auto, cpu or cuda, got 'tpu'"),
    ],
)
def test_a_mistake_in_a_benchmark_is_one_line(arguments, message, capsys):
    assert command_line.main(["benchmark", "--device", "cpu", *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1


def test_what_came_of_tests_elsewhere_is_read_from_their_last_line(monkeypatch):
    monkeypatch.syspath_prepend(speed.FOLDER)
    from environments import outcomes

    assert outcomes("5 passed in 1s\nmore\n509 passed, 6 skipped, 2 warnings in 1167.06s (0:19:27)") == {
        "passed": 509, "skipped": 6, "failed": 0, "errors": 0,
    }  # fmt: skip
    assert outcomes("1 failed, 2 passed, 1 error in 3.1s") == {"passed": 2, "skipped": 0, "failed": 1, "errors": 1}
    with pytest.raises(ValueError, match="no tests were run"):
        outcomes("pip: no such version")
