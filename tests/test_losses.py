"""Losses against references written by others, closed forms, limits and gradients."""

import math

import pytest
import torch
from pytorch_metric_learning.losses import NTXentLoss
from torch.nn import functional as F

from dtcl_core import discriminator, logistic, losses


def embeddings(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def pair():
    return embeddings(12, 5), embeddings(12, 5, seed=1)


def written_out(z, z_pos, tau, *, tau_neg=None, admitted=None, weight=None, positive=None, anchor_tau=None):
    """Equation 3 with all that a pair or an anchor may have, an anchor at a time."""
    pairs = (len(z), len(z_pos))
    positive = torch.eye(*pairs, dtype=torch.bool) if positive is None else positive
    admitted = torch.ones(pairs, dtype=torch.bool) if admitted is None else admitted
    weight = torch.ones(pairs) if weight is None else weight
    terms = []
    for i in positive.any(1).nonzero().flatten().tolist():  # an anchor without a positive does not count
        own_tau = tau if anchor_tau is None else float(anchor_tau[i])
        s = F.cosine_similarity(z[i : i + 1], z_pos).tolist()
        own = [s[j] / own_tau for j in range(pairs[1]) if positive[i, j]]
        total = sum(math.exp(exponent) for exponent in own)
        for j in range(pairs[1]):
            if admitted[i, j] and not positive[i, j]:
                tau_ij = own_tau if tau_neg is None else float(tau_neg[i, j]) * own_tau / tau
                total += float(weight[i, j]) * math.exp(s[j] / tau_ij)
        terms.append(own_tau / tau * (math.log(total) - sum(own) / len(own)))
    return sum(terms) / len(terms)


def test_info_nce_equals_pytorch_metric_learning(pair):
    z, z_pos = pair
    labels = torch.arange(len(z))
    for tau in (0.05, 0.2, 1.0):
        theirs = NTXentLoss(temperature=tau)(z, labels, ref_emb=z_pos, ref_labels=labels.clone())
        assert losses.info_nce(z, z_pos, tau).item() == pytest.approx(theirs.item(), rel=1e-6)


@pytest.mark.parametrize(
    "names",
    [
        ("tau_neg", "admitted"),
        ("weight",),
        ("anchor_tau",),
        ("tau_neg", "admitted", "weight", "positive"),
        ("tau_neg", "admitted", "weight", "positive", "anchor_tau"),
    ],
    ids=" ".join,
)
def test_info_nce_equals_the_written_out_equation(names):
    n, m = 5, 9 if "positive" in names else 5  # other candidates than the second views need `positive`
    z, c, generator = embeddings(n, 4), embeddings(m, 4, seed=1), torch.Generator().manual_seed(2)
    tau_neg, weight = 0.1 + torch.rand(2, n, m, generator=generator, dtype=torch.float64)
    anchor_tau = 0.1 + torch.rand(n, generator=generator, dtype=torch.float64)
    admitted, positive = torch.rand(2, n, m, generator=generator) > torch.tensor([0.4, 0.7])[:, None, None]
    positive |= torch.eye(n, m, dtype=torch.bool)
    positive[3] = False
    every = {"tau_neg": tau_neg, "weight": weight, "anchor_tau": anchor_tau, "admitted": admitted, "positive": positive}
    given = {name: every[name] for name in names}
    ours = losses.info_nce(z.requires_grad_(), c, 0.3, **given)
    assert ours.item() == pytest.approx(written_out(z.detach(), c, 0.3, **given), rel=1e-10)
    ours.backward()
    assert z.grad.isfinite().all() and z.grad[3].any() == ("positive" not in names)


def test_the_default_positives_are_the_diagonal_and_a_queue_may_follow(pair):
    z, z_pos = pair
    own = torch.eye(12, dtype=torch.bool)
    assert torch.allclose(losses.info_nce(z, z_pos, 0.2, positive=own), losses.info_nce(z, z_pos, 0.2), rtol=1e-12)
    queue = embeddings(7, 5, seed=2)
    q, k, old = (F.normalize(t, dim=-1) for t in (z, z_pos, queue))
    logits = torch.cat([(q * k).sum(-1, keepdim=True), q @ old.T], 1) / 0.2  # MoCo's Algorithm 1
    first, queued = torch.eye(12, 19, dtype=torch.bool), torch.arange(19) >= 12
    ours = losses.info_nce(z, torch.cat([z_pos, queue]), 0.2, positive=first, admitted=queued.expand(12, -1))
    assert torch.allclose(ours, F.cross_entropy(logits, torch.zeros(12, dtype=torch.long)))


def test_examples_of_unknown_domain_meet_no_penalty():
    z, domains = embeddings(8, 3), torch.tensor([0, 1, -1, 0, -1, 1, 1, 0])
    known = domains >= 0
    for penalty in (
        lambda z, d: losses.domain_mmd(z, d, 2, (1.0,)),
        lambda z, d: losses.adversarial_loss(z, d, embeddings(2, 3), torch.zeros(2, dtype=torch.float64), 0.5),
    ):
        assert torch.allclose(penalty(z, domains), penalty(z[known], domains[known]))


def test_collapsed_embeddings_give_log_n():
    z = torch.ones(9, 4)
    assert losses.info_nce(z, z, 0.07).item() == pytest.approx(math.log(9), rel=1e-6)


def test_a_single_example_has_no_negatives():
    z = embeddings(1, 4)
    assert losses.info_nce(z, embeddings(1, 4, seed=1), 0.1).item() == 0


def test_low_temperatures_do_not_overflow():
    z, z_pos = embeddings(64, 16, dtype=torch.float32), embeddings(64, 16, dtype=torch.float32, seed=1)
    z.requires_grad_()
    loss = losses.info_nce(z, z_pos, 0.01)
    loss.backward()
    assert loss.isfinite() and z.grad.isfinite().all()


def test_same_domain_negatives_split_into_a_loss_a_domain(pair):
    z, z_pos = pair
    domains = torch.tensor([0, 1] * 6)
    apart = [losses.info_nce(z[domains == d], z_pos[domains == d], 0.2) for d in (0, 1)]
    assert torch.allclose(losses.same_domain_info_nce(z, z_pos, domains, 0.2), torch.stack(apart).mean())


def test_one_domain_makes_same_domain_negatives_standard(pair):
    domains = torch.zeros(12, dtype=torch.long)
    assert torch.equal(losses.same_domain_info_nce(*pair, domains, 0.2), losses.info_nce(*pair, 0.2))


def test_pair_temperature_is_equation_2():
    w = torch.tensor([[0.0, 0.5, 0.7], [1.0, 0.25, 0.9], [0.5, 0.5, 0.5]])
    tau = losses.pair_temperature(w, 0.1, 0.4, 0.05, 2)
    expected = torch.tensor([[0.3, 0.1, 0.05], [0.05, 0.2, 0.05], [0.1, 0.1, 0.1]])
    assert torch.allclose(tau, expected)


@pytest.mark.parametrize("num_domains", [1, 2, 3, 7])
def test_uninformative_weights_give_standard_info_nce_exactly(pair, num_domains):
    w = torch.full((12, 12), 1 / num_domains, dtype=torch.float64)
    ours = losses.domain_weighted_info_nce(*pair, w, 0.15, 0.8, 0.01, num_domains)
    assert torch.equal(ours, losses.info_nce(*pair, 0.15))


def test_tau_beta_zero_gives_standard_info_nce_exactly(pair):
    w = torch.rand(12, 12, dtype=torch.float64)
    assert torch.equal(losses.domain_weighted_info_nce(*pair, w, 0.15, 0.0, 0.01, 2), losses.info_nce(*pair, 0.15))


def test_the_gradient_is_the_papers():
    """Claim 12: dl_i / ds_ij = exp(s_ij / tau_ij) / tau_ij over the denominator, for every negative.

    With z'_j = e_j the similarities are the coordinates of z_i / |z_i|. Where |z_i| = 1, the gradient with respect to
    z_i is that with respect to the similarities, projected off z_i.
    """
    n = 12
    z = F.normalize(embeddings(n, n), dim=-1).requires_grad_()
    units = torch.eye(n, dtype=torch.float64)
    w = torch.rand(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    (by_autograd,) = torch.autograd.grad(n * losses.domain_weighted_info_nce(z, units, w, 0.2, 0.3, 0.05, 2), z)

    s = z.detach()
    tau = (0.2 + 0.3 * (0.5 - w)).clamp(min=0.05)
    tau[units.bool()] = 0.2
    e = torch.exp(s / tau)
    by_paper = e / tau / e.sum(-1, keepdim=True)
    by_paper -= units / 0.2  # the numerator's own term
    assert torch.allclose(by_autograd, by_paper - (by_paper * s).sum(-1, keepdim=True) * s, rtol=1e-10, atol=1e-12)


def test_gradients_are_right(pair):
    z, z_pos = (t[:6].clone().requires_grad_() for t in pair)
    w, domains = torch.rand(6, 6, dtype=torch.float64), torch.tensor([0, 1, 0, 1, 0, 0])
    assert torch.autograd.gradcheck(lambda a, b: losses.domain_weighted_info_nce(a, b, w, 0.3, 0.2, 0.1, 2), (z, z_pos))
    assert torch.autograd.gradcheck(lambda a, b: losses.same_domain_info_nce(a, b, domains, 0.3), (z, z_pos))
    assert torch.autograd.gradcheck(lambda a: losses.domain_mmd(a, domains, 2, (0.5, 1.0)), (z,))


def loop_mmd(x, y, bandwidths):
    def mean_kernel(a, b):
        total = 0.0
        for u in a.tolist():
            for v in b.tolist():
                squared = sum((p - q) ** 2 for p, q in zip(u, v))
                total += sum(math.exp(-squared / (2 * h * h)) for h in bandwidths)
        return total / (len(a) * len(b))

    return mean_kernel(x, x) + mean_kernel(y, y) - 2 * mean_kernel(x, y)


def test_mmd_equals_a_loop():
    x, y = embeddings(7, 3), 0.5 + embeddings(11, 3, seed=1)
    for bandwidths in [(1.0,), (0.25, 1.0, 3.0)]:
        assert losses.mmd(x, y, bandwidths).item() == pytest.approx(loop_mmd(x, y, bandwidths), rel=1e-10)


@pytest.mark.parametrize("bandwidths", [(1.0,), (0.25, 0.5, 1.0, 2.0), (0.3, 1.0, 0.7, 1.0)])
def test_mmds_own_gradient_is_the_one_that_autograd_finds(bandwidths):
    """Bandwidths whose kernels are powers of each other and ones that are not, of a stack."""
    z, signs = embeddings(2, 20, 3), torch.randn(2, 20, dtype=torch.float64)
    both = []
    for copy in (z.clone().requires_grad_(), z.clone().requires_grad_()):
        if not both:
            total = losses._signed_kernel_sum(copy, signs, bandwidths)
        else:
            distance = torch.cdist(copy, copy).square()
            kernel = sum(torch.exp(-distance / (2 * b * b)) for b in bandwidths)
            total = torch.einsum("ri,rij,rj->r", signs, kernel, signs)
        both.append((total, *torch.autograd.grad((total * torch.tensor([1.0, -3.0])).sum(), copy)))
    for mine, theirs in zip(*both):
        assert torch.allclose(mine, theirs, rtol=1e-9, atol=1e-12)


def objectives():
    """Every loss and penalty of this module as a function of embeddings z [8, 3] in float64."""
    domains, three, w = torch.arange(8) % 2, torch.arange(8) % 3, torch.rand(8, 8, dtype=torch.float64)
    other = embeddings(8, 3, seed=9)
    return {
        "info_nce": lambda z: losses.info_nce(z, other, 0.3),
        "several positives": lambda z: losses.info_nce(z, z, 0.3, positive=losses.same_domain(domains)),
        "same_domain_info_nce": lambda z: losses.same_domain_info_nce(z, other, domains, 0.3),
        "domain_weighted_info_nce": lambda z: losses.domain_weighted_info_nce(z, other, w, 0.3, 0.2, 0.05, 2),
        "weight": lambda z: losses.info_nce(z, other, 0.3, weight=w),
        "anchor_tau": lambda z: losses.info_nce(z, other, 0.3, anchor_tau=w[0] + 0.1),
        "mmd": lambda z: losses.mmd(z[:3], z[3:], (0.5, 1.0)),
        "domain_mmd": lambda z: losses.domain_mmd(z, domains, 2, (0.5, 1.0)),
        "domain_mmd of three": lambda z: losses.domain_mmd(z, three, 3, (0.5, 1.0)),
        "domain_mmd, unbiased": lambda z: losses.domain_mmd(z, domains, 2, (0.5, 1.0), unbiased=True),
    }


@pytest.mark.parametrize("name", objectives())
def test_gradients_of_gradients_are_right(name):
    objective, z = objectives()[name], embeddings(8, 3).requires_grad_()
    assert torch.autograd.gradgradcheck(objective, (z,))
    (first,) = torch.autograd.grad(objective(z), z, create_graph=True)
    (kept,) = torch.autograd.grad(objective(z), z)
    assert torch.allclose(first, kept, rtol=1e-9, atol=1e-12), "the same gradient, with or without a graph"


@pytest.mark.parametrize("name", objectives())
def test_functional_transforms_give_the_same_values_and_gradients(name):
    objective, batch = objectives()[name], torch.stack([embeddings(8, 3, seed=s) for s in range(3)])
    assert torch.allclose(torch.func.vmap(objective)(batch), torch.stack([objective(z) for z in batch]))
    for z, found in zip(batch, torch.func.vmap(torch.func.grad(objective))(batch), strict=True):
        z = z.clone().requires_grad_()
        assert torch.allclose(found, torch.autograd.grad(objective(z), z)[0])


@pytest.mark.parametrize("name", ["info_nce", "same_domain_info_nce", "domain_weighted_info_nce", "several positives"])
def test_an_embedding_without_a_direction_gets_no_gradient(name):
    z = embeddings(8, 3)
    z[2] = 0.0
    z.requires_grad_()
    (gradient,) = torch.autograd.grad(objectives()[name](z), z)
    assert not gradient[2].any() and gradient.isfinite().all() and gradient[:2].abs().sum() > 0
    unit = losses.directions(z.detach())
    assert torch.equal(unit, F.normalize(z.detach(), dim=-1))
    (first,) = torch.autograd.grad(objectives()[name](z), z, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), z)
    assert second.isfinite().all() and not second[2].any()


def test_the_unbiased_mmd_leaves_out_each_example_with_itself():
    z, domains = embeddings(9, 3), torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, -1])  # the one of domain 2 and the unknown do not count

    def mean_kernel(a, b, own):
        k = torch.exp(-torch.cdist(a, b).square() / 2)
        return (k.sum() - k.trace()) / (len(a) * (len(a) - 1)) if own else k.mean()

    x, y = z[:4], z[4:7]
    expected = mean_kernel(x, x, True) + mean_kernel(y, y, True) - 2 * mean_kernel(x, y, False)
    assert torch.allclose(losses.domain_mmd(z, domains, 3, (1.0,), unbiased=True), expected)
    assert losses.domain_mmd(z[6:], domains[6:], 3, (1.0,), unbiased=True).item() == 0.0


