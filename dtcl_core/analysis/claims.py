"""The paper's fifteen claims, each a function from evidence to the contrasts it is judged by; `verdicts` has the rule.

Where a claim speaks of the best baseline, that is for each seed the one with the highest mean over the other seeds, of the
very metric compared (`contrasts.best_elsewhere`). Where whole grids are compared, cells at tau_alpha = 1 (see `contrasts`) are
left out for all methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
import torch
from scipy import stats

from .. import losses
from ..config import SIGMAS
from . import selection
from .contrasts import (
    BASELINES,
    LEAST,
    MARGIN,
    NOTHING,
    PROPOSED,
    USING_DOMAINS,
    Contrast,
    Evidence,
    best_elsewhere,
    difference,
    one,
    sized_elsewhere,
)
from .intervals import Interval, mean_interval

HIGH = 0.9  # on Test-OOD: what claim 14 calls high


Contrasts = Callable[[Evidence], list[Contrast]]


@dataclass(frozen=True)
class Claim:
    """A claim in our words, where the paper makes it, and the function that makes its contrasts from evidence."""

    number: int
    says: str
    source: str
    contrasts: Contrasts


CLAIMS: list[Claim] = []  # filled below, in the order of their numbers


def claim(number: int, says: str, source: str) -> Callable[[Contrasts], Contrasts]:
    """Registers the function under it as the one that makes a claim's contrasts; for the arguments see `Claim`."""

    def register(contrasts: Contrasts) -> Contrasts:
        CLAIMS.append(Claim(number, says, source, contrasts))
        return contrasts

    return register


@claim(1, "At sigma 50 and 1 % labels both proposed methods beat every baseline on Test-OOD and Test-ID", "Table 1")
def main_accuracy(e: Evidence) -> list[Contrast]:
    return [
        difference(
            f"{m} over {b}, {metric}",
            e.selected(m, metric),
            e.selected(b, metric),
            metric=metric,
            method=m,
            baseline=b,
        )
        for metric in ("test_ood", "test_id")
        for m in PROPOSED
        for b in BASELINES
    ]


@claim(2, "They betray less of the domain than all baselines but same-domain negatives", "Table 1")
def main_invariance(e: Evidence) -> list[Contrast]:
    metric = "d_test_id"
    below = [
        difference(
            f"{m} below {b}, {metric}",
            e.selected(b, metric),
            e.selected(m, metric),
            metric=metric,
            method=m,
            baseline=b,
        )
        for m in PROPOSED
        for b in ("standard", "mmd", "dann")
    ]
    return below + [
        difference(
            f"same_domain below {m}, {metric}",
            e.selected(m, metric),
            e.selected("same_domain", metric),
            metric=metric,
            method="same_domain",
            baseline=m,
        )
        for m in PROPOSED
    ]


@claim(3, "MMD and DANN do worse than standard contrastive learning", "Table 1")
def penalties_do_worse(e: Evidence) -> list[Contrast]:
    return [
        difference(
            f"standard over {b}, {metric}",
            e.selected("standard", metric),
            e.selected(b, metric),
            metric=metric,
            method="standard",
            baseline=b,
        )
        for metric in ("test_ood", "test_id")
        for b in ("mmd", "dann")
    ]


@claim(4, "Colour jitter is an upper bound (Standard CL, calibrated with it, aside)", "Table 1")
def oracle_bounds(e: Evidence) -> list[Contrast]:
    """Standard contrastive learning is left out: the protocol was calibrated on it and on the oracle."""
    return [
        difference(
            f"color_jitter over {m}, {metric}",
            e.selected("color_jitter", metric),
            e.selected(m, metric),
            metric=metric,
            method="color_jitter",
            baseline=m,
        )
        for metric in ("test_ood", "test_id")
        for m in (*USING_DOMAINS, *PROPOSED)
    ]


@claim(
    5,
    "They lead on Test-ID at every sigma; from sigma 50 up they are among the best on Test-OOD and hide the domain best",
    "sigma figure",
)
def across_sigmas(e: Evidence) -> list[Contrast]:
    found = []
    for sigma in SIGMAS:
        what = f"mean of the proposed over the best baseline, test_id, sigma {sigma:g}"
        found.append(
            difference(what, e.proposed("test_id", sigma), e.best_baseline("test_id", sigma), metric="test_id")
        )
        if sigma <= 25:
            continue
        what = f"mean of the proposed at most {MARGIN:g} below the best baseline, test_ood, sigma {sigma:g}"
        best = e.best_baseline("test_ood", sigma)
        found.append(difference(what, e.proposed("test_ood", sigma) + MARGIN, best, 0.0, metric="test_ood"))
        others = e.best_baseline("d_test_id", sigma, among=("standard", "mmd", "dann"), sign=-1)
        what = f"mean of the proposed below the lowest of standard, mmd and dann, d_test_id, sigma {sigma:g}"
        found.append(difference(what, others, e.proposed("d_test_id", sigma), metric="d_test_id"))
    return found


