"""Damaged files, and kills where the trainer's harness (`faults.py`) does not look, by the hundred.

    python tests/fuzz.py files --tries 1400      # rows, traces, checkpoints, networks, changed in some way
    python tests/fuzz.py kills --tries 100       # while the trunk is compiled, networks are written, stores are merged

`make fuzz` runs both. Each try ends in one of four ways: *as before* (every number is what it was, nothing is said), *named*
(something is lost or refused, and a message names it), *silent* (a number differs, or is lost, without a word) or *failed* (an
error that nobody explains). The last two must not happen. Counts are added to `benchmarks/fuzz.csv`, which the book shows.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import torch
from faults import add_line, code

from dtcl_core import encoder_files, pretrain
from dtcl_core.config import Protocol, Run
from dtcl_core.files import write_whole
from dtcl_core.launch import local
from dtcl_core.results import Store

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "benchmarks" / "fuzz.csv"
ENDS = ("as before", "named", "silent", "failed")
TINY = Protocol(split_sizes=(224, 40, 40, 40), batch_size=64, channels=(8, 8, 8), epochs=2)
RUNS = [Run("dw_pairs", 0.2, 0.1, protocol=TINY), Run("dann", 0.2, lambda_=0.5, protocol=TINY), Run(protocol=TINY)]


# --- files ----------------------------------------------------------------------------------------------------------


def damaged(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """Some of a file's bytes changed, lost, doubled or replaced; or another file's in their place."""
    a, b = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    kinds: list[Callable[[], bytes]] = [
        lambda: content[:a] + bytes([content[a % len(content)] ^ 1 << rng.randrange(8)]) + content[a + 1 :],
        lambda: content[:a],
        lambda: content[a:],
        lambda: content[:a] + content[b:],
        lambda: content[:b] + content[a:b] + content[b:],
        lambda: content[:a] + rng.randbytes(b - a) + content[b:],
        lambda: content[:a] + bytes(b - a) + content[b:],
        lambda: content + rng.randbytes(1 + a % 64),
        lambda: content.replace(b"0.", b"0.9", 1) if b"0." in content else content[::-1],
        lambda: other,
        lambda: b"",
    ]
    return rng.choice(kinds)()


def with_copied_row(store: Store, rng: random.Random) -> str:
    """A shard such as another machine might leave: a sound row of a run that is there, with another number and age."""
    row = dict(rng.choice(list(store.rows().values())))
    del row["shard"], row["digest"]
    row = json.loads(json.dumps(row))
    row["metrics"]["0.01"]["test_ood"] = another = rng.random()
    if "draws" in row:
        row["draws"]["0.01"]["test_ood"] = [another] * len(row["draws"]["0.01"]["test_ood"])
    created = f"{rng.randrange(1990, 2100)}-01-01T00:00:00+00:00"
    return store.add([{**row, "provenance": {**row["provenance"], "created": created}}]).name


def plain(state: Any) -> Any:
    """A nested state as plain values, to be compared."""
    if isinstance(state, torch.Tensor):
        return state.tolist()
    if isinstance(state, dict):
        return {key: plain(value) for key, value in state.items()}
    return [plain(value) for value in state] if isinstance(state, (list, tuple)) else state


def stored(store: Store, run_by_run: bool = False) -> dict[str, Any]:
    """Everything that is read from a store: metrics, traces and networks by run. Rows are read all at once, or run by run."""
    rows = {run.key: row for run in RUNS if (row := store.rows({run.key}).get(run.key))} if run_by_run else store.rows()
    found: dict[str, Any] = {f"row {key}": row["metrics"] for key, row in rows.items()}
    found |= {f"trace {run.key}": trace.to_dict() for run in RUNS if (trace := store.trace(run)) is not None}
    for key, row in rows.items():
        if (encoder := store.encoder(row)) is not None:
            found[f"network {key}"] = plain(encoder.state_dict())
    return found


def read(store: Store, checkpoint: Path, run_by_run: bool = False) -> dict[str, Any]:
    """Everything that is read from a store, and the state of a checkpoint."""
    found = stored(store, run_by_run)
    stack = pretrain.Stack(RUNS, "cpu", record=True)
    try:
        stack.restore(checkpoint)
        found["checkpoint"] = plain(stack.state())
    except ValueError as error:
        warnings.warn(f"{checkpoint.name}: {error}", stacklevel=1)
    return found


def outcome(
    store: Store, checkpoint: Path, sound: dict[str, Any], name: str, copied: bool = False, run_by_run: bool = False
) -> str:
    """How a try ends with a file of that name; a sound row that was copied beside another may win, if that is told."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = read(store, checkpoint, run_by_run)
        except Exception as error:  # whatever it is, nobody explains it
            print(f"{name}: {error!r}")
            return "failed"
    said = any(name in str(w.message) for w in told)
    if any(found[key] != sound.get(key) for key in found) and not (copied and said):
        return "silent"  # a number is not what it was: no word makes that good
    if len(found) < len(sound) and not said:
        return "silent"
    return "named" if said else "as before"


