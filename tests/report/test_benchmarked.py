"""Speed figures read back: ratios from hand-made files, and an honest gap where nothing was measured."""

from dataclasses import replace
from itertools import pairwise

import pandas as pd
import pytest
import torch

from dtcl_core import __main__ as command_line
from dtcl_core import pretrain
from dtcl_core.config import Protocol, Run
from dtcl_core.launch import local
from dtcl_core.report import benchmarked, figures


@pytest.fixture
def folder(tmp_path):
    seconds = {
        "plain loop": 8.0,
        "batched loop": 2.0,
        "engine, stack of 1": 1.0,
        f"engine, stack of {local.CPU_STACK}": 0.5,
    }
    seconds["paper's runs"] = 0.6
    frame = pd.DataFrame({"contender": seconds.keys(), "median_s": seconds.values(), "precision": "float32"})
    times = frame.median_s.max() / frame.median_s
    frame.assign(speedup=times, speedup_low=times - 1, speedup_high=times + 2).to_csv(tmp_path / "cpu.csv", index=False)
    return tmp_path


def test_targets_compare_the_stacks_that_training_uses_and_say_what_was_not_measured(folder):
    table = benchmarked.targets(folder).set_index(["where", "what"]).measured
    assert table["two CPU cores", "against the plain loop"] == "13.3 times (12.3 to 15.3)", "that of all methods"
    assert table["two CPU cores", "the same, standard CL alone"] == "16.0 times (15.0 to 18.0)"
    assert (table["one GPU"] == "not measured").all() and len(table["one GPU"]) >= 4
    frame = benchmarked.load("cpu", folder).assign(median_s=lambda f: f.median_s / 1000)
    frame.to_csv(folder / "cuda.csv", index=False)
    pd.DataFrame({"part": ["views", "loss"], "ratio": [1.5, 2.5]}).to_csv(folder / "cuda_parts.csv", index=False)
    table = benchmarked.targets(folder).set_index(["where", "what"]).measured
    assert table["one GPU", "950 runs of 400 epochs"] == f"{950 * 400 * 0.0006 / 60:.2f} minutes"
    assert table["one GPU", "against the plain loop"] == "13.3 times (12.3 to 15.3)"
    assert table["one GPU", "against a batched single run"] == "3.3 times"
    assert table["one GPU", "slowest part over its floor: loss"] == "2.50 times"


def test_targets_of_one_device_are_those_lines_alone(folder):
    whole, parts = benchmarked.targets(folder), [benchmarked.targets(folder, device) for device in benchmarked.DEVICES]
    assert pd.concat(parts, ignore_index=True).equals(whole)
    assert "one GPU" not in set(parts[0]["where"]) and set(parts[1]["where"]) == {"one GPU"}


def test_what_was_never_measured_has_no_lines():
    assert benchmarked.load("nothing").empty


