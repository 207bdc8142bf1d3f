"""Train what is missing on this machine: cut runs into stacks, train each, evaluate it, add its rows.

The rows of a stack are stored together when it is done; until then a checkpoint holds it. How runs are cut depends on those
asked for, not on those missing, so that a second call finds the checkpoints of the first.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import datetime, timezone
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch

from .. import encoder_files, evaluate, pretrain
from ..checks import checked_number
from ..config import REVISION, Protocol, Run
from ..encoder import IMAGE_SIZE, dropout_shapes
from ..engine.device import free_bytes, is_accelerator, release_memory, resolve_device, resolve_precision
from ..engine.embedding import EMBED_BATCH
from ..engine.provenance import commit, machine
from ..engine.streams import stream_of
from ..evaluate import Draws
from ..files import content_hash
from ..pretrain import Stack
from ..results import Store
from .progress import Progress, numbered, trainings

STALE_SECONDS = 86400.0
CPU_STACK = 12  # an eighth less time a run than six (benchmarks/cpu.csv); more gain little, and rows land later
GPU_STACK = 384  # keeps a large GPU busy (benchmarks/gpu.csv); more would only delay rows
MEMORY_SHARE = 0.7  # of what is free; the rest is for what `bytes_of_run` leaves out
ShouldRecord = Callable[[Run], bool]  # whether a run is to have a trace


def bytes_of_run(protocol: Protocol, precision: str) -> int:
    """Roughly how many bytes one more run adds to a stack in training."""
    activations = sum(2 * protocol.batch_size * math.prod(shape) for shape in dropout_shapes(protocol))
    maps = 6 * (4 if precision == "float32" else 2)  # convolution, norm, ceiling, and the gradients under way
    pairs = 12 * 4 * protocol.batch_size**2  # similarities, temperatures, logits and their gradients
    clean = protocol.channels[0] * (IMAGE_SIZE**2 // 4) * EMBED_BATCH * maps
    return max(activations * maps + pairs, clean)


def stack_size_for(device: torch.device, protocol: Protocol, precision: str) -> int:
    """How many runs to train at once: `CPU_STACK` on a CPU, what the free memory holds on a GPU, at most `GPU_STACK`."""
    if not is_accelerator(device):
        return CPU_STACK
    most = max(1, int(MEMORY_SHARE * free_bytes(device) / bytes_of_run(protocol, precision)))
    # Powers of two, so that a little more or less memory next time cuts the same stacks and finds their checkpoints.
    return GPU_STACK if most >= GPU_STACK else 1 << (most.bit_length() - 1)


def mixes_streams(device: torch.device, protocol: Protocol, precision: str) -> bool:
    """Whether runs with different views may share a stack; only PyTorch's operators on a CPU are slower with them."""
    return is_accelerator(device) or pretrain.choose_trunk(protocol, device, precision)[0] is not None


