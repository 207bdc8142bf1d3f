"""Kinds of fault, each looked for in every loss, penalty and adapter, with every integer type."""

import contextlib
import copy
import io
import math
import pickle

import pytest
import torch
from pytorch_metric_learning.losses import SupConLoss as ReferenceSupCon
from pytorch_metric_learning.reducers import MeanReducer
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

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
)
from dtcl_core.nn import discriminators, weigher
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


def made(name, **how):
    torch.manual_seed(0)
    return MADE[name](**how)


def called(name, loss_fn, z0, z1, domains, labels):
    if name in PENALTIES:
        return loss_fn(z0, domains)
    if name == "adapter":
        return loss_fn(torch.cat([z0, z1]), labels.repeat(2), domains=domains.repeat(2))
    return loss_fn(z0, z1, labels, domains) if "SupCon" in name else loss_fn(z0, z1, domains)


def compiled(loss_fn, backend="aot_eager"):
    return torch.compile(loss_fn, fullgraph=True, backend=backend)


@pytest.fixture
def batch():
    return make_batch(N)


def make_batch(n):
    generator = torch.Generator().manual_seed(3)
    z0, z1 = torch.randn(2, n, K, generator=generator, dtype=torch.float64)
    return z0, z1, torch.arange(n) % D, torch.arange(n) % 4


# --- gradients of gradients ---------------------------------------------------------------------------------------------


@EVERY
def test_second_order_gradients_are_right_or_refused(batch, name):
    z0, z1, domains, labels = batch
    z0 = z0.requires_grad_()
    how = {"discriminator": Fixed()} if name in WEIGHTED else {}
    if name == "adversary":
        with pytest.raises(RuntimeError, match="a reversed gradient has no gradient"):
            torch.autograd.grad(called(name, made(name), z0, z1, domains, labels), z0, create_graph=True)
        return
    for chunks in ({}, {"chunk_size": 3}) if name in MODULES else ({},):
        loss_fn = made(name, **how, **chunks)
        assert torch.autograd.gradgradcheck(lambda z: called(name, loss_fn, z, z1, domains, labels), z0, fast_mode=True)


# --- integers -------------------------------------------------------------------------------------------------------------


@EVERY
def test_any_integer_type_means_the_same(batch, name):
    z0, z1, domains, labels = batch
    unknown = domains.clone().index_fill_(0, torch.tensor([0]), -1)
    for given, dtypes in ((domains, INTEGERS), (unknown, INTEGERS[:4])):
        expected = called(name, made(name), z0, z1, given, labels)
        for dtype in dtypes:
            assert called(name, made(name), z0, z1, given.to(dtype), labels.to(dtype)).equal(expected), dtype


@EVERY
def test_domains_out_of_range_are_refused(batch, name):
    z0, z1, domains, labels = batch
    unbounded = name not in (*WEIGHTED, *PENALTIES)  # any number names a domain
    for dtype in INTEGERS[-1:] if unbounded else INTEGERS:
        for wrong in (torch.iinfo(dtype).max, *(() if unbounded else (D,))):
            given = torch.tensor([*domains.tolist()[:-1], wrong], dtype=dtype)
            with pytest.raises(ValueError, match=r"domains must be (in 0 \.\.\. 2, or negative|below 2\*\*63)"):
                called(name, made(name), z0, z1, given, labels)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_any_integer_type_is_queued_fitted_scored_and_contrasted(batch, dtype):
    z0, z1, domains, labels = batch
    typed, ids = domains.to(dtype), torch.arange(N)
    queues = [NegativeQueue(N, K).double() for _ in range(2)]
    queues[0].push(z1, domains, ids)
    queues[1].push(z1, typed, ids.to(dtype))
    assert all(a.equal(b) for a, b in zip(queues[0].buffers(), queues[1].buffers()))
    loss_fn = SameDomainInfoNCELoss()
    assert loss_fn(z0, z1, typed, queue=queues[1], ids=ids.to(dtype)) == loss_fn(z0, z1, domains, queue=queues[0], ids=ids)
    for make in (lambda: LinearDiscriminator(D, calibrate=0.4), lambda: MLPDiscriminator(D, calibrate=0.4, steps=3)):
        fitted, other = make().fit(z0, domains), make().fit(z0, typed)
        assert fitted.predict_proba(z1).equal(other.predict_proba(z1))
        assert fitted.score(z1, typed) == fitted.score(z1, domains)
        with pytest.raises(ValueError, match="domains must be in 0"):
            fitted.score(z1, typed.long() + 1)
    assert discriminators.fit_temperature(z0[:, :D], typed) == discriminators.fit_temperature(z0[:, :D], domains)
    assert all(a.equal(b) for a, b in zip(weigher.fit(z0, typed, D, 1.0), weigher.fit(z0, domains, D, 1.0)))
    sides = [(Anchors(z0, i, domains=d, example=i), Candidates(z1, i, domains=d, example=i))
             for i, d in ((labels, domains), (labels.to(dtype), typed))]  # fmt: skip
    assert contrast(*sides[0], Temperatures(0.3), own_domain=True) == contrast(*sides[1], Temperatures(0.3), own_domain=True)
    most = torch.iinfo(dtype).max if torch.iinfo(dtype).bits < 64 else 2**61 - 1
    labels, domains = [0, 64, 100, most], [0, 2, 1, 0]
    packed = with_domains(torch.tensor(labels, dtype=dtype), torch.tensor(domains, dtype=dtype), D)
    assert [t.tolist() for t in without_domains(packed, D)] == [labels, domains]
    for wrong in (D, 100):
        with pytest.raises(
            ValueError, match=rf"domains must be in 0 \.\.\. 2, or negative where not known, got 0 \.\.\. {wrong}"
        ):
            with_domains(torch.tensor([0, 1], dtype=dtype), torch.tensor([0, wrong], dtype=dtype), D)


