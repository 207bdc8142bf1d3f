"""The engine: stacks equal solo runs, encoders equal plain PyTorch modules, and a stop loses nothing."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from dtcl_core import evaluate, losses, pretrain
from dtcl_core.config import Protocol, Run
from dtcl_core.data import SPLITS
from dtcl_core.encoder import Encoder
from dtcl_core.engine.checkpoint import write_checkpoint
from dtcl_core.launch.local import make_rows
from dtcl_core.methods import ALL_METHODS, METHODS, Batch


def parameters_of(stack, r):
    """Everything that belongs to run r of a stack: weights and running statistics."""
    state = {name: value[r].clone() for name, value in stack.encoder.state_dict().items()}
    users = [i for i, run in enumerate(stack.runs) if run.method == "dann"]
    if r in users:
        state |= {f"adversary{i}": p[users.index(r)].detach().clone() for i, p in enumerate(stack.adversary)}
    return state


def steps_of(runs, epochs):
    stack = pretrain.Stack(runs, "cpu")
    for _ in range(epochs):
        stack.train_epoch()
    return stack


def test_every_run_of_a_stack_equals_the_same_run_alone(all_methods):
    together = steps_of(all_methods, 2)  # six optimiser steps
    for r, run in enumerate(together.runs):
        alone = steps_of([run], 2)
        assert torch.allclose(together.losses[-1][r], alone.losses[-1][0], rtol=1e-3), run
        for name, value in parameters_of(alone, 0).items():
            assert torch.allclose(parameters_of(together, r)[name], value, atol=2e-3), (run, name)


def test_in_float64_a_stack_and_its_runs_alone_agree_to_the_last_digits(all_methods):
    """In float32 rounding hides small mistakes: there Adam turns the sign of a tiny gradient into a full step."""

    def steps(runs):
        stack = pretrain.Stack(runs, "cpu")
        stack.encoder.double()
        stack.adversary.double()
        stack.encoder.dtype = torch.float64
        stack.train_epoch()
        return stack

    together = steps(all_methods)
    for r, run in enumerate(together.runs):
        alone = steps([run])
        for name, value in parameters_of(alone, 0).items():
            assert value.dtype != torch.float32
            assert torch.allclose(parameters_of(together, r)[name], value, rtol=1e-7, atol=1e-9), (run, name)


def test_methods_train_apart(all_methods):
    stack = steps_of(all_methods, 1)
    ends = [stack.encoder.weight[r] for r in range(len(stack.runs))]
    for a in range(len(ends)):
        for b in range(a):
            assert not torch.allclose(ends[a], ends[b], atol=1e-6), (stack.runs[a], stack.runs[b])


@pytest.mark.parametrize("downsampling", ["stride", "max_pool", "average_pool"])
@pytest.mark.parametrize("order", ["norm-dropout-relu", "relu-norm-dropout"])
def test_encoder_equals_a_plain_module(downsampling, order):
    protocol = Protocol(channels=(4, 6, 8), downsampling=downsampling, block_order=order)
    stack = Encoder([0, 1], protocol)
    images = torch.rand(2, 10, 3, 28, 28)
    references: dict[int, nn.Module] = {}
    for training in (True, False):  # the first pass moves the running statistics that the second one uses
        stack.train(training)
        ours = stack(images, [1, 1])
        for r in range(2):
            if training:
                layers, before = [], 3
                for block, width in enumerate(protocol.channels):
                    conv = nn.Conv2d(before, width, 3, 2 if downsampling == "stride" else 1, 1, bias=False)
                    conv.weight.data.copy_(stack.convolutions[block][r])
                    rest = [nn.BatchNorm2d(width), nn.ReLU()]
                    pool = {"max_pool": [nn.MaxPool2d(2)], "average_pool": [nn.AvgPool2d(2)]}.get(downsampling, [])
                    layers += [conv, *(rest if order == "norm-dropout-relu" else rest[::-1]), *pool]
                    before = width
                plain = nn.Sequential(*layers)
                references[r] = plain
            features = references[r].train(training)(images[r]).permute(0, 2, 3, 1).flatten(1)  # ours flattens channels last
            theirs = features @ stack.weight[r] + stack.bias[r]
            assert torch.allclose(ours[r], theirs, atol=1e-5)


@pytest.mark.parametrize("some", [None, [0, 2, 3, 6]])
def test_lanes_change_nothing_but_the_time(monkeypatch, some):
    """Seven runs of three streams, all or some of them, with dropout: values, gradients and running statistics."""
    counts = [2, 4, 1] if some is None else [1, 2, 1]
    images = torch.rand(3, 5, 3, 28, 28, dtype=torch.float64)
    keep = [torch.rand(3, 5, side, side, 4) > 0.2 for side in (14, 7)]
    masks = [torch.where(block, torch.inf, 0.0) for block in keep]
    seen = []
    for lane, lanes in ((1, sum(counts)), (2, -(-sum(counts) // 2)), (3, -(-sum(counts) // 3)), (100, 1)):
        passes = 0

        def counted(self, *arguments, features=Encoder._features):
            nonlocal passes
            passes += 1
            return features(self, *arguments)

        monkeypatch.setattr("dtcl_core.encoder.CPU_LANE", lane)
        encoder = Encoder(range(7), Protocol(channels=(4, 4))).double()
        encoder.dtype = torch.float64
        with monkeypatch.context() as patch:
            patch.setattr(Encoder, "_features", counted)
            z = encoder(images, counts, masks, runs=None if some is None else torch.tensor(some))
        assert passes == lanes
        z.cos().sum().backward()
        seen.append([z.detach(), *[p.grad for p in encoder.parameters()], *encoder.buffers()])
    assert seen[0][0].shape == (sum(counts), 5, Protocol().embedding_dim)
    for other in seen[:-1]:
        assert all(torch.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in zip(other, seen[-1]))
    fresh = Encoder(range(7), Protocol(channels=(4, 4))).double()
    for (name, start), end in zip(fresh.named_buffers(), seen[-1][-4:], strict=True):
        assert torch.equal(start, end) == (some is not None), name  # only a pass of all runs tracks


def test_any_method_may_have_an_adversary_of_its_own(tiny, monkeypatch):
    monkeypatch.setitem(ALL_METHODS, "other_dann", replace(METHODS["dann"], title="the same under another name"))
    protocol = replace(tiny, dann_schedule="ganin")
    runs = [Run(m, 0.2, lambda_=1, seed=s, protocol=protocol) for m in ("dann", "other_dann") for s in (0, 1)]
    stack = pretrain.train([*runs, Run(tau_alpha=0.2, protocol=protocol)], "cpu", precision="float32")
    losses = {(run.method, run.seed): loss for run, loss in zip(stack.runs, stack.losses[-1].tolist())}
    for seed in (0, 1):
        assert losses["other_dann", seed] == pytest.approx(losses["dann", seed], rel=1e-5)
    assert losses["dann", 0] != losses["dann", 1] and len(stack.adversary[0]) == 4
    assert (stack.adversary[0].abs().amax((1, 2)) > 0).all(), "every adversary has learned"


def test_initial_weights_follow_the_seed_and_pytorchs_range():
    first, second = Encoder([0, 1, 0], Protocol()), Encoder([1], Protocol())
    assert torch.equal(first.weight[0], first.weight[2]) and not torch.equal(first.weight[0], first.weight[1])
    assert torch.equal(first.weight[1], second.weight[0])
    bound = 1 / math.sqrt(Protocol().channels[0] * 9)
    assert first.convolutions[1].abs().max() <= bound and first.convolutions[1].abs().max() > 0.95 * bound


def test_dropout_drops_the_rate_it_is_given_and_keeps_the_mean(tiny):
    stack = pretrain.Stack([Run(protocol=replace(tiny, dropout=0.3))], "cpu")
    masks = stack.streams.dropout_masks(64, 0, 0)
    for block in masks:
        assert (block[0] == 0).float().mean().item() == pytest.approx(0.3, abs=0.02)
        assert ((block[0] == 0) | block[0].isposinf()).all()
    assert torch.equal(masks[0][0], stack.streams.dropout_masks(64, 0, 0)[0][0])
    assert not torch.equal(masks[0][0], stack.streams.dropout_masks(64, 0, 1)[0][0])


@pytest.mark.parametrize("order", ["norm-dropout-relu", "relu-norm-dropout"])
def test_dropout_equals_multiplying_by_a_scaled_mask_in_the_paper_s_order(order):
    protocol = Protocol(channels=(4,), dropout=0.25, block_order=order)
    encoder, images = Encoder([0], protocol), torch.rand(1, 6, 3, 28, 28)
    kept = torch.rand(6, 14, 14, 4) > 0.25
    z = encoder(images, [1], [[torch.where(kept, torch.inf, 0.0)]])
    z.square().sum().backward()
    kernel = encoder.convolutions[0].detach()[0].clone().requires_grad_()
    x, norm = nn.functional.conv2d(images[0], kernel, stride=2, padding=1), nn.BatchNorm2d(4)
    scaled = kept.permute(0, 3, 1, 2) / 0.75
    x = norm(x.relu()) * scaled if order.startswith("relu") else (norm(x) * scaled).relu()
    plain = x.permute(0, 2, 3, 1).flatten(1) @ encoder.weight[0] + encoder.bias[0]
    plain.square().sum().backward()
    assert torch.allclose(z[0], plain, atol=1e-5)
    assert torch.allclose(encoder.convolutions[0].grad[0], kernel.grad, rtol=1e-4, atol=1e-4)
    assert torch.allclose(encoder.scales[0].grad[0], norm.weight.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("method", ["standard", "color_jitter"])
def test_views_repeat_differ_by_view_and_epoch_and_stay_in_range(tiny, method):
    stack = pretrain.Stack([Run(method, protocol=replace(tiny, color_clipping="clip"))], "cpu")
    stack.streams.draw(0)
    index = torch.arange(5)
    both = [stack.streams.views(0, index, index.numpy(), view) for view in range(2)]
    again = stack.streams.views(0, index, index.numpy(), 0)
    assert torch.equal(both[0], again) and not torch.allclose(both[0], both[1])
    assert both[0].min() >= 0 and both[0].max() <= 1 + 1e-5
    stack.streams.draw(1)
    assert not torch.allclose(stack.streams.views(0, index, index.numpy(), 0), both[0])


def test_methods_of_a_seed_see_the_same_views_and_order(tiny):
    one = pretrain.Stack([Run("standard", protocol=tiny)], "cpu")
    other = pretrain.Stack([Run("dw_pairs", 0.1, 0.5, protocol=tiny), Run("mmd", lambda_=1, protocol=tiny)], "cpu")
    for stack in (one, other):
        stack.streams.draw(3)
    index = one.streams.order[0, :6]
    assert torch.equal(one.streams.order, other.streams.order) and len(other.counts) == 1
    assert torch.equal(one.streams.views(0, index, index.numpy(), 1), other.streams.views(0, index, index.numpy(), 1))


def test_an_interrupted_training_goes_on_bit_for_bit(all_methods, tmp_path):
    checkpoint, asked = tmp_path / "stack.pt", []

    def in_the_second_epoch():
        asked.append(1)
        return len(asked) > 4

    with pytest.raises(pretrain.Interrupted):
        pretrain.train(all_methods, "cpu", checkpoint=checkpoint, should_stop=in_the_second_epoch)
    restored = []
    stack = pretrain.train(all_methods, "cpu", checkpoint=checkpoint, on_restore=lambda s: restored.append(s.epoch))
    whole = steps_of(all_methods, 2)
    assert restored == [1] and all(map(torch.equal, stack.losses, whole.losses))
    for of in ("encoder", "adversary"):
        expected = getattr(whole, of).state_dict()
        for name, value in getattr(stack, of).state_dict().items():
            assert torch.equal(value, expected[name]), (of, name)
    assert evaluate.evaluate(stack) == evaluate.evaluate(whole)


def test_a_row_that_two_machines_trained_says_so(tiny, tmp_path, monkeypatch):
    run, checkpoint = Run(protocol=tiny), tmp_path / "stack.pt"
    here = pretrain.machine(torch.device("cpu"))
    monkeypatch.setattr(pretrain, "machine", lambda device: {**here, "threads": 7})
    with pytest.raises(pretrain.Interrupted):
        epochs = []
        pretrain.train(
            [run],
            "cpu",
            checkpoint=checkpoint,
            on_epoch=lambda s: epochs.append(s.epoch),
            should_stop=lambda: bool(epochs),
        )
    monkeypatch.setattr(pretrain, "machine", lambda device: dict(here))
    stack = pretrain.train([run], "cpu", checkpoint=checkpoint)
    (row,) = make_rows(stack, evaluate.measure(stack))
    assert row["provenance"]["threads"] == f"7, then {here['threads']}"
    assert row["provenance"]["torch"] == here["torch"]
    assert pretrain.train([run], "cpu").machine == {**here, "trunk": None}


def test_images_are_embedded_as_many_at_once_as_fit(all_methods, monkeypatch):
    stack, forward, seen = pretrain.Stack(all_methods, "cpu"), Encoder.forward, []
    expected = stack.embed("train")

    def small(self, images, *rest, **options):
        if len(images[0]) > 50:
            raise torch.OutOfMemoryError("too many")
        seen.append(len(images[0]))
        return forward(self, images, *rest, **options)

    monkeypatch.setattr(Encoder, "forward", small)
    torch.testing.assert_close(stack.embed("train"), expected, rtol=1e-4, atol=1e-5)
    assert max(seen) > 20
    monkeypatch.setattr(Encoder, "forward", lambda *_, **__: (_ for _ in ()).throw(torch.OutOfMemoryError("none")))
    with pytest.raises(torch.OutOfMemoryError):
        stack.embed("train")


def test_a_checkpoint_is_written_as_often_as_promised_and_at_the_end(tiny, tmp_path, monkeypatch):
    clock, written = [0.0], []
    monkeypatch.setattr(pretrain.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(pretrain, "write_checkpoint", lambda state, path: written.append((clock[0], state["epoch"])))

    def an_epoch_takes_six_seconds(stack):
        clock[0] += 6.0

    run = Run(protocol=replace(tiny, epochs=12))
    pretrain.train([run], "cpu", checkpoint=tmp_path / "stack.pt", on_epoch=an_epoch_takes_six_seconds)
    times = [0.0, *(when for when, _ in written)]
    assert max(b - a for a, b in zip(times, times[1:])) <= pretrain.CHECKPOINT_SECONDS + 6.0 <= 60
    assert written[-1] == (72.0, 12) and all(when == 6.0 * epoch for when, epoch in written)


def test_a_run_that_turns_to_nan_harms_no_neighbour(tiny):
    runs = [
        Run("standard", 0.2, protocol=tiny),
        Run("dw_pairs", 0.2, 0.1, protocol=tiny),
        Run("dann", 0.2, lambda_=1, protocol=tiny),
    ]
    healthy, broken = pretrain.Stack(runs, "cpu"), pretrain.Stack(runs, "cpu")
    with torch.no_grad():
        broken.encoder.weight[1] = torch.nan
    for stack in (healthy, broken):
        stack.train_epoch()
        stack.train_epoch()
    well, ill = evaluate.evaluate(healthy), evaluate.evaluate(broken)
    for r, run in enumerate(healthy.runs):
        if r == 1:
            assert all(v is None for scores in ill[run.key].values() for v in scores.values())
        else:
            assert well[run.key] == ill[run.key]


def changed_weight(tiny, change):
    """The encoder's weight after an epoch of a run for each kind of code, under a change to one protocol, whatever the defaults are."""
    plain = {
        "dropout": 0.1,
        "discriminator_fit": "newton",
        "discriminator_inputs": "clean",
        "discriminator_mode": "eval",
        "color_clipping": "clip",
    }
    p = replace(tiny, **{**plain, **change})
    penalised = [Run("mmd", 0.2, lambda_=1.0, protocol=p), Run("dann", 0.2, lambda_=0.5, protocol=p)]
    weighted = [
        Run("dw_negatives", 0.2, 0.1, protocol=p),
        *(Run("dw_pairs", 0.2, 0.1, discriminator=kind, protocol=p) for kind in ("global", "batch")),
    ]
    stack = steps_of([Run("standard", 0.2, protocol=p), *penalised, *weighted, Run("color_jitter", 0.2, protocol=p)], 1)
    assert torch.isfinite(torch.stack(stack.losses)).all()
    return stack.encoder.weight


