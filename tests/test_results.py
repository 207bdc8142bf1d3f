import copy
import json
import math
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import warnings
from collections.abc import Mapping
from importlib import resources

import pytest
from made_up_rows import row

from dtcl_core import results
from dtcl_core.config import Protocol, Run
from dtcl_core.engine import provenance
from dtcl_core.results import Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def test_what_is_added_is_read_back(store):
    runs = [Run(seed=s) for s in range(3)]
    store.add([row(r) for r in runs])
    assert store.rows().keys() == {r.key for r in runs}
    frame = results.load(store.path)
    assert len(frame) == 9 and set(frame.label_fraction) == {0.01, 0.1, 1.0}
    assert set(frame.columns) == set(results.COLUMNS)
    assert frame.tau_alpha.unique() == [0.1] and frame.tau_beta.isna().all()


@pytest.mark.parametrize("full", ["encoders", "rows"])
def test_rows_come_before_networks_where_there_is_no_room_for_both(store, monkeypatch, full):
    real, (one, other) = results.write_whole, (store.encoders_path / name for name in ("one.npz", "other.npz"))
    named = {path: {**row(Run()), "encoder": {"file": path.name, "place": 0}} for path in (one, other)}

    def no_room(content, path):
        if path.parent.name == full and (full == "encoders" or other.exists()):
            raise OSError("the disk is full")
        real(content, path)

    store.add([named[one]], {one.name: b"weights"})
    assert "encoder" in store.rows()[Run().key] and one.read_bytes() == b"weights"
    one.unlink()
    monkeypatch.setattr(results, "write_whole", no_room)
    with pytest.warns(UserWarning, match="trained encoders are not kept: the disk is full"):
        added = store.add([named[other]], {one.name: b"weights", other.name: b"more"})
    (kept,) = store.shard(added.name)
    assert "encoder" not in kept and not other.exists()
    assert one.exists() == (full == "rows"), "the first shard, another process's perhaps, names it"
    other.touch()
    if full == "rows":
        with pytest.raises(OSError, match="the disk is full"):
            store.add([named[one]])


def test_a_shard_without_a_row_is_refused(store):
    with pytest.raises(ValueError, match="one row at least"):
        store.add([])


def test_an_empty_store_gives_an_empty_frame(store):
    store.path.mkdir(exist_ok=True)
    assert results.load(store.path).empty and list(results.load(store.path).columns) == list(results.COLUMNS)
    with pytest.raises(ValueError, match="elsewhere is no folder of results"):
        results.load(store.path / "elsewhere")


def test_missing_names_each_run_once(store):
    runs = [Run(seed=s) for s in (0, 1, 1, 2)]
    store.add([row(runs[0])])
    assert store.missing(runs) == [Run(seed=1), Run(seed=2)]


@pytest.fixture
def checked(monkeypatch):
    """The keys of the lines that were parsed and checked."""
    keys, check = [], results.check_digest
    results.sound_row.cache_clear()
    monkeypatch.setattr(results, "check_digest", lambda one, line: (keys.append(one["key"]), check(one, line)))
    return keys


def test_a_line_is_parsed_once_a_process_and_again_when_it_differs(store, checked):
    path = store.add([row(Run(seed=s)) for s in range(3)])
    one, other = (kind(store.path).rows()[Run(seed=0).key]["metrics"] for kind in (results.Store, type(store)))
    assert one is other and len(checked) == 3, "rows are made once and shared"
    path.write_text(path.read_text().replace('"seed": 1,', '"seed": 4,'))
    for tries in (1, 2):
        with pytest.warns(UserWarning, match="line 2 is left out"):
            assert store.rows().keys() == {Run(seed=s).key for s in (0, 2)}
        assert len(checked) == 3 + tries, "what was refused is tried again, and nothing else"
    path.unlink()
    assert not store.rows()


def test_rows_that_are_not_asked_for_are_not_parsed(store, checked):
    runs = [Run(seed=s) for s in range(4)]
    path = store.add([row(run) for run in runs])
    asked = [runs[2], runs[0], Run(seed=9)]
    assert set(store.load(asked).key) == {runs[0].key, runs[2].key} == set(checked)
    assert store.rows({run.key for run in asked}) == {key: store.rows()[key] for key in (runs[0].key, runs[2].key)}
    whole = path.read_text()
    for seed, key in ((0, runs[0].key), (1, runs[1].key)):  # a line of a key asked for, and one whose key cannot be told
        path.write_text(whole.replace(f'"key": "{key}"', f'"key": {key}') if seed else whole.replace('"seed": 0', '"seed": 7'))
        with pytest.warns(UserWarning, match=f"line {seed + 1} is left out"):
            store.load(asked)


