"""The losses as a project meets them: scale, settings, schedules, saving, odd batches, figures to log."""

import copy
import io
import math
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import pytest
import torch
from pytorch_metric_learning.losses import NTXentLoss
from torch import nn
from torch.nn import functional as F

from dtcl_core import (
    DomainAdversary,
    DomainWeightedInfoNCELoss,
    DomainWeightedSupConLoss,
    InfoNCELoss,
    LearnedTemperature,
    LinearDiscriminator,
    MLPDiscriminator,
    MMDPenalty,
    NegativeQueue,
    SameDomainInfoNCELoss,
    SupConLoss,
    discriminator,
    embed_in_chunks,
)
from dtcl_core.config import Protocol

N, K, D = 24, 6, 3


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(3)
    z0, z1 = torch.randn(2, N, K, generator=generator, dtype=torch.float64)
    domains = torch.arange(N) % D
    return z0 + F.one_hot(domains, K), z1 + F.one_hot(domains, K), domains


# --- embeddings count by direction ----------------------------------------------------------------------------------------


def test_the_adversary_asks_for_no_longer_embeddings(batch):
    z0, _, domains = batch
    adversary = DomainAdversary(K, D).double()
    z0.requires_grad_()
    term = adversary(z0, domains)
    (gradient,) = torch.autograd.grad(term, z0)
    assert gradient.abs().max() > 1e-3 and (gradient * z0).sum(-1).abs().max() < 1e-12, "it turns them, no more"
    torch.testing.assert_close(adversary(10 * z0, domains), term)
    raw = DomainAdversary(K, D, normalize=False).double()
    assert not torch.isclose(raw(10 * z0, domains), raw(z0, domains))


@pytest.mark.parametrize("scale", [0.01, 10.0])
def test_a_discriminator_fitted_on_the_batch_does_not_see_the_embeddings_scale(batch, scale):
    z0, z1, domains = batch
    loss_fn = DomainWeightedInfoNCELoss(0.2, 0.3, num_domains=D)
    torch.testing.assert_close(loss_fn(scale * z0, scale * z1, domains), loss_fn(z0, z1, domains))
    raw = DomainWeightedInfoNCELoss(0.2, 0.3, num_domains=D, features="raw")
    assert not torch.isclose(raw(scale * z0, scale * z1, domains), raw(z0, z1, domains))
    for kind in (LinearDiscriminator, MLPDiscriminator):
        longer, known = kind(D).fit(scale * z0, domains), kind(D).fit(z0, domains)
        torch.testing.assert_close(longer.predict_proba(scale * z1), known.predict_proba(z1))


# --- settings are read at each call ------------------------------------------------------------------------------------------


def test_a_temperature_that_is_set_later_counts(batch):
    z0, z1, domains = batch
    loss_fn = InfoNCELoss(0.1)
    loss_fn.tau = 0.5
    assert loss_fn(z0, z1) == InfoNCELoss(0.5)(z0, z1)
    with pytest.raises(ValueError, match="tau must be a number > 0, got -1.0"):
        loss_fn.tau = -1.0
    known = LinearDiscriminator(D).fit(z0, domains)
    weighted = DomainWeightedInfoNCELoss(num_domains=D)
    later = {"tau_alpha": 0.3, "tau_beta": 0.2, "tau_min": 0.15, "discriminator": known, "weighting": "pairs"}
    for name, value in later.items():
        setattr(weighted, name, value)
        assert getattr(weighted, name) == value
    assert weighted(z0, z1, domains) == DomainWeightedInfoNCELoss(num_domains=D, **later)(z0, z1, domains)
    weighted.discriminator = None
    weighted.discriminator = plain = discriminator.fit(z0.detach(), domains, D)  # where a module was
    assert weighted.discriminator is plain
    queued = InfoNCELoss(queue=NegativeQueue(4, K), validate=False)
    queued.negatives = "both_views"
    with pytest.raises(ValueError, match="has no use for it"):
        queued(z0, z1)