@pytest.fixture(scope="module")
def plain_weight(tiny):
    return changed_weight(tiny, {})


@pytest.mark.parametrize(
    "change",
    [
        {"symmetric": True},
        {"drop_last": False},
        {"jitter_position": "before_blur"},
        {"dropout_kind": "channel", "dropout": 0.3},
        {"dropout": 0.0},
        {"input_normalization": "half"},
        {"discriminator_fit": "adam"},
        {"discriminator_inputs": "augmented"},
        {"discriminator_mode": "train"},
        {"discriminator_features": "l2"},
        {"posterior_view": "anchor_view"},
        {"weight_gradient": True},
        {"penalty_views": "anchor"},
        {"mmd_features": "raw"},
        {"dann_schedule": "ganin"},
        {"color_clipping": "wrap"},
        {"color_clipping": "none"},
        {"stratified_splits": True},
    ],
    ids=str,
)
def test_every_open_choice_changes_what_is_trained(tiny, plain_weight, change):
    assert not torch.allclose(plain_weight, changed_weight(tiny, change), atol=1e-6)


@pytest.mark.parametrize("projector", ["linear", "mlp"])
def test_a_projector_is_trained_and_left_out_of_the_embedding(tiny, projector):
    stack = steps_of(
        [
            Run(projector=projector, projector_dim=4, protocol=tiny),
            Run(tau_alpha=0.3, projector=projector, projector_dim=4, protocol=tiny),
        ],
        1,
    )
    fresh = pretrain.Stack(stack.runs, "cpu")
    assert not torch.equal(stack.encoder.head[0], fresh.encoder.head[0])
    assert stack.embed("test_id").shape == (2, 40, 16)
    assert stack.encoder.project(stack.embed("test_id")).shape == (2, 40, 4)


