"""Whether two ways to compute the same agree: half precision beside float32, and the two paths of a CPU."""

from __future__ import annotations

import pandas as pd

from ..analysis.intervals import Interval, holm_confidences, mean_interval, p_value, paired_difference
from ..config import METRICS

EQUIVALENT = 0.02  # largest difference in accuracy that counts as none
PRECISION_METRICS = ("validation", "test_id", "test_ood", "d_test_id")


def precision_differences(frame: pd.DataFrame) -> pd.DataFrame:
    """Accuracy in bfloat16 less accuracy in float32, paired by seed, for each configuration and metric.

    Returns:
        Columns: method, tau_alpha, tau_beta, metric, float32 (mean), difference (mean), low and high (95 % t interval), n.
    """
    columns = ["method", "tau_alpha", "tau_beta", "metric", "float32", "difference", "low", "high", "n"]
    if frame.empty:
        return pd.DataFrame(columns=columns)
    lines = []
    for cell, rows in frame.groupby(["method", "tau_alpha", "tau_beta"], dropna=False, sort=False):
        by = {precision: part.set_index("seed") for precision, part in rows.groupby("precision")}
        for metric in PRECISION_METRICS:
            exact, half = by["float32"][metric], by["bfloat16"][metric]
            d = paired_difference(half, exact)
            lines.append((*cell, metric, exact.mean(), d.mean, d.low, d.high, d.n))
    return pd.DataFrame(lines, columns=columns)


def precision_pooled(frame: pd.DataFrame) -> pd.DataFrame:
    """Accuracy in bfloat16 less accuracy in float32 for each metric, averaged over configurations, over seeds.

    A seed's configurations share its views, so a seed counts once.

    Returns:
        Columns: metric, float32 (mean), difference (mean), low and high (95 % t interval), n (seeds), and as yardsticks
        the standard deviations of a pair's difference and of a float32 run's accuracy over seeds.
    """
    columns = ["metric", "float32", "difference", "low", "high", "n", "sd of a pair", "sd of a seed"]
    cell, lines = ["method", "tau_alpha", "tau_beta"], []
    for metric in PRECISION_METRICS if len(frame) else ():
        table = frame.pivot(index=[*cell, "seed"], columns="precision", values=metric).dropna()
        pairs = table.bfloat16 - table.float32
        d = mean_interval(pairs.groupby("seed").mean())
        seeds = table.float32.groupby(cell, dropna=False).var().mean() ** 0.5
        lines.append((metric, table.float32.mean(), d.mean, d.low, d.high, d.n, pairs.std(), seeds))
    return pd.DataFrame(lines, columns=columns)


def precision_in_words(pooled: pd.DataFrame, single: pd.DataFrame) -> str:
    """How many intervals of both tables exclude zero, and what room the pooled ones leave, in sentences."""
    counts = [
        f"{int(((table.low > 0) | (table.high < 0)).sum())} of {len(table)} {kind} intervals exclude zero."
        for kind, table in (("pooled", pooled), ("single", single))
    ]
    room = max(pooled.high.max(), -pooled.low.min())
    return "\n".join([*counts, f"The pooled ones leave no room for a difference beyond {room:.3f}."])


def path_differences(frame: pd.DataFrame) -> pd.DataFrame:
    """Accuracy by the trunk less accuracy by PyTorch's operators, paired by seed, from `load("equivalence_cpu")`.

    Returns:
        A line for each method, label fraction and metric, the largest mean difference first: method, label_fraction, metric,
        operators (mean), difference (mean), low and high (t interval, Holm's correction over all lines), n, apart (whether
        the interval excludes zero).
    """
    columns = ["method", "label_fraction", "metric", "operators", "difference", "low", "high", "n", "apart"]
    if frame.empty:
        return pd.DataFrame(columns=columns)
    cells = [
        (
            *cell,
            metric,
            rows[f"{metric}_operators"].mean(),
            (rows[f"{metric}_trunk"] - rows[f"{metric}_operators"]).to_numpy(),
        )
        for cell, rows in frame.groupby(["method", "label_fraction"], sort=False)
        for metric in METRICS
    ]
    lines = []
    for (*cell, pairs), confidence in zip(cells, holm_confidences([p_value(cell[-1]) for cell in cells])):
        d = mean_interval(pairs, confidence)
        lines.append((*cell, d.mean, d.low, d.high, d.n, d.low > 0 or d.high < 0))
    return pd.DataFrame(lines, columns=columns).sort_values("difference", key=abs, ascending=False, ignore_index=True)


def path_equivalence(frame: pd.DataFrame) -> Interval:
    """Mean and 90 % interval over seeds of Test-ID by the trunk less Test-ID by PyTorch's operators.

    Each seed counts once, with its mean over methods and label fractions; a seed that lacks any of them is left out. An
    interval within `EQUIVALENT` of zero passes two one-sided tests at 5 %.
    """
    if frame.empty:
        return mean_interval([])
    pairs = frame.assign(pair=frame.test_id_trunk - frame.test_id_operators)
    by_seed = pairs.pivot_table(index="seed", columns=["method", "label_fraction"], values="pair").dropna()
    return mean_interval(by_seed.mean(axis=1), 0.90)


def equivalence(frame: pd.DataFrame) -> str:
    """What the comparison of both paths came to, in sentences, by the rule in benchmarks/equivalence.py."""
    if frame.empty:
        return "not yet run"
    table, d = path_differences(frame), path_equivalence(frame)
    apart, inside = int(table.apart.sum()), -EQUIVALENT < d.low and d.high < EQUIVALENT
    return (
        f"{apart} of {len(table)} mean differences exclude{'s' if apart == 1 else ''} zero after Holm's correction.\n"
        f"Test-ID differs by {d.mean:+.3f} (90 % interval {d.low:+.3f} to {d.high:+.3f}, {d.n} seeds): "
        f"{'' if inside else 'not '}shown equivalent within {EQUIVALENT:g}.\n"
        f"By the rule the two paths {'agree' if inside and not apart else 'are not shown to agree'}."
    )
