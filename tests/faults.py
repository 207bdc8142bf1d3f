"""A harness that kills the trainer at random moments, again and again, and looks at what is left.

    python tests/faults.py --kills 100                 # one process
    python tests/faults.py --kills 100 --processes 2   # two, each with a half of the runs, one store

What came of it is added to `benchmarks/faults.csv`, which the book shows.

Trainers are forked, so that a life costs no start-up, write a checkpoint at every epoch, and are killed (SIGKILL) at a random
moment. Then one trains undisturbed. The store must hold every run once, and the very numbers of a store that nobody disturbed.
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
from datetime import date
from pathlib import Path

import pandas as pd
import torch

from dtcl_core import pretrain, work
from dtcl_core.config import Protocol, Run
from dtcl_core.provenance import SOURCES
from dtcl_core.results import Store

OUT = Path(__file__).resolve().parent.parent / "benchmarks" / "faults.csv"

TINY = Protocol(split_sizes=(224, 40, 40, 40), batch_size=64, channels=(8, 8, 8), epochs=4)
METHODS = ({"method": "standard"}, {"method": "dw_pairs", "tau_beta": 0.1}, {"method": "dann", "lambda_": 0.5})
RUNS = [Run(tau_alpha=0.2, seed=seed, protocol=TINY, **method) for seed in range(4) for method in METHODS]


def life(store: Store, runs: list[Run]) -> int:
    """Fork a trainer; returns its process id."""
    child = os.fork()
    if child:
        return child
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        torch.set_num_threads(1)
        pretrain.CHECKPOINT_SECONDS = 0.0
        work.compute(runs, store, "cpu", stack_size=2, quiet=True)
        os._exit(0)
    except BaseException as error:
        print(f"a trainer failed: {error!r}", flush=True)
        os._exit(1)


def torment(store: Store, kills: int, processes: int = 1, seed: int = 0) -> dict[str, int]:
    """Kill trainers until so many were killed, restarting whenever all is done; then let them finish.

    Returns:
        How many were killed, how many stores were finished on the way, and how many trainers failed by themselves.
    """
    rng, told = random.Random(seed), {"killed": 0, "finished": 0, "failed": 0}
    shards = [work.shard_of(RUNS, index, processes) for index in range(processes)]
    while told["killed"] < kills:
        if not store.missing(RUNS):  # done before enough were killed: begin again
            told["finished"] += 1
            for shard in store.rows_path.glob("*"):
                shard.unlink()
        children = [life(store, runs) for runs in shards]
        time.sleep(rng.uniform(0.0, 1.2))
        for child in children:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                told["failed"] += status != 0
                continue
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            told["killed"] += 1
    for runs in shards:
        _, status = os.waitpid(life(store, runs), 0)
        told["failed"] += status != 0
    return told


def metrics_of(store: Store) -> dict[str, dict]:
    """What each run measured, provenance aside."""
    return {key: row["metrics"] for key, row in store.rows().items()}


def lines_of(store: Store) -> list[str]:
    """The key of every line of every shard; raises if one is torn."""
    return [
        json.loads(line)["key"] for shard in store.rows_path.glob("*.jsonl") for line in shard.read_text().splitlines()
    ]


def check(folder: Path, kills: int, processes: int = 1, seed: int = 0) -> dict[str, int]:
    """Torment a store and compare it with an undisturbed one.

    Raises:
        AssertionError: naming what is missing, doubled, torn or different.
    """
    torch.set_num_threads(1)
    undisturbed, tormented = Store(folder / "undisturbed"), Store(folder / "tormented")
    for index in range(processes):  # the same stacks as below
        work.compute(work.shard_of(RUNS, index, processes), undisturbed, "cpu", stack_size=2, quiet=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = torment(tormented, kills, processes, seed)
        assert not told["failed"], f"{told['failed']} trainers failed by themselves"
        assert sorted(lines_of(tormented)) == sorted(run.key for run in RUNS), "a row is missing or doubled"
        assert metrics_of(tormented) == metrics_of(undisturbed), "a number differs"
    left = [path.name for path in tormented.path.rglob("*.pt")]
    assert not left, f"checkpoints are left behind: {left}"
    return told


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = check(Path(name), options.kills, options.processes, options.seed)
    rows = pd.read_csv(OUT) if OUT.exists() else None
    row = {"kills": found["killed"], "processes": options.processes, "stores finished on the way": found["finished"],
           "runs": len(RUNS), "seed": options.seed, "code": SOURCES, "torch": torch.__version__,
           "date": date.today().isoformat()}  # fmt: skip
    pd.concat([rows, pd.DataFrame([row])], ignore_index=True).to_csv(OUT, index=False)
    print(
        f"{found['killed']} kills, {found['finished']} stores finished on the way: every row once, every number the same."
    )
