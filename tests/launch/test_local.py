"""Training what is missing, on one machine."""

from dataclasses import replace

import pytest
import torch

from dtcl_core import evaluate, pretrain
from dtcl_core.config import Protocol, Run
from dtcl_core.engine.streams import stream_of
from dtcl_core.launch import local
from dtcl_core.results import Store


def test_stacks_hold_every_run_once_and_share_a_shape(all_methods):
    runs = all_methods + [Run(seed=s) for s in range(5)]
    for mix in (True, False):
        stacks = local.cut_into_stacks(runs, 4, mix)
        assert sorted(r.key for stack in stacks for r in stack) == sorted(r.key for r in runs)
        for stack in stacks:
            assert len(stack) <= 4 and len({pretrain.shape_of(r) for r in stack}) == 1
            if not mix:
                assert len({stream_of(r) for r in stack}) == 1


def test_the_cut_does_not_depend_on_the_order_asked(all_methods):
    assert local.cut_into_stacks(all_methods, 4) == local.cut_into_stacks(all_methods[::-1], 4)


def test_a_stack_keeps_its_runs_while_others_finish(all_methods, tmp_path, monkeypatch):
    # A checkpoint is named by the stack's runs: if finishing one stack moved the next, its checkpoint would be lost.
    seen = []

    def train(members, *_, **__):
        seen.append({r.key for r in members})
        raise pretrain.Interrupted

    monkeypatch.setattr(pretrain, "train", train)
    cut = local.cut_into_stacks(all_methods, 5, mix_streams=False)
    assert len({len(s) for s in cut}) > 1
    for finished in range(len(cut)):
        monkeypatch.setattr(Store, "missing", lambda self, runs, traced, n=finished: [r for s in cut[n:] for r in s])
        with pytest.raises(pretrain.Interrupted):
            local.compute(all_methods, Store(tmp_path), "cpu", stack_size=5, quiet=True)
        assert seen[-1] == {r.training.key for r in cut[finished]}


def test_a_stack_of_less_than_one_run_is_refused(all_methods, tmp_path):
    for size in (0, -1, 1.5):
        with pytest.raises(ValueError, match="stack_size must be an integer >= 1"):
            local.compute(all_methods, Store(tmp_path), "cpu", stack_size=size, quiet=True)


def test_what_runs_is_said_once_for_each_way(all_methods, monkeypatch):
    monkeypatch.setattr(local.torch, "get_num_threads", lambda: 4)
    monkeypatch.delenv("DTCL_TRUNK", raising=False)
    wide = [replace(run, protocol=replace(run.protocol, kernel_size=5)) for run in all_methods[:3]]
    stacks = [all_methods[:2], wide, all_methods[2:5]]
    paths = [pretrain.choose_trunk(stack[0].protocol, torch.device("cpu"), "float32")[1] for stack in stacks]
    assert "[8, 8, 8]" in paths[0] and "3 x 3 kernels" in paths[1] and paths[2] == paths[0], "there are not two ways"
    assert local.what_runs(stacks, torch.device("cpu"), "float32") == [
        f"Encoders are computed by {path}: float32, 4 threads, up to 3 runs at once." for path in paths[:2]
    ]
    (on_gpu,) = local.what_runs(stacks[:1], torch.device("cuda"), "float32")
    assert torch.cuda.is_available() or on_gpu.endswith("(PyTorch finds no GPU here): float32, up to 2 runs at once.")


def a_row(seconds, **provenance):
    """A row of a run whose images took so many seconds each, as far as a pace is read from it."""
    run = Run(protocol=Protocol(epochs=2))
    told = {"device": "cpu", "precision": "float32", "seconds": seconds * local.image_epochs(run)}
    return {"run": run.to_dict(), "provenance": told | provenance}


