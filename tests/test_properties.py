"""Whatever is typed either runs or is refused in one readable line before any training; whatever is accepted trains."""

import collections
import contextlib
import dataclasses
import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from made_up_rows import row

from dtcl_core import evaluate, pretrain, results
from dtcl_core.config import Protocol, Run
from dtcl_core.launch.local import make_rows
from dtcl_core.methods import METHODS
from dtcl_study import cli
from dtcl_study.experiments import PRESETS, REGISTRY

# The same examples at every call: a test that fails today must fail tomorrow. DTCL_EXAMPLES=10 tries ten times as many.
TIMES = int(os.environ.get("DTCL_EXAMPLES", "1"))
EXAMPLES = {
    "a field of the protocol": 400,
    "a run": 400,
    "training, each method": 3,
    "run": 200,
    "audit": 40,
    "status": 4,
    "reproduce": 12,
    "benchmark": 60,
    "each chapter's parameters": 12,
}
settings.register_profile("dtcl", derandomize=True, database=None, deadline=None, print_blob=False)
settings.load_profile("dtcl")
BENCHMARKS = Path(cli.__file__).resolve().parent.parent / "benchmarks"
SHARED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]

WORDS = st.text(st.characters(exclude_characters="/.\0", exclude_categories=["Cs"]), max_size=6)
# The script behind `benchmark` repeats a word that it does not know as it stands.
PLAIN = st.text(st.characters(exclude_characters="/.", categories=["L", "N", "P", "S"]), max_size=6)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-3, 40), st.integers(), st.floats(), WORDS)
ODD = st.one_of(SCALARS, st.lists(SCALARS, max_size=4), st.dictionaries(WORDS, SCALARS, max_size=2))


def is_readable(text: str) -> bool:
    """One line that a person can read: it says something, ends, and is no traceback."""
    return 10 < len(text) < 600 and text.isprintable() and "Traceback" not in text and "object at 0x" not in text


# --- configurations -----------------------------------------------------------------------------------------------


@given(st.sampled_from(dataclasses.fields(Protocol)), ODD)
@settings(max_examples=EXAMPLES["a field of the protocol"] * TIMES)
@example(next(f for f in dataclasses.fields(Protocol) if f.name == "epochs"), 10**400)
def test_a_protocol_takes_a_value_or_refuses_it_in_a_line(field, value):
    try:
        protocol = Protocol(**{field.name: value})
    except ValueError as error:
        assert is_readable(str(error)) and (field.name in str(error) or "kernels" in str(error))
        return
    run = Run(protocol=protocol)
    again = Run.from_dict(json.loads(json.dumps(run.to_dict())))
    assert again == run and again.key == run.key


@given(st.dictionaries(st.sampled_from([f.name for f in dataclasses.fields(Run)]), ODD, max_size=4))
@settings(max_examples=EXAMPLES["a run"] * TIMES)
@example({"method": "dw_pairs", "tau_beta": 0.5, "discriminator": "batch"})
@example({"tau_alpha": 10**400})
def test_a_run_takes_its_values_or_refuses_them_in_a_line(values):
    try:
        run = Run(**values)
    except ValueError as error:
        assert is_readable(str(error))
        return
    assert Run.from_dict(json.loads(json.dumps(run.to_dict()))).key == run.key
    assert is_readable(str(run))


def any_number(low: float, high: float, above: bool = False, integer: bool = False) -> st.SearchStrategy:
    """Numbers that a field accepts, the extreme ones too; integers stay small, for they cost time and memory."""
    if integer:
        return st.integers(int(low), int(min(high, low + 12)))
    return st.floats(low, min(high, 1e30), exclude_min=above, width=64)


def values_of(field: dataclasses.Field) -> st.SearchStrategy:
    if "choices" in field.metadata:
        return st.sampled_from(field.metadata["choices"])
    if "range" in field.metadata:
        return any_number(**field.metadata["range"])
    length = field.metadata["length"]
    each = any_number(**field.metadata["each"])
    return st.lists(each, min_size=length or 1, max_size=length or 3).map(tuple)


SMALL = {"split_sizes": st.just((224, 40, 40, 40)), "epochs": st.just(1), "batch_size": st.sampled_from([8, 64, 224])}
FREE = [f for f in dataclasses.fields(Protocol) if f.name not in SMALL]
FEW_CHANGES = st.lists(st.sampled_from(FREE), max_size=5, unique_by=lambda f: f.name)


@st.composite
def accepted_runs(draw: st.DrawFn, method: str) -> Run:
    changes = {f.name: draw(values_of(f), label=f.name) for f in draw(FEW_CHANGES)}
    uses = METHODS[method].uses
    head = draw(st.sampled_from([(None, None), ("linear", 3), ("mlp", 1)]))
    try:
        protocol = Protocol(**changes, **{name: draw(values) for name, values in SMALL.items()})
        return Run(
            method,
            tau_alpha=draw(any_number(0.0, 1e30, above=True)),
            tau_beta=draw(any_number(0.0, 1e30)) if "tau_beta" in uses else None,
            lambda_=draw(any_number(0.0, 1e30)) if "lambda_" in uses else None,
            sigma=draw(any_number(0.0, 1e30)),
            discriminator=draw(st.sampled_from(["global", "batch"])) if "discriminator" in uses else None,
            projector=head[0],
            projector_dim=head[1],
            protocol=protocol,
        )
    except ValueError:
        assume(False)


