"""The solver against scikit-learn at the same penalty, and its behaviour on awkward data."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from dtcl_core import logistic


def sample(n=300, k=6, classes=2, gap=1.0, seed=0):
    generator = np.random.default_rng(seed)
    y = np.arange(n) % classes
    x = generator.normal(size=(n, k)) + gap * generator.normal(size=(classes, k))[y]
    return x, y


def scikit(x, y, l2):
    return LogisticRegression(C=1 / l2, tol=1e-10, max_iter=50_000).fit(x, y)


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("l2", [0.01, 1.0, 100.0])
def test_equals_scikit_learn(classes, l2):
    x, y = sample(classes=classes)
    ours = logistic.fit(torch.from_numpy(x), torch.from_numpy(y), classes, l2)
    theirs = scikit(x, y, l2)
    assert np.allclose(ours.predict_proba(torch.from_numpy(x)), theirs.predict_proba(x), atol=1e-5)
    if classes == 2:
        assert np.allclose(ours.weight[1] - ours.weight[0], theirs.coef_[0], atol=1e-4)
        assert (ours.bias[1] - ours.bias[0]).item() == pytest.approx(theirs.intercept_[0], abs=1e-4)


@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_separable_data_has_scikit_learns_optimum(scale):
    x, y = sample(n=69, k=16, gap=6.0)
    x *= scale
    ours = logistic.fit(torch.from_numpy(x), torch.from_numpy(y), 2, 1.0)
    theirs = scikit(x, y, 1.0)
    assert (ours.predict(torch.from_numpy(x)).numpy() == y).all()
    ours_value, theirs_value = (
        np.logaddexp(0, -(2 * y - 1) * (x @ w + b)).sum() + 0.5 * w @ w
        for w, b in [
            ((ours.weight[1] - ours.weight[0]).numpy(), (ours.bias[1] - ours.bias[0]).item()),
            (theirs.coef_[0], theirs.intercept_[0]),
        ]
    )
    assert ours_value <= theirs_value * (1 + 1e-6)


def test_the_gradient_vanishes_at_the_optimum():
    x, y = (torch.from_numpy(a) for a in sample(classes=3))
    model = logistic.fit(x, y, 3, 0.5)
    weight, bias = model.weight.clone().requires_grad_(), model.bias.clone().requires_grad_()
    loss = torch.nn.functional.cross_entropy(x @ weight.T + bias, y, reduction="sum") + 0.25 * weight.square().sum()
    for gradient in torch.autograd.grad(loss, (weight, bias)):
        assert gradient.abs().max() < 1e-5


def test_runs_are_independent_even_of_a_broken_neighbour():
    parts = [sample(seed=s, gap=g) for s, g in [(0, 0.1), (1, 1.0), (2, 8.0)]]
    x = torch.stack([torch.from_numpy(p[0]) for p in parts])
    y = torch.stack([torch.from_numpy(p[1]) for p in parts])
    broken = x.clone()
    broken[1] = torch.nan
    together, beside = logistic.fit(x, y, 2, 1.0), logistic.fit(broken, y, 2, 1.0)
    for r in (0, 2):
        alone = logistic.fit(x[r], y[r], 2, 1.0)
        assert torch.allclose(together.weight[r], alone.weight, atol=1e-9)
        assert torch.equal(together.weight[r], beside.weight[r])
    assert torch.isnan(beside.weight[1]).all() and torch.isnan(logistic.accuracy(beside, broken, y)[1])


def test_a_class_without_examples_gets_little_probability():
    x, y = (torch.from_numpy(a) for a in sample())
    probability = logistic.fit(x, y, 3, 1.0).predict_proba(x)
    assert probability.isfinite().all() and probability[:, 2].max() < 0.05


def test_adam_steps_approach_the_optimum():
    x, y = (torch.from_numpy(a) for a in sample(gap=0.5))
    exact = logistic.fit(x, y, 2, 1.0).predict_proba(x)
    gaps = [
        (logistic.fit(x, y, 2, 1.0, steps=steps, learning_rate=0.05).predict_proba(x) - exact).abs().max().item()
        for steps in (5, 50, 1000)
    ]
    assert gaps[0] > gaps[1] > gaps[2] and gaps[2] < 1e-3


def test_adam_steps_are_those_of_pytorchs_adam():
    """Two classes are one binary objective, of the difference of their logits; it starts at zero."""
    x, y = (torch.from_numpy(a) for a in sample(gap=0.5))
    found = logistic.fit(x, y, 2, 1.0, steps=20, learning_rate=0.05)
    weight, bias = torch.zeros(x.shape[-1], dtype=x.dtype, requires_grad=True), torch.zeros((), dtype=x.dtype, requires_grad=True)
    steps = torch.optim.Adam([weight, bias], lr=0.05)
    for _ in range(20):
        steps.zero_grad()
        mistaken = F.binary_cross_entropy_with_logits(x @ weight + bias, y.to(x), reduction="sum")
        ((mistaken + 0.5 * weight.square().sum()) / len(x)).backward()
        steps.step()
    told = torch.sigmoid(x @ weight + bias).detach()
    torch.testing.assert_close(found.predict_proba(x)[:, 1], told, rtol=0, atol=1e-6)


def test_float32_features_give_a_float32_model():
    x, y = sample()
    model = logistic.fit(torch.from_numpy(x).float(), torch.from_numpy(y), 2, 1.0)
    assert model.weight.dtype == torch.float32 and model.predict_proba(torch.from_numpy(x).float()).dtype == torch.float32


@pytest.mark.parametrize(
    ("l2", "classes", "message"), [(0.0, 2, "l2 must be > 0"), (-1.0, 2, "l2 must be"), (1.0, 1, "num_classes")]
)
def test_bad_arguments_are_named(l2, classes, message):
    with pytest.raises(ValueError, match=message):
        logistic.fit(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1]), classes, l2)


@pytest.mark.parametrize(
    ("classes", "width", "scale", "l2", "apart"),
    [(2, 5, 1.0, 1.0, 0.0), (2, 5, 1.0, 1.0, 9.0), (5, 16, 100.0, 0.01, 5.0), (3, 16, 0.01, 1.0, 1.0), (6, 3, 1.0, 1e-4, 30.0), (3, 120, 1.0, 1.0, 1.0), (8, 120, 1.0, 1.0, 1.0)],
)  # fmt: skip
def test_lbfgs_finds_the_optimum_that_newton_finds(classes, width, scale, l2, apart):
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(classes, (80,), generator=generator)
    centers = apart * torch.randn(classes, width, generator=generator, dtype=torch.float64)
    x = scale * (torch.randn(80, width, generator=generator, dtype=torch.float64) + centers[y] + 3.0)
    exact = logistic.fit(x, y, classes, l2).predict_proba(x)
    torch.testing.assert_close(logistic.fit(x, y, classes, l2, solver="lbfgs").predict_proba(x), exact, rtol=0, atol=1e-6)
    single = logistic.fit(x.float(), y, classes, l2, solver="lbfgs")
    torch.testing.assert_close(single.predict_proba(x.float()).double(), exact, rtol=0, atol=5e-3)


def test_lbfgs_treats_runs_apart_and_leaves_unknown_classes_out():
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(3, 50, 4, generator=generator, dtype=torch.float64), torch.arange(50) % 3
    unknown = torch.where(torch.arange(50) < 20, -1, y)
    x[1, 7, 2] = torch.nan
    together = logistic.fit(x, unknown, 3, 1.0, solver="lbfgs")
    assert together.weight[1].isnan().all()
    for r in (0, 2):
        alone = logistic.fit(x[r, 20:], y[20:], 3, 1.0)
        torch.testing.assert_close(together.weight[r], alone.weight, rtol=0, atol=1e-6)
        torch.testing.assert_close(together.bias[r], alone.bias, rtol=0, atol=1e-6)
    with pytest.raises(ValueError, match="solver must be"):
        logistic.fit(x, y, 3, 1.0, solver="sgd")


def test_lbfgs_makes_no_matrix_of_all_unknowns():
    class Largest(TorchDispatchMode):
        numel = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            made = function(*args, **(kwargs or {}))
            self.numel = max([self.numel, *(t.numel() for t in tree_leaves(made) if isinstance(t, torch.Tensor))])
            return made

    x, y = torch.randn(128, 512, generator=torch.Generator().manual_seed(0)), torch.arange(128) % 50
    with Largest() as largest:
        logistic.fit(x, y, 50, 1.0, solver="lbfgs")
    assert largest.numel < 2 * 128 * 513


def test_lbfgs_without_a_known_example_knows_nothing_and_answers_nan_by_nan():
    x, y = torch.randn(30, 10, generator=torch.Generator().manual_seed(0)), torch.arange(30) % 2
    model = logistic.fit(x, torch.full_like(y, -1), 2, solver="lbfgs")
    assert not model.weight.any() and not model.bias.any()
    assert logistic.fit(x / 0, y, 2, solver="lbfgs").bias.isnan().all()
    alike = logistic.fit(torch.ones(40, 20), torch.arange(40) % 2, 2, solver="lbfgs")
    torch.testing.assert_close(alike.predict_proba(torch.ones(40, 20)), torch.full((40, 2), 0.5))
