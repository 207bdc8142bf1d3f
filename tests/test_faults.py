"""What a crash, a full disk, a damaged file or a second process may cost: never a row, never a number."""

import errno
import os
import subprocess
import time
import warnings

import faults
import pytest
import torch

from dtcl_core import __main__ as command_line
from dtcl_core import pretrain, results, work
from dtcl_core.checkpoint import read_checkpoint, write_checkpoint
from dtcl_core.config import Run
from dtcl_core.results import Store


@pytest.mark.parametrize(("processes", "same"), [(1, False), (2, False), (2, True)])
def test_killed_at_random_moments_nothing_is_lost_doubled_or_torn(tmp_path, processes, same):
    told = faults.check(tmp_path, kills=6, processes=processes, same=same)
    assert told["killed"] >= 6 and told["finished"] >= 1


def test_what_a_kill_leaves_behind_is_tidied_up(tmp_path, tiny):
    runs = [Run(tau_alpha=tau, protocol=tiny) for tau in (0.1, 0.2)]
    store = Store(tmp_path)
    work.compute(runs, store, "cpu", quiet=True)
    orphan = work.checkpoint_path(store, runs)
    orphan.write_bytes(b"its rows were stored, and then came the kill")
    old, new = store.rows_path / "tmpold.tmp", store.rows_path / "tmpnew.tmp"
    for path, age in ((old, work.STALE_SECONDS + 60), (new, 0)):
        path.write_text("half")
        os.utime(path, (time.time() - age,) * 2)
    assert work.compute(runs, store, "cpu", quiet=True) == 0
    assert not orphan.exists() and not old.exists() and new.exists()
    orphan.write_bytes(b"rows exist, but a trace is asked for, and this is on the way to it")
    (again,) = work.missing_stacks(runs, store, torch.device("cpu"), "float32", record=lambda run: True)
    assert set(again) == set(runs)
    assert orphan.exists()


@pytest.fixture
def stored(tmp_path, tiny):
    runs = [Run(tau_alpha=tau, protocol=tiny) for tau in (0.1, 0.2, 0.3)]
    store = Store(tmp_path / "stored")
    work.compute(runs, store, "cpu", stack_size=3, quiet=True)
    return runs, store


def test_a_flipped_bit_in_a_shard_costs_its_row_and_is_named(stored):
    runs, store = stored
    (shard,) = store.rows_path.glob("*.jsonl")
    sound, whole = store.rows(), shard.read_bytes()
    lost_nothing = 0
    for place in range(7, len(whole), 211):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        shard.write_bytes(damaged)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = store.rows()
        assert all(row["metrics"] == sound[key]["metrics"] for key, row in found.items()), "a bent number was believed"
        assert len(found) >= len(runs) - 2, "more was lost than the lines around the flipped bit"
        if len(found) < len(runs):
            assert any(shard.name in str(w.message) and "line" in str(w.message) for w in caught)
        else:
            lost_nothing += 1
    assert lost_nothing < 3


def test_a_bent_number_is_not_believed(stored):
    runs, store = stored
    (shard,) = store.rows_path.glob("*.jsonl")
    text = shard.read_text()
    at = text.index('"test_ood": 0.') + len('"test_ood": 0.')
    shard.write_text(text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :])
    with pytest.warns(UserWarning, match=rf"{shard.name}, line 1 is left out.*its digest differs"):
        assert len(store.rows()) == len(runs) - 1


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


def test_a_full_disk_costs_nothing_that_was_stored(tmp_path, tiny, monkeypatch):
    runs = [Run(tau_alpha=0.2, seed=seed, protocol=tiny) for seed in range(3)]
    store, real = Store(tmp_path), os.fsync

    def full(descriptor):
        if len(list(store.rows_path.glob("*.jsonl"))) >= 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    monkeypatch.setattr(results.os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device"):
        work.compute(runs, store, "cpu", stack_size=1, quiet=True)
    assert len(store.rows()) == 1 and not list(store.rows_path.glob("*.tmp"))
    monkeypatch.setattr(results.os, "fsync", real)
    assert work.compute(runs, store, "cpu", stack_size=1, quiet=True) == 2 and not store.missing(runs)


def test_a_small_disk_that_is_full_for_real(tmp_path, tiny):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        store = Store(disk)
        (disk / "filler").write_bytes(b"\0" * 248 * 1024)
        runs = [Run(tau_alpha=0.2, seed=seed, protocol=tiny) for seed in range(4)]
        with pytest.raises(OSError, match="No space left on device"):
            work.compute(runs, store, "cpu", stack_size=1, quiet=True)
        kept = store.rows()
        assert not list(store.rows_path.glob("*.tmp"))
        (disk / "filler").unlink()
        work.compute(runs, store, "cpu", stack_size=1, quiet=True)
        assert not store.missing(runs)
        assert all(store.rows()[key]["metrics"] == row["metrics"] for key, row in kept.items())
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_read_only_folder_is_refused_before_training(tmp_path, tiny, nothing_trains):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "ro,size=64k", "tmpfs", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a disk needs root")
    try:
        with pytest.raises(OSError, match=f"results cannot be written to {disk}/rows: Read-only file system"):
            work.compute([Run(protocol=tiny)], Store(disk), "cpu", quiet=True)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_folder_that_cannot_be_written_is_refused_before_training(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(pretrain, "train", lambda *a, **k: pytest.fail("it trained"))
    status = command_line.main(
        ["run", "main_table", "--device", "cpu", "--results", str(tmp_path / "file" / "results")]
    )
    assert status == 2 and "error: results cannot be written to" in capsys.readouterr().err
