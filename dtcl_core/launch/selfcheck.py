"""`dtcl check`: what this machine would train with, whether it computes right, how fast, and what to do if not.

It is what to run first on a machine that is new to the project, above all one with a GPU. One training step of every method is
held against the same step in float64 on the CPU; pace is measured on a stack of the size that training would use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import pretrain
from ..config import Protocol, Run
from ..engine.device import free_bytes, is_accelerator, module_of, resolve_device, resolve_precision
from ..methods import METHODS
from ..pretrain import Stack
from . import local
from .progress import readable_time, trainings

# Largest relative difference from float64 that is allowed, of any run's loss and of the gradient of any of its parameters.
# Rounding alone switches a few of a million ReLUs, which moves gradients far more than losses: noise of 1e-5 in the weights moves
# losses by 1e-6 and gradients by 2e-2. So the loss is the sharp one: it tells float32 from matrix units that round to TF32.
# Measured on a CPU: 6e-8 and 2e-6 by the trunk, 2e-6 and 2e-2 by PyTorch's operators, 8e-5 and 0.13 in bfloat16.
TOLERANCES = {"float32": (2e-5, 0.1), "bfloat16": (5e-3, 0.5)}
CHECKED = Protocol(split_sizes=(1386, 231, 231, 462))  # of the step that is compared: a fifth of the images
PACE_SECONDS = 8.0  # what measuring the pace may take, once warm
PACE_STEPS = 27


@dataclass(frozen=True)
class Finding:
    """The outcome of one check.

    Attributes:
        name: what it is.
        found: in words.
        advice: what to do about it, if something is wrong; empty if all is well.
    """

    name: str
    found: str
    advice: str = ""


class Pace(NamedTuple):
    """How fast a stack of `runs` trains: seconds a run needs for an image; and its peak memory in bytes, if that is counted."""

    runs: int
    an_image: float
    peak: int | None


def one_of_each(protocol: Protocol) -> list[Run]:
    """A run of every method of the paper, and of both kinds of discriminator."""
    settings: dict[str, Any] = {"tau_beta": 0.1, "lambda_": 0.1}
    runs = [
        Run(name, 0.2, protocol=protocol, **{key: value for key, value in settings.items() if key in method.uses})
        for name, method in METHODS.items()
    ]
    return [*runs, Run("dw_pairs", 0.2, 0.1, discriminator="batch", protocol=protocol)]


def first_step(stack: Stack) -> tuple[Tensor, dict[str, Tensor]]:
    """Losses [R] of a stack's first training step, and the gradient [R, ...] of each parameter of its encoder, on the host."""
    losses = stack.step(0, begun(stack, 0))
    gradients = {name: p.grad.detach().cpu() for name, p in stack.encoder.named_parameters() if p.grad is not None}
    return losses.cpu(), gradients


def begun(stack: Stack, epoch: int) -> dict:
    """Start an epoch: draw its views, and fit and return its global discriminators."""
    stack.streams.draw(epoch)
    stack.encoder.train()
    return stack.posteriors()


def in_float64(runs: Sequence[Run]) -> Stack:
    """The stack on the CPU, by PyTorch's operators, in float64."""
    stack = Stack(runs, "cpu", "float32", trunk="pytorch")
    stack.encoder.double()
    stack.adversary.double()
    stack.encoder.dtype = torch.float64
    return stack


def relative_difference(found: Tensor, exact: Tensor) -> float:
    """Largest |found - exact| / |exact| over runs, with the Euclidean norm of what a run has; infinite if not finite.

    Args:
        found, exact: [R, ...].
    """
    found, exact = found.double().flatten(1), exact.double().flatten(1)
    difference = ((found - exact).norm(dim=1) / exact.norm(dim=1).clamp(min=1e-12)).max()
    return float(difference) if difference.isfinite() else float("inf")


def agreement(device: torch.device, precision: str, protocol: Protocol = CHECKED) -> Finding:
    """Whether a training step of every method is the same as in float64 on the CPU, within `TOLERANCES`."""
    runs = one_of_each(protocol)
    stack = Stack(runs, device, precision)
    (losses, gradients), (exact, slopes) = first_step(stack), first_step(in_float64(runs))
    loss = relative_difference(losses[:, None], exact[:, None])
    worst = max(gradients, key=lambda name: relative_difference(gradients[name], slopes[name]))
    gradient = relative_difference(gradients[worst], slopes[worst])
    allowed = TOLERANCES[precision]
    found = f"losses within {loss:.1e} of float64 (allowed {allowed[0]:.0e}), gradients within {gradient:.1e} "
    found += f"(allowed {allowed[1]:.0e}; largest for {worst})"
    advice = "" if loss <= allowed[0] and gradient <= allowed[1] else disagreement(stack)
    return Finding(f"a step in {precision}", found, advice)


def disagreement(stack: Stack) -> str:
    """What to do where a step is computed wrongly."""
    other = "another version of PyTorch" if stack.trunk is None else "DTCL_TRUNK=pytorch"
    if is_accelerator(stack.device):
        other = "another version of PyTorch or of the driver, or --device cpu"
    return f"Do not train with this, its rows would be wrong: try {other}, and report it with this output."


