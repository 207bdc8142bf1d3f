"""The store: which runs exist, and what they measured. Text shards, one row a run.

A row is a line of JSON: the run's whole configuration, its metrics at three label fractions, and where it came from. A
*shard* is a file of such lines, written whole by one writer and never changed, so two writers cannot meet, nothing is ever
torn by us, and folders from several machines merge by copying. Its name ends with a hash of its content. Reading still
survives what others may do to a file: a shard that is not as it was written is named in a warning, and so is each line of
it that is not a complete row as it was written; such lines are left out.

If a key has several rows, one wins by a stated rule: a finished run before a diverged one, then the older row, then the one
whose digest sorts first. Rows of one key that disagree are named in a warning (`Store.conflicts`): then somebody has to say
which one is meant, and delete the other.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from .config import METRICS, REVISION, Run, protocol_hash
from .data import LABEL_FRACTIONS
from .encoder import Encoder
from .engine import encoder_files
from .files import check_writable, write_whole
from .traces import Trace

if TYPE_CHECKING:
    import pandas as pd

    from .evaluate import Draws

RUN_COLUMNS = (
    "method", "discriminator", "sigma", "seed", "tau_alpha", "tau_beta", "lambda_", "projector", "projector_dim",
    "replicate",
)  # fmt: skip
ORIGIN_COLUMNS = ("device", "precision", "torch", "stack", "seconds", "sources", "commit", "created")
COLUMNS = (*RUN_COLUMNS, "epochs", "label_fraction", *METRICS, "status", "key", "protocol", *ORIGIN_COLUMNS, "shard")
# What every row says of where it comes from; more may stand beside it.
PROVENANCE: dict[str, type | tuple[type, ...]] = {
    "created": str, "device": str, "precision": str, "torch": str, "sources": str, "stack": int, "seconds": (int, float),
}  # fmt: skip
ROUNDING = 1e-9  # metrics of one run that differ by more are two results
UNREADABLE = (ValueError, RecursionError, OverflowError, OSError)  # what a damaged file may raise while it is read
FRACTIONS = tuple(str(fraction) for fraction in LABEL_FRACTIONS)


def default_path() -> Path:
    """Where results live: $DTCL_RESULTS, else `results/` of the checkout this package runs from, else ./results."""
    if named := os.environ.get("DTCL_RESULTS"):
        return Path(named)
    checkout = Path(__file__).resolve().parent.parent
    return (checkout if (checkout / "pyproject.toml").exists() else Path.cwd()) / "results"


def digest(entry: dict[str, Any]) -> str:
    """Sixteen hexadecimal digits of what an entry says, itself and the file it came from aside."""
    said = {name: value for name, value in entry.items() if name not in ("digest", "shard")}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]


def check_row(row: Any) -> None:
    """Raise ValueError unless `row` is complete, as it was written, and its key follows from its configuration."""
    try:
        if row["digest"] != digest(row):
            raise ValueError("it is not as it was written (its digest differs)")
        run = Run.from_dict(row["run"])
        if set(row["metrics"]) != set(FRACTIONS):
            raise ValueError(f"it has metrics at {', '.join(row['metrics']) or 'no label fraction'}")
        values = [row["metrics"][fraction][name] for fraction in FRACTIONS for name in METRICS]
        for value in values:
            if value is not None and not 0 <= value <= 1:
                raise ValueError(f"{value!r} is no fraction correct")
        if row["status"] != ("diverged" if None in values else "ok"):
            raise ValueError(f"status {row['status']!r} does not fit its metrics")
        if "draws" in row or run.protocol.label_draws > 1:
            check_draws(row["draws"], row["metrics"], run.protocol.label_draws)
        for name, kind in PROVENANCE.items():
            if not isinstance(row["provenance"][name], kind):
                raise ValueError(f"its provenance has no sound {name!r}")
        datetime.fromisoformat(row["provenance"]["created"])
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"it is incomplete ({error!r})") from None
    if run.key != row["key"]:
        raise ValueError(f"its key {row['key']!r} does not follow from its configuration ({run.key})")


@cache
def sound_row(line: str) -> dict[str, Any] | None:
    """A line as a row, the same object each time; None for one of another `REVISION`: sound, but its numbers mean something else.

    Raises:
        ValueError: for a line that cannot be trusted.
    """
    row = json.loads(line)
    if isinstance(row, dict) and row.get("revision", REVISION) != REVISION and row.get("digest") == digest(row):
        return None
    check_row(row)
    return row


def check_draws(draws: Draws, metrics: dict[str, dict[str, float | None]], count: int) -> None:
    """Raise ValueError unless there are as many draws of labels as there should be, and their means are the metrics."""
    for fraction, scores in metrics.items():
        for name, value in scores.items():
            each = draws[fraction][name]
            if len(each) != (count if float(fraction) < 1 else 1):
                raise ValueError(f"it has {len(each)} draws of labels at {fraction}")
            finite = [one for one in each if one is not None]
            whole = sum(finite) / len(finite) if len(finite) == len(each) else None
            if (whole is None) != (value is None) or abs((whole or 0.0) - (value or 0.0)) > ROUNDING:
                raise ValueError(f"its {name} at {fraction} is not the mean of its draws")


def shard_name(text: str) -> str:
    """What a shard of this content, written now, is called: the time, and eight hexadecimal digits of its content."""
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S")
    return f"{stamp}-{content_hash(text.encode())}.jsonl"


def shard_lines(shards: Iterable[Path]) -> Iterator[tuple[Path, int, str]]:
    """Each line of some shards, with its shard and number; a warning names a shard that is not as it was written."""
    for shard in shards:
        try:
            content = shard.read_bytes()
        except OSError as error:
            warnings.warn(f"{shard.name} is left out: {error.strerror}", stacklevel=3)
            continue
        if shard.stem.rpartition("-")[2] != content_hash(content):
            why = "is not as it was written, or was renamed: its name ends with a hash of what it held; sound lines of it are used"
            warnings.warn(f"{shard.name} {why}", stacklevel=3)
        for number, line in enumerate(content.decode("utf-8", errors="replace").splitlines(), 1):
            if line.strip():
                yield shard, number, line


def content_hash(content: bytes) -> str:
    """Eight hexadecimal digits of what a shard holds."""
    return hashlib.sha256(content).hexdigest()[:8]


class Store:
    """A folder of shards.

    Args:
        path: the folder that holds `rows/`; None means `default_path()`.
    """

    def __init__(self, path: str | Path | None = None):
        self.path = Path(path) if path is not None else default_path()
        self.rows_path = self.path / "rows"
        self.traces_path = self.path / "traces"
        self.encoders_path = self.path / "encoders"
        self.checkpoints_path = self.path / ".checkpoints"
        # Keys of which `rows` found several results, and the shards of these.
        self.conflicts: dict[str, tuple[str, ...]] = {}

    def add(self, rows: Sequence[dict[str, Any]]) -> Path:
        """Write rows as one new shard: whole and on disk when this returns, or not at all.

        Raises:
            ValueError: for a row that `check_row` refuses.
        """
        told = [{**row, "digest": digest(row)} for row in rows]
        for row in told:
            check_row(row)
        text = "".join(json.dumps(row, sort_keys=True, allow_nan=False) + "\n" for row in told)
        target = self.rows_path / shard_name(text)
        write_whole(text, target)
        return target

    def check_writable(self) -> None:
        """Raise OSError, naming the folder, unless a shard, a trace and a checkpoint could be written now."""
        check_writable(self.rows_path, "results")
        check_writable(self.traces_path, "traces")
        check_writable(self.checkpoints_path, "checkpoints")

    def add_trace(self, trace: Trace) -> None:
        """Write what a run recorded; a later trace of the same run replaces it."""
        entry = trace.to_dict()
        write_whole(json.dumps({**entry, "digest": digest(entry)}, allow_nan=False) + "\n", self._trace_path(trace.key))

    def trace(self, run: Run) -> Trace | None:
        """What a run recorded; None, with a warning that names the file, if it cannot be trusted."""
        path = self._trace_path(run.key)
        if not path.exists():
            return None
        try:
            entry = json.loads(path.read_bytes().decode("utf-8", errors="replace"))
            if isinstance(entry, dict) and entry.pop("digest", None) != digest(entry):
                raise ValueError("it is not as it was written (its digest differs)")
            trace = Trace.from_dict(entry)
            if trace.key != run.key or len(trace.loss) != run.protocol.epochs:
                raise ValueError("it belongs to another run")
        except UNREADABLE as error:
            warnings.warn(f"{path.name} is left out: {error}", stacklevel=2)
            return None
        return trace

    def _trace_path(self, key: str) -> Path:
        return self.traces_path / f"{key}.json"

    def rows(self) -> Mapping[str, dict[str, Any]]:
        """The winning row of every key. Lines that cannot be trusted are left out with a warning that names them.

        A process makes the rows of a line once: they are shared by all who read it, and not to be changed.
        """
        best: dict[str, tuple[tuple, dict[str, Any]]] = {}
        self.conflicts = {}
        for shard, number, line in shard_lines(sorted(self.rows_path.glob("*.jsonl"))):
            try:
                row = sound_row(line)
            except UNREADABLE as error:
                warnings.warn(f"{shard.name}, line {number} is left out: {error}", stacklevel=2)
                continue
            if row is None:
                continue
            row = {**row, "shard": shard.name}
            rank = (row["status"] != "ok", _age(row), row["digest"], shard.name)
            held = best.get(row["key"])
            if held is not None and disagree(held[1], row):
                before = self.conflicts.get(row["key"], (held[1]["shard"],))
                self.conflicts[row["key"]] = (*before, shard.name)
            if held is None or rank < held[0]:
                best[row["key"]] = (rank, row)
        for key, names in self.conflicts.items():
            shown = best[key][1]["shard"]
            warnings.warn(
                f"{' and '.join(names)} disagree about run {key}; the row of {shown} is shown. Delete the wrong one.",
                stacklevel=2,
            )
        return MappingProxyType({key: row for key, (_, row) in best.items()})

    def add_encoders(self, encoder: Encoder, runs: Sequence[Run]) -> dict[str, str]:
        """Write a stack's networks and which run is which; returns what its rows tell of them. See `encoder_files`."""
        self.encoders_path.mkdir(parents=True, exist_ok=True)
        return encoder_files.write(encoder, runs, self.encoders_path)

    def encoder(self, row: dict[str, Any]) -> Encoder | None:
        """The trained network of a row of `rows`; None, with a warning that names the file, if it cannot be had."""
        try:
            return encoder_files.read(row, self.encoders_path)
        except UNREADABLE as error:
            warnings.warn(f"no encoder of run {row['key']}: {error}", stacklevel=2)
            return None

    def shard(self, name: str) -> list[dict[str, Any]]:
        """All sound rows of one shard, in its order, whether or not they win; lines that cannot be trusted are left out."""
        found = []
        for _, _, line in shard_lines([self.rows_path / name]):
            with contextlib.suppress(*UNREADABLE):
                row = json.loads(line)
                check_row(row)
                found.append({**row, "shard": name})
        return found

    def missing(self, runs: Iterable[Run], traced: Callable[[Run], bool] = lambda run: False) -> list[Run]:
        """Those of `runs` that have no row yet, or no trace where `traced` asks for one; each once, in order."""
        present = self.rows()
        return [
            run
            for key, run in {run.key: run for run in runs}.items()
            if key not in present or (traced(run) and self.trace(run) is None)
        ]

    def load(self, runs: Iterable[Run] | None = None) -> pd.DataFrame:
        """The winning rows as a data frame, one line a run and label fraction; see `load`."""
        present = self.rows()
        wanted = present.values() if runs is None else [present[r.key] for r in runs if r.key in present]
        return frame(wanted)


