"""What the page on trust shows: what audits, kills, fuzzers and comparisons came to, and whether the code is still that one.

Functions that take `now` are given the hash of the code as it is, and name code of that hash `NOW`.
"""

from __future__ import annotations

import ast
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from .. import results
from ..launch import audit
from . import agreement, benchmarked, tables
from .benchmarked import DEVICES, NOT_MEASURED

NOW = "as it is now"
TESTS = benchmarked.FOLDER.parent / "tests" / "test_properties.py"
OUTCOMES = (
    "as before: numbers unchanged, or commands obeyed; named: loss or refusal, with a message; silent: a number changed or lost"
    " without a word; failed: unexplained error"
)
LARGEST = "largest: of any accuracy, mean over label fractions"
DIFFERENCES = "embeddings: of their largest entry; accuracy: at 1 % of labels"
GRADIENTS = "median and worst parameter; n seeds"
KILLS = "resumed: from a checkpoint; writes hit: files left half-written; code: hash of what trains and stores"
PACKAGES = ("numpy", "pandas", "scipy", "matplotlib", "jupyter-book")
SIDES, IMAGES, CHANNELS, EPSILON = (14, 28, 56), 512, 16, 1e-5  # of what `batch_norm_error` normalises


def power(value: float) -> str:
    """A small number as its power of ten and one digit.

    >>> power(0.0123), power(0.0)
    ('1e-02', '0')
    """
    return f"{value:.0e}" if value else "0"


def named_code(codes: Iterable[str], now: str) -> list[str]:
    """Hashes of code, that of the code as it is now as `NOW`."""
    return [NOW if code == now else code for code in codes]


def stacks_again(now: str) -> pd.DataFrame:
    """Whole stacks trained again in the stacks of their rows (`audits.csv`); of a row audited twice, the failure counts.

    Returns:
        A line for each length, code and day: epochs, code, date, rows, identical, largest (difference of any accuracy, mean over
        label fractions); empty if none was.
    """
    once = benchmarked.audits()
    if once.empty:
        return once
    by = once.groupby(["epochs", "sources", "date"], sort=False)
    found = by.agg(rows=("key", "nunique"), identical=("identical", "sum"), largest=("largest", "max")).reset_index()
    found = found.assign(largest=[power(v) for v in found.largest], sources=named_code(found.sources, now))
    return found.rename(columns={"sources": "code"})


def rows_elsewhere() -> str:
    """What `audit.verdict` says of rows drawn from all parts and trained again in other stacks (`audited_rows.csv`), a line each."""
    drawn = benchmarked.load("audited_rows")
    return "not run yet" if drawn.empty else "\n".join(audit.verdict(drawn)[1])


def lacking(rows: Iterable[Mapping[str, Any]], origin: Sequence[str]) -> pd.DataFrame:
    """How many rows do not name their commit, or something that decides last digits.

    Args:
        rows: as from the values of `results.Store.rows`.
        origin: the names of what decides last digits, `provenance.ORIGIN`. A row without a trunk lacks nothing: PyTorch's
            operators made it.

    Returns:
        Columns: not named, rows, of; without what every row names. If each names all, one line says so.
    """
    told = [row["provenance"] for row in rows]
    names = ["commit", *(name for name in origin if name != "trunk")]
    counts = {name.replace("_", " "): sum(each.get(name) is None for each in told) for name in names}
    lines = [(name, count, len(told)) for name, count in counts.items() if count] or [("nothing", len(told), len(told))]
    return pd.DataFrame(lines, columns=["not named", "rows", "of"])


def kills(now: str) -> pd.DataFrame:
    """What came of trainers that were killed at random (`faults.csv`), with the code as it is now if it was tried, or with each."""
    table = benchmarked.latest("faults", now)
    counts = {
        name: [f"{n:.0f}" if n == n else "-" for n in table[name]]
        for name in ("resumed", "writes hit")
        if name in table
    }
    return table.assign(code=named_code(table.code, now), **counts) if len(table) else table


def damage(now: str) -> pd.DataFrame:
    """What came of damaged files, odd commands and ill-timed stops (`fuzz.csv`), with the code as it is now if it was tried, or with each."""
    table = benchmarked.latest("fuzz", now)
    return table.assign(code=named_code(table.code, now)) if len(table) else table


def determinism(now: str) -> pd.DataFrame:
    """By how much runs differ where something else does than the seed, and another seed, on each device (`determinism_*.csv`).

    Returns:
        Columns: device, condition, epochs, runs, identical, embeddings (largest difference, of their largest entry), accuracy
        (at 1 % of labels), code; a device that was not measured has one line that says how to.
    """
    lines = []
    for device in DEVICES:
        table = benchmarked.load(f"determinism_{device}")
        if table.empty:
            table = pd.DataFrame(
                {"condition": [f"{NOT_MEASURED}: benchmarks/determinism.py {device}"], "sources": ["-"]}
            )
        else:
            texts = {name: [str(n) for n in table[name]] for name in ("epochs", "runs", "identical")}
            table = table.assign(embeddings=[power(v) for v in table.embeddings], **texts)
        lines.append(table.assign(device=device, code=named_code(table.sources, now)))
    columns = ["device", "condition", "epochs", "runs", "identical", "embeddings", "accuracy", "code"]
    return pd.concat(lines, ignore_index=True).reindex(columns=columns)


