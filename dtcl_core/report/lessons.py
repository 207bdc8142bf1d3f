"""What the chapters on the data and on the method teach, as tables, numbers and a sentence each; nothing here is trained."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from .. import logistic, losses
from ..config import SIGMAS
from ..data import SPLITS, ColoredDigits, read_verified
from ..methods import METHODS
from .findings import Sentence

DIGITS = (3, 5)
DATE = "2026-11-25"  # when the sentences were written
WITHIN = 1e-12  # relative difference of two ways to compute the same in double precision


def splits(data: ColoredDigits) -> pd.DataFrame:
    """The sets of a data set: columns split, images, threes, fives, colours (of its domains)."""
    lines = []
    for split in SPLITS:
        _, labels, domains = data.split(split)
        names = [data.domain_names[d] for d in domains.unique().tolist()]
        lines.append((split, len(labels), *labels.bincount(minlength=len(DIGITS)).tolist(), " and ".join(names)))
    return pd.DataFrame(lines, columns=["split", "images", "threes", "fives", "colours"])


def told_by_color(sigmas: Sequence[float], seed: int) -> pd.DataFrame:
    """How well a linear classifier tells the training domains by the colours of images alone, and not by what they show.

    Args:
        sigmas: spreads of colours, each at least 0.
        seed: of the data.

    Returns:
        Columns: sigma, accuracy from colour alone (share of Test-ID images whose domain the classifier of the training images
        names), n (of those images).
    """
    lines = []
    for sigma in sigmas:
        data = ColoredDigits(sigma, seed)
        model = logistic.fit(data.colors("train"), data.domains("train"), 2)
        right = logistic.accuracy(model, data.colors("test_id"), data.domains("test_id")).item()
        lines.append((f"{sigma:g}", right, len(data.domains("test_id"))))
    return pd.DataFrame(lines, columns=["sigma", "accuracy from colour alone", "n"])


def data_in_numbers(sigmas: Sequence[float] = SIGMAS, seed: int = 0) -> dict[str, Any]:
    """The chapter on the data in numbers.

    Args:
        sigmas: spreads of colours, each at least 0.
        seed: of the data.

    Returns:
        digits (images of all sets), train, validation, test_id, test_ood (of each), in_training_file and in_test_file (threes and
        fives in those of MNIST), narrow and wide (the least and the largest sigma), told_narrow and told_wide (`told_by_color` there).
    """
    sizes = splits(ColoredDigits(seed=seed)).set_index("split").images
    files = read_verified()
    told = told_by_color((min(sigmas), max(sigmas)), seed)["accuracy from colour alone"]
    return {
        "digits": int(sizes.sum()), **{split: int(sizes[split]) for split in SPLITS},
        "in_training_file": len(files["train_labels"]), "in_test_file": len(files["test_labels"]),
        "narrow": min(sigmas), "wide": max(sigmas), "told_narrow": float(told.iloc[0]), "told_wide": float(told.iloc[1]),
    }  # fmt: skip


def data_in_words(x: Mapping[str, Any]) -> Sentence:
    """`data_in_numbers` in two sentences."""
    return Sentence.found(
        DATE,
        f"{x['digits']:,} threes and fives of MNIST in four disjoint sets, each digit in a colour that says its domain:"
        f" two colours to train on, a third to select by, a fourth that is never seen. A linear classifier of colour alone names the"
        f" training domain of {x['told_narrow']:.0%} of new digits at sigma {x['narrow']:g}, and of {x['told_wide']:.0%} at sigma"
        f" {x['wide']:g}.",
    )


def digits_used(x: Mapping[str, Any]) -> str:
    """How many digits the sets take of those that MNIST has, in a sentence on `data_in_numbers`."""
    return (
        f"{x['digits']:,} of the {x['in_training_file']:,} threes and fives in MNIST's training file;"
        f" {x['in_test_file']:,} more are in its test file."
    )


def written_out(
    z: Tensor, z_pos: Tensor, w: Tensor, tau_alpha: float, tau_beta: float, tau_min: float, num_domains: int
) -> float:
    """The paper's loss as it is written there, pair by pair; for arguments see `losses.domain_weighted_info_nce`, without runs."""
    total = 0.0
    for i in range(len(z)):
        s = torch.cosine_similarity(z[i], z_pos, dim=-1)
        positive = math.exp(s[i] / tau_alpha)
        negatives = 0.0
        for j in range(len(z)):
            if j != i:
                tau = max(tau_alpha + tau_beta * (1 / num_domains - float(w[i, j])), tau_min)
                negatives += math.exp(s[j] / tau)
        total -= math.log(positive / (positive + negatives))
    return total / len(z)


