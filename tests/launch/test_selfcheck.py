"""What a user runs first: it says what would be used, and it notices a machine that computes wrongly."""

import os
from dataclasses import replace

import pytest
import simulated
import torch

from dtcl_core.encoder import Encoder
from dtcl_core.launch import selfcheck
from dtcl_study import cli


@pytest.fixture
def small(tiny, monkeypatch):
    """Small networks and few images."""
    monkeypatch.setattr(selfcheck, "CHECKED", replace(tiny, channels=(16, 16, 32)))


@pytest.fixture
def spoil(monkeypatch):
    """Let every encoder of a stack under test, not of the exact one, give something else."""

    def planted(change):
        forward = Encoder.forward

        def spoiled(self, *arguments, **options):
            z = forward(self, *arguments, **options)
            return z if z.dtype == torch.float64 else change(z)

        monkeypatch.setattr(Encoder, "forward", spoiled)

    return planted


def checked(device="cpu"):
    """Whether a device is sound, and what is said of it."""
    lines: list[str] = []
    return selfcheck.check(device, lines.append), "\n".join(lines)


def test_a_sound_machine_passes_and_is_described(small):
    sound, said = checked()
    assert sound and "WRONG" not in said
    for name in ("device: cpu", "path: ", "precision: float32, what auto means here", "a step in float32"):
        assert f"ok     {name}" in said
    assert "All is well" in said


@pytest.mark.parametrize(
    "change",
    [
        lambda z: z + (z.bfloat16().float() - z).detach(),  # products that round to half precision
        lambda z: torch.cat([z[:1], z[1:].flip(0)]),  # runs mixed up
        lambda z: z * torch.tensor([torch.nan, *[1.0] * (len(z) - 1)])[:, None, None],  # one run fails
        lambda z: z.detach() + 1.2 * (z - z.detach()),  # right losses, wrong gradients
    ],
    ids=["rounding", "mixed", "nan", "gradient"],
)
def test_a_machine_that_computes_wrongly_is_told(small, spoil, change):
    spoil(change)
    sound, said = checked()
    assert not sound and "WRONG  a step in float32: losses within" in said
    assert "Do not train with this" in said and said.endswith("This machine is not sound.")


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (
            RuntimeError("no kernel image is available\nand pages more"),
            "PyTorch failed: no kernel image is available\n",
        ),
        (torch.OutOfMemoryError("CUDA out of memory"), "memory ran out\n       Free memory of the device"),
    ],
)
def test_what_stops_a_step_is_a_sentence(small, spoil, error, advice):
    def stop(z):
        raise error

    spoil(stop)
    sound, said = checked()
    assert not sound and advice in said and said.endswith("This machine is not sound.")


def test_the_exit_status_tells(monkeypatch, capsys):
    for sound, status in ((True, 0), (False, 1)):
        monkeypatch.setattr(selfcheck, "check", lambda device, say, sound=sound: say(f"on {device}") or sound)
        assert cli.main(["check", "--device", "cpu"]) == status
        assert capsys.readouterr().out == "on cpu\n"


@pytest.mark.parametrize(
    "device", ["tpu", pytest.param("cuda", marks=pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU"))]
)
def test_a_device_that_is_not_there_is_one_line(device, capsys):
    assert cli.main(["check", "--device", device]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_difference_is_of_the_worst_run():
    exact = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
    found = exact + torch.tensor([[0.0, 0.5], [0.0, 0.02]])
    assert selfcheck.relative_difference(found, exact) == pytest.approx(0.1)
    assert selfcheck.relative_difference(exact * torch.nan, exact) == float("inf")


def test_every_method_is_compared(tiny):
    runs = selfcheck.one_of_each(tiny)
    assert {run.method for run in runs} >= set(selfcheck.METHODS) and {run.discriminator for run in runs} >= {
        "batch",
        "global",
    }


@pytest.mark.skipif(not os.environ.get("DTCL_SIMULATED"), reason="runs in a process of its own: test_simulated_process")
def test_an_accelerator_is_checked(small):
    try:
        simulated.register()
    except simulated.Unavailable as reason:
        pytest.skip(str(reason))
    with (
        simulated.Simulation() as simulation,
        simulation.waiting_in("launch.selfcheck.first_step", "pretrain.Stack.__init__"),
    ):
        sound, said = checked(simulated.KIND)
    assert sound, said
    assert "device: simulated (a simulated device)" in said
    assert "a step in float32" in said
