"""The trunk for CPUs: it computes what PyTorch does in float64, in the same bits whoever trains beside it and with how many threads."""

import threading
from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_native import instructions, needs_native, not_switched  # noqa: F401
from torch import Tensor
from torch.nn import functional as F

from dtcl_core import evaluate, pretrain
from dtcl_core.config import Protocol, Run
from dtcl_core.encoder import Encoder, feature_sizes
from dtcl_core.engine import native
from dtcl_core.engine.trunk import Tinted, Trunk
from dtcl_core.launch.local import make_rows
from dtcl_core.methods import METHODS

SAME = {"derandomize": True, "database": None, "deadline": None}  # the same examples at every call
WIDTHS = [(16, 32), (32, 16, 48), (16, 16, 16, 16)]
pytestmark = pytest.mark.usefixtures("instructions")


@pytest.fixture(autouse=True)
def as_many_threads_as_before():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


# --- against float64 ------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """Streams of images, how many runs look at each, and which units dropout keeps: bool [B, side, side, channels]."""

    images: list
    counts: list[int]
    masks: list[list[Tensor]] | None


def encoders(widths: tuple[int, ...], runs: int, seed: int) -> tuple[Encoder, Encoder]:
    """One by the trunk, and the same by PyTorch's operators in float64; norms and running statistics are any."""
    protocol = Protocol(channels=widths, dropout=0.3)
    ours, exact = (Encoder(range(runs), protocol) for _ in range(2))
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for scale, shift in zip(ours.scales, ours.shifts):
            scale.copy_(torch.rand(scale.shape, generator=g) + 0.5)
            shift.copy_(torch.randn(shift.shape, generator=g) * 0.3)
        for mean, var in ours.statistics():
            mean.copy_(torch.randn(mean.shape, generator=g) * 0.1)
            var.copy_(torch.rand(var.shape, generator=g) + 0.1)
    exact.load_state_dict(ours.state_dict())
    exact.double().dtype = torch.float64
    ours.trunk = Trunk(native.load(widths), feature_sizes(protocol))
    return ours, exact


def drawn(widths: tuple[int, ...], size: int, counts: list[int], in_color: bool, dropping: bool, seed: int) -> Case:
    g = torch.Generator().manual_seed(seed)
    images, sides = [], feature_sizes(Protocol(channels=widths))
    for _ in counts:
        gray = torch.rand(size, 28, 28, generator=g) * (torch.rand(size, 28, 28, generator=g) > 0.4)
        tint = torch.rand(size, 3, generator=g)
        images.append(torch.rand(size, 3, 28, 28, generator=g) if in_color else Tinted.of(gray, tint))
    masks = [[torch.rand(size, s, s, w, generator=g) > 0.3 for _ in counts] for s, w in zip(sides, widths)]
    return Case(images, counts, masks if dropping else None)


def painted(image: Tensor | Tinted) -> Tensor:
    """Images in colour, float64 [B, 3, 28, 28]."""
    if isinstance(image, Tensor):
        return image.double()
    return image.padded[:, None, 1:, 1:].double() * image.colors[..., None, None]


def without_ties(exact: Encoder, case: Case) -> Case:
    """The same with those units dropped whose input to ReLU is so near zero that rounding would decide their gradient."""
    if case.masks is None:
        return case
    masks, start = [[m.clone() for m in block] for block in case.masks], 0
    for stream, count in enumerate(case.counts):
        x = [painted(case.images[stream])] * count
        for block, kept in enumerate(masks):
            for i in range(count):
                r = start + i
                y = F.conv2d(x[i], exact.convolutions[block][r].detach(), stride=2, padding=1)
                x[i] = F.batch_norm(y, None, None, exact.scales[block][r], exact.shifts[block][r], True).detach() / 0.7
                kept[stream] &= x[i].permute(0, 2, 3, 1).abs() > 1e-4
            x = [z.relu() * kept[stream].permute(0, 3, 1, 2) for z in x]
        start += count
    return case._replace(masks=masks)