def test_the_pace_is_that_of_rows_like_those_that_would_be_trained_here_if_there_are_any(monkeypatch):
    cpu = torch.device("cpu")
    here = {"device_name": local.machine(cpu)["device_name"], "threads": 2}
    monkeypatch.setattr(local, "machine", lambda device: here)
    monkeypatch.setattr(pretrain, "choose_trunk", lambda *_: (object(), "the trunk for CPUs"))
    rows = [a_row(9.0, device="cuda", threads=None)]
    assert local.pace_of(rows, cpu) == (None, None, "no row was trained on cpu yet")
    rows.append(a_row(8.0))
    others = "of any cpu, as there is none of this processor on 2 threads by the trunk for CPUs"
    assert local.pace_of(rows, cpu) == (pytest.approx(8.0), None, f"the median of 1 row {others}")
    rows += [
        a_row(6.0, **here),
        a_row(5.0, **here | {"threads": 3}, trunk="t"),
        a_row(7.0, device_name="odd", threads=2, trunk="t"),
    ]
    rows.append(a_row(2.0, **here, trunk="t", precision="bfloat16"))
    rows.append(a_row(6.0, **here | {"threads": "7, then 2"}))  # it went on with another number of threads
    assert local.pace_of(rows, cpu) == (pytest.approx(6.0), pytest.approx(13.0), f"the median of 6 rows {others}")
    rows += [a_row(seconds, **here, trunk="t") for seconds in (1.0, 4.0, 3.0)]
    alike = "the median of 3 rows of this processor on 2 threads by the trunk for CPUs"
    assert local.pace_of(rows, cpu) == (pytest.approx(3.0), pytest.approx(6.0), alike)
    monkeypatch.setattr(pretrain, "choose_trunk", lambda *_: (None, "PyTorch's operators (no compiler)"))
    assert local.pace_of(rows, cpu)[:2] == pytest.approx((6.0, 12.0)), "rows of another path were counted"


def test_replicates_train_in_stacks_of_their_own_and_are_the_same_runs(all_methods, tmp_path):
    runs = all_methods[:2]
    again = [replace(run, replicate=1) for run in runs]
    assert sorted(map(len, local.cut_into_stacks([*runs, *again], 12))) == [2, 2]
    store = Store(tmp_path)
    local.compute([*runs, *again], store, "cpu", quiet=True)
    rows = store.rows()
    for first, second in zip(runs, again):
        assert rows[first.key]["metrics"] == rows[second.key]["metrics"], "bit for bit, as machine, code and stack are the same"


@pytest.mark.parametrize("count", [1, 3, 4, 20])
def test_shards_hold_every_run_once(all_methods, count):
    parts = [local.shard_of(all_methods, i, count) for i in range(count)]
    assert sorted(r.key for part in parts for r in part) == sorted(r.key for r in all_methods)
    fewer = [local.shard_of(all_methods[::3], i, count) for i in range(count)]
    assert all(set(few) <= set(part) for few, part in zip(fewer, parts)), "whatever a run is asked for with"


def test_compute_trains_what_is_missing_and_only_that(all_methods, tmp_path):
    store = Store(tmp_path)
    assert local.compute(all_methods[:3], store, "cpu", quiet=True) == 3
    first = store.rows()
    assert local.compute(all_methods, store, "cpu", stack_size=4, quiet=True) == len(all_methods) - 3
    after = store.rows()
    assert after.keys() == {r.key for r in all_methods}
    assert all(after[key] == row for key, row in first.items())
    assert local.compute(all_methods, store, "cpu", quiet=True) == 0
    frame = store.load()
    assert frame[["validation", "test_id", "test_ood", "d_test_id"]].notna().all().all()
    assert set(frame.sources) == {next(iter(first.values()))["provenance"]["sources"]}
    assert not list((tmp_path / ".checkpoints").glob("*"))


