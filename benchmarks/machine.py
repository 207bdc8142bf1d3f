"""The machine a figure came from, its two ceilings, and how figures are kept: as CSV files beside this one."""

from __future__ import annotations

import csv
import ctypes
import functools
import math
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

import torch

from dtcl_core.engine.native import FLAGS, INSTRUCTIONS, Unavailable, find_compiler
from dtcl_core.engine.provenance import SOURCES, cpu_name

# Floats of a register, and chains of multiplications that wait for nothing but themselves: more than a core has under way, fewer
# than its registers.
REGISTERS = {"AVX512": (16, 24), "AVX2": (8, 12)}
PEAK = """
typedef float V __attribute__((vector_size(4 * LANES)));
extern "C" float run(long times, float x) {
  V k = x - V{}, DECLARED;
  while (times--) { STEPS }
  return (SUM)[0];
}
"""


def peak_source(lanes: int, chains: int) -> str:
    """C++ that multiplies and adds in `chains` registers of `lanes` floats."""
    parts = {
        "LANES": str(lanes),
        "DECLARED": ", ".join(f"a{i} = k" for i in range(chains)),
        "STEPS": " ".join(f'a{i} = a{i} * k + k; __asm__("" : "+v"(a{i}));' for i in range(chains)),
        "SUM": " + ".join(f"a{i}" for i in range(chains)),
    }
    return functools.reduce(lambda text, part: text.replace(*part), parts.items(), PEAK)


def name_of(device: torch.device) -> str:
    """The device as its maker calls it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return cpu_name()


def seconds(work: Callable[[], object], device: torch.device, repeats: int = 5, warm_up: int = 2) -> float:
    """Median wall seconds of `work`, after it has warmed up, the device's queue empty before and after."""

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    times = []
    for number in range(warm_up + repeats):
        wait()
        began = time.perf_counter()
        work()
        wait()
        if number >= warm_up:
            times.append(time.perf_counter() - began)
    return statistics.median(times)


def bandwidth(device: torch.device) -> float:
    """Bytes a second that a large copy moves, read and written."""
    source = torch.rand((2**28 if device.type == "cuda" else 2**25), device=device)
    target = torch.empty_like(source)
    return 2 * source.numel() * 4 / seconds(lambda: target.copy_(source), device)


def matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Floating-point operations a second of a large matrix product, on random numbers."""
    n = 8192 if device.type == "cuda" else 2048
    a, b = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
    return 2 * n**3 / seconds(lambda: a @ b, device)


def peak_rate(threads: int = 1, times: int = 4_000_000) -> float | None:
    """Most floating-point operations a second of cores that multiply and add in registers.

    None without AVX-512, AVX2 or a compiler.
    """
    used = torch.backends.cpu.get_cpu_capability()
    if (lanes_and_chains := REGISTERS.get(used)) is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        made = f"{folder}/peak.so"
        try:
            command = [*find_compiler()[0], *FLAGS, *INSTRUCTIONS[used], "-x", "c++", "-", "-o", made]
            subprocess.run(command, input=peak_source(*lanes_and_chains), text=True, capture_output=True, check=True, timeout=60)
            run = ctypes.CDLL(made).run
        except (Unavailable, OSError, subprocess.SubprocessError):
            return None
        run.argtypes, run.restype = (ctypes.c_long, ctypes.c_float), ctypes.c_float
        with ThreadPoolExecutor(threads) as pool:  # ctypes lets other threads run meanwhile
            taken = []
            for _ in range(7):
                began = time.perf_counter()
                list(pool.map(lambda _: run(times, 0.5), range(threads)))
                taken.append(time.perf_counter() - began)
    return threads * times * math.prod(lanes_and_chains) * 2 / min(taken)


def origin(device: torch.device) -> dict[str, str | int]:
    """What every row of a CSV says of where it was measured."""
    return {
        "machine": name_of(device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "sources": SOURCES,
        "date": datetime.now(timezone.utc).date().isoformat(),
    }


def write(path: Path, rows: list[dict]) -> None:
    if not rows:
        raise SystemExit(f"There is nothing to write to {path}.")
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows([{k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows])
    print(f"wrote {path}", flush=True)