def bits_of(kept: Tensor) -> Tensor:
    """Units bool [B, side, side, channels] as bits, int16 [B, side * side * channels / 16]."""
    words = (kept.flatten(1).unflatten(1, (-1, 16)).long() << torch.arange(16)).sum(-1)
    return (words - (words >> 15 << 16)).to(torch.int16)


def by_trunk(encoder: Encoder, case: Case, **options) -> Tensor:
    masks = None if case.masks is None else [[bits_of(m) for m in block] for block in case.masks]
    return encoder(case.images, case.counts, masks, **options)


def by_operators(encoder: Encoder, case: Case, **options) -> Tensor:
    zero = torch.zeros((), dtype=torch.float64)
    masks = None if case.masks is None else [[torch.where(m, torch.inf, zero) for m in block] for block in case.masks]
    return encoder([painted(image) for image in case.images], case.counts, masks, **options)


def error(seen: Tensor, exact: Tensor) -> float:
    """The worst entry's error, relative to the largest entry."""
    return ((seen.double() - exact).abs().max() / exact.abs().max()).item()


cases = {
    "widths": st.sampled_from(WIDTHS),
    "size": st.sampled_from([1, 2, 63, 64, 65, 130]),
    "counts": st.lists(st.integers(1, 2), min_size=1, max_size=3),
    "in_color": st.booleans(),
    "seed": st.integers(0, 99),
}


@needs_native
@given(dropping=st.booleans(), **cases)
@settings(max_examples=20, **SAME)
def test_embeddings_and_statistics_equal_float64(widths, size, counts, in_color, dropping, seed):
    ours, exact = encoders(widths, sum(counts), seed)
    case = drawn(widths, size, counts, in_color, dropping, seed)
    assert error(by_trunk(ours, case), by_operators(exact, case)) < 1e-5
    for (name, seen), true in zip(ours.named_buffers(), exact.buffers(), strict=True):
        torch.testing.assert_close(seen.double(), true, rtol=1e-5, atol=1e-6, msg=name)  # moved as F.batch_norm does
    ours.eval(), exact.eval()
    case = case._replace(masks=None)
    with torch.no_grad():
        assert error(by_trunk(ours, case), by_operators(exact, case)) < 1e-5


@needs_native
@given(**cases)
@settings(max_examples=20, **SAME)
def test_gradients_equal_float64(widths, size, counts, in_color, seed):
    ours, exact = encoders(widths, sum(counts), seed)
    case = without_ties(exact, drawn(widths, size, counts, in_color, True, seed))
    upstream = torch.randn(sum(counts), size, Protocol().embedding_dim, generator=torch.Generator().manual_seed(seed))
    (by_trunk(ours, case) * upstream).sum().backward()
    (by_operators(exact, case) * upstream).sum().backward()
    for (name, seen), true in zip(ours.named_parameters(), exact.parameters(), strict=True):
        for r in range(sum(counts)):
            assert error(seen.grad[r], true.grad[r]) < 1e-4, (name, r)


@needs_native
@pytest.mark.parametrize("training", [True, False])
def test_some_runs_of_a_stack_are_embedded_as_float64_does(training):
    ours, exact = encoders((16, 32), 5, 0)
    case, before = drawn((16, 32), 9, [2, 1], False, training, 0), [b.clone() for b in ours.buffers()]
    ours.train(training), exact.train(training)
    with torch.no_grad():
        some = {"runs": torch.tensor([4, 0, 2])}
        assert error(by_trunk(ours, case, **some), by_operators(exact, case, **some)) < 1e-5
    assert all(torch.equal(a, b) for a, b in zip(before, ours.buffers())), "only a pass of all runs is tracked"