@claim(
    6,
    "Their advantage over the best baseline is largest at 1 % labels, and they lead on Test-ID throughout",
    "Table 2",
)
def label_fractions(e: Evidence) -> list[Contrast]:

    def advantage(metric: str, fraction: float) -> pd.Series:
        a, b = e.proposed(metric, fraction=fraction), e.best_baseline(metric, fraction=fraction)
        return (a - b).dropna()

    found = [
        difference(
            f"advantage at 1 % over that at {100 * f:g} %, {metric}",
            advantage(metric, 0.01),
            advantage(metric, f),
            metric=metric,
        )
        for metric in ("test_ood", "test_id")
        for f in (0.1, 1.0)
    ]
    return found + [
        one(
            f"mean of the proposed over the best baseline, test_id, {100 * f:g} % of labels",
            advantage("test_id", f).tolist(),
            LEAST,
            metric="test_id",
        )
        for f in (0.01, 0.1, 1.0)
    ]


@claim(7, "Lower tau_alpha is better, and validation does not pick the best cell", "Tables 3-8")
def lower_temperatures(e: Evidence) -> list[Contrast]:
    found = []
    for m in PROPOSED:
        table = e.cells(m, "test_ood")
        taus = [cell[0] for cell in table.columns]
        trend = [
            -stats.spearmanr(taus, row).statistic if np.ptp(row) > 0 else 0.0  # no rank correlation where all is alike
            for row in table.to_numpy()
            if len(set(taus)) >= 5
        ]
        what = f"{m}: Test-OOD falls with tau_alpha (minus the rank correlation)"
        found.append(one(what, trend, metric="test_ood", method=m))
        found.append(shortfall(e, m, f"{m}: the best cell on Test-OOD over the one selected by validation"))
    return found


def shortfall(e: Evidence, method: str, what: str, on_all_seeds: bool = False) -> Contrast:
    """How far the selected cell is from the best on Test-OOD.

    The best is picked, for each seed, on the other seeds: on average that falls short of the true best, so the distance is
    underestimated, never made up of luck. Where a claim says that the distance is small, `on_all_seeds` picks the best on
    all of them, which overestimates it.
    """
    ood, chosen = e.grid(method, "test_ood"), e.chosen_cell(method)
    if chosen not in ood.columns or len(ood) < 2:
        return one(what, [], LEAST, metric="test_ood", method=method)
    values, selected = ood.to_numpy(), ood[chosen].to_numpy()
    means = [(values if on_all_seeds else np.delete(values, i, axis=0)).mean(axis=0) for i in range(len(values))]
    short = [float(row[np.argmax(mean)] - own) for row, mean, own in zip(values, means, selected)]
    return one(what, short, LEAST, metric="test_ood", method=method)


@claim(8, "Averaged over all hyperparameters they are more accurate than the baselines", "distribution figure")
def all_hyperparameters(e: Evidence) -> list[Contrast]:

    def average(method: str, metric: str) -> pd.Series:
        table = e.grid(method, metric)
        return table.mean(axis=1) if table.shape[1] else NOTHING

    return [
        difference(
            f"{m} over {b}, mean over its grid, {metric}",
            average(m, metric),
            average(b, metric),
            metric=metric,
            method=m,
            baseline=b,
        )
        for metric in ("test_ood", "test_id")
        for m in PROPOSED
        for b in BASELINES
    ]


@claim(9, "Global and batch-level discriminators show no clear trend", "Table 9")
def no_trend(e: Evidence) -> list[Contrast]:
    found = []
    for m in PROPOSED:
        for metric in ("test_ood", "test_id"):
            by_sigma = [
                (
                    e.selected(m, metric, s, discriminator="global") - e.selected(m, metric, s, discriminator="batch")
                ).dropna()
                for s in (0.0, 25.0, 50.0, 75.0, 150.0)
            ]
            mean = pd.concat(by_sigma, axis=1, join="inner").mean(axis=1) if all(map(len, by_sigma)) else NOTHING
            what = f"{m}: global and batch alike within {MARGIN:g}, mean over sigmas, {metric}"
            found.append(Contrast(what, mean_interval(mean.tolist()), within=MARGIN, metric=metric, method=m))
    return found