def test_a_module_gives_a_temperature_once_a_call(batch):
    class Falling(nn.Module):
        tau = 0.8

        def forward(self):
            self.tau /= 2
            return torch.tensor(self.tau)

    z0, z1, _ = batch
    for symmetric in (False, True):  # whatever the number of directions
        loss_fn = InfoNCELoss(Falling(), symmetric=symmetric)
        found = torch.stack([loss_fn(z0, z1) for _ in range(3)])
        torch.testing.assert_close(found, torch.stack([InfoNCELoss(tau, symmetric=symmetric)(z0, z1) for tau in (0.4, 0.2, 0.1)]))


def test_a_schedule_is_asked_at_each_call(batch):
    z0, z1, _ = batch
    planned = [0.1, 0.2, 0.4]
    for symmetric in (False, True):  # once a call, whatever the number of directions
        steps = iter(planned)
        loss_fn = InfoNCELoss(lambda: next(steps), symmetric=symmetric)
        assert [loss_fn(z0, z1) for _ in planned] == [InfoNCELoss(tau, symmetric=symmetric)(z0, z1) for tau in planned]


def test_temperatures_can_be_learned(batch):
    z0, z1, domains = batch
    loss_fn = DomainWeightedInfoNCELoss(nn.Parameter(torch.tensor(0.3)), nn.Parameter(torch.tensor(0.2)), num_domains=D)
    assert {name for name, _ in loss_fn.named_parameters()} == {"tau_alpha", "weigher.tau_beta"}
    loss_fn(z0, z1, domains).backward()
    for name, parameter in loss_fn.named_parameters():
        settings = {"tau_alpha": 0.3, "tau_beta": 0.2}
        values = []
        for change in (1e-3, -1e-3):
            moved = settings | {name.removeprefix("weigher."): settings[name.removeprefix("weigher.")] + change}
            values.append(DomainWeightedInfoNCELoss(**moved, num_domains=D)(z0, z1, domains))
        assert parameter.grad.item() == pytest.approx((values[0] - values[1]).item() / 2e-3, rel=1e-3)
    plain = InfoNCELoss()
    plain.tau = nn.Parameter(torch.tensor(0.3))
    plain(z0, z1).backward()
    assert plain.tau.grad.abs() > 0


def test_a_learned_temperature_says_what_it_is():
    assert LearnedTemperature(0.3)().item() == pytest.approx(0.3) and "low=0.01, high=1.0" in repr(LearnedTemperature())
    for start, low, high in ((0.1, 0.1, 1.0), (1.0, 0.1, 1.0), (0.5, 0.0, 1.0), (0.5, 1.0, 0.1), (math.nan, 0.1, 1.0)):
        with pytest.raises(ValueError, match="must (be|lie)"):
            LearnedTemperature(start, low, high)
    learned = LearnedTemperature()
    saved = [partial(learned.set_extra_state, torch.tensor(bounds)) for bounds in ([0.0, 1.0], [0.5, 0.1], [math.nan, 1.0])]
    for wrong in (partial(setattr, learned, "low", -1), *saved):
        with pytest.raises(ValueError, match="(low must be a number > 0|high must be a number > 0.5), got"):
            wrong()
    assert (learned.low, learned.high) == (0.01, 1.0)


# --- what is only unfavourable means the same everywhere -----------------------------------------------------------------------


