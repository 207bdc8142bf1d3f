"""The store: a folder of text files with one row per run, its configuration, metrics and provenance.

A row is a line of JSON. A *shard* is a file of such lines; one writer writes it whole, its name ends with a hash of its
content, and it never changes. So writers cannot collide, and folders of several machines are merged by copying. A shard or
line that is not as it was written is named in a warning, and the line is left out. A row's key is `config.Run.key`.

Of several rows with one key, a finished one wins over a diverged one, then the older one, then the one whose digest sorts
first. Rows of one key that disagree are named in a warning (`Store.conflicts`): retrain the run (`dtcl audit`), and delete the file that is wrong.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from . import encoder_files
from .config import METRICS, REVISION, Run
from .data import LABEL_FRACTIONS
from .encoder import Encoder
from .files import check_writable, content_hash, write_whole
from .traces import Trace

if TYPE_CHECKING:
    import pandas as pd

    from .evaluate import Draws

RUN_COLUMNS = (
    "method", "discriminator", "sigma", "seed", "tau_alpha", "tau_beta", "lambda_", "projector", "projector_dim",
    "replicate",
)  # fmt: skip
ORIGIN_COLUMNS = (
    "device", "device_name", "instructions", "precision", "torch", "stack", "seconds", "sources", "commit", "created",
)  # fmt: skip
COLUMNS = (*RUN_COLUMNS, "epochs", "label_fraction", *METRICS, "status", "key", "protocol", *ORIGIN_COLUMNS, "shard")
# What the provenance of every row has at least.
PROVENANCE: dict[str, type | tuple[type, ...]] = {
    "created": str, "device": str, "precision": str, "torch": str, "sources": str, "stack": int, "seconds": (int, float),
}  # fmt: skip
ROUNDING = 1e-9  # metrics of one run that differ by more are two results
UNREADABLE = (ValueError, RecursionError, OverflowError, OSError)  # what a damaged file may raise while it is read
KEY = re.compile('"key": "([^"]*)"')  # as `Store.add` writes it
FRACTIONS = tuple(str(fraction) for fraction in LABEL_FRACTIONS)


def default_path() -> Path:
    """The folder of results: $DTCL_RESULTS, else `results/` of the checkout this package runs from, else ./results."""
    if named := os.environ.get("DTCL_RESULTS"):
        return Path(named)
    checkout = Path(__file__).resolve().parent.parent
    return (checkout if (checkout / "pyproject.toml").exists() else Path.cwd()) / "results"


def digest(entry: dict[str, Any]) -> str:
    """Sixteen hexadecimal digits of an entry, without its fields `digest` and `shard`."""
    said = {name: value for name, value in entry.items() if name not in ("digest", "shard")}
    return content_hash(json.dumps(said, sort_keys=True).encode(), 16)


def check_digest(entry: dict[str, Any], line: str = "") -> None:
    """Raise ValueError unless an entry's digest fits; `line` is its text, if known, from which that is seen faster."""
    stored = entry.get("digest")
    text = line.replace(f'"digest": "{stored}", ', "", 1)  # as `digest` writes it, if `Store.add` wrote the line
    if not (text and stored == content_hash(text.encode(), 16)) and stored != digest(entry):
        raise ValueError("it is not as it was written (its digest differs)")


def check_row(row: Any) -> None:
    """Raise ValueError unless a row is complete and consistent, and its key follows from its configuration."""
    try:
        run = Run.from_dict(row["run"])
        if set(row["metrics"]) != set(FRACTIONS):
            raise ValueError(f"it has metrics at {', '.join(row['metrics']) or 'no label fraction'}")
        values = [row["metrics"][fraction][name] for fraction in FRACTIONS for name in METRICS]
        if wrong := [value for value in values if value is not None and not 0 <= value <= 1]:
            raise ValueError(f"{wrong[0]!r} is no fraction correct")
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


class Fixed(dict):
    """A dictionary that refuses to be changed; a deep copy of it is an ordinary one."""

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError("a stored row cannot be changed; change a deep copy")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse

    def __reduce__(self) -> tuple:
        return dict, (dict(self),)


def fixed(parsed: dict[str, Any]) -> Fixed:
    """A parsed object as a dictionary, with tuples for lists, that cannot be changed."""
    for name, value in parsed.items():
        if type(value) is list:
            parsed[name] = tuple(value)
    return Fixed(parsed)


@cache
def sound_row(line: str) -> dict[str, Any] | None:
    """The row of a line, parsed once a process; None for one of another `REVISION`, whose numbers mean something else.

    Raises:
        ValueError: for a line that cannot be trusted.
    """
    row = json.loads(line, object_hook=fixed)
    if not isinstance(row, dict):
        raise ValueError("it is no row")
    check_digest(row, line)
    if row.get("revision", REVISION) != REVISION:
        return None
    check_row(row)
    return row