def test_a_target_is_met_or_not_and_open_where_nothing_was_measured(folder):
    both = pd.DataFrame({"runs": [6, 6, 24, 6], "jitter": [False, False, False, True], "threads": [1, 2, 1, 1]})
    for name, values in (("speedup", [3.5, 3.0, 3.9, 2.0]), ("over_one_thread", [1.0, 1.9, 1.0, 1.0])):
        both[name] = values
        both[f"{name}_low"], both[f"{name}_high"] = both[name] - 0.5, both[name] + 0.5
    both = both.assign(
        operators_ms=[42.0, 20.0, 120.0, 9.0], trunk_ms=10.0, floor_ms=[10.0, 5.0, 40.0, 3.0], rate_gflop_s=100.0
    )
    both.to_csv(folder / "trunk_cpu.csv", index=False)
    parts = pd.DataFrame({"part": ["trunk forward", "trunk backward", "loss"] * 2, "threads": [1] * 3 + [2] * 3})
    parts.assign(ms=[2.0, 4.0, 9.0, 9.0, 9.0, 9.0], floor_ms=[2.0, 3.0, 1.0, 1.0, 1.0, 1.0]).to_csv(
        folder / "cpu_parts.csv"
    )
    cpu = benchmarked.load("cpu", folder)
    alone = cpu.tail(1).assign(contender="paper's runs, one thread", median_s=0.36)
    pd.concat([cpu, alone]).to_csv(folder / "cpu.csv", index=False)
    table = benchmarked.targets(folder).set_index(["where", "what"])
    found = {what: (row.measured, row.met) for (where, what), row in table.iterrows() if "CPU" in where}
    assert found["a step of 6 runs, against PyTorch's operators"] == ("3.50 times (3.00 to 4.00)", "yes")
    assert found["a step of 24 runs, against PyTorch's operators"] == ("3.90 times (3.40 to 4.40)", "no")
    assert found["6 runs with colour jitter, against PyTorch's operators"] == ("2.00 times (1.50 to 2.50)", "no")
    assert found["24 runs with colour jitter, against PyTorch's operators"] == ("not measured", "-")
    assert found["a step of 6 runs, against one core"] == ("1.90 times (1.40 to 2.40)", "yes")
    assert found["the trunk over its floor"] == ("1.20 times", "yes")
    assert found["the paper's runs"] == (f"{7050 * 400 * 0.36 / 3600:.1f} core-hours", "no")
    assert found["steepest cost of adding runs"] == ("0.50 of linear", "yes")
    assert benchmarked.best_possible(benchmarked.load("trunk_cpu", folder)) == (
        "At the 100 GFLOP/s that one core of this processor reaches at most, the trunk's multiplications alone allow no more "
        "than 4.2 times at 6 runs and 3.0 times at 24 runs, if all else took no time."
    )
    shown = benchmarked.paths(benchmarked.load("trunk_cpu", folder))
    assert shown.jitter.tolist() == ["no", "no", "no", "yes"] and shown["at most"].tolist() == [4.2, 4.0, 3.0, 3.0]
    assert (
        benchmarked.paths(benchmarked.load("nothing")).empty
        and benchmarked.best_possible(benchmarked.load("nothing")) == ""
    )


def test_without_the_plain_loop_its_target_is_not_measured(folder):
    frame = benchmarked.load("cpu", folder)
    frame[frame.contender != "plain loop"].assign(speedup="").to_csv(folder / "cpu.csv", index=False)
    assert (
        benchmarked.targets(folder).set_index(["where", "what"]).measured["two CPU cores", "against the plain loop"]
        == "not measured"
    )


def test_growth_is_above_one_only_if_a_larger_stack_costs_more_than_in_proportion(folder):
    frame = benchmarked.load("cpu", folder)
    assert benchmarked.growth(frame) == pytest.approx(0.5)
    worse = pd.concat([frame, frame.tail(1).assign(contender="engine, stack of 16", median_s=0.6)])
    assert benchmarked.growth(worse) == pytest.approx(1.2)
    table = benchmarked.stacks(worse)
    assert list(table.runs) == [1, 12, 16] and list(table.seconds) == pytest.approx([1.0, 6.0, 9.6])
    assert len(figures.stack_cost({"here": table}).axes) == 2


def test_what_was_counted_becomes_floors_and_minutes():
    shared = dict(runs=190, launches=1000, gflop=150.0, gb=25.0, peak_gb=4.0, estimate_gb=8.0, launch_ms=5.0)
    shared |= dict(stack="the paper's", stacks=5, epoch_launch_ms=150.0)
    rows = [
        shared | dict(gpu="A", device_ms=7.0, epoch_device_ms=210.0),
        shared | dict(gpu="B", device_ms=4.0, epoch_device_ms=120.0),
        shared | dict(gpu="A", stack="one", runs=1, stacks=0, device_ms=0.1, epoch_device_ms=9e9),
    ]
    table = benchmarked.computed(pd.DataFrame(rows))
    assert list(table.columns[-2:]) == ["A", "B"] and len(table) == 2
    assert table.iloc[0][["A", "B"]].tolist() == [7.0, 5.0], "the longer of what the host and the device do"
    minutes = benchmarked.computed_minutes(pd.DataFrame(rows))
    assert minutes == {"A": pytest.approx(5 * 400 * 0.21 / 60), "B": pytest.approx(5 * 400 * 0.15 / 60)}
    assert (
        benchmarked.computed(benchmarked.load("nothing")).empty
        and benchmarked.computed_minutes(benchmarked.load("nothing")) == {}
    )
    committed = benchmarked.load("simulated")
    assert committed.machine.str.contains("not measured").all() and len(benchmarked.computed(committed)) >= 4
    assert all(minutes < 8 for minutes in benchmarked.computed_minutes(committed).values())


