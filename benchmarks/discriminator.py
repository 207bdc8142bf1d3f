"""What fitting a discriminator on each batch costs, alone and in the loss that it is fitted for: forward and backward, one thread.

python benchmarks/discriminator.py
"""

import time
from functools import partial
from itertools import product
from pathlib import Path

import torch
from machine import origin, write
from torch.nn import functional as F

BATCHES, DOMAINS, WIDTHS, REPEATS = (256, 1024), (2, 10, 50), (128, 512, 2048), 15


def in_turns(calls) -> dict[str, float]:
    """Milliseconds of processor time of the fastest of several calls of each, taking turns, after one that is not counted."""
    taken = {name: [] for name in calls}
    for number in range(REPEATS + 1):
        for name, call in calls.items():
            began = time.process_time()
            call()
            if number:
                taken[name].append(time.process_time() - began)
    return {f"{name}_ms": round(1e3 * min(seconds), 2) for name, seconds in taken.items()}


def step(loss_fn, z0, z1, domains) -> None:
    loss_fn(z0, z1, domains).backward()


def main() -> None:
    from dtcl_core import DomainWeightedInfoNCELoss, InfoNCELoss
    from dtcl_core.nn import fitting

    torch.set_num_threads(1)
    rows = []
    for batch, width, count in product(BATCHES, WIDTHS, DOMAINS):
        torch.manual_seed(0)
        domains = torch.randint(count, (batch,))
        # Centres at which a linear discriminator names most, not all.
        base = torch.randn(count, width)[domains] * 0.7 + torch.randn(width)
        z0, z1 = ((base + torch.randn(batch, width)).requires_grad_() for _ in range(2))
        known = torch.randn(count, width)

        class Given:  # costs what a posterior costs, and no fit
            def predict_proba(self, z, known=known):
                return F.linear(z, known).softmax(-1)

        losses = {
            "plain": InfoNCELoss(),
            "given": DomainWeightedInfoNCELoss(num_domains=count, discriminator=Given()),
            "fitted": DomainWeightedInfoNCELoss(num_domains=count),
        }
        both, twice = F.normalize(torch.cat([z0, z1]).detach(), dim=-1), domains.repeat(2)
        calls = {name: partial(step, loss_fn, z0, z1, domains) for name, loss_fn in losses.items()}
        calls["fit"] = partial(fitting.fit, both, twice, count)
        row = {"batch": batch, "width": width, "domains": count, **in_turns(calls)}
        print(row, flush=True)
        rows.append({**row, **origin(torch.device("cpu"))})
    write(Path(__file__).parent / "discriminator_cpu.csv", rows)


if __name__ == "__main__":
    main()
