"""The command line at its edges: closed streams, readers that leave, Ctrl-C at any time, stores that are not there."""

import gc
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
from test_results import row

import dtcl_core
from dtcl_core import __main__ as command_line
from dtcl_core import console, presets
from dtcl_core.config import Protocol, Run
from dtcl_core.experiments import PRESETS, REGISTRY, core
from dtcl_core.launch import audit, local
from dtcl_core.results import Store

ROOT = Path(command_line.__file__).resolve().parent.parent
DTCL = [sys.executable, "-m", "dtcl_core"]
TRAIN = [*DTCL, "run", "main_table", "--methods", "standard", "--seeds", "1", "--device", "cpu"]


def environment(**others):
    return {**os.environ, "OMP_NUM_THREADS": "1", **others}


def shell(text, **others):
    """What a shell makes of a line; `dtcl` stands for the command."""
    return subprocess.run(
        ["bash", "-c", f'dtcl() {{ "{sys.executable}" -m dtcl_core "$@"; }}; {text}'],
        capture_output=True, text=True, env=environment(**others), timeout=300, check=False,
    )  # fmt: skip


# --- what it takes to answer ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"], ["run", "nothing"]])
def test_it_explains_itself_without_loading_what_trains(arguments):
    code = f"""import sys
sys.argv = ["dtcl", *{arguments!r}]
from dtcl_core.__main__ import main
try:
    main()
finally:
    heavy = {{"torch", "numpy", "pandas", "scipy"}} & set(sys.modules)
    assert not heavy, heavy"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=False)
    assert "AssertionError" not in done.stderr, done.stderr
    assert "dtcl" in done.stdout + done.stderr


def test_the_names_it_knows_are_those_there_are():
    assert presets.EXPERIMENTS == tuple(REGISTRY) and presets.PRESETS is PRESETS


def test_one_version_is_told_everywhere(capsys):
    with pytest.raises(SystemExit) as ending:
        command_line.main(["--version"])
    assert ending.value.code == 0 and capsys.readouterr().out == f"dtcl {dtcl_core.__version__}\n"
    assert f"\nversion: {dtcl_core.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"] == ["version"]


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["stauts"], "status"),
        (["run", "main_tabel"], "main_table"),
        (["run", "main_table", "--preset", "papr"], "paper"),
        (["run", "main_table", "--seed-s", "2"], "--seeds"),
        (["run", "main_table", "--methods", "dw_pair"], "dw_pairs"),
    ],
)
def test_a_name_that_is_almost_right_is_offered(arguments, meant, capsys):
    try:
        status = command_line.main(arguments)
    except SystemExit as ending:
        status = ending.code
    assert status == 2 and f"(did you mean '{meant}'?)" in capsys.readouterr().err


# --- streams --------------------------------------------------------------------------------------------------------


def finished(folder):
    return [row["status"] for row in Store(folder).rows().values()] == ["ok"]


@pytest.mark.parametrize("how", ["2>&-", ">&- 2>&-", "| head -0", "2>&1 | head -1", ">/dev/full"])
def test_training_goes_on_whatever_becomes_of_its_output(how, tmp_path):
    done = shell(f"dtcl {' '.join(TRAIN[3:])} --results '{tmp_path}' {how}; true")
    assert finished(tmp_path), done.stderr
    assert not re.search("Traceback|Broken pipe|Exception ignored", done.stdout + done.stderr)


def test_a_reader_that_leaves_is_no_mistake_and_a_full_disk_is(tmp_path):
    left = shell(f"dtcl status --results '{tmp_path}' | head -1; exit ${{PIPESTATUS[0]}}")
    assert (left.returncode, left.stderr) == (0, "") and len(left.stdout.splitlines()) == 1
    full = shell(f"dtcl status --results '{tmp_path}' >/dev/full")
    assert (
        full.returncode == 1 and full.stderr == "error: standard output could not be written: No space left on device\n"
    )


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


@pytest.mark.parametrize("command", [["status"], ["audit"], ["check", "--device", "cpu"], TRAIN[3:]])
@pytest.mark.parametrize("after", [0.25, 1.0])
def test_ctrl_c_at_any_time_is_no_traceback(command, after, tmp_path):
    process = subprocess.Popen(
        [*DTCL, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(DTCL_RESULTS=str(tmp_path)),
    )
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    # On a busy machine Python itself may still be starting, of which a traceback names no file of ours.
    assert "Traceback" not in errors or "dtcl_core" not in errors, errors
    # It may have ended before, or have found nothing to audit. Where the signal met Python inside `exec` of a text (a dataclass
    # being made), Python ends by that signal once all is done, which a shell shows as the same status.
    assert process.returncode in (console.STOPPED, -signal.SIGINT, 0, 2), errors
    assert process.returncode != console.STOPPED or "Stopp" in errors + _


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
    return subprocess.run(
        command, capture_output=True, text=True, env=environment(), cwd=ROOT, check=False, timeout=120
    )


def test_ctrl_c_while_the_command_is_being_imported_is_no_traceback():
    started = """
