"""The path a GPU takes, on a simulated device: the whole of training and evaluation, and nothing in it waits for the device."""

from dataclasses import replace

import numpy as np
import pytest
import simulated
import torch
from simulated import HostWait, MixedDevices, Simulation

from dtcl_core import evaluate, methods, pretrain
from dtcl_core.config import Protocol, Run
from dtcl_core.engine.device import free_bytes
from dtcl_core.launch import local, selfcheck
from dtcl_core.results import Store
from dtcl_study.experiments import REGISTRY

# Where the host may wait for the device, by what is being done; an epoch is not among it.
SET_UP = ("pretrain.Stack.__init__",)
EVALUATION = ("evaluate.measure",)
CHECKPOINTS = ("engine.checkpoint.write_checkpoint", "engine.checkpoint.copied", "pretrain.Stack.restore")
TRACES = ("engine.recorder.traces_of",)


@pytest.fixture(autouse=True)
def known_to_pytorch():
    try:
        simulated.register()
    except simulated.Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def every_method(all_methods, tiny):
    """Runs of every method; an epoch takes two steps."""
    weighted = [Run("dw_outside", 0.2, protocol=tiny), Run("dw_outside", 0.2, discriminator="batch", protocol=tiny)]
    short = replace(tiny, batch_size=96)
    return [replace(run, protocol=short) for run in (*all_methods, *weighted)]


def set_up(simulation, runs, precision="float32", **options):
    with simulation.waiting_in(*SET_UP):
        return pretrain.Stack(runs, simulation.device, precision, **options)


def trained_on_the_cpu(runs, epochs=1, **options):
    """The same by PyTorch's operators on the CPU."""
    stack = pretrain.Stack(runs, "cpu", "float32", trunk="pytorch", **options)
    for _ in range(epochs):
        stack.train_epoch()
    return stack


def test_epochs_of_every_method_wait_for_nothing_and_give_what_the_cpu_gives(every_method):
    cpu = trained_on_the_cpu(every_method, 2, record=True)
    with Simulation() as simulation:
        stack = set_up(simulation, every_method, record=True)
        assert stack.encoder.weight.device == simulation.device and stack.trunk is None
        simulation.reset()
        for _ in range(2):
            stack.train_epoch()
        stack.state()
        assert not simulation.waits
        with simulation.waiting_in(*EVALUATION, *TRACES):
            measured, traces = evaluate.evaluate(stack), stack.traces()
        assert {place for place, _ in simulation.waits} == {*EVALUATION, *TRACES}
        with pytest.raises(HostWait, match="evaluate.* waits"):
            evaluate.evaluate(stack)  # where it is not expected
    for here, there in zip(traces, cpu.traces()):
        np.testing.assert_allclose(here.loss, there.loss, rtol=1e-5)
        # Sums are taken in an order of their own: a temperature or an image that lies on an edge may fall to its other side.
        assert (here.counts is None) == (there.counts is None)
        if there.counts is not None:
            assert (here.counts.sum(-1) == there.counts.sum(-1)).all()
            assert abs(here.counts.cumsum(-1) - there.counts.cumsum(-1)).max() <= 3
    probed = evaluate.evaluate(cpu)
    assert measured.keys() == probed.keys()
    for key, fractions in probed.items():
        for fraction, scores in fractions.items():
            assert measured[key][fraction] == pytest.approx(scores, abs=1.01 / 40)


def test_projector_heads(tiny):
    protocol = replace(tiny, projector_batch_norm=True)
    settings = [
        ("standard", {}),
        ("dw_pairs", {"tau_beta": 0.1}),
        ("dw_negatives", {"tau_beta": 0.1, "discriminator": "batch"}),
    ]
    runs = [Run(m, 0.2, projector="mlp", projector_dim=4, protocol=protocol, **s) for m, s in settings]
    with Simulation() as simulation:
        stack = set_up(simulation, runs)
        stack.train_epoch()
        with simulation.waiting_in(*EVALUATION):
            evaluate.evaluate(stack)
        reached = stack.losses[0].inner
    torch.testing.assert_close(reached, trained_on_the_cpu(runs).losses[0], rtol=1e-5, atol=0)