def parts(value):
    """A value, and all that is inside."""
    yield value
    for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple | list) else ():
        yield from parts(inner)


def test_nothing_in_a_row_that_was_read_can_be_changed(store):
    made = row()
    store.add([made])
    stored = store.rows()[made["key"]]
    with pytest.raises(TypeError):
        del store.rows()[made["key"]]
    inside = list(parts(stored))
    mappings = [value for value in inside if isinstance(value, Mapping)]
    assert len(mappings) > 5 and not any(isinstance(value, list) for value in inside)
    for value in mappings:
        for change in (
            lambda v: v.__setitem__("key", 0), lambda v: v.__delitem__(next(iter(v))), lambda v: v.update(key=0), lambda v: v.clear(),
            lambda v: v.pop(next(iter(v))), lambda v: v.popitem(), lambda v: v.setdefault("new", 0), lambda v: v.__ior__({"key": 0}),
        ):  # fmt: skip
            with pytest.raises(TypeError, match="cannot be changed"):
                change(value)
    for copied in (copy.deepcopy(stored), pickle.loads(pickle.dumps(stored)), dict(stored), json.loads(json.dumps(stored))):
        copied["key"] = "changed"
    assert stored["key"] == made["key"] and copy.deepcopy(stored) == stored


def rows_and_warnings(store):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = store.rows()
    return found, [str(w.message) for w in told] or [""]


def test_a_shard_cut_anywhere_is_named(store):
    path = store.add([row(Run(seed=s)) for s in range(3)])
    whole = path.read_bytes()
    ends = [at for at, byte in enumerate(whole) if byte == ord("\n")]
    for at in {0, *ends, *(end + 1 for end in ends[:-1]), *range(1, len(whole), 97)}:
        path.write_bytes(whole[:at])
        found, told = rows_and_warnings(store)
        assert f"{path.name} is not as it was written" in told[0]
        assert len(found) == sum(end <= at for end in ends), "whole lines are kept, and no others"
    path.write_bytes(whole)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(store.rows()) == 3


def test_no_bit_of_a_line_can_flip_unseen(store):
    path = store.add([row()])
    sound, whole = store.rows(), path.read_bytes()
    for place in range(0, len(whole), 5):  # every fifth byte, another bit each time
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 7
        path.write_bytes(damaged)
        found, told = rows_and_warnings(store)
        assert f"{path.name} is not as it was written" in told[0]
        assert all(found[key]["metrics"] == sound[key]["metrics"] for key in found)


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: line.replace('"tau_alpha": 0.1', '"tau_alpha": 0.2'),
        lambda line: line.replace('"seed": 0', '"seed": 1'),
        lambda line: line.replace('"test_id": 0.8', '"test_id": 8.8'),
        lambda line: line.replace('"metrics"', '"metrix"'),
        lambda line: line.replace('"0.1": ', '"0.2": '),
        lambda line: line.replace('"status": "ok"', '"status": "diverged"'),
        lambda line: "[]\n",
        lambda line: "\xff\xfe garbage\n",
    ],
)
def test_a_line_that_cannot_be_trusted_is_left_out(store, damage):
    path = store.add([row()])
    before = path.read_text()
    assert damage(before) != before
    path.write_text(damage(before), encoding="latin-1")
    found, told = rows_and_warnings(store)
    assert found == {} and "line 1 is left out" in told[1]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda row: row.pop("digest"), "its digest differs"),
        (lambda row: row["run"].update(tau_alpha=10**400), "tau_alpha must be a number > 0"),
        (lambda row: row["run"]["protocol"].update(batch_size=10**400), "batch_size must be an integer"),
        (lambda row: row["provenance"].pop("stack"), "KeyError"),
        (lambda row: row["provenance"].update(seconds="abc"), "provenance has no sound 'seconds'"),
        (lambda row: row["metrics"]["0.1"].update(test_id=10**400), "is no fraction"),
        (lambda row: row["metrics"]["0.1"].update(test_id="0.5"), "TypeError"),
    ],
)  # fmt: skip
def test_a_damaged_row_whose_digest_fits_costs_no_other(store, damage, message):
    whole = [{**r, "digest": results.digest(r)} for r in (row(Run(seed=0)), row(Run(seed=1)))]
    damage(whole[0])
    if "digest" in whole[0]:
        whole[0]["digest"] = results.digest(whole[0])
    store.rows_path.mkdir(parents=True)
    (store.rows_path / "a.jsonl").write_text("".join(json.dumps(r) + "\n" for r in whole) + "[" * 200_000)
    (store.rows_path / "b.jsonl").mkdir()
    with pytest.warns(UserWarning) as told:
        assert list(store.rows()) == [whole[1]["key"]]
    said = [str(w.message) for w in told]
    assert any("a.jsonl, line 1 is left out" in s and message in s for s in said)
    assert any("a.jsonl, line 3" in s for s in said) and any("b.jsonl is left out" in s for s in said)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert set(store.load().seed) == {1}


