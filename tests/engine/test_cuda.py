"""The trunk for GPUs, compiled for a CPU (`emulated.h`): it computes what the trunk for CPUs does, whoever trains beside it."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dtcl_core import keyed, pretrain
from dtcl_core.config import Protocol, Run
from dtcl_core.discriminator import Fitted
from dtcl_core.encoder import Encoder, feature_sizes
from dtcl_core.engine import cuda, graph, native, streams
from dtcl_core.engine.trunk import Tinted, Trunk
from dtcl_core.launch.selfcheck import one_of_each
from dtcl_core.logistic import LogisticModel

CPU = torch.device("cpu")


@pytest.fixture(scope="module", params=[((16, 16, 32), 232448), ((32, 16), 101376), ((16, 32, 16, 32), 65536)], ids=str)
def pair(request, tmp_path_factory) -> tuple[Trunk, Trunk]:
    """A trunk of the GPU's code on a CPU, and the trunk for CPUs."""
    widths, shared = request.param  # of an H100, a desktop's card and an old one
    if shutil.which("g++") is None:
        pytest.skip("the GPU's code is compiled with g++ here")
    try:
        reference = native.load(widths)
    except native.Unavailable as reason:
        pytest.skip(str(reason))
    made = tmp_path_factory.mktemp("emulated") / "cuda.so"
    command = [
        "g++",
        "-O2",
        "-std=c++17",
        "-w",
        "-fPIC",
        "-shared",
        f"-I{Path(__file__).parent}",
        "-x",
        "c++",
        "-",
        "-o",
        str(made),
    ]
    subprocess.run(command, input=cuda.source(widths, shared), text=True, check=True)
    sides = feature_sizes(Protocol(channels=widths))
    return Trunk(cuda.CudaLibrary(made, widths, "emulated", CPU), sides), Trunk(reference, sides)


def keys(*purposes: tuple) -> torch.Tensor:
    return torch.from_numpy(np.stack([keyed.words_of(purpose) for purpose in purposes]).astype(np.int64))


def looks(kinds: str, images: int) -> list:
    """Streams of images, gray with a colour each ("g") or in colour ("c")."""
    torch.manual_seed(2)
    made = []
    for kind in kinds:
        gray, colors = torch.rand(images, 28, 28), torch.rand(images, 3)
        made.append(Tinted.of(gray, colors) if kind == "g" else torch.rand(images, 3, 28, 28))
    return made


