"""What each claim compares: functions from evidence to differences by seed, positive where they support the claim.

Accuracies are those at 1 % of labels and sigma 50 unless said.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import scipy
import torch

from dtcl_core import losses
from dtcl_core.config import Protocol

from .compare import by_seed, difference
from .experiments import BASELINES, DOMAIN, FOLLOWED, HEAD_SIZES, ID, OOD, ORACLE, PAPER_SELECTS, PROPOSED, SHORT, percent, title
from .selection import ROUNDED, leave_one_seed_out
from .study import Evidence

# What is compared, its difference by seed, and, where they apply, the accuracy, the method and the other method.
Differences = Iterator[tuple[Any, ...]]
HIDE_LESS = ("standard", "mmd", "dann")  # the baselines that should show more of the domain: all but Same Domain Negatives


def over_each(
    e: Evidence, metrics: Sequence[str], others: Sequence[str] = BASELINES, sign: int = 1, methods: Sequence[str] = PROPOSED,
    **more: Any,
) -> Differences:  # fmt: skip
    """For each metric, each of `methods` minus each of `others` by seed; sign=-1 where lower is better."""
    word = "over" if sign > 0 else "below"
    for metric, method, other in product(metrics, methods, others):
        label = f"{SHORT[metric]}{_where(**more)}: {title(method)} {word} {title(other)}"
        yield label, sign * difference(e.of(method, metric, **more), e.of(other, metric, **more)), metric, method, other


def over_mean(e: Evidence, metric: str, others: Sequence[str] = BASELINES, sign: int = 1, **more: Any) -> Differences:
    """Each proposed method over the mean of some others."""
    for method in PROPOSED:
        word = "over" if sign > 0 else "below"
        named = "the baselines" if tuple(others) == BASELINES else ", ".join(title(m) for m in others)
        label = f"{SHORT[metric]}{_where(**more)}: {title(method)} {word} the mean of {named}"
        yield label, sign * difference(e.of(method, metric, **more), e.all_of(others, metric, **more)), metric, method


def _where(sigma: float | None = None, label_fraction: float | None = None) -> str:
    spread = "" if sigma is None else f", sigma {sigma:g}"
    return spread + ("" if label_fraction is None else f", {percent(label_fraction)} of labels")


lead_on_both = partial(over_each, metrics=(OOD, ID))
hide_the_domain = partial(over_each, metrics=(DOMAIN,), others=HIDE_LESS, sign=-1)
same_domain_hides_more = partial(over_each, metrics=(DOMAIN,), others=("same_domain",))
penalties_do_worse = partial(over_each, metrics=(OOD, ID), methods=("standard",), others=("mmd", "dann"))
oracle_bounds = partial(over_each, metrics=(OOD, ID), methods=(ORACLE,), others=(*BASELINES, *PROPOSED))


def at_spreads(e: Evidence, sigmas: Sequence[float], unseen: bool) -> Differences:
    """The proposed methods by sigma: Test-ID over each baseline, D-Test-ID below a mean, and if `unseen` Test-OOD over a mean."""
    for sigma in sigmas:
        yield from over_each(e, (ID,), sigma=sigma)
        if unseen:
            yield from over_mean(e, OOD, sigma=sigma)
        yield from over_mean(e, DOMAIN, HIDE_LESS, sign=-1, sigma=sigma)


wide_spreads = partial(at_spreads, sigmas=(50.0, 75.0, 150.0), unseen=True)
narrow_spreads = partial(at_spreads, sigmas=(0.0, 25.0), unseen=False)


def few_labels(e: Evidence) -> Differences:
    """How the lead shrinks with more labels, and whether there is one."""
    for method in PROPOSED:
        lead = {f: difference(e.of(method, ID, label_fraction=f), e.all_of(BASELINES, ID, label_fraction=f)) for f in (0.01, 1.0)}
        label = f"Test-ID: lead of {title(method)} over the baselines' mean at 1 % of labels less that at 100 %"
        yield label, difference(lead[0.01], lead[1.0]), ID, method
    for fraction in (0.1, 1.0):
        yield from over_each(e, (ID,), label_fraction=fraction)


def low_temperatures(e: Evidence) -> Differences:
    """How Test-ID falls with tau_alpha, and how far the selected configuration is from the best."""
    for method in PROPOSED:
        table = e.by_configuration(method, ID)
        yield f"Test-ID: mean gain per step down in tau_alpha (slope), {title(method)}", gains(table), ID, method
    for method in PROPOSED:
        yield f"Test-OOD: the best configuration minus the selected one, {title(method)}", _shortfall(e, method), OOD, method


def gains(table: pd.DataFrame) -> pd.Series:
    """By seed, what an accuracy gains per step down in tau_alpha (slope); from a table of configurations by seed."""
    rank = table.index.get_level_values("tau_alpha").to_series().rank(method="dense").to_numpy()
    return pd.Series({seed: -_slope(rank, values) for seed, values in table.items()}, dtype=float)


def _slope(x: np.ndarray, y: pd.Series) -> float:
    """Of the line through some points by least squares; NaN where all lie at one x."""
    return float(scipy.stats.linregress(x, y).slope) if np.ptp(x) else np.nan


def _shortfall(e: Evidence, method: str) -> pd.Series:
    """By seed, the Test-OOD of the best configuration minus that of the selected one; both are chosen on the other seeds."""
    accuracy, validation = e.by_configuration(method, OOD), e.by_configuration(method, "validation")
    shortfall = {}
    for seed in accuracy if accuracy.shape[1] > 1 else ():
        best, selected = (t.drop(columns=seed).mean(axis=1).round(ROUNDED).to_numpy().argmax() for t in (accuracy, validation))
        shortfall[seed] = accuracy[seed].iloc[best] - accuracy[seed].iloc[selected]
    return pd.Series(shortfall, dtype=float)


def over_each_baseline(values: Mapping[str, pd.Series], metric: str, label: str) -> Differences:
    """What each proposed method has over each baseline, from one value per seed of each method."""
    for method, other in product(PROPOSED, BASELINES):
        says = f"{SHORT[metric]}{label}: {title(method)} over {title(other)}"
        yield says, difference(values[method], values[other]), metric, method, other


def on_average(e: Evidence) -> Differences:
    """Means over the whole grid."""
    for metric in (OOD, ID):
        means = {m: e.by_configuration(m, metric).mean() for m in (*PROPOSED, *BASELINES)}
        yield from over_each_baseline(means, metric, ", mean over the grid")


def discriminators(e: Evidence) -> Differences:
    """Global less batch-level discriminators: of each accuracy, both methods, one after the other, as `no_trend` reads them."""
    for metric in (OOD, ID, DOMAIN):
        for method in PROPOSED:
            both = [e.of(method, metric, kind=kind) for kind in ("global", "batch")]
            yield f"{SHORT[metric]}: {title(method)}, global less batch-level", difference(*both), metric, method


def projector_heads(e: Evidence) -> Differences:
    """No head over each head, and how the domain shows with its dimension."""
    whole = leave_one_seed_out(e.heads.complete)
    rows = whole[whole.label_fraction == 0.1]
    plain = rows[rows.projector.isna()]
    for metric in (ID, OOD):
        for kind, name in (("linear", "a linear head"), ("mlp", "an MLP head")):
            for k in HEAD_SIZES:
                lead = difference(by_seed(plain, metric), by_seed(rows, metric, projector=kind, projector_dim=k))
                yield f"{SHORT[metric]}: no head over {name} of {k} dimensions, 10 % of labels", lead, metric
    few = whole[whole.label_fraction == 0.01]  # as everywhere, the domain's probe is the one on the labelled 1 %
    for kind in ("linear", "mlp"):
        table = few[few.projector == kind].pivot(index="seed", columns="projector_dim", values=DOMAIN)
        slope = {s: _slope(line.index.to_numpy(float), line) for s, line in table.iterrows()}
        yield f"D-Test-ID: slope on the dimension, {kind} head", pd.Series(slope, dtype=float), DOMAIN


def temperatures_converge(e: Evidence) -> Differences:
    """Where the median of same-domain pairs starts and ends, by run."""
    start, end = {}, {}
    for number, trace in enumerate(e.traces):
        median = trace.quantiles([0.5], "same_domain")[:, 0]
        start[number] = FOLLOWED["tau_alpha"] - float(np.median(median[:10]))
        end[number] = 0.01 - abs(float(median[-1]) - FOLLOWED["tau_alpha"])
    yield "tau_alpha minus the median temperature of same-domain pairs, first ten epochs", pd.Series(start, dtype=float)
    yield "0.01 minus the distance of the last epoch's median from tau_alpha", pd.Series(end, dtype=float)


def gradient(e: Evidence) -> Differences:
    """To how many digits autograd and the paper's formula agree, less the nine that are enough, for five random batches."""
    found, n, tau_alpha = {}, 8, 0.3
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        z = torch.randn(n, n, generator=generator, dtype=torch.float64, requires_grad=True)
        tau = 0.05 + torch.rand(n, n, generator=generator, dtype=torch.float64)
        units = torch.eye(n, dtype=torch.float64)  # cosines with them are the coordinates of an anchor of unit length
        (by_autograd,) = torch.autograd.grad(losses.info_nce(z, units, tau_alpha, tau_neg=tau) * n, z)
        length = z.detach().norm(dim=-1, keepdim=True)
        cosine, tau = z.detach() / length, tau.fill_diagonal_(tau_alpha)
        weight = (cosine / tau).exp()
        by_cosine = weight / tau / weight.sum(-1, keepdim=True) - units / tau_alpha
        expected = (by_cosine - (by_cosine * cosine).sum(-1, keepdim=True) * cosine) / length
        error = ((by_autograd - expected).abs().max() / expected.abs().max()).item()
        found[seed] = -math.log10(max(error, 1e-14)) - 9  # 14 digits count: processors round the others differently
    yield "digits (14 at most) on which autograd and the formula agree, minus 9", pd.Series(found)


