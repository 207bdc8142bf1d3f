"""Train what is missing: cut runs into stacks, train each, evaluate it, add its rows.

A stack is the unit of work and of loss: its rows land together when it is done, and until then a checkpoint holds it.
The cut depends on the runs asked for, not on those still missing, so a second call finds the checkpoint that the first
one left behind.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch

from .. import evaluate, pretrain
from ..config import Protocol, Run
from ..encoder import IMAGE_SIZE, dropout_shapes
from ..engine.device import free_bytes, is_accelerator, release_memory, resolve_device, resolve_precision
from ..engine.embedding import EMBED_BATCH
from ..engine.provenance import SOURCES, machine
from ..engine.streams import stream_of
from ..methods import ALL_METHODS
from ..results import Store
from .progress import Progress, numbered, trainings
from .rows import make_rows

STALE_SECONDS = 86400.0
CPU_STACK = 12  # an eighth less time a run than six (benchmarks/cpu.csv); more gain little, and rows land later
GPU_STACK = 192  # keeps a large GPU busy; more would only delay rows
MEMORY_SHARE = 0.7  # of what is free, for what the estimate below leaves out


def bytes_of_run(protocol: Protocol, precision: str) -> int:
    """Roughly how many bytes one more run adds to a stack in training."""
    activations = sum(2 * protocol.batch_size * math.prod(shape) for shape in dropout_shapes(protocol))
    maps = 6 * (4 if precision == "float32" else 2)  # convolution, norm, ceiling, and the gradients under way
    pairs = 12 * 4 * protocol.batch_size**2  # similarities, temperatures, logits and their gradients
    clean = protocol.channels[0] * (IMAGE_SIZE**2 // 4) * EMBED_BATCH * maps
    return max(activations * maps + pairs, clean)


def stack_size_for(device: torch.device, protocol: Protocol, precision: str) -> int:
    """How many runs to train at once: few on a CPU, on a GPU what its free memory holds, within reason."""
    if not is_accelerator(device):
        return CPU_STACK
    most = max(1, int(MEMORY_SHARE * free_bytes(device) / bytes_of_run(protocol, precision)))
    # Powers of two, so that a little more or less memory next time cuts the same stacks and finds their checkpoints.
    return GPU_STACK if most >= GPU_STACK else 1 << (most.bit_length() - 1)


def mixes_streams(device: torch.device, protocol: Protocol, precision: str) -> bool:
    """Whether stacks are to be filled up with runs of several views.

    A GPU is busier with them, and on a CPU the trunk shares out what a step costs whatever the runs. PyTorch's operators on a CPU
    would pay for joining the streams' feature maps.
    """
    return is_accelerator(device) or pretrain.choose_trunk(protocol, device, precision)[0] is not None


Recorded = Callable[[Run], bool]


def nothing(run: Run) -> bool:
    """Records no run."""
    return False


def cut_into_stacks(
    runs: Sequence[Run], size: int, mix_streams: bool = True, record: Recorded = nothing
) -> list[list[Run]]:
    """Stacks in which at most `size` networks are trained; runs that share views stay together.

    Args:
        runs: the runs to cut.
        size: most networks in a stack; runs that differ in their probes alone share one.
        mix_streams: whether a stack may hold runs with different views; see `mixes_streams`.
        record: which runs are to be recorded; they get stacks of their own, because recording costs time.
    """

    def shape(run: Run) -> str:
        alike = f"{pretrain.shape_of(run)!r}{record(run)}{run.replicate}"
        return alike if mix_streams else f"{alike}{stream_of(run)!r}"

    def order(run: Run) -> tuple:
        return (shape(run), *stream_of(run), run.key)

    sharing: dict[Run, list[Run]] = {}
    for run in runs:
        sharing.setdefault(run.training, []).append(run)
    stacks: list[list[Run]] = []
    for _, same in groupby(sorted(sharing, key=order), key=shape):
        members = list(same)
        count = -(-len(members) // size)  # as many stacks as needed, as even as possible
        parts = [members[len(members) * i // count : len(members) * (i + 1) // count] for i in range(count)]
        stacks += [[run for trained in part for run in sharing[trained]] for part in parts]
    return stacks


def shard_of(runs: Sequence[Run], index: int, count: int) -> list[Run]:
    """Part `index` of `count` of the runs, dealt by key: a run is in the same part whatever it is asked for with.

    Raises:
        ValueError: unless 0 <= index < count.
    """
    if not 0 <= index < count:
        raise ValueError(f"shard must be i/n with 0 <= i < n, got {index}/{count}.")
    return [run for run in runs if int(run.key, 16) % count == index]


def checkpoint_path(store: Store, runs: Sequence[Run]) -> Path:
    name = hashlib.sha256(" ".join(sorted(run.key for run in runs)).encode()).hexdigest()[:16]
    return store.checkpoints_path / f"{name}.pt"


def image_epochs(run: Run) -> int:
    """How many images a run's training looks at."""
    return run.protocol.epochs * run.protocol.split_sizes[0]