def test_a_row_that_lacks_a_field_at_its_default_is_shown_with_it(store):
    short = row()
    del short["run"]["projector"]
    store.add([short])
    assert store.load().projector.isna().all()


def test_the_older_row_wins_and_a_finished_one_before_a_diverged_one(store):
    run = Run()
    store.add([row(run, "2026-03-01T00:00:00+00:00", accuracy=0.9)])
    store.add([row(run, "2026-02-01T00:00:00+00:00", accuracy=0.7)])
    store.add([row(run, "2026-01-01T00:00:00+00:00", status="diverged")])
    winner = store.rows()[run.key]
    assert winner["metrics"]["0.01"]["test_id"] == 0.7


def add_as_it_is(store, *rows):
    """A shard of lines that `Store.add` would refuse."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    results.write_whole(text, store.rows_path / results.shard_name(text))


def test_rows_of_another_revision_are_passed_over_quietly_unless_they_are_damaged(store):
    store.add([row()])
    other = {**row(Run(seed=3)), "revision": 0, "key": "0" * 16}
    add_as_it_is(store, {**other, "digest": results.digest(other)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(store.rows()) == [row()["key"]]
    add_as_it_is(store, {**other, "digest": "0" * 16})
    with pytest.warns(UserWarning, match="line 1 is left out: it is not as it was written"):
        assert list(store.rows()) == [row()["key"]]


def test_a_diverged_run_is_kept_as_such(store):
    store.add([row(status="diverged")])
    frame = store.load()
    assert (frame.status == "diverged").all() and frame.test_ood.isna().all()


def write_many(path, first, both_are_there):
    both_are_there.wait(60)
    for seed in range(first, first + 20):
        Store(path).add([row(Run(seed=seed))])


def test_two_writers_lose_nothing(tmp_path):
    context = multiprocessing.get_context("spawn")
    both_are_there = context.Barrier(2)
    writers = [context.Process(target=write_many, args=(tmp_path, first, both_are_there)) for first in (0, 10)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert set(Store(tmp_path).rows()) == {Run(seed=s).key for s in range(30)}
    assert not list((tmp_path / "rows").glob("*.tmp"))


def test_a_row_that_lies_is_not_added(store):
    wrong = row()
    wrong["run"]["seed"] = 5
    with pytest.raises(ValueError, match="does not follow from its configuration"):
        store.add([wrong])
    assert not list(store.rows_path.glob("*"))


def test_the_hash_of_the_code_follows_statements_not_words():
    code = '"""Module."""\n\n\nclass A:\n    """Doc,\n    two lines."""\n\n    x = 1  # said\n\n    # said\n    def f(self):\n        """Doc."""\n        return "#"\n'
    bare = 'class A:\n    x = 1  # said\n    def f(self):\n        return "#"'
    assert provenance.statements(code) == provenance.statements(bare) == bare
    assert provenance.statements(code.replace("x = 1", "x = 2")) != bare
    for kept in ('class A(Exception): """Doc."""', '"""Doc."""; x = 1', 'x = """\\n# 1\\n"""'):
        assert provenance.statements(kept) == kept


def test_the_hash_of_the_code_does_not_ask_where_a_module_lies():
    flat = 'from . import b\nfrom .c import d, e as f\npath = files("dtcl_core")'
    nested = 'from .. import b\nfrom ..engine.c import (\n    d,\n    e as f,\n)\npath = files("dtcl_core.engine")'
    assert provenance.statements(nested) == provenance.statements(flat) == flat
    for other in (flat.replace("from .c", "from .g"), flat.replace("e as f", "e"), flat.replace("import b", "import h")):
        assert provenance.statements(other) == other


