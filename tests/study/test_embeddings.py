from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.decomposition import PCA

from dtcl_core import encoder_files
from dtcl_core.config import METRICS, Protocol, Run
from dtcl_core.data import ColoredDigits
from dtcl_core.encoder import Encoder
from dtcl_core.engine.streams import Streams, stream_of
from dtcl_core.files import write_whole
from dtcl_core.results import Store, default_path
from dtcl_study import embeddings
from dtcl_study.experiments import REGISTRY

SIZES = (256, 20, 40, 40)


def run_of(seed=3, sigma=50.0, projector=None, projector_dim=None, **changes):
    protocol = Protocol(split_sizes=SIZES, epochs=1, **changes)
    return Run("standard", 0.1, sigma=sigma, seed=seed, projector=projector, projector_dim=projector_dim, protocol=protocol)


@pytest.mark.parametrize("changes", [{}, {"input_normalization": "half", "stratified_splits": True}])
def test_images_are_those_that_the_encoder_is_measured_on(changes):
    run = run_of(**changes)
    data = embeddings.data_of(run)
    streams = Streams([stream_of(run)], run.protocol, torch.device("cpu"))
    for split in embeddings.COMPARED:
        (expected,) = streams.clean_chunks(0, split, 40)
        assert torch.allclose(embeddings.images(run, data, split, 40), expected, atol=1e-6)


def test_the_plane_is_that_of_scikit_learn():
    z = np.random.default_rng(0).normal(size=(50, 6)) * [5, 1, 3, 1, 1, 1]
    positions, share = embeddings.plane(z)
    reference = PCA(2).fit(z)
    assert np.allclose(np.abs(positions), np.abs(reference.transform(z)))
    assert share == pytest.approx(reference.explained_variance_ratio_.sum())
    assert embeddings.plane(np.ones((4, 3)))[1] == 0.0


@pytest.mark.parametrize("changes", [{}, {"input_normalization": "half"}])
def test_a_picture_holds_both_splits_in_their_own_colours(changes):
    run = run_of(**changes)
    points, share = embeddings.picture(Encoder([3], run.protocol).eval(), run, 30)
    assert points.split.value_counts().to_dict() == {"test_id": 30, "test_ood": 30} and 0 < share <= 1
    colors = ColoredDigits(50.0, 3, sizes=SIZES).colors("test_ood")[:30]
    assert np.allclose(np.array(points[points.split == "test_ood"].color.tolist()), colors.clamp(0, 1))
    assert set(points.digit) == {"3", "5"} and set(points[points.split == "test_id"].domain) == {0, 1}


def channels(images, counts):
    """Embeds an image as its brightest red, ten times its brightest green, and its brightest blue."""
    return images[0].amax((2, 3))[None] * torch.tensor([1.0, 10.0, 1.0])


def test_distances_are_those_of_the_embedding_as_probes_see_it():
    found = embeddings.distances(channels, run_of(sigma=0.0), 40).set_index("split")
    assert found.loc["test_id", ["norm", "distance"]].tolist() == pytest.approx([1, 1], abs=0.05)
    assert found.loc["test_ood", ["norm", "gathered"]].tolist() == pytest.approx([10, 1], rel=0.02)
    assert found.loc["test_ood", "distance"] == pytest.approx(np.sqrt(100.5 / 0.5), rel=0.02)
    assert found.loc["test_id", "gathered"] == pytest.approx(np.sqrt(0.5), abs=0.05), "half of them point each way"


def test_kept_are_the_runs_of_one_configuration_whose_files_are_here(tmp_path, monkeypatch):
    store, lost, run, again, other, ill = Store(tmp_path), run_of(), run_of(4), run_of(5), run_of(4, sigma=25.0), run_of(6)
    files = {r: encoder_files.packed(Encoder([r.seed], r.protocol), [r]) for r in (run, again, other, ill)}
    for name, content in files.values():
        write_whole(content, store.encoders_path / name)
    told = {r: {"file": name, "place": 0} for r, (name, _) in files.items()} | {lost: {"file": "gone.npz", "place": 0}}
    rows = {r.key: {"key": r.key, "run": r.to_dict(), "encoder": entry, "status": "ok"} for r, entry in told.items()}
    rows[ill.key]["status"] = "diverged"
    monkeypatch.setattr(Store, "rows", lambda self: rows)
    found = embeddings.kept([lost, ill, run, other, run, again], store)
    assert list(found) == ["standard"] and [r for r, _ in found["standard"]] == [run, again]
    assert all(isinstance(encoder, Encoder) for _, encoder in found["standard"])


def test_networks_probed_again_give_their_rows_and_the_committed_file(monkeypatch):
    """With the probe's input as it was, the stored rows; one network's other accuracies are made again."""
    folder = Path(__file__).resolve().parents[2] / "benchmarks"
    monkeypatch.syspath_prepend(folder)
    import probe

    table, store = pd.read_csv(folder / "probe.csv"), Store(default_path())
    rows = store.rows(set(table.key))
    for line in table[table.input == "raw"].itertuples():
        stored = rows[line.key]["metrics"][str(probe.FRACTION)]
        assert [getattr(line, name) for name in METRICS] == pytest.approx([stored[name] for name in METRICS], abs=2e-4)
    assert set(table.groupby("key").input.agg(tuple)) == {probe.INPUTS} and table.key.nunique() == 70
    run = next(run for run in REGISTRY["fresh"].runs("paper", sigma=50) if run.key == table.key[0])
    found = probe.accuracies(run, store.encoder(rows[run.key]))
    for kind, means in found.items():
        (line,) = table[(table.key == run.key) & (table.input == kind)].itertuples()
        assert means == pytest.approx({name: getattr(line, name) for name in METRICS}, abs=0.002)