def test_embeddings_of_a_split_do_not_depend_on_the_other_runs(all_methods):
    stack = steps_of(all_methods, 1)
    assert len({tuple(group.streams) for group in stack.groups}) > 1
    for split in SPLITS:
        for group in stack.groups:
            assert torch.allclose(stack.embed(split)[group.runs], stack.embed(split, group), atol=1e-5)


@pytest.mark.parametrize(
    "change",
    [{"machine": "x"}, {"optimizers": [5]}, {"encoder": [1]}, {"seconds": "a"}, {"epoch": 99, "losses": [None] * 99},
     {"sources": "other"}, {"keys": ["other"]}],
)  # fmt: skip
def test_a_sound_file_of_odd_content_is_named_and_training_starts_anew(tiny, tmp_path, change):
    run, path = Run(tau_alpha=0.2, protocol=tiny), tmp_path / "c.pt"
    stack = pretrain.Stack([run], "cpu")
    stack.train_epoch()
    write_checkpoint({**stack.state(), **change}, path)
    with pytest.warns(UserWarning, match=r"c\.pt is not usable \(.*\); training starts anew"):
        again = pretrain.train([run], "cpu", checkpoint=path)
    assert again.epoch == tiny.epochs and torch.equal(again.losses[0], stack.losses[0])