def test_domain_mmd_is_the_mean_over_pairs_of_domains():
    z, domains = embeddings(2, 15, 4), torch.tensor([0, 1, 2] * 5).expand(2, 15)
    parts = [z[:, domains[0] == d] for d in range(3)]
    pairs = [losses.mmd(parts[a], parts[b], (1.0,)) for a, b in [(1, 0), (2, 0), (2, 1)]]
    assert torch.allclose(losses.domain_mmd(z, domains, 3, (1.0,)), torch.stack(pairs).mean(0))


def test_adversary_descends_and_encoder_ascends():
    z, domains = embeddings(1, 10, 4).requires_grad_(), torch.tensor([[0, 1] * 5])
    weight, bias = embeddings(1, 2, 4, seed=1).requires_grad_(), torch.zeros(1, 2, dtype=torch.float64).requires_grad_()
    scale = torch.tensor([0.3], dtype=torch.float64)
    losses.adversarial_loss(z, domains, weight, bias, scale).sum().backward()
    plain = z.detach().clone().requires_grad_()
    kept = weight.detach().clone().requires_grad_()
    F.cross_entropy((plain @ kept.transpose(-1, -2) + bias.detach())[0], domains[0]).backward()
    assert torch.allclose(weight.grad, kept.grad)
    assert torch.allclose(z.grad, -0.3 * plain.grad)


