"""What a run can record beside its row: its loss, and the temperatures of its negative pairs, by epoch.

`engine.recorder` counts the negative pairs of every batch in `BINS` equal bins between the lowest and the highest temperature
that Eq. 3 allows the run. Pairs within and across domains are counted apart; of a symmetric loss, only the first direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

BINS = 100
KINDS = ("same_domain", "cross_domain")


@dataclass(frozen=True)
class Trace:
    """What one run recorded.

    Attributes:
        key: of the run.
        loss: [epochs] mean training loss: the contrast in nats, plus the method's penalty.
        low, high: the range of temperatures that the bins divide; None for a method without `tau_beta`.
        counts: int [epochs, 2, BINS], negative pairs by `KINDS` and temperature; None for a method without `tau_beta`.
    """

    key: str
    loss: np.ndarray
    low: float | None = None
    high: float | None = None
    counts: np.ndarray | None = None

    @property
    def edges(self) -> np.ndarray:
        """[BINS + 1] edges of the bins, of a run with temperatures."""
        assert self.low is not None and self.high is not None
        return np.linspace(self.low, self.high, BINS + 1)

    def quantiles(self, at: Sequence[float], kind: str | None = None) -> np.ndarray:
        """Quantiles [epochs, len(at)] of the temperatures of pairs; linear within a bin, and NaN in an epoch without such pairs.

        Args:
            at: shares of the pairs, in [0, 1].
            kind: one of `KINDS`; None for all pairs.

        Raises:
            ValueError: for an unknown kind, or a run without temperatures.
        """
        if kind is not None and kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, or None for all pairs, got {kind!r}.")
        if self.counts is None:
            raise ValueError("this run's negatives all have one temperature; it recorded none.")
        counts = self.counts.sum(1) if kind is None else self.counts[:, KINDS.index(kind)]
        total = np.cumsum(counts, axis=1)
        share = np.concatenate([np.zeros((len(total), 1)), total / np.maximum(total[:, -1:], 1)], axis=1)
        edges, result = self.edges, np.full((len(share), len(at)), np.nan)
        for epoch, below in enumerate(share):
            if below[-1] > 0:
                # Beyond `end` lies no pair; a share that falls on an empty stretch before it has the stretch's upper end.
                end = np.searchsorted(below, 1.0) + 1
                result[epoch] = np.interp(at, below[:end], edges[:end])
        return result

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON; a loss that is not finite becomes None."""
        loss = [float(f"{v:.6g}") if np.isfinite(v) else None for v in self.loss.tolist()]
        counts = None if self.counts is None else self.counts.tolist()
        return {"key": self.key, "loss": loss, "low": self.low, "high": self.high, "counts": counts}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Trace:
        """Rebuild a trace from `to_dict`.

        Raises:
            ValueError: if it is incomplete or of other shapes.
        """
        try:
            loss = np.array([np.nan if v is None else v for v in plain["loss"]], dtype=np.float64)
            counts = None if plain["counts"] is None else np.array(plain["counts"], dtype=np.int64)
            trace = cls(plain["key"], loss, plain["low"], plain["high"], counts)
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"it is incomplete ({error!r})") from None
        expected = (len(loss), len(KINDS), BINS)
        number = type(None) if counts is None else (int, float)
        if not (isinstance(trace.low, number) and isinstance(trace.high, number)):
            raise ValueError(f"its temperatures lie between {trace.low!r} and {trace.high!r}")
        if counts is not None and (counts.shape != expected or (counts < 0).any()):
            raise ValueError(f"its counts, of shape {counts.shape}, are not numbers of pairs of shape {expected}")
        return trace
