"""Kinds of fault, each looked for in every loss, penalty and adapter, with every integer type, in one process and in two."""

import copy
import io
import math
import pickle
import sys
import tomllib
import types
from pathlib import Path

import pytest
import torch
from pytorch_metric_learning.losses import SupConLoss as ReferenceSupCon
from torch import multiprocessing, nn

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
    embed_in_chunks,
)
from dtcl_core.nn import discriminators, fitting
from dtcl_core.nn.candidates import Anchors, Candidates, Temperatures, contrast
from dtcl_core.nn.metric_learning import DomainWeightedLoss, with_domains, without_domains

N, K, D = 8, 4, 3
INTEGERS = [getattr(torch, f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)]


class Fixed:
    """A discriminator whose answer depends on the row alone, so that all of a loss's dependence on z has a gradient."""

    def predict_proba(self, z):
        rows = torch.arange(z.shape[-2] * D, dtype=z.dtype).reshape(-1, D)
        return (2 * (3 * rows).sin()).softmax(-1).expand(*z.shape[:-1], D)


def weighted(kind=DomainWeightedInfoNCELoss, tau_alpha=0.3, tau_beta=0.4, **how):
    return kind(tau_alpha, tau_beta, num_domains=D, **how)


# Each as (made with options, called with two views, domains and labels). MADE: a weight is fitted on the batch.
MADE = {
    "InfoNCE": lambda **how: InfoNCELoss(**{"tau": 0.3} | how),
    "symmetric": lambda **how: InfoNCELoss(**{"tau": 0.3} | how, symmetric=True),
    "NT-Xent": lambda **how: InfoNCELoss(**{"tau": 0.3} | how, negatives="both_views"),
    "same domain": lambda **how: SameDomainInfoNCELoss(**{"tau": 0.3} | how),
    "negatives": lambda **how: weighted(**how),
    "pairs": lambda **how: weighted(**how, weighting="pairs", negatives="both_views"),
    "SupCon": lambda **how: SupConLoss(**{"tau": 0.3} | how),
    "weighted SupCon": lambda **how: weighted(DomainWeightedSupConLoss, **how),
    "adapter": lambda **how: weighted(DomainWeightedLoss, **how),
    "MMD": lambda **how: MMDPenalty(D, **how),
    "unbiased MMD": lambda **how: MMDPenalty(D, unbiased=True, **how),
    "adversary": lambda **how: DomainAdversary(K, D, **how).double(),
}
WEIGHTED = ("negatives", "pairs", "weighted SupCon", "adapter")
PENALTIES = ("MMD", "unbiased MMD", "adversary")
MODULES = [name for name in MADE if name not in (*PENALTIES, "adapter")]
SETTINGS = {
    name: ("lambda_",) if name == "adversary" else ("tau_alpha", "tau_beta", "tau_min") if name in WEIGHTED else ("tau",)
    for name in MADE
    if "MMD" not in name
}
SETTING = [(name, each) for name, several in SETTINGS.items() for each in several]
EVERY = pytest.mark.parametrize("name", MADE)
EVERY_SETTING = pytest.mark.parametrize(("name", "which"), SETTING)
EVERY_INTEGER = pytest.mark.parametrize("dtype", INTEGERS, ids=str)


def made(name, **how):
    torch.manual_seed(0)
    return MADE[name](**how)


def called(name, loss_fn, z0, z1, domains, labels):
    if "MMD" in name or name == "adversary":
        return loss_fn(z0, domains)
    if name == "adapter":
        return loss_fn(torch.cat([z0, z1]), labels.repeat(2), domains=domains.repeat(2))
    return loss_fn(z0, z1, labels, domains) if "SupCon" in name else loss_fn(z0, z1, domains)


@pytest.fixture(autouse=True)
def fresh_compiler():
    """Graphs of other tests do not count towards the compiler's limit of variants of one function."""
    yield
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()


@pytest.fixture
def batch():
    return make_batch(N)


