"""What the probe's input does: networks that are kept beside their rows are probed again, with nothing trained.

    python benchmarks/probe.py

The paper does not say what its linear probe is given. The runs probe embeddings as they are ("raw"). Here the networks of ten fresh
seeds are also probed on directions ("l2") and on standardized embeddings, with 1 % of the labels and all other settings as they were.
The lines "raw" are the stored rows again. Some minutes on one core.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import torch

from dtcl_core.config import METRICS, Run
from dtcl_core.data import SPLITS
from dtcl_core.encoder import Encoder
from dtcl_core.evaluate import probe_metrics
from dtcl_study import embeddings
from dtcl_study.experiments import REGISTRY
from dtcl_study.study import store_of

INPUTS = ("raw", "l2", "standardized")
FRACTION = 0.01


def accuracies(run: Run, encoder: Encoder) -> dict[str, dict[str, float]]:
    """By input of the probe, the mean of each accuracy over the run's draws of labels."""
    data, protocol = embeddings.data_of(run), run.protocol
    whole = {split: data.split(split) for split in SPLITS}
    embedded = {split: embeddings.embed(encoder, embeddings.images(run, data, split, None))[None] for split in SPLITS}
    labels, domains = ({split: getattr(part, name)[None] for split, part in whole.items()} for name in ("labels", "domains"))
    choices = {"stratified": protocol.stratified_labels, "nested": protocol.nested_labels}
    draws = range(protocol.label_draws)
    subsets = {draw: torch.from_numpy(data.label_subset(FRACTION, draw=draw, **choices))[None] for draw in draws}
    told = {}
    for kind in INPUTS:
        found = probe_metrics(embedded, labels, domains, subsets, replace(protocol, probe_features=kind))
        told[kind] = {name: float(torch.stack([found[draw][name] for draw in draws]).mean()) for name in METRICS}
    return told


def main() -> None:
    store, lines = store_of("paper"), []
    rows = store.rows()
    for method, networks in embeddings.kept(REGISTRY["fresh"].runs("paper", sigma=50), store).items():
        for run, encoder in networks:
            found, stored = accuracies(run, encoder), rows[run.key]["metrics"][str(FRACTION)]
            lines += [
                {"key": run.key, "method": method, "seed": run.seed, "input": kind, **means} for kind, means in found.items()
            ]
            print(method, run.seed, {name: f"{found['raw'][name] - stored[name]:+.5f}" for name in METRICS}, flush=True)
    pd.DataFrame(lines).to_csv(Path(__file__).parent / "probe.csv", index=False, float_format="%.6f")


if __name__ == "__main__":
    main()
