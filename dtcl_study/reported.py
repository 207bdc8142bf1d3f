"""The numbers that arXiv 2601.07748 reports, as data: every cell of its nine tables, one a row."""

from __future__ import annotations

from importlib import resources

import pandas as pd

SIGMA, SEEDS = 50.0, 5  # of Tables 1 to 8, and behind each number
CHANCE = 0.5  # the accuracy of guessing one of two digits or domains
with (resources.files("dtcl_study") / "reported.csv").open(encoding="utf-8") as _file:
    CELLS = pd.read_csv(_file)


def load(source: str | None = None) -> pd.DataFrame:
    """Reported numbers: source, method, discriminator, sigma, label_fraction, tau_alpha, tau_beta, metric, value.

    Args:
        source: a table, such as "table_1_main"; None means all.

    Raises:
        ValueError: for an unknown table.
    """
    if source is None:
        return CELLS.copy()
    if source not in set(CELLS.source):
        raise ValueError(f"unknown source {source!r}: the tables are {', '.join(sorted(set(CELLS.source)))}.")
    return CELLS[CELLS.source == source].reset_index(drop=True)


def main_comparison(sigma: float = SIGMA, label_fraction: float = 0.01) -> pd.DataFrame:
    """What the paper reports of the methods at one sigma and label fraction; empty where it gives no numbers.

    Table 1 for sigma 50 at 1 % of labels, Table 2 for its other fractions, Table 9 (global discriminators) for the
    domain-weighted methods at other sigmas.
    """
    at_50 = "table_1_main" if label_fraction == 0.01 else "table_2_label_fraction"
    table = load(at_50 if sigma == SIGMA else "table_9_global_vs_batch")
    here = (table.sigma == sigma) & (table.label_fraction == label_fraction) & (table.discriminator != "batch")
    return table[here].reset_index(drop=True)


def temperature_tables() -> pd.DataFrame:
    """Tables 3 to 8: accuracies of the domain-weighted methods over tau_alpha and tau_beta, at sigma 50."""
    table = load()
    return table[table.source.str.match(r"table_[3-8]_temperature")].reset_index(drop=True)
