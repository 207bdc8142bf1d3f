"""The fit of a batch against the optimum that Newton's method and scikit-learn find."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch.nn import functional as F

from dtcl_core import logistic
from dtcl_core.nn import fitting


def batch(count, width, domains, apart=0.7, seed=0):
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(domains, (count,), generator=generator)
    centers = apart * torch.randn(domains, width, generator=generator) + torch.randn(width, generator=generator)
    return centers[y] + torch.randn(count, width, generator=generator), y


def away(x, y, domains, l2, weight, bias):
    """The largest distance of a posterior from that of the optimum."""
    exact = logistic.fit(x.double(), y, domains, l2, solver="lbfgs", watched=True).predict_proba(x.double())
    return (logistic.LogisticModel(weight, bias).predict_proba(x).double() - exact).abs().max().item()


@pytest.mark.parametrize(("count", "width", "domains"), [(96, 8, 3), (512, 128, 2), (512, 128, 10), (300, 40, 50), (200, 700, 4)])
@pytest.mark.parametrize("apart", [0.0, 0.7, 3.0])
def test_posteriors_are_the_optimums_to_a_hundredth(count, width, domains, apart):
    x, y = batch(count, width, domains, apart)
    x = F.normalize(x, dim=-1)
    assert away(x, y, domains, 1.0, *fitting.fit(x, y, domains)) < 1e-2


@pytest.mark.parametrize(("domains", "width", "apart", "seed"), [(3, 3, 2, 5), (2, 7, 1, 1), (12, 96, 2, 3), (12, 128, 2, 1)])
def test_domains_are_told_to_a_hundredth_where_a_short_step_says_little(domains, width, apart, seed):
    """A solver that stops at steps of a hundredth is off by 0.02 to 0.1 here."""
    torch.manual_seed(seed)
    y = torch.arange(1024) % domains
    x = F.normalize(torch.randn(1024, width) + apart * torch.randn(domains, width)[y], dim=-1)
    assert away(x, y, domains, 1.0, *fitting.fit(x, y, domains)) < 1e-2


@pytest.mark.parametrize(("l2", "scale"), [(0.01, 1.0), (1.0, 5.0), (100.0, 1.0)])
def test_other_penalties_and_raw_embeddings_are_fitted_too(l2, scale):
    x, y = batch(240, 60, 3)
    x = scale * x / x.norm(dim=-1).mean()
    assert away(x, y, 3, l2, *fitting.fit(x, y, 3, l2)) < 1e-2


def test_an_accelerator_goes_on_until_it_has_converged(monkeypatch):
    monkeypatch.setattr(logistic, "is_accelerator", lambda device: True)
    x, y = batch(2048, 64, 3)
    x = F.normalize(x, dim=-1)
    assert away(x, y, 3, 1.0, *fitting.fit(x, y, 3)) < 5e-3


def test_it_is_scikit_learns_optimum():
    x, y = batch(256, 100, 4)
    x = x.double()
    weight, bias = fitting.fit(x, y, 4, 2.0)
    theirs = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000).fit(x.numpy(), y.numpy())
    ours = logistic.LogisticModel(weight, bias).predict_proba(x)
    np.testing.assert_allclose(ours.numpy(), theirs.predict_proba(x.numpy()), atol=1e-6)


def test_runs_are_apart_unknown_domains_leave_it_alone_and_missing_ones_are_no_obstacle():
    x, y = (torch.stack(part) for part in zip(batch(90, 30, 3), batch(90, 30, 3, seed=1)))
    unknown = y.clone()
    unknown[:, :20] = -1
    together = fitting.fit(x, unknown, 5)
    assert together[0].shape == (2, 5, 30) and together[1].shape == (2, 5)
    for r in range(2):
        for ours, alone in zip(together, fitting.fit(x[r, 20:], y[r, 20:], 5)):
            assert torch.equal(ours[r], alone)
    for part in together:
        torch.testing.assert_close(part.sum(1), torch.zeros_like(part.sum(1)), atol=1e-5, rtol=0)
    p = logistic.LogisticModel(*together).predict_proba(x)
    assert p[..., 3:].max() < 0.02, "nothing speaks for a domain that has no example"


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_embeddings_that_are_all_alike_tell_nothing(value):
    x, y = torch.full((40, 20), value), torch.arange(40) % 2
    posterior = logistic.LogisticModel(*fitting.fit(x, y, 2)).predict_proba(x)
    torch.testing.assert_close(posterior, torch.full((40, 2), 0.5))


def test_no_example_and_no_number_are_answered():
    x, y = batch(30, 10, 2)
    weight, bias = fitting.fit(x, torch.full_like(y, -1), 2)
    assert not weight.any() and not bias.any()
    for width in (2, 10):  # with and without directions left out
        assert fitting.fit(x[:, :width] / 0, y, 2)[1].isnan().all()


def test_most_of_the_work_is_done_in_as_many_dimensions_as_there_are_domains(monkeypatch):
    passes, original = [], fitting._Objective.at

    def counted(self, theta):
        passes.append(theta.shape[1])
        return original(self, theta)

    monkeypatch.setattr(fitting._Objective, "at", counted)
    x, y = batch(512, 1024, 10)
    fitting.fit(F.normalize(x, dim=-1), y, 10)
    assert len(passes) < 30 and max(passes) < 4 * 10
