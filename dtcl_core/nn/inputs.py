"""What users hand to the losses is checked here: settings, embeddings, domains, labels; `checks` has plain values."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..checks import checked_number

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def setting(name: str, value: Any, low: float = 0.0, *, above: bool = False) -> Any:
    """A setting that may change during training: a number is checked, a tensor or a schedule kept as it is.

    Args:
        value: a number; a tensor, which may be learned; or a schedule: what is called without arguments, for either.
    """
    return (
        value if isinstance(value, Tensor) or callable(value) else float(checked_number(name, value, low, above=above))
    )


def current(name: str, value: Any, low: float = 0.0, *, above: bool = False) -> float | Tensor:
    """The present value of a `setting`; a number is checked again, except under `torch.compile`."""
    value = value() if callable(value) else value
    if isinstance(value, Tensor) or torch.compiler.is_compiling():
        return value
    return float(checked_number(name, value, low, above=above))


def widened(z: Tensor) -> Tensor:
    """Embeddings [..., N, k] in float32 or better."""
    return z.float() if z.dtype in (torch.float16, torch.bfloat16) else z


def check_embeddings(
    z: Tensor, domains: Tensor | None = None, num_domains: int | None = None, name: str = "z", needed: bool = False
) -> None:
    """Raise ValueError unless embeddings can be used; reads from the device, so call it in eager mode only.

    Args:
        z: [..., N, k] embeddings.
        domains: int [N] or [..., N], negative where a domain is not known; None where there are none.
        num_domains: how many there may be; None: any number.
        name: how a message calls z.
        needed: whether domains must be given.
    """
    for what, value in ((name, z), ("domains", domains)):
        if not isinstance(value, Tensor) and (value is not None or needed or what == name):
            raise ValueError(f"{what} must be a tensor, got {type(value).__name__}.")
    if z.dim() < 2 or not z.is_floating_point() or not z.shape[-2]:
        raise ValueError(f"{name} must be floating embeddings [..., N, k], got {z.dtype} {tuple(z.shape)}.")
    check_finite(z, name)
    if domains is None:
        return
    if domains.dtype not in INTEGERS or domains.shape not in (z.shape[-2:-1], z.shape[:-1]):
        raise ValueError(
            f"domains must be integers [{z.shape[-2]}], one an example, got {domains.dtype} {tuple(domains.shape)}."
        )
    highest = int(domains.max())
    if num_domains is not None and highest >= num_domains:
        accepted = f"in 0 ... {num_domains - 1}, or negative where not known"
        raise ValueError(f"domains must be {accepted}, got {int(domains.min())} ... {highest}.")


def check_finite(z: Tensor, name: str) -> None:
    """Raise ValueError if embeddings [..., N, k] hold what is not finite, or are too long for their length to be taken."""
    wide = widened(z.detach())
    if not bool(wide.square().sum(-1).isfinite().all()):
        whole = bool(wide.isfinite().all())
        raise ValueError(f"{name} holds {'values whose squares overflow' if whole else 'NaN or infinite values'}.")


def check_labels(z: Tensor, labels: Tensor | None) -> None:
    """Raise ValueError unless labels are integers [N] >= 0 (or bool), one a row of z [N, k]."""
    given = f"{labels.dtype} {tuple(labels.shape)}" if isinstance(labels, Tensor) else type(labels).__name__
    plain = isinstance(labels, Tensor) and labels.dtype in (*INTEGERS, torch.bool)
    if not isinstance(labels, Tensor) or not plain or labels.shape != z.shape[:-1] or z.dim() != 2:
        raise ValueError(f"labels must be integers [N], one a row of z0 [N, k], got {given} and {tuple(z.shape)}.")
    if bool((labels < 0).any()):
        raise ValueError(f"labels must be 0 or more, got {labels.min().item()}; leave unlabelled examples out.")
