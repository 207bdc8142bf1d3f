"""What fitting a discriminator on each batch costs, beside the loss that it is fitted for: forward and backward, one thread.

python benchmarks/discriminator.py
"""

import time
from pathlib import Path

import torch
from machine import origin, write
from torch.nn import functional as F

BATCH, DOMAINS, WIDTHS, REPEATS = 256, (2, 10, 50), (128, 512, 2048), 7


def fastest(call) -> float:
    """Milliseconds of the fastest of several calls, after one that is not counted."""
    call()
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return 1e3 * min(seconds)


def main() -> None:
    from dtcl_core import DomainWeightedInfoNCELoss, InfoNCELoss

    torch.set_num_threads(1)
    rows = []
    for width in WIDTHS:
        for count in DOMAINS:
            torch.manual_seed(0)
            domains = torch.randint(count, (BATCH,))
            # Centres at which a linear discriminator names most, not all.
            base = torch.randn(count, width)[domains] * 0.7 + torch.randn(width)
            z0, z1 = ((base + torch.randn(BATCH, width)).requires_grad_() for _ in range(2))
            known = torch.randn(count, width)

            class Given:  # costs what a posterior costs, and no fit
                def predict_proba(self, z, known=known):
                    return F.linear(z, known).softmax(-1)

            losses = {
                "plain": InfoNCELoss(),
                "given": DomainWeightedInfoNCELoss(num_domains=count, discriminator=Given()),
                "fitted": DomainWeightedInfoNCELoss(num_domains=count),
            }
            row = {"batch": BATCH, "width": width, "domains": count}
            for name, loss_fn in losses.items():
                row[f"{name}_ms"] = round(fastest(lambda loss_fn=loss_fn: loss_fn(z0, z1, domains).backward()), 2)
            print(row, flush=True)
            rows.append({**row, **origin(torch.device("cpu"))})
    write(Path(__file__).parent / "discriminator_cpu.csv", rows)


if __name__ == "__main__":
    main()
