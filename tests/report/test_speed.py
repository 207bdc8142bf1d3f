"""What the chapter on speed says of its figures, from hand-made files."""

import pandas as pd
import pytest

from dtcl_core.report import benchmarked, speed


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Writes a file of figures; those that a test does not write are missing."""
    monkeypatch.setattr(benchmarked, "FOLDER", tmp_path)
    return lambda name, lines: pd.DataFrame(lines).to_csv(tmp_path / f"{name}.csv", index=False)


WHERE = {"machine": "X", "threads": 2, "torch": "2.15", "sources": "a" * 12, "date": "2026-01-01"}


def test_where_figures_were_measured_names_threads_only_where_they_are_alike(files):
    assert speed.where_measured() == ""
    files("cpu", [WHERE | {"rounds": 5}])
    files("trunk_cpu", [WHERE | {"threads": 1}, WHERE])
    assert speed.where_measured().splitlines() == [
        f"the engine beside its peers: X, 2 threads, torch 2.15, 2026-01-01, 5 rounds, code {'a' * 12}",
        f"the two paths of a CPU: X, torch 2.15, 2026-01-01, code {'a' * 12}",
    ]
    assert "1 thread," in speed.measured_on("one", pd.DataFrame([WHERE | {"threads": 1}]))


def test_the_cost_is_the_pace_of_one_thread_times_all_runs(files):
    assert speed.cost() == "7,050 runs, 2,820,000 run-epochs; the pace of one thread is not measured yet."
    files("cpu", [{"contender": "paper's runs, one thread", "median_s": 0.36}])
    assert speed.cost() == (
        "7,050 runs, 2,820,000 run-epochs of 0.360 s: 282 core-hours,\nor 17.6 hours of 16 such cores with a process each."
    )


def test_what_is_missing_says_how_to_measure_it(files, capsys):
    speed.show_parts("cuda")
    speed.show_peers(benchmarked.measured())
    speed.show_precisions()
    assert capsys.readouterr().out.splitlines() == [
        "Not measured on cuda yet: python -m dtcl_core benchmark --device cuda",
        "cpu: not measured yet: python benchmarks/precision.py --device cpu",
        "cuda: not measured yet: python benchmarks/precision.py --device cuda",
    ]
    assert speed.least_minutes(benchmarked.load("simulated")) == "" and speed.files().empty


def test_parts_are_a_table_for_each_number_of_threads(files, capsys):
    part = WHERE | {"runs": 12, "precision": "float32", "copy_gb_s": 14.0, "product_gflop_s": 200.0}
    part |= {"part": "views", "ms": 1.5, "floor_ms": 0.5, "ratio": 3.0}
    files("cuda_parts", [part | {"threads": 1}, part | {"peak_gflop_s": 236.0}])
    speed.show_parts("cuda")
    printed = capsys.readouterr().out
    assert printed.count("views") == 2 and printed.index("threads: 1;") < printed.index("threads: 2;")
    assert printed.count("products 200 GFLOP/s") == 2 and printed.count("peak 236") == 1


def test_peers_are_shown_with_the_range_over_rounds(files, capsys):
    line = {"contender": "plain loop", "median_s": 3.2, "speedup": 1.5, "speedup_low": 1.25, "speedup_high": 1.75}
    files("cuda", [WHERE | line | {"rounds": 5}])
    speed.show_peers(benchmarked.measured())
    printed = capsys.readouterr().out
    assert "cuda: X, 2 threads" in printed and "plain loop" in printed and "1.250" in printed and "1.750" in printed
    figure = speed.draw_stacks(
        {"cuda": pd.DataFrame([line | {"contender": "engine, stack of 2", "precision": "float32"}])}
    )
    assert figure.axes[0].get_lines()[0].get_ydata().tolist() == [6.4], "two runs at 3.2 seconds each"


def test_precisions_that_were_measured_are_told(files, capsys):
    line = WHERE | {"method": "standard", "tau_alpha": 0.1, "tau_beta": None, "epochs": 20}
    metrics = ("validation", "test_id", "test_ood", "d_test_id")
    rows = [
        line | {"seed": s, "precision": p} | dict.fromkeys(metrics, 0.5 + 0.1 * s + more * (1 + 0.1 * s))
        for s in range(3)
        for p, more in (("float32", 0.0), ("bfloat16", 0.1))
    ]
    files("precision_cuda", rows)
    speed.show_precisions()
    printed = capsys.readouterr().out
    assert "cuda: X, 20 epochs" in printed and "4 of 4 pooled intervals exclude zero." in printed


def test_files_are_listed_with_their_code_and_those_of_other_code_are_named(files):
    files("cpu", [WHERE])
    files("audits", [WHERE, WHERE | {"sources": "b" * 12, "date": "2026-01-02"}])
    files("environments", [{"python": "3.12"}])
    listed = speed.files()
    assert listed.values.tolist() == [
        ["audits", "2026-01-01, 2026-01-02", f"{'a' * 12} {'b' * 12}"],
        ["cpu", "2026-01-01", "a" * 12],
    ]
    assert speed.of_other_code(listed, "a" * 12).endswith("other code: audits.")
    assert speed.of_other_code(listed[listed.file == "cpu"], "a" * 12).endswith("other code: none.")


def test_the_least_minutes_are_those_that_were_counted():
    said = speed.least_minutes(benchmarked.load("simulated"))
    minutes = benchmarked.computed_minutes(benchmarked.load("simulated"))
    assert said.splitlines() == [
        f"{gpu}: the paper's comparison at sigma 50, 950 runs of 400 epochs, at least {least:.1f} minutes (computed)"
        for gpu, least in minutes.items()
    ]
