"""A harness that kills the trainer at random moments, again and again, and looks at what is left.

    python tests/faults.py --kills 100                 # one process
    python tests/faults.py --kills 100 --processes 2   # two, each with a half of the runs, one store
    python tests/faults.py --kills 100 --processes 2 --same   # two, each with all of the runs, one store

`make faults` runs the three. What came of it is added to `benchmarks/faults.csv`, which the book shows, unless `--look-only`
is given.

Trainers are forked, so that a life costs no start-up, write a checkpoint at every epoch, and are killed (SIGKILL) at a random
moment. Whenever all is done the store is compared and emptied, and at last one trains undisturbed. Each time the store must hold
every run once, the very numbers of a store that nobody disturbed, and no file besides. Two trainers with the same runs may
both store one, as equal lines; it still counts once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import time
import warnings
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pandas as pd
import torch

from dtcl_core import pretrain
from dtcl_core.config import Protocol, Run
from dtcl_core.engine import provenance
from dtcl_core.launch import local
from dtcl_core.results import Store

OUT = Path(__file__).resolve().parent.parent / "benchmarks" / "faults.csv"

# The modules that are put to the test, beside those that decide numbers.
STORING_SOURCES = (
    "config", "checks", "files", "results", "traces", "engine.checkpoint", "engine.recorder", "encoder_files",
    "engine.provenance", "launch.local",
)  # fmt: skip

TINY = Protocol(split_sizes=(224, 40, 40, 40), batch_size=64, channels=(8, 8, 8), epochs=4)
METHODS = ({"method": "standard"}, {"method": "dw_pairs", "tau_beta": 0.1}, {"method": "dann", "lambda_": 0.5})
RUNS = [Run(tau_alpha=0.2, seed=seed, protocol=TINY, **method) for seed in range(4) for method in METHODS]


def recorded(run: Run) -> bool:
    """Which runs leave a trace: some, so that stacks with and without are killed."""
    return run.method == "dw_pairs"


def tell_of_restores(pipe: int) -> None:
    """Write a byte when this process first goes on from a checkpoint."""
    real, told = pretrain.Stack.restore, []

    def restore(stack: pretrain.Stack, path: Path) -> None:
        real(stack, path)
        if not told:
            told.append(os.write(pipe, b"."))

    pretrain.Stack.restore = restore


def life(store: Store, runs: list[Run], pipe: int) -> int:
    """Fork a trainer, which writes a byte to `pipe` if it goes on from a checkpoint; returns its process id."""
    child = os.fork()
    if child:
        return child
    try:
        tell_of_restores(pipe)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        torch.set_num_threads(1)
        pretrain.CHECKPOINT_SECONDS = 0.0
        local.compute(runs, store, "cpu", stack_size=2, record=recorded, quiet=True)
        os._exit(0)
    except BaseException as error:
        print(f"a trainer failed: {error!r}", flush=True)
        os._exit(1)


def shares(processes: int, same: bool) -> list[list[Run]]:
    """The runs of each process."""
    return [RUNS if same else local.shard_of(RUNS, index, processes) for index in range(processes)]


def half_written(store: Store) -> set[Path]:
    """Files that a kill interrupted."""
    return set(store.path.rglob("*.tmp"))


def torment(
    store: Store, kills: int, look: Callable[[], None], processes: int = 1, same: bool = False, seed: int = 0
) -> dict[str, int]:
    """Kill trainers until so many were killed, restarting whenever all is done; then let them finish.

    Args:
        store: theirs.
        kills: how many must die.
        look: called with every store that is finished, the last one too.
        processes, same: see `shares`.
        seed: of the moments.

    Returns:
        How many were killed, how many of them while they wrote a file, how many trainers went on from a checkpoint, how many
        stores were finished and looked at, and how many trainers failed by themselves.
    """
    rng, told = random.Random(seed), {"killed": 0, "hit": 0, "finished": 0, "failed": 0}
    shards = shares(processes, same)
    listen, pipe = os.pipe()
    while told["killed"] < kills:
        if not store.missing(RUNS):  # done before enough were killed: begin again
            # Nothing is left to do but to tidy.
            told["failed"] += any(os.waitpid(life(store, runs, pipe), 0)[1] for runs in shards)
            look()
            told["finished"] += 1
            for kept in [*store.rows_path.glob("*"), *(store.path / "traces").glob("*")]:
                kept.unlink()
        before = half_written(store)
        children = [life(store, runs, pipe) for runs in shards]
        time.sleep(rng.uniform(0.0, 1.2))
        for child in children:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                told["failed"] += status != 0
                continue
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            told["killed"] += os.WIFSIGNALED(status)  # it may have ended in between
            told["failed"] += os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0
        told["hit"] += len(half_written(store) - before)  # a trainer writes one at a time
    for runs in shards:
        _, status = os.waitpid(life(store, runs, pipe), 0)
        told["failed"] += status != 0
    look()
    os.close(pipe)
    with open(listen, "rb") as restores:
        return told | {"finished": told["finished"] + 1, "resumed": len(restores.read())}


def code() -> str:
    """A hash of the code that is put to the test here."""
    return provenance.code_hash((*provenance.NUMERIC_SOURCES, *STORING_SOURCES))


def metrics_of(store: Store) -> dict[str, dict]:
    """What each run measured, provenance aside."""
    return {key: row["metrics"] for key, row in store.rows().items()}


def traces_of(store: Store) -> dict[str, dict | None]:
    """What was recorded, by key."""
    found = {run.key: store.trace(run) for run in RUNS if recorded(run)}
    return {key: trace and trace.to_dict() for key, trace in found.items()}


def lines_of(store: Store) -> list[str]:
    """The key of every line of every shard; raises if one is torn."""
    return [json.loads(line)["key"] for shard in store.rows_path.glob("*.jsonl") for line in shard.read_text().splitlines()]


def check(folder: Path, kills: int, processes: int = 1, seed: int = 0, same: bool = False) -> dict[str, int]:
    """Torment a store and compare it with an undisturbed one.

    Raises:
        AssertionError: naming what is missing, doubled, torn or different.
    """
    torch.set_num_threads(1)
    undisturbed, tormented = Store(folder / "undisturbed"), Store(folder / "tormented")
    for runs in shares(processes, same):  # the same stacks as below
        local.compute(runs, undisturbed, "cpu", stack_size=2, record=recorded, quiet=True)
    expected, traces_expected = metrics_of(undisturbed), traces_of(undisturbed)

    def look() -> None:
        lines, keys = lines_of(tormented), sorted(run.key for run in RUNS)
        assert sorted(set(lines)) == keys, "a row is missing"
        assert same or len(lines) == len(keys), "a row is doubled"
        assert metrics_of(tormented) == expected, "a number differs"
        assert traces_of(tormented) == traces_expected, "a trace is missing or differs"
        assert all(tormented.encoder(row) is not None for row in tormented.rows().values()), "a network is missing"
        files = (p for p in tormented.path.rglob("*") if p.is_file() and p.parent != tormented.encoders_path)
        left = [p.name for p in files if p.suffix not in (".jsonl", ".json", ".tmp")]
        assert not left, f"files are left behind: {left}"

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = torment(tormented, kills, look, processes, same, seed)
    assert not told["failed"], f"{told['failed']} trainers failed by themselves"
    return told


def add_line(row: dict, path: Path) -> None:
    """Add a line to a file of such lines; the older ones stay as they are, empty where they have no such column."""
    before = [pd.read_csv(path, dtype=str)] if path.exists() else []
    pd.concat([*before, pd.DataFrame([row]).astype(str)], ignore_index=True).to_csv(path, index=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--same", action="store_true", help="every process is given all the runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--look-only", action="store_true", help="add nothing to benchmarks/faults.csv")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = check(Path(name), options.kills, options.processes, options.seed, options.same)
    row = {"kills": found["killed"], "processes": options.processes, "runs of each": "all" if options.same else "its share",
           "stores compared": found["finished"], "runs": len(RUNS), "seed": options.seed, "code": code(), "torch": torch.__version__,
           "date": date.today().isoformat(), "resumed": found["resumed"], "writes hit": found["hit"]}  # fmt: skip
    if not options.look_only:
        add_line(row, OUT)
    print(
        f"{found['killed']} kills, {found['hit']} of them while a file was written; {found['resumed']} trainers went on from a "
        f"checkpoint; {found['finished']} stores compared: every row once, every number the same."
    )