def make_batch(n):
    generator = torch.Generator().manual_seed(3)
    z0, z1 = torch.randn(2, n, K, generator=generator, dtype=torch.float64)
    return z0, z1, torch.arange(n) % D, torch.arange(n) % 4


# --- gradients of gradients ---------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("chunk_size", [None, 3])
def test_second_order_gradients_are_right_or_refused(batch, name, chunk_size):
    z0, z1, domains, labels = batch
    how = {"discriminator": Fixed()} if name in WEIGHTED else {}
    how |= {} if chunk_size is None or name in (*PENALTIES, "adapter") else {"chunk_size": chunk_size}
    loss_fn = made(name, **how)
    z0 = z0.requires_grad_()
    if name == "adversary":
        with pytest.raises(RuntimeError, match="a reversed gradient has no gradient"):
            torch.autograd.grad(called(name, loss_fn, z0, z1, domains, labels), z0, create_graph=True)
    else:
        assert torch.autograd.gradgradcheck(lambda z: called(name, loss_fn, z, z1, domains, labels), z0, fast_mode=True)


def test_second_order_gradients_go_through_chunks_of_embeddings(batch):
    net = nn.Sequential(nn.Linear(K, 3), nn.Tanh()).double()
    embed = lambda x: InfoNCELoss(0.3)(embed_in_chunks(net, x, 3), batch[1][:, :3])  # noqa: E731
    assert torch.autograd.gradgradcheck(embed, batch[0].requires_grad_(), fast_mode=True)


# --- integers -------------------------------------------------------------------------------------------------------------


@EVERY
@EVERY_INTEGER
def test_any_integer_type_means_the_same(batch, name, dtype):
    z0, z1, domains, labels = batch
    expected = called(name, made(name), z0, z1, domains, labels)
    assert called(name, made(name), z0, z1, domains.to(dtype), labels.to(dtype)).equal(expected)
    if not dtype.is_signed:
        return
    domains[0] = -1
    expected = called(name, made(name), z0, z1, domains, labels)
    assert called(name, made(name), z0, z1, domains.to(dtype), labels.to(dtype)).equal(expected)


@EVERY
@EVERY_INTEGER
def test_domains_out_of_range_are_refused(batch, name, dtype):
    z0, z1, domains, labels = batch
    unbounded = name not in (*WEIGHTED, *PENALTIES)  # any number names a domain
    for wrong in (torch.iinfo(dtype).max, *(() if unbounded else (D,))):
        if unbounded and dtype != torch.uint64:
            continue
        domains = torch.tensor([*domains.tolist()[:-1], wrong], dtype=dtype)
        with pytest.raises(ValueError, match=r"domains must be (in 0 \.\.\. 2, or negative|below 2\*\*63)"):
            called(name, made(name), z0, z1, domains, labels)


@EVERY_INTEGER
def test_any_integer_type_is_queued_fitted_scored_and_contrasted(batch, dtype):
    z0, z1, domains, labels = batch
    typed, ids = domains.to(dtype), torch.arange(N)
    queues = [NegativeQueue(N, K).double() for _ in range(2)]
    queues[0].push(z1, domains, ids)
    queues[1].push(z1, typed, ids.to(dtype))
    assert all(a.equal(b) for a, b in zip(queues[0].buffers(), queues[1].buffers()))
    loss_fn = SameDomainInfoNCELoss()
    assert loss_fn(z0, z1, typed, queue=queues[1], ids=ids.to(dtype)) == loss_fn(z0, z1, domains, queue=queues[0], ids=ids)
    for kind in (LinearDiscriminator, MLPDiscriminator):
        fitted, other = kind(D, calibrate=0.4).fit(z0, domains), kind(D, calibrate=0.4).fit(z0, typed)
        assert fitted.predict_proba(z1).equal(other.predict_proba(z1))
        assert fitted.score(z1, typed) == fitted.score(z1, domains)
        with pytest.raises(ValueError, match="domains must be in 0"):
            fitted.score(z1, typed.long() + 1)
    assert discriminators.fit_temperature(z0[:, :D], typed) == discriminators.fit_temperature(z0[:, :D], domains)
    assert all(a.equal(b) for a, b in zip(fitting.fit(z0, typed, D), fitting.fit(z0, domains, D)))
    sides = [(Anchors(z0, i, domains=d, example=i), Candidates(z1, i, domains=d, example=i))
             for i, d in ((labels, domains), (labels.to(dtype), typed))]  # fmt: skip
    assert contrast(*sides[0], Temperatures(0.3), own_domain=True) == contrast(*sides[1], Temperatures(0.3), own_domain=True)