@needs_native
def test_gradients_of_the_same_pass_taken_twice_are_the_same():
    ours, _ = encoders((16, 32), 2, 0)
    loss = by_trunk(ours, drawn((16, 32), 5, [2], True, True, 0)).cos().sum()
    first, second = (torch.autograd.grad(loss, list(ours.parameters()), retain_graph=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


# --- the same bits --------------------------------------------------------------------------------------------------


def numbers(encoder: Encoder, case: Case, upstream: Tensor) -> list[Tensor]:
    """All that the trunk makes, of each run: features, gradients and statistics in training, and features in evaluation."""
    trunk = encoder.trunk
    by_stream = [None] * len(case.counts) if case.masks is None else list(zip(*case.masks))
    sights = [
        trunk.sight(image, None if masks is None else [bits_of(m) for m in masks], True)
        for image, masks in zip(case.images, by_stream)
    ]
    blocks = [list(p) for p in (encoder.convolutions, encoder.scales, encoder.shifts)]
    out, means, variances = trunk.train(sights, case.counts, *blocks)
    gradients = torch.autograd.grad((out * upstream).sum(), [p for block in blocks for p in block])
    return [out, *means, *variances, *gradients, trunk.infer(sights, case.counts, *blocks)]


def upstream_of(encoder: Encoder, size: int) -> Tensor:
    shape = (encoder.runs, size, encoder.trunk.areas[-1])
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


@needs_native
@pytest.mark.parametrize("in_color", [True, False])
@pytest.mark.parametrize(("widths", "size", "counts"), [((32, 16, 48), 130, [2, 1]), ((16, 32), 65, [5]), ((16, 32), 3, [1])])
def test_any_number_of_threads_gives_the_same_bits(widths, size, counts, in_color):
    encoder, _ = encoders(widths, sum(counts), 0)
    case, upstream, seen = drawn(widths, size, counts, in_color, True, 0), upstream_of(encoder, size), []
    for threads in (1, 2, 3, 1):
        torch.set_num_threads(threads)
        seen.append(numbers(encoder, case, upstream))
    for other in seen[1:]:
        assert all(torch.equal(a, b) for a, b in zip(seen[0], other, strict=True))


@needs_native
@pytest.mark.parametrize("in_color", [True, False])
def test_a_run_has_the_same_bits_in_any_stack(in_color):
    """Alone, and in any order with others that look at the same images or at other ones."""
    widths, size, counts = (32, 16, 48), 65, [3, 1, 2]
    encoder, _ = encoders(widths, 6, 0)
    case, upstream = drawn(widths, size, counts, in_color, True, 0), upstream_of(encoder, size)
    whole = numbers(encoder, case, upstream)
    streams = [0, 0, 0, 1, 2, 2]
    for members in ([0], [2], [3], [5], [2, 0], [1, 0, 2], [5, 4, 3], [4, 3, 2, 1]):
        some = Encoder([0] * len(members), encoder.protocol)
        some.trunk = encoder.trunk
        with torch.no_grad():
            for mine, theirs in zip(some.parameters(), encoder.parameters(), strict=True):
                mine.copy_(theirs[members])
        looked = list(dict.fromkeys(streams[r] for r in members))
        part = Case(
            [case.images[s] for s in looked],
            [sum(streams[r] == s for r in members) for s in looked],
            [[block[s] for s in looked] for block in case.masks],
        )
        for place, (a, b) in enumerate(zip(whole, numbers(some, part, upstream[members]), strict=True)):
            assert torch.equal(a[members], b), (members, place)


def everything(stack: pretrain.Stack) -> list[Tensor]:
    return [*stack.encoder.state_dict().values(), *stack.adversary.parameters(), *stack.losses]


@pytest.fixture
def wide(tiny) -> Protocol:
    return replace(tiny, channels=(16, 32))


@pytest.fixture
def wide_methods(all_methods, wide) -> list[Run]:
    return [replace(run, protocol=wide) for run in all_methods]


@needs_native
def test_a_stack_trained_twice_or_interrupted_has_the_same_bits(wide_methods, tmp_path):
    whole, again = (pretrain.train(wide_methods, "cpu") for _ in range(2))
    assert whole.trunk is not None and whole.path == "the trunk for CPUs"
    asked = []
    with pytest.raises(pretrain.Interrupted):
        pretrain.train(wide_methods, "cpu", checkpoint=tmp_path / "c.pt", should_stop=lambda: asked.append(1) or len(asked) > 4)
    resumed = pretrain.train(wide_methods, "cpu", checkpoint=tmp_path / "c.pt")
    for other in (again, resumed):
        assert all(torch.equal(a, b) for a, b in zip(everything(whole), everything(other), strict=True))
        assert evaluate.evaluate(whole) == evaluate.evaluate(other)


@needs_native
def test_a_row_tells_which_code_computed_it_from_first_to_last(wide, tmp_path):
    run, checkpoint = Run(protocol=wide), tmp_path / "c.pt"
    epochs: list[int] = []
    options = {"checkpoint": checkpoint, "on_epoch": lambda s: epochs.append(s.epoch)}
    with pytest.raises(pretrain.Interrupted):
        pretrain.train([run], "cpu", **options, should_stop=lambda: bool(epochs))
    stack = pretrain.train([run], "cpu", trunk="pytorch", checkpoint=checkpoint)
    (row,) = make_rows(stack, evaluate.measure(stack))
    description = native.load(wide.channels).description
    assert description.startswith("native.cpp ") and "-O3" in description and description.endswith("-DWIDTHS=16,32")
    assert row["provenance"]["trunk"] == f"{description}, then None"


@needs_native
def test_two_python_threads_that_train_at_once_do_not_meet(wide_methods):
    """Stacks of different widths, in threads of one process: each as when it trains alone."""
    other = [replace(run, protocol=replace(run.protocol, channels=(32, 16, 48))) for run in wide_methods[:4]]

    def trained(together: bool) -> list[list[Tensor]]:
        ends: list = [None, None]

        def one(place, runs):
            torch.set_num_threads(1)
            ends[place] = everything(pretrain.train(runs, "cpu"))

        threads = [threading.Thread(target=one, args=(i, runs)) for i, runs in enumerate((wide_methods, other))]
        for thread in threads:
            thread.start()
            if not together:
                thread.join()
        for thread in threads:
            thread.join()
        return ends

    for alone, beside in zip(trained(together=False), trained(together=True), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(alone, beside, strict=True))


@needs_native
@pytest.mark.parametrize("name", ["convolutions", "scales", "shifts"])
def test_a_run_that_is_not_a_number_stays_visible_and_harms_no_other(name):
    widths, size = (16, 32), 65
    encoder, _ = encoders(widths, 4, 0)
    case, upstream = drawn(widths, size, [3, 1], False, False, 0), upstream_of(encoder, size)
    well = numbers(encoder, case, upstream)
    for block in range(len(widths)):
        ill, _ = encoders(widths, 4, 0)
        with torch.no_grad():
            getattr(ill, name)[block][1] = torch.nan
        seen = numbers(ill, case, upstream)
        assert seen[0][1].isnan().all() and seen[-1][1].isnan().all(), "in training and in evaluation"
        for a, b in zip(well, seen, strict=True):
            assert torch.equal(a[[0, 2, 3]], b[[0, 2, 3]])


# --- whole stacks ---------------------------------------------------------------------------------------------------


def first_losses(runs: list[Run], trunk: str) -> tuple[Tensor, Tensor]:
    """Losses [epochs, R] of three steps each, and embeddings of clean images after them."""
    stack = pretrain.Stack(runs, "cpu", trunk=trunk)
    assert (stack.trunk is None) == (trunk == "pytorch")
    stack.train_epoch()
    return stack.losses[0], stack.embed("test_id")


CHANGES = [
    {},
    {"dropout": 0.0},
    {"dropout_kind": "channel", "dropout": 0.3},
    {"input_normalization": "half"},
    {"jitter_position": "before_blur"},
    {"drop_last": False},
    {"discriminator_inputs": "augmented"},
    {"discriminator_mode": "train"},
    {"discriminator_mode": "train", "discriminator_inputs": "augmented"},
    {"symmetric": True},
]


@needs_native
@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_all_methods_take_the_steps_that_they_take_by_operators(wide_methods, wide, change):
    runs = [replace(run, protocol=replace(wide, **change)) for run in wide_methods]
    assert {run.method for run in runs} >= set(METHODS)
    (ours, z), (theirs, other) = first_losses(runs, "native"), first_losses(runs, "pytorch")
    torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=1e-4)
    assert F.cosine_similarity(z, other, dim=-1).mean() > 0.999


@needs_native
@pytest.mark.parametrize("projector", ["linear", "mlp"])
def test_projector_heads_train_as_by_operators(wide, projector):
    runs = [Run(tau_alpha=t, projector=projector, projector_dim=4, protocol=wide) for t in (0.1, 0.3)]
    ours, theirs = first_losses(runs, "native"), first_losses(runs, "pytorch")
    torch.testing.assert_close(ours[0], theirs[0], rtol=2e-3, atol=1e-4)


@needs_native
def test_the_trunk_is_not_for_bfloat16_and_refuses_float64(wide):
    run = Run(protocol=wide)
    assert pretrain.Stack([run], "cpu", "bfloat16").trunk is None
    with pytest.raises(ValueError, match="native code was to be given dense torch.float32 .* got torch.float64"):
        stack = pretrain.Stack([run], "cpu")
        stack.encoder.double()
        stack.train_epoch()


# --- where it does not apply ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "precision", "reason"),
    [
        ({"downsampling": "max_pool"}, "float32", "it has 3 x 3 kernels of stride 2"),
        ({"downsampling": "average_pool"}, "float32", "it has 3 x 3 kernels of stride 2"),
        ({"kernel_size": 5}, "float32", "it has 3 x 3 kernels of stride 2"),
        ({"block_order": "relu-norm-dropout"}, "float32", "followed by norm, dropout and ReLU in this order"),
        ({"channels": (8, 16)}, "float32", r"channels in multiples of 16, not \[8, 16\]"),
        ({"channels": (16,)}, "float32", r"two to four blocks .* not \[16\]"),
        ({"channels": (16,) * 5}, "float32", "two to four blocks"),
        ({}, "bfloat16", "it computes in float32"),
    ],
)
def test_what_it_does_not_compute_pytorch_does(wide, change, precision, reason):
    run = Run(protocol=replace(wide, **change))
    stack = pretrain.Stack([run], "cpu", precision)
    assert stack.trunk is None and stack.machine["trunk"] is None
    with pytest.raises(ValueError, match=f"the trunk for CPUs was asked for, but .*{reason}"):
        pretrain.Stack([run], "cpu", precision, trunk="native")
    stack.train_epoch()
    assert stack.losses[0].isfinite().all()