@pytest.mark.parametrize("tau", [0.0, -0.1, float("nan")])
def test_a_temperature_that_is_not_positive_is_refused(pair, tau):
    with pytest.raises(ValueError, match="tau must be > 0"):
        losses.info_nce(*pair, tau)


def test_a_negative_tau_beta_is_refused():
    with pytest.raises(ValueError, match="tau_beta must be >= 0, got -5"):
        losses.pair_temperature(torch.zeros(2, 2), 0.1, -5, 0.01, 2)


def test_half_precision_does_not_reach_the_loss():
    z, z_pos = embeddings(32, 16, dtype=torch.float32), embeddings(32, 16, dtype=torch.float32, seed=1)
    exact = losses.info_nce(z, z_pos, 0.02)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(losses.info_nce(z, z_pos, 0.02), exact)


def test_shapes_that_do_not_agree_are_refused():
    with pytest.raises(ValueError, match=r"\(4, 3\) and \(5, 3\)"):
        losses.info_nce(torch.zeros(4, 3), torch.zeros(5, 3), 0.1)


def test_mmd_counts_the_pairs_of_domains_that_are_there_and_minds_no_offset():
    generator = torch.Generator().manual_seed(0)
    z, domains = torch.randn(40, 8, generator=generator), torch.arange(40) % 2
    told = losses.domain_mmd(z, domains, 2, (1.0, 2.0))
    assert torch.isclose(losses.domain_mmd(z, domains * 2, 3, (1.0, 2.0)), told)
    assert torch.isclose(losses.domain_mmd(z + 1e3, domains, 2, (1.0, 2.0)), told, rtol=1e-2)
    assert torch.isclose(losses.mmd(z[::2], z[1::2], (1.0, 2.0)), told, rtol=1e-5)
    assert losses.domain_mmd(z, 0 * domains, 2, (1.0,)) == 0
    for wrong in ((), (0.0,)):
        with pytest.raises(ValueError, match="bandwidths"):
            losses.domain_mmd(z, domains, 2, wrong)


