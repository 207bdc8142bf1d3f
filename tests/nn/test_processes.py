"""The losses in two processes of `torch.distributed` against one process with the whole batch; one pair serves all checks."""

import pytest
import torch
from torch import multiprocessing, nn

from dtcl_core import (
    DomainWeightedInfoNCELoss,
    DomainWeightedSupConLoss,
    InfoNCELoss,
    LinearDiscriminator,
    NegativeQueue,
    SameDomainInfoNCELoss,
    SupConLoss,
)
from dtcl_core.nn.gather import all_gather

N, D = 6, 2  # examples of a process
INTEGERS = [getattr(torch, f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)]


def encoder():
    torch.manual_seed(0)
    return nn.Linear(5, 4).double()


def everyones_batch():
    generator = torch.Generator().manual_seed(1)
    x0, x1 = torch.randn(2, 2 * N, 5, generator=generator, dtype=torch.float64)
    return x0, x1, torch.tensor([0, 0, 1, 0, 1, 0, 1, 1, 0, 1, 1, 0]), torch.arange(2 * N) % 5


def gathering(gather):
    how = {"num_domains": D, "gather": gather}
    return {
        "InfoNCE": InfoNCELoss(0.3, gather=gather),
        "symmetric": InfoNCELoss(0.3, symmetric=True, gather=gather, chunk_size=4),
        "NT-Xent": InfoNCELoss(0.3, negatives="both_views", gather=gather),
        "same domain": SameDomainInfoNCELoss(0.3, gather=gather),
        "negatives": DomainWeightedInfoNCELoss(0.3, 0.4, **how),
        "pairs": DomainWeightedInfoNCELoss(0.3, 0.4, **how, weighting="pairs"),
        "pairs of both views": DomainWeightedInfoNCELoss(0.3, 0.4, **how, weighting="pairs", negatives="both_views"),
        "SupCon": SupConLoss(0.3, gather=gather),
        "weighted SupCon": DomainWeightedSupConLoss(0.3, 0.4, **how),
    }


class Halves:
    """A discriminator to which both domains are equally likely."""

    def predict_proba(self, z):
        return z.new_full((*z.shape[:-1], D), 1 / D)


def called(name, loss_fn, z0, z1, domains, labels):
    return loss_fn(z0, z1, labels, domains) if "SupCon" in name else loss_fn(z0, z1, domains)


def penalised(name, loss_fn, z0, z1, domains, labels):
    """Gradients of the sum of all processes' losses, and those of their squared length."""
    z0, z1 = z0.clone().requires_grad_(), z1.clone().requires_grad_()
    loss = called(name, loss_fn, z0, z1, domains, labels) * (1 if loss_fn.gather else 2)
    first = torch.autograd.grad(loss, (z0, z1), create_graph=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in first), (z0, z1))
    return [*(g.detach() for g in first), *second]


def with_a_queue_of_its_own(x0, x1, domains, gather):
    """The second of two losses, whose negatives are everyone's second views of the first, and what the queue then holds."""
    loss_fn = InfoNCELoss(0.3, queue=NegativeQueue(2 * 2 * N, 5).double(), gather=gather)
    loss_fn(x0, x1, domains)
    return loss_fn(x1, x0, domains).item(), loss_fn.queue.z.tolist()


