"""Every table of the book, from data frames: reported beside measured, with n and intervals."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..analysis.claims import HIGH
from ..analysis.contrasts import BASELINES, NOTHING, best_elsewhere
from ..analysis.contrasts import SHORT as SHORT
from ..analysis.intervals import accuracy_interval, paired_difference, unpaired_difference
from ..analysis.selection import CONTEXT, SELECTION_FRACTION, compared, rows_of, select
from ..config import HYPERPARAMETERS, TAU_ALPHAS, TAU_BETAS, Run
from ..data import ColoredDigits
from ..experiments import REGISTRY
from ..experiments.core import PROPOSED, validation_of
from ..methods import ALL_METHODS
from ..results import default_store
from ..traces import KINDS, Trace

SHORTFALL = "_shortfall"  # of the best that an accuracy can be, while lines are put in order


def counted(preset: str, runs: Sequence[Run], frame: pd.DataFrame) -> str:
    """How many of the runs exist and on what they were trained, as a line; a second says how many diverged, if any did."""
    line = f"Preset {preset}: {frame.key.nunique()} of {len({run.key for run in runs})} runs exist{_machines(frame)}."
    diverged = frame[frame.status == "diverged"].key.nunique()
    unselected = "a cell cannot be selected that diverged on a seed on which all are compared."
    return f"{line}\n{diverged} runs diverged; {unselected}" if diverged else line


def asked(experiment: str, runs: Sequence[Run], frame: pd.DataFrame) -> pd.DataFrame:
    """What was asked for, how much of it exists, and how it differs from the paper's grid.

    Returns:
        Columns: what (epochs, seeds, sigmas, and each method's configurations), here, asked, paper, which (names of few
        configurations, or how seeds are spread over them).
    """
    paper = REGISTRY[experiment].runs("paper")
    kinds = len({run.discriminator for run in runs} - {None}) > 1

    def cells(chosen: Sequence[Run], method: str) -> list[str]:
        found = dict.fromkeys(
            (
                *(getattr(r, h) for h in HYPERPARAMETERS),
                r.discriminator if kinds else None,
                r.projector,
                r.projector_dim,
            )
            for r in chosen
            if r.method == method
        )
        return [
            "/".join(f"{v:g}" if isinstance(v, (int, float)) else v for v in cell if v is not None) for cell in found
        ]

    def several(field: str) -> tuple[int, ...]:
        return tuple(len({getattr(run, field) for run in chosen}) for chosen in (there, runs, paper))

    stored = set(frame.key)
    there = [run for run in runs if run.key in stored]
    begun = Counter(dataclasses.replace(run, seed=0) for run in there)
    each = {begun[cell] for cell in {dataclasses.replace(run, seed=0) for run in runs}}
    uneven = f"{min(each)} to {max(each)} a configuration" if len(each) > 1 else ""
    epochs = runs[0].protocol.epochs
    lines: list[tuple[Any, ...]] = [
        ("epochs", epochs if there else 0, epochs, paper[0].protocol.epochs, ""),
        ("seeds", *several("seed"), uneven),
        ("sigmas", *several("sigma"), ""),
    ]
    for method in dict.fromkeys(run.method for run in runs):
        here = cells(there, method)
        names = [h.strip("_") for h in HYPERPARAMETERS if h == "tau_alpha" or h in ALL_METHODS[method].uses]
        names += ["discriminator"] if kinds else []
        listed = f"{'/'.join(names)}: {', '.join(here)}" if 0 < len(here) <= 5 else ""
        lines.append((title(method), len(here), len(cells(runs, method)), len(cells(paper, method)), listed))
    return pd.DataFrame(lines, columns=["what", "here", "asked", "paper", "which"])


def _machines(frame: pd.DataFrame) -> str:
    """What rows were trained on, for a sentence: ", on cpu in float32", or a warning that kinds are mixed."""
    kinds = sorted({f"{d} in {p}" for d, p in zip(frame.device, frame.precision)})
    return f", on {' and '.join(kinds)}{': compared as if alike' if len(kinds) > 1 else ''}" if kinds else ""


def protocol(runs: Sequence[Run]) -> str:
    """Every field of the protocol that the runs share, a line each; tau_min is that of those that see it, if any does."""
    shared = next((run for run in runs if run.method in PROPOSED), runs[0]).protocol
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
        Columns: method, reported, measured (mean over seeds), low and high (its 95 % interval), n (seeds); the best first.
    """
    check_one_row_a_seed(rows)
    lines = []
    for name, method in ALL_METHODS.items():
        in_paper = reported[(reported.method == name) & (reported.metric == metric)].value
        interval = accuracy_interval(rows.loc[rows.method == name, metric].to_numpy())
        if len(in_paper) or interval.n:
            value = in_paper.iloc[0] if len(in_paper) else float("nan")
            lines.append((method.title, value, interval.mean, interval.low, interval.high, interval.n))
    return best_first(
        pd.DataFrame(lines, columns=["method", "reported", "measured", "low", "high", "n"]), "measured", metric
    )


