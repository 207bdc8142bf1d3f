"""The paper's fifteen claims as data, and one rule that judges all but claim 9, which says that there is no trend.

A *contrast* is the mean over seeds of a paired difference, signed so that positive supports the claim. It is *for* the claim if its 95 % interval lies
above zero, *against* it if its interval at confidence 1 - 0.05/m lies below zero, for the m contrasts of the claim, else *open*; an open one is *alike*
if its 90 % interval lies within 0.02 of zero. Only "against" is corrected for m, because one such contrast fails a claim. A claim *holds* if all its
contrasts are for it, *fails* if one is against it, holds *partly* if none is against it and at least half are for it; else it is *open*.

Fresh contrasts compare frozen configurations on fresh seeds, grid contrasts the complete seeds of the grid. 1 % of labels and sigma 50 unless said.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy import stats

from dtcl_core import losses
from dtcl_core.config import Protocol
from dtcl_core.traces import Trace

from .compare import Interval, by_seed, difference, mean
from .experiments import BASELINES, DOMAIN, FOLLOWED, FRESH_SEEDS, ID, OOD, ORACLE, PROPOSED, SHORT, title
from .reported import SEEDS, SIGMA
from .selection import ROUNDED, by_configuration, leave_one_seed_out
from .study import Study, grids

LIKE = 0.02  # accuracies that differ by less are alike
PAPERS_SELECTION = ((0.075, 0.5), (0.175, 1.0))  # tau_alpha and tau_beta of both methods, by Tables 3 and 6
NOT_YET = "not judged yet"


def percent(share: float) -> str:
    """A share as text.

    >>> percent(0.01), percent(1.0)
    ('1 %', '100 %')
    """
    return f"{100 * share:g} %"


class Contrast(NamedTuple):
    """One comparison of a claim: what is compared, its mean with the 95 % interval, and what it says."""

    label: str
    interval: Interval
    state: str  # "for", "against", "open" or "alike"; "clear" or "not clear" in claim 9; `NOT_YET` before that
    decides: bool = True  # False: shown beside the claim, no part of its verdict


Differences = Iterator[tuple[str, pd.Series]]  # what is compared, and its difference by seed


@dataclass(eq=False)
class Evidence:
    """The rows that claims look at: frozen configurations on fresh seeds, and the grids."""

    preset: str = "paper"  # whose rows

    @cached_property
    def fresh(self) -> pd.DataFrame:
        """Rows on fresh seeds, of those sigmas and kinds of discriminator whose seeds are all there."""
        study = Study("fresh", self.preset, quiet=True)
        asked = grids(study.runs)
        whole = {(sigma, kind or "global") for (sigma, kind), n in study.counts.items() if n == len(asked[sigma, kind])}
        kinds = study.frame.discriminator.fillna("global")
        return study.frame[np.array([at in whole for at in zip(study.frame.sigma, kinds)], dtype=bool)].reset_index(drop=True)

    def at(self, sigma: float, label_fraction: float | None = None) -> pd.DataFrame:
        """Fresh rows at a spread, without those of batch-level discriminators; None: at all label fractions."""
        rows = self.fresh[(self.fresh.sigma == sigma) & (self.fresh.discriminator != "batch")]
        return rows if label_fraction is None else rows[rows.label_fraction == label_fraction]

    @cached_property
    def grid(self) -> Study:
        """The main table's grid."""
        return Study("main_table", self.preset, quiet=True)

    @property
    def shown(self) -> pd.DataFrame:
        """Rows of Tables 1 and 2, at all label fractions: the frozen configurations on fresh seeds; until there are some, what the grid selects."""
        mine = self.at(SIGMA)
        return mine if len(mine) else self.grid.selected(None)

    @property
    def awaited(self) -> str:
        """What the verdict on the main claim waits for, and how much of it is there."""
        fresh = Study("fresh", self.preset, quiet=True).counts.get((SIGMA, "global"), 0)
        return f"The paper's grid of 190 configurations is complete on {self.grid.progress}. Fresh seeds, which took no part in the selection, decide the claim (complete: {fresh} of {FRESH_SEEDS})."

    @cached_property
    def heads(self) -> Study:
        """The projector heads' grid."""
        return Study("projector_head", self.preset, quiet=True)

    @cached_property
    def traces(self) -> list[Trace]:
        """What the followed runs recorded."""
        return Study("effective_temperature", self.preset, quiet=True).traces()

    def seeds_behind(self, chapter: str) -> int:
        """How many complete seeds a claim about the grid has, by the chapter that shows it."""
        if chapter == "effective_temperature":
            return min(len(self.traces), self.grid.complete_seeds)
        return (self.heads if chapter == "projector_head" else self.grid).complete_seeds

    def of(self, method: str, metric: str, sigma: float = SIGMA, label_fraction: float = 0.01, kind: str = "global") -> pd.Series:
        """An accuracy of a method's frozen configuration by fresh seed; empty before it is run."""
        rows = self.fresh
        rows = rows[(rows.method == method) & (rows.sigma == sigma) & (rows.label_fraction == label_fraction)]
        if method in PROPOSED:
            rows = rows[rows.discriminator == kind]
        return by_seed(rows, metric, f"{method} at sigma {sigma:g}")

    def all_of(self, methods: Sequence[str], metric: str, **more: Any) -> pd.Series:
        """The mean of some methods by seed."""
        return pd.concat([self.of(m, metric, **more) for m in methods], axis=1, join="inner").mean(axis=1)

    def by_configuration(self, method: str, metric: str) -> pd.DataFrame:
        """An accuracy on the grid: configurations (lines) by complete seed (columns)."""
        rows = self.grid.complete
        return by_configuration(rows[rows.method == method], metric)


