"""`dtcl check`: whether this machine computes right, how fast it is, and what to do if something is wrong.

Run it first on a machine that is new to the project, above all one with a GPU. A training step of every method is compared
with the same step in float64 on the CPU, and the pace is measured on a stack of the size that training would use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import pretrain
from ..config import Protocol, Run
from ..engine.device import free_bytes, is_accelerator, module_of, resolve_device, resolve_precision
from ..methods import METHODS
from ..pretrain import Stack
from . import local
from .progress import readable_time, trainings

# Largest relative difference from float64 that is allowed, of any run's loss and of the gradient of any of its parameters. Rounding
# alone switches some ReLUs, which moves gradients far more than losses; so the loss is what tells float32 from TF32. Measured on a
# CPU: 6e-8 and 2e-6 by the trunk, 2e-6 and 2e-2 by PyTorch's operators, 8e-5 and 0.13 in bfloat16.
TOLERANCES = {"float32": (2e-5, 0.1), "bfloat16": (5e-3, 0.5)}
CHECKED = Protocol(split_sizes=(1386, 231, 231, 462))  # of the step that is compared: a fifth of the images
Finding = tuple[str, str]  # what was found, and what to do about it: empty if all is well


def one_of_each(protocol: Protocol) -> list[Run]:
    """A run of every method of the paper, and of both kinds of discriminator."""
    settings: dict[str, Any] = {"tau_beta": 0.1, "lambda_": 0.1}
    runs = [
        Run(name, 0.2, protocol=protocol, **{key: value for key, value in settings.items() if key in method.uses})
        for name, method in METHODS.items()
    ]
    return [*runs, Run("dw_pairs", 0.2, 0.1, discriminator="batch", protocol=protocol)]


def begun(stack: Stack, epoch: int) -> dict:
    """Start an epoch: draw its views, and fit and return its global discriminators."""
    stack.streams.draw(epoch)
    stack.encoder.train()
    return stack.posteriors()


def first_step(stack: Stack) -> tuple[Tensor, dict[str, Tensor]]:
    """Losses [R] of a stack's first training step, and the gradient [R, ...] of each parameter of its encoder, on the CPU."""
    losses = stack.step(0, begun(stack, 0))
    gradients = {name: p.grad.detach().cpu() for name, p in stack.encoder.named_parameters() if p.grad is not None}
    return losses.cpu(), gradients


def relative_difference(found: Tensor, exact: Tensor) -> float:
    """Largest |found - exact| / |exact| over runs, in Euclidean norm; infinite if not finite. Both are [R, ...]."""
    found, exact = found.double().flatten(1), exact.double().flatten(1)
    difference = ((found - exact).norm(dim=1) / exact.norm(dim=1).clamp(min=1e-12)).max()
    return float(difference) if difference.isfinite() else float("inf")


def agreement(device: torch.device, precision: str) -> Finding:
    """Compare a training step of every method with the same step in float64 on the CPU, within `TOLERANCES`."""
    runs = one_of_each(CHECKED)
    stack, exact = Stack(runs, device, precision), Stack(runs, "cpu", "float32", trunk="pytorch")
    exact.encoder.double()
    exact.adversary.double()
    exact.encoder.dtype = torch.float64
    (losses, gradients), (true_losses, slopes) = first_step(stack), first_step(exact)
    loss = relative_difference(losses[:, None], true_losses[:, None])
    gradient, worst = max((relative_difference(gradients[name], slopes[name]), name) for name in gradients)
    most_loss, most_gradient = TOLERANCES[precision]
    found = f"losses within {loss:.1e} of float64 (allowed {most_loss:.0e}), gradients within {gradient:.1e} "
    found += f"(allowed {most_gradient:.0e}; largest for {worst})"
    if loss <= most_loss and gradient <= most_gradient:
        return found, ""
    remedies = ["another version of PyTorch"] if stack.trunk is None else ["DTCL_TRUNK=pytorch"]
    remedies += ["another driver", "--device cpu"] if is_accelerator(device) else []
    return found, f"Do not train with this, its rows would be wrong: try {' or '.join(remedies)}, and report it with this output."


