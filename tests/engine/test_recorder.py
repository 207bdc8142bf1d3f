"""Traces: every negative pair is counted once, in its bin, and a stop loses none."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from dtcl_core import pretrain
from dtcl_core.config import Run
from dtcl_core.engine.recorder import TemperatureRecorder, temperature_range
from dtcl_core.launch import local
from dtcl_core.results import Store
from dtcl_core.traces import BINS, KINDS, Trace


@pytest.fixture
def weighted(tiny):
    old = {
        "color_clipping": "clip",
        "crop_scale": (0.08, 1.0),
        "discriminator_fit": "newton",
    }  # views that show their domain early
    sharp = dataclasses.replace(tiny, discriminator_l2=1e-3, **old)  # so few images would leave w near 1/2
    return [Run(m, 0.125, 0.1, seed=1, protocol=sharp) for m in ("dw_pairs", "dw_negatives")]


def test_every_pair_is_counted_in_its_bin_by_kind():
    runs = [Run("dw_pairs", 0.2, 0.1), Run("dw_pairs", 0.5, 0.4)]
    recorder = TemperatureRecorder(runs, 2, torch.device("cpu"))
    low, high = temperature_range(runs[1], 2)
    assert (low, high) == pytest.approx((0.3, 0.7))
    tau = torch.rand(1, 5, 5, generator=torch.Generator().manual_seed(0)) * 0.4 + 0.3
    same = torch.rand(1, 5, 5, generator=torch.Generator().manual_seed(1)) < 0.5
    recorder.add(torch.tensor([1]), tau, same)
    recorder.end_epoch()
    counted = recorder.epochs[0]
    assert counted[0].sum() == 0 and recorder.counts.sum() == 0
    off = ~np.eye(5, dtype=bool)
    for kind, chosen in enumerate([same, ~same]):
        expected, _ = np.histogram(tau[0].numpy()[off & chosen[0].numpy()], bins=BINS, range=(low, high))
        assert np.abs(counted[1, kind].numpy() - expected).sum() <= 2  # a value on an edge may fall to either side


def test_quantiles_lie_within_a_bin_of_the_exact_ones():
    generator = np.random.default_rng(0)
    values = generator.beta(2, 5, size=20_000)
    counts = np.histogram(values, bins=BINS, range=(0, 1))[0]
    trace = Trace("key", np.zeros(1), 0.0, 1.0, np.stack([counts, np.zeros_like(counts)])[None])
    at = [0.0, 0.05, 0.5, 0.95, 1.0]
    for kind in ("same_domain", None):
        assert trace.quantiles(at, kind)[0] == pytest.approx(np.quantile(values, at), abs=1 / BINS)
    assert np.isnan(trace.quantiles(at, "cross_domain")).all()
    with pytest.raises(ValueError, match="kind must be one of same_domain, cross_domain"):
        trace.quantiles(at, "other")


def test_a_run_counts_all_its_pairs_and_two_kinds_part(weighted):
    stack = pretrain.train(weighted, "cpu", record=True)
    batch, steps = stack.protocol.batch_size, stack.streams.steps
    for trace in stack.traces():
        assert (trace.counts.sum((1, 2)) == steps * batch * (batch - 1)).all()
        same, cross = (trace.quantiles([0.5], kind)[0, 0] for kind in KINDS)
        assert same < cross  # fresh embeddings show their domain, so pairs that share it are cold


def test_a_stop_loses_no_trace(weighted, tmp_path):
    whole = pretrain.train(weighted, "cpu", record=True).traces()
    stop = iter([False] * 4 + [True])
    with pytest.raises(pretrain.Interrupted):
        pretrain.train(weighted, "cpu", record=True, checkpoint=tmp_path / "c.pt", should_stop=lambda: next(stop, False))
    resumed = pretrain.train(weighted, "cpu", record=True, checkpoint=tmp_path / "c.pt").traces()
    for a, b in zip(whole, resumed):
        assert np.array_equal(a.counts, b.counts) and np.array_equal(a.loss, b.loss)


def test_recording_changes_no_number(weighted):
    plain, recorded = pretrain.train(weighted, "cpu"), pretrain.train(weighted, "cpu", record=True)
    assert torch.equal(plain.embed("test_id"), recorded.embed("test_id"))


def test_runs_without_a_trace_are_trained_again_where_one_is_asked_for(weighted, tmp_path):
    store = Store(tmp_path)
    runs = [*weighted, Run(protocol=weighted[0].protocol)]
    assert local.compute(runs, store, "cpu", quiet=True) == 3
    assert store.trace(runs[0]) is None
    before = store.rows()
    assert local.compute(runs, store, "cpu", record=lambda run: True, quiet=True) == 3
    assert local.compute(runs, store, "cpu", record=lambda run: True, quiet=True) == 0
    assert {k: r["shard"] for k, r in store.rows().items()} == {k: r["shard"] for k, r in before.items()}
    assert store.trace(runs[2]).counts is None and len(store.trace(runs[2]).loss) == runs[2].protocol.epochs
    with pytest.raises(ValueError, match="recorded none"):
        store.trace(runs[2]).quantiles([0.5])


@pytest.mark.parametrize("damage", ["{", '{"key": "x"}', "[]", None])
def test_a_damaged_trace_is_named_and_left_out(weighted, tmp_path, damage):
    store = Store(tmp_path)
    local.compute(weighted[:1], store, "cpu", record=lambda run: True, quiet=True)
    (path,) = (tmp_path / "traces").glob("*.json")
    if damage is None:
        plain = json.loads(path.read_text())
        damage = json.dumps({**plain, "counts": plain["counts"][:1]})
    path.write_text(damage)
    with pytest.warns(UserWarning, match=path.name):
        assert store.trace(weighted[0]) is None


def test_a_trace_under_another_runs_name_is_left_out(weighted, tmp_path):
    store, (one, other) = Store(tmp_path), weighted[:2]
    local.compute([one], store, "cpu", record=lambda run: True, quiet=True)
    (tmp_path / "traces" / f"{one.key}.json").rename(tmp_path / "traces" / f"{other.key}.json")
    with pytest.warns(UserWarning, match="belongs to another run"):
        assert store.trace(other) is None
