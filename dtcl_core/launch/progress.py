"""What is done and how long the rest takes, while stacks train."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tqdm import tqdm

from ..config import Run

if TYPE_CHECKING:
    from ..pretrain import Stack

LINE_SECONDS = 60.0
BAR = "{desc}, {remaining} left {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} {rate_fmt}"  # narrow terminals cut its end


def trainings(runs: Sequence[Run]) -> list[Run]:
    """The distinct trainings of these runs: those that differ in their probes alone are trained once."""
    return list(dict.fromkeys(run.training for run in runs))


def numbered(count: int, noun: str) -> str:
    """A count and its noun: 1 thread, 2 threads."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def readable_time(seconds: float) -> str:
    """Seconds as a person would say them: 0 s, 45 s, 12 min, 3.4 h, 12 days."""
    for least, unit, length, digits in ((86400 * 3, "days", 86400, 0), (5400, "h", 3600, 1), (90, "min", 60, 0)):
        if seconds >= least:
            return f"{seconds / length:.{digits}f} {unit}"
    return f"{seconds:.0f} s"


class Progress:
    """Runs done and time left: a bar on a terminal, elsewhere a line about once a minute."""

    def __init__(self, stacks: Sequence[Sequence[Run]], quiet: bool = False):
        self.total = sum(len(trainings(stack)) * stack[0].protocol.epochs for stack in stacks)
        self.runs, self.done = sum(map(len, stacks)), 0
        self.trained = self.skipped = 0  # run-epochs, by this call and by earlier ones
        self.began = self.said_at = time.monotonic()
        self.quiet = quiet
        how = {"unit": "run-epoch", "smoothing": 0.1, "bar_format": BAR, "dynamic_ncols": True}
        self.bar = tqdm(total=self.total, disable=True if quiet else None, **how)  # None: unless it is a terminal
        self.bar.set_description_str(f"0 of {self.runs} runs")

    def epoch(self, stack: Stack) -> None:
        """An epoch of a stack is done."""
        self.trained += len(stack.runs)
        self.bar.update(len(stack.runs))
        if time.monotonic() - self.said_at > LINE_SECONDS:
            self._tell()

    def restored(self, stack: Stack) -> None:
        """An earlier call did these epochs of a stack; they do not count for the rate."""
        run_epochs = stack.epoch * len(stack.runs)
        self.skipped += run_epochs
        if not self.bar.disable:
            for name in ("initial", "n", "last_print_n"):
                setattr(self.bar, name, getattr(self.bar, name) + run_epochs)
            self.bar.refresh()

    def stack_done(self, runs: Sequence[Run]) -> None:
        """The rows of a stack are stored."""
        self.done += len(runs)
        self.bar.set_description_str(f"{self.done} of {self.runs} runs")
        self._tell()

    def _tell(self) -> None:
        self.said_at = time.monotonic()
        if self.bar.disable and not self.quiet:
            rate = max(self.trained, 1e-9) / (self.said_at - self.began)
            left = (self.total - self.skipped - self.trained) / rate
            ahead = f"; about {readable_time(left)} left" if left > 0 and self.trained else ""
            epochs = f"{self.skipped + self.trained} of {self.total} run-epochs, {rate:.2f} a second"
            print(f"{self.done} of {self.runs} runs done; {epochs}{ahead}", flush=True)

    def close(self) -> None:
        self.bar.close()
