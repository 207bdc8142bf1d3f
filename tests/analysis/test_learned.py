import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.decomposition import PCA

from dtcl_core.analysis import learned
from dtcl_core.config import Protocol, Run
from dtcl_core.encoder import Encoder
from dtcl_core.engine.streams import Streams, stream_of
from dtcl_core.report import figures

SMALL = Protocol(split_sizes=(256, 20, 40, 40), epochs=1)
RUN = Run("standard", sigma=50.0, seed=3, tau_alpha=0.1, protocol=SMALL)


def test_images_are_those_that_the_encoder_is_measured_on():
    for protocol in (
        SMALL,
        Protocol(split_sizes=SMALL.split_sizes, input_normalization="half", stratified_splits=True),
    ):
        run = Run("standard", sigma=50.0, seed=3, tau_alpha=0.1, protocol=protocol)
        streams = Streams([stream_of(run)], run.protocol, torch.device("cpu"))
        for split in learned.COMPARED:
            (expected,) = streams.clean_chunks(0, split, 40)
            assert torch.allclose(learned.images(run, split).images, expected, atol=1e-6)


def test_the_plane_is_that_of_scikit_learn():
    z = np.random.default_rng(0).normal(size=(50, 6)) * [5, 1, 3, 1, 1, 1]
    positions, share = learned.plane(z)
    reference = PCA(2).fit(z)
    assert np.allclose(np.abs(positions), np.abs(reference.transform(z)))
    assert share == pytest.approx(reference.explained_variance_ratio_.sum())
    assert learned.plane(np.ones((4, 3)))[1] == 0.0


def test_a_picture_holds_both_splits_in_their_own_colours():
    points, share = learned.picture(Encoder([3], SMALL).eval(), RUN, 30)
    assert points.split.value_counts().to_dict() == {"test_id": 30, "test_ood": 30} and 0 < share <= 1
    assert set(points.digit) == {"3", "5"} and set(points[points.split == "test_id"].domain) == {0, 1}
    unseen = np.array(points[points.split == "test_ood"].color.tolist())  # green: its own channel is the brightest
    assert (unseen.argmax(1) == 1).mean() > 0.8
    assert np.isfinite(points[["x", "y"]].to_numpy()).all()
    assert len(figures.embeddings({("standard", 0.1): (points, share)}).axes) == 1


def test_pictured_are_the_lowest_the_middle_and_the_highest_temperature_of_a_method():
    def run(method, tau, seed=0, **more):
        return Run(method, sigma=50.0, seed=seed, tau_alpha=tau, protocol=SMALL, **more)

    runs = [run("standard", tau, seed) for tau in (0.25, 0.05, 0.1, 0.2, 0.15) for seed in (1, 0)]
    runs += [run("dw_pairs", 0.1, tau_beta=beta) for beta in (1.0, 0.1, 0.5)]
    found = learned.pictured(runs)
    assert [(r.method, r.tau_alpha) for r in found] == [
        ("standard", 0.05),
        ("standard", 0.15),
        ("standard", 0.25),
        ("dw_pairs", 0.1),
    ]
    assert {r.seed for r in found} == {0} and found[-1].tau_beta == 0.5
    assert learned.pictured([]) == []


def test_association_leaves_the_oracle_out_and_tells_methods_apart():
    x = np.linspace(0.5, 1, 10)
    rows = pd.concat(
        [
            pd.DataFrame({"method": "standard", "d_test_id": x, "test_ood": 1 - x, "test_id": 0.9}),
            pd.DataFrame({"method": "mmd", "d_test_id": x - 0.4, "test_ood": 0.4 - x, "test_id": 0.9}),
            pd.DataFrame({"method": "color_jitter", "d_test_id": x, "test_ood": x, "test_id": x}),
        ]
    )
    found = learned.association(rows).set_index(["metric", "runs"])
    assert found.loc[("test_ood", "the same, within methods"), "r"] == pytest.approx(-1)
    together = found.loc[("test_ood", "all but the oracle")]
    assert together.n == 20 and -1 < together.low < together.r < together.high < 1
    assert np.isnan(found.loc[("test_id", "Standard CL"), "r"])  # a constant
    assert found.loc[("test_ood", "Standard CL w/ Color Jitter"), "r"] == pytest.approx(1)
    assert len(figures.hiding(rows.assign(seed=0)).axes) == 2