def trained(folder: Path) -> tuple[Store, Path]:
    """A store with three runs, each with a trace and a network, and a checkpoint on the way."""
    store, checkpoint = Store(folder / "store"), folder / "store" / "stack.pt"
    local.compute(RUNS, store, "cpu", record=lambda run: True, quiet=True)
    stack = pretrain.Stack(RUNS, "cpu", record=True)
    stack.train_epoch()
    pretrain.write_checkpoint(stack.state(), checkpoint)
    return store, checkpoint


def fuzz_files(tries: int, rng: random.Random, folder: Path) -> dict[str, Counter]:
    """Change one file a try, read everything, and put the file back."""
    store, checkpoint = trained(folder)
    sound, counts = read(store, checkpoint), {}
    kinds = {
        "rows": sorted(store.rows_path.iterdir()),
        "traces": sorted(store.traces_path.iterdir()),
        "networks": sorted(store.encoders_path.iterdir()),
        "checkpoints": [checkpoint],
    }
    for number in range(tries):
        kind = (*kinds, "copied rows")[number % (len(kinds) + 1)]
        run_by_run = rng.random() < 0.5
        if kind == "copied rows":
            name = with_copied_row(store, rng)
            end = outcome(store, checkpoint, sound, name, copied=True, run_by_run=run_by_run)
            (store.rows_path / name).unlink()
        else:
            path, others = rng.choice(kinds[kind]), [p for paths in kinds.values() for p in paths]
            whole = path.read_bytes()
            path.write_bytes(damaged(whole, rng.choice(others).read_bytes(), rng))
            end = outcome(store, checkpoint, sound, path.name, run_by_run=run_by_run)
            path.write_bytes(whole)
        counts.setdefault(kind, Counter())[end] += 1
    return counts


# --- kills ----------------------------------------------------------------------------------------------------------


COMPILE = "from dtcl_core.engine import native; native.load((16, 16, 32)); print('loaded')"


def kill_while_it_compiles(rng: random.Random, folder: Path) -> str:
    """The trunk's compiler is killed with its caller; the next caller must have a library that works."""
    cache = folder / f"cache-{rng.random()}"
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", COMPILE]
    child = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(rng.uniform(1.0, 12.0))
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    again = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    shutil.rmtree(cache, ignore_errors=True)
    return "as before" if again.stdout.strip() == "loaded" and not again.stderr else "failed"