# --- what the claims compare ------------------------------------------------------------------------------------------


def over_each(
    e: Evidence,
    metrics: Sequence[str],
    others: Sequence[str] = BASELINES,
    sign: int = 1,
    methods: Sequence[str] = PROPOSED,
    **more: Any,
) -> Differences:
    """For each metric, each of `methods` minus each of `others` by seed; sign=-1 turns it round, for accuracies that should be lower."""
    for metric in metrics:
        for method in methods:
            for other in others:
                word = "over" if sign > 0 else "below"
                label = f"{SHORT[metric]}{_where(**more)}: {title(method)} {word} {title(other)}"
                yield label, sign * difference(e.of(method, metric, **more), e.of(other, metric, **more))


def over_mean(e: Evidence, metric: str, others: Sequence[str] = BASELINES, sign: int = 1, **more: Any) -> Differences:
    """Each proposed method over the mean of some others."""
    for method in PROPOSED:
        word = "over" if sign > 0 else "below"
        named = "the baselines" if tuple(others) == BASELINES else ", ".join(title(m) for m in others)
        label = f"{SHORT[metric]}{_where(**more)}: {title(method)} {word} the mean of {named}"
        yield label, sign * difference(e.of(method, metric, **more), e.all_of(others, metric, **more))


def _where(sigma: float | None = None, label_fraction: float | None = None) -> str:
    spread = "" if sigma is None else f", sigma {sigma:g}"
    return spread + ("" if label_fraction is None else f", {percent(label_fraction)} of labels")


lead_on_both = partial(over_each, metrics=(OOD, ID))
hide_the_domain = partial(over_each, metrics=(DOMAIN,), others=("standard", "mmd", "dann"), sign=-1)
same_domain_hides_more = partial(over_each, metrics=(DOMAIN,), others=("same_domain",))
penalties_do_worse = partial(over_each, metrics=(OOD, ID), methods=("standard",), others=("mmd", "dann"))
oracle_bounds = partial(over_each, metrics=(OOD, ID), methods=(ORACLE,), others=(*BASELINES, *PROPOSED))


def wide_spreads(e: Evidence) -> Differences:
    """The proposed methods over the baselines at the spreads above 25."""
    for sigma in (50.0, 75.0, 150.0):
        yield from over_each(e, (ID,), sigma=sigma)
        yield from over_mean(e, OOD, sigma=sigma)
        yield from over_mean(e, DOMAIN, ("standard", "mmd", "dann"), sign=-1, sigma=sigma)