def test_the_committed_figures_can_be_read():
    assert (benchmarked.FOLDER / "compare.py").exists()
    assert len(benchmarked.load("cpu")) > 5 and benchmarked.growth(benchmarked.load("cpu")) > 0
    parts = set(benchmarked.load("cpu_parts").part)
    assert parts >= {"forward", "backward", "whole step"} or parts >= {"trunk forward", "trunk backward", "whole step"}
    assert len(benchmarked.papers_runs()) == 7050


def test_a_stack_that_does_not_fit_costs_the_others_nothing(tiny, monkeypatch, capsys):
    monkeypatch.syspath_prepend(benchmarked.FOLDER)
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
    monkeypatch.syspath_prepend(benchmarked.FOLDER)
    from environments import outcomes

    assert outcomes("5 passed in 1s\nmore\n509 passed, 6 skipped, 2 warnings in 1167.06s (0:19:27)") == {
        "passed": 509, "skipped": 6, "failed": 0, "errors": 0,
    }  # fmt: skip
    assert outcomes("1 failed, 2 passed, 1 error in 3.1s") == {"passed": 2, "skipped": 0, "failed": 1, "errors": 1}
    with pytest.raises(ValueError, match="no tests were run"):
        outcomes("pip: no such version")


@pytest.fixture
def benchmarks(monkeypatch):
    """The scripts of the folder benchmarks/ can be imported."""
    monkeypatch.syspath_prepend(benchmarked.FOLDER)


def test_ratios_of_paths_are_of_medians_and_their_range_of_turns(benchmarks):
    import paths

    taken = {
        ("trunk", 1): [1.0, 2.0, 9.0], ("operators", 1): [4.0, 6.0, 18.0],
        ("trunk", 2): [1.0, 1.0, 3.0], ("operators", 2): [2.0, 3.0, 3.0],
    }  # fmt: skip
    one, two = paths.lines(taken, 6, True, operations=3e9, rate={1: 1e9, 2: 2e9})
    assert (one["runs"], one["jitter"], one["threads"], two["threads"], two["turns"]) == (6, True, 1, 2, 3)
    assert (one["speedup"], one["speedup_low"], one["speedup_high"]) == (3.0, 2.0, 4.0)
    assert (two["over_one_thread"], two["over_one_thread_low"], two["over_one_thread_high"]) == (2.0, 1.0, 3.0)
    assert one["over_one_thread"] == 1.0 and (one["trunk_ms"], one["trunk_min"], one["trunk_max"]) == (2e3, 1e3, 9e3)
    assert (one["floor_ms"], two["floor_ms"]) == (3e3, 1.5e3)


def test_paths_take_turns_on_their_threads_after_one_that_warms_up(benchmarks):
    import paths

    calls, before = [], torch.get_num_threads()

    def contender(name):
        return lambda: calls.append((name, torch.get_num_threads())) or float(len(calls))

    taken = paths.in_turns({("trunk", 1): contender("trunk"), ("operators", 2): contender("operators")}, 2)
    one, two = ("trunk", 1), ("operators", 2)
    assert calls == [two, one, one, two, two, one] and torch.get_num_threads() == before
    assert taken == {one: [3.0, 6.0], two: [4.0, 5.0]}
    assert [paths.thread_counts(n) for n in (1, 2, 16)] == [[1], [1, 2], [1, 2, 16]]


