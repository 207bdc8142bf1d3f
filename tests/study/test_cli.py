"""The command line at its edges: closed streams, readers that leave, Ctrl-C at any time, stores that are not there."""

import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import tomllib
import warnings
from fcntl import ioctl
from pathlib import Path

import pytest
import torch
from test_results import row

import dtcl_core
import dtcl_study
from dtcl_core import terminal
from dtcl_core.config import Run
from dtcl_core.engine.provenance import SOURCES
from dtcl_core.launch import local
from dtcl_core.results import Store
from dtcl_study import audit, cli, commands, selection, tables
from dtcl_study.compare import Interval
from dtcl_study.experiments import PARTS, REGISTRY, wants_trace

ROOT = Path(dtcl_study.__file__).resolve().parent.parent
DTCL = [sys.executable, "-m", "dtcl_study"]
TRAIN = [*DTCL, "run", "main_table", "--methods", "standard", "--seeds", "1", "--device", "cpu"]


def environment(**others):
    return {**os.environ, "OMP_NUM_THREADS": "1", **others}


def shell(text, **others):
    """What a shell makes of a line; `dtcl` stands for the command."""
    return subprocess.run(
        ["bash", "-c", f'dtcl() {{ "{sys.executable}" -m dtcl_study "$@"; }}; {text}'],
        capture_output=True, text=True, env=environment(**others), timeout=300, check=False,
    )  # fmt: skip


# --- what is asked --------------------------------------------------------------------------------------------------


def test_help_explains_itself(capsys):
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    text = capsys.readouterr().out
    for word in ("--preset", "--device", "--shard", "--time-limit", "smoke", "laptop", "paper", *REGISTRY):
        assert word in text


@pytest.mark.parametrize(("package", "command"), [("pandas", "audit"), ("tqdm", "status")])
def test_it_says_which_package_is_missing(package, command):
    code = f"import sys; sys.modules[{package!r}] = None; from dtcl_study import cli; sys.exit(cli.main([{command!r}]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 2 and done.stdout == ""
    assert (
        done.stderr
        == f'error: this needs {package}, which is not installed: pip install ".[study]" in a clone. The losses alone do not need it.\n'
    )


def test_one_version_is_told_everywhere(capsys):
    with pytest.raises(SystemExit) as ending:
        cli.main(["--version"])
    assert ending.value.code == 0 and capsys.readouterr().out == f"dtcl {dtcl_core.__version__}\n"
    assert f"\nversion: {dtcl_core.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"] == ["version"]


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["stauts"], "status"),
        (["run", "main_tabel"], "main_table"),
        (["run", "main_table", "--preset", "papr"], "paper"),
        (["run", "main_table", "--seed", "2"], "--seeds"),
        (["run", "main_table", "--methods", "dw_pair"], "dw_pairs"),
        (["freeze", "grid", "main_tabel"], "main_table"),
    ],
)
def test_a_name_that_is_almost_right_is_offered(arguments, meant, capsys):
    try:
        status = cli.main(arguments)
    except SystemExit as ending:
        status = ending.code
    assert status == 2 and f"(did you mean '{meant}'?)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sigma=-5"], "sigma must be a number >= 0, got -5"),
        (["--methods=simclr"], "no method 'simclr' in main_table"),
        (["--tau-alpha=0"], "tau_alpha must be a number > 0, got 0"),
        (["--tau-alpha=low"], "tau_alpha must be numbers with commas"),
        (["--seeds=0"], "seeds must be an integer >= 1 and <= 100, got 0"),
        (["--epochs=0"], "epochs must be an integer >= 1, got 0"),
        (["--device=tpu"], "device must be auto, cpu or cuda, got 'tpu'"),
        (["--precision=float16"], "precision must be auto, float32 or bfloat16, got 'float16'"),
        (["--stack-size=0"], "stack_size must be an integer >= 1, got 0"),
        (["--time-limit=0"], "time_limit must be a number > 0, got 0.0"),
        (["--preset=huge"], "preset must be one of 'smoke', 'laptop', 'paper', got 'huge'"),
    ],
)
def test_a_users_mistake_is_one_line(arguments, message, tmp_path, capsys):
    status = cli.main(["run", "main_table", "--results", str(tmp_path), *arguments])
    captured = capsys.readouterr()
    assert status == 2 and message in captured.err and captured.err.count("\n") == 1 and not captured.out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "table_one"], "experiment must be one of 'main_table', "),
        (["freeze", "grid", "fresh"], "experiment must be one of 'main_table', 'sigma_ablation'"),
        (["audit", "-n", "0"], "n must be an integer >= 1, got 0"),
        (["run", "fresh", "--preset", "paper", "--seeds", "60"], "--seeds 60 is too many: these runs of fresh have 50"),
        (["run", "main_table", "--preset", "laptop", "--precision", "bfloat16"], "bfloat16 needs a store of its own"),
        (
            ["run", "main_table", "--precision", "bfloat16", "--results", str(ROOT / "results")],
            "bfloat16 needs a store of its own",
        ),
    ],
)
def test_a_command_refuses_what_it_cannot_do(arguments, message, monkeypatch, capsys, nothing_trains):
    monkeypatch.setenv("DTCL_RESULTS", str(ROOT / "results"))
    assert cli.main(arguments) == 2 and message in capsys.readouterr().err