def test_a_matrix_of_pairs_of_another_size_is_refused():
    z = torch.randn(4, 3)
    for name in ("tau_neg", "admitted", "weight"):
        for shape in ((5, 5), (3,), (4, 3)):
            with pytest.raises(ValueError, match=rf"{name} must be \[\.\.\., 4, 4\]"):
                losses.info_nce(z, z, 0.1, **{name: torch.ones(shape, dtype=torch.bool)})
    with pytest.raises(ValueError, match="num_domains must be >= 1"):
        losses.pair_temperature(torch.rand(4, 4), 0.1, 0.1, 0.01, 0)


def test_lambda_may_be_a_number():
    x = torch.randn(12, 3).requires_grad_()
    losses.reverse_gradient(x, 2.0).sum().backward()
    assert (x.grad == -2).all()


def test_runs_of_a_stack_have_temperatures_of_their_own():
    z, z_pos = embeddings(2, 7, 4), embeddings(2, 7, 4, seed=1)
    anchor_tau = 0.1 + torch.rand(2, 7, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    tau = torch.tensor([0.2, 0.5], dtype=torch.float64)
    found = losses.info_nce(z, z_pos, tau, anchor_tau=anchor_tau).tolist()
    assert found == pytest.approx([written_out(z[r], z_pos[r], float(tau[r]), anchor_tau=anchor_tau[r]) for r in range(2)])
    alike = losses.info_nce(z, z_pos, tau, anchor_tau=tau[:, None].expand(2, 7))
    torch.testing.assert_close(alike, losses.info_nce(z, z_pos, tau))


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"])
def test_any_integer_type_is_a_domain(name):
    z, domains, weight = embeddings(6, 3), torch.arange(6) % 2, embeddings(2, 3, seed=1)
    other = domains.to(getattr(torch, name))
    bias = torch.zeros(2, dtype=torch.float64)
    for of in (
        lambda d: losses.domain_mmd(z, d, 2, (1.0,)),
        lambda d: losses.domain_mmd(z, d, 3, (1.0,)),
        lambda d: losses.same_domain_info_nce(z, z + 0.1, d, 0.5),
        lambda d: losses.adversarial_loss(z, d, weight, bias, 1.0),
        lambda d: logistic.fit(z, d, 2).weight,
        lambda d: discriminator.same_domain_probability(embeddings(6, 2).softmax(-1), d),
    ):
        assert torch.equal(of(other), of(domains))