def what_runs(stacks: Sequence[Sequence[Run]], device: torch.device, precision: str) -> list[str]:
    """What will compute the encoders of some stacks: a line for each way."""
    most: dict[str, int] = {}
    for members in stacks:
        _, path = pretrain.choose_trunk(members[0].protocol, device, precision)
        most[path] = max(most.get(path, 0), len(trainings(members)))
    threads = f", {numbered(torch.get_num_threads(), 'thread')}" if device.type == "cpu" else ""
    return [
        f"Encoders are computed by {path}: {precision}{threads}, up to {numbered(size, 'run')} at once."
        for path, size in most.items()
    ]


class Pace(NamedTuple):
    """How long training took, as stored rows have it.

    Attributes:
        seconds: an image took a run, by the clock of one process; 0 if there is no row to tell.
        core_seconds: the same times threads; None if no row tells its threads.
        source: which rows say so.
        jitter: how many times as long an image took with colour jitter; 1 if no row tells.
    """

    seconds: float
    core_seconds: float | None
    source: str
    jitter: float = 1.0

    def images(self, runs: Iterable[Run]) -> float:
        """How many images without colour jitter these runs' training is worth."""
        return sum(image_epochs(run) * (self.jitter if stream_of(run).jitter else 1.0) for run in runs)


def seconds_an_image(rows: Sequence[dict], device: torch.device) -> Pace:
    """Median time that one image took a run, in the rows most like what would be trained on this device now.

    What counts first is the path (trunk or PyTorch's operators, and precision), then the processor, then threads, then the
    reading of the paper (whatever tau_min, and for how long), then the code.
    """
    precision = resolve_precision("auto", device)
    trunk, path = pretrain.choose_trunk(Protocol(), device, precision)
    now, reading = machine(device), json.loads(Protocol().text)
    usable = [r for r in rows if r["provenance"].get("device") == device.type and r["provenance"].get("seconds")]
    if not usable:
        return Pace(0.0, None, f"no row was trained on {device} yet")

    def likeness(row: dict) -> tuple[bool, ...]:
        was, read = row["provenance"], row["run"]["protocol"]
        same_path = (bool(was.get("trunk")), was.get("precision")) == (trunk is not None, precision)
        same = [was.get(name) == now[name] for name in ("device_name", "threads")]
        same_reading = all(name in ("epochs", "tau_min") or read.get(name) == value for name, value in reading.items())
        return (same_path, *same, was.get("threads") is not None, same_reading, was.get("sources") == SOURCES)

    likenesses = list(map(likeness, usable))
    best = max(likenesses)
    # Of this code; of any; of any reading too.
    groups = [[r for r, like in zip(usable, likenesses) if like[:k] == best[:k]] for k in range(6, 3, -1)]
    paces, cores = _by_jitter(groups[0]), _by_jitter(groups[0], times_threads=True)
    kind = not paces[False]  # without jitter, unless all rows have it
    both = next((found for found in map(_by_jitter, groups) if found[True] and found[False]), None)
    jitter = 1.0 if both is None else median(both[True]) / median(both[False])
    counts = sorted({row["provenance"].get("threads") or 0 for row in groups[0]} - {0})
    on = f" on {' and '.join(numbered(count, 'thread') for count in counts)}" if counts else ""
    where = f"{'this processor' if best[1] else 'other processors'}{on}"
    by = f"by {path}" if best[0] else f"by another path, as none is yet by {path}"
    source = f"the median of {numbered(len(groups[0]), 'row')} of {where} {by}"
    return Pace(median(paces[kind]), median(cores[kind]) if cores[kind] else None, source, jitter)