@pytest.mark.parametrize("method", METHODS)
def test_whatever_is_accepted_trains_to_a_sound_row(method, tmp_path):
    trained = set()

    def check(run):
        stack, store = pretrain.train([run], "cpu"), results.Store(tmp_path)
        store.add(make_rows(stack, evaluate.measure(stack)))  # looks at each row
        trained.add(run.key)

    settings(max_examples=EXAMPLES["training, each method"] * TIMES, suppress_health_check=SHARED)(
        given(accepted_runs(method))(check)
    )()
    assert results.Store(tmp_path).rows().keys() == trained and len(trained) >= 2


# --- the command line ---------------------------------------------------------------------------------------------


NUMERIC = st.one_of(st.integers(-3, 12).map(str), st.integers().map(str), st.floats().map(str))
SOUND = {
    "--preset": st.sampled_from(list(PRESETS)),
    "--device": st.sampled_from(["auto", "cpu", "cuda", "cuda:7", "cuda:²"]),
    "--methods": st.lists(st.sampled_from(list(METHODS)), max_size=3).map(",".join),
    "--sigma": st.lists(NUMERIC, max_size=3).map(",".join),
    "--tau-alpha": st.lists(NUMERIC, max_size=3).map(",".join),
    "--shard": st.tuples(st.integers(-1, 3), st.integers(-1, 3)).map(lambda pair: f"{pair[0]}/{pair[1]}"),
    "--precision": st.sampled_from(["auto", "float32", "bfloat16", "float16"]),
    "--results": WORDS,
    "--stacks": st.lists(NUMERIC, max_size=3).map(",".join),
    "--out": PLAIN,
    "--format": st.sampled_from(["text", "latex"]),
}
OPTIONS = {
    "run": ["--preset", "--device", "--methods", "--sigma", "--tau-alpha", "--seeds", "--epochs", "--shard", "--time-limit",
            "--precision", "--stack-size", "--results"],
    "status": ["--device", "--results"],
    "audit": ["-n", "--device", "--seed", "--exact", "--results"],
    "reproduce": ["--format", "--json"],
    "benchmark": ["--device", "--precision", "--stacks", "--rounds", "--out", "--all"],  # it hands them to another script
}  # fmt: skip
RUNNABLE = {"run", "status", "audit", "reproduce"}  # `benchmark` needs a checkout
RUNNABLE |= {"benchmark"} if BENCHMARKS.exists() else set()


def lines(command: str) -> st.SearchStrategy:
    """Command lines with up to three options, one in ten unknown, most values of a sensible kind."""
    names = st.sampled_from(OPTIONS[command] * 10 + ["--color"] * len(OPTIONS[command]))
    value = lambda name: SOUND.get(name, NUMERIC) | SOUND.get(name, NUMERIC) | NUMERIC | WORDS  # noqa: E731
    option = names.flatmap(lambda name: value(name).map(lambda v: [name, v]) | st.just([name]))
    named = {
        "run": [[command, name] for name in REGISTRY],
        "reproduce": [
            [command, what] for what in ("table 1", "Claim 12", "table 11", "claim", "", "figure 2", "table -1", "claim 1e9")
        ],
    }
    beginning = st.sampled_from(named.get(command, [[command]]))
    return st.tuples(beginning, st.lists(option, max_size=3)).map(lambda parts: sum(parts[1], parts[0]))


@pytest.fixture
def nothing_is_handed_out(nothing_trains, monkeypatch, tmp_path):
    """A benchmark that times nothing, if there is one."""

    def reached(*_, **__):
        raise nothing_trains

    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    with contextlib.suppress(ImportError):
        import compare

        monkeypatch.setattr(compare, "contenders", reached)
        monkeypatch.setattr(compare, "HERE", tmp_path / "figures")
    return nothing_trains


@pytest.mark.parametrize("command", OPTIONS)
def test_a_command_line_runs_or_is_refused_in_a_line(command, nothing_is_handed_out, capsys, tiny):
    outcomes = collections.Counter()
    results.Store().add([row(Run(protocol=tiny))])  # for `audit` and `status` to find

    def check(line):
        capsys.readouterr()
        try:
            status = cli.main(line)
        except nothing_is_handed_out:
            outcomes["ran"] += 1
            return
        except SystemExit as exit_:  # argparse: usage first, the reason on the last line
            status = exit_.code
        said = capsys.readouterr().err
        outcomes["refused" if status else "ran"] += 1
        if status:
            assert status == 2 and is_readable(said.splitlines()[-1]) and "error: " in said.splitlines()[-1], said
            assert said.startswith("usage: ") or len(said.splitlines()) == 1, said
        else:
            assert not said

    settings(max_examples=EXAMPLES[command] * TIMES, suppress_health_check=SHARED)(given(lines(command))(check))()
    for line in (
        ["run"],
        ["bogus"],
        [command, "--bogus", "two\nlines"],
        ["run", "main_table", "--epochs", "9" * 400],
    ):
        check(line)
    assert outcomes["refused"] > EXAMPLES[command] // 20, outcomes
    assert outcomes["ran"] > EXAMPLES[command] // 40 or command not in RUNNABLE, outcomes
