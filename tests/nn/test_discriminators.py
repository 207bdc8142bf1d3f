"""Discriminators, given and fitted on each batch, against scikit-learn and scipy."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from sklearn.linear_model import LogisticRegression
from torch.nn import functional as F

from dtcl_core import DomainWeightedInfoNCELoss, logistic
from dtcl_core.nn import weigher
from dtcl_core.nn.discriminators import LinearDiscriminator, MLPDiscriminator, fit_temperature
from dtcl_core.nn.weigher import Weigher


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    domains = torch.randint(0, 3, (400,), generator=generator)
    return torch.randn(400, 5, generator=generator, dtype=torch.float64) + 0.8 * F.one_hot(domains, 5), domains


@pytest.mark.parametrize("l2", [0.1, 1.0, 10.0])
def test_the_linear_one_is_scikit_learns(data, l2):
    z, domains = data
    ours = LinearDiscriminator(3, l2=l2, features="raw").fit(z, domains)
    theirs = LogisticRegression(C=1 / l2, tol=1e-10, max_iter=10_000).fit(z.numpy(), domains.numpy())
    np.testing.assert_allclose(ours.predict_proba(z).numpy(), theirs.predict_proba(z.numpy()), atol=1e-6)
    assert ours.score(z, domains) == pytest.approx(theirs.score(z.numpy(), domains.numpy()))
    assert ours.predict(z).equal(torch.from_numpy(theirs.predict(z.numpy())))


def test_the_temperature_is_the_most_likely_one(data):
    z, domains = data
    logits = 4.0 * z[:, :3]
    best = minimize_scalar(
        lambda t: F.cross_entropy(logits / np.exp(t), domains).item(), bounds=(-4, 4), method="bounded", options={"xatol": 1e-10}
    )  # fmt: skip
    assert fit_temperature(logits, domains) == pytest.approx(np.exp(best.x), rel=1e-4)


def test_calibration_softens_an_overfitted_discriminator():
    generator = torch.Generator().manual_seed(1)
    z, domains = torch.randn(120, 60, generator=generator), torch.arange(120) % 2  # nothing to learn
    sharp = LinearDiscriminator(2, l2=0.01).fit(z, domains)
    soft = LinearDiscriminator(2, l2=0.01, calibrate=0.25).fit(z, domains)
    fresh = torch.randn(500, 60, generator=generator)
    confidence = [m.predict_proba(fresh).amax(-1).mean().item() for m in (sharp, soft)]
    assert soft.temperature_ > 1 and confidence[1] < confidence[0] - 0.1
    again = LinearDiscriminator(2, l2=0.01, calibrate=0.25).fit(z, domains)
    assert again.predict_proba(fresh).equal(soft.predict_proba(fresh))


def test_calibration_holds_out_a_share_of_each_domain_and_leaves_one_example_at_least():
    domains = torch.tensor([0] * 40 + [1] * 2 + [2])
    z = torch.nn.functional.one_hot(domains).float() + 0.01 * torch.randn(43, 3, generator=torch.Generator().manual_seed(0))
    for seed in range(5):
        known = LinearDiscriminator(3, calibrate=0.5, seed=seed, l2=0.01)
        apart = known._held_out(domains, [0, 1, 2])
        assert [int(apart[domains == d].sum()) for d in range(3)] == [20, 1, 0]
        assert known.fit(z, domains).score(z, domains) == 1.0


def test_the_mlp_tells_apart_what_no_line_can():
    generator = torch.Generator().manual_seed(2)
    z = torch.randn(600, 2, generator=generator)
    domains = (z[:, 0] * z[:, 1] > 0).long()
    mlp = MLPDiscriminator(2).fit(z, domains)
    assert LinearDiscriminator(2).fit(z, domains).score(z, domains) < 0.65 < 0.95 < mlp.score(z, domains)
    assert MLPDiscriminator(2, calibrate=0.2).fit(z, domains).temperature_ != 1.0


def test_in_double_precision_the_mlp_does_not_mind_the_scale_of_raw_features(data):
    z, domains = data
    one, other = (
        MLPDiscriminator(int(domains.max()) + 1, features="raw").fit(x, domains).predict_proba(x) for x in (z, 1000 * z + 5000)
    )
    torch.testing.assert_close(one, other, rtol=0, atol=1e-2)


@pytest.mark.parametrize("kind", [LinearDiscriminator, MLPDiscriminator])
def test_a_fit_leaves_gradients_and_the_global_generator_alone(data, kind):
    z, domains = data
    p = kind(3, calibrate=0.2).fit(z, domains).predict_proba(z)
    torch.testing.assert_close(p.sum(-1), torch.ones(400, dtype=p.dtype))
    before = torch.random.get_rng_state()
    known = kind(3, calibrate=0.2).fit(z.requires_grad_(), domains)
    assert torch.random.get_rng_state().equal(before)
    assert known.predict_proba(z).equal(p) and not p.requires_grad and z.grad is None
    assert known.predict_proba(z[None]).shape == (1, 400, 3)
    for mode in (torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode()):
        with mode:
            assert kind(3, calibrate=0.2).fit(z, domains).predict_proba(z).equal(p)


def test_an_example_of_unknown_domain_counts_neither_in_a_fit_nor_in_a_score(data):
    z, domains = data
    some = torch.where(torch.arange(400) < 100, -1, domains)
    known, alone = LinearDiscriminator(3).fit(z, some), LinearDiscriminator(3).fit(z[100:], domains[100:])
    torch.testing.assert_close(known.predict_proba(z), alone.predict_proba(z))
    assert 0.5 < known.score(z, some) == known.score(z[100:], domains[100:]) < 1
    assert math.isnan(known.score(z, some * 0 - 1)), "there is nothing to be right about"
    assert math.isnan(known.score(z[:0], domains[:0]))


@pytest.mark.parametrize("kind", [LinearDiscriminator, MLPDiscriminator])
def test_mistakes_are_answered_by_one_sentence(kind, data):
    z, domains = data
    with pytest.raises(RuntimeError, match=rf"this {kind.__name__} is not fitted yet; call fit\(z, domains\) first"):
        kind(3).predict_proba(z)
    for bad, message in (
        (lambda: kind(1), "num_domains must be an integer >= 2, got 1"),
        (lambda: kind(3, calibrate=1.0), "calibrate must be a number >= 0 and <= 0.9"),
        (
            lambda: kind(2).fit(z, domains),
            r"domains must be in 0 \.\.\. 1, or negative where not known, got 0 \.\.\. 2",
        ),
        (lambda: kind(3).fit(z[:, 0], domains), "z must be floating embeddings"),
        (lambda: kind(3).fit(z[None], domains[None]), r"z must be \[N, k\]"),
        (lambda: kind(3).fit(z, domains * 0), "all examples are of domain 0: there is nothing to tell apart"),
        (lambda: kind(3).fit(z / 0, domains), "z holds NaN or infinite values"),
        (lambda: kind(3, calibrate=0.001).fit(z[:10], domains[:10]), "holds out none of 10 examples"),
    ):
        with pytest.raises(ValueError, match=message):
            bad()


def test_a_state_of_the_other_kind_leaves_it_without_a_fit(data):
    z, domains = data
    mlp, linear = MLPDiscriminator(3, steps=2), LinearDiscriminator(3).fit(z, domains)
    with pytest.raises(RuntimeError, match="Missing key|Unexpected key"):
        mlp.load_state_dict(linear.state_dict())
    assert linear.fitted and not mlp.fitted
    with pytest.raises(RuntimeError, match="not fitted yet"):
        mlp.predict(z)


@pytest.mark.parametrize("kind", [LinearDiscriminator, MLPDiscriminator])
def test_a_state_of_another_number_of_domains_is_refused(kind, data):
    z, domains = data
    known = kind(3).fit(z, domains)
    before = known.predict_proba(z)
    with pytest.raises(RuntimeError, match="num_domains is 3, but what is loaded tells 2 domains apart"):
        known.load_state_dict(kind(2).fit(z, domains % 2).state_dict())
    torch.testing.assert_close(known.predict_proba(z), before, rtol=0, atol=0)


@pytest.mark.parametrize("kind", [LinearDiscriminator, MLPDiscriminator])
def test_what_it_sees_is_saved_with_what_it_learned(kind, data):
    z, domains = data
    known, loaded = kind(3, features="raw").fit(20 * z, domains), kind(3)
    loaded.load_state_dict(known.state_dict())
    assert loaded.features == "raw" and torch.equal(loaded.predict_proba(20 * z), known.predict_proba(20 * z))
    for state in (kind(3, features="raw").state_dict(), dict(kind(3, features="raw").state_dict())):  # not fitted; metadata lost
        unfitted = kind(3)
        unfitted.load_state_dict(state)
        assert unfitted.features == "raw" and not unfitted.fitted
    with pytest.raises(ValueError, match="saved features must be an integer >= 0 and <= 1, got -1"):
        unfitted.set_extra_state(torch.tensor(-1))
    before = known.predict_proba(z)
    wrong = {**kind(3).fit(z, domains).state_dict(), "_extra_state": torch.tensor(7)}
    with pytest.raises(RuntimeError, match="saved features must be an integer >= 0 and <= 1, got 7"):
        known.load_state_dict(wrong)
    assert torch.equal(known.predict_proba(z), before), "nothing of it was taken over"


def test_a_refit_that_fails_leaves_the_discriminator_as_it_was():
    z, domains = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2
    known = LinearDiscriminator(2, calibrate=0.1).fit(z, domains)
    before = known.predict_proba(z)
    with pytest.raises(ValueError, match="holds out none of 4 examples"):
        known.fit(torch.randn(4, 5), domains[:4])
    assert torch.equal(known.predict_proba(z), before)
    assert repr(known) == "LinearDiscriminator(num_domains=2, calibrate=0.1, seed=0, features='l2', l2=1.0)"


# --- the one that a loss fits on each batch ---------------------------------------------------------------------------------


def test_the_one_of_a_batch_is_fitted_with_the_settings_of_the_loss():
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(3, (96,), generator=generator)
    x = torch.randn(3, 8, generator=generator)[y] + torch.randn(96, 8, generator=generator, dtype=torch.float64)
    theirs = LogisticRegression(C=1 / 0.1, tol=1e-8, max_iter=10_000).fit(x.numpy(), y.numpy())
    expected = torch.from_numpy(theirs.predict_proba(x.numpy()))
    known = Weigher(0.1, 0.01, 3, "negatives", None, 0.1, "raw").discriminator_for(x, y, gather=False, validate=False)
    assert (known.predict_proba(x) - expected).abs().max() < 1e-6


def test_the_fit_of_a_batch_goes_on_until_it_has_converged_on_an_accelerator_too(monkeypatch):
    monkeypatch.setattr(logistic, "is_accelerator", lambda device: True)
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(3, (2048,), generator=generator)
    x = torch.randn(2048, 64, generator=generator) + 0.7 * torch.randn(3, 64, generator=generator)[y]
    x = F.normalize(x, dim=-1)
    exact = logistic.fit(x.double(), y, 3).predict_proba(x.double())
    found = logistic.LogisticModel(*weigher.fit(x, y, 3, 1.0)).predict_proba(x)
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=5e-3)


def test_the_fit_of_a_batch_is_sound_as_an_operator():
    z, domains = torch.randn(2, 20, 6, generator=torch.Generator().manual_seed(0)), torch.arange(20).remainder(3).expand(2, 20)
    torch.library.opcheck(weigher._fit_when_compiled, (z, domains, 3, 1.0))


@pytest.mark.parametrize(("l2", "invented", "kept"), [(1.0, 0.015, 0.12), (10.0, 0.002, 0.08)])
def test_the_penalty_weighs_domains_that_are_not_there_against_those_that_are(l2, invented, kept):
    """What the page *Use it* says of 10, for a batch twice as large as the embedding is wide."""
    generator = torch.Generator().manual_seed(0)
    domains = torch.arange(256) % 3
    noise = F.normalize(torch.randn(2, 256, 128, generator=generator), dim=-1)
    shown = 0.7**0.5 * noise + 0.3**0.5 * F.normalize(F.one_hot(domains, 128) - F.one_hot(torch.tensor(0), 128) / 3.0, dim=-1)
    moved = []
    for z0, z1 in (noise, shown):
        loss = DomainWeightedInfoNCELoss(0.2, 0.2, num_domains=3, l2=l2)
        loss(z0, z1, domains)
        moved.append(0.2 - float(loss.last["tau_within"]))
    assert invented <= moved[0] <= invented + 0.01 and kept <= moved[1] <= kept + 0.03, moved