def pace(device: torch.device, precision: str, usual: Sequence[Run]) -> tuple[int, float]:
    """How many of these runs training would stack here, and the seconds that such a stack needs for a run and an image."""
    protocol = usual[0].protocol
    size, mix = local.stack_size_for(device, protocol, precision), local.mixes_streams(device, protocol, precision)
    stack = Stack(local.cut_into_stacks(usual, size, mix)[0], device, precision)
    wait = (lambda: module_of(device).synchronize(device)) if is_accelerator(device) else (lambda: None)
    for _ in range(3 if stack.recordable else 2):  # the first epoch sets libraries up, and a GPU records a step in the second
        wait()
        began = time.perf_counter()
        stack.train_epoch()
        wait()
    return len(stack.runs), (time.perf_counter() - began) / len(stack.runs) / stack.streams.size


def memory(device: torch.device, precision: str, timed: int) -> Finding:
    """How much memory a usual stack takes, and whether the device has room. `timed`: how many runs the timed stack had, 0 if none was timed."""
    size, each = local.stack_size_for(device, Protocol(), precision), local.bytes_of_run(Protocol(), precision)
    found = f"a stack of {size} runs is estimated at {size * each / 2**30:.2g} GiB"
    if not is_accelerator(device):
        return found, ""
    found += f" of the {free_bytes(device) / 2**30:.3g} GiB that are free"
    if timed:
        found += f"; one of {timed} took {module_of(device).max_memory_allocated(device) / 2**30:.2g} GiB at its peak"
    return found, "Free memory of the device: small stacks leave it idle." if size < local.GPU_STACK // 4 else ""


def times(an_image: float, asked: Mapping[str, Sequence[Run]]) -> list[str]:
    """A line for each list of runs, by its title: how many are trained, and how long that would take."""
    told = [("", "runs", "time")]
    for title, runs in asked.items():
        seconds = an_image * sum(map(local.image_epochs, trainings(runs)))
        told.append((title, str(len(trainings(runs))), readable_time(seconds)))
    width = max(len(title) for title, *_ in told) + 2
    return [f"{title:<{width}}{runs:>7}{time:>12}" for title, runs, time in told]


def check(
    device: str = "auto",
    usual: Sequence[Run] | None = None,
    asked: Mapping[str, Sequence[Run]] | None = None,
    say: Callable[[str], object] = print,
) -> bool:
    """Check this machine, say what was found, and return whether nothing is wrong.

    Args:
        device: "auto", "cpu", "cuda" or "cuda:N"; ValueError for another, or one that is not there.
        usual: runs such as will be trained, of which a stack is timed; None: one of every method.
        asked: runs whose time is estimated, by what they are called; None: no estimate.
        say: takes each line.
    """
    where = resolve_device(device)
    precision, wrong, measured = resolve_precision("auto"), [], (0, 0.0)

    def look(name: str, inspect: Callable[..., Finding], *arguments: Any) -> None:
        try:
            found, advice = inspect(where, *arguments)
        except torch.OutOfMemoryError:
            found, advice = "memory ran out", "Free memory of the device, or give a smaller --stack-size to run."
        except RuntimeError as error:  # a broken driver, a missing kernel, a library that does not fit
            found = "PyTorch failed: " + str(error).strip().partition("\n")[0]
            advice = "Reinstall PyTorch" + f" to suit the driver of {where}, or use --device cpu" * is_accelerator(where) + "."
        wrong.extend([name] if advice else [])
        say(f"{'WRONG' if advice else 'ok':<7}{name}: {found}" + (f"\n       {advice}" if advice else ""))

    def timed(device: torch.device) -> Finding:
        nonlocal measured
        runs, an_image = measured = pace(device, precision, usual or one_of_each(Protocol()))
        seconds = an_image * Protocol().split_sizes[0]
        return f"{1 / seconds:.3g} run-epochs a second in a stack of {runs}, {seconds:.3g} s each", ""

    trunk, path = pretrain.choose_trunk(Protocol(), where, precision)
    name = module_of(where).get_device_name(where) if is_accelerator(where) else f"{torch.get_num_threads()} threads"
    say(f"ok     device: {where} ({name}), PyTorch {torch.__version__}")
    say(f"ok     path: {path}" + ("" if trunk is None else f" ({trunk.library.description})"))
    say(f"ok     precision: {precision}, what auto means here")
    look(f"a step in {precision}", agreement, precision)
    look("pace", timed)
    look("memory", memory, precision, measured[0])
    if measured[0] and asked:
        say("\nAt this pace, one process would take (experiments share runs):")
        for line in times(measured[1], asked):
            say(line)
    say(f"\nWrong: {', '.join(wrong)}." if wrong else "\nAll is well.")
    return not wrong
