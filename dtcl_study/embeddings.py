"""What trained encoders know: where images lie in the embedding.

Encoders are those kept beside rows (`Store.encoder`), so nothing here trains.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from torch.nn.functional import normalize

from dtcl_core.config import Run
from dtcl_core.data import SPLITS, ColoredDigits
from dtcl_core.encoder import Encoder
from dtcl_core.methods import ALL_METHODS
from dtcl_core.results import Store

COMPARED = ("test_id", "test_ood")  # splits on a picture: held-out digits in the training colours, and in the one never seen
SHOWN, CHUNK = 150, 1024  # images of a split on a picture, and that an encoder sees at once


def kept(runs: Iterable[Run], store: Store) -> dict[str, list[tuple[Run, Encoder]]]:
    """For each method, in the registry's order: runs of one configuration whose encoders are in this store, with the encoders."""
    rows, found = store.rows(), dict[str, list[tuple[Run, Encoder]]]()
    for run in dict.fromkeys(runs):
        row, mine = rows.get(run.key, {}), found.get(run.method, [])
        if not row.get("encoder") or row["status"] != "ok" or not (store.encoders_path / row["encoder"]["file"]).is_file():
            continue
        if mine and replace(mine[0][0], seed=run.seed) != run:
            continue  # of another configuration than the first
        if (encoder := store.encoder(row)) is not None:
            found[run.method] = [*mine, (run, encoder)]
    return {method: found[method] for method in ALL_METHODS if method in found}


def data_of(run: Run) -> ColoredDigits:
    """The images of a run."""
    p = run.protocol
    return ColoredDigits(
        run.sigma, run.seed, color_clipping=p.color_clipping, stratified=p.stratified_splits, sizes=p.split_sizes
    )


def images(run: Run, data: ColoredDigits, split: str, count: int) -> torch.Tensor:
    """The first `count` images [N, 3, 28, 28] of a split of a run's data, as its encoder sees them in evaluation."""
    pixels = data.split(split).images[:count]
    return 2 * pixels - 1 if run.protocol.input_normalization == "half" else pixels


@torch.no_grad()
def embed(encoder: Encoder, pixels: torch.Tensor) -> torch.Tensor:
    """Embeddings [N, k] of images [N, 3, 28, 28] by one encoder in evaluation mode, not normalised."""
    return torch.cat([encoder([part], [1])[0] for part in pixels.split(CHUNK)])  # one stream of images, seen by one run


def plane(embeddings: np.ndarray) -> tuple[np.ndarray, float]:
    """Positions [N, 2] of embeddings [N, k] on the plane of two principal components, and its share of the variance."""
    centred = embeddings - embeddings.mean(0)
    _, scales, axes = np.linalg.svd(centred, full_matrices=False)
    signs = np.sign(axes[:2, :1] + (axes[:2, :1] == 0))  # an axis may point either way: its first entry is positive
    total = float((scales**2).sum())
    return centred @ (signs * axes[:2]).T, float((scales[:2] ** 2).sum()) / total if total else 0.0


def picture(encoder: Encoder, run: Run, count: int = SHOWN) -> tuple[pd.DataFrame, float]:
    """The directions of a run's embeddings of `count` images in training colours and as many in the unseen one, on one plane.

    Returns:
        One row per image: split, digit ("3" or "5"), domain (0 and 1: of training), color, x, y; and the share of the variance.
    """
    data = data_of(run)
    found = [normalize(embed(encoder, images(run, data, split, count)), dim=1).numpy() for split in COMPARED]
    (positions, share), lines = plane(np.concatenate(found)), []
    for split in COMPARED:
        parts = (data.labels(split), data.domains(split), data.colors(split).clamp(0, 1))
        for label, domain, color in zip(*(part[:count].tolist() for part in parts)):
            lines.append((split, "35"[label], domain, tuple(color)))
    points = pd.DataFrame(lines, columns=["split", "digit", "domain", "color"])
    return points.assign(x=positions[:, 0], y=positions[:, 1]), share


def distances(encoder: Encoder, run: Run, count: int) -> pd.DataFrame:
    """How far from the training images each split lies in a run's embedding, from the first `count` images of it.

    Returns:
        One row per split: `norm` (mean length of embeddings), `distance` (mean distance from the training images' centre, in
        units of that of the training images) and `gathered` (length of the mean direction: 1 if all point the same way).
    """
    data = data_of(run)
    embeddings = {split: embed(encoder, images(run, data, split, count)) for split in SPLITS}
    centre = embeddings["train"].mean(0)
    unit = float((embeddings["train"] - centre).norm(dim=1).mean())
    lines = []
    for split, z in embeddings.items():
        away = float((z - centre).norm(dim=1).mean())
        gathered = float(normalize(z, dim=1).mean(0).norm())
        lines.append((split, float(z.norm(dim=1).mean()), away / unit if unit else np.nan, gathered))
    return pd.DataFrame(lines, columns=["split", "norm", "distance", "gathered"])
