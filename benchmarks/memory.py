"""Peak memory and time of the paper's loss, whole and in chunks, each in a process of its own.

    python benchmarks/memory.py [cpu|cuda]

On a GPU the peak is what PyTorch allocated. On a CPU it is the process's highest resident size above what it held before the
loss, with an allocator told to give freed matrices back at once: by default it keeps some of them, and the chunked loss may
then hold several times its need. Time is taken in another process, with the allocator as it comes.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch
from machine import origin, write

SIZES, CHUNKS, WIDTH = (1024, 2048, 4096, 8192), (None, 256), 128


def measure(device: torch.device, size: int, chunk: int | None) -> dict:
    """One forward and backward pass."""
    from dtcl_core import DomainWeightedInfoNCELoss, LinearDiscriminator

    torch.manual_seed(0)
    z0, z1 = (torch.randn(size, WIDTH, device=device, requires_grad=True) for _ in range(2))
    domains = torch.arange(size, device=device) % 2
    known = LinearDiscriminator(2).fit(z0[:256], domains[:256])
    loss_fn = DomainWeightedInfoNCELoss(num_domains=2, discriminator=known, chunk_size=chunk)
    loss_fn(z0[:64], z1[:64], domains[:64]).backward()  # libraries are loaded before memory is counted
    before = peak(device)
    began = time.perf_counter()
    loss = loss_fn(z0, z1, domains)
    loss.backward()
    value = loss.item()
    seconds = time.perf_counter() - began
    return {"peak_mb": round((peak(device) - before) / 2**20, 1), "seconds": round(seconds, 3), "loss": round(value, 5)}


def peak(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(kind: str) -> None:
    device = torch.device(kind)
    rows = []
    for size in SIZES:
        for chunk in CHUNKS:
            command = [sys.executable, __file__, kind, str(size), str(chunk or 0)]
            told = {"examples": size, "chunk_size": chunk or "whole"}
            for name, environment in (("peak_mb", {"MALLOC_MMAP_THRESHOLD_": "1000000"}), ("seconds", {})):
                done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | environment)
                told[name] = json.loads(done.stdout.splitlines()[-1])[name]
            print(told, flush=True)
            rows.append({**told, **origin(device)})
    write(Path(__file__).parent / f"memory_{kind}.csv", rows)


if __name__ == "__main__":
    kind, *rest = sys.argv[1:] or ["cpu"]
    if rest:
        print(json.dumps(measure(torch.device(kind), int(rest[0]), int(rest[1]) or None)))
    else:
        main(kind)