sys.argv = ["dtcl_core", "--version"]
runpy.run_module("dtcl_core", run_name="__main__", alter_sys=True)
"""
    done = interrupted_at("dtcl_core.checks", started)  # the first that it imports of itself
    assert done.returncode == -signal.SIGINT and not done.stderr, done.stderr


def test_ctrl_c_waits_for_libraries_that_are_being_imported():
    """PyTorch may end the process if it comes in the middle; so it is answered when all is imported."""
    asked = """
from dtcl_core import __main__
assert "torch" not in sys.modules
print(__main__.main(["status"]), "dtcl_core.launch.commands" in sys.modules)
"""
    done = interrupted_at("torch._C", asked)
    assert done.stdout.split() == [str(console.STOPPED), "True"] and done.stderr.strip() == "Stopped."


# --- stores ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["status", "audit", "run"])
def test_a_store_that_cannot_be_one_is_refused(command, tmp_path, monkeypatch, capsys, nothing_trains):
    (tmp_path / "file").write_text("")
    arguments = {"run": ["run", "main_table"], "status": ["status"], "audit": ["audit"]}[command]
    for name in ("file", "nowhere") if command != "run" else ("file",):
        told = f"there is no folder {tmp_path / name}" if name == "nowhere" else f"{tmp_path / name} is no folder"
        monkeypatch.setenv("DTCL_RESULTS", str(tmp_path / name))
        assert command_line.main(arguments) == 2 and f"error: DTCL_RESULTS: {told}." in capsys.readouterr().err
        monkeypatch.delenv("DTCL_RESULTS")
        assert command_line.main([*arguments, "--results", str(tmp_path / name)]) == 2
        assert f"error: --results: {told}." in capsys.readouterr().err


def test_status_names_its_store_and_its_json_says_the_same(tmp_path, capsys):
    store = Store(tmp_path)
    store.add(
        [row(REGISTRY["main_table"].runs("core")[0]), row(REGISTRY["main_table"].runs("core")[1], status="diverged")]
    )
    assert command_line.main(["status", "--results", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"2 rows in {tmp_path}, 0 of them in conflict") and "1 run diverged" in text
    assert command_line.main(["status", "--json", "--results", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["store"], found["rows"], found["diverged"], found["conflicts"]) == (str(tmp_path), 2, 1, {})
    for line in found["experiments"]:
        shown = next(x.split() for x in text.splitlines() if x.split()[:2] == [line["experiment"], line["preset"]])
        assert list(map(int, shown[2:5])) == [line["runs"], line["present"], line["missing"]]
        assert line["present"] + line["missing"] == line["runs"]


def test_status_counts_runs_with_rows_that_disagree(tmp_path, capsys):
    store = Store(tmp_path)
    store.add([row(accuracy=0.9), row(Run(seed=1))])
    store.add([row(accuracy=0.1)])
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert command_line.main(["status", "--results", str(tmp_path)]) == 0
        captured = capsys.readouterr()
        assert command_line.main(["status", "--json", "--results", str(tmp_path)]) == 0
    assert captured.out.startswith(f"2 rows in {tmp_path}, 1 of them in conflict") and "disagree" in captured.err
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
    assert command_line.main([*command, "--seeds", "1"]) == 1
    assert "1 of 1 runs exist" in (said := capsys.readouterr().out) and "1 of 1 runs diverged" in said
    store.add([row(runs[1])])
    assert command_line.main(command) == 0 and "1 of 2 runs diverged" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "main_table", "--precision", "float16"], "precision must be auto, float32 or bfloat16, got 'float16'"),
        (["audit", "--max-epochs", "0"], "--max-epochs must be at least 1, got 0"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_said(arguments, told, tmp_path, capsys):
    assert command_line.main([*arguments, "--results", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert told in captured.err and not captured.out


def test_an_audit_that_is_stopped_keeps_what_it_compared(tmp_path, monkeypatch, capsys):
    one = Run(protocol=REGISTRY["main_table"].runs("smoke")[0].protocol)
    for tau in (0.1, 0.2):  # two stacks
        local.compute([Run(tau_alpha=tau, protocol=one.protocol)], Store(tmp_path), "cpu", quiet=True)
    compared = []
    monkeypatch.setattr("dtcl_core.launch.commands.stop_requests", lambda limit: lambda: bool(compared))
    real = audit.compare
    monkeypatch.setattr("dtcl_core.launch.audit.compare", lambda *rows: compared.append(1) or real(*rows))
    command = ["audit", "-n", "2", "--device", "cpu", "--results", str(tmp_path)]
    assert command_line.main(command) == console.STOPPED
    said = capsys.readouterr().out
    assert said.startswith("Training 2 rows in 2 stacks on cpu again: 2 run-epochs."), "it was silent at first"
    assert "1 of 1 rows came out identical" in said and "Stopped; 1 row was compared until then." in said
    compared.clear()
    assert command_line.main([*command, "--json"]) == console.STOPPED
    found = json.loads(capsys.readouterr().out)
    assert found["stopped"] and len(found["rows"]) == 1 and found["rows"][0]["identical"] is True


@pytest.mark.parametrize("count", [0, 3])
def test_status_loads_no_library_that_it_does_not_need(count, tmp_path):
    """And those that it needs, PyTorch above all, are not searched for garbage."""
    if count:
        Store(tmp_path).add([row(run) for run in REGISTRY["main_table"].runs("core")[:count]])
    code = """import gc, sys
