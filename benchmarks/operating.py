"""What the rule of `analysis.verdicts` says were the truth known: its operating characteristics, with the deviations of our seeds.

    python benchmarks/operating.py

Writes `operating.csv`; some minutes. Seeds are those of the selected cells of the first reading, of the grid and fresh ones.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from dtcl_core.analysis import operating_characteristics, selection, verdicts
from dtcl_core.report import notebook

if __name__ == "__main__":
    runs, rows = notebook.obtain("main_table", "first", False, "cpu")
    chosen = selection.select(rows)
    _, fresh = notebook.confirm(chosen, runs, "first", False, "cpu", verdicts.FRESH_SEEDS)
    both = pd.concat([selection.rows_of(rows, chosen), fresh], ignore_index=True)
    table = operating_characteristics.characteristics(
        both, (verdicts.NEEDS[operating_characteristics.SPREADS], verdicts.FRESH_SEEDS)
    )
    table["our_seeds"] = len(operating_characteristics.seeds_of(both))
    table.round(4).to_csv(Path(__file__).with_suffix(".csv"), index=False)
    print(table.to_string(index=False))
