"""The paper's fifteen claims as data, and one rule that judges all but claim 9, which says that there is no trend.

A *contrast* is the mean over seeds of a paired difference, signed so that positive supports the claim. It is *for* the claim if
its 95 % interval lies above zero, *against* it if its interval at confidence 1 - 0.05/m lies below zero, for m contrasts, else
*open*; an open one is *alike* if its 90 % interval lies within 0.02 of zero. Only "against" is corrected, because one contrast
against a claim decides. A claim is *confirmed* if all contrasts are for it, *not confirmed* if one is against it, *partly
confirmed* if none is against it and at least half are for it, else *open*. (PREREGISTRATION.md: holds, fails, holds partly.)

Fresh contrasts: frozen configurations on fresh seeds. Grid contrasts: complete seeds. 1 % of labels, sigma 50 unless said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from operator import attrgetter
from typing import Any, NamedTuple

import pandas as pd

from dtcl_core.config import Protocol

from . import contrasts
from .chapter import Table
from .compare import Interval, mean
from .experiments import DOMAIN, HIGHER_DROPOUT_CHANGE, ID, OOD, PROPOSED, SHORT, title
from .reported import SEEDS, SIGMA
from .study import Evidence, Study

LIKE = 0.02  # accuracies that differ by less are alike
NOT_YET = "not judged yet"
DROPOUTS = tuple(f"{rate:g}" for rate in (Protocol().dropout, HIGHER_DROPOUT_CHANGE["dropout"]))  # of the two studies


class Contrast(NamedTuple):
    """One comparison of a claim: what is compared, its mean with the 95 % interval, and what it says."""

    label: str
    interval: Interval
    state: str  # "for", "against", "open" or "alike"; "clear" or "not clear" in claim 9; `NOT_YET` before that
    decides: bool = True  # False: shown beside the claim, no part of its verdict
    metric: str = ""  # which accuracy, if it is about one
    method: str = ""  # of which method
    other: str = ""  # beside which one


@dataclass(frozen=True)
class Verdict:
    """What the rule says of a claim: a word, how many contrasts are for it, open and against it, and the contrasts."""

    word: str  # "confirmed", "partly confirmed", "open", "not confirmed" or `NOT_YET`
    contrasts: list[Contrast]
    waits: str = ""  # for what, if it is not judged yet
    lost: int = 0  # how many contrasts are against it already, if it is not judged yet

    @property
    def said(self) -> str:
        """Whether the claim is true, in a word for a page."""
        return {"confirmed": "Yes", "partly confirmed": "Partly", "not confirmed": "No"}.get(self.word, self.word.capitalize())

    @property
    def counts(self) -> str:
        """Such as "8 for, 1 open, 0 against"; before the claim is judged, what it waits for."""
        told = Counter("open" if c.state == "alike" else c.state for c in self.contrasts if c.decides)
        if self.word == NOT_YET:
            return self.waits
        if told["clear"] + told["not clear"]:
            return f"{told['clear']} of {told.total()} clear of zero, {'no' if self.word == 'confirmed' else 'a'} clear trend"
        return f"{told['for']} for, {told['open']} open, {told['against']} against"


def states(found: Iterable[tuple[Any, ...]], decides: bool = True, m: int | None = None) -> list[Contrast]:
    """Contrasts with what each says (this module's first lines); `m` is the number of contrasts given unless said."""
    compared, told = list(found), []
    for label, values, *about in compared:
        interval, corrected, near = (mean(values, c) for c in (0.95, 1 - 0.05 / (m or len(compared)), 0.90))
        if interval.n < 2:
            state = NOT_YET
        elif interval.side > 0:
            state = "for"
        elif corrected.side < 0:
            state = "against"
        else:
            state = "alike" if -LIKE < near.low and near.high < LIKE else "open"
        told.append(Contrast(label, interval, state, decides, *about))
    return told


def by_the_rule(contrasts: Sequence[Contrast]) -> str:
    """The verdict on most claims."""
    found = [c.state for c in contrasts if c.decides]
    if NOT_YET in found:
        return NOT_YET
    if "against" in found:
        return "not confirmed"
    share = found.count("for") / len(found)
    return "confirmed" if share == 1 else "partly confirmed" if share >= 0.5 else "open"


def no_trend(contrasts: Sequence[Contrast]) -> str:
    """Claim 9: not confirmed if both methods are clear of zero on the same side for an accuracy, else confirmed."""
    if any(c.state == NOT_YET for c in contrasts):
        return NOT_YET
    together = any(one.interval.side == other.interval.side != 0 for one, other in zip(contrasts[::2], contrasts[1::2]))
    return "not confirmed" if together else "confirmed"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, in our words.

    Attributes:
        number, says: the claim.
        where: which part of the paper makes it.
        judged_on: "fresh", "grid", "batches" (random batches stand for seeds) or "exact" (autograd against the formula).
        compares: its contrasts, from the evidence.
        beside: contrasts that are shown and take no part in the verdict.
        rule: from contrasts to a word.
        tables: the numbers of the paper's tables that make it.
        complete: where it is judged on the grid: how many of its seeds are complete.
    """

    number: int
    says: str
    where: str
    judged_on: str
    compares: Callable[[Evidence], contrasts.Differences]
    beside: Callable[[Evidence], contrasts.Differences] = field(default=lambda e: iter(()))
    rule: Callable[[Sequence[Contrast]], str] = by_the_rule
    tables: Sequence[int] = ()
    complete: Callable[[Evidence], int] = attrgetter("grid.complete_seeds")

    def judged(self, evidence: Evidence) -> Verdict:
        """The verdict on this claim."""
        found = states(self.compares(evidence))
        beside = states(self.beside(evidence), decides=False, m=len(found))
        if self.judged_on == "grid" and self.complete(evidence) < SEEDS:
            found, beside = ([c._replace(state=NOT_YET) for c in some] for some in (found, beside))
        word = self.rule(found)
        if word == NOT_YET:
            awaited = "fresh seeds that are not trained yet" if self.judged_on == "fresh" else f"all {SEEDS} seeds of its grid"
            lost = sum(c.state == "against" for c in found) if self.rule is by_the_rule else 0
            so_far = f"; {lost} of {len(found)} comparisons {'is' if lost == 1 else 'are'} against it already" if lost else ""
            return Verdict(word, found + beside, f"waits for {awaited}{so_far}", lost)
        if self.rule is no_trend:  # for and against what? a difference is clear of zero, or it is not
            found = [c._replace(state="clear" if c.interval.side else "not clear") for c in found]
        return Verdict(word, found + beside)


CLAIMS = (
    Claim(1, "The two proposed methods are the best two on the unseen colour and on the training colours, oracle aside", "Table 1",
          "fresh", contrasts.lead_on_both, tables=(1,)),
    Claim(2, "The two methods are among the most domain-invariant; only Same Domain Negatives has a lower D-Test-ID", "Table 1", "fresh",
          contrasts.hide_the_domain, contrasts.same_domain_hides_more, tables=(1,)),
    Claim(3, "MMD and DANN do worse than Standard CL", "Table 1", "fresh", contrasts.penalties_do_worse, tables=(1,)),
    Claim(4, "The oracle, colour jitter, beats every method", "Table 1", "fresh", contrasts.oracle_bounds, tables=(1,)),
    Claim(5, "Over a broad range of sigma the two methods are best on the training colours and hide the domain more than the baselines; above 25 they are often among the best on the unseen colour",
          "Figure 1", "fresh", contrasts.wide_spreads, contrasts.narrow_spreads),
    Claim(6, "The advantage is largest at 1 % of labels, and the two methods are best on the training colours at every fraction", "Table 2",
          "fresh", contrasts.few_labels, tables=(2,)),
    Claim(7, "Lower tau_alpha is typically better; the selected configuration need not be the best on the test sets", "Tables 3 to 8",
          "grid", contrasts.low_temperatures, tables=tuple(range(3, 9))),
    Claim(8, "Averaged over all hyperparameters the two methods are more accurate", "Figure 4", "grid", contrasts.on_average),
    Claim(9, "Between global and batch-level discriminators there is no clear trend", "Table 9", "fresh", contrasts.discriminators,
          rule=no_trend, tables=(9,)),
    Claim(10, "A projector head seems to lower both accuracies of Standard CL; D-Test-ID seems to rise with its dimension", "Figure 5", "grid", contrasts.projector_heads,
          complete=attrgetter("heads.complete_seeds")),
    Claim(11, "Temperatures start low for pairs of one domain and converge to tau_alpha", "Figures 6 and 7",
          "grid", contrasts.temperatures_converge, complete=lambda e: min(len(e.traces), e.grid.complete_seeds)),
    Claim(12, "A negative's gradient is exp(s/tau)/tau over the denominator", "appendix B", "exact", contrasts.gradient),
    Claim(13, "A weight outside the exponent has a negligible effect compared to the scaling of similarities by the temperature", "appendix B", "batches",
          contrasts.weight_outside),
    Claim(14, "Selection falls short of the best configuration, hardly so for Standard CL", "Figure 4", "grid", contrasts.short_of_the_best),
    Claim(15, "The accuracy of the two methods on the training colours falls less than the baselines' as sigma grows", "Figure 1",
          "fresh", contrasts.holds_with_spread),
)  # fmt: skip


def judged(number: int, evidence: Evidence | None = None) -> Verdict:
    """The verdict on a claim; ValueError for a number that no claim has."""
    if number not in range(1, len(CLAIMS) + 1):
        raise ValueError(f"there are claims 1 to {len(CLAIMS)}, got {number!r}.")
    return CLAIMS[number - 1].judged(evidence or Evidence())


# Paragraphs of `headline.md`: the claims; a caption, its words, its brackets; how sure; the second study; what verdicts mean.
SAID = (resources.files("dtcl_study") / "headline.md").read_text(encoding="utf-8").rstrip().split("\n\n")
MAIN, COMPARED, SIDES, RANGE, SURE, SECOND, MEANS = SAID


def about(contrasts: Iterable[Contrast], metric: str = "", method: str = "") -> list[Contrast]:
    """Those of some contrasts that are about an accuracy, about a method, or about both."""
    return [c for c in contrasts if metric in ("", c.metric) and method in ("", c.method)]


def sides(contrasts: Sequence[Contrast], span: bool = False) -> str:
    """By 95 % intervals, such as "3 better, 1 unclear"; `span`: with the lowest and the highest mean difference."""
    found, each = [c.interval.side for c in contrasts], [c.interval.mean for c in contrasts]
    words = {1: "better", 0: "unclear", -1: "worse"}
    said = ", ".join(f"{found.count(side)} {word}" for side, word in words.items() if side in found)
    return said + (f" ({min(each):+.3f} to {max(each):+.3f})" if span else "")


def tally(contrasts: Sequence[Contrast]) -> str:
    """By 95 % intervals, such as "better in 13 of 16 comparisons and worse in 1"."""
    found = [c.interval.side for c in contrasts if c.decides]
    return f"better in {found.count(1)} of {len(found)} comparisons" + (f" and worse in {found.count(-1)}" if -1 in found else "")


def headline(first: Verdict, second: Verdict, again: Sequence[Verdict] = ()) -> tuple[str, Table, str]:
    """What claims 1 and 2 come to (`again`: those of `second_study`): sentences, a table, what its words mean."""
    names, pairs = ([f"dropout {rate}" for rate in DROPOUTS], [(first, second), again]) if again else ([""], [(first, second)])
    studies, n = list(zip(names, pairs, strict=True)), min(c.interval.n for c in first.contrasts)
    found, told = {"method": [*(f"DW {title(m, short=True)}" for m in PROPOSED), "verdict"]}, list[str]()
    against, alone = list[str](), list[str]()
    for name, (main, side) in studies:
        which = f"With {name} the" if name else "The"
        told.append(f"{which} main claim is **{main.word}** ({tally(main.contrasts)}), the side claim is **{side.word}**.")
        lost = [c for c in (*main.contrasts, *side.contrasts) if c.state == "against"]
        worse = [f"DW {title(c.method, short=True)} than {title(c.other)} ({SHORT[c.metric]})" for c in lost]
        against += [(f"with {name}, " if name else "") + ", ".join(worse)] if worse else []
        each = [f"{by_the_rule(about(main.contrasts, method=m))} for DW {title(m, short=True)}" for m in PROPOSED]
        alone.append(" and ".join(each) + (f" with {name}" if name else ""))
    for column, k, metric in (("unseen colour", 0, OOD), ("training colours", 0, ID), ("hiding the colour", 1, DOMAIN)):
        for name, pair in studies:
            here = [c for c in about(pair[k].contrasts, metric) if c.decides]
            said = [sides(about(here, method=m)) for m in PROPOSED]
            found[f"{column}, {name}" if name else column] = [*said, by_the_rule(here)]
    if len({(main.word, side.word) for _, (main, side) in studies}) > 1:
        told.insert(0, "**The answer depends on the dropout rate, which the paper does not name.**")
    sure = f"<br>{SURE.format(seeds=n)}" * (first.word != "open")
    sure += f"<br>{SECOND.format(was=DROPOUTS[0], new=DROPOUTS[1], n=again[0].contrasts[0].interval.n)}" if again else ""
    means = MEANS.format(worse=f" Worse by that interval: {'; '.join(against)}." * bool(against), alone="; ".join(alone))
    return " ".join(told) + sure, Table(pd.DataFrame(found), COMPARED.format(seeds=n)), means


def with_fresh(rows: pd.DataFrame, number: int = 1, preset: str = "paper") -> Verdict:
    """The verdict on a claim if these were the fresh rows."""
    evidence = Evidence(preset)
    evidence.fresh = rows
    return judged(number, evidence)


def swapped(rows: pd.DataFrame, preset: str = "paper") -> Verdict:
    """The verdict on claim 1 with these rows of proposed methods in the place of their frozen configurations'."""
    frozen = Evidence(preset).at(SIGMA)
    if rows.empty or not {*rows.method} <= {*PROPOSED}:
        raise ValueError(f"rows must be of {' or '.join(PROPOSED)}, got {sorted({*rows.method})}.")
    return with_fresh(pd.concat([frozen[~frozen.method.isin(rows.method)], rows]), preset=preset)


def second_study(preset: str = "paper") -> tuple[Verdict, ...]:
    """The second study's verdicts on claims 1 and 2 (PREREGISTRATION_DROPOUT.md); none before all of its fresh rows are there."""
    study = Study("dropout_fresh", preset, quiet=True)
    return tuple(with_fresh(study.frame, number, preset) for number in (1, 2)) if study.whole else ()


def second_said(again: Sequence[Verdict], preset: str = "paper") -> str:
    """What the second study says, in words; before it has a verdict, how much of it is there."""
    if again:
        return "the main claim is {0.word} ({0.counts}), the side claim is {1.word} ({1.counts})".format(*again)
    fresh = Study("dropout_fresh", preset, quiet=True)
    return f"not finished ({fresh.present} of {len(fresh.runs)} runs on fresh seeds)"