def _age(row: dict[str, Any]) -> float:
    """When a row was made, in seconds."""
    made = datetime.fromisoformat(row["provenance"]["created"])
    return (made if made.tzinfo else made.replace(tzinfo=timezone.utc)).timestamp()


def disagree(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two finished rows of one run have metrics that differ by more than rounding."""
    if "diverged" in (one["status"], other["status"]):
        return one["status"] != other["status"]
    pairs = [(one["metrics"][f][name], other["metrics"][f][name]) for f in FRACTIONS for name in METRICS]
    return any(abs((a or 0.0) - (b or 0.0)) > ROUNDING for a, b in pairs)


def frame(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Rows as a data frame with `COLUMNS`, one line a run and label fraction, in a fixed order."""
    import pandas as pd  # not before: who counts rows alone (`status`) does not wait for it

    lines = []
    for row in rows:
        run, origin = Run.from_dict(row["run"]), row["provenance"]
        told = {"epochs": run.protocol.epochs, "protocol": protocol_hash(run.protocol)}
        told |= {name: getattr(run, name) for name in RUN_COLUMNS} | {name: origin.get(name) for name in ORIGIN_COLUMNS}
        told |= {name: row[name] for name in ("status", "key", "shard")}
        for fraction, scores in row["metrics"].items():
            measured = {name: np.nan if scores[name] is None else scores[name] for name in METRICS}
            lines.append({**told, **measured, "label_fraction": float(fraction)})
    table = pd.DataFrame(lines, columns=list(COLUMNS))
    for name in ("sigma", "tau_alpha", "tau_beta", "lambda_", "projector_dim", *METRICS):
        table[name] = table[name].astype(float)
    order = [*RUN_COLUMNS, "epochs", "protocol", "label_fraction"]
    return table.sort_values(order, ignore_index=True)


def load(path: str | Path | None = None) -> pd.DataFrame:
    """Every measured run, one line a run and label fraction.

    Args:
        path: a results folder; None means the project's own.

    Returns:
        A data frame with `COLUMNS`: the run's configuration (for methods with one temperature it is in tau_alpha),
        label_fraction, the metrics as fractions correct (NaN for a run that diverged), and where the row came from;
        `protocol` is a short hash of the protocol.
    """
    return Store(path).load()


def encoder(row: dict[str, Any], path: str | Path | None = None) -> Encoder | None:
    """The trained network of a row, if it was kept; see `Store.encoder`.

    Args:
        row: as `Store.rows` gives it.
        path: a results folder; None means the project's own.
    """
    return Store(path).encoder(row)