def every_way(make_loss, *inputs):
    """The value as a user gets it, without validation, and compiled."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eager = make_loss(validate=True)(*inputs)
        for loss_fn in (
            make_loss(validate=False),
            torch.compile(make_loss(validate=True), fullgraph=True, backend="aot_eager"),
        ):
            torch.testing.assert_close(loss_fn(*inputs), eager)
    return eager


def test_a_batch_of_one_domain_gives_the_plain_loss(batch):
    z0, z1, domains = batch
    for weighting in ("negatives", "pairs"):

        def make_loss(validate, weighting=weighting):
            return DomainWeightedInfoNCELoss(0.2, 0.3, num_domains=D, weighting=weighting, validate=validate)

        for one in (domains * 0 + 1, domains * 0, domains * 0 - 1, torch.where(torch.arange(len(domains)) % 2 == 0, -1, 1)):
            torch.testing.assert_close(every_way(make_loss, z0, z1, one), InfoNCELoss(0.2)(z0, z1))
        with pytest.warns(UserWarning, match="holds no two known domains") as told:
            (loss_fn := make_loss(True))(z0, z1, domains * 0)
        assert told[0].filename == __file__
        assert math.isnan(loss_fn.last["discriminator_accuracy"]), "nothing was predicted"


def test_a_discriminator_of_ones_own_sees_no_empty_place_of_a_queue(batch):
    z0, z1, domains = batch
    own = nn.Sequential(nn.BatchNorm1d(z0.shape[-1], momentum=1.0), nn.Linear(z0.shape[-1], D), nn.Softmax(-1)).double()
    own.predict_proba = own.forward
    queue = NegativeQueue(3 * N, z0.shape[-1]).double()
    loss_fn = DomainWeightedInfoNCELoss(num_domains=D, discriminator=own, queue=queue)
    loss_fn(z0, z1, domains)
    torch.testing.assert_close(own[0].running_mean, z1.mean(0).detach())
    loss_fn(z0, z1 + 1, domains)
    torch.testing.assert_close(
        own[0].running_mean, (z1.mean(0) + 0.75).detach(), msg="of four, three are new or copies of new ones"
    )
    checked, unchecked = (DomainWeightedInfoNCELoss(num_domains=D, discriminator=own, validate=v) for v in (True, False))
    torch.testing.assert_close(checked(z1, z0, domains, queue=queue), unchecked(z1, z0, domains, queue=queue))


def test_a_batch_in_which_nobody_has_a_negative_of_its_domain_is_told(batch):
    z0, z1, domains = batch
    for nobody in (domains * 0 - 1, torch.arange(N) - 3):
        with pytest.warns(UserWarning, match="no anchor has a negative") as told:
            assert SameDomainInfoNCELoss()(z0, z1, nobody) == 0
        assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SameDomainInfoNCELoss()(z0, z1, torch.where(torch.arange(N) < 2, 0, -1))
        assert SameDomainInfoNCELoss(negatives="both_views")(z0, [z1, z1 + z0], torch.arange(N)) > 0, "positives contrast"
        SameDomainInfoNCELoss()(z0, z1, domains * 0 - 1, queue=NegativeQueue(4, z0.shape[-1]).double())


def test_a_temperature_below_the_floor_is_told(batch):
    z0, z1, domains = batch
    for tau in (0.04, lambda: 0.04, nn.Parameter(torch.tensor(0.04)), LearnedTemperature(0.04)):
        loss_fn = DomainWeightedInfoNCELoss(tau, 0.3, num_domains=D)
        with pytest.warns(UserWarning, match="tau_alpha is below tau_min") as told:
            loss_fn(z0, z1, domains)
        assert told[0].filename == __file__
        loss_fn.register_forward_hook(lambda *_: None)
        with pytest.warns(UserWarning, match="tau_alpha is below tau_min") as told:
            loss_fn(z0, z1, domains)
        assert told[0].filename == __file__, "hooks put frames of torch between"
    learned, halves = LearnedTemperature(0.06), [torch.tensor(0.05, dtype=kind) for kind in (torch.float16, torch.bfloat16)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for tau in (0.05, torch.tensor(0.05), learned, *halves, *map(nn.Parameter, halves)):
            DomainWeightedInfoNCELoss(tau, 0.3, num_domains=D)(z0, z1, domains)
        with torch.device("meta"):  # numbers need no device
            DomainWeightedInfoNCELoss(0.1, 0.3, num_domains=D, validate=True).weigher.temperatures(0.1, z0)


def test_the_floor_is_that_of_the_books_runs():
    assert DomainWeightedInfoNCELoss(0.2, 0.3, num_domains=D).tau_min == Protocol().tau_min
    assert DomainWeightedSupConLoss(0.2, 0.3, num_domains=D).tau_min == Protocol().tau_min


def test_an_anchor_of_unknown_domain_has_the_plain_loss(batch):
    z0, z1, domains = batch
    some = torch.where(torch.arange(N) % 4 == 0, -100, domains)
    known = some >= 0
    each = every_way(
        lambda validate: DomainWeightedInfoNCELoss(0.2, 0.3, num_domains=D, reduction="none", validate=validate), z0, z1, some
    )  # fmt: skip
    plain = InfoNCELoss(0.2, reduction="none")(z0, z1)
    torch.testing.assert_close(each[~known], plain[~known])
    assert (each[known] - plain[known]).abs().min() > 1e-6
    both = torch.cat([z0[known], z1[known]]), torch.cat([some[known], some[known]])
    fitted = LinearDiscriminator(D).fit(*both)
    given = DomainWeightedInfoNCELoss(0.2, 0.3, num_domains=D, discriminator=fitted, reduction="none")
    torch.testing.assert_close(each, given(z0, z1, some), rtol=1e-5, atol=1e-6)


def test_nobody_shares_an_unknown_domain(batch):
    z0, z1, domains = batch
    some = torch.where(torch.arange(N) < 6, -1, domains)
    each = every_way(lambda validate: SameDomainInfoNCELoss(0.2, reduction="none", validate=validate), z0, z1, some)
    known = SameDomainInfoNCELoss(0.2, reduction="none")(z0[6:], z1[6:], domains[6:])
    torch.testing.assert_close(each, torch.cat([torch.zeros_like(each[:6]), known]))
    assert every_way(lambda validate: SameDomainInfoNCELoss(validate=validate), z0, z1, torch.arange(N)) == 0


def test_penalties_of_one_domain_are_no_error(batch):
    z0, _, domains = batch
    assert every_way(lambda validate: MMDPenalty(D, validate=validate), z0, domains * 0).abs() < 1e-12
    adversary = DomainAdversary(K, D).double()
    plain = F.cross_entropy(adversary.classifier(F.normalize(z0, dim=-1)), domains * 0)
    torch.testing.assert_close(adversary(z0, domains * 0), plain)
    assert adversary(z0, domains * 0 - 1) == 0


def test_pairs_with_a_discriminator_of_the_users_need_no_domains(batch):
    z0, z1, domains = batch
    known = LinearDiscriminator(D).fit(z0, domains)
    loss_fn = DomainWeightedInfoNCELoss(num_domains=D, weighting="pairs", discriminator=known)
    assert loss_fn(z0, z1) == loss_fn(z0, z1, domains)
    supervised = DomainWeightedSupConLoss(num_domains=D, weighting="pairs", discriminator=known)
    assert supervised(z0, z1, domains) == supervised(z0, z1, domains, domains)


# --- queues, saving, import ------------------------------------------------------------------------------------------------------


def test_a_queue_of_the_losss_own_fills_itself(batch):
    z0, z1, domains = batch
    for make_loss in (InfoNCELoss, lambda queue: DomainWeightedInfoNCELoss(num_domains=D, queue=queue)):
        loss_fn = make_loss(queue=NegativeQueue(2 * N, K).double())
        assert loss_fn(z0, z1, domains) == 0, "no negative yet"
        manual = NegativeQueue(2 * N, K).double()
        manual.push(z1, domains)
        assert loss_fn(z1, z0, domains) == make_loss(queue=None)(z1, z0, domains, queue=manual)
        assert loss_fn.queue.filled.all() and loss_fn.queue.domains.equal(torch.cat([domains, domains]))
        loss_fn.eval()(z0, z0, domains)
        assert loss_fn.queue.z.equal(torch.cat([z1, z0])), "in evaluation nothing is pushed"
    with pytest.raises(ValueError, match="a queue takes the place of the batch's negatives"):
        InfoNCELoss(negatives="both_views", queue=NegativeQueue(3, K))


def test_a_queue_is_filled_in_a_compiled_graph(batch):
    z0, z1, domains = batch
    eager, fast = (InfoNCELoss(0.2, queue=NegativeQueue(40, K).double()) for _ in range(2))
    compiled = torch.compile(fast, fullgraph=True, backend="aot_eager")
    for step in range(3):
        torch.testing.assert_close(compiled(z0 + step, z1 - step, domains), eager(z0 + step, z1 - step, domains))
    assert fast.queue.z.equal(eager.queue.z) and fast.queue.domains.equal(eager.queue.domains)


@pytest.mark.filterwarnings("ignore:for .*copying from a non-meta parameter")
@pytest.mark.parametrize("kind", [LinearDiscriminator, MLPDiscriminator])
def test_a_saved_loss_brings_back_its_discriminator_and_its_queue(batch, kind):
    z0, z1, domains = batch

    def make_loss():
        known, queue = kind(D, calibrate=0.2), NegativeQueue(30, K).double()
        return DomainWeightedInfoNCELoss(num_domains=D, discriminator=known, queue=queue)

    trained, file = make_loss(), io.BytesIO()
    trained.discriminator.fit(z0, domains)
    trained(z0, z1, domains)
    torch.save(trained.state_dict(), file)
    file.seek(0)
    resumed = make_loss()
    resumed.load_state_dict(torch.load(file))
    assert resumed(z1, z0, domains) == trained(z1, z0, domains) and resumed.discriminator.fitted
    assert copy.deepcopy(trained)(z1, z0, domains) == trained(z1, z0, domains)
    fresh = make_loss()
    resumed.load_state_dict(fresh.state_dict())
    assert not resumed.discriminator.fitted and not resumed.queue.filled.any()
    with pytest.raises(RuntimeError, match="not fitted yet"):
        resumed.discriminator.predict(z0)
    whole, encoder = nn.ModuleDict({"encoder": nn.Linear(2, K), "loss": trained}), nn.ModuleDict({"encoder": nn.Linear(2, K)})
    whole.load_state_dict(encoder.state_dict(), strict=False)
    assert trained.discriminator.fitted, "what is loaded knows no discriminator"
    fitted = (LinearDiscriminator if kind is MLPDiscriminator else MLPDiscriminator)(D).fit(z0, domains)
    before = copy.deepcopy(trained.discriminator.state_dict())
    for other in (nn.Identity(), nn.InstanceNorm1d(K), nn.Linear(K, D), fitted):
        there = nn.ModuleDict({"loss": nn.ModuleDict({"weigher": nn.ModuleDict({"discriminator": other})})})
        whole.load_state_dict(there.state_dict(), strict=False)
        whole.load_state_dict(dict(there.state_dict()), strict=False)
    assert str(trained.discriminator.state_dict()) == str(before), "another module lay at the discriminator's place"
    elsewhere = make_loss().to("meta")
    elsewhere.load_state_dict(trained.state_dict())
    learned = {name: t for name, t in elsewhere.state_dict().items() if not name.endswith("_extra_state")}
    assert all(t.device.type == "meta" for t in learned.values()), "on the module's device"


def test_a_saved_state_is_made_of_tensors():
    known = LinearDiscriminator(D).fit(torch.eye(D), torch.arange(D))
    loss_fn = DomainWeightedInfoNCELoss(LearnedTemperature(0.2), num_domains=D, discriminator=known, queue=NegativeQueue(4, D))
    assert all(isinstance(value, torch.Tensor) for value in loss_fn.state_dict().values())


def test_the_first_call_does_not_load_the_compiler():
    code = (
        "import sys, torch; from dtcl_core import DomainWeightedInfoNCELoss; z = torch.randn(8, 4, requires_grad=True)\n"
        "DomainWeightedInfoNCELoss(num_domains=2)(z, z, torch.arange(8) % 2).backward(); print('torch._dynamo' in sys.modules)"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.strip() == "False"


# --- NT-Xent, each anchor's loss, figures ---------------------------------------------------------------------------------------------


def test_negatives_of_both_views_make_nt_xent(batch):
    z0, z1, domains = (t.requires_grad_() if t.is_floating_point() else t for t in batch)
    reference = NTXentLoss(temperature=0.2)(torch.cat([z0, z1]), torch.arange(N).repeat(2))
    for loss_fn in (
        InfoNCELoss(0.2, negatives="both_views"),
        InfoNCELoss(0.2, negatives="both_views", chunk_size=5),
        DomainWeightedInfoNCELoss(0.2, 0.0, num_domains=D, negatives="both_views"),
    ):
        ours = loss_fn(z0, z1, domains)
        torch.testing.assert_close(ours, reference)
        torch.testing.assert_close(*(torch.autograd.grad(value, (z0, z1), retain_graph=True) for value in (ours, reference)))


def test_each_anchors_loss_averages_to_the_loss(batch):
    z0, z1, domains = batch
    labels = torch.arange(N) % 4
    for make_loss, rest, count in (
        (lambda **how: InfoNCELoss(0.2, symmetric=True, **how), (), N),
        (lambda **how: InfoNCELoss(0.2, negatives="both_views", chunk_size=7, **how), (), 2 * N),
        (lambda **how: DomainWeightedInfoNCELoss(num_domains=D, **how), (domains,), N),
        (lambda **how: SupConLoss(**how), (labels,), 2 * N),
    ):
        each = make_loss(reduction="none")(z0, z1, *rest)
        assert each.shape == (count,) and each.std() > 0
        torch.testing.assert_close(each.mean(), make_loss()(z0, z1, *rest))


@pytest.mark.parametrize("chunk_size", [None, 5])
def test_the_last_calls_figures_are_those_of_its_pairs(batch, chunk_size):
    z0, z1, domains = batch
    some = torch.where(torch.arange(N) < 3, -1, domains)
    known = LinearDiscriminator(D).fit(z0, domains)
    loss_fn = DomainWeightedInfoNCELoss(0.1, 0.3, num_domains=D, tau_min=0.03, discriminator=known, chunk_size=chunk_size)
    assert loss_fn.last == {} and InfoNCELoss().last == {}
    loss_fn(z0.clone().requires_grad_(), z1, some)
    q, within, across, clipped = known.predict_proba(z1), [], [], []
    for i in range(N):
        for j in range(N):
            if i != j:
                w = q[j, some[i]].item() if some[i] >= 0 else 1 / D
                tau = max(0.1 + 0.3 * (1 / D - w), 0.03)
                clipped.append(tau == 0.03)
                if min(some[i], some[j]) >= 0:
                    (within if some[i] == some[j] else across).append(tau)
    told = loss_fn.last
    assert told["tau_within"] == pytest.approx(sum(within) / len(within))
    assert told["tau_across"] == pytest.approx(sum(across) / len(across))
    assert told["clipped"] == pytest.approx(sum(clipped) / len(clipped)) and 0 < told["clipped"] < 1
    assert told["discriminator_accuracy"] == pytest.approx(known.score(z1[3:], domains[3:]))
    pairs = DomainWeightedInfoNCELoss(num_domains=D, weighting="pairs", discriminator=known)
    pairs(z0, z1)
    assert pairs.last["tau_within"] != pairs.last["tau_within"], "no domain is known"


# --- large batches ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk_size", [1, 7, N, 1000])
def test_embedding_in_chunks_gives_the_whole_batchs_gradients(batch, chunk_size):
    x0, x1, domains = batch
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(K, 16), nn.ReLU(), nn.Linear(16, 4)).double()
    loss_fn = DomainWeightedInfoNCELoss(0.2, 0.3, num_domains=D, chunk_size=5)
    found = []
    for embed in (net, lambda x: embed_in_chunks(net, x, chunk_size)):
        net.zero_grad()
        loss = loss_fn(embed(x0), embed(x1), domains)
        loss.backward()
        found.append([loss.detach(), *(p.grad.clone() for p in net.parameters())])
    torch.testing.assert_close(*found)


def test_embedding_in_chunks_keeps_one_chunks_activations_and_draws_dropout_once():
    x, seen = torch.randn(64, 4, requires_grad=True), []

    def wide(part):  # 1,000 activations an example
        hidden = F.dropout(part.repeat(1, 250), 0.5)
        seen.append(hidden.detach())
        return (hidden * hidden.sin()).sum(-1, keepdim=True)

    def largest(embed):
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
            return embed(x), max(kept)

    assert largest(wide)[1] == 64_000
    seen.clear()
    z, kept = largest(lambda x: embed_in_chunks(wide, x, 8))
    assert kept <= x.numel() and len(seen) == 8
    z.sum().backward()
    forward, backward = seen[:8], seen[8:]
    assert len(backward) == 8 and all(any(torch.equal(a, b) for b in backward) for a in forward)


def test_second_order_gradients_go_through_chunks_of_embeddings(batch):
    net = nn.Sequential(nn.Linear(K, 3), nn.Tanh()).double()
    embed = lambda x: InfoNCELoss(0.3)(embed_in_chunks(net, x, 3), batch[1][:, :3])  # noqa: E731
    assert torch.autograd.gradgradcheck(embed, batch[0].requires_grad_(), fast_mode=True)


def test_dictionaries_are_embedded_in_chunks(batch):
    net = nn.Bilinear(K, K, 3).double()
    encoder = lambda part: net(part["x"], part["mask"])  # noqa: E731
    inputs = {"x": batch[0], "mask": batch[1]}
    whole, parts = encoder(inputs), embed_in_chunks(encoder, inputs, 3)
    torch.testing.assert_close(parts, whole)
    torch.testing.assert_close(*(torch.autograd.grad(z.sin().sum(), net.parameters()) for z in (whole, parts)))
    with pytest.raises(ValueError, match=r"x must be a tensor \[N, \.\.\.\] or a dictionary of such tensors, got \["):
        embed_in_chunks(encoder, [batch[0]], 3)
    with pytest.raises(ValueError, match=r"x must be a tensor \[N, \.\.\.\] or a dictionary of such tensors, got tensor\(1\.\)"):
        embed_in_chunks(encoder, torch.tensor(1.0), 3)
    with pytest.raises(ValueError, match=r"the encoder must return embeddings \[n, k\] of n examples, got dict"):
        embed_in_chunks(lambda x: {"z": x}, batch[0], 3)
    for pooled in (lambda x: x[:1], lambda x: x.mean(0), lambda x: x.sum()):
        with pytest.raises(
            ValueError, match=r"the encoder must return embeddings \[n, k\] of n examples, got \(.*\) for 3 examples"
        ):
            embed_in_chunks(pooled, batch[0], 3)
    for wrong in ({}, {"x": batch[0], "mask": batch[1][:3]}, {"x": batch[0], "text": ["a"] * N}):
        with pytest.raises(ValueError, match="x must be tensors of one length, got lengths"):
            embed_in_chunks(encoder, wrong, 3)


# --- compiled --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"negatives": "both_views"}, LinearDiscriminator),
        ({"weighting": "pairs", "symmetric": True}, LinearDiscriminator),
        ({"chunk_size": 7, "reduction": "none"}, MLPDiscriminator),
        ({"negatives": "both_views", "chunk_size": 7}, None),
        ({"features": "raw", "weighting": "pairs"}, None),
        ({"tau_alpha": torch.tensor(0.3), "tau_beta": lambda: 0.2}, None),
        ({"tau_alpha": torch.tensor(0.3), "tau_beta": LearnedTemperature(0.2)}, None),
        ({"gather": True}, LinearDiscriminator),
        ({"gather": True}, None),
    ],
)
def test_every_option_compiles_without_a_graph_break(batch, options, kind):
    z0, z1, domains = batch
    known = None if kind is None else kind(D).fit(torch.cat([z0, z1]), torch.cat([domains, domains]))
    loss_fn = DomainWeightedInfoNCELoss(num_domains=D, discriminator=known, **options)
    compiled = torch.compile(loss_fn, fullgraph=True, backend="aot_eager")
    found = []
    for call in (loss_fn, compiled):
        z = z0.clone().requires_grad_()
        loss = call(z, z1, domains)
        found.append((loss.detach(), torch.autograd.grad(loss.sum(), z)[0]))
    torch.testing.assert_close(*found)
