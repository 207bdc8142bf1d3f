"""`dtcl check`: what this machine would train with, whether it computes right, and what to do if it does not.

Run it first on a machine that is new to the project, above all one with a GPU. One training step of every method is compared
with the same step in float64 on the CPU; a GPU's recorded steps are not run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import pretrain
from ..config import Protocol, Run
from ..engine.device import is_accelerator, module_of, resolve_device, resolve_precision
from ..methods import METHODS
from ..pretrain import Stack

# Largest relative difference from float64 that is allowed, of any run's loss and of the gradient of any of its parameters. Rounding
# alone switches some ReLUs, which moves gradients far more than losses; so the loss is what tells float32 from TF32. Measured on a
# CPU: 6e-8 and 2e-6 by the trunk, 2e-6 and 2e-2 by PyTorch's operators.
MOST_LOSS, MOST_GRADIENT = 2e-5, 0.1
CHECKED = Protocol(split_sizes=(1386, 231, 231, 462))  # of the step that is compared: a fifth of the images


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


def agreement(device: torch.device, precision: str) -> tuple[str, str]:
    """Compare a training step of every method with the same step in float64 on the CPU.

    Returns:
        What was found, and what to do about it: empty if losses and gradients are as near as they must be.
    """
    runs = one_of_each(CHECKED)
    stack, exact = Stack(runs, device, precision), Stack(runs, "cpu", "float32", trunk="pytorch")
    exact.encoder.double()
    exact.adversary.double()
    exact.encoder.dtype = torch.float64
    (losses, gradients), (true_losses, slopes) = first_step(stack), first_step(exact)
    loss = relative_difference(losses[:, None], true_losses[:, None])
    gradient, worst = max((relative_difference(gradients[name], slopes[name]), name) for name in gradients)
    found = f"losses within {loss:.1e} of float64 (allowed {MOST_LOSS:.0e}), gradients within {gradient:.1e} "
    found += f"(allowed {MOST_GRADIENT:.0e}; largest for {worst})"
    if loss <= MOST_LOSS and gradient <= MOST_GRADIENT:
        return found, ""
    remedies = ["another version of PyTorch"] if stack.trunk is None else ["DTCL_TRUNK=pytorch"]
    remedies += ["another driver", "--device cpu"] if is_accelerator(device) else []
    return found, f"Do not train with this, its rows would be wrong: try {' or '.join(remedies)}, and report it with this output."


def check(device: str = "auto", say: Callable[[str], object] = print) -> bool:
    """Check this machine, say what was found, and return whether nothing is wrong.

    Args:
        device: "auto", "cpu", "cuda" or "cuda:N"; ValueError for another, or one that is not there.
        say: takes each line.
    """
    where = resolve_device(device)
    precision = resolve_precision("auto")
    trunk, path = pretrain.choose_trunk(Protocol(), where, precision)
    name = module_of(where).get_device_name(where) if is_accelerator(where) else f"{torch.get_num_threads()} threads"
    say(f"ok     device: {where} ({name}), PyTorch {torch.__version__}")
    say(f"ok     path: {path}" + ("" if trunk is None else f" ({trunk.library.description})"))
    say(f"ok     precision: {precision}, what auto means here")
    try:
        found, advice = agreement(where, precision)
    except torch.OutOfMemoryError:
        found, advice = "memory ran out", "Free memory of the device" + ", or use --device cpu" * is_accelerator(where) + "."
    except RuntimeError as error:  # a broken driver, a missing kernel, a library that does not fit
        found = "PyTorch failed: " + str(error).strip().partition("\n")[0]
        advice = "Reinstall PyTorch" + f" to suit the driver of {where}, or use --device cpu" * is_accelerator(where) + "."
    say(f"{'WRONG' if advice else 'ok':<7}a step in {precision}: {found}" + (f"\n       {advice}" if advice else ""))
    say("\nThis machine is not sound." if advice else "\nAll is well.")
    return not advice