@EVERY_INTEGER
def test_labels_of_any_integer_type_carry_domains(dtype):
    most = torch.iinfo(dtype).max if torch.iinfo(dtype).bits < 64 else 2**61 - 1
    labels, domains = [0, 64, 100, most], [0, 2, 1, 0]
    packed = with_domains(torch.tensor(labels, dtype=dtype), torch.tensor(domains, dtype=dtype), D)
    assert [t.tolist() for t in without_domains(packed, D)] == [labels, domains]
    for wrong in (D, 100):
        with pytest.raises(ValueError, match=rf"domains must be in 0 \.\.\. 2, or negative where not known, got 0 \.\.\. {wrong}"):
            with_domains(torch.tensor([0, 1], dtype=dtype), torch.tensor([0, wrong], dtype=dtype), D)


def test_the_labels_of_the_issue_survive():
    zeros = torch.zeros(3, dtype=torch.long)
    labels, _ = without_domains(with_domains(torch.tensor([0, 64, 128], dtype=torch.uint8), zeros, 3), 3)
    assert labels.tolist() == [0, 64, 128]
    large = torch.tensor([2**30, 2**30 + 1, -5], dtype=torch.int32)
    assert without_domains(with_domains(large, zeros, 3), 3)[0].equal(large.long())
    for labels, message in ((torch.tensor([2**62] * 3), "to carry 3 domains"), ([0, 1, 2], "labels must be a tensor, got list")):
        with pytest.raises(ValueError, match=message):
            with_domains(labels, zeros, 3)


# --- temperatures: positive, learned, set, scheduled ------------------------------------------------------------------------


@EVERY_SETTING
@pytest.mark.parametrize("value", [-0.016, 0.0, math.nan, math.inf])
def test_a_setting_that_is_not_positive_is_refused(batch, name, which, value):
    loss_fn = made(name)
    for given in (value, nn.Parameter(torch.tensor(value)), torch.tensor([0.2, value]), lambda: torch.tensor(value)):
        setattr(loss_fn if name != "adapter" or which == "tau_alpha" else loss_fn.weigher, which, given)
        if value == 0 and which in ("tau_beta", "lambda_"):
            continue
        with pytest.raises(ValueError, match=rf"{which} must be (a number )?>=? 0.*, got .*({value}|inf|nan)"):
            called(name, loss_fn, *batch)


@pytest.mark.parametrize("value", ["0.2", None, 10**400, [0.2], True])
def test_what_is_no_number_is_refused_at_the_call(batch, value):
    loss_fn = InfoNCELoss(nn.Parameter(torch.tensor(0.2)))
    loss_fn.tau = value
    with pytest.raises(ValueError, match="tau must be a number > 0"):
        loss_fn(*batch[:2])


@pytest.mark.parametrize("name", MADE)
def test_nothing_is_read_without_validation(batch, name):
    if name == "adapter" or "MMD" in name:
        return
    loss_fn = made(name, validate=False)
    setattr(loss_fn, SETTINGS[name][0], nn.Parameter(torch.tensor(-0.3)))
    called(name, loss_fn, *batch)