def cut_into_stacks(
    runs: Sequence[Run], size: int, mix_streams: bool = True, record: ShouldRecord = lambda run: False
) -> list[list[Run]]:
    """Stacks of runs that can be trained together, as even as possible; runs that share views are side by side.

    Args:
        runs: the runs to cut.
        size: most networks in a stack; runs that differ in their probes alone share one.
        mix_streams: see `mixes_streams`.
        record: which runs are to be recorded; they get stacks of their own, because recording costs time.
    """

    def shape(run: Run) -> str:
        alike = f"{pretrain.shape_of(run)!r}{record(run)}{run.replicate}"
        return alike if mix_streams else f"{alike}{stream_of(run)!r}"

    sharing: dict[Run, list[Run]] = {}
    for run in runs:
        sharing.setdefault(run.training, []).append(run)
    stacks: list[list[Run]] = []
    for _, same in groupby(sorted(sharing, key=lambda run: (shape(run), *stream_of(run), run.key)), key=shape):
        members = list(same)
        count = -(-len(members) // size)
        parts = [members[len(members) * i // count : len(members) * (i + 1) // count] for i in range(count)]
        stacks += [[run for trained in part for run in sharing[trained]] for part in parts]
    return stacks


def shard_of(runs: Sequence[Run], index: int, count: int) -> list[Run]:
    """Part `index`, 0 <= index < count, of `count` parts of the runs. The part that a run is in depends on its key alone."""
    return [run for run in runs if int(run.key, 16) % count == index]


def checkpoint_path(store: Store, runs: Sequence[Run]) -> Path:
    """Where the checkpoint of a stack of these runs is."""
    name = content_hash(" ".join(sorted(run.key for run in runs)).encode(), 16)
    return store.checkpoints_path / f"{name}.pt"


def image_epochs(run: Run) -> int:
    """How many images a run sees in training: epochs times training images."""
    return run.protocol.epochs * run.protocol.split_sizes[0]


def what_runs(stacks: Sequence[Sequence[Run]], device: torch.device, precision: str) -> list[str]:
    """A line for each way (trunk or PyTorch's operators) in which the encoders of these stacks will be computed."""
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
    """Time of one run for one training image in one epoch: median seconds, median core-seconds, and the rows used, in words."""

    seconds: float | None
    core_seconds: float | None
    source: str


def pace_of(rows: Iterable[dict[str, Any]], device: torch.device) -> Pace:
    """The `Pace` that stored rows have on a kind of device.

    Rows of the same processor, threads and path (trunk or PyTorch's operators, and precision) as training here would have
    decide; if there are none, all rows of that kind of device do. The times are None if no row tells.
    """
    precision = resolve_precision("auto")
    trunk, path = pretrain.choose_trunk(Protocol(), device, precision)
    here = {name: machine(device)[name] for name in ("device_name", "threads")} | {"precision": precision}

    def alike(row: dict[str, Any]) -> bool:
        before = row["provenance"]
        return bool(before.get("trunk")) == (trunk is not None) and all(before.get(n) == v for n, v in here.items())

    usable = [row for row in rows if row["provenance"]["device"] == device.type]
    same = [row for row in usable if alike(row)]
    chosen = same or usable
    if not chosen:
        return Pace(None, None, f"no row was trained on {device} yet")
    on = f" on {numbered(here['threads'], 'thread')}" if here["threads"] else ""
    source = "" if same else f"any {device.type}, as there is none of "
    seconds, core_seconds = [], []
    for row in chosen:
        protocol, threads = row["run"]["protocol"], row["provenance"].get("threads")
        seconds.append(row["provenance"]["seconds"] / (protocol["epochs"] * protocol["split_sizes"][0]))
        core_seconds += [seconds[-1] * threads] if isinstance(threads, int) else []  # a text where they changed on the way
    source = f"the median of {numbered(len(chosen), 'row')} of {source}this processor{on} by {path}"
    return Pace(median(seconds), median(core_seconds) if core_seconds else None, source)


def train_stack(
    members: Sequence[Run],
    store: Store,
    device: str | torch.device,
    precision: str,
    record: bool,
    should_stop: Callable[[], bool],
    progress: Progress,
) -> bool:
    """Train one stack, evaluate it and store its rows and traces; until then a checkpoint holds it. False if it does not fit into memory."""
    checkpoint = checkpoint_path(store, members)
    asked: dict[str, Any] = {"precision": precision, "record": record, "checkpoint": checkpoint, "should_stop": should_stop}
    try:
        stack = pretrain.train(trainings(members), device, on_restore=progress.restored, on_epoch=progress.epoch, **asked)
        keep(stack, members, store, record)
    except torch.OutOfMemoryError:
        return False
    checkpoint.unlink(missing_ok=True)
    progress.stack_done(members)
    return True


def make_rows(
    stack: Stack, draws: dict[str, Draws], runs: Sequence[Run] | None = None, file: str | None = None
) -> list[dict[str, Any]]:
    """Rows of a trained stack.

    Args:
        draws: what `evaluate.measure` returned; kept of runs with more than one draw of labels.
        runs: those that rows are made of; None: the stack's.
        file: the name of the file of the stack's networks, if they are kept.
    """
    provenance = {
        **stack.machine,
        "commit": commit(),
        "precision": stack.precision,
        "stack": len(stack.runs),
        "seconds": round(stack.seconds / len(stack.runs), 2),
        "created": datetime.now(timezone.utc).isoformat(timespec="microseconds"),
    }
    rows, place = [], {run.training: number for number, run in enumerate(stack.runs)}
    for run in stack.runs if runs is None else runs:
        scores = evaluate.means(draws[run.key])
        finished = all(value is not None for fraction in scores.values() for value in fraction.values())
        row = {"key": run.key, "revision": REVISION, "run": run.to_dict(), "metrics": scores}
        row |= {"status": "ok" if finished else "diverged", "provenance": dict(provenance)}
        if run.protocol.label_draws > 1:
            row["draws"] = draws[run.key]
        if file is not None:
            row["encoder"] = {"file": file, "place": place[run.training]}
        rows.append(row)
    return rows


def keep(stack: Stack, members: Sequence[Run], store: Store, record: bool) -> None:
    """Evaluate a trained stack and store its networks, rows and traces."""
    present = store.rows({run.key for run in members})  # a run may lack its trace only, or another process was quicker
    wanting = [run for run in members if run.key not in present]
    if wanting:
        draws = evaluate.measure(stack, wanting)
        name, networks = encoder_files.packed(stack.encoder, stack.runs)
        store.add(make_rows(stack, draws, wanting, name), {name: networks})
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
    record: ShouldRecord = lambda run: False,
    should_stop: Callable[[], bool] = lambda: False,
    quiet: bool = False,
) -> int:
    """Train and store those of `runs` that have no row yet, on this machine.

    A stack that does not fit into a GPU's memory is halved, and so are those of the same shape after it.

    Args:
        runs: the runs asked for.
        store: where rows are looked for and added; None means the project's results.
        device: "auto", "cpu", "cuda" or "cuda:N".
        precision: "auto", "float32" or "bfloat16"; see `device.resolve_precision`.
        stack_size: most runs trained at once; None picks what suits the device and its free memory.
        record: which runs must have a trace too (`traces.Trace`); those without one are trained.
        should_stop: asked before every training step.
        quiet: print nothing.

    Returns:
        How many runs were trained.

    Raises:
        ValueError: for an unusable device, precision or stack size, before any training; or if one run does not fit into memory.
        OSError: if rows cannot be written (this is tried before any training), or a checkpoint cannot be read.
        Interrupted: when `should_stop` turned true; what was done is kept, and the next call goes on from there.
    """
    store = store or Store()
    where = resolve_device(device)
    precision = resolve_precision(precision)
    stacks = missing_stacks(runs, store, where, precision, stack_size, record)
    if not stacks:
        return 0
    store.check_writable()
    commit()  # is read now, and kept: files may change while it trains
    if not quiet:
        print(*what_runs(stacks, where, precision), sep="\n", flush=True)
    with closing(Progress(stacks, quiet)) as progress:
        while stacks:
            if train_stack(stacks[0], store, where, precision, record(stacks[0][0]), should_stop, progress):
                stacks = stacks[1:]
                continue
            networks, shapes = len(trainings(stacks[0])), [pretrain.shape_of(stack[0].training) for stack in stacks]
            if networks == 1:
                raise ValueError("one run does not fit into the device's memory; take another device.")
            release_memory(where)  # here, where no traceback holds the stack any more
            warnings.warn(f"a stack of {len(stacks[0])} runs does not fit into memory; it is halved.", stacklevel=2)
            alike = [stack for stack, shape in zip(stacks, shapes) if shape == shapes[0]]
            others = [stack for stack, shape in zip(stacks, shapes) if shape != shapes[0]]
            stacks = [half for stack in alike for half in cut_into_stacks(stack, -(-networks // 2), True, record)] + others
    return progress.done


def missing_stacks(
    runs: Sequence[Run],
    store: Store,
    device: torch.device,
    precision: str,
    stack_size: int | None = None,
    record: ShouldRecord = lambda run: False,
) -> list[list[Run]]:
    """Stacks cut from all the runs asked for, without the runs that exist; files that a kill left behind are removed."""
    most = None if stack_size is None else int(checked_number("stack_size", stack_size, 1, integer=True))
    distinct = {run.key: run for run in runs}.values()
    shapes: dict[tuple[Any, ...], list[Run]] = {}
    for run in distinct:
        shapes.setdefault(pretrain.shape_of(run.training), []).append(run)
    stacks: list[list[Run]] = []
    for shape in sorted(shapes, key=repr):
        size = most or stack_size_for(device, shape[0], precision)
        stacks += cut_into_stacks(shapes[shape], size, mixes_streams(device, shape[0], precision), record)
    missing = {run.key for run in store.missing(distinct, traced=record)}
    tidy(store, [members for members in stacks if missing.isdisjoint(run.key for run in members)])
    return [left for members in stacks if (left := [run for run in members if run.key in missing])]


def tidy(store: Store, done: Sequence[Sequence[Run]]) -> None:
    """Remove what a kill left behind: checkpoints of stacks that are done, and half-written files a day old.

    Encoders that no row names, written just before a kill, stay: another process may be about to name them.
    """
    left = [checkpoint_path(store, members) for members in done]
    for folder in (store.rows_path, store.traces_path, store.encoders_path, store.checkpoints_path):
        for path in folder.glob("*.tmp"):
            with suppress(OSError):
                left += [path] if time.time() - path.stat().st_mtime > STALE_SECONDS else []
    for path in left:
        with suppress(OSError):  # another process was quicker, or the folder is read-only
            path.unlink()