# --- temperatures: positive, learned, set, scheduled ------------------------------------------------------------------------


class Giving(nn.Module):
    """A module that gives what it was made with."""

    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self):
        return self.value


@EVERY_SETTING
def test_a_setting_that_is_not_positive_is_refused(batch, name, which):
    loss_fn = made(name)
    for value in (-0.016, 0.0, math.nan, math.inf):
        if value == 0 and which in ("tau_beta", "lambda_"):
            continue
        refused = rf"{which} must be (a number )?>=? 0.*, got .*({value}|inf|nan)"
        with pytest.raises(ValueError, match=refused):
            setattr(loss_fn, which, value)
        for given in (nn.Parameter(torch.tensor(value)), torch.tensor([0.2, value]), Giving(torch.tensor(value)), Giving(value),
                      lambda: torch.tensor(value), lambda: value):  # fmt: skip
            setattr(loss_fn, which, given)
            with pytest.raises(ValueError, match=refused):
                called(name, loss_fn, *batch)


@EVERY_SETTING
def test_what_is_no_setting_is_refused_and_changes_nothing(batch, name, which):
    loss_fn = made(name)
    expected = called(name, loss_fn, *batch)
    for value in ("0.2", None, 10**400, [0.2], True):
        with pytest.raises(ValueError, match=f"{which} must be a number >"):
            setattr(loss_fn, which, value)
    assert called(name, loss_fn, *batch) == expected
    for given in ("0.2", None, 10**400, [0.2], True):
        setattr(loss_fn, which, lambda: given)
        with pytest.raises(ValueError, match=f"{which} must be a number >"):
            called(name, loss_fn, *batch)


