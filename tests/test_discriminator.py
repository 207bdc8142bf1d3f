import pytest
import torch

from dtcl_core import discriminator


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


def test_bad_arguments_are_named(posterior):
    with pytest.raises(ValueError, match="weighting must be .* 'both'"):
        discriminator.same_domain_probability(posterior, weighting="both")
    with pytest.raises(ValueError, match="needs the anchors' domains"):
        discriminator.same_domain_probability(posterior)