def test_the_papers_runs_are_also_timed_on_one_thread(tiny, benchmarks, monkeypatch):
    import compare

    monkeypatch.setattr(compare, "papers_runs", lambda *_: torch.get_num_threads())
    before = torch.get_num_threads()
    with compare.paths.on_threads(2):
        chosen = compare.contenders(tiny, torch.device("cpu"), "float32", [1])
        asked = [chosen[name]() for name in ("paper's runs, one thread", "paper's runs", "paper's runs, one thread")]
    assert asked == [1, 2, 1] and torch.get_num_threads() == before


def test_both_paths_are_timed_or_it_is_said_why_not(tiny, benchmarks, tmp_path, monkeypatch, capsys):
    import paths

    monkeypatch.setattr(paths, "cores", lambda: 1)
    tiny = replace(tiny, channels=(16, 16, 32))
    trunk, _ = pretrain.choose_trunk(tiny, torch.device("cpu"), "float32")
    if trunk is not None:
        paths.measure(tmp_path, turns=2, sizes=[2], protocol=tiny)
        table = benchmarked.load("trunk_cpu", tmp_path)
        assert table.jitter.tolist() == [False, True] and (table[["trunk_ms", "operators_ms", "floor_ms"]] > 0).all(
            axis=None
        )
        (tmp_path / "trunk_cpu.csv").unlink()
    monkeypatch.setenv("DTCL_TRUNK", "pytorch")
    assert paths.measure(tmp_path, protocol=tiny) == [] and not list(tmp_path.iterdir())
    assert "The trunk is not compared: steps are taken by PyTorch's operators, as asked for." in capsys.readouterr().out


@pytest.mark.parametrize("colors", [1, 3])
def test_the_trunks_multiplications_are_counted_as_by_going_through_pixels(benchmarks, colors):
    import parts

    widths, sides = (16, 48, 32), (28, 14, 7, 4)
    forward = backward = 0
    for block, (before, side) in enumerate(pairwise(sides)):
        kernels = widths[block] * (widths[block - 1] if block else colors)
        touched = [
            (2 * y + k - 1, y) for y in range(side + 1) for k in range(3)
        ]  # input row, output row or the one of zeros
        rows = 3 * side
        sees = sum(y < side and (block == 0 or 0 <= row < before) for row, y in touched)
        seen = sum(0 <= row < before for row, _ in touched)
        forward += rows**2 * kernels
        backward += sees**2 * kernels + (seen**2 if block else rows**2) * kernels  # the first is computed again
    tinted = 27 * widths[0] if colors == 1 else 0
    found = parts.trunk_multiplications(Protocol(channels=widths), colors)
    assert found["trunk forward"] == forward + tinted and found["trunk backward"] == backward + 2 * tinted
    assert found["sight"] == 14 * 14 * 9 * colors * (9 * colors + 1)


@pytest.mark.parametrize("trunk", ["auto", "pytorch"])
def test_every_part_of_a_step_is_timed_and_most_have_a_floor(tiny, benchmarks, monkeypatch, trunk):
    import parts

    monkeypatch.setenv("DTCL_TRUNK", trunk)
    protocol = replace(tiny, channels=(16, 16, 32))
    rows = pd.DataFrame(parts.measure(torch.device("cpu"), 2, "float32", protocol)).set_index("part")
    own = ["forward", "backward", "loss"] if rows.path.iloc[0] == "operators" else list(parts.MULTIPLIED)
    assert set(rows.index) == {"views", "dropout masks", *own, "Adam", "whole step", "epoch's start", "evaluation"}
    floors = rows.floor_ms.drop(["epoch's start", "evaluation"]).astype(float)
    assert (floors > 0).all() and floors["whole step"] == pytest.approx(floors.drop("whole step").sum())


def test_a_cores_peak_is_no_less_than_what_a_product_reaches(benchmarks):
    import machine

    peak = machine.peak_rate(1, times=100_000)
    if peak is None:
        pytest.skip("no AVX-512, or no compiler")
    assert peak > 1e9, "a processor with such vectors does more than a billion operations a second"
