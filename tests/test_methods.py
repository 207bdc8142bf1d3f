"""What goes into each method's training loss: against the functions of `losses`, called by hand, and formulas."""

import pytest
import torch
from torch.nn import functional as F

from dtcl_core import losses
from dtcl_core.methods import ALL_METHODS, Batch

TAU, TAU_MIN, TAU_BETA, LAMBDA = 0.2, 0.01, 0.3, 0.7


def drawn(*shape, generator=torch.Generator().manual_seed(0)):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


Z, Z_POS = (drawn(1, 8, 4).requires_grad_() for _ in range(2))
ANCHOR_POSTERIOR, POSTERIOR = (drawn(1, 8, 2).softmax(-1) for _ in range(2))
DOMAINS, ADVERSARY = torch.tensor([[0, 1] * 4]), (drawn(1, 2, 4), drawn(1, 2))


def batch(**more):
    one = lambda value: torch.tensor([value], dtype=torch.float64)
    told = {"tau_alpha": one(TAU), "tau_min": TAU_MIN, "tau_beta": one(TAU_BETA), "lambda_": one(LAMBDA)}
    told |= {"anchor_posterior": ANCHOR_POSTERIOR, "posterior": POSTERIOR, "adversary": ADVERSARY, "dann_features": "l2"}
    return Batch(Z, Z_POS, DOMAINS, 2, **told | more)


def formulas():
    """The loss [1] of each method; DANN's is that whose gradient the encoder gets."""
    both, twice = torch.cat([Z, Z_POS], -2), torch.cat([DOMAINS, DOMAINS], -1)
    known = POSTERIOR[0][:, DOMAINS[0]].T[None]  # [1, anchor, negative]: the negative's posterior of the anchor's domain
    weighted = lambda w: losses.domain_weighted_info_nce(Z, Z_POS, w, TAU, TAU_BETA, TAU_MIN, 2)
    plain = losses.info_nce(Z, Z_POS, TAU)
    terms = (losses.cosine_similarity(Z, Z_POS) / TAU).exp() * torch.where(torch.eye(8, dtype=torch.bool), 1.0, 2 * known)
    unit = F.normalize(both, dim=-1)
    mistaken = F.cross_entropy((unit @ ADVERSARY[0].mT + ADVERSARY[1][:, None])[0], twice[0])
    return {
        "standard": plain,
        "color_jitter": plain,
        "same_domain": losses.same_domain_info_nce(Z, Z_POS, DOMAINS, TAU),
        "mmd": plain + LAMBDA * losses.domain_mmd(unit, twice, 2, (1.0,)),
        "dann": plain - LAMBDA * mistaken,
        "dw_negatives": weighted(known),
        "dw_pairs": weighted(ANCHOR_POSTERIOR @ POSTERIOR.mT),
        "dw_outside": -(terms.diagonal(dim1=-2, dim2=-1) / terms.sum(-1)).log().mean(-1),
    }


def test_every_method_has_a_test():
    elsewhere = {"isogclr", "macl"}  # isogclr in test_pretrain.py, macl below
    assert {*formulas()} | elsewhere == {*ALL_METHODS}, "give each new method its loss in `formulas`"


@pytest.mark.parametrize("name", formulas())
def test_each_methods_loss_is_its_formula(name):
    ours, told = ALL_METHODS[name].loss(batch()), formulas()[name]
    if name != "dann":  # its value has the classifier's own loss
        torch.testing.assert_close(ours, told)
    torch.testing.assert_close(*(torch.autograd.grad(value.sum(), (Z, Z_POS)) for value in (ours, told)))


def test_the_posterior_of_the_other_view_is_taken_where_the_protocol_says_so():
    w = ANCHOR_POSTERIOR[0][:, DOMAINS[0]].T[None]
    told = losses.domain_weighted_info_nce(Z, Z_POS, w, TAU, TAU_BETA, TAU_MIN, 2)
    torch.testing.assert_close(ALL_METHODS["dw_negatives"].loss(batch(posterior_view="anchor_view")), told)


@pytest.mark.parametrize(("sign", "tau"), [(1.0, TAU * (1 + LAMBDA)), (-1.0, 0.1)])
def test_the_batchs_own_temperature_follows_its_positives_and_has_a_floor(sign, tau):
    ours = ALL_METHODS["macl"].pairs(batch(tau_min=0.1))["tau"]
    aligned = F.cosine_similarity(Z, Z_POS, dim=-1).mean(-1)
    torch.testing.assert_close(ours, TAU * (1 + LAMBDA * aligned.detach()))
    found = ALL_METHODS["macl"].pairs(Batch(Z, sign * Z, DOMAINS, 2, batch().tau_alpha, 0.1, lambda_=batch().lambda_))["tau"]
    torch.testing.assert_close(found, torch.tensor([tau], dtype=torch.float64))
