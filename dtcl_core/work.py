"""Train what is missing: cut runs into stacks, train each, evaluate it, add its rows.

A stack is the unit of work and of loss: its rows land together when it is done, and until then a checkpoint holds it.
The cut depends on the runs asked for, not on those still missing, so a second call finds the checkpoint that the first
one left behind.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path

from tqdm import tqdm

from . import evaluate, pretrain
from .config import Run
from .device import resolve_device
from .results import Store, default_path, make_rows
from .streams import stream_of

LINE_SECONDS = 60.0
STACK_SIZE = {"cpu": 6, "cuda": 64}


def default_store(preset: str) -> Store:
    """Where a preset's rows belong: the committed results, or for `smoke` a folder beside them that is not committed."""
    return Store(default_path() / "smoke" if preset == "smoke" else default_path())


def cut_into_stacks(runs: Sequence[Run], size: int, mix_streams: bool = True) -> list[list[Run]]:
    """Stacks of at most `size` runs; runs that share views stay together.

    Args:
        runs: the runs to cut.
        size: most runs in a stack.
        mix_streams: whether a stack may hold runs with different views. Larger stacks suit a GPU; a CPU gains nothing
            from them and would pay for joining the streams' feature maps.
    """

    def shape(run: Run) -> str:
        return repr(pretrain.shape_of(run)) + (repr(stream_of(run)) if not mix_streams else "")

    def order(run: Run) -> tuple:
        return (shape(run), *stream_of(run), run.key)

    stacks: list[list[Run]] = []
    for _, same in groupby(sorted(runs, key=order), key=shape):
        members = list(same)
        count = -(-len(members) // size)  # as many stacks as needed, as even as possible
        stacks += [members[len(members) * i // count : len(members) * (i + 1) // count] for i in range(count)]
    return stacks


def shard_of(runs: Sequence[Run], index: int, count: int) -> list[Run]:
    """Part `index` of `count` of the runs, the same on every machine: whole seeds and sigmas stay together if they can.

    Raises:
        ValueError: unless 0 <= index < count.
    """
    if not 0 <= index < count:
        raise ValueError(f"shard must be i/n with 0 <= i < n, got {index}/{count}.")
    ordered = sorted(runs, key=lambda run: (*stream_of(run), run.key))
    return ordered[len(ordered) * index // count : len(ordered) * (index + 1) // count]


def checkpoint_path(store: Store, runs: Sequence[Run]) -> Path:
    name = hashlib.sha256(" ".join(sorted(run.key for run in runs)).encode()).hexdigest()[:16]
    return store.path / ".checkpoints" / f"{name}.pt"


class Progress:
    """Runs done and time left: a bar on a terminal, elsewhere a line about once a minute."""

    def __init__(self, stacks: Sequence[Sequence[Run]], quiet: bool = False):
        self.total = sum(len(stack) * stack[0].protocol.epochs for stack in stacks)
        self.runs, self.done = sum(map(len, stacks)), 0
        self.trained = self.skipped = 0  # run-epochs, by this call and by earlier ones
        self.began = self.told = time.monotonic()
        self.quiet = quiet
        self.bar = tqdm(total=self.total, unit="run-epoch", disable=True if quiet else None, smoothing=0.1)
        self.bar.set_description(f"0 of {self.runs} runs")

    def epoch(self, stack: pretrain.Stack) -> None:
        """An epoch of a stack is done."""
        self.trained += len(stack.runs)
        self.bar.update(len(stack.runs))
        if time.monotonic() - self.told > LINE_SECONDS:
            self._tell()

    def skip(self, run_epochs: int) -> None:
        """Count work that an earlier call did, without letting it flatter the rate."""
        self.skipped += run_epochs
        if not self.bar.disable:
            for name in ("initial", "n", "last_print_n"):
                setattr(self.bar, name, getattr(self.bar, name) + run_epochs)
            self.bar.refresh()

    def stack_done(self, stack: pretrain.Stack) -> None:
        """A stack's rows are stored."""
        self.done += len(stack.runs)
        self.bar.set_description(f"{self.done} of {self.runs} runs")
        self._tell()

    def _tell(self) -> None:
        self.told = time.monotonic()
        if self.bar.disable and not self.quiet:
            rate = max(self.trained, 1e-9) / (self.told - self.began)
            left = (self.total - self.skipped - self.trained) / rate
            print(
                f"{self.done} of {self.runs} runs done; {self.skipped + self.trained} of {self.total} run-epochs, "
                f"{rate:.2f} a second; about {left / 60:.0f} minutes left",
                flush=True,
            )

    def close(self) -> None:
        self.bar.close()


def compute(
    runs: Sequence[Run],
    store: Store | None = None,
    device: str = "auto",
    *,
    stack_size: int | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    quiet: bool = False,
) -> int:
    """Train and store those of `runs` that have no row yet.

    Args:
        runs: the runs asked for.
        store: where rows are looked for and added; None means the project's results.
        device: "auto", "cpu", "cuda" or "cuda:N".
        stack_size: most runs trained at once; None picks what suits the device.
        should_stop: asked before every training step.
        quiet: no progress at all.

    Returns:
        How many runs were trained.

    Raises:
        ValueError: for an unusable device, before any training.
        Interrupted: when `should_stop` turned true; what was done is kept, and the next call goes on from there.
    """
    store = store or Store()
    where = resolve_device(device)
    missing = {run.key for run in store.missing(runs)}
    distinct = list({run.key: run for run in runs}.values())
    cut = cut_into_stacks(distinct, stack_size or STACK_SIZE[where.type], where.type != "cpu")
    stacks = [left for members in cut if (left := [run for run in members if run.key in missing])]
    if not stacks:
        return 0
    progress = Progress(stacks, quiet)
    try:
        for members in stacks:
            checkpoint = checkpoint_path(store, members)
            stack = pretrain.train(
                members,
                where,
                checkpoint=checkpoint,
                should_stop=should_stop,
                on_restore=lambda s: progress.skip(s.epoch * len(s.runs)),
                on_epoch=progress.epoch,
            )
            store.add(make_rows(stack, evaluate.evaluate(stack)))
            checkpoint.unlink(missing_ok=True)
            progress.stack_done(stack)
    finally:
        progress.close()
    return progress.done