@EVERY_SETTING
def test_a_number_or_a_schedule_may_follow_a_parameter(batch, name, which):
    loss_fn, plain = made(name), made(name)
    holder = loss_fn.weigher if name == "adapter" and which != "tau_alpha" else loss_fn
    before = len(list(loss_fn.parameters()))
    for learned in (nn.Parameter(torch.tensor(0.31)), LearnedTemperature(0.31)):
        for value in (0.2, lambda: 0.2, torch.tensor(0.2, dtype=torch.float64), LearnedTemperature(0.2)):
            setattr(holder, which, learned)
            assert len(list(loss_fn.parameters())) == before + 1
            setattr(holder, which, value)
            setattr(plain.weigher if holder is not loss_fn else plain, which, 0.2)
            ours, expected = called(name, loss_fn, *batch), called(name, plain, *batch)
            torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)  # what is learned is so in float32
            kept = isinstance(value, nn.Module)
            assert len(list(loss_fn.parameters())) == before + kept
    setattr(holder, which, 0.2)
    assert getattr(holder, which) == 0.2


@EVERY_SETTING
def test_a_learned_temperature_stays_between_its_bounds(batch, name, which):
    learned = LearnedTemperature(0.2, low=0.05, high=0.9)
    loss_fn = made(name, **{which: learned})
    names = [key for key in loss_fn.state_dict() if key.endswith(f"{which}.position")]
    assert names and any(p is learned.position for p in loss_fn.parameters())
    for sign in (1, -1):
        optimizer = torch.optim.SGD([learned.position], lr=1e3)
        for _ in range(3):
            optimizer.zero_grad()
            called(name, loss_fn, *batch).mul(sign).backward()
            if which == "lambda_":  # its gradient reaches the encoder alone
                learned.position.grad = torch.ones_like(learned.position) * sign
            optimizer.step()
            assert 0.0499 < learned().item() < 0.9001
        assert called(name, loss_fn, *batch).isfinite()
    file = io.BytesIO()
    torch.save(loss_fn.state_dict(), file)
    file.seek(0)
    again = made(name, **{which: LearnedTemperature(0.2, low=0.05, high=0.9)})
    again.load_state_dict(torch.load(file))
    assert called(name, again, *batch) == called(name, loss_fn, *batch)


def test_a_learned_temperature_says_what_it_is():
    assert LearnedTemperature(0.3)().item() == pytest.approx(0.3) and "low=0.01, high=1.0" in repr(LearnedTemperature())
    for start, low, high in ((0.1, 0.1, 1.0), (1.0, 0.1, 1.0), (0.5, 0.0, 1.0), (0.5, 1.0, 0.1), (math.nan, 0.1, 1.0)):
        with pytest.raises(ValueError, match="must (be|lie)"):
            LearnedTemperature(start, low, high)


class Steps:
    now = 0


@pytest.mark.parametrize(("name", "which"), [(n, w) for n, w in SETTING if n != "adapter"])
def test_new_values_compile_nothing_anew(batch, name, which):
    schedule = lambda: 0.2 + 0.02 * Steps.now  # noqa: E731
    for kind in ("set", "scheduled"):
        torch.compiler.reset()
        eager, fast = made(name), made(name)
        compiled = torch.compile(fast, fullgraph=True, backend="aot_eager")
        for Steps.now in range(10):  # the compiler gives up after eight variants
            for loss_fn in (eager, fast):
                setattr(loss_fn, which, schedule() if kind == "set" else schedule)
            torch.testing.assert_close(called(name, compiled, *batch), called(name, eager, *batch))