def weight_outside(e: Evidence) -> Differences:
    """Half of the temperature's effect on the gradient minus that of a weight outside, where the paper selects."""
    for at in PAPER_SELECTS.values():
        alpha, beta = at["tau_alpha"], at["tau_beta"]
        changes = np.array([gradient_changes(seed, alpha, beta) for seed in range(20)])  # [seeds, (temperature, weight)]
        label = f"half of the temperature's effect on the gradient, minus the weight's: tau_alpha {alpha:g}, tau_beta {beta:g}"
        yield label, pd.Series(changes[:, 0] / 2 - changes[:, 1])


def gradient_changes(seed: int, tau_alpha: float, tau_beta: float) -> tuple[float, float]:
    """How much the temperature and a weight outside change the gradient, for random unit embeddings and weights:
    the mean of |log(changed / plain gradient)| over negatives, each counted by its share of the plain gradient.
    """
    generator, n = torch.Generator().manual_seed(seed), 64
    z, other = (losses.directions(torch.randn(n, 16, generator=generator, dtype=torch.float64)) for _ in range(2))
    w, s = torch.rand(n, n, generator=generator, dtype=torch.float64), z @ other.T
    off = ~torch.eye(n, dtype=torch.bool)

    def push(tau: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        tau = torch.where(off, tau, tau_alpha)
        weight = torch.where(off, factor, 1.0) * (s / tau).exp()
        return (weight / tau / weight.sum(-1, keepdim=True))[off]

    plain = push(torch.full_like(s, tau_alpha), torch.ones_like(s))
    inside = push(losses.pair_temperature(w, tau_alpha, tau_beta, Protocol().tau_min, 2), torch.ones_like(s))
    outer = push(torch.full_like(s, tau_alpha), 2 * w)
    changed = [float((plain * (p / plain).log().abs()).sum() / plain.sum()) for p in (inside, outer)]
    return changed[0], changed[1]


def short_of_the_best(e: Evidence) -> Differences:
    """How far each method's selection falls short, beside that of Standard CL."""
    standard = _shortfall(e, "standard")
    for method in (*BASELINES[1:], *PROPOSED):
        label = f"Test-OOD: how far the selection falls short, {title(method)} more than {title('standard')}"
        yield label, difference(_shortfall(e, method), standard), OOD, method, "standard"


def holds_with_spread(e: Evidence) -> Differences:
    """How Test-ID changes from sigma 25 to 150, beside each baseline."""
    change = {m: difference(e.of(m, ID, sigma=150.0), e.of(m, ID, sigma=25.0)) for m in (*PROPOSED, *BASELINES)}
    yield from over_each_baseline(change, ID, " at sigma 150 minus at 25")
