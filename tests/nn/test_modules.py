"""The losses as modules: against their functional forms, references written by others, and each other."""

from contextlib import nullcontext

import pytest
import torch
from pytorch_metric_learning.losses import SupConLoss as ReferenceSupCon
from sklearn.linear_model import LogisticRegression
from torch.nn import functional as F

from dtcl_core import discriminator, losses
from dtcl_core.losses import cosine_similarity
from dtcl_core.nn.candidates import Anchors, Candidates, Temperatures, contrast
from dtcl_core.nn.discriminators import LinearDiscriminator, MLPDiscriminator
from dtcl_core.nn.modules import (
    DomainWeightedInfoNCELoss,
    DomainWeightedSupConLoss,
    InfoNCELoss,
    SameDomainInfoNCELoss,
    SupConLoss,
)
from dtcl_core.nn.penalties import DomainAdversary, MMDPenalty
from dtcl_core.nn.queue import NegativeQueue
from dtcl_core.nn.settings import OPTIONS, LearnedTemperature

N, K, D = 24, 6, 3


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(3)
    z0, z1 = torch.randn(2, N, K, generator=generator, dtype=torch.float64)
    domains = torch.arange(N) % D
    z0, z1 = z0 + F.one_hot(domains, K), z1 + F.one_hot(domains, K)  # so that there is something to discriminate
    return z0.requires_grad_(), z1.requires_grad_(), domains


def gradients(loss, *inputs):
    return torch.autograd.grad(loss, inputs, retain_graph=True)


def assert_same(ours, reference, *inputs):
    torch.testing.assert_close(ours, reference)
    torch.testing.assert_close(gradients(ours, *inputs), gradients(reference, *inputs))


CHUNKS = pytest.mark.parametrize("chunk_size", [None, 1, 7, N, 1000])


@CHUNKS
def test_info_nce_is_the_functional_form(batch, chunk_size):
    z0, z1, domains = batch
    assert_same(InfoNCELoss(0.2, chunk_size=chunk_size)(z0, z1), losses.info_nce(z0, z1, 0.2), z0, z1)
    ours = SameDomainInfoNCELoss(0.2, chunk_size=chunk_size)(z0, z1, domains)
    assert_same(ours, losses.same_domain_info_nce(z0, z1, domains, 0.2), z0, z1)