def measured_pace(device: torch.device, precision: str, usual: Sequence[Run]) -> Pace:
    """The pace of a stack of such runs, as training would cut it, from its epoch's start and a few of its steps."""
    protocol = usual[0].protocol
    size = local.stack_size_for(device, protocol, precision)
    cut = local.cut_into_stacks(usual, size, mix_streams=local.mixes_streams(device, protocol, precision))
    stack = Stack(cut[0], device, precision)
    done = wait_for(device)
    stack.step(0, begun(stack, 0))  # libraries are loaded, kernels chosen, memory taken
    done()
    began = time.perf_counter()
    posteriors = begun(stack, 1)
    done()
    start, steps = time.perf_counter() - began, 0
    while steps < PACE_STEPS and (not steps or time.perf_counter() - began < PACE_SECONDS):
        stack.step(steps % stack.streams.steps, posteriors)
        steps += 1
        if steps % 3 == 0:  # the host runs ahead of a device, and would not notice how late it is
            done()
    done()
    a_step = (time.perf_counter() - began - start) / steps
    peak = module_of(device).max_memory_allocated(device) if is_accelerator(device) else None
    an_epoch = start + stack.streams.steps * a_step
    return Pace(len(stack.runs), an_epoch / len(stack.runs) / stack.streams.size, peak)


def wait_for(device: torch.device) -> Callable[[], None]:
    """A function that waits until the device has done what was asked of it."""
    return (lambda: module_of(device).synchronize(device)) if is_accelerator(device) else (lambda: None)


def pace_finding(pace: Pace) -> Finding:
    """The pace, in words."""
    seconds = pace.an_image * Protocol().split_sizes[0]
    return Finding("pace", f"{1 / seconds:.3g} run-epochs a second in a stack of {pace.runs}, {seconds:.3g} s each")


def memory_finding(device: torch.device, precision: str, pace: Pace | None) -> Finding:
    """What a usual stack takes of memory, and whether the device has room for one that keeps it busy."""
    protocol = Protocol()
    size, each = local.stack_size_for(device, protocol, precision), local.bytes_of_run(protocol, precision)
    found = f"a stack of {size} runs is estimated at {size * each / 2**30:.2g} GiB"
    if not is_accelerator(device):
        return Finding("memory", found)
    found += f" of the {free_bytes(device) / 2**30:.3g} GiB that are free"
    if pace is not None and pace.peak is not None:
        found += f"; one of {pace.runs} took {pace.peak / 2**30:.2g} GiB at its peak"
    few = size < local.GPU_STACK // 4
    return Finding("memory", found, "Free memory of the device: small stacks leave it idle." if few else "")


def machinery(device: torch.device, precision: str) -> list[Finding]:
    """What would be used: device, path, precision and threads."""
    trunk, path = pretrain.choose_trunk(Protocol(), device, precision)
    threads = torch.get_num_threads()
    name = module_of(device).get_device_name(device) if is_accelerator(device) else f"{threads} threads"
    why = "what auto means here" if precision == resolve_precision("auto", device) else "as asked for"
    return [
        Finding("device", f"{device} ({name}), PyTorch {torch.__version__}"),
        Finding("path", path if trunk is None else f"{path} ({trunk.library.description})"),
        Finding("precision", f"{precision}, {why}"),
    ]


def attempted(name: str, device: torch.device, look: Callable[[], Finding]) -> Finding:
    """What a check found; where it raised an error, a finding that says so."""
    try:
        return look()
    except torch.OutOfMemoryError:
        return Finding(name, "memory ran out", "Free memory of the device, or give a smaller --stack-size to run.")
    except RuntimeError as error:  # a broken driver, a missing kernel, a library that does not fit
        said = str(error).strip().partition("\n")[0]
        advice = f"Reinstall PyTorch to suit the driver of {device}, or use --device cpu."
        return Finding(name, f"PyTorch failed: {said}", advice)


def times(pace: Pace, asked: Mapping[str, Sequence[Run]]) -> list[str]:
    """A line for each list of runs, by its title: how many are trained, and how long that would take."""
    width = max(map(len, asked), default=0) + 2
    lines = [f"{'':<{width}}{'runs':>7}{'time':>12}"]
    for title, wanted in asked.items():
        runs = trainings(wanted)
        seconds = pace.an_image * sum(map(local.image_epochs, runs))
        lines.append(f"{title:<{width}}{len(runs):>7}{readable_time(seconds):>12}")
    return lines


def as_line(finding: Finding) -> str:
    """A finding as lines of text; one with advice is marked."""
    mark = "WRONG" if finding.advice else "ok"
    return f"{mark:<7}{finding.name}: {finding.found}" + (f"\n       {finding.advice}" if finding.advice else "")


def check(
    device: str = "auto",
    usual: Sequence[Run] | None = None,
    asked: Mapping[str, Sequence[Run]] | None = None,
    say: Callable[[str], object] = print,
) -> bool:
    """Look at everything, say what was found, and whether all is well.

    Args:
        device: "auto", "cpu", "cuda" or "cuda:N".
        usual: runs such as will be trained, of which a stack is timed; None: one of every method.
        asked: runs whose time is estimated, by what they are called; None: no estimate.
        say: takes each line.

    Returns:
        True if nothing is wrong.

    Raises:
        ValueError: for another device, or one that is not there.
    """
    where = resolve_device(device)
    precision = resolve_precision("auto", where)
    findings: list[Finding] = []
    paces: list[Pace] = []

    def pace() -> Finding:
        paces.append(measured_pace(where, precision, usual or one_of_each(Protocol())))
        return pace_finding(paces[0])

    def found(finding: Finding) -> None:
        findings.append(finding)
        say(as_line(finding))

    for finding in machinery(where, precision):
        found(finding)
    for compared in dict.fromkeys(("float32", precision)):
        found(attempted(f"a step in {compared}", where, partial(agreement, where, compared)))
    found(attempted("pace", where, pace))
    found(attempted("memory", where, lambda: memory_finding(where, precision, paces[0] if paces else None)))
    if paces and asked:
        say("\nAt this pace, one process would take:")
        for line in times(paces[0], asked):
            say(line)
    wrong = [finding for finding in findings if finding.advice]
    say(f"\n{len(wrong)} of {len(findings)} things are wrong." if wrong else "\nAll is well.")
    return not wrong