def test_the_code_that_decides_numbers_is_the_code_it_was():
    assert provenance.SOURCES == "c4bc2c62d935", (
        "code that decides numbers has changed: where that is meant, and shown to change no stored number or said in "
        "CHANGELOG.md, write its new hash here"
    )


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_commit_is_marked_where_any_file_of_the_package_differs_from_it(tmp_path):
    shutil.copytree(str(resources.files("dtcl_core")), tmp_path / "dtcl_core", ignore=shutil.ignore_patterns("*.pyc"))

    def run(*command):
        environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True).stdout.strip()

    run("git", "init", "--quiet")
    run("git", "add", "dtcl_core")
    run("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "all")
    commit = run("git", "rev-parse", "--short=12", "HEAD")
    script = """
import subprocess
from pathlib import Path
from dtcl_core.engine import provenance

def tell(name):
    print(name, provenance.commit())
    provenance.commit.cache_clear()

tell("clean")
for name in ("losses.py", "engine/native.cpp", "nn/modules.py"):
    file = Path("dtcl_core", name)
    before = file.read_bytes()
    file.write_bytes(before + b"\\n")
    tell(name)
    file.write_bytes(before)
subprocess.run(["git", "rm", "--cached", "--quiet", "-r", "dtcl_core"], check=True)
tell("removed")
"""
    told = dict(line.split() for line in run(sys.executable, "-c", script).splitlines())
    changed = dict.fromkeys(("losses.py", "engine/native.cpp", "nn/modules.py"), commit + "+")
    assert told == {"clean": commit, **changed, "removed": "None"}, "a copy in another project's checkout is none of its files"


@pytest.mark.parametrize("folder", ["rows", "traces", ".checkpoints"])
def test_every_folder_that_training_writes_to_is_tried_before(store, folder):
    store.path.mkdir(exist_ok=True)
    (store.path / folder).write_text("a file where a folder belongs")
    with pytest.raises(OSError, match=f"cannot be written to {store.path / folder}"):
        store.check_writable()


def test_rows_that_disagree_are_named(store):
    """Whichever wins, two results of one run never replace each other silently."""
    store.add([row(accuracy=0.8)])
    store.add([row(accuracy=0.8, created="2026-01-02T00:00:00+00:00")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.rows()
    assert not store.conflicts
    store.add([row(accuracy=0.1, created="2020-01-01T00:00:00+00:00")])
    with pytest.warns(UserWarning, match=f"disagree about run {row()['key']}"):
        store.rows()
    assert list(store.conflicts) == [row()["key"]]


def test_a_run_that_is_asked_for_twice_is_loaded_once(store):
    run = Run(protocol=Protocol(epochs=1))
    store.add([row(run)])
    assert len(store.load([run, run])) == len(store.load()) == 3


def test_a_run_that_ended_well_once_and_diverged_once_is_named(store):
    store.add([row(accuracy=0.5)])
    store.add([row(accuracy=0.5, status="diverged")])
    with pytest.warns(UserWarning, match=f"disagree about run {row()['key']}"):
        assert store.rows()[row()["key"]]["status"] == "ok"


@pytest.mark.parametrize("created", ["", "yesterday", "2026-13-01T00:00:00"])
def test_a_row_without_a_sound_time_is_refused(store, created):
    with pytest.raises(ValueError, match="isoformat|month"):
        store.add([row(created=created)])


def test_the_older_row_wins_by_the_clock_not_by_the_alphabet(store):
    store.add([row(accuracy=0.8, created="2026-01-01T12:00:00+00:00")])
    store.add([row(accuracy=0.7, created="2026-01-01T13:00:00+02:00")])  # an hour earlier
    with pytest.warns(UserWarning, match="disagree"):
        assert store.rows()[row()["key"]]["metrics"]["0.01"]["test_ood"] == 0.7


def drawn():
    """A row of several draws of labels."""
    return row(Run(protocol=Protocol(label_draws=3)))


def test_each_draw_of_labels_is_kept_and_must_fit_its_mean(store):
    store.add([drawn()])
    (kept,) = store.rows().values()
    assert kept["draws"]["0.01"]["test_id"] == (0.8, 0.8, 0.8)
    wrong = drawn()
    wrong["draws"]["0.1"]["test_id"][1] = 0.5
    with pytest.raises(ValueError, match="not the mean of its draws"):
        store.add([wrong])
    with pytest.raises(ValueError, match="not the mean of its draws"):
        results.check_draws({"0.1": {"test_id": [math.nan, 0.8, 0.8]}}, {"0.1": {"test_id": 0.8}}, 3)
    few = drawn()
    few["draws"]["0.1"]["test_id"].pop()
    with pytest.raises(ValueError, match="2 draws of labels"):
        store.add([few])
    without = drawn()
    del without["draws"]
    with pytest.raises(ValueError, match="incomplete"):
        store.add([without])


def test_the_committed_rows_are_sound_and_agree():
    store = Store()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.rows()
    assert not store.conflicts


def test_a_protocol_field_added_later_does_not_split_a_protocol():
    run = Run(seed=1)
    old, new = run.to_dict(), Run(seed=0).to_dict()
    del old["protocol"]["tau_min"]  # as if stored before the field came; its default means as before
    scores = {"validation": 0.5, "test_id": 0.5, "test_ood": 0.5, "d_test_id": 0.5}
    rows = [
        {"key": str(i), "run": r, "status": "ok", "metrics": {"0.01": scores}, "provenance": {"created": ""}, "shard": ""}
        for i, r in enumerate([old, new])
    ]
    assert results.frame(rows).protocol.nunique() == 1
