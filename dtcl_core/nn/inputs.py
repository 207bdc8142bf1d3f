"""What users hand to the losses is checked here: embeddings, domains, labels, ids; `checks` has plain values.

Domains, labels and ids may be of any integer type, and are int64 from here on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

INTEGERS = (
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint16, torch.uint32, torch.uint64),
)


def outside_vmap(function: Callable[..., Any], *args: Any) -> Any:
    """`function(*args)`, which reads values; under `torch.func.vmap`, where there are none to read, a ValueError that says so."""
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
    check_domains(domains, num_domains)


def check_domains(domains: Tensor, num_domains: int | None) -> None:
    """Raise ValueError for domains, of any integer type, that are `num_domains` or more, or do not fit into int64."""
    check_range("domains", domains)
    lowest, highest = (outside_vmap(int, bound) for bound in domains.long().aminmax())
    if num_domains is not None and highest >= num_domains:
        accepted = f"in 0 ... {num_domains - 1}, or negative where not known"
        raise ValueError(f"domains must be {accepted}, got {lowest} ... {highest}.")


def check_range(name: str, value: Tensor) -> None:
    """Raise ValueError for unsigned integers that int64 does not hold."""
    if value.dtype == torch.uint64 and outside_vmap(bool, (value.long() < 0).any()):
        raise ValueError(f"{name} must be below 2**63, got {max(value.flatten().tolist())}.")


def check_finite(z: Tensor, name: str) -> None:
    """Raise ValueError if embeddings [..., N, k] hold what is not finite, or are too long for their length to be taken."""
    wide = widened(z.detach())
    if not outside_vmap(bool, wide.square().sum(-1).isfinite().all()):
        whole = bool(wide.isfinite().all())
        raise ValueError(f"{name} holds {'values whose squares overflow' if whole else 'NaN or infinite values'}.")


def check_labels(z: Tensor, labels: Tensor | None) -> None:
    """Raise ValueError unless labels are integers [N] >= 0 (or bool), one a row of z [N, k]."""
    given = f"{labels.dtype} {tuple(labels.shape)}" if isinstance(labels, Tensor) else type(labels).__name__
    plain = isinstance(labels, Tensor) and labels.dtype in (*INTEGERS, torch.bool)
    if not isinstance(labels, Tensor) or not plain or labels.shape != z.shape[:-1] or z.dim() != 2:
        raise ValueError(f"labels must be integers [N], one a row of z0 [N, k], got {given} and {tuple(z.shape)}.")
    check_range("labels", labels)
    if outside_vmap(bool, (labels.long() < 0).any()):
        raise ValueError(f"labels must be 0 or more, got {labels.min().item()}; leave unlabelled examples out.")


def check_ids(z: Tensor, ids: Tensor | None) -> None:
    """Raise ValueError unless ids are integers [N], one a row of z [..., N, k], or None."""
    if ids is None:
        return
    if not isinstance(ids, Tensor) or ids.dtype not in INTEGERS or ids.shape != z.shape[-2:-1]:
        given = f"{ids.dtype} {tuple(ids.shape)}" if isinstance(ids, Tensor) else type(ids).__name__
        raise ValueError(f"ids must be integers [{z.shape[-2]}], one an example, got {given}.")
    check_range("ids", ids)
