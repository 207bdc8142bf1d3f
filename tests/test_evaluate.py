"""Draws of labels, and trained networks kept beside their rows."""

import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import Normalizer

from dtcl_core import data, evaluate, pretrain
from dtcl_core.config import METRICS, Protocol, Run
from dtcl_core.launch import local
from dtcl_core.results import Store


@pytest.fixture
def trained(tiny, tmp_path):
    """A store with a stack of two runs, one probed in two ways, and the runs."""
    protocol = replace(tiny, epochs=1, channels=(16, 16, 16), label_draws=3, domain_probe_data="train")
    runs = [Run("standard", 0.1, protocol=protocol), Run("dw_pairs", 0.1, 0.1, protocol=protocol)]
    runs.append(replace(runs[0], protocol=replace(protocol, label_draws=1)))
    store = Store(tmp_path)
    local.compute(runs, store, "cpu", quiet=True)
    return store, runs


def test_draws_are_different_labels_and_the_first_is_the_one_of_before():
    digits = data.ColoredDigits(seed=3)
    first, second = (set(digits.label_subset(0.01, draw=draw)) for draw in (0, 1))
    assert first == set(digits.label_subset(0.01)) and len(first & second) < len(first) / 3
    assert second < set(digits.label_subset(0.1, draw=1))  # nested within a draw


def test_a_metric_is_the_mean_over_draws(trained):
    store, (several, _, one) = trained
    rows = store.rows()
    many, single = rows[several.key], rows[one.key]
    assert "draws" not in single
    for fraction, count in (("0.01", 3), ("0.1", 3), ("1.0", 1)):
        for metric in METRICS:
            each = many["draws"][fraction][metric]
            assert len(each) == count and many["metrics"][fraction][metric] == pytest.approx(np.mean(each))
            assert each[0] == single["metrics"][fraction][metric]
    assert len(set(many["draws"]["0.01"]["test_id"])) > 1
    assert len(set(many["draws"]["0.01"]["d_test_id"])) == 1  # its probe sees domains, not labels


def test_a_row_gives_back_the_network_it_was_measured_on(trained):
    store, runs = trained
    stack = pretrain.train([run.training for run in runs[:2]], "cpu")
    images = next(stack.streams.clean_chunks(0, "test_id", 40))
    with torch.no_grad():
        stack.encoder.eval()
        together = stack.encoder([images], [2])
    for run in runs[:2]:
        encoder = store.encoder(store.rows()[run.key])
        encoder.trunk = stack.encoder.trunk
        place = stack.runs.index(run.training)
        with torch.no_grad():
            assert torch.allclose(encoder([images], [1])[0], together[place], atol=1e-6)


def test_a_network_that_is_not_there_or_not_as_it_was_costs_a_sentence(trained):
    store, runs = trained
    row = store.rows()[runs[0].key]
    path = store.encoders_path / row["encoder"]["file"]
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.warns(UserWarning, match="not as it was written"):
        assert store.encoder(row) is None
    path.unlink()
    with pytest.warns(UserWarning, match="archive"):
        assert store.encoder(row) is None
    with pytest.warns(UserWarning, match="names no file"):
        assert store.encoder({name: value for name, value in row.items() if name != "encoder"}) is None
    path.write_bytes(whole)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.encoder(row) is not None


@pytest.mark.parametrize("kind", ["raw", "standardized", "l2"])
@pytest.mark.parametrize("domain_probe_data", ["label_subset", "train"])
def test_probes_are_those_of_scikit_learn(kind, domain_probe_data):
    """On embeddings in which digits and domains overlap, and whose lengths differ, so that each kind of features has accuracies of its own."""
    generator, sizes = np.random.default_rng(0), {"train": 300, "validation": 400, "test_id": 500, "test_ood": 600}
    labels = {split: generator.integers(2, size=(2, n)) for split, n in sizes.items()}
    domains = {split: generator.integers(2, size=(2, n)) for split, n in sizes.items()}
    z = {}
    for split, n in sizes.items():
        z[split] = generator.normal(size=(2, n, 5)) * [3.0, 1.0, 0.3, 1.0, 1.0] + 0.5
        z[split][..., 1] += 0.8 * labels[split] * (0.5 if split == "test_ood" else 1.0)
        z[split][..., 2] += 0.3 * domains[split]
        z[split] *= generator.uniform(0.5, 2.0, size=(2, n, 1))
    subsets = {0.1: np.stack([generator.permutation(300)[:30] for _ in range(2)]), 1.0: np.stack([np.arange(300)] * 2)}
    tensors = ({split: torch.from_numpy(each) for split, each in of.items()} for of in (z, labels, domains))
    index = {name: torch.from_numpy(each) for name, each in subsets.items()}
    protocol = Protocol(probe_features=kind, domain_probe_data=domain_probe_data, probe_l2=2.0)
    found = evaluate.probe_metrics(*tensors, index, protocol)

    def seen(split, run):
        x = z[split][run]
        if kind == "standardized":
            return (x - z["train"][run].mean(0)) / z["train"][run].std(0, ddof=1)
        return Normalizer().fit_transform(x) if kind == "l2" else x

    for subset, run in product(subsets, range(2)):
        chosen, train = subsets[subset][run], seen("train", run)
        digit = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000).fit(train[chosen], labels["train"][run][chosen])
        for split in ("validation", "test_id", "test_ood"):
            told = digit.score(seen(split, run), labels[split][run])
            assert found[subset][split][run].item() == pytest.approx(told, abs=1.5 / sizes[split]), (
                "one image on the boundary at most"
            )
        chosen = np.arange(300) if domain_probe_data == "train" else chosen
        domain = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000).fit(train[chosen], domains["train"][run][chosen])
        told = domain.score(seen("test_id", run), domains["test_id"][run])
        assert found[subset]["d_test_id"][run].item() == pytest.approx(told, abs=1.5 / sizes["test_id"])