def cut(tree, *path):
    """A nested state without one of its parts."""
    kept = dict(tree) if isinstance(tree, dict) else list(tree)
    if len(path) == 1:
        del kept[path[0]]
    else:
        kept[path[0]] = cut(kept[path[0]], *path[1:])
    return kept


PARTS = {
    "no encoder": (("encoder",), "its encoder is not whole"),
    "no weight": (("encoder", "weight"), "its encoder is not whole"),
    "no classifiers": (("adversary",), "its adversary is not whole"),
    "no optimisers": (("optimizers",), "its optimisers are not all there"),
    "one optimiser": (("optimizers", 1), "its optimisers are not all there"),
    "no moments": (("optimizers", 0, "state"), "an optimiser is not whole"),
    "a parameter's moments": (("optimizers", 0, "state", 3), "an optimiser is not whole"),
    "one moment": (("optimizers", 1, "state", 0, "exp_avg"), "an optimiser is not whole"),
    "no settings": (("optimizers", 0, "param_groups"), "an optimiser has other settings"),
    "one setting": (("optimizers", 0, "param_groups", 0, "betas"), "an optimiser has other settings"),
    "no machine": (("machine",), "it does not say where"),
    "no trunk": (("machine", "trunk"), "it does not say where"),
    "no seconds": (("seconds",), "its seconds must be a number"),
    "no temperatures": (("temperatures",), "it holds no temperatures"),
    "an epoch's temperatures": (("temperatures", 0), "it holds no temperatures, or not those of each epoch"),
    "no keys": (("keys",), "it belongs to other runs"),
    "no sources": (("sources",), "written by other code"),
    "no precision": (("precision",), "it was trained in None"),
}


