"""Frames of made-up rows, in the form of `dtcl_study.study.Study.frame`."""

import pandas as pd

from dtcl_core.config import Run
from dtcl_core.results import COLUMNS


def frame(runs, accuracy=lambda run, fraction, metric: 0.5):
    """Rows of runs: one row per run and label fraction, each accuracy as a function says."""
    lines = []
    for run in runs:
        for fraction in (0.01, 0.1, 1.0):
            line = {name: getattr(run, name) for name in COLUMNS if hasattr(run, name)}
            line |= {m: accuracy(run, fraction, m) for m in ("validation", "test_id", "test_ood", "d_test_id")}
            line |= {"label_fraction": fraction, "status": "ok", "key": run.key, "epochs": 400}
            line |= {"device": "cpu", "precision": "float32", "torch": "2", "sources": "a"}
            lines.append(line)
    table = pd.DataFrame(lines, columns=list(COLUMNS))
    for name in ("sigma", "tau_alpha", "tau_beta", "lambda_", "projector_dim"):
        table[name] = table[name].astype(float)
    return table


def standard(taus=(0.05, 0.1), seeds=range(3), **more):
    return [Run("standard", tau, seed=seed, **more) for tau in taus for seed in seeds]