def test_an_audit_that_runs_out_of_memory_says_so(tmp_path, monkeypatch, capsys):
    def no_room(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr("dtcl_study.audit.audit", no_room)
    assert cli.main(["audit", "--results", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "error: CUDA out of memory.\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"], ["run", "main_table", "--shard", "3/2"], ["run", "main_table", "--shard", "-1/2"], ["train"],
        ["run", "main_table", "--stack-size", "two"], ["run", "main_table", "--fresh"],
    ],
)  # fmt: skip
def test_a_line_that_makes_no_sense_ends_with_the_usage(arguments, capsys):
    with pytest.raises(SystemExit) as error:
        cli.main(arguments)
    assert error.value.code == 2 and "usage" in capsys.readouterr().err


# --- streams --------------------------------------------------------------------------------------------------------


def finished(folder):
    return [row["status"] for row in Store(folder).rows().values()] == ["ok"]


@pytest.mark.parametrize("how", ["2>&1 | head -1", ">/dev/full"])
def test_work_goes_on_whatever_becomes_of_its_output(how, tmp_path):
    code = f"""
import sys
from pathlib import Path
from dtcl_core.terminal import steady_output
with steady_output():
    for _ in range(10000):
        print("said")
        print("said", file=sys.stderr)
    Path({str(tmp_path / "done")!r}).touch()
"""
    done = subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -c "$0" {how}', code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    assert (tmp_path / "done").exists(), done.stderr
    assert not re.search("Traceback|Broken pipe|Exception ignored", done.stdout + done.stderr)


def test_training_goes_on_without_output(tmp_path):
    done = shell(f"dtcl {' '.join(TRAIN[3:])} --results '{tmp_path}' >&- 2>&-")
    assert finished(tmp_path) and done.returncode == 0, "files it opens take the numbers of the streams"


def test_a_reader_that_leaves_is_no_mistake_and_a_full_disk_is(tmp_path):
    left = shell(f"dtcl status --results '{tmp_path}' | head -1; exit ${{PIPESTATUS[0]}}")
    assert (left.returncode, left.stderr) == (0, "") and len(left.stdout.splitlines()) == 1
    full = shell(f"dtcl status --results '{tmp_path}' >/dev/full")
    assert full.returncode == 1 and full.stderr == "error: standard output could not be written: No space left on device\n"


def on_a_terminal(command, columns, folder):
    """What a command shows on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment(), cwd=folder)
    os.close(theirs)
    said = b""
    while select.select([ours], [], [], 120)[0]:
        try:
            said += os.read(ours, 4096)
        except OSError:  # it has ended
            break
    os.close(ours)
    return process.wait(), said.decode()


def test_the_time_left_is_seen_on_a_narrow_terminal(tmp_path):
    status, said = on_a_terminal([*TRAIN, "--results", str(tmp_path), "--epochs", "3"], 40, ROOT)
    bars = [line for line in re.split(r"[\r\n]", said) if "runs," in line]
    assert status == 0 and any(re.search(r"1 runs, \d\d:\d\d left", line) for line in bars), said
    assert all(len(line) <= 40 for line in bars), bars


# --- Ctrl-C ---------------------------------------------------------------------------------------------------------


def interrupted_at(module, rest):
    """A new Python that does the rest, and is sent Ctrl-C where it begins to import a module."""
    script = f"""