@pytest.fixture(scope="module")
def recorded(tiny):
    """A stack after an epoch, with an adversary and recorded temperatures: its state has every part."""
    runs = [Run("dann", 0.2, lambda_=0.5, protocol=tiny), Run("dw_pairs", 0.2, 0.1, protocol=tiny)]
    stack = pretrain.Stack(runs, "cpu", record=True)
    stack.train_epoch()
    return stack


@pytest.mark.parametrize("path, message", PARTS.values(), ids=PARTS)
def test_a_checkpoint_that_lacks_a_part_is_refused_and_nothing_of_it_is_taken_over(recorded, tmp_path, path, message):
    """Each is written with a digest that fits, as one who forges a checkpoint would."""
    stack, file = recorded, tmp_path / "c.pt"
    write_checkpoint(cut(stack.state(), *path), file)
    fresh = pretrain.Stack(stack.runs, "cpu", record=True)
    before = fresh.state()
    with pytest.raises(ValueError, match=message):
        fresh.restore(file)
    assert str(fresh.state()) == str(before), "part of it was taken over"
    write_checkpoint(stack.state(), file)
    fresh.restore(file)
    assert str(fresh.state()) == str(stack.state())


def test_a_checkpoint_of_other_shapes_is_refused(tiny, tmp_path):
    stack = pretrain.Stack([Run(protocol=tiny)], "cpu")
    stack.train_epoch()
    for part, name in (("encoder", "weight"), ("optimizers", 0)):
        state = stack.state()
        if part == "encoder":
            state[part][name] = state[part][name][..., :-1]
        else:
            state[part][name]["state"][0]["exp_avg"] = state[part][name]["state"][0]["exp_avg"].double()
        write_checkpoint(state, tmp_path / "c.pt")
        with pytest.raises(ValueError, match="not whole, or of other shapes"):
            pretrain.Stack([Run(protocol=tiny)], "cpu").restore(tmp_path / "c.pt")