def check_draws(draws: Draws, metrics: dict[str, dict[str, float | None]], count: int) -> None:
    """Raise ValueError unless there are `count` draws of labels (one where all are used), and their means are the metrics."""
    for fraction, scores in metrics.items():
        for name, value in scores.items():
            each = draws[fraction][name]
            if len(each) != (count if float(fraction) < 1 else 1):
                raise ValueError(f"it has {len(each)} draws of labels at {fraction}")
            fits = value is None if None in each else value is not None and abs(sum(each) / len(each) - value) <= ROUNDING  # type: ignore[arg-type]
            if not fits:
                raise ValueError(f"its {name} at {fraction} is not the mean of its draws")


def shard_name(text: str) -> str:
    """The name of a shard of this content, written now: the time, and a hash of the content."""
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S")
    return f"{stamp}-{content_hash(text.encode())}.jsonl"


class Store:
    """A folder of rows, traces and encoders.

    Args:
        path: the folder that holds `rows/`; None means `default_path()`.

    Attributes:
        conflicts: after `rows`, those keys among the ones asked for whose rows disagree, and the shards of these.
    """

    def __init__(self, path: str | Path | None = None):
        self.path = Path(path) if path is not None else default_path()
        self.rows_path = self.path / "rows"
        self.traces_path = self.path / "traces"
        self.encoders_path = self.path / "encoders"
        self.checkpoints_path = self.path / ".checkpoints"
        self.conflicts: dict[str, tuple[str, ...]] = {}

    def add(self, rows: Sequence[dict[str, Any]], networks: Mapping[str, bytes] = MappingProxyType({})) -> Path:
        """Write rows as one new shard, whole or not at all; returns its path.

        Args:
            rows: at least one.
            networks: files of `encoder_files` that they name, written before them. A warning says if these cannot be written;
                the rows then name none.

        Raises:
            ValueError: for no row, or for one that `check_row` refuses.
            OSError: if it cannot be written; the message names the file.
        """
        if not rows:
            raise ValueError("a shard needs one row at least.")
        for row in rows:
            check_row(row)
        told = [{**row, "digest": digest(row)} for row in rows]
        text = "".join(json.dumps(row, sort_keys=True, allow_nan=False) + "\n" for row in told)
        target = self.rows_path / shard_name(text)
        new = [name for name in networks if not (self.encoders_path / name).exists()]
        try:
            for name in new:
                write_whole(networks[name], self.encoders_path / name)
            write_whole(text, target)
        except OSError as error:
            if not networks:
                raise
            warnings.warn(f"trained encoders are not kept: {error}", stacklevel=3)
            rows_there = "".join(path.read_text(encoding="utf-8", errors="replace") for path in self.rows_path.glob("*.jsonl"))
            for name in new:
                if name not in rows_there:  # else another process stored the same network
                    (self.encoders_path / name).unlink(missing_ok=True)
            return self.add([{name: value for name, value in row.items() if name != "encoder"} for row in rows])
        return target

    def check_writable(self) -> None:
        """Raise OSError, naming the folder, unless rows, traces and checkpoints can be written now."""
        for folder, what in ((self.rows_path, "results"), (self.traces_path, "traces"), (self.checkpoints_path, "checkpoints")):
            check_writable(folder, what)

    def add_trace(self, trace: Trace) -> None:
        """Write what a run recorded; a later trace of the same run replaces it. OSError names a file that cannot be written."""
        entry = trace.to_dict()
        text = json.dumps({**entry, "digest": digest(entry)}, allow_nan=False) + "\n"
        write_whole(text, self.traces_path / f"{trace.key}.json")

    def trace(self, run: Run) -> Trace | None:
        """What a run recorded; None if there is no such file, or, with a warning that names it, if it cannot be trusted."""
        path = self.traces_path / f"{run.key}.json"
        if not path.exists():
            return None
        try:
            entry = json.loads(path.read_bytes().decode("utf-8", errors="replace"))
            if isinstance(entry, dict):
                check_digest(entry)
            trace = Trace.from_dict(entry)
            if trace.key != run.key or len(trace.loss) != run.protocol.epochs:
                raise ValueError("it belongs to another run")
        except UNREADABLE as error:
            warnings.warn(f"{path.name} is left out: {error}", stacklevel=2)
            return None
        return trace

    def rows(self, keys: Collection[str] | None = None) -> Mapping[str, dict[str, Any]]:
        """The winning row of every key, or of `keys`. A line is parsed once a process and shared: nothing in a row can be changed.

        A line that cannot be trusted is left out. A call that asks for its key warns, and names it (Python shows the same warning once).
        """
        best: dict[str, tuple[tuple, dict[str, Any]]] = {}
        self.conflicts = {}
        for shard in sorted(self.rows_path.glob("*.jsonl")):
            for row in self.shard(shard.name, keys):
                made = datetime.fromisoformat(row["provenance"]["created"])
                age = (made if made.tzinfo else made.replace(tzinfo=timezone.utc)).timestamp()
                rank = (row["status"] != "ok", age, row["digest"], shard.name)
                held = best.get(row["key"])
                if held is not None and disagree(held[1], row):
                    before = self.conflicts.get(row["key"], (held[1]["shard"],))
                    self.conflicts[row["key"]] = (*before, shard.name)
                if held is None or rank < held[0]:
                    best[row["key"]] = (rank, row)
        for key, names in self.conflicts.items():
            shown = f"the row of {best[key][1]['shard']} is shown. Delete the wrong one."
            warnings.warn(f"{' and '.join(names)} disagree about run {key}; {shown}", stacklevel=2)
        return MappingProxyType({key: row for key, (_, row) in best.items()})

    def encoder(self, row: dict[str, Any]) -> Encoder | None:
        """The trained network of a row of `rows`; None, with a warning that says why, if it cannot be had."""
        try:
            return encoder_files.read(row, self.encoders_path)
        except UNREADABLE as error:
            warnings.warn(f"no encoder of run {row['key']}: {error}", stacklevel=2)
            return None

    def shard(self, name: str, keys: Collection[str] | None = None) -> list[dict[str, Any]]:
        """All sound rows of one shard, or those of `keys`, in its order, whether or not they win."""
        try:
            content = (self.rows_path / name).read_bytes()
        except OSError as error:
            warnings.warn(f"{name} is left out: {error.strerror}", stacklevel=3)
            return []
        if Path(name).stem.rpartition("-")[2] != content_hash(content):
            why = "or was renamed (its name ends with a hash of its content); its sound lines are used"
            warnings.warn(f"{name} is not as it was written, {why}", stacklevel=3)
        rows: list[dict[str, Any]] = []
        for number, line in enumerate(content.decode("utf-8", errors="replace").splitlines(), 1):
            if not line.strip() or (keys is not None and len(named := KEY.findall(line)) == 1 and named[0] not in keys):
                continue
            try:
                row = sound_row(line)
            except UNREADABLE as error:
                warnings.warn(f"{name}, line {number} is left out: {error}", stacklevel=3)
                continue
            if row is not None and (keys is None or row["key"] in keys):
                rows.append(Fixed({**row, "shard": name}))
        return rows

    def missing(
        self, runs: Iterable[Run], traced: Callable[[Run], bool] = lambda run: False, present: Collection[str] | None = None
    ) -> list[Run]:
        """Those of `runs` that have no row yet, or no trace where `traced` asks for one; each once, in order.

        `present` are the keys of `rows`, if these were read already.
        """
        distinct = {run.key: run for run in runs}
        present = self.rows(distinct) if present is None else present
        return [run for key, run in distinct.items() if key not in present or (traced(run) and self.trace(run) is None)]

    def load(self, runs: Iterable[Run] | None = None) -> pd.DataFrame:
        """The winning rows, or those of `runs`, as a data frame; see `load`."""
        return frame(self.rows(None if runs is None else {run.key for run in runs}).values())


