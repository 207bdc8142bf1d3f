"""What the chapter on the losses shows: trainings of a reader's own code on data that is not the paper's, and what a fit costs."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from .. import results
from ..analysis import intervals
from ..engine import provenance
from ..methods import ALL_METHODS

PLAIN = "InfoNCE"  # what the others are compared with
PROBED = ("unseen_color", "seen_colors", "domain")
WHICH = ("loss", "seed", "epochs", "code")  # fields that say which training an entry is of
SETTINGS = ("weighting", "tau_alpha", "tau_beta", "tau_min", "num_domains", "tau", "symmetric", "gather", "chunk_size")
LATER = ', features="raw"'  # entries are older than this choice in the chapter's code, and saw raw embeddings
TITLES = {
    "same domain": ALL_METHODS["same_domain"].title,
    "negatives": ALL_METHODS["dw_negatives"].title,
    "pairs": ALL_METHODS["dw_pairs"].title,
}  # what entries call a loss, and what pages do

Losses = Mapping[str, Callable[[Any], Any]]
Train = Callable[[Callable[[Any], Any], int], dict[str, float]]


def fingerprint(code: Sequence[Callable[..., Any]], colors: torch.Tensor, losses: Losses) -> str:
    """Which code a training is of: eight digits of a hash, so that entries of other code are not looked at.

    Args:
        code: functions, whose sources count.
        colors: [domains, 3], the colour of each domain.
        losses: by name, what makes each of them from a discriminator; their types and settings count.
    """
    parts = [inspect.getsource(part).replace(LATER, "") for part in code] + [str(colors.tolist())]
    for name, make in losses.items():
        loss = make(None)
        told = ", ".join(f"{setting}={getattr(loss, setting)!r}" for setting in SETTINGS if hasattr(loss, setting))
        parts.append(f"{name}: {type(loss).__name__}({told})")
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:8]


def folder() -> Path:
    """Where the entries are kept."""
    return results.default_path() / "own_data"


def entries() -> pd.DataFrame:
    """All entries: columns `WHICH` and `PROBED`."""
    return pd.DataFrame(results.entries(folder(), WHICH), columns=[*WHICH, *PROBED])


def stored(code: str, epochs: int) -> pd.DataFrame:
    """The entries of some code and length, a line a loss and seed."""
    found = entries()
    return found[(found.code == code) & (found.epochs == epochs)]


def fullest() -> pd.DataFrame:
    """The entries of the code and length that have most of them, a line a loss and seed."""
    found = entries()
    return stored(*found.groupby(["code", "epochs"]).size().idxmax()) if len(found) else found


def train_missing(train: Train, losses: Losses, code: str, seeds: Sequence[int], epochs: int) -> None:
    """Train what is not stored, and store it seed by seed.

    Args:
        train: from what makes a loss, and a seed, to the accuracies `PROBED`.
        losses: by name, what makes each of them.
        code: see `fingerprint`.
        seeds: which.
        epochs: of each training.
    """
    there = stored(code, epochs)
    for seed in seeds:
        missing = [name for name in losses if name not in set(there[there.seed == seed].loss)]
        done = [
            {"loss": name, "seed": seed, "epochs": epochs, "code": code, **train(losses[name], seed)}
            for name in missing
        ]
        if done:
            origin = {"commit": provenance.commit(), **provenance.machine(torch.device("cpu"))}
            results.add_shard([entry | origin for entry in done], folder())


@dataclass(frozen=True)
class Trainings:
    """What is stored of some losses, apart by when it was looked at.

    Attributes:
        rows: of the seeds that count, a line a loss and seed: columns `WHICH` and `PROBED`.
        earlier: of seeds that were looked at while the code was being written.
        losses: their names, the plain one (`PLAIN`) among them.
        asked: how many trainings were asked for.
        epochs: of each.
    """

    rows: pd.DataFrame
    earlier: pd.DataFrame
    losses: Sequence[str]
    asked: int
    epochs: int

    def counted(self) -> str:
        """How many of the trainings are stored."""
        return f"{len(self.rows)} of {self.asked} trainings of {self.epochs} epochs are stored."

    def means(self) -> pd.DataFrame:
        """Mean accuracies over seeds: columns loss, those of `PROBED`, and n; empty without rows."""
        if self.rows.empty:
            return self.rows
        by_loss = self.rows.groupby("loss")
        means = by_loss[list(PROBED)].mean().reindex(self.losses)
        return _titled(means.assign(n=by_loss.size().reindex(self.losses, fill_value=0)).reset_index())

    def differences(self) -> pd.DataFrame:
        """Each loss less the plain one, paired by seed.

        Returns:
            Columns: loss, accuracy of (one of `PROBED`), difference (mean), low and high (its 95 % t interval), n (seeds), and a
            * in the last, unnamed column where the interval excludes zero; empty without rows.
        """
        lines = []
        for name in (name for name in self.losses if name != PLAIN and len(self.rows)):
            for metric in PROBED:
                d = difference(self.rows, name, metric)
                lines.append((name, metric, *d, "*" if d.low > 0 or d.high < 0 else " "))
        return _titled(pd.DataFrame(lines, columns=["loss", "accuracy of", "difference", "low", "high", "n", ""]))

    def sides(self) -> str:
        """Which losses lie above the plain one, below it, or cannot be told from it, a line an accuracy; empty without rows."""
        lines = []
        for metric, part in self.differences().groupby("accuracy of", sort=False):
            above, below = part.low > 0, part.high < 0
            sides = {f"above {PLAIN}": above, f"below {PLAIN}": below, "not told apart": ~above & ~below}
            told = [f"{side}: {', '.join(part.loss[where])}" for side, where in sides.items() if where.any()]
            lines.append(f"{metric}: {'; '.join(told)}")
        return "\n".join(lines)

    def then_and_now(self, metric: str = "unseen_color") -> str:
        """Differences to the plain loss on the earlier seeds, and on those that count; empty without earlier seeds.

        It says where an interval excluded zero on fewer, earlier seeds and no longer does, and counts these in the last line.
        """
        lines, lost = [], 0
        names = [name for name in self.losses if name != PLAIN and len(self.earlier)]
        for name in names:
            then, now = difference(self.earlier, name, metric), difference(self.rows, name, metric)
            lines += [TITLES.get(name, name), f"    then {then}, n = {then.n}"]
            if now.n:
                gone = now.n > then.n and then.low * then.high > 0 and not now.low * now.high > 0
                lines.append(f"    now {now}, n = {now.n}{': no longer excludes zero' if gone else ''}")
                lost += gone
        if lost:
            lines.append(f"For {lost} of {len(names)} losses the earlier seeds were too few to rely on.")
        return "\n".join(lines)


def trainings(
    losses: Losses,
    code: str,
    seeds: Sequence[int],
    epochs: int,
    train: Train | None = None,
) -> Trainings:
    """The trainings that are stored, after those that are missing if asked to.

    Args:
        losses: by name, what makes each of them; one is `PLAIN`.
        code: see `fingerprint`.
        seeds: those that count, in a row; seeds below them are the earlier ones.
        epochs: of each training.
        train: see `train_missing`; None trains nothing.
    """
    if train is not None:
        train_missing(train, losses, code, seeds, epochs)
    found = stored(code, epochs)
    rows, earlier = found[found.seed.isin(list(seeds))], found[found.seed < min(seeds)]
    return Trainings(rows, earlier, list(losses), len(seeds) * len(losses), epochs)


def difference(rows: pd.DataFrame, loss: str, metric: str) -> intervals.Interval:
    """What a loss has over the plain one in an accuracy, paired by seed."""
    mine, plain = (rows[rows.loss == name].set_index("seed")[metric] for name in (loss, PLAIN))
    return intervals.paired_difference(mine, plain)


def dearer_fits(costs: pd.DataFrame) -> str:
    """In how many settings a discriminator's fit costs less than plain InfoNCE, and the others; empty without measurements.

    Args:
        costs: of `benchmarked.discriminator`.
    """
    if costs.empty:
        return ""
    dearer = costs[costs.fit_ms > costs.plain_ms]
    lines = [f"The fit costs less than plain InfoNCE in {len(costs) - len(dearer)} of {len(costs)} settings."]
    lines += [
        f"{row.fit_ms / row.plain_ms:.1f} times as much: batch {row.batch}, width {row.width}, {row.domains} domains"
        for row in dearer.itertuples()
    ]
    return "\n".join(lines)


def _titled(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose losses have the names that pages give them."""
    return table.assign(loss=table.loss.replace(TITLES))