def killed(work: Callable[[], None], rng: random.Random, seconds: float) -> None:
    """Fork, do the work there again and again, and kill it at a random moment."""
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            while True:
                work()
        os._exit(0)
    time.sleep(rng.uniform(0.0, seconds))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def kill_while_it_writes_networks(store: Store, rng: random.Random, folder: Path) -> str:
    """Whatever network has its name by then is whole."""
    target, row = folder / f"networks-{rng.random()}", next(iter(store.rows().values()))
    target.mkdir()
    encoder, run = encoder_files.read(row, store.encoders_path), Run.from_dict(row["run"])

    def write() -> None:
        with torch.no_grad():
            encoder.weight += 1e-3
        name, content = encoder_files.packed(encoder, [run])
        write_whole(content, target / name)

    killed(write, rng, 0.3)
    for path in target.glob("*.npz"):
        try:
            encoder_files.read({**row, "encoder": {"file": path.name, "place": 0}}, target)
        except ValueError:
            return "failed"
    left = [path for path in target.iterdir() if path.suffix not in (".npz", ".tmp")]
    shutil.rmtree(target)
    return "failed" if left else "as before"


def kill_while_it_merges(store: Store, sound: dict[str, Any], rng: random.Random, folder: Path) -> str:
    """Rows, traces and networks are copied byte by byte, as `cp` does; a half copy is named, and copying again mends it."""
    target = Store(folder / f"merged-{rng.random()}")

    def copy() -> None:
        for path in sorted(p for p in store.path.rglob("*") if p.is_file()):
            there = target.path / path.relative_to(store.path)
            there.parent.mkdir(parents=True, exist_ok=True)
            with open(there, "wb", buffering=0) as file:
                for byte in range(0, len(content := path.read_bytes()), 97):
                    file.write(content[byte : byte + 97])

    killed(copy, rng, 0.1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        half = stored(target)
    torn = [
        path
        for path in (*target.rows_path.glob("*"), *target.traces_path.glob("*"))
        if path.read_bytes() != (store.path / path.relative_to(target.path)).read_bytes()
    ]
    unnamed = [path for path in torn if not any(path.name in str(w.message) for w in told)]
    if unnamed or any(half[key] != sound[key] for key in half):
        return "silent"
    subprocess.run(["cp", "-r", f"{store.path}/.", str(target.path)], check=True)
    mended = stored(target) == sound
    shutil.rmtree(target.path)
    return ("named" if torn else "as before") if mended else "failed"


PHASES = ("compiling the trunk", "writing networks", "merging stores", "writing networks", "merging stores")


def fuzz_kills(tries: int, rng: random.Random, folder: Path) -> dict[str, Counter]:
    """A fifth of the tries while it compiles, which takes longest; the others shared out."""
    torch.set_num_threads(1)
    store, _ = trained(folder)
    sound = stored(store)
    counts: dict[str, Counter] = {}
    for number in range(tries):
        phase = PHASES[number % len(PHASES)]
        if phase == "compiling the trunk":
            end = kill_while_it_compiles(rng, folder)
        elif phase == "writing networks":
            end = kill_while_it_writes_networks(store, rng, folder)
        else:
            end = kill_while_it_merges(store, sound, rng, folder)
        counts.setdefault(phase, Counter())[end] += 1
    return counts


FUZZERS = {"files": fuzz_files, "kills": fuzz_kills}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=FUZZERS)
    parser.add_argument("--tries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--look-only", action="store_true", help="add nothing to benchmarks/fuzz.csv")
    options = parser.parse_args()
    tested = code()  # a file may be edited while this runs
    with tempfile.TemporaryDirectory() as name:
        found = FUZZERS[options.what](options.tries, random.Random(options.seed), Path(name))
    for what, counts in found.items():
        row = {"what": what, "tries": counts.total(), **{end: counts[end] for end in ENDS}, "seed": options.seed, "code": tested,
               "torch": torch.__version__, "date": date.today().isoformat()}  # fmt: skip
        print(", ".join(f"{name} {value}" for name, value in row.items()))
        if not options.look_only:
            add_line(row, OUT)
    bad = sum(counts["silent"] + counts["failed"] for counts in found.values())
    sys.exit(f"{bad} tries ended silently or failed." if bad else 0)


if __name__ == "__main__":
    main()