def narrow_spreads(e: Evidence) -> Differences:
    """The same without Test-OOD at the other spreads."""
    for sigma in (0.0, 25.0):
        yield from over_each(e, (ID,), sigma=sigma)
        yield from over_mean(e, DOMAIN, ("standard", "mmd", "dann"), sign=-1, sigma=sigma)


def few_labels(e: Evidence) -> Differences:
    """How the lead shrinks with more labels, and whether there is one."""
    for method in PROPOSED:
        lead = {f: difference(e.of(method, ID, label_fraction=f), e.all_of(BASELINES, ID, label_fraction=f)) for f in (0.01, 1.0)}
        label = f"Test-ID: lead of {title(method)} over the baselines' mean at 1 % of labels less that at 100 %"
        yield label, difference(lead[0.01], lead[1.0])
    for fraction in (0.1, 1.0):
        yield from over_each(e, (ID,), label_fraction=fraction)


def low_temperatures(e: Evidence) -> Differences:
    """How Test-ID falls with tau_alpha, and how far the selected configuration is from the best."""
    for method in PROPOSED:
        table = e.by_configuration(method, ID)
        rank = pd.Series(table.index.get_level_values("tau_alpha")).rank(method="dense").to_numpy()
        slope = {seed: -_slope(rank, values) for seed, values in table.items()}
        yield f"Test-ID: minus the slope on the rank of tau_alpha, {title(method)}", pd.Series(slope, dtype=float)
    yield from (_shortfall(e, method) for method in PROPOSED)


def _slope(x: np.ndarray, y: pd.Series) -> float:
    """Of the line through some points by least squares; NaN where all lie at one x."""
    return float(stats.linregress(x, y).slope) if np.ptp(x) else np.nan


def _shortfall(e: Evidence, method: str) -> tuple[str, pd.Series]:
    """By seed, the Test-OOD of the configuration with the best Test-OOD on the other seeds, minus that of the one that validation selects on them."""
    accuracy, found = e.by_configuration(method, OOD), {}
    for seed in accuracy if accuracy.shape[1] > 1 else ():
        others = (t.drop(columns=seed).mean(axis=1).round(ROUNDED) for t in (accuracy, e.by_configuration(method, "validation")))
        best, selected = (int(means.to_numpy().argmax()) for means in others)
        found[seed] = accuracy[seed].iloc[best] - accuracy[seed].iloc[selected]
    return f"Test-OOD: the best configuration minus the selected one, {title(method)}", pd.Series(found, dtype=float)


def on_average(e: Evidence) -> Differences:
    """Means over the whole grid."""
    for metric in (OOD, ID):
        means = {m: e.by_configuration(m, metric).mean() for m in (*PROPOSED, *BASELINES)}
        for method in PROPOSED:
            for other in BASELINES:
                label = f"{SHORT[metric]}, mean over the grid: {title(method)} over {title(other)}"
                yield label, difference(means[method], means[other])


def discriminators(e: Evidence) -> Differences:
    """Global less batch-level discriminators: of each accuracy, both methods, one after the other, as `no_trend` reads them."""
    for metric in (OOD, ID, DOMAIN):
        for method in PROPOSED:
            both = [e.of(method, metric, kind=kind) for kind in ("global", "batch")]
            yield f"{SHORT[metric]}: {title(method)}, global less batch-level", difference(*both)