def test_it_is_switched_off_by_an_argument_or_the_environment(wide, monkeypatch):
    run = Run(protocol=wide)
    off = pretrain.Stack([run], "cpu", trunk="pytorch")
    assert off.trunk is None and off.path == "PyTorch's operators, as asked for"
    monkeypatch.setenv("DTCL_TRUNK", "pytorch")
    assert pretrain.Stack([run], "cpu").trunk is None
    with pytest.raises(native.Unavailable, match="DTCL_TRUNK=pytorch"):
        native.load(WIDTHS[0])
    with pytest.raises(ValueError, match="asked for, but DTCL_TRUNK=pytorch"):
        pretrain.Stack([run], "cpu", trunk="native")


def test_a_mistaken_switch_is_refused_wherever_it_is_read(wide, monkeypatch):
    with pytest.raises(ValueError, match="trunk must be one of 'auto', 'native', 'pytorch', got 'nonsense'"):
        pretrain.Stack([Run(protocol=wide)], "cpu", trunk="nonsense")
    monkeypatch.setenv("DTCL_TRUNK", "nonsense")
    for protocol in (wide, replace(wide, channels=(8, 8))):
        with pytest.raises(ValueError, match="DTCL_TRUNK must be one of 'auto', 'native', 'pytorch', got 'nonsense'"):
            pretrain.Stack([Run(protocol=protocol)], "cpu")
    monkeypatch.setenv("DTCL_TRUNK", "native")
    with pytest.raises(ValueError, match=r"the trunk for CPUs was asked for, but .* not \[8, 8\]"):
        pretrain.Stack([Run(protocol=replace(wide, channels=(8, 8)))], "cpu")
    monkeypatch.setenv("DTCL_TRUNK", "")
    assert pretrain.Stack([Run(protocol=replace(wide, channels=(8, 8)))], "cpu").trunk is None


