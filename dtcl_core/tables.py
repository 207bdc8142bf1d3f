"""Every table of the book, from data frames: reported beside measured, with n and intervals."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pandas as pd

from .config import Run
from .experiments import HYPERPARAMETERS, REGISTRY
from .methods import METHODS
from .statistics import mean_interval, paired_difference

SHORT = {"test_ood": "Test-OOD", "test_id": "Test-ID", "d_test_id": "D-Test-ID", "validation": "Validation"}


def describe(experiment: str, preset: str, runs: Sequence[Run], frame: pd.DataFrame) -> str:
    """What was asked for, how much of it exists, and how it differs from the paper's grid."""
    present, wanted = frame.key.nunique(), len({run.key for run in runs})
    paper = REGISTRY[experiment].runs("paper", sigma=sorted({run.sigma for run in runs}))

    def cells(chosen: Sequence[Run], method: str) -> list[str]:
        found = {tuple(getattr(r, h) for h in HYPERPARAMETERS): None for r in chosen if r.method == method}
        return ["/".join(f"{v:g}" for v in cell if v is not None) for cell in found]

    def seeds(chosen: Sequence[Run]) -> int:
        return len({run.seed for run in chosen})

    lines = [
        f"Preset {preset}: {present} of {wanted} runs exist.",
        f"{'':<28}{'here':>6}{'paper':>7}",
        f"{'epochs':<28}{runs[0].protocol.epochs:>6}{paper[0].protocol.epochs:>7}",
        f"{'seeds':<28}{seeds(runs):>6}{seeds(paper):>7}",
    ]
    for method in dict.fromkeys(run.method for run in runs):
        here = cells(runs, method)
        names = "/".join(h.strip("_") for h in HYPERPARAMETERS if h == "tau_alpha" or h in METHODS[method].uses)
        listed = f"  {names}: {', '.join(here)}" if len(here) <= 5 else ""
        lines.append(f"{METHODS[method].title:<28}{len(here):>6}{len(cells(paper, method)):>7}{listed}")
    diverged = frame[frame.status == "diverged"].key.nunique()
    if diverged:
        lines.append(f"{diverged} runs diverged; their cells cannot be selected.")
    return "\n".join(lines)


def protocol(runs: Sequence[Run]) -> str:
    """Every field of the protocol that the runs share, a line each."""
    shared = runs[0].protocol
    return "\n".join(f"{f.name:<30}{getattr(shared, f.name)}" for f in dataclasses.fields(shared))


def provenance(frame: pd.DataFrame) -> pd.DataFrame:
    """How many runs come from which device, precision, torch and code."""
    columns = ["device", "precision", "torch", "sources"]
    return frame.groupby(columns, dropna=False).key.nunique().rename("runs").reset_index()


def check_one_row_a_seed(rows: pd.DataFrame) -> None:
    """Raise ValueError if a method has a seed twice: the seed is the replicate, so n would be wrong."""
    twice = rows[rows.duplicated(["method", "seed"])]
    if len(twice):
        raise ValueError(
            f"{twice.method.iloc[0]!r} has more than one row for seed {twice.seed.iloc[0]}; choose one sigma."
        )


def compare_methods(rows: pd.DataFrame, reported: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Reported against measured, one line a method.

    Args:
        rows: selected rows at one label fraction, one a method and seed.
        reported: the paper's numbers, with columns method, metric, value.
        metric: the metric column to show.

    Returns:
        Columns: method, reported, measured (mean over seeds), low and high (its 95 % interval), n (seeds).
    """
    check_one_row_a_seed(rows)
    lines = []
    for name, method in METHODS.items():
        told = reported[(reported.method == name) & (reported.metric == metric)].value
        interval = mean_interval(rows.loc[rows.method == name, metric].to_numpy())
        if len(told) or interval.n:
            value = told.iloc[0] if len(told) else float("nan")
            lines.append((method.title, value, interval.mean, interval.low, interval.high, interval.n))
    return pd.DataFrame(lines, columns=["method", "reported", "measured", "low", "high", "n"])


def differences(rows: pd.DataFrame, metric: str, baseline: str = "standard") -> pd.DataFrame:
    """Paired differences of each method to a baseline, over the seeds both have.

    Returns:
        Columns: method, difference (mean), low and high (its 95 % t interval), n (seeds), and a * in the last, unnamed
        column where the interval excludes zero.
    """
    check_one_row_a_seed(rows)
    reference = rows[rows.method == baseline].set_index("seed")[metric]
    lines = []
    for name, method in METHODS.items():
        mine = rows[rows.method == name].set_index("seed")[metric]
        if name != baseline and len(mine) and len(reference):
            d = paired_difference(mine, reference)
            lines.append((method.title, d.mean, d.low, d.high, d.n, "*" if d.low > 0 or d.high < 0 else " "))
    return pd.DataFrame(lines, columns=["method", "difference", "low", "high", "n", ""])


def ranks(rows: pd.DataFrame, reported: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Methods by measured mean of a metric, best first, beside their reported rank; oracles are left out.

    Returns:
        Columns: rank, method, measured, reported rank, reported (NaN where the paper gives none).
    """
    contenders = [name for name, method in METHODS.items() if not method.oracle]
    told = reported[(reported.metric == metric) & reported.method.isin(contenders)].set_index("method").value
    mean = rows[rows.method.isin(contenders)].groupby("method")[metric].mean()
    table = pd.DataFrame({"measured": mean, "reported": told.reindex(mean.index)})
    place = told.rank(ascending=False, method="min").reindex(mean.index)
    table["reported rank"] = ["-" if pd.isna(p) else f"{p:.0f}" for p in place]
    table = table.sort_values("measured", ascending=False, kind="stable")
    table.insert(0, "rank", range(1, len(table) + 1))
    table.insert(1, "method", [METHODS[m].title for m in table.index])
    return table[["rank", "method", "measured", "reported rank", "reported"]].reset_index(drop=True)


def all_cells(frame: pd.DataFrame, label_fraction: float, metrics: Sequence[str]) -> pd.DataFrame:
    """Every cell that was tried: hyperparameters, n, and the mean of each metric over seeds."""
    rows = frame[(frame.label_fraction == label_fraction) & (frame.status == "ok")]
    table = rows.groupby(["method", *HYPERPARAMETERS], dropna=False)[list(metrics)].mean().reset_index()
    counts = rows.groupby(["method", *HYPERPARAMETERS], dropna=False).seed.nunique()
    table.insert(4, "n", counts.to_numpy())
    return _titled(table).rename(columns=SHORT)


def _titled(table: pd.DataFrame) -> pd.DataFrame:
    """Methods in the registry's order under their titles, hyperparameters short, unused ones as a dash."""
    table = table.copy()
    table["method"] = pd.Categorical(table.method, list(METHODS))
    table = table.sort_values(["method", *HYPERPARAMETERS], ignore_index=True)
    table["method"] = [METHODS[m].title for m in table.method]
    for name in HYPERPARAMETERS:
        table[name] = ["-" if pd.isna(v) else f"{v:g}" for v in table[name]]
    return table.rename(columns={"lambda_": "lambda"})


def selected_cells(cells: pd.DataFrame) -> pd.DataFrame:
    """The chosen hyperparameters, one line a method."""
    shown = _titled(cells[["method", *HYPERPARAMETERS, "validation", "n"]])
    return shown.rename(columns={"validation": "mean validation"})