from dtcl_core.__main__ import main
searched = []
gc.callbacks.append(lambda phase, info: searched.append("torch" in sys.modules and not gc.get_freeze_count()))
main(["status", "--results", sys.argv[1], "--device", "cpu"])
print({"pandas", "scipy", "matplotlib", "sklearn", "ray"} & set(sys.modules))
print(any(searched), gc.isenabled(), gc.get_freeze_count() > 100_000)"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{count} rows in ") and done.stdout.endswith("\nset()\nFalse True True\n")


def test_status_reads_each_file_once_and_makes_each_run_once(tmp_path, monkeypatch, capsys):
    """What took most of its time."""
    store, protocols, runs = Store(tmp_path), [], []
    real, real_run = Protocol.__post_init__, Run.__post_init__
    store.add([row(run) for run in REGISTRY["effective_temperature"].runs("core")])
    read, trace = [], Store.trace
    monkeypatch.setattr(Store, "trace", lambda self, run: read.append(run.key) or trace(self, run))
    monkeypatch.setattr(Protocol, "__post_init__", lambda self: protocols.append(1) or real(self))
    monkeypatch.setattr(Run, "__post_init__", lambda self: runs.append(1) or real_run(self))
    core.changed.cache_clear()
    core.shared_run.cache_clear()
    assert command_line.main(["status", "--results", str(tmp_path)]) == 0 and capsys.readouterr().out
    assert read and len(read) == len(set(read)), "a trace was read again"
    distinct = {run for experiment in REGISTRY.values() for preset in PRESETS for run in experiment.runs(preset)}
    assert len(runs) < 1.5 * len(distinct), "an experiment made the runs of another again"
    assert 5 * len(protocols) < len(runs), "a protocol was made for each run"


def test_status_lists_without_collecting_garbage_and_leaves_that_as_it_was(tmp_path, monkeypatch):
    from dtcl_core.launch import commands

    states = []
    for command in ("status", "audit"):
        monkeypatch.setitem(commands.COMMANDS, command, lambda options: states.append(gc.isenabled()) or 0)
        assert command_line.main([command, "--results", str(tmp_path)]) == 0 and gc.isenabled()
    assert states == [False, True]


def test_an_interrupt_before_there_is_anything_to_do_is_one_word_too(monkeypatch, capsys):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command_line, "parsed", interrupted)
    assert command_line.main(["status"]) == console.STOPPED
    assert capsys.readouterr().err == "Stopped.\n"


def test_an_engine_has_a_near_name_too(capsys):
    with pytest.raises(SystemExit):
        command_line.main(["run", "main_table", "--engine", "rya"])
    assert "did you mean 'ray'" in capsys.readouterr().err