def test_an_interrupted_compute_goes_on_to_the_same_rows(all_methods, tmp_path):
    whole, stopped = Store(tmp_path / "whole"), Store(tmp_path / "stopped")
    local.compute(all_methods, whole, "cpu", quiet=True)
    stops = 0
    while stopped.missing(all_methods):
        calls = []

        def soon(calls=calls):
            calls.append(1)
            return len(calls) > 5

        try:
            local.compute(all_methods, stopped, "cpu", should_stop=soon, quiet=True)
        except pretrain.Interrupted:
            stops += 1
    assert stops > 1
    for key, row in whole.rows().items():
        assert stopped.rows()[key]["metrics"] == row["metrics"]


def test_a_stack_that_does_not_fit_is_halved_and_those_of_another_shape_are_left_alone(tiny, tmp_path, monkeypatch):
    wide, tried, train = replace(tiny, channels=(16, 16)), [], pretrain.train

    def small_memory(members, *arguments, **options):
        of_wide = members[0].protocol.channels == wide.channels
        tried.append((of_wide, len(members)))
        if of_wide and len(members) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return train(members, *arguments, **options)

    monkeypatch.setattr(pretrain, "train", small_memory)
    runs = [Run(tau_alpha=tau, protocol=protocol) for tau in (0.1, 0.2, 0.3, 0.4) for protocol in (tiny, wide)]
    store = Store(tmp_path)
    with pytest.warns(UserWarning, match="a stack of .* runs does not fit into memory; it is halved"):
        assert local.compute(runs, store, "cpu", quiet=True) == 8
    assert sorted(tried) == [(False, 4), *[(True, 1)] * 4, (True, 2), (True, 4)] and store.rows().keys() == {r.key for r in runs}
    monkeypatch.setattr(pretrain, "train", lambda *_, **__: (_ for _ in ()).throw(torch.OutOfMemoryError("none left")))
    with pytest.raises(ValueError, match="one run does not fit into the device's memory"):
        local.compute([Run(protocol=tiny, seed=99)], store, "cpu", quiet=True)


def test_each_shape_has_stacks_of_its_own_size(monkeypatch):
    shapes = [Protocol(channels=widths) for widths in ((16, 16, 32), (64, 64, 64))]
    monkeypatch.setattr(
        local, "stack_size_for", lambda device, protocol, precision: 6 if protocol.channels == shapes[0].channels else 2
    )
    monkeypatch.setattr(local, "mixes_streams", lambda *_: True)
    runs = [Run(seed=seed, protocol=protocol) for seed in range(6) for protocol in shapes]
    stacks = local.missing_stacks(runs, Store("nowhere"), torch.device("cpu"), "float32")
    assert sorted((stack[0].protocol == shapes[1], len(stack)) for stack in stacks) == [(False, 6), *[(True, 2)] * 3]


def test_the_size_of_a_stack_follows_the_memory_that_is_free(monkeypatch):
    gpu, sizes = torch.device("cuda"), {}
    for gigabytes in (0.001, 1, 1.1, 16, 80, 140):
        monkeypatch.setattr(local, "free_bytes", lambda device, g=gigabytes: int(g * 2**30))
        sizes[gigabytes] = [local.stack_size_for(gpu, Protocol(), p) for p in ("float32", "bfloat16")]
        assert all(s * local.bytes_of_run(Protocol(), "float32") <= g * 2**30 for g, (s, _) in sizes.items() if s > 1)
    assert sizes[0.001] == [1, 1] and sizes[140] == [local.GPU_STACK] * 2
    assert sizes[1] == sizes[1.1]  # a little more memory cuts the same stacks
    assert 1 < sizes[1][0] <= sizes[1][1] <= sizes[16][0]


def test_a_row_has_its_share_of_the_seconds_of_its_stack(all_methods):
    stack = pretrain.train(all_methods[:4], "cpu")
    stack.seconds = 12.0
    rows = local.make_rows(stack, evaluate.measure(stack))
    assert [row["provenance"]["seconds"] for row in rows] == [3.0] * 4
