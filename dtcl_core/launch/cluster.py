"""Train what is missing on the machines of a Ray cluster.

The driver cuts the runs into stacks and hands each to a task that asks for one GPU (or one CPU core). A task trains with
`local.compute` into a scratch store of its own and returns rows, traces and networks; only the driver writes to the project's store, so workers
need no shared disk and no row is doubled. Ray gives the stack of a worker that died to another; on the same machine it goes
on from the checkpoint in the scratch store.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from ..config import Run
from ..engine.device import check_device_name, resolve_precision
from ..engine.provenance import SOURCES
from ..files import content_hash
from ..pretrain import Interrupted
from ..results import Store
from ..traces import Trace
from . import local
from .progress import Progress

RETRIES = 5  # of a stack whose worker died
POLL_SECONDS = 0.5


def scratch_store(runs: Sequence[Run], owner: str) -> Store:
    """Where a worker keeps a stack until it is done; `owner` names the driver's store. Two drivers of one store need different runs.

    Raises:
        ValueError: if the folder is another user's.
    """
    name = content_hash(f"{owner} {local.checkpoint_path(Store('.'), runs).stem}".encode(), 16)
    base = Path(tempfile.gettempdir()) / f"dtcl-{os.getuid()}"
    base.mkdir(mode=0o700, exist_ok=True)
    if base.is_symlink() or base.stat().st_uid != os.getuid():
        raise ValueError(f"{base} is not a folder of this user's.")
    return Store(base / name)


def owner_of(store: Store) -> str:
    """The name of a driver's store among those of other drivers."""
    return f"{socket.gethostname()} {store.path.resolve()}"


def train_stack_on_worker(
    plain: list[dict[str, Any]], device: str, precision: str, record: bool, owner: str
) -> tuple[list, list, dict[str, bytes]]:
    """Train a stack on a worker; rows and traces of its runs, as plain values, and its files of networks by name."""
    runs = [Run.from_dict(one) for one in plain]
    store = scratch_store(runs, owner)
    if any(row["provenance"]["sources"] != SOURCES for row in store.rows().values()):
        shutil.rmtree(store.path)  # left by an earlier version of the code
    local.compute(runs, store, device, precision=precision, stack_size=len(runs), record=lambda run: record, quiet=True)
    rows = store.rows()
    traces = [trace.to_dict() for run in runs if (trace := store.trace(run)) is not None]
    networks = {path.name: path.read_bytes() for path in store.encoders_path.glob("*.npz")}
    shutil.rmtree(store.path)
    return [{k: v for k, v in rows[run.key].items() if k != "shard"} for run in runs], traces, networks


def compute(
    runs: Sequence[Run],
    store: Store,
    device: str = "auto",
    *,
    precision: str = "auto",
    stack_size: int | None = None,
    record: local.ShouldRecord = lambda run: False,
    should_stop: Callable[[], bool] = lambda: False,
    quiet: bool = False,
) -> int:
    """`local.compute` on a Ray cluster: the one at $RAY_ADDRESS or already joined, else one started on this machine.

    Raises:
        ValueError: for an unknown device or precision, without Ray, or for "cuda" without a GPU in the cluster; or if a worker failed.
        Interrupted: when `should_stop` turned true; finished stacks are stored, others go on from their workers' checkpoints.
    """
    check_device_name(device)
    precision = resolve_precision(precision)
    try:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray
    except ImportError:
        raise ValueError("launcher 'ray' needs Ray: pip install 'dtcl[cluster]'.") from None
    if not ray.is_initialized():
        ray.init(logging_level=logging.WARNING, log_to_driver=False)
    gpus = ray.cluster_resources().get("GPU", 0)
    if device == "auto":
        device = "cuda" if gpus else "cpu"
    if device != "cpu" and not gpus:
        raise ValueError(f"device {device!r} was asked for, but the Ray cluster has no GPU.")
    kind = device.partition(":")[0]  # Ray picks which GPU
    size = (local.CPU_STACK if kind == "cpu" else local.GPU_STACK) if stack_size is None else stack_size
    stacks = local.missing_stacks(runs, store, torch.device(kind), precision, size, record)
    if not stacks:
        return 0
    store.check_writable()
    task = ray.remote(train_stack_on_worker).options(max_retries=RETRIES, num_cpus=1, num_gpus=int(kind != "cpu"))
    pending = {
        task.remote([run.to_dict() for run in members], kind, precision, record(members[0]), owner_of(store)): members
        for members in stacks
    }
    progress, failed = Progress(stacks, quiet), ""
    try:
        while pending:
            for done in ray.wait(list(pending), num_returns=len(pending), timeout=POLL_SECONDS)[0]:
                members = pending.pop(done)  # first: Ray may abort where a task is cancelled that is done
                try:
                    rows, traces, networks = ray.get(done)
                except ray.exceptions.RayError as error:
                    failed = str(getattr(error, "cause", None) or type(error).__name__).rstrip(".")
                    continue  # what others finished is stored first
                if any(row["provenance"]["sources"] != SOURCES for row in rows):
                    raise ValueError("a worker runs other code than this machine; install the same version everywhere.")
                present = store.rows({row["key"] for row in rows})  # see `local.keep`
                if wanting := [row for row in rows if row["key"] not in present]:
                    store.add(wanting, networks)
                for trace in traces:
                    store.add_trace(Trace.from_dict(trace))
                progress.trained_elsewhere(members)
            if failed:
                raise ValueError(f"a worker failed: {failed}.")
            if pending and should_stop():
                raise Interrupted
    finally:
        for unfinished in pending:
            ray.cancel(unfinished, force=True)
        progress.close()
    return progress.done