class NothingRead(TorchDispatchMode):
    """Fails where a value of a tensor is read, for which a GPU would have to be waited for."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert function is not torch.ops.aten._local_scalar_dense.default, "a value is read"
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", [*MODULES, "adversary"])
def test_nothing_is_read_without_validation(batch, name):
    """A discriminator is given: to fit one takes steps until it has converged."""
    known = {"discriminator": LinearDiscriminator(D).fit(batch[0], batch[2])} if name in WEIGHTED else {}
    loss_fn = made(name, validate=False, **known)
    setattr(loss_fn, SETTINGS[name][0], nn.Parameter(torch.tensor(-0.3)))
    with NothingRead():
        called(name, loss_fn, *batch)


@EVERY_SETTING
def test_a_value_of_any_kind_may_follow_another(batch, name, which):
    loss_fn = made(name)
    put = lambda value: setattr(loss_fn, which, value)  # noqa: E731
    before = len(list(loss_fn.parameters()))
    put(0.2)
    assert getattr(loss_fn, which) == 0.2
    expected = called(name, loss_fn, *batch)
    learned = [nn.Parameter(torch.tensor(0.31)), LearnedTemperature(0.31)] * 3
    for old, value in zip(
        learned, (0.2, LearnedTemperature(0.2), torch.tensor(0.2, dtype=torch.float64), Giving(0.2), lambda: 0.2)
    ):
        put(old)
        assert len(list(loss_fn.parameters())) == before + 1
        put(value)
        ours = called(name, loss_fn, *batch)
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)  # what is learned is so in float32
        assert len(list(loss_fn.parameters())) == before + isinstance(value, LearnedTemperature)


@EVERY_SETTING
def test_a_learned_temperature_stays_between_its_bounds(batch, name, which):
    learned = LearnedTemperature(0.2, low=0.05, high=0.9)
    loss_fn = made(name, **{which: learned})
    names = [key for key in loss_fn.state_dict() if key.endswith(f"{which}.position")]
    assert names and any(p is learned.position for p in loss_fn.parameters())
    for sign in (1, -1):
        optimizer = torch.optim.SGD([learned.position], lr=1e3)
        for _ in range(2):
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
    again = made(name, **{which: LearnedTemperature(0.2)})  # of other bounds
    again.load_state_dict(torch.load(file))
    assert called(name, again, *batch) == called(name, loss_fn, *batch)


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "adapter"])
def test_new_values_compile_nothing_anew(batch, name):
    for kind in ("set", "scheduled"):
        eager, fast = made(name), made(name)
        call, now = compiled(fast, backend="eager"), [0.0]
        with torch._dynamo.config.patch(error_on_recompile=True):
            for now[0] in (0.2, 0.25, 0.3):
                for which in SETTINGS[name]:
                    for loss_fn in (eager, fast):
                        setattr(loss_fn, which, now[0] if kind == "set" else lambda: now[0])
                torch.testing.assert_close(called(name, call, *batch), called(name, eager, *batch))
        torch.compiler.reset()


class Schedule:
    def __init__(self, value):
        self.value = value

    def __call__(self):
        return self.value


def test_a_module_may_give_a_compiled_loss_another_number_at_each_call(batch):
    z0, z1, *_ = batch
    giving = Giving(0.2)
    fast, eager = compiled(InfoNCELoss(giving)), InfoNCELoss(giving)
    for giving.value in (0.2, 0.25, 0.3):
        torch.testing.assert_close(fast(z0, z1), eager(z0, z1))


def test_a_compiled_loss_learns_its_temperature_and_copies_have_their_own(batch):
    z0, z1, *_ = batch
    through = InfoNCELoss(LearnedTemperature(0.2))
    compiled(through)(z0, z1).backward()
    assert through.tau.position.grad.abs() > 0
    for kind in (float, Schedule):
        first = InfoNCELoss(kind(0.2))
        for second in (copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
            second.tau = kind(0.7)
            found = [compiled(one)(z0, z1) for one in (first, second)]
            torch.testing.assert_close(found, [InfoNCELoss(0.2)(z0, z1), InfoNCELoss(0.7)(z0, z1)])


def test_a_compiled_loss_asks_a_schedule_for_a_number(batch):
    z0, z1, *_ = batch
    learned = nn.Parameter(torch.tensor(0.2))
    for schedule in (lambda: learned.exp(), lambda: torch.tensor(0.2)):
        with pytest.raises(Exception, match="asks the schedule of tau for a number; what gives a tensor must be an nn.Module"):
            compiled(InfoNCELoss(schedule))(z0, z1)


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
    assert InfoNCELoss(queue=NegativeQueue(3, K).double())(z0[:1], z1[:1]) == 0, "an empty queue has no negatives"


@pytest.mark.parametrize("name", ["InfoNCE", "NT-Xent"])
def test_an_example_twice_in_a_batch_is_no_negative_of_itself(batch, name):
    z0, z1, domains, _ = batch
    loss_fn, ids = made(name, reduction="none"), torch.tensor([0, 1, 2, 3, 4, 5, 6, 0])
    ours, whole, first = loss_fn(z0, z1, ids=ids), loss_fn(z0, z1), loss_fn(z0[:7], z1[:7])
    torch.testing.assert_close(ours[0], first[0])
    assert ours[1:7].equal(whole[1:7]) and ours[7] < whole[7]
    assert loss_fn(z0, z1, ids=ids * 0 - 1).equal(whole), "nothing is known of these examples"
    for wrong, message in (
        (ids[:3], r"ids must be integers \[8\]"),
        (ids.double(), "ids must be integers"),
        ([0], "ids must be a tensor of integers"),
    ):
        with pytest.raises(ValueError, match=message):
            made(name)(z0, z1, ids=wrong)


# --- more than two views ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "chunk_size"), [(2, 3), (3, None), (5, 3)])
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
    loss_fn = made("weighted SupCon", chunk_size=chunk_size)
    torch.testing.assert_close(loss_fn(z0, others, labels, domains), expected)
    torch.testing.assert_close(made("pairs")(z0, tuple(others), domains), weighted(
        DomainWeightedLoss, weighting="pairs")(flat, torch.arange(N).repeat(count), domains=domains.repeat(count)))  # fmt: skip
    assert SupConLoss(reduction="none")(z0, others, labels).shape == (N * count,)
    if count == 3:
        torch.testing.assert_close(compiled(loss_fn)(z0, others, labels, domains), expected)


# --- half precision -----------------------------------------------------------------------------------------------------------


@EVERY
def test_an_embedding_of_zeros_gets_no_gradient_and_leaves_the_scaler_alone(batch, name):
    z0, z1, domains, labels = batch
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        zeros = [z.to(dtype).index_fill(0, torch.tensor([2]), 0.0).requires_grad_() for z in (z0, z1)]
        called(name, made(name).float(), *zeros, domains, labels).backward()
        for z in zeros[: 1 if name in PENALTIES else 2]:
            assert z.grad.isfinite().all() and not z.grad[2].any() and z.grad.any()
    torch.manual_seed(0)
    net, loss_fn = nn.Linear(6, K, bias=False), made(name).float()
    x0, x1 = torch.randn(2, N, 6)
    x0[2] = x1[2] = 0.0
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    optimizer = torch.optim.SGD([*net.parameters(), *loss_fn.parameters()], lr=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = called(name, loss_fn, net(x0), net(x1), domains, labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 2.0**12 and net.weight.isfinite().all()


@EVERY
def test_autocast_leaves_losses_of_full_precision_as_they_are(batch, name):
    z0, z1, domains, labels = (t.float() if t.is_floating_point() else t for t in batch)
    how = {"reducer": MeanReducer()} if name == "adapter" else {}
    loss_fn = made(name, **how).float()
    expected = called(name, loss_fn, z0, z1, domains, labels)
    figures = getattr(loss_fn, "last", {})
    with torch.autocast("cpu", dtype=torch.bfloat16):
        again = called(name, loss_fn, z0, z1, domains, labels)
        assert getattr(loss_fn, "last", {}) == figures
    assert again == expected


@EVERY
def test_domains_labels_and_ids_may_lie_on_another_device(batch, name, monkeypatch):
    """As a loader gives them; the device without values, for which there is no autocast, stands for a GPU."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())
    z0, z1, domains, labels = batch

    class Known:
        def predict_proba(self, z):
            return z.new_full((*z.shape[:-1], D), 1 / D)

    if name == "adapter":
        pytest.skip("its library reads values")
    options = {"discriminator": Known()} if name in WEIGHTED else {}
    loss_fn = made(name, validate=False, **options).to("meta")
    z0, z1 = z0.to("meta"), z1.to("meta")
    assert called(name, loss_fn, z0, z1, domains, labels).device.type == "meta"
    if name in ("InfoNCE", "negatives"):
        assert loss_fn(z0, z1, domains, ids=labels).device.type == "meta"


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
    copy.deepcopy(loss_fn)  # holds no tensor of inside the transform


@pytest.mark.parametrize("name", MODULES)
def test_a_functional_call_takes_other_temperatures(batch, name):
    which = SETTINGS[name][0]
    loss_fn = made(name, **{which: nn.Parameter(torch.tensor(0.3, dtype=torch.float64))})
    z0, z1, domains, labels = batch
    args = (z0, z1, labels, domains) if "SupCon" in name else (z0, z1, domains)
    other = {which: torch.tensor(0.5, dtype=torch.float64)}
    torch.testing.assert_close(torch.func.functional_call(loss_fn, other, args), made(name, **{which: 0.5})(*args))
