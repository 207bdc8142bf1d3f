"""The adapter for pytorch-metric-learning, tested as its own losses are, and through its wrappers."""

import pickle
import sys
import tomllib
import types
from pathlib import Path

import pytest
import torch
from pytorch_metric_learning.losses import CrossBatchMemory, MultipleLosses, SelfSupervisedLoss
from pytorch_metric_learning.losses import SupConLoss as Reference
from pytorch_metric_learning.miners import MultiSimilarityMiner, TripletMarginMiner
from pytorch_metric_learning.reducers import DoNothingReducer, MeanReducer, ThresholdReducer
from pytorch_metric_learning.utils.distributed import DistributedLossWrapper
from test_processes import of_two_processes

from dtcl_core import DomainWeightedInfoNCELoss, DomainWeightedSupConLoss, LinearDiscriminator
from dtcl_core.nn.metric_learning import DomainWeightedLoss, with_domains, without_domains

N, K, D = 20, 5, 3


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(2 * N, K, generator=generator, dtype=torch.float64)
    labels, domains = torch.arange(2 * N) % 4, torch.arange(2 * N) % D
    return z.requires_grad_(), labels, domains


def loss_of(**options):
    return DomainWeightedLoss(0.2, 0.3, num_domains=D, **options)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_without_tau_beta_it_is_their_supcon(batch, dtype):
    z, labels, domains = batch
    flat = DomainWeightedLoss(0.2, 0.0, num_domains=D)
    ours_in, theirs_in = (z.detach().to(dtype).requires_grad_() for _ in range(2))
    ours, theirs = flat(ours_in, labels, domains=domains), Reference(temperature=0.2)(theirs_in, labels)
    tolerance = {torch.float16: 1e-2, torch.float32: 1e-5, torch.float64: 1e-6}[dtype]
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
    ours.backward(), theirs.backward()
    torch.testing.assert_close(ours_in.grad, theirs_in.grad, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("weighting", ["negatives", "pairs"])
def test_it_is_the_module(batch, weighting):
    z, labels, domains = batch
    labels, domains = labels[:N], domains[:N]
    ours = loss_of(weighting=weighting)(z, labels.repeat(2), domains=domains.repeat(2))
    module = DomainWeightedSupConLoss(0.2, 0.3, num_domains=D, weighting=weighting)
    torch.testing.assert_close(ours, module(z[:N], z[N:], labels, domains))


def test_references_are_other_candidates(batch):
    z, _, domains = batch
    each = torch.arange(N)
    ours = loss_of()(z[:N], each, ref_emb=z[N:], ref_labels=each, domains=domains[:N], ref_domains=domains[:N])
    module = DomainWeightedInfoNCELoss(0.2, 0.3, num_domains=D)
    torch.testing.assert_close(ours, module(z[:N], z[N:], domains[:N]))


def test_domains_of_references_are_asked_for_where_they_count(batch):
    z, _, domains = batch
    given = {"ref_emb": z[N:], "ref_labels": torch.arange(N), "domains": domains[:N]}
    with pytest.raises(ValueError, match="ref_domains must be a tensor of integers, got NoneType"):
        loss_of()(z[:N], torch.arange(N), **given)
    known = LinearDiscriminator(D).fit(z, domains)
    lone = loss_of(discriminator=known)(z[:N], torch.arange(N), **given)
    assert lone == loss_of(discriminator=known)(z[:N], torch.arange(N), **given, ref_domains=domains[N:])
    for wrong, told in (({"ref_domains": domains[:3]}, "ref_domains must be"), ({"ref_emb": z[N:, :3]}, "ref_emb must be")):
        with pytest.raises(ValueError, match=told):
            loss_of()(z[:N], torch.arange(N), **{**given, "ref_domains": domains[N:], **wrong})
    with pytest.raises(ValueError, match="ref_emb holds NaN"):
        loss_of()(z[:N], torch.arange(N), **{**given, "ref_emb": z[N:] * torch.nan}, ref_domains=domains[N:])


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("labels", [torch.arange(8), torch.zeros(8, dtype=torch.long)])
def test_batches_without_positives_or_negatives_have_a_gradient(dtype, labels):
    z = torch.randn(8, K, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()
    loss = loss_of()(z, labels, domains=torch.arange(8) % D)
    loss.backward()
    assert loss.isfinite() and z.grad.isfinite().all() and (loss == 0) == (len(labels.unique()) == 8)


def test_reducers_get_the_loss_of_each_anchor(batch):
    z, labels, domains = batch
    each = loss_of(reducer=DoNothingReducer())(z, labels, domains=domains)["loss"]["losses"]
    assert each.shape == (2 * N,) and each.std() > 0
    torch.testing.assert_close(loss_of(reducer=MeanReducer())(z, labels, domains=domains), each.mean())
    some = loss_of(reducer=ThresholdReducer(low=each.median().item()))(z, labels, domains=domains)
    torch.testing.assert_close(some, each[each > each.median()].mean())


@pytest.mark.parametrize("miner", [MultiSimilarityMiner(), TripletMarginMiner(margin=0.1)])
def test_only_the_pairs_of_a_miner_count(batch, miner):
    z, labels, domains = batch
    mined = miner(z, labels)
    flat = DomainWeightedLoss(0.2, 0.0, num_domains=D)
    if len(mined) == 4:
        torch.testing.assert_close(flat(z, labels, mined, domains=domains), Reference(temperature=0.2)(z, labels, mined))
    assert not torch.isclose(loss_of()(z, labels, mined, domains=domains), loss_of()(z, labels, domains=domains))


def test_domains_travel_in_the_labels_through_wrappers(batch):
    z, labels, domains = batch
    packed = with_domains(labels, domains, D)
    assert all(torch.equal(a, b) for a, b in zip(without_domains(packed, D), (labels, domains)))
    alone = loss_of()(z, labels, domains=domains)
    assert loss_of(packed=True)(z, packed) == alone
    torch.testing.assert_close(MultipleLosses([loss_of(packed=True), loss_of(packed=True)])(z, packed), 2 * alone)
    with pytest.warns(UserWarning, match="non-distributed"):
        assert DistributedLossWrapper(loss_of(packed=True))(z, packed) == alone
    known = LinearDiscriminator(D).fit(z, domains)
    memory = CrossBatchMemory(loss_of(packed=True, discriminator=known), K, memory_size=4 * N)
    torch.testing.assert_close(memory(z, packed), loss_of(discriminator=known)(z, labels, domains=domains))
    both = memory(z + 1, packed)  # now the first batch is there too
    old = torch.cat([z, z + 1]).detach()
    again, twice = torch.ones(2 * N, 4 * N, dtype=torch.bool), torch.cat([labels, labels])
    again[torch.arange(2 * N), 2 * N + torch.arange(2 * N)] = False
    pairs = [torch.where(again & same) for same in (labels[:, None] == twice, labels[:, None] != twice)]
    by_hand = loss_of(discriminator=known)(
        z + 1, labels, (*pairs[0], *pairs[1]), old, twice, domains=domains, ref_domains=torch.cat([domains, domains])
    )
    torch.testing.assert_close(both, by_hand)


def test_labels_that_carry_domains_are_kept_or_refused():
    zeros = torch.zeros(3, dtype=torch.long)
    large = torch.tensor([2**30, 2**30 + 1, -5], dtype=torch.int32)
    assert without_domains(with_domains(large, zeros, 3), 3)[0].equal(large.long())
    for labels, message in (
        (torch.tensor([2**62] * 3), "to carry 3 domains"),
        ([0, 1, 2], "labels must be a tensor of integers, got list"),
    ):
        with pytest.raises(ValueError, match=message):
            with_domains(labels, zeros, 3)


def test_self_supervision_takes_the_domains_that_are_set(batch):
    z, _, domains = batch
    loss_fn, domains = loss_of(), domains[:N]
    wrapped = SelfSupervisedLoss(loss_fn)
    loss_fn.domains = domains
    expected = DomainWeightedInfoNCELoss(0.2, 0.3, num_domains=D, negatives="both_views")(z[:N], z[N:], domains)
    torch.testing.assert_close(wrapped(z[:N], z[N:]), expected)
    with pytest.raises(ValueError, match="domains are needed: .* set .domains of this loss, not of the wrapper"):
        wrapped(z[:N], z[N:])  # they are those of one call
    loss_fn.domains = domains.repeat(3)
    with pytest.raises(ValueError, match=f"loss.domains has {3 * N} domains, which do not fit {2 * N} embeddings"):
        wrapped(z[:N], z[N:])
    with pytest.raises(ValueError, match="domains are needed"):
        wrapped(z[:N], z[N:])  # a call that fails takes them along
    for wrong, why in (
        (domains[:1], "has 1 domains, which"),
        (domains.tolist(), "must be a tensor of integers, got list"),
        (domains[0], r"must be integers \[1\]"),
        (domains.float(), "must be integers"),
    ):
        loss_fn.domains = wrong
        with pytest.raises(ValueError, match=f"loss.domains {why}"):
            wrapped(z[:N], z[N:])
    loss_fn.domains = domains * 0
    with pytest.warns(UserWarning, match="holds no two known domains") as told:
        wrapped(z[:N], z[N:])
    assert told[0].filename == __file__
    loss_fn.domains = domains
    expected = DomainWeightedInfoNCELoss(0.2, 0.3, num_domains=D)(z[:N], z[N:], domains)
    torch.testing.assert_close(SelfSupervisedLoss(loss_fn, symmetric=False)(z[:N], z[N:]), expected)


def test_domains_that_are_set_beside_packed_labels_are_refused(batch):
    z, labels, domains = batch
    (loss_fn := loss_of(packed=True)).domains = domains
    with pytest.raises(ValueError, match="packed=True: the labels carry the domains"):
        loss_fn(z, with_domains(labels, domains, D))


def test_mistakes_are_answered_by_one_sentence(batch):
    z, labels, domains = batch
    for call, message in (
        (lambda: loss_of()(z, domains=domains), "labels are needed"),
        (lambda: loss_of()(z, labels, domains=domains[:3]), "domains must be integers"),
        (lambda: loss_of()(z, labels, domains=domains + 1), "domains must be in 0"),
        (lambda: loss_of(weighting="both"), "weighting must be one of"),
        (lambda: setattr(loss_of(), "l2", -1.0), "l2 must be a number > 0, got -1.0"),
        (
            lambda: DomainWeightedLoss(torch.full((2 * N,), 0.1), num_domains=D)(z, labels, domains=domains),
            r"tau_alpha has shape \(40,\)",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_it_can_be_pickled(batch):
    z, labels, domains = batch
    loss_fn = loss_of()
    assert pickle.loads(pickle.dumps(loss_fn))(z, labels, domains=domains) == loss_fn(z, labels, domains=domains)


def test_another_version_of_the_metric_library_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "dtcl_core.nn.metric_learning")
    renamed = "pytorch_metric_learning.utils.loss_and_miner_utils"
    monkeypatch.setitem(sys.modules, renamed, types.ModuleType(renamed))
    with pytest.raises(ImportError, match=r"needs pytorch-metric-learning 2 \(pip install .*<3'\): cannot import name"):
        import dtcl_core.nn.metric_learning  # noqa: F401
    pins = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "pytorch-metric-learning>=2.5,<3" in pins["optional-dependencies"]["test"]


def one_process(rank, world, path, results):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=world)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, N, K, generator=generator, dtype=torch.float64)[rank]
    labels, domains = torch.arange(N) % 4, torch.arange(N) % D
    torch.manual_seed(0)
    net = torch.nn.Linear(K, 4).double()
    net = torch.nn.parallel.DistributedDataParallel(net)
    loss = DistributedLossWrapper(loss_of(packed=True))(net(x), with_domains(labels, domains, D))
    loss.backward()
    results.put((rank, loss.item(), [p.grad.tolist() for p in net.module.parameters()]))
    torch.distributed.destroy_process_group()


def test_two_processes_equal_one(tmp_path):
    found = of_two_processes(one_process, tmp_path)
    x = torch.randn(2, N, K, generator=torch.Generator().manual_seed(0), dtype=torch.float64).flatten(0, 1)
    torch.manual_seed(0)
    net = torch.nn.Linear(K, 4).double()
    labels, domains = (torch.arange(N) % 4).repeat(2), (torch.arange(N) % D).repeat(2)
    loss = loss_of()(net(x), labels, domains=domains)
    loss.backward()
    for _, value, gradients in found:
        assert value == pytest.approx(2 * loss.item(), rel=1e-6)  # the wrapper multiplies by the number of processes,
        for ours, p in zip(gradients, net.parameters()):  # which undoes the mean that DistributedDataParallel takes
            torch.testing.assert_close(torch.tensor(ours, dtype=torch.float64), p.grad, rtol=1e-5, atol=1e-7)
