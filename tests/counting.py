"""What training asks of a GPU by PyTorch's operators, counted on the simulated device, without values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from simulated import Simulation

from dtcl_core import pretrain
from dtcl_core.config import Run
from dtcl_core.launch import selfcheck
from dtcl_study.experiments import REGISTRY


class Counts(NamedTuple):
    """Calls of a training step, most memory held, in bytes, streams, and steps an epoch."""

    step: list[Any]
    peak: int
    streams: int
    steps: int


def count(runs: Sequence[Run], precision: str) -> Counts:
    """Count a training step, and the memory of an epoch's start, the step and the embedding of a split."""
    with Simulation(values=False) as simulation:
        with simulation.waiting_in("pretrain.Stack.__init__"):
            stack = pretrain.Stack(runs, simulation.device, precision)
        stack.step(0, selfcheck.begun(stack, 0))  # the optimisers' state is made
        simulation.reset()
        posteriors = selfcheck.begun(stack, 1)
        stack.epoch = 1
        stack.state()
        peak = simulation.peak
        simulation.reset()
        stack.step(1, posteriors)
        step, peak = list(simulation.calls), max(peak, simulation.peak)
        simulation.reset()
        stack.embed("train")
        return Counts(step, max(peak, simulation.peak), len(stack.counts), stack.streams.steps)


def standard_runs(size: int) -> list[Run]:
    """Runs of one method that share their views."""
    return [Run("standard", 0.05 + 0.001 * i) for i in range(size)]


def mixed_runs(size: int) -> list[Run]:
    """Runs of all methods and of five seeds, drawn evenly from the paper's comparison."""
    runs = sorted(REGISTRY["main_table"].runs("paper"), key=lambda run: (run.method, run.seed, run.key))
    return runs[:: -(-len(runs) // size)]