def mistakes(rank, x0, x1, domains, labels):
    """What one process, or each, is to refuse, and the message of this one."""
    fresh, fitted = LinearDiscriminator(D), LinearDiscriminator(D).fit(x0, domains)  # on the examples of this process
    known = {"num_domains": D, "gather": True}
    calls = {
        "sizes": lambda: InfoNCELoss(gather=True)(x0[: 3 + rank], x1[: 3 + rank]),
        "widths": lambda: InfoNCELoss(gather=True)(x0[:, : 3 + rank], x1[:, : 3 + rank]),
        "one is NaN": lambda: InfoNCELoss(gather=True)(x0 / rank, x1),
        "one has no labels": lambda: SupConLoss(gather=True)(x0, x1, labels if rank else None),
        "one pushes floats": lambda: NegativeQueue(3, 5).push(x0, domains if rank else domains.double(), gather=True),
        "unequal pushes": lambda: NegativeQueue(3, 5).push(x0[: 3 + rank], gather=True),
        "tau": lambda: InfoNCELoss(nn.Parameter(torch.tensor(0.1 - 0.2 * rank)), gather=True)(x0, x1),
        "given": lambda: InfoNCELoss(gather=True)(x0, x1, ids=labels if rank else None),
        "pool": lambda: SupConLoss(gather=True)(x0, [x1] * (1 + rank), labels),
        "one is fitted": lambda: DomainWeightedInfoNCELoss(**known, discriminator=fresh if rank else fitted)(x0, x1, domains),
        "one has a queue": lambda: InfoNCELoss(gather=True)(x0, x1, queue=NegativeQueue(3, 5) if rank else None),
        "one has none": lambda: DomainWeightedInfoNCELoss(**known, discriminator=fitted if rank else None)(x0, x1, domains),
        "they differ": lambda: DomainWeightedInfoNCELoss(**known, discriminator=fitted)(x0, x1, domains),
    }
    for name, call in calls.items():
        try:
            call()
        except (ValueError, RuntimeError) as error:
            yield name, str(error)


def one_process(rank, world, path, results):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=world)
    x0, x1, domains, labels = mine = [t[rank * N : rank * N + N] for t in everyones_batch()]
    found = dict(mistakes(rank, *mine))
    for name, loss_fn in gathering(True).items():
        net = encoder()
        loss = called(name, loss_fn, net(x0), net(x1), domains, labels)
        loss.backward()
        for p in net.parameters():  # what DistributedDataParallel does
            torch.distributed.all_reduce(p.grad)
            p.grad /= world
        second = penalised(name, loss_fn, x0, x1, domains, labels)
        found[name] = (loss.item(), [p.grad.tolist() for p in net.parameters()], [g.tolist() for g in second])
        for dtype in INTEGERS:
            found[name, str(dtype)] = called(name, loss_fn, net(x0), net(x1), domains.to(dtype), labels.to(dtype)).item()
    for dtype in INTEGERS:
        queue = NegativeQueue(20, 5)
        queue.push(x0, domains.to(dtype), labels.to(dtype), gather=True)
        found["queue", str(dtype)] = (queue.z.tolist(), queue.domains.tolist(), queue.ids.tolist())
    found["own queue"] = with_a_queue_of_its_own(x0, x1, domains, gather=True)
    found["views"] = SupConLoss(0.3, gather=True)(x0, [x1, x0 + x1], labels).item()
    found["ids"] = InfoNCELoss(0.3, gather=True)(x0, x1, ids=labels).item()
    few = x0[: 2 + rank].clone().requires_grad_()
    (weighted := all_gather(few).square() * (rank + 1)).sum().backward()
    queue = NegativeQueue(6, 5).double()
    queue.push(x0[: 2 + rank])
    weighed = DomainWeightedInfoNCELoss(0.3, 0.4, num_domains=D, gather=True, discriminator=Halves())
    found["unequal queues"] = (weighed(x0, x1, domains, queue=queue).item(), InfoNCELoss(0.3)(x0, x1, queue=queue).item())
    compiled = torch.compile(lambda x: all_gather(x).square().sum(), backend="eager", fullgraph=True)
    compiled(whole := x0.clone().requires_grad_()).backward()
    found["compiled"] = whole.grad.tolist()
    found["unequal"] = (weighted.tolist(), few.grad.tolist(), all_gather(labels[: 2 * rank]).tolist())
    results.put((rank, found))
    torch.distributed.destroy_process_group()