def _by_jitter(rows: Sequence[dict], times_threads: bool = False) -> dict[bool, list[float]]:
    """Seconds that an image took a run, by whether it has colour jitter; of rows that tell their threads, times those."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for row in rows:
        plain, threads = row["run"]["protocol"], row["provenance"].get("threads") if times_threads else 1
        if threads:
            images = plain["epochs"] * plain["split_sizes"][0]
            found[ALL_METHODS[row["run"]["method"]].jitter].append(row["provenance"]["seconds"] / images * threads)
    return found


def train_stack(
    members: Sequence[Run],
    store: Store,
    device: str | torch.device,
    *,
    precision: str = "auto",
    record: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
    progress: Progress | None = None,
) -> None:
    """Train one stack, evaluate it and store its rows and traces; a checkpoint beside the rows holds it till then."""
    checkpoint = checkpoint_path(store, members)
    how: dict[str, Any] = {"precision": precision, "record": record, "should_stop": should_stop}
    if progress is not None:
        how |= {"on_restore": progress.restored, "on_epoch": progress.epoch}
    stack = pretrain.train(trainings(members), device, checkpoint=checkpoint, **how)
    keep(stack, members, store, record)
    checkpoint.unlink(missing_ok=True)
    if progress is not None:
        progress.stack_done(members)


def keep(stack: pretrain.Stack, members: Sequence[Run], store: Store, record: bool) -> None:
    """Evaluate a trained stack and store its networks, then rows, then traces; on a full disk rows come before networks.

    Raises:
        OSError: if rows or traces cannot be written, naming the file and what it needs.
    """
    draws = evaluate.measure(stack, members)
    metrics = {key: evaluate.means(of_run) for key, of_run in draws.items()}
    present = store.rows() if record else {}  # a run may lack its trace only: its row stays as it is
    wanting = [run for run in members if run.key not in present]
    if wanting:
        try:
            kept = store.add_encoders(stack.encoder, stack.runs)
        except OSError as error:
            warnings.warn(f"trained encoders are not kept: {error}", stacklevel=3)
            kept = None
        try:
            store.add(make_rows(stack, metrics, wanting, draws, kept))
        except OSError:
            if kept is None:
                raise
            (store.encoders_path / kept["file"]).unlink(missing_ok=True)
            store.add(make_rows(stack, metrics, wanting, draws))
    if record:
        traces = {trace.key: trace for trace in stack.traces()}
        for run in members:
            store.add_trace(replace(traces[run.training.key], key=run.key))


def compute(
    runs: Sequence[Run],
    store: Store | None = None,
    device: str = "auto",
    *,
    precision: str = "auto",
    stack_size: int | None = None,
    record: Recorded = nothing,
    should_stop: Callable[[], bool] = lambda: False,
    quiet: bool = False,
) -> int:
    """Train and store those of `runs` that have no row yet, on this machine.

    A stack that does not fit into a GPU's memory is halved, and so are the ones after it.

    Args:
        runs: the runs asked for.
        store: where rows are looked for and added; None means the project's results.
        device: "auto", "cpu", "cuda" or "cuda:N".
        precision: "auto", "float32" or "bfloat16"; see `device.resolve_precision`.
        stack_size: most runs trained at once; None picks what suits the device and its free memory.
        record: which runs must have a trace too (`traces.Trace`); those without one are trained.
        should_stop: asked before every training step.
        quiet: no progress at all, nor a line that says what runs.

    Returns:
        How many runs were trained.

    Raises:
        ValueError: for an unusable device or precision, before any training.
        OSError: if rows cannot be written, before any training.
        Interrupted: when `should_stop` turned true; what was done is kept, and the next call goes on from there.
    """
    store = store or Store()
    where = resolve_device(device)
    precision = resolve_precision(precision, where)
    stacks = missing_stacks(runs, store, where, precision, stack_size, record)
    if not stacks:
        return 0
    store.check_writable()
    if not quiet:
        print(*what_runs(stacks, where, precision), sep="\n", flush=True)
    how: dict[str, Any] = {"store": store, "device": where, "precision": precision, "should_stop": should_stop}
    with closing(Progress(stacks, quiet)) as progress:
        train = partial(train_stack, progress=progress, **how)
        while stacks:
            members, *others = stacks
            if train_if_it_fits(members, where, partial(train, record=record(members[0]))):
                stacks = others
            else:
                warnings.warn(f"a stack of {len(members)} runs does not fit into memory; it is halved.", stacklevel=2)
                stacks = halved(stacks, record)
    return progress.done


def train_if_it_fits(members: Sequence[Run], device: torch.device, train: Callable[[Sequence[Run]], None]) -> bool:
    """Train a stack; False, with its memory given back, where the device has too little.

    Raises:
        torch.OutOfMemoryError: if there is too little for a single network.
    """
    try:
        train(members)
    except torch.OutOfMemoryError:
        if len(trainings(members)) == 1:
            raise
    else:
        return True
    release_memory(device)  # here, where no traceback holds the stack any more
    return False


def halved(stacks: Sequence[Sequence[Run]], record: Recorded) -> list[list[Run]]:
    """The same runs in stacks of at most half as many networks as the first one has."""
    most = -(-len(trainings(stacks[0])) // 2)
    return [part for stack in stacks for part in cut_into_stacks(stack, most, True, record)]


def missing_stacks(
    runs: Sequence[Run],
    store: Store,
    device: torch.device,
    precision: str,
    stack_size: int | None = None,
    record: Recorded = nothing,
) -> list[list[Run]]:
    """The work units: stacks cut from all the runs asked for, less the runs that exist; what a kill left is tidied up."""
    distinct = list({run.key: run for run in runs}.values())
    if not distinct:
        return []
    size = stack_size or stack_size_for(device, distinct[0].protocol, precision)
    mix = mixes_streams(device, distinct[0].protocol, precision)
    stacks = cut_into_stacks(distinct, size, mix_streams=mix, record=record)
    missing = {run.key for run in store.missing(distinct, traced=record)}
    tidy(store, [members for members in stacks if missing.isdisjoint(run.key for run in members)])
    return [left for members in stacks if (left := [run for run in members if run.key in missing])]


def tidy(store: Store, done: Sequence[Sequence[Run]]) -> None:
    """Remove what a kill may have left: checkpoints of stacks that are done, and half-written files a day old."""
    left = [checkpoint_path(store, members) for members in done]
    for folder in (store.rows_path, store.traces_path, store.encoders_path, store.checkpoints_path):
        for path in (*folder.glob("*.tmp"), *folder.glob(".*.probe")):
            with suppress(OSError):
                left += [path] if time.time() - path.stat().st_mtime > STALE_SECONDS else []
    for path in left:
        with suppress(OSError):  # another process was quicker, or the folder is read-only
            path.unlink()
