"""What a crash, a full disk, a damaged file or a second process may cost: never a row, never a number."""

import errno
import os
import time
import warnings

import faults
import pytest
import torch

from dtcl_core import pretrain
from dtcl_core.config import Run
from dtcl_core.engine.checkpoint import read_checkpoint, write_checkpoint
from dtcl_core.launch import local
from dtcl_core.results import Store
from dtcl_study import cli


@pytest.mark.parametrize(("processes", "same"), [(1, False), (2, True)])
def test_killed_at_random_moments_nothing_is_lost_doubled_or_torn(tmp_path, processes, same):
    told = faults.check(tmp_path, kills=6, processes=processes, same=same)
    assert told["killed"] >= 6 and told["finished"] >= 1 and told["resumed"] >= 1 and told["hit"] <= told["killed"]


def test_a_line_is_added_to_lines_of_fewer_columns(tmp_path):
    (tmp_path / "faults.csv").write_text("kills,code\n100,0123\n")
    faults.add_line({"kills": 6, "code": "4567", "resumed": 3}, tmp_path / "faults.csv")
    faults.add_line({"kills": 7, "code": "89ab", "resumed": 4}, tmp_path / "faults.csv")
    assert (tmp_path / "faults.csv").read_text() == "kills,code,resumed\n100,0123,\n6,4567,3\n7,89ab,4\n"