def projector_heads(e: Evidence) -> Differences:
    """No head over each head, and how the domain shows with its dimension."""
    whole = leave_one_seed_out(e.heads.complete)
    rows = whole[whole.label_fraction == 0.1]
    plain = rows[rows.projector.isna()]
    for metric in (ID, OOD):
        for kind in ("linear", "mlp"):
            for k in (4, 8, 16):
                one = by_seed(rows, metric, projector=kind, projector_dim=k)
                yield f"{SHORT[metric]}: no head over {kind} head of {k}, 10 % of labels", difference(by_seed(plain, metric), one)
    few = whole[whole.label_fraction == 0.01]  # as everywhere, the domain's probe is the one on the labelled 1 %
    for kind in ("linear", "mlp"):
        table = few[few.projector == kind].pivot(index="seed", columns="projector_dim", values=DOMAIN)
        slope = {s: _slope(line.index.to_numpy(float), line) for s, line in table.iterrows()}
        yield f"D-Test-ID: slope on the dimension, {kind} head", pd.Series(slope, dtype=float)


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
    """To how many digits autograd and the paper's formula agree, minus nine, which are enough; for each of five random batches."""
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
        found[seed] = -math.log10(max(error, 1e-16)) - 9
    yield "digits to which autograd and the formula agree, minus 9", pd.Series(found)


def weight_outside(e: Evidence) -> Differences:
    """Half of what the temperature changes in the gradient, minus the change by a weight outside the exponent, where the paper selects."""
    for tau_alpha, tau_beta in PAPERS_SELECTION:
        changes = {seed: gradient_changes(seed, tau_alpha, tau_beta) for seed in range(20)}
        label = f"half the gradient's change by the temperature, minus the change by a weight: tau_alpha {tau_alpha:g}, tau_beta {tau_beta:g}"
        yield label, pd.Series({seed: inside / 2 - outside for seed, (inside, outside) in changes.items()})


def gradient_changes(seed: int, tau_alpha: float, tau_beta: float, n: int = 64) -> tuple[float, float]:
    """How much the temperature and a weight outside change the gradient, for random unit embeddings and weights uniform on (0, 1): the
    mean of |log(changed / plain gradient)| over negatives, each counted by its share of the plain gradient.
    """
    generator = torch.Generator().manual_seed(seed)
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
    _, standard = _shortfall(e, "standard")
    for method in ("same_domain", "mmd", "dann", *PROPOSED):
        _, mine = _shortfall(e, method)
        label = f"Test-OOD: how far the selection falls short, {title(method)} more than {title('standard')}"
        yield label, difference(mine, standard)


def holds_with_spread(e: Evidence) -> Differences:
    """How Test-ID changes from sigma 25 to 150, beside each baseline."""
    change = {m: difference(e.of(m, ID, sigma=150.0), e.of(m, ID, sigma=25.0)) for m in (*PROPOSED, *BASELINES)}
    for method in PROPOSED:
        for other in BASELINES:
            label = f"Test-ID at sigma 150 minus at 25: {title(method)} over {title(other)}"
            yield label, difference(change[method], change[other])


# --- the rule ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """What the rule says of a claim: a word, how many contrasts are for it, open and against it, and the contrasts."""

    word: str  # "holds", "partly", "open", "fails" or `NOT_YET`
    contrasts: list[Contrast]
    waits: str = ""  # for what, if it is not judged yet

    @property
    def said(self) -> str:
        """Whether the claim is true, in a word for a page."""
        return {"holds": "Yes", "partly": "Partly", "fails": "No", "open": "Open"}.get(self.word, self.word.capitalize())

    @property
    def counts(self) -> str:
        """Such as "8 for, 1 open, 0 against"; before the claim is judged, what it waits for."""
        told = Counter("open" if c.state == "alike" else c.state for c in self.contrasts if c.decides)
        if self.word == NOT_YET:
            return self.waits
        if told["clear"] + told["not clear"]:
            return f"{told['clear']} of {told.total()} differences clear of zero"
        return f"{told['for']} for, {told['open']} open, {told['against']} against"


def states(found: Iterable[tuple[str, pd.Series]], decides: bool = True, m: int | None = None) -> list[Contrast]:
    """Contrasts with what each says (this module's first lines); `m` is the number of contrasts given unless said."""
    pairs, contrasts = list(found), []
    for label, values in pairs:
        interval, corrected, near = (mean(values, c) for c in (0.95, 1 - 0.05 / (m or len(pairs)), 0.90))
        if interval.n < 2:
            state = NOT_YET
        elif interval.low > 0:
            state = "for"
        elif corrected.high < 0:
            state = "against"
        else:
            state = "alike" if -LIKE < near.low and near.high < LIKE else "open"
        contrasts.append(Contrast(label, interval, state, decides))
    return contrasts