def disagree(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two rows of one run differ in status, or in a metric by more than rounding."""
    if "diverged" in (one["status"], other["status"]):
        return one["status"] != other["status"]
    pairs = [(one["metrics"][f][name], other["metrics"][f][name]) for f in FRACTIONS for name in METRICS]
    return any(abs(a - b) > ROUNDING for a, b in pairs)


def frame(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Rows as a data frame with `COLUMNS`, one row per run and label fraction, in a fixed order."""
    import pandas as pd  # not needed where rows are only counted

    lines = []
    for row in rows:
        run, origin = Run.from_dict(row["run"]), row["provenance"]
        told = {"epochs": run.protocol.epochs, "protocol": content_hash(run.protocol.text.encode())}
        told |= {name: getattr(run, name) for name in RUN_COLUMNS} | {name: origin.get(name) for name in ORIGIN_COLUMNS}
        told |= {name: row[name] for name in ("status", "key", "shard")}
        lines += [{**told, **scores, "label_fraction": float(fraction)} for fraction, scores in row["metrics"].items()]
    table = pd.DataFrame(lines, columns=list(COLUMNS))
    numbers = ("sigma", "tau_alpha", "tau_beta", "lambda_", "projector_dim", *METRICS)
    table = table.astype(dict.fromkeys(numbers, float))  # None becomes NaN
    return table.sort_values([*RUN_COLUMNS, "epochs", "protocol", "label_fraction"], ignore_index=True)


def load(path: str | Path | None = None) -> pd.DataFrame:
    """Every measured run, one row per run and label fraction.

    Args:
        path: a results folder; None means `default_path()`. ValueError if there is none.

    Returns:
        A data frame with `COLUMNS`: the run's configuration (for methods with one temperature it is in tau_alpha),
        label_fraction, the metrics as fractions correct (NaN for a run that diverged), and its provenance. Rows of several
        protocols stand side by side; `protocol` is a hash that tells them apart, so take no mean over all of them.
    """
    store = Store(path)
    if not store.path.is_dir():
        raise ValueError(f"{store.path} is no folder of results.")
    return store.load()