def best_first(table: pd.DataFrame, column: str, metric: str, within: Sequence[str] = ()) -> pd.DataFrame:
    """The lines by a column of accuracies, the best first: the highest, or of D-Test-ID that nearest to one half; missing ones last.

    Args:
        table: any.
        column: of `table`, accuracies.
        metric: which accuracy they are.
        within: columns whose values make groups, which stay in the order in which they first come.
    """
    short = (table[column] - 0.5).abs() if metric == "d_test_id" else -table[column]
    return ordered(table.assign(**{SHORTFALL: short}), SHORTFALL, False, within).drop(columns=SHORTFALL)


def ordered(table: pd.DataFrame, column: str, largest_first: bool, within: Sequence[str] = ()) -> pd.DataFrame:
    """The lines by a column of numbers, missing ones last and ties as they come.

    Args:
        table: any.
        column: of `table`, numbers.
        largest_first: or the smallest.
        within: columns whose values make groups, which stay in the order in which they first come.
    """
    groups = [pd.Series(pd.factorize(table[name], use_na_sentinel=False)[0], table.index) for name in within]
    keys = pd.DataFrame(dict(enumerate([*groups, -table[column] if largest_first else table[column]])))
    return table.loc[keys.sort_values(list(keys), kind="stable").index].reset_index(drop=True)