def by_the_rule(contrasts: Sequence[Contrast]) -> str:
    """The verdict on most claims."""
    told = [c.state for c in contrasts if c.decides]
    if NOT_YET in told:
        return NOT_YET
    if "against" in told:
        return "fails"
    share = told.count("for") / len(told)
    return "holds" if share == 1 else "partly" if share >= 0.5 else "open"


def no_trend(contrasts: Sequence[Contrast]) -> str:
    """Claim 9: fails if both methods are clear of zero on the same side for an accuracy, else it holds."""
    if any(c.state == NOT_YET for c in contrasts):
        return NOT_YET
    for one, other in zip(contrasts[::2], contrasts[1::2]):
        if (one.interval.low > 0 and other.interval.low > 0) or (one.interval.high < 0 and other.interval.high < 0):
            return "fails"
    return "holds"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, in our words.

    Attributes:
        number, says: the claim.
        where: which part of the paper makes it.
        chapter: the page that shows its numbers.
        seeds: "fresh", "grid", "batches" (random batches stand for seeds) or "exact" (autograd against the formula).
        compares: its contrasts, from the evidence.
        beside: contrasts that are shown and take no part in the verdict.
        rule: from contrasts to a word.
    """

    number: int
    says: str
    where: str
    chapter: str
    seeds: str
    compares: Callable[[Evidence], Differences]
    beside: Callable[[Evidence], Differences] = field(default=lambda e: iter(()))
    rule: Callable[[Sequence[Contrast]], str] = by_the_rule

    @property
    def tables(self) -> range:
        """The numbers of the tables that make it."""
        numbers = [int(number) for number in re.findall(r"\d+", self.where)]
        return range(numbers[0], numbers[-1] + 1) if self.where.startswith("Table") else range(0)

    def judged(self, evidence: Evidence) -> Verdict:
        """The verdict on this claim."""
        contrasts = states(self.compares(evidence))
        beside = states(self.beside(evidence), decides=False, m=len(contrasts))
        if self.seeds == "grid" and evidence.seeds_behind(self.chapter) < SEEDS:
            contrasts, beside = ([c._replace(state=NOT_YET) for c in found] for found in (contrasts, beside))
        word = self.rule(contrasts)
        if self.rule is no_trend and word != NOT_YET:  # for and against what? a difference is clear of zero, or it is not
            contrasts = [c._replace(state="not clear" if c.interval.low <= 0 <= c.interval.high else "clear") for c in contrasts]
        awaited = "the fresh seeds" if self.seeds == "fresh" else f"all {SEEDS} seeds of its grid"
        return Verdict(word, contrasts + beside, f"waits for {awaited}" if word == NOT_YET else "")


CLAIMS = (
    Claim(1, "The two proposed methods are the best two on the unseen colour and on the training colours, oracle aside", "Table 1",
          "main_table", "fresh", lead_on_both),
    Claim(2, "The two methods are among the most domain-invariant; only Same Domain Negatives has a lower D-Test-ID", "Table 1", "main_table", "fresh",
          hide_the_domain, same_domain_hides_more),
    Claim(3, "MMD and DANN do worse than Standard CL", "Table 1", "main_table", "fresh", penalties_do_worse),
    Claim(4, "The oracle, colour jitter, beats every method", "Table 1", "main_table", "fresh", oracle_bounds),
    Claim(5, "Over a broad range of sigma the two methods are best on the training colours and hide the domain best; above 25 they are often among the best on the unseen colour",
          "Figure 1", "sigma_ablation", "fresh", wide_spreads, narrow_spreads),
    Claim(6, "The advantage is largest at 1 % of labels, and the two methods are best on the training colours at every fraction", "Table 2",
          "label_fractions", "fresh", few_labels),
    Claim(7, "Lower tau_alpha is typically better; the selected configuration need not be the best on the test sets", "Tables 3 to 8", "temperature",
          "grid", low_temperatures),
    Claim(8, "Averaged over all hyperparameters the two methods are more accurate", "Figure 4", "model_selection", "grid", on_average),
    Claim(9, "Between global and batch-level discriminators there is no clear trend", "Table 9", "global_vs_batch", "fresh",
          discriminators, rule=no_trend),
    Claim(10, "A projector head lowers both accuracies; D-Test-ID rises with its dimension", "Figure 5",
          "projector_head", "grid", projector_heads),
    Claim(11, "Temperatures start low for pairs of one domain and converge to tau_alpha", "Figures 6 and 7",
          "effective_temperature", "grid", temperatures_converge),
    Claim(12, "A negative's gradient is exp(s/tau)/tau over the denominator", "appendix B", "method", "exact", gradient),
    Claim(13, "A weight outside the exponent has a negligible effect compared to the scaling of similarities by the temperature", "appendix B", "claims", "batches",
          weight_outside),
    Claim(14, "The selected configuration is well short of the best for all but Standard CL", "Figure 4", "model_selection", "grid",
          short_of_the_best),
    Claim(15, "The accuracy of the two methods on the training colours falls less than the baselines' as sigma grows", "Figure 1",
          "sigma_ablation", "fresh", holds_with_spread),
)  # fmt: skip


def judged(number: int, evidence: Evidence | None = None) -> Verdict:
    """The verdict on a claim.

    Raises:
        ValueError: for a number that no claim has.
    """
    for claim in CLAIMS:
        if claim.number == number:
            return claim.judged(evidence or Evidence())
    raise ValueError(f"there are claims 1 to {len(CLAIMS)}, got {number!r}.")


# Claims 1 and 2 in short.
MAIN = "The paper's main claim: Domain-Weighted (DW) Negatives and DW Pairs beat four baselines on the unseen and on the training colours. The paper adds that their embeddings hardly reveal the colour."


def headline(first: Verdict, second: Verdict) -> tuple[str, pd.DataFrame, str]:
    """What claims 1 and 2 come to, for the front page, the README and the chapter on Table 1: a sentence, a table, and what its words mean."""
    words = {"holds": "confirmed", "partly": "partly confirmed", "fails": "not confirmed", "open": "open"}
    seeds, domain = min(c.interval.n for c in first.contrasts), [c for c in second.contrasts if c.decides]
    ood, seen = ([c for c in first.contrasts if c.label.startswith(SHORT[metric])] for metric in (OOD, ID))
    names, lines = ("unseen colour (Test-OOD)", "training colours (Test-ID)", "hiding the colour (D-Test-ID)"), []
    for name, mine in zip(names, (ood, seen, domain), strict=True):
        told = [Counter(c.state for c in mine if f": {title(method)} " in c.label) for method in PROPOSED]
        counts = [f"{n['for']} won, {n['against']} lost, {n['open'] + n['alike']} open" for n in told]
        lines.append((name, words[by_the_rule(mine)], *counts))
    columns = ["comparison", "verdict", *(title(method).replace("Domain-Weighted", "DW") for method in PROPOSED)]
    limits = [f"{100 - 5 / len(each):.2f} %" for each in (first.contrasts, domain)]
    means = "*Won*: the 95 % interval of the paired difference lies on the method's side of zero (a lower D-Test-ID counts as better). *Lost*: the"
    means += f" {limits[0]} interval lies on the other side (hiding the colour: {limits[1]}). One loss is enough for *not confirmed*, so intervals for"
    means += " losses allow for the number of comparisons. *Confirmed*: all won. *Partly*: no loss, half or more won. *Open*: no loss, fewer won. A"
    means += " verdict counts both methods. Same Domain Negatives has no part in the last line: the paper says that it hides the colour better."
    answer = f"**The paper's main claim is {words[first.word]}.** Paired comparisons with the baselines on {seeds} fresh seeds:"
    return answer, pd.DataFrame(lines, columns=columns), means
