"""The estimates that the page on speed holds times against."""

from pathlib import Path

import pytest
from torch.utils.flop_counter import FlopCounterMode

from dtcl_core import pretrain
from dtcl_core.config import Protocol, Run
from dtcl_core.launch import selfcheck

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.mark.skipif(not BENCHMARKS.exists(), reason="the benchmarks are in a checkout, not in the package")
def test_a_step_computes_as_many_operations_as_its_estimate_says(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import parts

    stack = pretrain.Stack([Run()], "cpu", "float32", trunk="pytorch")  # one run: PyTorch miscounts grouped convolutions
    posteriors = selfcheck.begun(stack, 0)
    with FlopCounterMode(display=False) as counter:
        stack.step(0, posteriors)
    convolved = sum(count for name, count in counter.get_flop_counts()["Global"].items() if "convolution" in str(name))
    floors = parts.operator_floors(Protocol(), 1, 4, 0)
    linear = 3 * 2 * 512 * 512 * 16  # images, features of the last maps, dimensions
    assert convolved + linear == floors["forward"][0] + floors["backward"][0]