@claim(10, "A projector head lowers Test-ID and Test-OOD; domain accuracy rises with its dimension", "projector figure")
def projector_lowers(e: Evidence) -> list[Contrast]:
    rows = e.heads[(e.heads.label_fraction == 0.1) & (e.heads.status == "ok")]
    # At each kind and width the temperature that validation selects, as everywhere.
    picked = selection.rows_of(rows, selection.select(e.heads[e.heads.label_fraction == 0.01])) if len(rows) else rows
    bare, found = picked[picked.projector.isna()], []
    for kind in ("linear", "mlp"):
        mine = picked[picked.projector == kind]
        widths = mine.groupby("seed").projector_dim.transform("nunique")
        mine = mine[widths == widths.max()]  # a seed without all widths would shift the mean over them
        for metric in ("test_id", "test_ood"):
            average = mine.groupby("seed")[metric].mean()
            what = f"no head over a {kind} one, {metric}"
            found.append(difference(what, bare.set_index("seed")[metric], average, metric=metric, method="standard"))
        slopes = [
            np.polyfit(np.log2(group.projector_dim), group.d_test_id, 1)[0]
            for _, group in mine.groupby("seed")
            if len(group) >= 3
        ]
        found.append(
            one(
                f"{kind} head: d_test_id rises with its dimension (slope a doubling)",
                slopes,
                metric="d_test_id",
                method="standard",
            )
        )
    return found


@claim(11, "Temperatures start low for pairs of one domain and converge to tau_alpha", "temperature figures")
def temperatures_converge(e: Evidence) -> list[Contrast]:
    traces = [trace for trace in e.traces if trace.counts is not None]
    middles = [float(t.edges.mean()) for t in traces]  # tau_alpha, where nothing is clipped
    same = [t.quantiles([0.5], "same_domain")[:, 0] for t in traces]
    cross = [t.quantiles([0.5], "cross_domain")[:, 0] for t in traces]
    gaps = {"same": [abs(s - m) for m, s in zip(middles, same)], "cross": [abs(c - m) for m, c in zip(middles, cross)]}
    width = [np.diff(t.quantiles([0.05, 0.95]), axis=1)[:, 0] for t in traces]
    return [
        one("first epoch: median of same-domain pairs below tau_alpha", [m - s[0] for m, s in zip(middles, same)]),
        one("first epoch: same-domain pairs below cross-domain pairs", [c[0] - s[0] for c, s in zip(cross, same)]),
        *(one(f"last epoch: {kind}-domain median within half its first distance to tau_alpha", [g[0] / 2 - g[-1] for g in by])
          for kind, by in gaps.items()),
        one("last epoch: 5 to 95 % range less than half the first", [w[0] / 2 - w[-1] for w in width]),
    ]  # fmt: skip


@claim(12, "A negative's share of the gradient is exp(s/tau)/tau over the denominator", "appendix A")
def gradient_formula(e: Evidence) -> list[Contrast]:
    """Agreement of the library's loss with exp(s / tau) / tau over the denominator, in digits beyond six.

    Anchors meet unit vectors, so that cosines are the coordinates of an anchor scaled to unit length.
    """
    digits, n, tau_alpha = [], 8, 0.3
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        z = torch.randn(n, n, generator=generator, dtype=torch.float64, requires_grad=True)
        tau = 0.05 + torch.rand(n, n, generator=generator, dtype=torch.float64)
        units = torch.eye(n, dtype=torch.float64)
        (found,) = torch.autograd.grad(losses.info_nce(z, units, tau_alpha, tau_neg=tau) * n, z)
        length = z.detach().norm(dim=-1, keepdim=True)
        cosine, tau = z.detach() / length, tau.fill_diagonal_(tau_alpha)
        weight = (cosine / tau).exp()
        by_cosine = weight / tau / weight.sum(-1, keepdim=True) - units / tau_alpha
        expected = (by_cosine - (by_cosine * cosine).sum(-1, keepdim=True) * cosine) / length
        error = ((found - expected).abs().max() / expected.abs().max()).item()
        digits.append(-np.log10(max(error, 1e-16)) - 6)
    return [one("autograd agrees with the formula (digits beyond six)", digits)]


