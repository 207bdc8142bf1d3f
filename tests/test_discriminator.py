import pytest
import torch

from dtcl_core import LinearDiscriminator, MLPDiscriminator, discriminator


@pytest.fixture
def posterior():
    return torch.randn(8, 3, generator=torch.Generator().manual_seed(0)).softmax(-1)


def test_negatives_know_the_anchors_domain(posterior):
    domains = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    w = discriminator.same_domain_probability(posterior, domains, "negatives")
    for i in range(8):
        for j in range(8):
            assert w[i, j] == posterior[j, domains[i]]


def test_pairs_sum_over_domains(posterior):
    anchor = posterior.flip(0)
    w = discriminator.same_domain_probability(posterior, weighting="pairs", anchor_posterior=anchor)
    for i in range(8):
        for j in range(8):
            assert w[i, j].item() == pytest.approx(sum(float(anchor[i, d] * posterior[j, d]) for d in range(3)))
    assert torch.allclose(discriminator.same_domain_probability(posterior, weighting="pairs"), posterior @ posterior.T)


def test_a_uniform_posterior_gives_one_over_the_number_of_domains():
    uniform, domains = torch.full((5, 4), 0.25), torch.tensor([0, 1, 2, 3, 0])
    for weighting in ("negatives", "pairs"):
        assert torch.equal(discriminator.same_domain_probability(uniform, domains, weighting), torch.full((5, 5), 0.25))


def test_no_gradient_reaches_the_embeddings_through_the_fit():
    z = torch.randn(40, 4, requires_grad=True)
    g = discriminator.fit(z, torch.arange(40) % 2, 2)
    assert not g.predict_proba(z.detach()).requires_grad
    assert g.predict_proba(z).requires_grad  # through the embedding that it is asked about alone


def test_every_fitted_discriminator_has_one_contract():
    z, domains = torch.randn(40, 4, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2
    for fitted in (
        discriminator.fit(z, domains, 2),
        LinearDiscriminator(2).fit(z, domains),
        MLPDiscriminator(2).fit(z, domains),
    ):
        q = fitted.predict_proba(z)
        assert q.shape == (40, 2) and torch.allclose(q.sum(-1), torch.ones(40))
    assert not callable(discriminator.fit(z, domains, 2)), "there is one way to ask"


def test_unit_length_features_ignore_scale():
    z = torch.randn(40, 4, generator=torch.Generator().manual_seed(1))
    g = discriminator.fit(z, (z[:, 0] > 0).long(), 2, kind="l2")
    assert torch.allclose(g.predict_proba(z), g.predict_proba(7 * z), atol=1e-6)
    raw = discriminator.fit(z, (z[:, 0] > 0).long(), 2)
    assert not torch.allclose(raw.predict_proba(z), raw.predict_proba(7 * z), atol=1e-2)


def test_bad_arguments_are_named(posterior):
    with pytest.raises(ValueError, match="weighting must be .* 'both'"):
        discriminator.same_domain_probability(posterior, weighting="both")
    with pytest.raises(ValueError, match="needs the anchors' domains"):
        discriminator.same_domain_probability(posterior)