import os, runpy, signal, sys

class Interrupting:
    def find_spec(self, name, *rest):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may have it ignored
{rest}
"""
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=ROOT, check=False, timeout=120)


def test_ctrl_c_waits_for_libraries_that_are_being_imported(tmp_path):
    """PyTorch may end the process if it comes in the middle; so it is answered when all is imported."""
    asked = f"""
from dtcl_study import cli
assert "torch" not in sys.modules
print(cli.main(["status", "--results", {str(tmp_path)!r}]), "dtcl_study.commands" in sys.modules)
"""
    done = interrupted_at("torch._C", asked)
    assert done.stdout.split() == [str(terminal.STOPPED), "True"] and done.stderr.strip() == "Stopped."


def test_ctrl_c_and_the_time_limit_end_training_cleanly(tmp_path, handlers, capsys):
    arguments = [
        "run",
        "main_table",
        "--preset",
        "laptop",
        "--methods",
        "standard",
        "--seeds",
        "1",
        "--results",
        str(tmp_path),
        "--device",
        "cpu",
    ]
    assert cli.main([*arguments, "--time-limit", "2"]) == terminal.STOPPED and "2 of 2 runs to go" in capsys.readouterr().out
    process = subprocess.Popen([*DTCL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    assert any("Encoders are computed by" in line for line in iter(process.stdout.readline, "")), process.communicate(timeout=60)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=120)
    assert process.returncode == terminal.STOPPED, error
    assert "whole epochs are kept" in out and "Traceback" not in error
    assert list((tmp_path / ".checkpoints").glob("*.pt")), "what was trained is lost"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_to_stop_and_a_second_one_stops_at_once(number, handlers):
    asked = terminal.stop_requests(None)
    assert not asked()
    os.kill(os.getpid(), number)
    assert asked()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)
    assert not terminal.stop_requests(60)() and terminal.stop_requests(0)()


@pytest.mark.parametrize("command", ["status", "check", "reproduce"])
def test_ctrl_c_in_the_midst_of_any_command_is_one_word(command, tmp_path, monkeypatch, capsys):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setitem(commands.COMMANDS, command, interrupted)
    monkeypatch.setenv("DTCL_RESULTS", str(tmp_path))
    assert cli.main([command, *(["table", "1"] if command == "reproduce" else [])]) == terminal.STOPPED
    assert capsys.readouterr().err == "Stopped.\n"


# --- stores ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["status", "audit", "run"])
def test_a_store_that_cannot_be_one_is_refused(command, tmp_path, monkeypatch, capsys, nothing_trains):
    (tmp_path / "file").write_text("")
    arguments = {"run": ["run", "main_table"], "status": ["status"], "audit": ["audit"]}[command]
    for name in ("file", "nowhere") if command != "run" else ("file",):
        told = f"there is no folder {tmp_path / name}"
        monkeypatch.setenv("DTCL_RESULTS", str(tmp_path / name))
        assert cli.main(arguments) == 2 and f"error: DTCL_RESULTS: {told}." in capsys.readouterr().err
        monkeypatch.delenv("DTCL_RESULTS")
        assert cli.main([*arguments, "--results", str(tmp_path / name)]) == 2
        assert f"error: --results: {told}." in capsys.readouterr().err
    assert cli.main([*arguments, "--results", ""]) == 2
    assert "error: --results: there is no folder without a name." in capsys.readouterr().err


def test_status_names_its_store_and_its_json_says_the_same(tmp_path, capsys):
    runs, store = REGISTRY["main_table"].runs("paper"), Store(tmp_path)
    first = [run for run in runs if run.seed == 0]
    store.add([row(run, status="diverged" if run is runs[0] else "ok") for run in (*first, runs[-1])])
    assert cli.main(["status", "--results", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{len(first) + 1} rows in {tmp_path}; 0 runs with rows that disagree") and "1 run diverged" in text
    assert cli.main(["status", "--json", "--results", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["store"], found["rows"], found["diverged"], found["conflicts"]) == (str(tmp_path), len(first) + 1, 1, {})
    assert [line["part"] for line in found["parts"]] == list(PARTS)
    for line in found["parts"]:
        (shown,) = (x.removeprefix(line["part"]).split() for x in text.splitlines() if x.startswith(line["part"] + "  "))
        assert list(map(int, shown[:3])) == [line["runs"], line["present"], line["missing"]]
        assert line["present"] + line["missing"] == line["runs"] and line["to_train"] <= line["missing"]
    lines = {line["part"]: line for line in found["parts"]}
    assert (lines["main_table"]["complete_seeds"], lines["main_table"]["seeds"]) == (1, 5), "a seed counts once it is whole"
    assert lines["sigma_ablation"]["complete_seeds"] == 0, "there is a sigma that lacks it"
    asked = {run.key for experiment in REGISTRY.values() for run in experiment.runs("paper")}
    untraced = sum(run.key in Store(tmp_path).rows() and wants_trace(run) for run in runs)
    assert untraced and sum(line["to_train"] for line in lines.values()) == len(asked) - len(first) - 1 + untraced, "counted once"
    assert lines["global_vs_batch, sigma 50"]["to_train"] < lines["global_vs_batch, sigma 50"]["missing"], (
        "the rest is the first part's"
    )


def test_status_counts_runs_with_rows_that_disagree(tmp_path, capsys):
    store = Store(tmp_path)
    store.add([row(accuracy=0.9), row(Run(seed=1))])
    store.add([row(accuracy=0.1)])
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert cli.main(["status", "--results", str(tmp_path)]) == 0
        captured = capsys.readouterr()
        assert cli.main(["status", "--json", "--results", str(tmp_path)]) == 0
    assert captured.out.startswith(f"2 rows in {tmp_path}; 1 run with rows that disagree") and "disagree" in captured.err
    ((key, files),) = json.loads(capsys.readouterr().out)["conflicts"].items()
    assert key == row()["key"] and sorted(files) == sorted(path.name for path in store.rows_path.iterdir())


# --- divergence, and values refused early ---------------------------------------------------------------------------


def test_runs_that_diverged_are_counted_and_success_needs_one_that_did_not(tmp_path, capsys):
    runs = REGISTRY["main_table"].runs("smoke", methods="standard")
    store, command = (
        Store(tmp_path),
        ["run", "main_table", "--methods", "standard", "--device", "cpu", "--results", str(tmp_path)],
    )
    store.add([row(runs[0], status="diverged")])
    assert cli.main([*command, "--seeds", "1"]) == 1
    assert "1 of 1 runs exist" in (said := capsys.readouterr().out) and "1 of 1 runs diverged" in said
    store.add([row(runs[1])])
    assert cli.main(command) == 0 and "1 of 2 runs diverged" in capsys.readouterr().out


def test_rows_of_other_numeric_code_are_told_of(tmp_path, capsys):
    runs = REGISTRY["main_table"].runs("smoke", methods="standard")
    command = ["run", "main_table", "--methods", "standard", "--results", str(tmp_path)]
    mine, other = (row(run) for run in runs)
    mine["provenance"]["sources"] = SOURCES
    Store(tmp_path).add([mine, other])
    assert cli.main(command) == 0 and "\nRows of other numeric code: 1." in capsys.readouterr().out
    assert cli.main([*command, "--seeds", "1"]) == 0 and "numeric code" not in capsys.readouterr().out


def test_an_audit_that_is_stopped_keeps_what_it_compared(tmp_path, monkeypatch, capsys):
    one = Run(protocol=REGISTRY["main_table"].runs("smoke")[0].protocol)
    for tau in (0.1, 0.2):  # two stacks
        local.compute([Run(tau_alpha=tau, protocol=one.protocol)], Store(tmp_path), "cpu", quiet=True)
    compared = []
    monkeypatch.setattr("dtcl_study.commands.stop_requests", lambda limit: lambda: bool(compared))
    real = audit.compare_rows
    monkeypatch.setattr("dtcl_study.audit.compare_rows", lambda *rows: compared.append(1) or real(*rows))
    command = ["audit", "-n", "2", "--device", "cpu", "--results", str(tmp_path)]
    assert cli.main(command) == terminal.STOPPED
    said = capsys.readouterr().out
    assert said.startswith("Training 2 rows in 2 stacks on cpu again: 2 run-epochs."), "it was silent at first"
    assert "1 of 1 row came out identical" in said and "Stopped; 1 row was compared until then." in said
    compared.clear()
    assert cli.main([*command, "--json"]) == terminal.STOPPED
    found = json.loads(capsys.readouterr().out)
    assert found["stopped"] and len(found["rows"]) == 1 and found["rows"][0]["identical"] is True


def test_run_and_status_from_the_command_line(tmp_path, capsys, handlers):
    def said(*arguments):
        assert cli.main([*arguments, "--results", str(tmp_path)]) == 0
        return capsys.readouterr().out

    parts = [said("run", "main_table", "--seeds", "1", "--shard", f"{part}/2") for part in (0, 1)]
    assert sum(int(re.search(r"All (\d+) runs exist now", part)[1]) for part in parts) == 7 == len(Store(tmp_path).rows())
    assert len(re.findall(r"^Encoders are computed by .*: float32, \d+ threads?, up to", parts[0], re.MULTILINE)) == 1
    again = said("run", "main_table", "--methods", "standard,dw_pairs", "--seeds", "1")
    assert "main_table, preset smoke: 2 of 2 runs exist in " in again
    status = said("status")
    assert status.startswith(f"7 rows in {tmp_path}") and re.search(r"of this processor on \d+ threads? by", status)
    assert re.search(r"^main_table +950 +0 +950 +0 of 5 +950 +\S+ (s|min|h|days) +\d+\.\d$", status, re.MULTILINE)


# --- freeze and reproduce -------------------------------------------------------------------------------------------


@pytest.fixture
def grid(tmp_path, monkeypatch):
    """A store with two whole seeds of the main table and a part of a third; the larger a temperature the better."""
    runs = [run for run in REGISTRY["main_table"].runs("paper") if run.seed < 2 or run.method == "standard"]
    Store(tmp_path).add([row(run, accuracy=0.5 + run.tau_alpha / 4 + run.seed / 100) for run in runs])
    monkeypatch.setenv("DTCL_RESULTS", str(tmp_path))
    return tmp_path


def test_a_table_is_printed_reported_beside_measured(grid, capsys):
    assert cli.main(["reproduce", "table", "1"]) == 0
    heading, *verdicts, names = (out := capsys.readouterr().out.splitlines())[:6]
    lines = out[6:]
    assert verdicts == [f"Claim {number} (fresh seeds): not judged yet." for number in (1, 2, 3, 4)]
    assert (
        heading.startswith("Table 1: Accuracy with 1 % of the labels, colour spread sigma 50.")
        and heading.endswith("Measured: 2 seeds of the grid.")
        and names.split() == "row column metric reported measured low high n difference".split()
    )
    assert len(lines) == 7 * 3 and re.match(
        r"Standard CL +Test-OOD +test_ood +0\.784 +0\.755 +\d\.\d{3} +\d\.\d{3} +2 +-0\.029$", lines[0]
    )
    assert cli.main(["reproduce", "TABLE 1", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["lines"][0]
    assert first["n"] == 2 and first["measured"] == pytest.approx(0.755) and first["low"] < 0.755 < first["high"]
    assert cli.main(["reproduce", "Table 1", "--format", "latex"]) == 0
    latex = capsys.readouterr().out
    assert (
        re.match(r"% Table 1: .*\n(% Claim \d \(fresh seeds\): not judged yet\.\n){4}\\begin\{tabular\}\{lllllllll\}\n", latex)
        and latex.count("test\\_ood") == 7
    )


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((2, 5), "2 to 5 seeds of the grid."),
        ((10, 50), "10 to 50 seeds (fresh)."),
        ((2, 50), "2 to 50 seeds of the grid where n is at most 5, else fresh."),
    ],
)
def test_it_is_said_whether_seeds_are_fresh(counts, said, tmp_path, monkeypatch, capsys):
    measured = {(i, 0): Interval(0.7, 0.6, 0.8, n) for i, n in enumerate(counts)}
    twin = tables.Twin(
        "Caption.", (tables.Line("one", {}), tables.Line("other", {})), (tables.Column("x", "test_id", {}),), {}, measured
    )
    monkeypatch.setattr(tables, "twin_of", lambda number, evidence: twin)
    monkeypatch.setenv("DTCL_RESULTS", str(tmp_path))
    assert cli.main(["reproduce", "table", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith(f" Measured: {said}")


def test_a_claim_is_printed_with_its_contrasts_and_verdict(grid, capsys):
    assert cli.main(["reproduce", "claim 7", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] and found["says"] and {line["n"] for line in found["lines"]} <= {0, 2}
    assert cli.main(["reproduce", "Claim", "7"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"Claim 7: {found['says']}\nVerdict: {found['verdict']} ({found['counts']})\ncontrast")
    assert all(line["contrast"] in text for line in found["lines"])
    assert re.search(r" [+-]\d\.\d{3} +[+-]\d\.\d{3,} +[+-]\d\.\d{3,} +2 ", text), "limits of differences have a sign"
    assert cli.main(["reproduce", "claim 1"]) == 0
    assert "\nSecond study, with dropout 0.25: not finished (0 of 300 runs" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["Table 10", "claim 16", "figure 1", "table"])
def test_only_what_the_paper_has_is_reproduced(what, grid, capsys):
    assert cli.main(["reproduce", what]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1 and not captured.out


def test_a_selection_is_frozen_once_on_complete_seeds(grid, monkeypatch, capsys):
    (grid / "frozen").mkdir()
    monkeypatch.setattr(commands, "HERE", grid)
    assert (
        cli.main(["freeze", "main", "main_table"]) == 2
        and "seeds 0 to 4 select; not complete: 2, 3, 4." in capsys.readouterr().err
    )
    monkeypatch.setattr(selection, "SEEDS", 2)
    assert cli.main(["freeze", "main", "main_table"]) == 0
    kept = json.loads((grid / "frozen" / "main.json").read_text())
    assert kept["seeds"] == {"50": [0, 1]} and "7 configurations" in capsys.readouterr().out
    assert {c["tau_alpha"] for c in kept["configurations"]} == {1.0} and len(kept["configurations"]) == 7
    assert cli.main(["freeze", "main", "main_table"]) == 2 and "never changed" in capsys.readouterr().err
    assert cli.main(["freeze", "other", "global_vs_batch"]) == 2 and "no seed is complete" in capsys.readouterr().err
    assert cli.main(["freeze", "../main", "main_table"]) == 2 and "NAME must be" in capsys.readouterr().err


def test_the_second_studys_selection_has_a_folder_and_a_name_of_its_own(tmp_path, monkeypatch, capsys):
    runs = REGISTRY["dropout_grid"].runs("paper")
    Store(tmp_path).add([row(run) for run in runs if run.seed < 4])
    (tmp_path / "frozen_dropout").mkdir()
    monkeypatch.setattr(commands, "HERE", tmp_path)
    monkeypatch.setenv("DTCL_RESULTS", str(tmp_path))
    assert cli.main(["freeze", "dropout", "dropout_grid"]) == 2 and "not complete: 4." in capsys.readouterr().err
    Store(tmp_path).add([row(run) for run in runs if run.seed == 4])
    assert cli.main(["freeze", "second", "dropout_grid"]) == 2 and "(for dropout_grid: dropout)" in capsys.readouterr().err
    assert cli.main(["freeze", "dropout", "dropout_grid"]) == 0
    assert "6 configurations. Commit this file before any fresh seed is trained." in capsys.readouterr().out
    (kept,) = (tmp_path / "frozen_dropout").iterdir()
    assert kept.name == "dropout.json" and json.loads(kept.read_text())["seeds"] == {"50": [0, 1, 2, 3, 4]}


def test_only_batch_level_discriminators_are_frozen_of_the_two_kinds(tmp_path, monkeypatch, capsys):
    runs = [run for run in REGISTRY["global_vs_batch"].runs("paper", sigma=25) if run.seed < 2]
    Store(tmp_path).add([row(run) for run in runs])
    (tmp_path / "frozen").mkdir()
    monkeypatch.setattr(commands, "HERE", tmp_path)
    monkeypatch.setenv("DTCL_RESULTS", str(tmp_path))
    assert cli.main(["freeze", "batch", "global_vs_batch", "--sigma", "25,75"]) == 2
    assert capsys.readouterr().err == "error: no seed is complete at sigma 75, so nothing can be selected there.\n"
    assert cli.main(["freeze", "batch", "global_vs_batch", "--sigma", "25"]) == 0
    kept = json.loads((tmp_path / "frozen" / "batch.json").read_text())["configurations"]
    assert [(c["method"], c["discriminator"], c["sigma"]) for c in kept] == [
        (m, "batch", 25.0) for m in ("dw_negatives", "dw_pairs")
    ]