@claim(13, "A weight outside the exponent has little effect beside the temperature", "appendix A")
def weight_outside(e: Evidence) -> list[Contrast]:
    """The effect of a weight outside the exponent is less than half that of the temperature, at the same tau_alpha."""
    found = []
    for metric in ("test_ood", "test_id", "d_test_id"):
        inside, outer = [], []
        here = e.all[(e.all.sigma == 50.0) & (e.all.label_fraction == 0.01) & (e.all.discriminator != "batch")]
        for tau in sorted(set(here.loc[here.method == "dw_outside", "tau_alpha"])):
            rows = here[here.tau_alpha == tau]
            by = {m: part.set_index("seed")[metric] for m, part in rows.groupby("method")}
            weighted = rows[(rows.method == "dw_negatives") & (rows.tau_beta == 0.5)].set_index("seed")[metric]
            if "standard" in by and len(weighted):
                inside.append(sized_elsewhere(weighted - by["standard"]))
                outer.append(sized_elsewhere(by["dw_outside"] - by["standard"]))
        # Seeds that have every temperature: means over others would mix seeds with temperatures.
        a = pd.concat(inside, axis=1).dropna().mean(axis=1) if inside else NOTHING
        b = pd.concat(outer, axis=1).dropna().mean(axis=1) if outer else NOTHING
        found.append(
            difference(
                f"half the temperature's effect over that of a weight outside, {metric}",
                a / 2,
                b,
                0.0,
                metric=metric,
                method="dw_negatives",
                baseline="dw_outside",
            )
        )
    return found


@claim(
    14,
    "Validation falls well short of the best cell for all but standard (oracle aside); many unselected cells exceed 0.90",
    "distribution figure",
)
def selection_falls_short(e: Evidence) -> list[Contrast]:
    found = []
    for m in (*USING_DOMAINS, *PROPOSED):
        c = shortfall(e, m, f"{m}: the best cell on Test-OOD over the selected one, beyond {MARGIN:g}")
        i = c.interval
        beyond = Interval(i.mean - MARGIN, i.low - MARGIN, i.high - MARGIN, i.n)
        found.append(replace(c, interval=beyond, least=0.0))
    what = f"standard: the selected cell within {MARGIN:g} of the best"
    standard = shortfall(e, "standard", what, on_all_seeds=True)
    i = standard.interval
    within = Interval(MARGIN - i.mean, MARGIN - i.high, MARGIN - i.low, i.n)
    found.append(replace(standard, interval=within, least=0.0))
    for m in PROPOSED:
        what = f"{m}: unselected runs above {HIGH:.2f} on Test-OOD, their share over the best baseline's"
        theirs = pd.concat([above(e, b) for b in BASELINES], axis=1, join="inner")
        found.append(difference(what, above(e, m), best_elsewhere(theirs), 0.0, metric="test_ood", method=m))
    return found


def above(e: Evidence, method: str) -> pd.Series:
    """The share of a method's runs above `HIGH` on Test-OOD, by seed, the selected configuration aside."""
    ood, chosen = e.grid(method, "test_ood"), e.chosen_cell(method)
    return (ood.drop(columns=[chosen]) > HIGH).mean(axis=1) if chosen in ood.columns else NOTHING


@claim(15, "Their Test-ID holds as sigma rises while the baselines' falls", "sigma figure")
def holds_as_sigma_rises(e: Evidence) -> list[Contrast]:

    def fall(series: Callable[[float], pd.Series]) -> pd.Series:
        return (series(0.0) - series(150.0)).dropna()

    mine = fall(lambda s: e.proposed("test_id", s))
    theirs = {b: fall(partial(e.selected, b, "test_id")) for b in BASELINES}
    falling = [
        one(f"{b}: Test-ID falls from sigma 0 to 150", falls.tolist(), LEAST, metric="test_id", method=b)
        for b, falls in theirs.items()
    ]
    mean = pd.concat(theirs.values(), axis=1, join="inner").mean(axis=1)
    what = "proposed: Test-ID falls by less than half the baselines' mean fall"
    return [difference(what, mean / 2, mine, 0.0, metric="test_id"), *falling] + [
        difference(
            f"Test-ID falls more from sigma 0 to 150: {b} than proposed", falls, mine, metric="test_id", baseline=b
        )
        for b, falls in theirs.items()
    ]


def judge(evidence: Evidence, only: Sequence[int] | None = None) -> dict[int, list[Contrast]]:
    """The contrasts of every claim, or of `only` some, by the claim's number."""
    return {c.number: c.contrasts(evidence) for c in CLAIMS if only is None or c.number in only}