def trained(trunk: Trunk, encoder: Encoder, streams: list, counts: list[int], dropout: bool) -> list[torch.Tensor]:
    """Embeddings, gradients and running statistics of a step in training mode, and embeddings in evaluation mode."""
    encoder.trunk = trunk
    encoder.train()
    encoder.zero_grad()
    images = len(streams[0][0] if isinstance(streams[0], Tinted) else streams[0])
    masks = None
    if dropout:
        masks = [
            [trunk.library.masks(keys((0, "dropout")), images * area // 16, 20000).view(images, -1)] * len(counts)
            for area in trunk.areas
        ]
    z = encoder(streams, counts, masks)
    (z * torch.randn(z.shape[1:], generator=torch.Generator().manual_seed(1))).sum().backward()
    found = [z.detach(), *(p.grad.clone() for p in encoder.parameters()), *(b.clone() for b in encoder.buffers())]
    encoder.eval()
    with torch.no_grad():
        return [*found, encoder(streams, counts)]


@pytest.mark.parametrize(
    ("kinds", "counts", "images", "dropout"), [("g", [2], 37, True), ("gc", [1, 2], 9, False), ("c", [1], 40, True)]
)
def test_it_computes_what_the_trunk_for_cpus_does(pair, kinds, counts, images, dropout):
    protocol = Protocol(channels=pair[0].widths, dropout=0.3)
    results = []
    for trunk in pair:
        encoder = Encoder(list(range(sum(counts))), protocol)
        with torch.no_grad():
            for p in (*encoder.scales, *encoder.shifts):
                p.add_(0.3 * torch.randn(p.shape, generator=torch.Generator().manual_seed(len(p))))
        results.append(trained(trunk, encoder, looks(kinds, images), counts, dropout))
    for emulated, reference in zip(*results):
        assert emulated.isfinite().all()
        assert (emulated - reference).norm() <= 3e-6 * reference.norm() + 1e-7, (
            emulated.shape,
            (emulated - reference).norm(),
            reference.norm(),
        )


def test_its_masks_are_those_of_the_cpu(pair):
    some = keys((3, "dropout", 7, 1, 0), (4, "dropout"))
    assert torch.equal(pair[0].library.masks(some, 1000, 6554), pair[1].library.masks(some, 1000, 6554))


def test_a_run_that_diverges_harms_no_other(pair):
    protocol, streams = Protocol(channels=pair[0].widths), looks("g", 5)
    whole, alone = Encoder([0, 1], protocol), Encoder([1], protocol)
    with torch.no_grad():
        whole.convolutions[1][0] = torch.nan
    both, one = trained(pair[0], whole, streams, [2], True), trained(pair[0], alone, streams, [1], True)
    assert not both[0][0].isfinite().any()
    torch.testing.assert_close([a[1] for a in both], [b[0] for b in one], rtol=1e-5, atol=1e-5)  # the last layer is PyTorch's


@pytest.mark.parametrize(
    "views",
    [
        {},
        {"discriminator_inputs": "augmented", "discriminator_mode": "train"},
        {"jitter_position": "before_blur", "dropout": 0.0},
        {"input_normalization": "half", "dropout_kind": "channel"},
        {"drop_last": False},
    ],
    ids=lambda views: " ".join(map(str, views.values())) or "usual",
)
def test_a_stack_on_a_gpu_sees_and_does_what_one_on_a_cpu_does(pair, monkeypatch, views):
    """All views and masks of an epoch are made at once, and steps from the second epoch on are replayed."""
    emulated, _ = pair
    if len(emulated.widths) != 2:
        pytest.skip("one shape is enough, and this one is fast")
    protocol = Protocol(
        channels=emulated.widths, split_sizes=(200, 40, 40, 40), batch_size=80, epochs=2, **{"dropout": 0.2, **views}
    )
    runs = [
        run
        for run in one_of_each(protocol)
        if run.method in ("standard", "dw_pairs", "color_jitter") and run.discriminator != "batch"
    ]
    expected = pretrain.train(runs, "cpu", trunk="native")
    recorded = []

    class Graph(graph.StepGraph):
        def __init__(self, step, inputs, posteriors, optimizers):
            self.step, self.inputs = step, graph.copy_of(inputs)
            self.places, self.posteriors = graph.tensors_in(self.inputs), dict(posteriors)
            self.settings = self.rates = []
            recorded.append(self)

        def begin(self, posteriors):
            self.posteriors = posteriors

        def __call__(self, inputs):
            assert [x.shape for x in graph.tensors_in(inputs)] == [x.shape for x in self.places]
            torch._foreach_copy_(self.places, graph.tensors_in(inputs))
            return self.step(self.inputs, self.posteriors)

    monkeypatch.setattr(pretrain, "choose_trunk", lambda *_: (emulated, "the trunk for GPUs"))
    monkeypatch.setattr(pretrain, "StepGraph", Graph)
    monkeypatch.setattr(streams, "is_accelerator", lambda device: True)
    monkeypatch.setattr(pretrain, "is_accelerator", lambda device: True)
    found = pretrain.train(runs, "cpu")
    assert len(recorded) == int(protocol.drop_last), "batches of one size can be recorded"
    assert found.runs == expected.runs
    for ours, theirs in zip(found.losses, expected.losses):
        torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(found.losses[0], expected.losses[0], rtol=1e-5, atol=1e-5)


@pytest.fixture
def recorder(monkeypatch):
    """CUDA's recording without CUDA: what is recorded is computed at once, and replays are counted."""

    class Recording:
        replays = 0

        def replay(self):
            self.replays += 1

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Recording)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: device)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "graph", lambda recording, stream: nullcontext())


def weigher(value: float) -> Fitted:
    return Fitted(LogisticModel(torch.full((2, 2, 3), value), torch.full((2, 2), -value)))