def method_in_numbers(
    tau_alpha: float = 0.175, tau_beta: float = 1.0, tau_min: float = 0.01, num_domains: int = 2, seed: int = 0
) -> dict[str, Any]:
    """The chapter on the method in numbers.

    Args:
        tau_alpha, tau_beta, tau_min, num_domains: see `losses.pair_temperature`.
        seed: of the embeddings on which two ways to compute the loss are compared.

    Returns:
        tau_alpha, tau_beta; alike, other and unknown (the temperature of a negative that surely shares the anchor's domain, that
        surely does not, and of which nothing is known); written_out and library (the loss, in nats, of `written_out` and of
        `losses.domain_weighted_info_nce`, in double precision), apart (their relative difference), n (images).
    """
    known = torch.tensor([[1.0, 0.0, 1 / num_domains]], dtype=torch.float64)
    ((alike, other, unknown),) = losses.pair_temperature(known, tau_alpha, tau_beta, tau_min, num_domains).tolist()
    n, generator = 24, torch.Generator().manual_seed(seed)
    z, z_pos = torch.randn(2, n, 16, generator=generator, dtype=torch.float64)
    w = torch.rand(n, n, generator=generator, dtype=torch.float64)
    settings = (tau_alpha, tau_beta, tau_min, num_domains)
    mine, library = written_out(z, z_pos, w, *settings), losses.domain_weighted_info_nce(z, z_pos, w, *settings).item()
    return {
        "tau_alpha": tau_alpha, "tau_beta": tau_beta, "alike": alike, "other": other, "unknown": unknown,
        "written_out": mine, "library": library, "apart": abs(mine - library) / abs(mine), "n": n,
    }  # fmt: skip


def method_in_words(x: Mapping[str, Any]) -> Sentence:
    """`method_in_numbers` in two sentences.

    Raises:
        ValueError: if the two ways to compute the loss are further apart than rounding explains.
    """
    if not x["apart"] < WITHIN:
        raise ValueError(f"the loss written out is {x['written_out']!r}, the library's {x['library']!r}.")
    return Sentence.found(
        DATE,
        f"one thing changes in the usual contrastive loss: each negative has a temperature of its own. With tau_alpha"
        f" {x['tau_alpha']:g} and tau_beta {x['tau_beta']:g} one that surely shares the anchor's domain has {x['alike']:g}, one that"
        f" surely does not {x['other']:g}, and one of which nothing is known {x['unknown']:g}. Written out pair by pair, the loss agrees"
        f" with the library's to {WITHIN:.0e} of its value.",
    )


def registry() -> pd.DataFrame:
    """The paper's methods, and what each puts in place of plain InfoNCE: columns method and own."""
    lines = []
    for method in METHODS.values():
        parts = {
            "negatives or temperatures": method.pairs is not METHODS["standard"].pairs,
            "a penalty": method.penalty is not None,
            "jittered views": method.jitter,
        }
        own = ", ".join(part for part, present in parts.items() if present)
        lines.append((method.title, own or "nothing: plain InfoNCE"))
    return pd.DataFrame(lines, columns=["method", "its own"])