CHOICES = [
    {"symmetric": True, "penalty_views": "anchor", "posterior_view": "anchor_view", "weight_gradient": True},
    {
        "jitter_position": "before_blur",
        "input_normalization": "half",
        "drop_last": False,
        "block_order": "relu-norm-dropout",
    },
    {"dropout_kind": "channel", "downsampling": "max_pool", "discriminator_fit": "adam", "discriminator_steps": 3},
    {
        "dropout": 0.0,
        "downsampling": "average_pool",
        "discriminator_inputs": "augmented",
        "discriminator_mode": "train",
    },
    {"discriminator_mode": "train", "discriminator_features": "l2", "dann_schedule": "constant", "mmd_features": "raw"},
]


@pytest.mark.parametrize("choices", CHOICES, ids=lambda choices: next(iter(choices)))
def test_an_epoch_under_other_choices_of_the_protocol(every_method, choices):
    runs = [replace(run, protocol=replace(run.protocol, **choices)) for run in every_method[::3]]
    with Simulation() as simulation:
        stack = set_up(simulation, runs)
        stack.train_epoch()
        reached = stack.losses[0].inner
    torch.testing.assert_close(reached, trained_on_the_cpu(runs).losses[0], rtol=1e-4, atol=1e-6)


def test_half_precision_is_there_for_who_asks(every_method):
    with Simulation() as simulation:
        stack = set_up(simulation, every_method[::2], "bfloat16")
        assert stack.precision == "bfloat16" and stack.machine["device_name"] == "a simulated device"
        stack.train_epoch()
        assert simulation.convolved == {torch.bfloat16}
        reached = stack.losses[0].inner
    torch.testing.assert_close(reached, trained_on_the_cpu(every_method[::2]).losses[0], rtol=0.1, atol=0)


def test_training_that_was_stopped_goes_on_from_its_checkpoint(every_method, tmp_path):
    runs, path, asked = every_method[6:14:2], tmp_path / "stack.pt", []

    def in_the_second_epoch():
        asked.append(True)
        return len(asked) == 4

    with Simulation() as simulation, simulation.waiting_in(*SET_UP, *CHECKPOINTS):
        with pytest.raises(pretrain.Interrupted):
            pretrain.train(runs, simulation.device, precision="float32", checkpoint=path, should_stop=in_the_second_epoch)
        restored = []
        stack = pretrain.train(
            runs, simulation.device, precision="float32", checkpoint=path, on_restore=lambda s: restored.append(s.epoch)
        )
        assert restored == [1] and stack.losses[0].device == simulation.device
        assert {place for place, _ in simulation.waits} <= {*SET_UP, *CHECKPOINTS}
        reached = torch.stack([losses.inner for losses in stack.losses])
    torch.testing.assert_close(reached, torch.stack(trained_on_the_cpu(runs, 2).losses), rtol=1e-5, atol=0)


def test_rows_are_stored_as_from_any_device(all_methods, tmp_path):
    store, runs = Store(tmp_path), all_methods[:4]
    with (
        Simulation() as simulation,
        simulation.waiting_in(*SET_UP, *EVALUATION, *CHECKPOINTS, "encoder_files.packed"),
    ):
        assert local.compute(runs, store, simulated.KIND, quiet=True) == len(runs)
    rows = store.rows()
    assert rows.keys() == {run.key for run in runs}
    assert {row["provenance"]["device"] for row in rows.values()} == {simulated.KIND}
    assert {row["provenance"]["stack"] for row in rows.values()} == {len(runs)}, "streams share a stack on an accelerator"


# --- the harness can fail -------------------------------------------------------------------------------------------


def spoiled(monkeypatch, spoil):
    """A method whose training looks at a batch in a forbidden way."""
    monkeypatch.setitem(methods.VARIANTS, "spoiled", methods.Method("Spoiled", spoil))


