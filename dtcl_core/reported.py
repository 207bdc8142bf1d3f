"""The numbers that arXiv 2601.07748 reports, as data: every cell of its nine tables, one a row."""

from __future__ import annotations

from importlib import resources

import pandas as pd


def load(source: str | None = None) -> pd.DataFrame:
    """Reported numbers: source, method, discriminator, sigma, label_fraction, tau_alpha, tau_beta, metric, value.

    Args:
        source: a table, such as "table_1_main"; None means all.

    Raises:
        ValueError: for an unknown table.
    """
    with (resources.files("dtcl_core") / "reported.csv").open() as file:
        table = pd.read_csv(file)
    if source is None:
        return table
    if source not in set(table.source):
        raise ValueError(f"unknown source {source!r}: the tables are {', '.join(sorted(set(table.source)))}.")
    return table[table.source == source].reset_index(drop=True)


def value(source: str, method: str, metric: str, label_fraction: float = 0.01) -> float:
    """One reported number of tables 1 and 2, a fraction correct; NaN if the paper gives none."""
    table = load(source)
    found = table[(table.method == method) & (table.metric == metric) & (table.label_fraction == label_fraction)]
    return float(found.value.iloc[0]) if len(found) else float("nan")