def again(rows: pd.DataFrame, fresh: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The same cells on other seeds: their mean there, and what it differs by.

    Args:
        rows, fresh: selected rows at one label fraction, one a method and seed; `fresh` are of other seeds.
        metric: the metric column to show.

    Returns:
        Columns: method, first (mean of `rows`), fresh, low, high and n (mean of `fresh`, its 95 % interval), change (with
        how far Welch's 95 % interval reaches); the best first.
    """
    lines = []
    for name, method in ALL_METHODS.items():
        before, after = (part.loc[part.method == name, metric] for part in (rows, fresh))
        if len(before) or len(after):
            change = unpaired_difference(after, before)
            moved = f"{change.mean:.3f} ±{(change.high - change.low) / 2:.3f}" if change.n > 1 else "-"
            lines.append((method.title, before.mean(), *accuracy_interval(after), moved))
    return best_first(
        pd.DataFrame(lines, columns=["method", "first", "fresh", "low", "high", "n", "change"]), "fresh", metric
    )


def extremes(rows: pd.DataFrame, runs: Sequence[Run], metric: str = "test_ood", near: float = 0.003) -> pd.DataFrame:
    """The lowest and highest accuracy over seeds, and how many are near what calling every digit the same would score.

    Args:
        rows: rows of one label fraction.
        runs: runs among which theirs are.
        metric: a split's accuracy.
        near: accuracies that far from the share of a class in that split, or nearer, count.

    Returns:
        Columns: method, lowest, highest, near a share (how many are near either) and n; the widest range first.
    """
    run_of = {run.key: run for run in runs}
    lines, shares = [], {}
    for name in (name for name in ALL_METHODS if name in set(rows.method)):
        part, count = rows[rows.method == name], 0
        for key, value in zip(part.key, part[metric]):
            p, seed = run_of[key].protocol, run_of[key].seed
            if seed not in shares:
                digits = ColoredDigits(seed=seed, sizes=p.split_sizes, stratified=p.stratified_splits)
                shares[seed] = float(digits.labels(metric).float().mean())
            count += min(abs(value - shares[seed]), abs(value - (1 - shares[seed]))) <= near
        lines.append((title(name), part[metric].min(), part[metric].max(), count, part[metric].notna().sum()))
    table = pd.DataFrame(lines, columns=["method", "lowest", "highest", "near a share", "n"])
    return ordered(table.assign(range=table.highest - table.lowest), "range", True).drop(columns="range")


def differences(rows: pd.DataFrame, metric: str, baseline: str = "standard") -> pd.DataFrame:
    """Paired differences of each method to a baseline, over the seeds both have.

    Returns:
        Columns: method, difference (mean), low and high (its 95 % t interval), n (seeds), and a * in the last, unnamed
        column where the interval excludes zero; the largest difference first, of D-Test-ID the lowest.
    """
    check_one_row_a_seed(rows)
    reference = rows[rows.method == baseline].set_index("seed")[metric]
    lines = []
    for name, method in ALL_METHODS.items():
        mine = rows[rows.method == name].set_index("seed")[metric]
        if name != baseline and len(mine) and len(reference):
            d = paired_difference(mine, reference)
            lines.append((method.title, d.mean, d.low, d.high, d.n, "*" if d.low > 0 or d.high < 0 else " "))
    table = pd.DataFrame(lines, columns=["method", "difference", "low", "high", "n", ""])
    return ordered(table, "difference", metric != "d_test_id")


def leads(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The proposed methods less the best baseline, which is picked on the other seeds (`contrasts.best_elsewhere`).

    Args:
        rows: of one cell a method (and level), as from `levels.selected_at_levels` or `confirm_at_levels`.
        metric: the accuracy.

    Returns:
        Columns: method, tau_min, labels (share of them), difference (mean), low and high (its 95 % t interval), n (seeds), and a *
        in the last, unnamed column where the interval excludes zero; at each share of labels the largest lead first; no line where
        a baseline is missing.
    """
    lines = []
    for (share, method), mine in rows[rows.method.isin(PROPOSED)].groupby(["label_fraction", "method"]):
        plain = rows[(rows.label_fraction == share) & rows.method.isin(BASELINES)]
        table = plain.pivot_table(metric, "seed", "method").dropna()
        best = best_elsewhere(table) if table.shape[1] == len(BASELINES) else NOTHING
        for level, part in mine.groupby("level"):
            d = paired_difference(part.set_index("seed")[metric], best)
            if d.n:
                lines.append((title(method), level, share, *d, "*" if d.low > 0 or d.high < 0 else " "))
    found = pd.DataFrame(lines, columns=["method", "tau_min", "labels", "difference", "low", "high", "n", ""])
    return ordered(found, "difference", True, ["labels"])


def ranks(rows: pd.DataFrame, reported: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Methods by measured mean of a metric, best first, beside their reported rank; oracles are left out.

    Returns:
        Columns: rank, method, measured, n (seeds), reported rank, reported (NaN where the paper gives none). Means are over
        the seeds that all methods shown have, if there are any.
    """
    contenders = [name for name, method in ALL_METHODS.items() if not method.oracle]
    in_paper = reported[(reported.metric == metric) & reported.method.isin(contenders)].set_index("method").value
    rows = rows[rows.method.isin(contenders)]
    common = rows.groupby("seed").method.transform("nunique") == rows.method.nunique()
    grouped = (rows[common] if common.any() else rows).groupby("method")[metric]
    mean = grouped.mean()
    table = pd.DataFrame({"measured": mean, "n": grouped.count(), "reported": in_paper.reindex(mean.index)})
    place = in_paper.rank(ascending=False, method="min").reindex(mean.index)
    table["reported rank"] = ["-" if pd.isna(p) else f"{p:.0f}" for p in place]
    table = table.sort_values("measured", ascending=False, kind="stable")
    table.insert(0, "rank", range(1, len(table) + 1))
    table.insert(1, "method", [ALL_METHODS[m].title for m in table.index])
    return table[["rank", "method", "measured", "n", "reported rank", "reported"]].reset_index(drop=True)


def all_cells(frame: pd.DataFrame, label_fraction: float, metrics: Sequence[str]) -> pd.DataFrame:
    """Every cell that was tried: hyperparameters, n, and the mean of each metric over seeds; in the grid's order, to look one up."""
    rows = frame[(frame.label_fraction == label_fraction) & (frame.status == "ok")]
    table = rows.groupby(["method", *HYPERPARAMETERS], dropna=False)[list(metrics)].mean().reset_index()
    counts = rows.groupby(["method", *HYPERPARAMETERS], dropna=False).seed.nunique()
    table.insert(4, "n", counts.to_numpy())
    return _named(_in_grid_order(table, ["method", *HYPERPARAMETERS]), HYPERPARAMETERS).rename(columns=SHORT)


def _in_grid_order(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The lines by the columns of these names that there are: methods as in the registry, settings ascending, unset ones first."""
    there = [name for name in names if name in table]
    if not there:
        return table.reset_index(drop=True)
    known = list(ALL_METHODS)
    return table.sort_values(
        there,
        key=lambda column: column.map(known.index) if column.name == "method" else column,
        kind="stable",
        na_position="first",
        ignore_index=True,
    )


def _named(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Methods under their titles, settings of these names short, unused ones as a dash."""
    table = table.copy()
    if "method" in table:
        table["method"] = [title(method) for method in table.method]
    for name in names:
        table[name] = ["-" if pd.isna(v) else v if isinstance(v, str) else f"{v:g}" for v in table[name]]
    return table.rename(columns={"lambda_": "lambda", "label_fraction": "labels", "projector_dim": "dimension"})


def selected_cells(cells: pd.DataFrame, also: Sequence[str] = ()) -> pd.DataFrame:
    """The chosen hyperparameters, one line a method (and each value of the columns `also`, by which lines are grouped); the best
    validated first."""
    table = _in_grid_order(cells[[*also, "method", *HYPERPARAMETERS, "validation", "n"]], [*also, "method"])
    table = best_first(table, "validation", "validation", also)
    return _named(table, [*also, *HYPERPARAMETERS]).rename(columns={"validation": "mean validation"})


def single_draws(drawn: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """What single draws of labels select and measure, a line a method (and protocol, where there are several).

    Args:
        drawn: of `selection.by_draw`.
        metrics: accuracies.

    Returns:
        Columns: method, cells (how many different ones are selected), most often (the cell, and by how many draws), and of each
        metric the median draw's mean over seeds, the lowest's and the highest's; draws. By the first metric, the best first.
    """
    lines = []
    for (method, _), mine in drawn.groupby(["method", "protocol"], sort=False):
        cells = [cell_name(values) for values in mine[list(HYPERPARAMETERS)].itertuples(index=False)]
        often, count = Counter(cells).most_common(1)[0]
        ranges = [mine[metric].quantile(at) for metric in metrics for at in (0.5, 0.0, 1.0)]
        lines.append((title(method), len(set(cells)), f"{often} ({count})", *ranges, len(mine)))
    names = [f"{SHORT[metric]}{end}" for metric in metrics for end in ("", " lowest", " highest")]
    table = pd.DataFrame(lines, columns=["method", "cells", "most often", *names, "draws"])
    return best_first(table, SHORT[metrics[0]], metrics[0])


def cell_means(frame: pd.DataFrame, metrics: Sequence[str], label_fraction: float = SELECTION_FRACTION) -> pd.DataFrame:
    """A line a configuration: its context, hyperparameters, mean of each metric over seeds, and n seeds."""
    rows = frame[(frame.label_fraction == label_fraction) & (frame.status == "ok")]
    grouped = rows.groupby([*CONTEXT, *HYPERPARAMETERS], dropna=False)
    return grouped[list(metrics)].mean().assign(n=grouped.seed.nunique()).reset_index()


def compare(
    rows: pd.DataFrame,
    reported: pd.DataFrame | None,
    keys: Sequence[str],
    metric: str,
    only_measured: bool = False,
    within: Sequence[str] = (),
) -> pd.DataFrame:
    """Reported against measured, a line for each combination of `keys` that either has.

    Args:
        rows: one row a seed and combination.
        reported: the paper's numbers, with the columns `keys`, metric, value; may be empty. None: it reports nothing.
        keys: columns that tell lines apart.
        metric: the metric column to show.
        only_measured: leave out combinations without a run, if there is any run at all.
        within: those of `keys` that make groups, in their natural order, and come first; in each the best line is first.

    Returns:
        Columns: the keys, reported (not if the paper reports nothing), measured (mean over seeds), low and high (its 95 %
        interval), n (seeds).

    Raises:
        ValueError: if a combination has a seed twice.
    """
    keys = list(keys)
    if rows.duplicated([*keys, "seed"]).any():
        raise ValueError(f"a seed has more than one row at the same {', '.join(keys)}.")
    in_paper = pd.Series(dtype=float)
    if reported is not None and len(reported):
        in_paper = reported[reported.metric == metric].set_index(keys).value
    lines = []
    for key, group in rows.groupby(keys, dropna=False):
        interval = accuracy_interval(group[metric].to_numpy())
        lines.append((*key, _of(in_paper, key), *interval))
    done = {tuple(None if pd.isna(k) else k for k in line[: len(keys)]) for line in lines}
    if not (only_measured and lines):
        lines += [(*key, v, *accuracy_interval([])) for key, v in in_paper.items() if tuple(key) not in done]
    table = pd.DataFrame(lines, columns=[*keys, "reported", "measured", "low", "high", "n"])
    order = list(dict.fromkeys([*within, *keys]))
    table = best_first(_in_grid_order(table, order), "measured", metric, within)
    table = table[[*order, *table.columns[len(keys) :]]]
    return _named(table if len(in_paper) else table.drop(columns="reported"), [key for key in keys if key != "method"])


def _of(in_paper: pd.Series, key: tuple) -> float:
    """The reported value of a combination, NaN if the paper gives none."""
    return float(in_paper[key]) if len(in_paper) and key in in_paper.index else float("nan")


def selected_and_best(frame: pd.DataFrame, metric: str = "test_ood") -> pd.DataFrame:
    """For each method the cell that validation selects beside the best on a metric, and how many exceed 0.90.

    Returns:
        Columns: method, selected and its mean, best and its mean, gap, above 0.90; the cells and seeds (n) that selection compares.
    """
    means = cell_means(compared(frame), ["validation", metric])
    chosen = select(frame)
    lines = []
    for method in (m for m in ALL_METHODS if m in set(means.method)):
        mine = means[means.method == method].set_index(list(HYPERPARAMETERS))
        pick = chosen[chosen.method == method].set_index(list(HYPERPARAMETERS)).index[0]
        top = mine[metric].idxmax()
        selected, best = mine.loc[[pick], metric].iloc[0], mine[metric].max()
        above, n = int((mine[metric] > 0.9).sum()), int(mine.loc[[pick], "n"].iloc[0])
        lines.append(
            (
                ALL_METHODS[method].title,
                cell_name(pick),
                selected,
                cell_name(top),
                best,
                best - selected,
                above,
                len(mine),
                n,
            )
        )
    columns = ["method", "selected", "mean", "best", "its mean", "gap", "above 0.90", "cells", "n"]
    return pd.DataFrame(lines, columns=columns)


def selected_and_best_in_paper(reported: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """The same in the paper's temperature tables (`reported.temperature_tables`), a line a method and metric.

    Returns:
        Columns: method, accuracy, selected and its value, best and its value, gap.
    """
    lines = []
    for method, table in reported.groupby("method"):
        cells = table.pivot(index=["tau_alpha", "tau_beta"], columns="metric", values="value")
        pick = cells.validation.idxmax()
        for metric in metrics:
            top = cells[metric].idxmax()
            selected, best = cells.loc[pick, metric], cells.loc[top, metric]
            lines.append(
                (title(method), SHORT[metric], cell_name(pick), selected, cell_name(top), best, best - selected)
            )
    return pd.DataFrame(lines, columns=["method", "accuracy", "selected", "value", "best", "its value", "gap"])


def clipped(tau_min: float, num_domains: int = 2) -> pd.DataFrame:
    """The posterior beyond which Eq. 3 gives tau_min, for the paper's grid: tau_alpha, then a column a tau_beta; NaN for never."""
    beyond = 1 / num_domains + (np.array(TAU_ALPHAS)[:, None] - tau_min) / np.array(TAU_BETAS)
    columns = [f"tau_beta {tau_beta:g}" for tau_beta in TAU_BETAS]
    table = pd.DataFrame(np.where(beyond < 1, beyond, np.nan), columns=columns)
    table.insert(0, "tau_alpha", [f"{tau_alpha:g}" for tau_alpha in TAU_ALPHAS])
    return table


def clipped_in_paper(tau_min: float, selected: pd.DataFrame) -> str:
    """How many cells of the paper's grid Eq. 3 clips with this tau_min, and whether those that the paper selected are, in lines.

    Args:
        tau_min: of Eq. 3.
        selected: as from `selected_and_best_in_paper`.
    """
    limits = clipped(tau_min)
    clips = limits.drop(columns="tau_alpha").notna().to_numpy()
    lines = [f"With tau_min = {tau_min:g}, {clips.sum()} of the {clips.size} cells are clipped for some posterior."]
    lines.append("Those that the paper selected:")
    for name, cell in selected[["method", "selected"]].drop_duplicates().itertuples(index=False):
        tau_alpha, tau_beta = cell.split("/")
        limit = limits.set_index("tau_alpha").loc[tau_alpha, f"tau_beta {tau_beta}"]
        lines.append(f"{name}, {cell}: {f'clipped beyond {limit:.3f}' if limit < 1 else 'never clipped'}")
    return "\n".join(lines)


def selected_at_fractions(frame: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """What is selected with more labels than `SELECTION_FRACTION`, beside what that selects, on the seeds that both have.

    Returns:
        Columns: method, labels; "at 1 %" and "here" (the cells); the means of each metric of the first cell, then of the second;
        n. A line a method and larger fraction; at each fraction the choice that moves the first metric most is first.
    """
    first, lines = select(frame), []
    for fraction in sorted({*frame.label_fraction} - {SELECTION_FRACTION}):
        here = select(frame, fraction)
        for method in (m for m in ALL_METHODS if m in {*first.method} & {*here.method}):
            both = [chosen[chosen.method == method] for chosen in (first, here)]
            rows = [rows_of(frame, chosen) for chosen in both]
            rows = [mine[(mine.label_fraction == fraction) & (mine.status == "ok")].set_index("seed") for mine in rows]
            shared = sorted({*rows[0].index} & {*rows[1].index})
            cells = [cell_name(chosen[list(HYPERPARAMETERS)].iloc[0]) for chosen in both]
            means = [mine.loc[shared, metric].mean() for mine in rows for metric in metrics]
            lines.append((title(method), f"{fraction:g}", *cells, *means, len(shared)))
    names = ["at 1 %", "here"]
    of_both = [f"{SHORT[metric]} {name}" for name in names for metric in metrics]
    table = pd.DataFrame(lines, columns=["method", "labels", *names, *of_both, "n"])
    moved = (table[f"{SHORT[metrics[0]]} here"] - table[f"{SHORT[metrics[0]]} at 1 %"]).abs()
    return ordered(table.assign(moved=moved), "moved", True, ["labels"]).drop(columns="moved")


def cell_name(values: Sequence[float]) -> str:
    """A configuration in short, what its method lacks left out.

    >>> cell_name((0.05, 0.5, float("nan")))
    '0.05/0.5'
    """
    return "/".join(f"{v:g}" for v in values if not pd.isna(v))


def grid_averages(rows: pd.DataFrame, reported: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Mean, lowest and highest of a metric over a method's configurations, beside the paper's selected one."""
    means = cell_means(rows, [metric])
    in_paper = reported[reported.metric == metric].set_index("method").value
    lines = [
        (
            ALL_METHODS[m].title,
            in_paper.get(m, float("nan")),
            part[metric].mean(),
            part[metric].min(),
            part[metric].max(),
            len(part),
        )
        for m in ALL_METHODS
        if len(part := means[means.method == m])
    ]
    return pd.DataFrame(lines, columns=["method", "reported selected", "mean of cells", "lowest", "highest", "cells"])


def discriminator_differences(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Global less batch-level discriminator, paired by seed, for each method and sigma; a * where zero is excluded.

    Returns:
        Columns: method, sigma, difference (mean), low and high (its 95 % t interval), n (seeds), and the star's; of each method the
        largest difference first, either way.
    """
    lines = []
    for (method, sigma), part in rows.groupby(["method", "sigma"]):
        by = {kind: rows.set_index("seed")[metric] for kind, rows in part.groupby("discriminator")}
        if len(by) == 2:
            d = paired_difference(by["global"], by["batch"])
            lines.append((method, sigma, d.mean, d.low, d.high, d.n, "*" if d.low > 0 or d.high < 0 else " "))
    table = pd.DataFrame(lines, columns=["method", "sigma", "difference", "low", "high", "n", ""])
    table = _in_grid_order(table.assign(size=table.difference.abs()), ["method", "sigma"])
    return _named(ordered(table, "size", True, ["method"]).drop(columns="size"), ["sigma"])


def temperature_quantiles(
    traces: Sequence[Trace], epochs: Sequence[int] = (1, 2, 5, 10, 20, 50, 100, 200, 400)
) -> pd.DataFrame:
    """5 %, median and 95 % of the temperatures at a few epochs, each the mean over seeds, pairs of each kind; in the order of time."""
    lines = []
    for epoch in (e for e in epochs if traces and e <= len(traces[0].loss)):
        for kind in KINDS:
            values = [trace.quantiles([0.05, 0.5, 0.95], kind)[epoch - 1] for trace in traces]
            lines.append((epoch, kind.replace("_", " "), *np.mean(values, axis=0), len(traces)))
    return pd.DataFrame(lines, columns=["epoch", "pairs", "5 %", "median", "95 %", "n"])


def asked_of_all(preset: str, **options: Any) -> pd.DataFrame:
    """How many runs of each experiment are asked for and exist; `options` as for `Experiment.runs`, epochs where they are not its own.

    Returns:
        Columns: experiment, asked, here. The last line, "claims", has the runs of all of the paper's, each once.
    """
    lines, present = [], default_store(preset).rows(shared=True)
    known = validation_of(present)
    for name in [*(name for name in REGISTRY if name != "claims"), "claims"]:
        experiment = REGISTRY[name]
        chosen = {**options, "epochs": None} if experiment.sets_epochs(preset) else options
        keys = {run.key for run in experiment.runs(preset, validation=known, **chosen)}
        lines.append((name, len(keys), len(keys & present.keys())))
    return pd.DataFrame(lines, columns=["experiment", "asked", "here"])


def otherwise_selected(table: pd.DataFrame, metrics: Sequence[str]) -> str:
    """How many selections of `selected_at_fractions` differ from that at 1 %, and how far it moves means, in lines; empty of none."""
    if table.empty:
        return ""
    other = (table["at 1 %"] != table["here"]).sum()
    lines = [f"{other} of {len(table)} selections differ from that at 1 %."]
    for name in (SHORT[metric] for metric in metrics):
        gap = (table[f"{name} here"] - table[f"{name} at 1 %"]).abs().max()
        lines.append(f"Largest change of a mean {name} accuracy: {gap:.3f}")
    return "\n".join(lines)


def with_several_cells(rows: pd.DataFrame) -> str:
    """Which methods have rows of more than one configuration, as a line."""
    cells = rows[["method", *HYPERPARAMETERS]].drop_duplicates().method.value_counts()
    names = [title(method) for method in ALL_METHODS if cells.get(method, 0) > 1]
    return f"Methods with more than one cell: {', '.join(names) or 'none'}"


def high_cells(frame: pd.DataFrame, single: pd.DataFrame, in_paper: pd.DataFrame, sigma: float) -> pd.DataFrame:
    """The share above `claims.HIGH` on Test-OOD of each method's cells, as reported and as measured, and of its runs.

    Args:
        frame: rows; half-trained cells are not compared.
        single: rows at one label fraction, without diverged runs.
        in_paper: as from `reported.temperature_tables`.
        sigma: whose reported cells are taken.

    Returns:
        Columns: method, then reported cells, measured cells and runs, each with n.
    """
    told = in_paper[(in_paper.metric == "test_ood") & (in_paper.sigma == sigma)].rename(columns={"value": "test_ood"})
    whole = cell_means(compared(frame), ["test_ood"])
    lines = []
    for method, known in ALL_METHODS.items():
        line: list[Any] = [known.title]
        for table in (told, whole, single):
            mine = table.loc[table.method == method, "test_ood"]
            line += [(mine > HIGH).mean(), len(mine)]
        lines += [line] if any(line[2::2]) else []
    return pd.DataFrame(lines, columns=["method", "reported cells", "n", "measured cells", "n", "runs", "n"])


def title(method: str) -> str:
    """A method's name as the paper's tables have it."""
    return ALL_METHODS[method].title