def test_what_a_kill_leaves_behind_is_tidied_up(tmp_path, tiny):
    runs = [Run(tau_alpha=tau, protocol=tiny) for tau in (0.1, 0.2)]
    store = Store(tmp_path)
    local.compute(runs, store, "cpu", quiet=True)
    orphan = local.checkpoint_path(store, runs)
    orphan.write_bytes(b"its rows were stored, and then came the kill")
    old, new = store.rows_path / "tmpold.tmp", store.rows_path / "tmpnew.tmp"
    for path, age in ((old, local.STALE_SECONDS + 60), (new, 0)):
        path.write_text("half")
        os.utime(path, (time.time() - age,) * 2)
    assert local.compute(runs, store, "cpu", quiet=True) == 0
    assert not orphan.exists() and not old.exists() and new.exists()
    orphan.write_bytes(b"rows exist, but a trace is asked for, and this is on the way to it")
    (again,) = local.missing_stacks(runs, store, torch.device("cpu"), "float32", record=lambda run: True)
    assert set(again) == set(runs)
    assert orphan.exists()


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_a_damaged_checkpoint_is_named_and_training_starts_anew(tmp_path, tiny, damage):
    run, path = Run(tau_alpha=0.2, protocol=tiny), tmp_path / "c.pt"
    steps = iter([False] * 4 + [True])
    with pytest.raises(pretrain.Interrupted):
        pretrain.train([run], "cpu", checkpoint=path, should_stop=lambda: next(steps))
    whole = bytearray(path.read_bytes())
    if damage == "flip":
        whole[len(whole) // 2] ^= 1
    path.write_bytes({"flip": whole, "cut": whole[: len(whole) // 2], "empty": b""}[damage])
    with pytest.warns(UserWarning, match=r"c\.pt is not usable \(it is not as it was written\); training starts anew"):
        again = pretrain.train([run], "cpu", checkpoint=path)
    assert torch.equal(again.embed("test_id"), pretrain.train([run], "cpu").embed("test_id"))


def test_a_hostile_checkpoint_runs_no_code(tmp_path):
    class Hostile:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "harmed"),))

    write_checkpoint({"keys": Hostile()}, tmp_path / "c.pt")
    with pytest.raises(ValueError, match="it holds more than tensors and plain values"):
        read_checkpoint(tmp_path / "c.pt", torch.device("cpu"))
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize("content", [[1], 5, {}, {"epoch": None, "losses": []}, {"epoch": 10**6, "losses": []}])
def test_a_checkpoint_of_something_else_is_named_and_training_starts_anew(tmp_path, tiny, content):
    write_checkpoint(content, tmp_path / "c.pt")
    run = Run(tau_alpha=0.2, protocol=tiny)
    with pytest.warns(UserWarning, match=r"c\.pt is not usable \(it (holds no state|says epoch)"):
        assert pretrain.train([run], "cpu", checkpoint=tmp_path / "c.pt").epoch == tiny.epochs


FOLDERS = ("rows", "traces", ".checkpoints")


def three_runs(tiny):
    return [Run("dw_pairs", 0.2, 0.1, seed=seed, protocol=tiny) for seed in range(3)]


def compute_one_by_one(runs, store):
    return local.compute(runs, store, "cpu", stack_size=1, record=lambda run: True, quiet=True)


def half_written(store):
    return [path for folder in FOLDERS for path in (store.path / folder).glob("*.tmp")]


def check_that_a_full_disk_costs_nothing(runs, store, full_while, make_room, monkeypatch):
    """The first run is stored, the second meets a full disk, and with room again the rest follow as if nothing had been."""
    if full_while == ".checkpoints":  # one that does not fit costs nothing once training is done: rows need less
        with pytest.warns(UserWarning, match="No space left on device.*rows come next"):
            assert compute_one_by_one(runs, store) == 3
        make_room()
        assert not store.missing(runs, lambda run: True) and not half_written(store)
        return
    with pytest.raises(OSError, match="No space left on device"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the checkpoint and the encoder that did not fit before
        compute_one_by_one(runs, store)
    kept, left = store.rows(), store.missing(runs, lambda run: True)
    wanting = 3 if full_while == "traces" else 2  # rows come before traces: the first run has one, and no trace yet
    assert len(kept) == 1 and len(left) == wanting, "what was stored is lost, or the disk was never full"
    assert not half_written(store)
    make_room()
    trained, real = [], pretrain.Stack.train_epoch
    monkeypatch.setattr(pretrain.Stack, "train_epoch", lambda *a, **k: (trained.append(1), real(*a, **k)))
    assert compute_one_by_one(runs, store) == wanting and not store.missing(runs, lambda run: True)
    stacks = 1 if full_while == "rows" else 2  # of the others, training is in a checkpoint
    assert len(trained) == stacks * runs[0].protocol.epochs
    assert store.rows().items() >= kept.items()
    undisturbed = Store(store.path.parent / "undisturbed")
    compute_one_by_one(runs, undisturbed)
    assert faults.metrics_of(store) == faults.metrics_of(undisturbed)
    assert not half_written(store) and not list((store.path / ".checkpoints").iterdir())


@pytest.mark.parametrize("full_while", FOLDERS)
def test_a_full_disk_costs_nothing_that_was_stored(tmp_path, tiny, monkeypatch, full_while):
    store, real, room = Store(tmp_path / "store"), os.fsync, []

    def sync(descriptor):
        files = (store.path / full_while).iterdir() if not room and list(store.rows_path.glob("*.jsonl")) else ()
        if any(os.path.samestat(os.fstat(descriptor), path.stat()) for path in files):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    check_that_a_full_disk_costs_nothing(three_runs(tiny), store, full_while, lambda: room.append(1), monkeypatch)


def check_that_it_is_refused(folder, tiny, reason):
    with pytest.raises(OSError, match=f"results cannot be written to {folder}/rows: {reason}"):
        local.compute([Run(protocol=tiny)], Store(folder), "cpu", quiet=True)


@pytest.mark.skipif(not os.geteuid(), reason="root may write to any folder")
@pytest.mark.parametrize("made", [False, True], ids=["the store", "its rows"])
def test_a_read_only_folder_is_refused_before_training(tmp_path, tiny, nothing_trains, made):
    folder = tmp_path / "disk"
    closed = folder / "rows" if made else folder
    closed.mkdir(parents=True)
    closed.chmod(0o555)
    try:
        check_that_it_is_refused(folder, tiny, "Permission denied")
    finally:
        closed.chmod(0o755)


def test_a_folder_that_cannot_be_written_is_refused_before_training(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(pretrain, "train", lambda *a, **k: pytest.fail("it trained"))
    status = cli.main(["run", "main_table", "--device", "cpu", "--results", str(tmp_path / "file" / "results")])
    assert status == 2 and "error: results cannot be written to" in capsys.readouterr().err


def test_rows_come_before_all_that_needs_more_room(tmp_path, tiny, monkeypatch):
    """A disk with room for rows and for nothing else: no checkpoint, no network, no trace; the rows are there."""
    runs, store, real = (
        [Run("dw_pairs", tau, 0.1, protocol=tiny) for tau in (0.1, 0.2, 0.3)],
        Store(tmp_path / "store"),
        os.fsync,
    )

    def sync(descriptor):
        if os.fstat(descriptor).st_size and not any(
            os.path.samestat(os.fstat(descriptor), path.stat()) for path in store.rows_path.iterdir()
        ):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    needs = r"traces/\w+\.json cannot be written: No space left on device"
    with pytest.raises(OSError, match=needs), pytest.warns(UserWarning, match="rows come next"):
        local.compute(runs, store, "cpu", record=lambda run: True, quiet=True)
    assert set(store.rows()) == {run.key for run in runs}
    monkeypatch.undo()
    before = faults.lines_of(store)
    assert local.compute(runs, store, "cpu", record=lambda run: True, quiet=True) == 3
    assert faults.lines_of(store) == before and not store.missing(runs, lambda run: True), "a row is doubled"
