"""Checks of the tensors that users give to the losses: embeddings, domains, labels and ids. `checks` has plain values.

Domains, labels and ids may have any integer type; the losses turn them into int64 after the check.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

INTEGERS = tuple(getattr(torch, f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64))
OUR_SIDE = ("dtcl_core", "torch", "pytorch_metric_learning")


def warn(message: str) -> None:
    """Warn at the line outside of these packages that called a loss; Python shows a warning once a line."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in OUR_SIDE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def outside_vmap(function: Callable[..., Any], *args: Any) -> Any:
    """`function(*args)`, which reads values of tensors; ValueError with advice under `torch.func.vmap`, which forbids this."""
    try:
        return function(*args)
    except RuntimeError as error:
        if "vmap" not in str(error):
            raise
        advice = "make the loss with validate=False, and give it a discriminator that is fitted"
        raise ValueError(f"torch.func.vmap lets no value be read: {advice}.") from None


def widened(z: Tensor) -> Tensor:
    """Embeddings [..., N, k] in float32 or better."""
    return z.float() if z.dtype in (torch.float16, torch.bfloat16) else z


def check_embeddings(
    z: Tensor, domains: Tensor | None = None, num_domains: int | None = None, name: str = "z", needed: bool = False,
    domains_name: str = "domains", values: bool = True,
) -> None:  # fmt: skip
    """Raise ValueError unless embeddings z [..., N, k] and domains int [N] or [..., N] can be used; both names are for messages.

    `needed` says whether domains must be given. `values` are read from the device, which a compiled graph cannot do; without them types and
    shapes are checked.
    """
    if not isinstance(z, Tensor):
        raise ValueError(f"{name} must be a tensor, got {type(z).__name__}.")
    if z.dim() < 2 or not z.is_floating_point() or 0 in z.shape[-2:]:
        raise ValueError(f"{name} must be floating embeddings [..., N, k], got {z.dtype} {tuple(z.shape)}.")
    if domains is not None or needed:
        check_integers(domains_name, domains, z.shape[-2:-1], z.shape[:-1], of=f"{name} {[*z.shape]}", values=values)
    if not values:
        return
    wide = widened(z.detach())
    if not outside_vmap(bool, wide.square().sum(-1).isfinite().all()):  # the losses divide by the root of this sum
        whole = bool(wide.isfinite().all())
        raise ValueError(f"{name} holds {'values whose squares overflow' if whole else 'NaN or infinite values'}.")
    if domains is not None:
        check_domains(domains, num_domains)


def check_integers(
    name: str, value: Any, *shapes: Sequence[int], types: Sequence[torch.dtype] = INTEGERS, of: str = "", values: bool = True
) -> None:
    """Raise ValueError unless a value is a tensor of one of these shapes and types, and (by its `values`) int64 can hold it."""
    if not isinstance(value, Tensor):
        advice = " (number names once, for all data)" * (isinstance(value, Sequence) and any(isinstance(v, str) for v in value))
        raise ValueError(f"{name} must be a tensor of integers{advice}, got {type(value).__name__}.")
    if value.dtype not in types or value.shape not in shapes:
        wanted = f"integers {list(shapes[0])}, one an example" + f" of {of}" * bool(of)
        raise ValueError(f"{name} must be {wanted}, got {value.dtype} {tuple(value.shape)}.")
    if values and value.dtype == torch.uint64 and outside_vmap(bool, (value.long() < 0).any()):
        raise ValueError(f"{name} must be below 2**63, got {max(value.flatten().tolist())}.")


def check_domains(domains: Tensor, num_domains: int | None) -> None:
    """Raise ValueError if a domain is `num_domains` or more; None accepts any number."""
    if num_domains is None or not domains.numel():
        return
    lowest, highest = (outside_vmap(int, bound) for bound in domains.long().aminmax())
    if highest >= num_domains:
        accepted = f"in 0 ... {num_domains - 1}, or negative where not known"
        raise ValueError(f"domains must be {accepted}, got {lowest} ... {highest}.")


def within_range(domains: Tensor, num_domains: int) -> tuple[Tensor, Tensor]:
    """Domains int64 [..., N], those of `num_domains` or more (nobody checked) set to unknown; and whether there were none of these [...]."""
    beyond = domains >= num_domains
    return domains.masked_fill(beyond, -1), ~beyond.any(-1)


def check_labels(z: Tensor, labels: Any, values: bool = True) -> None:
    """Raise ValueError unless labels are integers [N] >= 0 (or bool), one for each row of z [N, k]; see `check_embeddings`."""
    if z.dim() != 2:
        raise ValueError(f"labels need embeddings [N, k], got {tuple(z.shape)}.")
    check_integers("labels", labels, z.shape[:1], types=(*INTEGERS, torch.bool), values=values)
    if values and outside_vmap(bool, (labels.long() < 0).any()):
        raise ValueError(f"labels must be 0 or more, got {labels.min().item()}; leave unlabelled examples out.")