@CHUNKS
@pytest.mark.parametrize("weighting", ["negatives", "pairs"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_the_papers_loss_is_the_functional_form(batch, chunk_size, weighting, symmetric):
    z0, z1, domains = batch
    fitted = discriminator.fit(torch.cat([z0, z1]), torch.cat([domains, domains]), D, kind="l2")

    def one_way(z, z_pos):
        w = discriminator.same_domain_probability(
            fitted.predict_proba(z_pos.detach()), domains, weighting, fitted.predict_proba(z.detach())
        )
        return losses.domain_weighted_info_nce(z, z_pos, w, 0.2, 0.3, 0.01, D)

    reference = (one_way(z0, z1) + one_way(z1, z0)) / 2 if symmetric else one_way(z0, z1)
    loss_fn = DomainWeightedInfoNCELoss(0.2, 0.3, num_domains=D, weighting=weighting, symmetric=symmetric, chunk_size=chunk_size)
    assert_same(loss_fn(z0, z1, domains), reference, z0, z1)


def test_a_global_discriminator_is_used_as_it_is(batch):
    z0, z1, domains = batch
    everything = torch.randn(200, K, dtype=torch.float64)
    known = LinearDiscriminator(D).fit(everything, torch.arange(200) % D)
    w = discriminator.same_domain_probability(known.predict_proba(z1), domains)
    reference = losses.domain_weighted_info_nce(z0, z1, w, 0.2, 0.3, 0.01, D)
    loss_fn = DomainWeightedInfoNCELoss(0.2, 0.3, num_domains=D, discriminator=known)
    assert_same(loss_fn(z0, z1, domains), reference, z0, z1)
    one = domains * 0  # a batch of one domain is no trouble for it
    assert loss_fn(z0, z1, one).isfinite()


def test_no_gradient_reaches_a_discriminator_of_the_users(batch):
    class Own(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(K, D)  # float32, where the embeddings are float64

        def predict_proba(self, z):
            return self.layer(z.float()).softmax(-1)

    z0, z1, domains = batch
    own = Own()
    DomainWeightedInfoNCELoss(num_domains=D, weighting="pairs", discriminator=own)(z0, z1, domains.int()).backward()
    assert z0.grad is not None and all(p.grad is None for p in own.parameters())


def test_leading_dimensions_are_independent_runs(batch):
    z0, z1, domains = batch
    stacked = torch.stack([z0, z1]), torch.stack([z1, z0])
    for loss_fn in (DomainWeightedInfoNCELoss(num_domains=D, chunk_size=5), InfoNCELoss(symmetric=True)):
        alone = torch.stack([loss_fn(z0, z1, domains), loss_fn(z1, z0, domains)])
        torch.testing.assert_close(loss_fn(*stacked, domains.expand(2, -1)), alone)


@pytest.mark.parametrize("chunk_size", [None, 5])
def test_each_run_may_have_temperatures_of_its_own(batch, chunk_size):
    z0, z1, domains = batch
    taus = {"tau_alpha": (0.2, 0.3), "tau_beta": (0.3, 0.6), "tau_min": (0.01, 0.15)}
    how = {"num_domains": D, "weighting": "pairs", "chunk_size": chunk_size}
    runs = [DomainWeightedInfoNCELoss(**{name: pair[r] for name, pair in taus.items()}, **how) for r in range(2)]
    alone = torch.stack([loss_fn(z0, z1, domains) for loss_fn in runs])
    together = DomainWeightedInfoNCELoss(**{name: torch.tensor(pair) for name, pair in taus.items()}, **how)
    torch.testing.assert_close(together(torch.stack([z0, z0]), torch.stack([z1, z1]), domains.expand(2, -1)), alone)
    clipped = [loss_fn.last["clipped"] for loss_fn in runs]
    assert together.last["clipped"] == pytest.approx(sum(clipped) / 2) and clipped[0] != clipped[1]


# --- supervised and NT-Xent -------------------------------------------------------------------------------------------


@CHUNKS
def test_supcon_equals_pytorch_metric_learning(batch, chunk_size):
    z0, z1, _ = batch
    labels = torch.arange(N) % 4
    reference = ReferenceSupCon(temperature=0.2)(torch.cat([z0, z1]), torch.cat([labels, labels]))
    assert_same(SupConLoss(0.2, chunk_size=chunk_size)(z0, z1, labels), reference, z0, z1)


@CHUNKS
def test_weighted_supcon_is_the_written_out_sum(batch, chunk_size):
    z0, z1, domains = batch
    labels, z, d = torch.arange(N) % 4, torch.cat([z0, z1]), torch.cat([domains, domains])
    q = discriminator.fit(z, d, D, kind="l2").predict_proba(z.detach())
    s, total = cosine_similarity(z, z), 0.0
    for i in range(2 * N):
        tau = [max(0.2 + 0.3 * (1 / D - float(q[a, d[i]])), 0.01) for a in range(2 * N)]
        positive = [a for a in range(2 * N) if a != i and labels[a % N] == labels[i % N]]
        logits = {a: s[i, a] / (0.2 if a in positive else tau[a]) for a in range(2 * N) if a != i}
        below = torch.stack(list(logits.values())).logsumexp(0)
        total = total + sum(below - logits[a] for a in positive) / len(positive) / (2 * N)
    ours = DomainWeightedSupConLoss(0.2, 0.3, num_domains=D, chunk_size=chunk_size)(z0, z1, labels, domains)
    assert_same(ours, total, z0, z1)
    flat = DomainWeightedSupConLoss(0.2, 0.0, num_domains=D, chunk_size=chunk_size)(z0, z1, labels, domains)
    assert_same(flat, SupConLoss(0.2)(z0, z1, labels), z0, z1)


# --- a queue ------------------------------------------------------------------------------------------------------------


def filled_queue(batch, size=40):
    queue = NegativeQueue(size, K).double()
    generator = torch.Generator().manual_seed(5)
    queue.push(torch.randn(30, K, generator=generator, dtype=torch.float64), torch.arange(30) % D)
    return queue


def test_a_queue_gives_mocos_loss(batch):
    z0, z1, domains = batch
    queue = filled_queue(batch, size=30)
    # MoCo's Algorithm 1: the positive is class 0 among itself and the queue.
    q, k, old = (F.normalize(t, dim=-1) for t in (z0, z1, queue.z))
    logits = torch.cat([(q * k).sum(-1, keepdim=True), q @ old.T], 1) / 0.2
    reference = F.cross_entropy(logits, torch.zeros(N, dtype=torch.long))
    assert_same(InfoNCELoss(0.2)(z0, z1, queue=queue), reference, z0, z1)
    flat = DomainWeightedInfoNCELoss(0.2, 0.0, num_domains=D, chunk_size=7)
    assert_same(flat(z0, z1, domains, queue=queue), reference, z0, z1)


def test_places_not_yet_filled_do_not_count(batch):
    z0, z1, domains = batch
    half, full = filled_queue(batch, size=40), filled_queue(batch, size=30)
    for loss_fn in (InfoNCELoss(), SameDomainInfoNCELoss(), DomainWeightedInfoNCELoss(num_domains=D)):
        torch.testing.assert_close(loss_fn(z0, z1, domains, queue=half), loss_fn(z0, z1, domains, queue=full))


@pytest.mark.parametrize("weighting", ["negatives", "pairs"])
def test_queued_negatives_have_temperatures_of_their_own(batch, weighting):
    z0, z1, domains = batch
    queue = filled_queue(batch, size=30)
    posterior = discriminator.fit(torch.cat([z0, z1]), torch.cat([domains, domains]), D, kind="l2")
    belief = F.one_hot(domains, D).double() if weighting == "negatives" else posterior.predict_proba(z0.detach())
    tau = losses.pair_temperature(belief @ posterior.predict_proba(queue.z.detach()).T, 0.2, 0.3, 0.01, D)
    s = cosine_similarity(z0, queue.z) / tau
    positive = cosine_similarity(z0, z1).diagonal()[:, None] / 0.2
    reference = (torch.cat([positive, s], 1).logsumexp(1) - positive[:, 0]).mean()
    loss_fn = DomainWeightedInfoNCELoss(0.2, 0.3, num_domains=D, weighting=weighting)
    assert_same(loss_fn(z0, z1, domains, queue=queue), reference, z0, z1)


def test_a_queue_keeps_the_newest_and_is_saved_with_the_model():
    queue = NegativeQueue(5, 1)
    for start in (0, 3, 6):
        queue.push(torch.arange(start, start + 3.0)[:, None], torch.arange(start, start + 3))
    assert queue.domains.tolist() == [4, 5, 6, 7, 8]
    queue.push(torch.arange(9.0)[:, None], torch.arange(9))  # more than it holds
    assert queue.domains.tolist() == [4, 5, 6, 7, 8] and queue.z[:, 0].tolist() == [4, 5, 6, 7, 8]
    assert repr(queue) == "NegativeQueue(size=5, dim=1)"
    copy = NegativeQueue(5, 1)
    copy.load_state_dict(queue.state_dict())
    assert copy.domains.equal(queue.domains) and copy.filled.all() and not queue.z.requires_grad


def test_negatives_pushed_without_domains_serve_the_losses_that_need_none(batch):
    z0, z1, domains = batch
    known, unknown = filled_queue(batch, size=30), NegativeQueue(30, K).double()
    unknown.push(known.z)
    for loss_fn in (InfoNCELoss(), DomainWeightedInfoNCELoss(num_domains=D)):
        assert torch.equal(loss_fn(z0, z1, domains, queue=unknown), loss_fn(z0, z1, domains, queue=known))
    assert SameDomainInfoNCELoss()(z0, z1, domains, queue=unknown) == 0


def test_independent_runs_may_have_domains_of_their_own(batch):
    """One run with a negative of the anchor's domain is enough, and domains of other runs are none."""
    z0, z1, _ = (t[..., :2, :] if t.dim() > 1 else t for t in batch)
    twice = [torch.stack([z, z]) for z in (z0, z1)]
    apart, alike = torch.tensor([0, 1]), torch.tensor([1, 1])
    together = SameDomainInfoNCELoss()(*twice, torch.stack([apart, alike]))
    torch.testing.assert_close(together, torch.stack([z0.new_zeros(()), SameDomainInfoNCELoss()(z0, z1, alike)]))
    assert not SameDomainInfoNCELoss()(*twice, torch.stack([apart, apart])).any()


# --- memory, precision, compilation -----------------------------------------------------------------------------------


def test_chunks_keep_no_matrix_of_all_pairs():
    n, chunk = 512, 32
    z0, z1, domains = torch.randn(n, 8).requires_grad_(), torch.randn(n, 8), torch.arange(n) % D

    def largest(chunk_size):
        kept = []

        def remember(tensor):
            kept.append(tensor.numel())
            return tensor

        loss_fn = DomainWeightedInfoNCELoss(num_domains=D, chunk_size=chunk_size)
        with torch.autograd.graph.saved_tensors_hooks(remember, lambda tensor: tensor):
            loss_fn(z0, z1, domains)
        return max(kept)

    assert largest(None) >= n * n and largest(chunk) <= chunk * n


def test_gradients_are_right_by_finite_differences(batch):
    z0, z1, domains = (t[:8] for t in batch)
    known = LinearDiscriminator(D).fit(torch.cat([z0, z1]), torch.cat([domains, domains]))
    # Anchors' domains are known, so that what is varied here, z0, is not what the posterior is taken of.
    loss_fn = DomainWeightedInfoNCELoss(0.3, 0.4, num_domains=D, discriminator=known, chunk_size=3)
    assert torch.autograd.gradcheck(lambda a: loss_fn(a, z1.detach(), domains), (z0,))
    labels = torch.arange(8) % 3
    assert torch.autograd.gradcheck(lambda a, b: SupConLoss(0.3)(a, b, labels), (z0, z1))
    assert torch.autograd.gradcheck(lambda a, b: MMDPenalty(D)(a, domains) + InfoNCELoss(0.3)(a, b), (z0, z1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_embeddings_lose_no_more_than_their_own_rounding(batch, dtype):
    z0, z1, domains = (t.detach() for t in batch)
    rounded = z0.to(dtype), z1.to(dtype)
    exact = [t.float() for t in rounded]
    labels = torch.arange(N) % 4
    cases = [
        (DomainWeightedInfoNCELoss(0.05, 0.5, num_domains=D, symmetric=True), (domains,)),
        (DomainWeightedSupConLoss(0.05, 0.5, num_domains=D), (labels, domains)),
    ]
    for loss_fn, rest in cases:
        wide = loss_fn(*exact, *rest)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for inputs in (rounded, exact):
                narrow = loss_fn(*inputs, *rest)
                assert narrow.dtype == torch.float32
                torch.testing.assert_close(narrow, wide)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(MMDPenalty(D)(rounded[0], domains), MMDPenalty(D)(exact[0], domains))


# --- penalties ----------------------------------------------------------------------------------------------------------


def test_the_mmd_penalty_is_the_functional_form(batch):
    z0, _, domains = batch
    unit = F.normalize(z0, dim=-1)
    assert_same(MMDPenalty(D)(z0, domains), losses.domain_mmd(unit, domains, D, (0.25, 0.5, 1.0, 2.0)), z0)
    raw = MMDPenalty(D, (1.0,), normalize=False)
    assert_same(raw(z0, domains), losses.domain_mmd(z0, domains, D, (1.0,)), z0)


def test_the_adversary_turns_the_encoders_gradient_around(batch):
    z0, _, domains = batch
    adversary = DomainAdversary(K, D, lambda_=0.7, normalize=False).double()
    plain = F.cross_entropy(adversary.classifier(z0), domains)
    term = adversary(z0, domains)
    torch.testing.assert_close(term, plain)
    torch.testing.assert_close(gradients(term, z0)[0], -0.7 * gradients(plain, z0)[0])
    weights = list(adversary.parameters())
    again, plain = adversary(z0, domains), F.cross_entropy(adversary.classifier(z0), domains)
    torch.testing.assert_close(gradients(again, *weights), gradients(plain, *weights))


def test_the_adversarys_strength_follows_its_schedule():
    rising = DomainAdversary(K, D, 2.0, schedule="ganin")
    assert rising.strength(0.0) == 0 and rising.strength(1.0) == pytest.approx(2 * (2 / (1 + 2.718281828**-10) - 1))
    assert DomainAdversary(K, D, 2.0).strength(None) == 2.0
    assert "schedule='ganin'" in repr(rising) and "normalize=True" in repr(MMDPenalty(D))


def test_the_adversarys_strength_may_be_set_as_training_goes_on(batch):
    z0, _, domains = batch
    adversary = DomainAdversary(K, D).double()
    full = gradients(adversary(z0, domains), z0)[0]
    rising = DomainAdversary(K, D, schedule="ganin").double()
    rising.load_state_dict(adversary.state_dict())
    for progress in (0.0, 0.3, 1.0):
        adversary.lambda_ = losses.annealed(progress)
        set_to = gradients(adversary(z0, domains), z0)[0]
        torch.testing.assert_close(set_to, losses.annealed(progress) * full)
        torch.testing.assert_close(gradients(rising(z0, domains, progress), z0)[0], set_to)
    assert f"lambda_={losses.annealed(1.0)!r}" in repr(adversary)


def test_the_penaltys_work_does_not_grow_with_the_domains():
    class Count(torch.utils._python_dispatch.TorchDispatchMode):
        operations = 0

        def __torch_dispatch__(self, function, kinds, args=(), kwargs=None):
            Count.operations += 1
            return function(*args, **(kwargs or {}))

    z, found = torch.randn(64, K), {}
    for count in (3, 243):
        Count.operations = 0
        with Count():
            MMDPenalty(count)(z, torch.arange(64) % min(count, 8))
        found[count] = Count.operations
    assert found[243] == found[3] < 100
    some = MMDPenalty(8)(z, torch.arange(64) % 8)
    torch.testing.assert_close(MMDPenalty(243)(z, 30 * (torch.arange(64) % 8)), some)


@pytest.mark.parametrize("few", [2, 8, 32])
def test_the_unbiased_penalty_does_not_depend_on_how_unequal_domains_are(few):
    generator = torch.Generator().manual_seed(0)
    domains = (torch.arange(64) >= few).long()
    z = torch.randn(300, 64, K, generator=generator)
    fair, biased = (MMDPenalty(2, unbiased=unbiased)(z, domains) for unbiased in (True, False))
    assert fair.mean().abs() < 4 * fair.std() / 300**0.5 and (fair < 0).any() and (biased > 0.05).all()
    assert "unbiased=True" in repr(MMDPenalty(2, unbiased=True)) and MMDPenalty(2).unbiased is False


# --- settings ---------------------------------------------------------------------------------------------------------------


def test_a_tensor_of_one_element_is_a_temperature_for_all_runs(batch):
    z0, z1, domains = batch
    one = {
        name: torch.nn.Parameter(torch.tensor([value]))
        for name, value in (("tau_alpha", 0.2), ("tau_beta", 0.3), ("tau_min", 0.15))
    }
    numbers = {name: value.item() for name, value in one.items()}
    alone, twice = (
        DomainWeightedInfoNCELoss(num_domains=D, **one),
        (torch.stack([z0, z1]), torch.stack([z1, z0]), domains.expand(2, -1)),
    )
    whole = DomainWeightedInfoNCELoss(num_domains=D, **numbers)
    torch.testing.assert_close(alone(z0, z1, domains), whole(z0, z1, domains), check_dtype=False)
    torch.testing.assert_close(alone(*twice), whole(*twice), check_dtype=False)
    adversary = DomainAdversary(K, D, torch.tensor([0.5])).double()
    assert adversary(z0, domains).shape == ()


def test_a_loss_without_a_weigher_keeps_attributes_as_any_module_does():
    for loss_fn in (InfoNCELoss(), SupConLoss()):
        loss_fn.features, loss_fn.discriminator = "mine", torch.nn.Linear(2, 3)
        assert loss_fn.features == "mine" and "discriminator.weight" in loss_fn.state_dict()
        with pytest.raises(AttributeError, match="no attribute 'weighting'"):
            loss_fn.weighting


def test_a_temperature_that_a_loss_does_not_have_is_refused():
    for loss_fn, names in (
        (InfoNCELoss(), ("tau_alpha", "tau_beta")),
        (DomainWeightedInfoNCELoss(num_domains=2), ("tau", "lambda_")),
        (DomainWeightedSupConLoss(num_domains=2), ("tau",)),
        (DomainAdversary(4, 2), ("tau",)),
    ):
        for name in names:
            with pytest.raises(AttributeError, match=f"{type(loss_fn).__name__} has no {name}"):
                setattr(loss_fn, name, 0.3)
    with pytest.raises(AttributeError, match="DomainWeightedInfoNCELoss has no tau; it has tau_alpha, tau_min, tau_beta."):
        DomainWeightedInfoNCELoss(num_domains=2).tau = 0.1

    class Mine(InfoNCELoss):
        settings = ("tau_min",)

    mine = Mine(0.2)
    mine.tau_min = 0.05
    assert (mine.tau, mine.tau_min) == (0.2, 0.05)


@pytest.mark.parametrize("make", [SameDomainInfoNCELoss, lambda **how: DomainWeightedInfoNCELoss(num_domains=D, **how)])
def test_missing_domains_are_noticed_without_validation_and_when_compiled(batch, make):
    z0, z1, _ = batch
    for call in (make(validate=False), torch.compile(make(), backend="eager")):
        with pytest.raises(Exception, match=r"needs domains: call loss\(z0, z1, domains\)"):
            call(z0, z1)


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (InfoNCELoss, (slice(3), slice(1)), "z0 and z1 must share a shape"),
        (InfoNCELoss, (slice(1), slice(1)), "a batch of 1 has no negatives"),
        (SameDomainInfoNCELoss, (slice(None), slice(None), torch.zeros(1, dtype=torch.long)), r"domains must be integers \[24\], one an example"),
        (SameDomainInfoNCELoss, (slice(None), slice(None), torch.zeros(N)), "domains must be integers"),
        (SameDomainInfoNCELoss, (slice(None), slice(None), [0] * N), "domains must be a tensor of integers"),
        (SupConLoss, (slice(None), slice(None), torch.zeros(N, 1, dtype=torch.long)), "labels must be integers"),
    ],
)  # fmt: skip
def test_types_and_shapes_are_checked_without_validation_and_when_compiled(batch, make, arguments, message):
    first, second, *more = arguments
    for call in (make(validate=False), torch.compile(make(), backend="eager")):
        with pytest.raises(Exception, match=message):
            call(batch[0][first], batch[1][second], *more)


def test_a_temperature_below_zero_makes_an_unchecked_loss_nan(batch):
    z0, z1, domains = batch
    below = torch.nn.Parameter(torch.tensor(-0.1))
    for call in (InfoNCELoss(below, validate=False), torch.compile(InfoNCELoss(below), backend="eager")):
        assert call(z0, z1).isnan()
    assert DomainWeightedInfoNCELoss(0.1, below, num_domains=D, validate=False)(z0, z1, domains).isnan()
    assert DomainAdversary(K, D, below, validate=False).double()(z0, domains).isnan(), "not its gradient alone"


@pytest.mark.parametrize("weighting", ["negatives", "pairs"])
def test_a_domain_beyond_num_domains_makes_an_unchecked_loss_nan(batch, weighting):
    z0, z1, domains = batch
    given, beyond = LinearDiscriminator(D).fit(z0, domains), domains.clone()
    beyond[3] = D
    for known in (None, given) if weighting == "negatives" else (None,):  # "pairs" asks no domain of a given one
        how = {"num_domains": D, "weighting": weighting, "discriminator": known}
        compiled = torch.compile(DomainWeightedInfoNCELoss(**how), backend="eager")
        for call in (DomainWeightedInfoNCELoss(**how, validate=False), compiled):
            assert call(z0, z1, domains).isfinite() and call(z0, z1, beyond).isnan()
    for penalty in (MMDPenalty(D, validate=False), DomainAdversary(K, D, validate=False).double()):
        assert penalty(z0, domains).isfinite() and penalty(z0, beyond).isnan()
        for wrong in (beyond, torch.full_like(domains, D)):
            z = z0.clone().requires_grad_()
            gradients = torch.autograd.grad(penalty(z, wrong), [z, *penalty.parameters()])
            assert all(g.isnan().any() for g in gradients), "else a step would be made without the penalty"


def test_one_compiled_graph_serves_batches_of_any_size(batch):
    z0, z1, domains = batch
    known = LinearDiscriminator(D).fit(torch.cat([z0, z1]), torch.cat([domains, domains]))
    weighted = [DomainWeightedInfoNCELoss(0.2, 0.3, num_domains=D, discriminator=given) for given in (known, None)]
    for loss_fn in (InfoNCELoss(0.2), InfoNCELoss(0.2, negatives="both_views"), SameDomainInfoNCELoss(0.2), *weighted):
        torch.compiler.reset()
        call = torch.compile(loss_fn, backend="eager", dynamic=True, fullgraph=True)
        call(z0, z1, domains)
        with torch._dynamo.config.patch(error_on_recompile=True):
            for n in (N - 1, N - 3, 7, 5):
                torch.testing.assert_close(call(z0[:n], z1[:n], domains[:n]), loss_fn(z0[:n], z1[:n], domains[:n]))


def test_the_figures_of_a_batch_do_not_follow_what_comes_later(batch):
    z0, z1, domains = batch
    tau, reused, ids = torch.nn.Parameter(torch.tensor(0.2)), domains.clone(), torch.arange(N)
    loss_fn = DomainWeightedInfoNCELoss(tau, 0.1, num_domains=D)
    loss_fn(z0, z1, reused, ids=ids)
    before = loss_fn.last
    with torch.no_grad():
        tau.add_(1.0)
    reused.zero_()
    ids.zero_()
    assert loss_fn.last == before


@pytest.mark.parametrize(
    "module",
    [InfoNCELoss(), DomainWeightedInfoNCELoss(num_domains=D), SupConLoss(), DomainWeightedSupConLoss(num_domains=D), MMDPenalty(D),
     DomainAdversary(K, D), LinearDiscriminator(D), MLPDiscriminator(D), NegativeQueue(4, K)],
    ids=lambda module: type(module).__name__,
)  # fmt: skip
def test_a_wrong_option_is_refused_when_it_is_set(module):
    options = [name for name in OPTIONS if hasattr(module, name)]
    assert options
    for name in options:
        before = getattr(module, name)
        with pytest.raises(ValueError, match=f"{name} must be .*, got 'both'"):
            setattr(module, name, "both")
        assert getattr(module, name) is before
        setattr(module, name, before)


@pytest.mark.parametrize("make", [LinearDiscriminator, MLPDiscriminator])
def test_a_discriminator_is_fitted_where_its_data_are_whatever_the_default_device(make):
    plain, elsewhere = make(2, calibrate=0.4), make(2, calibrate=0.4)
    plain.fit(Z, DOMAINS)
    with torch.device("meta"):
        elsewhere.fit(Z, DOMAINS)
    assert torch.equal(elsewhere.predict_proba(Z), plain.predict_proba(Z))


def test_what_a_user_left_on_the_cpu_is_moved_to_the_embeddings(monkeypatch):
    z = Z.to("meta")
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # there is none of this device
    unchecked = DomainWeightedInfoNCELoss(num_domains=2, discriminator=Answering(torch.full((6, 2), 0.5)), validate=False)
    assert unchecked(z, z, DOMAINS).device == z.device
    exchanged = []
    monkeypatch.setattr(NegativeQueue, "_check", lambda *_: None)  # it reads values
    monkeypatch.setattr("dtcl_core.nn.gather.joined", lambda t: exchanged.append(t.device.type) or t)
    NegativeQueue(3, 4).to("meta").push(z, DOMAINS, DOMAINS, gather=True)
    assert exchanged == ["meta"] * 4


# --- mistakes -----------------------------------------------------------------------------------------------------------

WEIGHTED = DomainWeightedInfoNCELoss(num_domains=2)
Z, DOMAINS = torch.randn(6, 4), torch.arange(6) % 2
HOLED = Z.masked_fill(torch.eye(6, 4, dtype=torch.bool), torch.nan)


class Answering:
    """A discriminator that answers the same whatever it is asked."""

    def __init__(self, answer):
        self.answer = answer

    def predict_proba(self, z):
        return self.answer


def test_views_of_different_precision_below_float32_are_widened():
    assert torch.equal(InfoNCELoss()(Z.bfloat16(), Z), InfoNCELoss()(Z.bfloat16().float(), Z))


def test_a_loss_made_for_no_device_compiles_like_any_other():
    with torch.device("meta"):
        loss = InfoNCELoss(0.2)
    assert torch.allclose(torch.compile(loss, backend="aot_eager")(Z, Z.roll(1, 1)), InfoNCELoss(0.2)(Z, Z.roll(1, 1)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: WEIGHTED(Z, Z[:5], DOMAINS), r"z0 and z1 must share a shape .*\(6, 4\) and \(5, 4\)"),
        (lambda: WEIGHTED(Z, Z), r"DomainWeightedInfoNCELoss needs domains: call loss\(z0, z1, domains\)"),
        (lambda: WEIGHTED(Z, Z, DOMAINS[:5]), r"domains must be integers \[6\], one an example"),
        (lambda: WEIGHTED(Z, Z, DOMAINS.float()), "domains must be integers"),
        (lambda: WEIGHTED(Z[..., None], Z[..., None], DOMAINS), r"integers \[4\], one an example of z0 \[6, 4, 1\], got torch.int64 \(6,\)"),
        (lambda: InfoNCELoss(LearnedTemperature), "tau must be a number > 0, got <class "),
        (lambda: WEIGHTED(Z, HOLED, DOMAINS), "z1 holds NaN or infinite values"),
        (lambda: WEIGHTED(HOLED, Z, DOMAINS), "z0 holds NaN or infinite values"),
        (lambda: WEIGHTED(Z.long(), Z.long(), DOMAINS), "z0 must be floating embeddings"),
        (lambda: InfoNCELoss()(Z[:1], Z[:1]), "a batch of 1 has no negatives to contrast with"),
        (lambda: InfoNCELoss(0.0), "tau must be a number > 0, got 0.0"),
        (lambda: InfoNCELoss(chunk_size=0), "chunk_size must be an integer >= 1, got 0"),
        (lambda: SupConLoss()(Z, Z, DOMAINS.float()), "labels must be integers"),
        (lambda: DomainWeightedSupConLoss(num_domains=2)(Z, Z, DOMAINS), r"call loss\(z0, z1, labels, domains\)"),
        (lambda: WEIGHTED(Z[:0], Z[:0], DOMAINS[:0]), "z0 must be floating embeddings"),
        (lambda: WEIGHTED(Z, Z.double(), DOMAINS), "z0 and z1 must share a dtype"),
        (lambda: SameDomainInfoNCELoss()(Z, Z, DOMAINS.expand(3, -1)), r"domains must be integers \[6\]"),
        (lambda: InfoNCELoss(gather=True)(Z[None], Z[None]), r"gather needs embeddings \[N, k\]"),
        (lambda: InfoNCELoss()(Z, Z, queue=NegativeQueue(3, 5)), "the queue holds embeddings of 5 dimensions, z0 has 4"),
        (lambda: NegativeQueue(3, 4).push(HOLED, DOMAINS), r"z holds NaN or infinite values \(as torch.float32\); they would stay"),
        (lambda: DomainWeightedInfoNCELoss(num_domains=3, discriminator=LinearDiscriminator(2).fit(Z, DOMAINS))(Z, Z, DOMAINS),
         r"predict_proba of the discriminator must return \[6, 3\], got \[6, 2\]"),
        (lambda: DomainWeightedInfoNCELoss(num_domains=2, discriminator=Answering(torch.full((1, 2), 0.5)))(Z, Z, DOMAINS),
         r"must return \[6, 2\], got \[1, 2\]"),
        (lambda: InfoNCELoss(torch.full((6,), 0.1))(Z, Z), r"tau has shape \(6,\), but it must be one number\."),
        (lambda: DomainWeightedInfoNCELoss(0.1, torch.full((3,), 0.1), num_domains=2)(Z[None], Z[None], DOMAINS),
         r"tau_beta has shape \(3,\), .* one a run: \(1,\)"),
        (lambda: InfoNCELoss()(Z[:, :0], Z[:, :0]), "z0 must be floating embeddings"),
        (lambda: DomainAdversary(4, 2)(HOLED, DOMAINS), "z holds NaN"),
        (lambda: InfoNCELoss(10**400), "tau must be a number > 0, got a number of more than thirty digits"),
        (lambda: contrast(Anchors(Z, DOMAINS), Candidates(Z, DOMAINS), Temperatures(0.1), reduction="sum"),
         "reduction must be one of 'mean', 'none', got 'sum'"),
        (lambda: InfoNCELoss()(Z.numpy(), Z.numpy()), "z0 must be a tensor, got ndarray"),
        (lambda: WEIGHTED(Z, Z, DOMAINS.tolist()), r"domains must be a tensor of integers, got list\."),
        (lambda: WEIGHTED(Z, Z, ["a", "b"] * 3), r"integers \(number names once, for all data\), got list"),
        (lambda: SupConLoss()(Z, Z, None), r"SupConLoss needs labels: call loss\(z0, z1, labels\)\."),
        (lambda: SupConLoss()(Z, DOMAINS), r"needs labels: call loss\(z0, z1, labels\); labels are the third argument\."),
        (lambda: DomainWeightedSupConLoss(num_domains=2)(Z, Z), r"needs labels: call loss\(z0, z1, labels, domains\)\."),
        (lambda: DomainWeightedInfoNCELoss(num_domains=2, discriminator=3), r"an object with predict_proba\(z\), got 3"),
        (lambda: DomainWeightedInfoNCELoss(num_domains=2, discriminator=LinearDiscriminator), r"must be an object with predict_proba"),
        (lambda: DomainWeightedInfoNCELoss(num_domains=2, discriminator=LogisticRegression().fit(Z, DOMAINS))(Z, Z, DOMAINS),
         "predict_proba of the discriminator must return a tensor, got ndarray"),
        (lambda: DomainWeightedInfoNCELoss(num_domains=2, discriminator=Answering(Z[:, :2]))(Z, Z, DOMAINS),
         "must return probabilities that sum to 1"),
        (lambda: DomainWeightedInfoNCELoss(num_domains=2, discriminator=Answering(torch.tensor([[1.5, -0.5]] * 6)))(Z, Z, DOMAINS),
         "must return probabilities that sum to 1"),
        (lambda: DomainWeightedInfoNCELoss(num_domains=2, discriminator=Answering(HOLED[:, :2]))(Z, Z, DOMAINS),
         "must return probabilities that sum to 1"),
        (lambda: InfoNCELoss()(None, Z), "z0 must be a tensor, got NoneType"),
        (lambda: MMDPenalty(2)(None, DOMAINS), "z must be a tensor, got NoneType"),
        (lambda: InfoNCELoss()(Z * 1e20, Z), "z0 holds values whose squares overflow"),
        (lambda: InfoNCELoss()(Z.double() * 1e19, Z.double() / 0), "z1 holds NaN or infinite values"),
        (lambda: WEIGHTED(Z, Z, DOMAINS.to(torch.complex64)), r"domains must be integers \[6\]"),
        (lambda: InfoNCELoss()(Z, Z, queue=[Z]), "queue must be a NegativeQueue, got list"),
        (lambda: SupConLoss()(Z, Z, DOMAINS - 1), "labels must be 0 or more, got -1; leave unlabelled examples out"),
        (lambda: SupConLoss()(Z, Z, DOMAINS.to(torch.complex64)), r"labels must be integers \[6\]"),
        (lambda: DomainAdversary(4, 2, schedule="ganin")(Z, DOMAINS), 'schedule="ganin" needs progress'),
        (lambda: NegativeQueue(3, 4).push(Z.tolist(), DOMAINS), "z must be a tensor \\[N, 4\\], got list"),
        (lambda: NegativeQueue(3, 4).half().push(Z * 1e6, DOMAINS), r"z holds NaN or infinite values \(as torch.float16\)"),
        (lambda: LinearDiscriminator(2).fit(Z, None), "domains must be a tensor of integers, got NoneType"),
        (lambda: LinearDiscriminator(2).fit(Z, DOMAINS).predict(Z[:, :3]), r"z must be embeddings \[\.\.\., N, 4\]"),
        (lambda: LinearDiscriminator(2).fit(Z, DOMAINS).score(Z, DOMAINS[:5]), r"domains must be integers \[6\]"),
        (lambda: MMDPenalty(2)(Z, None), "domains must be a tensor of integers, got NoneType"),
        (lambda: MMDPenalty(2, 1.0), "bandwidths must be one or more numbers, got 1.0"),
        (lambda: MMDPenalty(2, ()), "bandwidths must be one or more numbers"),
        (lambda: DomainAdversary(4, 2)(Z, None), "domains must be a tensor of integers, got NoneType"),
        (lambda: DomainAdversary(5, 2)(Z, DOMAINS), r"z must be \[..., N, 5\], got \(6, 4\)"),
        (lambda: DomainAdversary(4, 2)(Z, DOMAINS, progress=-5), "progress must be a number >= 0 and <= 1, got -5"),
        (lambda: DomainAdversary(4, 2)(Z, DOMAINS, progress=0.5), 'the training that is done; "constant" takes none'),
        (lambda: NegativeQueue(3, 4).push(Z, DOMAINS + 0.7), r"domains must be integers \[6\], one an example, got torch.float32"),
        (lambda: NegativeQueue(3, 4).push(Z[:, :3], DOMAINS), r"z must be a tensor \[N, 4\], got \(6, 3\)"),
        (lambda: NegativeQueue(3, 4).push(Z, DOMAINS[:3]), r"domains must be integers \[6\], one an example, got torch.int64 \(3,\)"),
        (lambda: InfoNCELoss()(Z, [Z, Z]), '3 views make one pool: they need negatives="both_views"'),
        (lambda: SupConLoss()(Z, [], DOMAINS), "z1 must be another view or several, got none"),
        (lambda: SupConLoss()(Z, [Z, Z[1:]], DOMAINS), "z0 and z2 must share a shape"),
        (lambda: SupConLoss()(Z, [Z, Z / 0], DOMAINS), "z2 holds NaN or infinite values"),
        (lambda: SupConLoss()(Z, [Z, None], DOMAINS), "z2 must be a tensor, got NoneType"),
        (lambda: setattr(NegativeQueue(3, 4), "size", 2), "size cannot change: make another NegativeQueue"),
        (lambda: setattr(DomainAdversary(4, 2), "num_domains", 3), "num_domains cannot change: make another DomainAdversary"),
        (lambda: DomainAdversary(4, 2, lambda_=torch.empty(0))(Z, DOMAINS), r"lambda_ has shape \(0,\)"),
        (lambda: DomainAdversary(4, 2, lambda_=torch.tensor([0.5, 0.7]))(Z, DOMAINS), r"lambda_ has shape \(2,\)"),
        (lambda: LinearDiscriminator(2).fit(Z, DOMAINS).predict(Z.long()), r"as those fitted to, got torch.int64 \(6, 4\)"),
        (lambda: InfoNCELoss(torch.empty(0))(Z, Z), r"tau has shape \(0,\), but it must be one number"),
        (lambda: NegativeQueue(3, 4).push(Z, ids=DOMAINS[:3]), r"ids must be integers \[6\]"),
        (lambda: setattr(InfoNCELoss(), "queue", 5), "queue must be a NegativeQueue, got int"),
        (lambda: setattr(InfoNCELoss(negatives="both_views"), "queue", NegativeQueue(3, 4)), "a queue takes the place of the batch's"),
        (lambda: InfoNCELoss(queue=NegativeQueue(3, 4))(Z[None], Z[None]), r"its own queue with one run, \[N, k\]; z0 is \[1, 6, 4\]"),
        (lambda: LinearDiscriminator(2, seed=2**64), "seed must be an integer >= 0 and <= 9.22337e\\+18, got 18446744073709551616"),
    ],
)  # fmt: skip
def test_mistakes_are_answered_by_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()