# --- what is refused ------------------------------------------------------------------------------------------------


def of(images, colors):
    return lambda e, c: by_trunk(e, c._replace(images=[Tinted(images(c.images[0].padded), colors(c.images[0].colors))]))


def masked(change):
    return lambda e, c: e(c.images, c.counts, [[change(bits_of(m)) for m in block] for block in c.masks])


@needs_native
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (of(lambda p: p[:, :28], lambda c: c), "dense torch.float32"),
        (of(lambda p: p.transpose(1, 2), lambda c: c), "dense torch.float32"),
        (of(lambda p: p.double(), lambda c: c), "dense torch.float32"),
        (of(lambda p: p, lambda c: c[:, :2]), "dense torch.float32"),
        (of(lambda p: p, lambda c: c[:-1]), "dense torch.float32"),
        (of(lambda p: p, lambda c: c.half()), "dense torch.float32"),
        (lambda e, c: e([torch.rand(4, 3, 32, 32)], [2]), "dense torch.float32"),
        (lambda e, c: e([torch.rand(4, 1, 28, 28)], [2]), "dense torch.float32"),
        (lambda e, c: e([torch.rand(4, 3, 28, 28).double()], [2]), "dense torch.float32"),
        (lambda e, c: e([torch.rand(4, 3, 28, 28, requires_grad=True)], [2]), "gives images no gradient"),
        (masked(lambda m: m.int()), "dense torch.int16"),
        (masked(lambda m: m[:, 1:]), "dense torch.int16"),
        (masked(lambda m: m[:-1]), "dense torch.int16"),
        (masked(lambda m: m.T.contiguous().T), "dense torch.int16"),
        (lambda e, c: e(c.images, [1]), "each run must look at one stream"),
        (lambda e, c: e(c.images, [3]), "each run must look at one stream"),
        (lambda e, c: e(c.images, [1, 1]), "each run must look at one stream"),
        (lambda e, c: e([*c.images, Tinted.of(torch.rand(3, 28, 28), torch.rand(3, 3))], [1, 1]), "dense torch.float32"),
    ],
)  # fmt: skip
def test_what_native_code_would_misread_is_refused_before_it_is_entered(monkeypatch, training, call, message):
    encoder, _ = encoders((16, 32), 2, 0)
    case = drawn((16, 32), 4, [2], False, True, 0)
    entered = []
    for name in ("forward", "infer"):
        whole = getattr(encoder.trunk.library, name)
        monkeypatch.setattr(encoder.trunk.library, name, lambda call, whole=whole: entered.append(call) or whole(call))
    encoder.train(training)
    with torch.no_grad(), pytest.raises(ValueError, match=message):
        call(encoder, case)
    assert len(entered) <= (1 if "dense" in message else 0), "at most for streams that were sound"


@needs_native
def test_no_image_has_no_statistics_and_no_features():
    encoder, _ = encoders((16, 32), 2, 0)
    none = Case([Tinted.of(torch.rand(0, 28, 28), torch.rand(0, 3))], [2], None)
    with pytest.raises(ValueError, match="batch statistics need at least one image"):
        by_trunk(encoder, none)
    encoder.eval()
    assert by_trunk(encoder, none).shape == (2, 0, Protocol().embedding_dim)


@needs_native
def test_gradients_of_gradients_are_refused():
    encoder, _ = encoders((16, 32), 1, 0)
    case = drawn((16, 32), 8, [1], False, False, 0)
    blocks = [list(p) for p in (encoder.convolutions, encoder.scales, encoder.shifts)]
    out, *_ = encoder.trunk.train([encoder.trunk.sight(case.images[0], None, True)], case.counts, *blocks)
    with pytest.raises(RuntimeError, match="no gradients of gradients"):
        torch.autograd.grad(out.sum(), blocks[0], create_graph=True)