def test_training_goes_on_where_no_checkpoint_can_be_written(tiny, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("a file where a folder belongs")
    monkeypatch.setattr(pretrain, "CHECKPOINT_SECONDS", 0.0)
    with pytest.warns(UserWarning, match="no checkpoint: .*file/c.pt cannot be written: .*") as told:
        stack = pretrain.train([Run(protocol=tiny)], "cpu", checkpoint=tmp_path / "file" / "c.pt")
    assert stack.epoch == tiny.epochs
    said = " ".join(str(w.message) for w in told)
    assert "Then training goes on without it." in said and "Then rows come next" in said


@pytest.mark.parametrize(
    ("where", "name", "error"),
    [*((pretrain, "read_checkpoint", error) for error in (OSError(5, "Input/output error"), PermissionError(13, "denied"), MemoryError())),
     (torch, "load", torch.OutOfMemoryError("none left"))],
)  # fmt: skip
def test_a_checkpoint_that_cannot_be_read_now_is_kept(tiny, tmp_path, monkeypatch, where, name, error):
    path = tmp_path / "c.pt"
    stack = pretrain.Stack([Run(protocol=tiny)], "cpu")
    stack.train_epoch()
    write_checkpoint(stack.state(), path)
    whole = path.read_bytes()

    def unreadable(*_, **__):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(where, name, unreadable)
        with pytest.raises(type(error)):
            pretrain.train(stack.runs, "cpu", checkpoint=path)
    assert path.read_bytes() == whole


def test_a_symmetric_loss_swaps_posteriors_with_views():
    generator = torch.Generator().manual_seed(0)
    z, z_pos = torch.randn(2, 1, 6, 4, generator=generator)
    first, second = torch.randn(2, 1, 6, 2, generator=generator).softmax(-1)
    shared = {"domains": torch.tensor([[0, 1] * 3]), "num_domains": 2, "tau_min": 0.01}
    shared |= {"tau_alpha": torch.tensor([0.2]), "tau_beta": torch.tensor([0.3])}
    for view in ("negative_view", "anchor_view"):
        there = Batch(z, z_pos, anchor_posterior=first, posterior=second, posterior_view=view, **shared)
        back = Batch(z_pos, z, anchor_posterior=second, posterior=first, posterior_view=view, **shared)
        for name in ("dw_negatives", "dw_pairs"):
            both = METHODS[name].loss(there, symmetric=True)
            assert torch.allclose(both, 0.5 * (METHODS[name].loss(there) + METHODS[name].loss(back)))


def test_runs_of_different_protocols_do_not_stack(tiny):
    with pytest.raises(ValueError, match="must share protocol"):
        pretrain.Stack([Run(protocol=tiny), Run()], "cpu")
    with pytest.raises(ValueError, match="a run twice"):
        pretrain.Stack([Run(protocol=tiny), Run(protocol=tiny)], "cpu")


def test_an_unusable_device_is_refused_before_training(tiny):
    with pytest.raises(ValueError, match="device must be auto, cpu or cuda, got 'gpu'"):
        pretrain.Stack([Run(protocol=tiny)], "gpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="finds no GPU"):
            pretrain.Stack([Run(protocol=tiny)], "cuda")


def test_bfloat16_stays_near_float32(all_methods):
    exact, half = pretrain.Stack(all_methods, "cpu", "float32"), pretrain.Stack(all_methods, "cpu", "bfloat16")
    for stack in (exact, half):
        stack.train_epoch()
    assert exact.embed("test_id").dtype == half.embed("test_id").dtype == torch.float32
    assert not torch.equal(exact.losses[-1], half.losses[-1])
    assert torch.allclose(exact.losses[-1], half.losses[-1], rtol=0.1)
    with pytest.raises(ValueError, match="precision must be auto, float32 or bfloat16, got 'half'"):
        pretrain.Stack(all_methods, "cpu", "half")


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def first_steps(runs, device, count=3):
    """Losses [count, R] of the first training steps, and the embeddings after them."""
    stack = pretrain.Stack(runs, device, "float32")
    stack.streams.draw(0)
    stack.encoder.train()
    posteriors = stack.posteriors()
    losses = [stack.step(number, posteriors).cpu() for number in range(min(count, stack.streams.steps))]
    return torch.stack(losses), stack.embed("test_id").cpu()


@needs_gpu
def test_cpu_and_gpu_agree_over_a_few_steps(all_methods):
    (cpu_losses, cpu_z), (losses, z) = first_steps(all_methods, "cpu"), first_steps(all_methods, "cuda")
    torch.testing.assert_close(losses, cpu_losses, rtol=5e-3, atol=1e-4)
    assert torch.nn.functional.cosine_similarity(z, cpu_z, dim=-1).mean() > 0.999


@needs_gpu
def test_nothing_waits_for_the_gpu_inside_an_epoch(all_methods):
    stack = pretrain.Stack(all_methods, "cuda")
    stack.train_epoch()  # the first one sets libraries up
    torch.cuda.set_sync_debug_mode("error")
    try:
        stack.train_epoch()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_the_model_aware_temperature_follows_the_alignment_and_is_a_constant_to_the_gradient(tiny):
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(3, 20, 5, generator=generator, dtype=torch.float64)
    noise = torch.tensor([0.0, 0.5, 5.0], dtype=torch.float64)[:, None, None]
    z_pos = z + noise * torch.randn(3, 20, 5, generator=generator, dtype=torch.float64)
    tau_alpha, lambda_ = torch.tensor([0.2, 0.2, 0.3]), torch.tensor([1.0, 0.5, 0.5])
    z.requires_grad_()
    batch = Batch(z, z_pos, torch.zeros(3, 20), 2, tau_alpha, 0.01, lambda_=lambda_)
    total = ALL_METHODS["macl"].loss(batch)
    cosines = [[torch.cosine_similarity(a, b, dim=0).item() for a, b in zip(z[r], z_pos[r])] for r in range(3)]
    tau = [tau_alpha[r].item() * (1 + lambda_[r].item() * sum(cosines[r]) / 20) for r in range(3)]
    assert tau[0] == pytest.approx(0.4), "twice as warm where positives are alike"
    expected = torch.stack([losses.info_nce(z[r], z_pos[r], tau[r]) for r in range(3)])
    torch.testing.assert_close(total, expected, rtol=1e-6, atol=1e-6)
    for ours, reference in zip(*(torch.autograd.grad(value.sum(), z) for value in (total, expected))):
        torch.testing.assert_close(ours, reference, rtol=1e-5, atol=1e-7)
    stack = steps_of([Run("macl", 0.2, lambda_=0.5, protocol=tiny), Run("standard", 0.2, protocol=tiny)], 1)
    assert stack.losses[-1].isfinite().all() and stack.losses[-1][0] != stack.losses[-1][1]


def test_individual_temperatures_go_down_the_gradient_of_their_published_objective():
    generator = torch.Generator().manual_seed(0)
    z, z_pos = torch.randn(2, 2, 9, 4, generator=generator, dtype=torch.float64)
    memory = 0.2 + 0.2 * torch.rand(2, 9, 2, generator=generator, dtype=torch.float64)
    rho = torch.tensor([0.3, 0.05], dtype=torch.float64)
    batch = Batch(z, z_pos, torch.zeros(2, 9), 2, torch.tensor([0.2, 0.2]), 0.01, lambda_=rho, memory=memory)
    tau = memory[..., 0].clone().requires_grad_()
    s = losses.cosine_similarity(z, z_pos)
    h = (s - s.diagonal(dim1=-2, dim2=-1)[..., None]) / tau[..., None]
    negatives = h.masked_fill(torch.eye(9, dtype=torch.bool), -torch.inf)
    objective = tau * (negatives.logsumexp(-1) - math.log(8)) + rho[:, None] * tau
    (gradient,) = torch.autograd.grad(objective.sum(), tau)
    mean = 0.1 * memory[..., 1] + 0.9 * gradient
    method = ALL_METHODS["isogclr"]
    torch.testing.assert_close(method.remembered(batch), torch.stack([(memory[..., 0] - 0.01 * mean).clamp(0.01, 0.7), mean], -1))
    turned = replace(batch, z=z_pos, z_pos=z)
    both = 0.5 * (method.remembered(batch) + method.remembered(turned))
    torch.testing.assert_close(method.remembered(batch, symmetric=True), both)


def test_each_image_of_each_run_has_a_temperature_that_stays_with_it(tiny, tmp_path):
    runs = [
        Run("isogclr", 0.2, lambda_=0.3, protocol=tiny),
        Run("standard", 0.2, protocol=tiny),
        Run("isogclr", 0.1, lambda_=0.1, seed=1, protocol=tiny),
        Run("isogclr", 0.2, lambda_=0.05, protocol=tiny),
    ]
    together = steps_of(runs, 1)
    places = [run for run in together.runs if run.method == "isogclr"]
    for place, run in enumerate(places):
        alone = steps_of([run], 1)
        torch.testing.assert_close(together.networks.memory[place], alone.networks.memory[0], rtol=1e-3, atol=1e-3)
        stream = together.stream_of_run[together.runs.index(run)]
        seen = together.streams.order[stream, : 3 * tiny.batch_size]
        moved = together.networks.memory[place, :, 0] != run.tau_alpha
        assert moved[seen].all() and moved.sum() == len(seen), "an image that was left out keeps its own"
    pretrain.save(together.state(), tmp_path / "state", "")
    again = pretrain.Stack(runs, "cpu")
    again.restore(tmp_path / "state")
    for stack in (together, again):
        stack.train_epoch()
    assert torch.equal(together.networks.memory, again.networks.memory)
    assert torch.equal(together.losses[-1], again.losses[-1])
    damaged = together.state() | {"memory": together.networks.memory[:1]}
    with pytest.raises(ValueError, match="its memory is not whole"):
        again._check(damaged)
