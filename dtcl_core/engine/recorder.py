"""Counts the temperatures of a stack's runs while it trains; see `traces`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..config import Run
from ..traces import BINS, KINDS, Trace


def temperature_range(run: Run, num_domains: int) -> tuple[float, float]:
    """Lowest and highest temperature of the run's negative pairs: Eq. 3 at w = 1 and w = 0."""
    beta = run.tau_beta or 0.0
    ends = [run.tau_alpha + beta * (1 / num_domains - w) for w in (1.0, 0.0)]
    low, high = (max(end, run.protocol.tau_min) for end in ends)
    return low, high


class TemperatureRecorder:
    """Counts the temperatures of a stack's negative pairs, on its device, an epoch at a time.

    Attributes:
        epochs: for each epoch done, counts [R, 2, BINS] (of `KINDS`).
    """

    def __init__(self, runs: Sequence[Run], num_domains: int, device: torch.device):
        self.ranges = [temperature_range(run, num_domains) for run in runs]
        low, high = torch.tensor(self.ranges, device=device).T
        self.low, self.width = low[:, None, None], (high - low).clamp(min=1e-12)[:, None, None]
        self.counts = torch.zeros(len(runs), len(KINDS), BINS, dtype=torch.int64, device=device)
        self.epochs: list[Tensor] = []

    @torch.no_grad()
    def add(self, runs: Tensor, tau: Tensor, same: Tensor) -> None:
        """Count the pairs off the diagonal.

        Args:
            runs: [r] which runs of the stack.
            tau: [r, N, N] temperatures.
            same: [r, N, N] bool, whether the two share a domain.
        """
        place = ((tau - self.low[runs]) / self.width[runs] * BINS).long().clamp(0, BINS - 1)
        place = place + BINS * (~same) + len(KINDS) * BINS * runs[:, None, None]
        each = ~torch.eye(tau.shape[-1], dtype=torch.bool, device=tau.device).expand_as(tau)
        self.counts.view(-1).scatter_add_(0, place.flatten(), each.flatten().long())

    def end_epoch(self) -> None:
        """Keep the counts of an epoch, and count anew."""
        self.epochs.append(self.counts.clone())
        self.counts.zero_()


def traces_of(runs: Sequence[Run], losses: Tensor, recorder: TemperatureRecorder | None) -> list[Trace]:
    """The trace of each run, from the losses [epochs, R] of a stack."""
    found = [Trace(run.key, loss) for run, loss in zip(runs, losses.T.double().cpu().numpy())]
    if recorder is not None:
        for r, counts in enumerate(torch.stack(recorder.epochs, 1).cpu().numpy()):
            if runs[r].tau_beta is not None:
                found[r] = Trace(runs[r].key, found[r].loss, *recorder.ranges[r], counts)
    return found