@pytest.mark.parametrize(
    ("spoil", "error", "said"),
    [
        (lambda b: {"weight": b.z.sum().item()}, HostWait, "_local_scalar_dense is read"),
        (lambda b: {"weight": bool((b.z > 0).any())}, HostWait, "_local_scalar_dense is read"),
        (lambda b: {"weight": b.z[b.z > 0].sum()}, HostWait, "a mask decides a shape"),
        (lambda b: {"weight": b.z.cpu()}, HostWait, "values are copied to the host"),
        (lambda b: {"weight": torch.ones(2).to(b.z.device)}, HostWait, "memory that is not pinned"),
        (lambda b: {"weight": torch.tensor([1.0], device=b.z.device)}, HostWait, "memory that is not pinned"),
        (lambda b: {"weight": b.domains.unique()}, HostWait, "_unique"),
        (lambda b: {"admitted": b.domains[..., None] == torch.zeros(64)}, MixedDevices, "eq was given tensors of"),
        (lambda b: {"weight": b.z[:, torch.arange(3)]}, MixedDevices, "index was given tensors of"),
    ],
)
def test_a_wait_or_a_tensor_of_the_host_in_a_step_is_caught(tiny, monkeypatch, spoil, error, said):
    spoiled(monkeypatch, spoil)
    with Simulation() as simulation:
        stack = set_up(simulation, [Run("spoiled", 0.2, protocol=tiny), Run("standard", 0.2, protocol=tiny)])
        with pytest.raises(error, match=said):
            stack.train_epoch()


def test_a_wait_outside_the_allowed_places_is_refused():
    with Simulation() as simulation, simulation.waiting_in("pretrain.Stack.__init__"):
        value = torch.ones(3, device=simulation.device)
        with pytest.raises(HostWait, match="code outside the library waits"):
            value.sum().item()
        with pytest.raises(HostWait):
            value.cpu()
        assert not simulation.waits


def test_memory_held_is_counted_and_views_cost_nothing():
    with Simulation() as simulation:
        device = simulation.device
        a, b = torch.ones(4, 128, 64, device=device), torch.ones(4, 64, 32, device=device)
        simulation.reset()
        before = simulation.held
        product = a @ b
        assert simulation.held - before == 4 * 4 * 128 * 32
        simulation.reset()
        view = product.transpose(1, 2)[:, :3].unsqueeze(0)
        assert simulation.peak == simulation.held, "views cost nothing"
        del product
        assert simulation.held - before == 4 * 4 * 128 * 32, "and keep what they look at"
        del view
        assert simulation.held == before


def test_free_memory_is_what_the_device_has_less_what_is_held():
    with Simulation() as simulation:
        kept = torch.ones(1024, 1024, device=simulation.device)
        assert free_bytes(simulation.device) == simulated.MEMORY - 4 * 2**20
        del kept


# --- what a GPU is asked for ----------------------------------------------------------------------------------------


def peak(runs):
    """Most memory held, in bytes: of an epoch's start, a training step and the embedding of a split."""
    with Simulation(values=False) as simulation:
        stack = set_up(simulation, runs)
        stack.step(0, selfcheck.begun(stack, 0))  # the optimisers' state is made
        simulation.reset()
        stack.step(1, selfcheck.begun(stack, 1))
        stack.state()
        stack.embed("train")
        return simulation.peak


def test_the_estimate_of_memory_holds_and_does_not_waste():
    each, most = local.bytes_of_run(Protocol(), "float32"), 128
    small, large = (peak([Run("standard", 0.05 + 0.001 * i) for i in range(size)]) for size in (24, most))
    runs = sorted(REGISTRY["main_table"].runs("paper"), key=lambda run: (run.method, run.seed, run.key))[::8]
    mixed = peak(runs)
    assert each / 3 < (large - small) / (most - 24) < each, "of one more run"
    assert most * each / 3 < large < most * each and len(runs) * each / 3 < mixed < len(runs) * each