def test_a_compiled_schedule_is_asked_for_a_number_and_copies_ask_their_own(batch):
    z0, z1, *_ = batch
    learned = nn.Parameter(torch.tensor(0.2))
    for schedule in (lambda: learned.exp(), lambda: torch.tensor(0.2)):
        with pytest.raises(Exception, match="asks the schedule of tau for a number; what gives a tensor must be an nn.Module"):
            torch.compile(InfoNCELoss(schedule), fullgraph=True, backend="aot_eager")(z0, z1)
    through = InfoNCELoss(LearnedTemperature(0.2))
    torch.compile(through, fullgraph=True, backend="aot_eager")(z0, z1).backward()
    assert through.tau.position.grad.abs() > 0
    first = InfoNCELoss(Schedule(0.2))
    for second in (copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        second.tau = Schedule(0.7)
        compiled = [torch.compile(one, fullgraph=True, backend="aot_eager")(z0, z1) for one in (first, second)]
        torch.testing.assert_close(compiled, [InfoNCELoss(0.2)(z0, z1), InfoNCELoss(0.7)(z0, z1)])


class Schedule:
    def __init__(self, value):
        self.value = value

    def __call__(self):
        return self.value


def test_a_schedule_is_asked_once_a_call(batch):
    steps = iter([0.1, 0.2])
    loss_fn = InfoNCELoss(lambda: next(steps), symmetric=True)
    assert [loss_fn(*batch[:2]).item() for _ in range(2)] == [
        InfoNCELoss(tau, symmetric=True)(*batch[:2]).item() for tau in (0.1, 0.2)
    ]


# --- examples that come again ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["InfoNCE", "symmetric", "same domain", "negatives"])
@pytest.mark.parametrize("chunk_size", [None, 3])
def test_a_queue_passes_over_older_copies(batch, name, chunk_size):
    z0, z1, domains, labels = batch
    ids, queue = torch.arange(N) + 40, NegativeQueue(64, K).double()
    how = {"discriminator": LinearDiscriminator(D).fit(z0, domains)} if name == "negatives" else {}
    filling = made(name, queue=queue, chunk_size=chunk_size, **how)
    for _ in range(3):
        filling(z0, z1, domains, ids=ids)
    ours = made(name, chunk_size=chunk_size, reduction="none", **how)(z0, z1, domains, queue=queue, ids=ids)
    for i in range(N):  # by hand: a queue without the anchor's example
        others, left = NegativeQueue(64, K).double(), queue.filled & (queue.ids != ids[i])
        others.push(queue.z[left], queue.domains[left])
        expected = made(name, reduction="none", **how)(z0, z1, domains, queue=others)
        torch.testing.assert_close(ours[i], expected[i])
    unknown = made(name, reduction="none", **how)(z0, z1, domains, queue=queue, ids=ids * 0 - 1)
    assert unknown.equal(made(name, reduction="none", **how)(z0, z1, domains, queue=queue))
    assert (unknown > ours).all(), "older copies of the positive pull the other way"


def test_the_loss_of_the_issue_does_not_grow_with_copies_of_its_own():
    z, ids = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), torch.arange(8)
    alone = InfoNCELoss(0.1, queue=NegativeQueue(64, 4))
    assert [alone(z[:1], z[:1], ids=ids[:1]).item() for _ in range(4)] == [0.0] * 4
    loss_fn = InfoNCELoss(0.1, queue=NegativeQueue(64, 4))
    assert loss_fn(z, z, ids=ids) == 0
    torch.testing.assert_close(loss_fn(z, z, ids=ids), InfoNCELoss(0.1)(z, z))


@pytest.mark.parametrize("name", ["InfoNCE", "NT-Xent"])
def test_an_example_twice_in_a_batch_is_no_negative_of_itself(batch, name):
    z0, z1, domains, _ = batch
    ids = torch.tensor([0, 1, 2, 3, 4, 5, 6, 0])
    ours = made(name, reduction="none")(z0, z1, ids=ids)
    whole = made(name, reduction="none")(z0, z1)
    first = made(name, reduction="none")(z0[:7], z1[:7])
    torch.testing.assert_close(ours[0], first[0])
    assert ours[1:7].equal(whole[1:7]) and ours[7] < whole[7]
    for wrong, message in ((ids[:3], r"ids must be integers \[8\]"), (ids.double(), "ids must be integers"), ([0], "ids must be a tensor")):
        with pytest.raises(ValueError, match=message):
            made(name)(z0, z1, ids=wrong)