def of_two_processes(task, folder):
    """What two processes that meet in a folder put into a queue; `task` takes a rank, their number, where they meet, and the queue."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=task, args=(rank, 2, folder / "meet", results)) for rank in range(2)]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=180) for _ in workers]
    for worker in workers:
        worker.join(timeout=60)
        assert worker.exitcode == 0
    return found


def test_two_processes_equal_one_and_tell_each_other_of_mistakes(tmp_path):
    """One test, so that one pair of processes is started."""
    told = dict(of_two_processes(one_process, tmp_path))
    found = told[0], told[1]
    for name in gathering(True):
        check_loss(found, name)
    check_views_ids_and_queues(found)
    check_messages(found)


def check_loss(found, name):
    """The loss of two processes is that of one, as are its gradients of first and second order, with integers of any type."""
    x0, x1, domains, labels = everyones_batch()
    net, loss_fn = encoder(), gathering(False)[name]
    loss = called(name, loss_fn, net(x0), net(x1), domains, labels)
    loss.backward()
    for what in (name, *((name, str(dtype)) for dtype in INTEGERS)):
        mean = sum(one[what][0] if what == name else one[what] for one in found) / 2
        assert mean == pytest.approx(loss.item(), abs=1e-10), (name, what)
    for one in found:
        for ours, p in zip(one[name][1], net.parameters()):
            torch.testing.assert_close(torch.tensor(ours, dtype=torch.float64), p.grad, msg=name)
    for i, expected in enumerate(penalised(name, loss_fn, x0, x1, domains, labels)):
        ours = torch.tensor(found[0][name][2][i] + found[1][name][2][i], dtype=torch.float64)
        torch.testing.assert_close(ours, expected, rtol=1e-6, atol=1e-8, msg=f"{name}, gradient {i}")


def check_views_ids_and_queues(found):
    """Further views, ids and the contents of a queue are exchanged."""
    x0, x1, domains, labels = everyones_batch()
    views = SupConLoss(0.3)(x0, [x1, x0 + x1], labels).item()
    assert sum(one["views"] for one in found) / 2 == pytest.approx(views)
    loss, held = with_a_queue_of_its_own(x0, x1, domains, gather=False)
    assert sum(one["own queue"][0] for one in found) / 2 == pytest.approx(loss, abs=1e-10)
    assert all(one["own queue"][1] == held for one in found)
    ids = InfoNCELoss(0.3)(x0, x1, ids=labels).item()
    assert sum(one["ids"] for one in found) / 2 == pytest.approx(ids)
    few = [x0[:2], x0[N : N + 3]]
    for rank, (values, gradient, integers) in enumerate(one["unequal"] for one in found):
        torch.testing.assert_close(torch.tensor(values, dtype=x0.dtype), torch.cat(few).square() * (rank + 1))
        torch.testing.assert_close(torch.tensor(gradient, dtype=x0.dtype), 2 * few[rank] * 3)
        assert integers == labels[N : N + 2].tolist(), "process 0 has none"
        torch.testing.assert_close(torch.tensor(found[rank]["compiled"], dtype=x0.dtype), 4 * x0[rank * N : rank * N + N])
        assert found[rank]["unequal queues"][0] == pytest.approx(found[rank]["unequal queues"][1])
    for one in found:
        for dtype in INTEGERS:
            z, *rest = one["queue", str(dtype)]
            assert rest == [[-1] * 8 + domains.tolist(), [-1] * 8 + labels.tolist()]
            torch.testing.assert_close(torch.tensor(z[8:]), x0.float())


def check_messages(found):
    """A mistake of one process is told to all."""
    assert "batches of one size on all processes, got [3, 4]" in found[0]["sizes"]
    assert all("one width and dtype" in one["widths"] for one in found)
    assert "z0 holds NaN" in found[0]["one is NaN"] and "process 0 failed" in found[1]["one is NaN"]
    assert (
        "SupConLoss needs labels: call loss(z0, z1, labels" in found[0]["one has no labels"]
        and "process 0" in found[1]["one has no labels"]
    )
    assert "got torch.float64" in found[0]["one pushes floats"] and "process 0" in found[1]["one pushes floats"]
    assert all("of one size on all processes, got [3, 4]" in one["unequal pushes"] for one in found)
    assert "tau must be > 0" in found[1]["tau"] and "process 1 failed" in found[0]["tau"]
    assert all("the same inputs" in one[what] for one in found for what in ("given", "pool", "one has none", "one has a queue"))
    assert "not fitted yet" in found[1]["one is fitted"] and "process 1 failed" in found[0]["one is fitted"]
    assert all("the discriminator differs between processes" in one["they differ"] for one in found)


def test_without_a_process_group_gather_changes_nothing():
    z0, z1, domains, labels = everyones_batch()
    for name, loss_fn in gathering(True).items():
        expected = called(name, gathering(False)[name], z0, z1, domains, labels)
        torch.testing.assert_close(called(name, loss_fn, z0, z1, domains, labels), expected)
