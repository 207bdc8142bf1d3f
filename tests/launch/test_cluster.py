"""A real local Ray cluster of two workers, one of them killed while it trains."""

import copy
import os
import signal
import threading
import time
from pathlib import Path

import pytest
import ray

from dtcl_core import pretrain
from dtcl_core.engine import provenance
from dtcl_core.launch import cluster, local
from dtcl_core.results import Store


@pytest.fixture(scope="module")
def two_workers():
    ray.init(
        num_cpus=2,
        num_gpus=0,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        namespace="dtcl-test",
    )
    yield
    ray.shutdown()


def workers_at_work():
    """Process ids of Ray workers that are training a stack."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if entry.read_bytes().startswith(b"ray::train_stack_on_worker"):
                found.append(int(entry.parent.name))
        except OSError:
            pass
    return found


def kill_one_worker(killed, checkpoints, over):
    while not over.is_set():
        if checkpoints() and (pids := workers_at_work()):
            os.kill(pids[0], signal.SIGKILL)
            killed.append(pids[0])
            return
        time.sleep(0.01)


def test_a_killed_worker_loses_and_doubles_no_row(all_methods, tmp_path, two_workers, monkeypatch):
    runs = all_methods[::3]
    stacks = local.missing_stacks(runs, Store(tmp_path), pretrain.resolve_device("cpu"), "float32", 1)
    assert len(stacks) >= 4
    killed: list[int] = []
    store = Store(tmp_path / "ray")
    scratch = [cluster.scratch_store(members, cluster.owner_of(store)).path for members in stacks]
    started = lambda: any(path.exists() for path in scratch) or workers_at_work()  # noqa: E731
    over = threading.Event()
    thread = threading.Thread(target=kill_one_worker, args=(killed, started, over))
    thread.start()
    assert cluster.compute(runs, store, "cpu", stack_size=1, record=lambda run: True, quiet=True) == len(runs)
    over.set()
    thread.join()
    assert killed, "no worker was seen at work"
    lines = [line for shard in store.rows_path.glob("*.jsonl") for line in shard.read_text().splitlines()]
    assert len(lines) == len(runs) and store.rows().keys() == {run.key for run in runs}
    assert all(store.trace(run) is not None for run in runs)
    assert all(store.encoder(row) is not None for row in store.rows().values()), "networks come home with their rows"
    home = Store(tmp_path / "home")
    local.compute(runs, home, "cpu", stack_size=1, quiet=True)
    for key, row in home.rows().items():
        assert row["metrics"] == store.rows()[key]["metrics"]
    assert not any(path.exists() for path in scratch)


def test_a_stop_keeps_what_is_done_and_mistakes_are_told_first(all_methods, tmp_path, two_workers):
    runs, store = all_methods[::2], Store(tmp_path)
    with pytest.raises(ValueError, match="the Ray cluster has no GPU"):
        cluster.compute(runs, store, "cuda", quiet=True)
    assert not store.rows()
    with pytest.raises(pretrain.Interrupted):
        cluster.compute(runs, store, "cpu", stack_size=2, quiet=True, should_stop=lambda: bool(store.rows()))
    assert 0 < len(store.rows()) < len(runs)
    cluster.compute(runs, store, "cpu", stack_size=2, quiet=True)
    assert store.rows().keys() == {run.key for run in runs}
    alone = Store(tmp_path / "alone")
    assert cluster.compute(runs[:1], alone, "cpu", quiet=True, should_stop=lambda: bool(alone.rows())) == 1, (
        "nothing is left to stop"
    )


def test_rows_that_an_earlier_version_left_with_a_worker_are_not_taken(all_methods, tmp_path):
    runs = all_methods[:1]
    scratch = cluster.scratch_store(runs, "a driver")
    local.compute(runs, scratch, "cpu", quiet=True)
    (shard,) = scratch.rows_path.glob("*.jsonl")
    old = [{k: v for k, v in row.items() if k not in ("shard", "digest")} for row in copy.deepcopy([*scratch.rows().values()])]
    shard.unlink()
    scratch.add([{**row, "provenance": {**row["provenance"], "sources": "0" * 12}} for row in old])
    (row,), *_ = cluster.train_stack_on_worker([run.to_dict() for run in runs], "cpu", "float32", False, "a driver")
    assert row["provenance"]["sources"] == provenance.SOURCES and not scratch.path.exists()


def test_a_worker_that_fails_is_told_in_a_line(all_methods, tmp_path, two_workers, monkeypatch):
    def failing(*_):
        raise ValueError("there is no compiler.")

    monkeypatch.setattr(cluster, "train_stack_on_worker", failing)
    with pytest.raises(ValueError, match=r"^a worker failed: there is no compiler\.$"):
        # One task: Ray aborts the process if others end while they are cancelled.
        cluster.compute(all_methods[:1], Store(tmp_path), "cpu", quiet=True)


def test_what_others_finished_is_stored_before_a_failure_is_told(all_methods, tmp_path, monkeypatch):
    class Task:
        def __init__(self, work, *given):
            self.work, self.given = work, given

        def options(self, **_):
            return self

        def remote(self, *given):
            return Task(self.work, *given)

    def result(task):
        if task is tasks[0]:
            raise ray.exceptions.RayError
        return task.work(*task.given)

    tasks: list[Task] = []
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0})
    monkeypatch.setattr(ray, "remote", Task)
    monkeypatch.setattr(ray, "wait", lambda pending, **_: (tasks.extend(pending) or tasks, []))
    monkeypatch.setattr(ray, "get", result)
    runs = all_methods[:3]
    with pytest.raises(ValueError, match=r"^a worker failed: RayError\.$"):
        cluster.compute(runs, Store(tmp_path), "cpu", stack_size=1, quiet=True)
    assert len(tasks) == 3 and len(Store(tmp_path).rows()) == 2


@pytest.mark.parametrize(("device", "gpus"), [("cpu", 0), ("cuda", 1)])
def test_every_task_names_its_cores(all_methods, tmp_path, monkeypatch, device, gpus):
    class Named(Exception):
        pass

    class Task:
        def options(self, **needs):
            raise Named(needs["num_cpus"], needs["num_gpus"])

    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0, "GPU": 1.0})
    monkeypatch.setattr(ray, "remote", lambda function: Task())
    with pytest.raises(Named) as named:
        cluster.compute(all_methods, Store(tmp_path), device, stack_size=3, quiet=True)
    assert named.value.args == (1, gpus)


def test_rows_of_other_code_are_refused(all_methods, tmp_path, two_workers, monkeypatch):
    other = {"key": all_methods[0].key, "provenance": {"sources": "0" * 12}}
    monkeypatch.setattr(cluster, "train_stack_on_worker", lambda *_: ([other], [], {}))
    with pytest.raises(ValueError, match="a worker runs other code than this machine"):
        cluster.compute(all_methods[:1], Store(tmp_path), "cpu", quiet=True)
    assert not Store(tmp_path).rows()
