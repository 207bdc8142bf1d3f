"""What the rule of `analysis.verdicts` says were the truth known: its operating characteristics, with the deviations of our seeds.

    python benchmarks/operating.py

Writes `operating.csv`; some minutes. Seeds are those of the selected cells that the main table shows, of the grid and fresh ones. (Until
2026-11-25 they were those of the first reading; the rule has stood since before either.)
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from dtcl_core.analysis import operating_characteristics, verdicts
from dtcl_core.report.findings import PRESET
from dtcl_core.report.study import Study

if __name__ == "__main__":
    study = Study("main_table", PRESET, device="cpu", level=min(verdicts.TAU_MINS))
    both = pd.concat([study.selected(None), study.fresh[1]], ignore_index=True)
    table = operating_characteristics.characteristics(
        both, (verdicts.NEEDS[operating_characteristics.SPREADS], verdicts.FRESH_SEEDS)
    )
    table["our_seeds"] = len(operating_characteristics.seeds_of(both))
    table.round(4).to_csv(Path(__file__).with_suffix(".csv"), index=False)
    print(table.to_string(index=False))