def test_a_queue_saved_before_it_had_ids_is_read():
    old = NegativeQueue(5, K).state_dict()
    del old["ids"]
    queue = NegativeQueue(5, K)
    queue.push(torch.randn(2, K), ids=torch.arange(2))
    queue.load_state_dict(old)
    assert queue.ids.tolist() == [-1] * 5


# --- more than two views ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("chunk_size", [None, 3])
def test_several_views_make_one_pool(batch, count, chunk_size):
    _, _, domains, labels = batch
    views = torch.randn(N, count, K, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    z0, *others = views.unbind(1)
    flat = torch.cat([z0, *others])
    for classes, ours in (
        (labels, SupConLoss(0.3, chunk_size=chunk_size)(z0, others, labels)),
        (torch.arange(N), InfoNCELoss(0.3, negatives="both_views", chunk_size=chunk_size)(z0, others)),
    ):
        torch.testing.assert_close(ours, ReferenceSupCon(temperature=0.3)(flat, classes.repeat(count)))
    expected = made("adapter")(flat, labels.repeat(count), domains=domains.repeat(count))
    torch.testing.assert_close(made("weighted SupCon", chunk_size=chunk_size)(z0, others, labels, domains), expected)
    torch.testing.assert_close(made("pairs")(z0, tuple(others), domains), weighted(
        DomainWeightedLoss, weighting="pairs")(flat, torch.arange(N).repeat(count), domains=domains.repeat(count)))  # fmt: skip
    assert SupConLoss(reduction="none")(z0, others, labels).shape == (N * count,)
    compiled = torch.compile(made("weighted SupCon", chunk_size=chunk_size), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(z0, others, labels, domains), expected)


def test_several_views_that_make_no_pool_are_refused(batch):
    z0, z1, domains, labels = batch
    for call, message in (
        (lambda: InfoNCELoss()(z0, [z1, z0]), '3 views make one pool: they need negatives="both_views"'),
        (lambda: SupConLoss()(z0, [], labels), "z1 must be another view or several, got none"),
        (lambda: SupConLoss()(z0, [z1, z1[1:]], labels), r"z0 and z2 must share a shape"),
        (lambda: SupConLoss()(z0, [z1, z1 / 0], labels), "z2 holds NaN or infinite values"),
        (lambda: SupConLoss()(z0, [z1, None], labels), "z2 must be a tensor, got NoneType"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_dictionaries_are_embedded_in_chunks(batch):
    net = nn.Bilinear(K, K, 3).double()
    encoder = lambda part: net(part["x"], part["mask"])  # noqa: E731
    inputs = {"x": batch[0], "mask": batch[1]}
    whole, parts = encoder(inputs), embed_in_chunks(encoder, inputs, 3)
    torch.testing.assert_close(parts, whole)
    for a, b in zip(*(torch.autograd.grad(z.sin().sum(), net.parameters()) for z in (whole, parts))):
        torch.testing.assert_close(a, b)
    for wrong in ({}, {"x": batch[0], "mask": batch[1][:3]}, {"x": batch[0], "text": ["a"] * N}):
        with pytest.raises(ValueError, match="x must be tensors of one length, got lengths"):
            embed_in_chunks(encoder, wrong, 3)


# --- half precision -----------------------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_an_embedding_of_zeros_gets_no_gradient(batch, name, dtype):
    z0, z1, domains, labels = batch
    z0, z1 = (z.to(dtype).index_fill(0, torch.tensor([2]), 0.0).requires_grad_() for z in (z0, z1))
    called(name, made(name).float(), z0, z1, domains, labels).backward()
    for z in (z0, z1)[: 1 if name in PENALTIES else 2]:
        assert z.grad.isfinite().all() and not z.grad[2].any() and z.grad.any()


@EVERY
def test_embeddings_of_zeros_leave_the_gradient_scaler_alone(batch, name):
    _, _, domains, labels = batch
    torch.manual_seed(0)
    net, loss_fn = nn.Linear(6, K, bias=False), made(name).float()
    x0, x1 = torch.randn(2, N, 6)
    x0[2] = x1[2] = 0.0
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    optimizer = torch.optim.SGD([*net.parameters(), *loss_fn.parameters()], lr=0.1)
    for _ in range(20):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = called(name, loss_fn, net(x0), net(x1), domains, labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 2.0**12 and net.weight.isfinite().all()


# --- MMD: many and unequal domains ------------------------------------------------------------------------------------------------


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
            MMDPenalty(count)(z, torch.arange(64) % 8 if count > 8 else torch.arange(64) % 3)
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


# --- torch.func ---------------------------------------------------------------------------------------------------------------------


@EVERY
def test_functional_gradients_are_autograds(batch, name):
    z0, z1, domains, labels = batch
    loss_fn = made(name)
    if name == "adversary":
        with pytest.raises(RuntimeError, match="no torch.func.grad"):
            torch.func.grad(lambda z: called(name, loss_fn, z, z1, domains, labels))(z0)
        return
    functional = torch.func.grad(lambda z: called(name, loss_fn, z, z1, domains, labels))(z0)
    z0.requires_grad_()
    expected = torch.autograd.grad(called(name, loss_fn, z0, z1, domains, labels), z0)[0]
    torch.testing.assert_close(functional, expected)
    assert called(name, loss_fn, z0, z1, domains, labels).isfinite() and (name not in WEIGHTED[:3] or loss_fn.last)


def test_what_torch_func_cannot_do_it_refuses(batch):
    z0, z1, *_ = batch
    for options, message in (
        ({"chunk_size": 3}, "don't yet support saved tensor hooks"),
        ({"queue": NegativeQueue(20, K).double()}, "would mutate a captured Tensor"),
    ):
        with pytest.raises(RuntimeError, match=message):
            torch.func.grad(lambda z: InfoNCELoss(**options)(z, z))(z0)


@EVERY
def test_vmap_works_without_validation_and_is_refused_with_it(batch, name):
    z0, z1, domains, labels = batch
    stacked, other = torch.stack([z0, 2 - z0]), torch.stack([z1, z1 + 1])

    def over(loss_fn):
        return torch.func.vmap(lambda a, b: called(name, loss_fn, a, b, domains, labels))(stacked, other)

    with pytest.raises(ValueError, match="torch.func.vmap lets no value be read: make the loss with validate=False"):
        over(made(name))
    if name == "adapter":
        return
    if name in WEIGHTED:
        with pytest.raises(ValueError, match="give it a discriminator that is fitted"):
            over(made(name, validate=False))
    how = {"discriminator": Fixed()} if name in WEIGHTED else {}
    loss_fn = made(name, validate=False, **how)
    alone = torch.stack([called(name, loss_fn, a, b, domains, labels) for a, b in zip(stacked, other)])
    torch.testing.assert_close(over(loss_fn), alone)


@pytest.mark.parametrize("name", MODULES)
def test_a_functional_call_takes_other_temperatures(batch, name):
    which = SETTINGS[name][0]
    loss_fn = made(name, **{which: nn.Parameter(torch.tensor(0.3, dtype=torch.float64))})
    z0, z1, domains, labels = batch
    args = (z0, z1, labels, domains) if "SupCon" in name else (z0, z1, domains)
    other = {which: torch.tensor(0.5, dtype=torch.float64)}
    torch.testing.assert_close(torch.func.functional_call(loss_fn, other, args), made(name, **{which: 0.5})(*args))


# --- the adapter's library ----------------------------------------------------------------------------------------------------------


def test_another_version_of_the_metric_library_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "dtcl_core.nn.metric_learning")
    renamed = "pytorch_metric_learning.utils.loss_and_miner_utils"
    monkeypatch.setitem(sys.modules, renamed, types.ModuleType(renamed))
    with pytest.raises(ImportError, match=r"needs pytorch-metric-learning 2 \(pip install .*<3'\): cannot import name"):
        import dtcl_core.nn.metric_learning  # noqa: F401
    pins = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "pytorch-metric-learning>=2.5,<3" in pins["optional-dependencies"]["test"]


# --- two processes --------------------------------------------------------------------------------------------------------------------
def penalised(name, z0, z1, domains, labels, *, gather):
    """The gradient of the squared gradient of the sum of all processes' losses."""
    loss_fn = made(name, gather=gather)
    z0, z1 = z0.clone().requires_grad_(), z1.clone().requires_grad_()
    loss = called(name, loss_fn, z0, z1, domains, labels) * (1 if gather else 2)
    first = torch.autograd.grad(loss, (z0, z1), create_graph=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in first), (z0, z1))
    return [*(g.detach() for g in first), *second]


def one_process(rank, path, results):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    whole = make_batch(2 * N)
    mine = z0, z1, domains, labels = [t[rank * N : rank * N + N] for t in whole]
    found = {name: [g.tolist() for g in penalised(name, *mine, gather=True)] for name in MODULES}
    for dtype in INTEGERS:
        for name in MODULES:
            loss = called(name, made(name, gather=True), z0, z1, domains.to(dtype), labels.to(dtype))
            found[name, str(dtype)] = loss.item()
        queue = NegativeQueue(20, K)
        queue.push(z0, domains.to(dtype), labels.to(dtype), gather=True)
        found["queue", str(dtype)] = (queue.domains.tolist(), queue.ids.tolist())
    found["views"] = SupConLoss(0.3, gather=True)(z0, [z1, z0 + z1], labels).item()
    found["ids"] = InfoNCELoss(0.3, gather=True)(z0, z1, ids=labels).item()
    for what, mistake in {
        "tau": lambda: InfoNCELoss(nn.Parameter(torch.tensor(0.1 - 0.2 * rank)), gather=True)(z0, z1),
        "given": lambda: InfoNCELoss(gather=True)(z0, z1, ids=labels if rank else None),
        "pool": lambda: SupConLoss(gather=True)(z0, [z1] * (1 + rank), labels),
    }.items():
        try:
            mistake()
        except ValueError as error:
            found[what] = str(error)
    results.put((rank, found))
    torch.distributed.destroy_process_group()


def test_two_processes_equal_one_whatever_is_exchanged(tmp_path):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=one_process, args=(r, tmp_path / "meet", results)) for r in range(2)]
    for worker in workers:
        worker.start()
    found = dict(results.get(timeout=180) for _ in workers)
    for worker in workers:
        worker.join(timeout=60)
        assert worker.exitcode == 0
    whole = z0, z1, domains, labels = make_batch(2 * N)
    for name in MODULES:
        for i, expected in enumerate(penalised(name, *whole, gather=False)):
            ours = torch.tensor(found[0][name][i] + found[1][name][i], dtype=torch.float64)
            torch.testing.assert_close(ours, expected, rtol=1e-6, atol=1e-8, msg=f"{name}, {i}")
        one = called(name, made(name), *whole).item()
        for dtype in INTEGERS:
            assert sum(found[r][name, str(dtype)] for r in range(2)) / 2 == pytest.approx(one, abs=1e-10), (name, dtype)
    for dtype in INTEGERS:
        assert all(found[r]["queue", str(dtype)] == ([-1] * 4 + domains.tolist(), [-1] * 4 + labels.tolist()) for r in range(2))
    views = SupConLoss(0.3)(z0, [z1, z0 + z1], labels).item()
    assert sum(found[r]["views"] for r in range(2)) / 2 == pytest.approx(views)
    assert sum(found[r]["ids"] for r in range(2)) / 2 == pytest.approx(InfoNCELoss(0.3)(z0, z1, ids=labels).item())
    assert "tau must be > 0" in found[1]["tau"] and "process 1 was given what it refuses" in found[0]["tau"]
    assert all("the same inputs" in found[r][what] for r in range(2) for what in ("given", "pool"))
