"""A data set of one's own, as CONTRIBUTING says: other digits, ten classes, four training domains."""

import numpy as np
import torch
from sklearn.datasets import load_digits

from dtcl_core import evaluate, keyed, pretrain
from dtcl_core.config import Protocol, Run

COLORS = np.array([[1, 0, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 0, 1], [0, 1, 0]], dtype=np.float32)
HELD_OUT = {"validation": 4, "test_ood": 5}


class FourColors:
    """scikit-learn's digits, three times as large, red, blue, yellow or cyan; magenta and green are held out."""

    num_training_domains = 4

    def __init__(self, sigma, seed, *, color_clipping, stratified, sizes):
        images, labels = load_digits(return_X_y=True)
        order, ends = keyed.permutation(len(images), seed, "split"), np.cumsum(sizes)
        large = images.reshape(-1, 8, 8).repeat(3, 1).repeat(3, 2) / 16
        self.images = np.pad(large, ((0, 0), (2, 2), (2, 2))).astype(np.float32)
        self.digits, self.seed = labels.astype(np.int64), seed
        names = ("train", "validation", "test_id", "test_ood")
        self.index = {name: order[end - size : end] for name, size, end in zip(names, sizes, ends)}

    def gray(self, split):
        return torch.from_numpy(self.images[self.index[split]])

    def labels(self, split):
        return torch.from_numpy(self.digits[self.index[split]])

    def domains(self, split):
        count = len(self.index[split])
        return torch.full((count,), HELD_OUT[split]) if split in HELD_OUT else torch.arange(count) % 4

    def colors(self, split):
        return torch.from_numpy(COLORS)[self.domains(split)]

    def label_subset(self, fraction, *, stratified, nested, draw):
        count = len(self.index["train"])
        return keyed.permutation(count, self.seed, "labels", str(draw))[: int(fraction * count)]


PROTOCOL = Protocol(split_sizes=(1000, 200, 200, 200), batch_size=100, channels=(16, 16, 32), epochs=5)


def test_the_engine_trains_and_probes_a_data_set_of_ones_own():
    runs = [Run("standard", 0.2, protocol=PROTOCOL), Run("dw_pairs", 0.2, 0.2, protocol=PROTOCOL)]
    runs += [Run("dann", 0.2, lambda_=0.1, protocol=PROTOCOL), Run("mmd", 0.2, lambda_=0.1, protocol=PROTOCOL)]
    stack = pretrain.train(runs, "cpu", data=FourColors)
    assert stack.streams.num_domains == 4 and stack.adversary[0].shape[1] == 4
    found = evaluate.evaluate(stack)
    for run in stack.runs:
        scores = found[run.key]["1.0"]
        assert scores["test_id"] > 0.3, "no better than a guess among ten digits"
        assert scores["d_test_id"] > 0.4, "no better than a guess among four colours"
        assert 0 <= scores["test_ood"] <= 1