def rounding() -> pd.DataFrame:
    """The relative error of the first gradients against float64 by arithmetic, means over seeds, on each device (`rounding_*.csv`).

    Returns:
        Columns: device, arithmetic, median and worst (parameter), n (seeds); a device that was not measured has one line that
        says how to.
    """
    lines = []
    for device in DEVICES:
        table = benchmarked.load(f"rounding_{device}")
        if table.empty:
            lines.append((device, f"{NOT_MEASURED}: benchmarks/rounding.py {device}", "-", "-", "-"))
        for arithmetic, part in table.groupby("arithmetic", sort=False) if len(table) else ():
            lines.append(
                (device, arithmetic, power(part["median"].mean()), power(part.worst.mean()), str(part.seed.nunique()))
            )
    return pd.DataFrame(lines, columns=["device", "arithmetic", "median", "worst", "n"])


def batch_norm_error(sides: Sequence[int] = SIDES) -> pd.DataFrame:
    """How far one over the deviation is off in PyTorch's batch norm on a CPU, in float32 on one thread, in each layout of memory.

    Args:
        sides: of the images, at least 1.

    Returns:
        Columns: values a channel, channels last, channels first: the largest relative error of `CHANNELS` channels of `IMAGES`
        images of standard normal values, against float64.
    """
    threads = torch.get_num_threads()
    layouts = {"channels last": torch.channels_last, "channels first": torch.contiguous_format}
    lines = []
    try:
        torch.set_num_threads(1)
        for side in sides:
            x = torch.randn(IMAGES, CHANNELS, side, side, generator=torch.Generator().manual_seed(0))
            exact = (x.double().var((0, 2, 3), correction=0) + EPSILON).rsqrt()
            errors = {}
            for name, layout in layouts.items():
                kept = x.contiguous(memory_format=layout)
                inverse = torch.native_batch_norm(kept, None, None, None, None, True, 0.1, EPSILON)[2]
                errors[name] = (inverse / exact - 1).abs().max().item()
            lines.append({"values a channel": IMAGES * side**2, **errors})
    finally:
        torch.set_num_threads(threads)
    return pd.DataFrame(lines)


def layouts() -> pd.DataFrame:
    """`batch_norm_error` as it is shown."""
    table = batch_norm_error()
    return table.assign(
        **{name: [power(v) for v in table[name]] for name in table.columns[1:]},
        **{"values a channel": [f"{v:,}" for v in table["values a channel"]]},
    )


def tries(tests: Path = TESTS) -> pd.DataFrame:
    """How many odd values the tests try, of each kind, at a call: columns what and tries, from their constant `EXAMPLES`.

    Raises:
        ValueError: if the file has no such constant.
    """
    for node in ast.parse(tests.read_text()).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "EXAMPLES" for t in node.targets):
            return pd.DataFrame(list(ast.literal_eval(node.value).items()), columns=["what", "tries"])
    raise ValueError(f"{tests} sets no EXAMPLES.")


def this_machine(told: Mapping[str, Any]) -> pd.DataFrame:
    """What built a page: columns what and value; `told` as from `provenance.machine`, then the system and versions of `PACKAGES`."""
    here = {
        **told,
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        **{package: version(package) for package in PACKAGES},
    }
    return pd.DataFrame(
        [(name.replace("_", " "), str(value)) for name, value in here.items()], columns=["what", "value"]
    )


def both_paths(lines: int = 6) -> pd.DataFrame:
    """The largest mean differences between both paths of a CPU, see `agreement.path_differences`."""
    return agreement.path_differences(benchmarked.load("equivalence_cpu")).head(lines)


def paths_in_words() -> str:
    """What the comparison of both paths of a CPU came to, see `agreement.equivalence`."""
    return agreement.equivalence(benchmarked.load("equivalence_cpu"))


def environments() -> pd.DataFrame:
    """What came of the tests with other versions (`environments.csv`); one line says so if none was tried."""
    table = benchmarked.load("environments")
    return pd.DataFrame({"python": ["not tried yet"]}) if table.empty else table


def stored(now: str) -> pd.DataFrame:
    """The rows that exist: of `tables.provenance` with the code's hash as `NOW` if it is that of the code as it is, which would have
    to give those again bit for bit; the last line sums these up."""
    rows = results.load()
    table = tables.provenance(rows)
    table = table.assign(sources=named_code(table.sources, now)).rename(columns={"sources": "code"})
    mine, every = rows[rows.sources == now].key.nunique(), rows.key.nunique()
    last = {"device": "all", "precision": "-", "torch": "-", "code": f"{mine:,} with the code {NOW}", "runs": every}
    return pd.concat([table, pd.DataFrame([last])], ignore_index=True)