def test_a_recorded_step_reads_fixed_places_that_each_epoch_and_step_fills(recorder):
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.ones(2))], lr=0.1)
    seen = []

    def step(inputs, posteriors):
        group = optimizer.param_groups[0]
        assert isinstance(group["lr"], torch.Tensor) and group["capturable"], "a rate that is a number would be recorded"
        seen.append((inputs, posteriors["dw_pairs"].model, group["lr"]))
        return torch.zeros(2)

    def inputs(value: float) -> streams.Inputs:
        look = Tinted(torch.full((4, 29, 29), value), torch.full((4, 3), value))
        return streams.Inputs(torch.tensor([[int(value)]]), [look], [[torch.full((4, 1), int(value), dtype=torch.int16)]])

    recorded = graph.StepGraph(step, inputs(1.0), {"dw_pairs": weigher(1.0)}, [optimizer])
    assert optimizer.param_groups[0]["lr"] == 0.1 and not optimizer.param_groups[0]["capturable"]
    ((places, model, rate),) = seen
    optimizer.param_groups[0]["lr"] = 0.05
    recorded.begin({"dw_pairs": weigher(3.0)})
    assert recorded(inputs(2.0)) is recorded.losses and recorded.graph.replays == 1 and len(seen) == 1
    assert all((x == 2).all() for x in graph.tensors_in(places)) and isinstance(places.images[0], Tinted)
    assert (model.weight == 3).all() and (model.bias == -3).all() and rate == pytest.approx(0.05)


def test_a_step_that_cannot_be_recorded_leaves_the_optimiser_as_it_was(recorder):
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.ones(2))], lr=0.1)

    def fails(inputs, posteriors):
        raise RuntimeError("operation not permitted when stream is capturing")

    with pytest.raises(RuntimeError, match="not permitted"):
        graph.StepGraph(fails, [torch.ones(1)], {}, [optimizer])
    assert optimizer.param_groups[0]["lr"] == 0.1 and not optimizer.param_groups[0]["capturable"]


def test_a_stack_whose_step_cannot_be_recorded_trains_on_as_before(pair, monkeypatch, tmp_path):
    emulated, _ = pair
    if len(emulated.widths) != 2:
        pytest.skip("one shape is enough")

    def refused(*_):
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    monkeypatch.setattr(pretrain, "choose_trunk", lambda *_: (emulated, "the trunk for GPUs"))
    monkeypatch.setattr(pretrain, "StepGraph", refused)
    monkeypatch.setattr(streams, "is_accelerator", lambda device: True)
    protocol = Protocol(channels=emulated.widths, split_sizes=(200, 40, 40, 40), batch_size=100, epochs=3)
    plain = pretrain.train([Run("standard", 0.1, protocol=protocol)], "cpu")
    monkeypatch.setattr(pretrain, "is_accelerator", lambda device: True)
    with pytest.warns(
        UserWarning, match="not recorded as a CUDA graph, which is slower: operation not permitted .* capturing$"
    ) as told:
        stack = pretrain.train([Run("standard", 0.1, protocol=protocol)], "cpu", checkpoint=tmp_path / "c.pt")
    assert len(told) == 1 and stack.graph is None
    assert all(torch.equal(a, b) for a, b in zip(stack.losses, plain.losses))
    stack.graph = object()
    stack.restore(tmp_path / "c.pt")
    assert stack.graph is None, "it would write to the tensors of before"


def test_where_a_gpu_cannot_have_the_trunk_the_reason_is_told(monkeypatch):
    def told(widths):
        with pytest.raises(native.Unavailable) as reason:
            cuda.load(widths, torch.device("cuda", 0))
        return str(reason.value)

    monkeypatch.delenv(native.SWITCH, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert told((16, 16, 32)) == "PyTorch finds no GPU here"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for widths in ((16,), (8, 16), (48, 16), (32, 64), (16, 48), (16, 16, 32, 16, 16)):
        assert "not [" in told(widths), widths
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(major=9, minor=0))
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(cuda, "_load", cuda._load.__wrapped__)
    assert told((16, 16, 32)) == "nvcc was not found"
