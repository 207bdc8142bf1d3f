"""tau_min is a factor of two levels: the rows of one level beside the baselines, labelled alike, so that they compare.

The paper gives no tau_min. Only the domain-weighted methods see it, so that a baseline's row stands under every level.
"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from ..config import Protocol, protocol_hash
from ..experiments.core import PROPOSED


def at(frame: pd.DataFrame, tau_min: float, protocol: Protocol) -> pd.DataFrame:
    """The rows under one level.

    Args:
        frame: rows as from `results.Store.load`.
        tau_min: the level.
        protocol: the protocol of rows that do not see it.

    Returns:
        Rows of the proposed methods with that tau_min, and of all others with that of `protocol`; every one is labelled as of
        `protocol`.
    """
    mine, plain = protocol_hash(replace(protocol, tau_min=tau_min)), protocol_hash(protocol)
    wanted = pd.Series([mine if method in PROPOSED else plain for method in frame.method], frame.index, dtype=object)
    return frame[frame.protocol == wanted].assign(protocol=plain)
