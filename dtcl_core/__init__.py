"""dtcl_core: contrastive losses with domain-aware temperature, and the engine that reproduces their paper.

The losses, for your own project, are here: ``from dtcl_core import DomainWeightedInfoNCELoss``. They need torch and numpy,
nothing else, and nothing is imported before it is asked for.

Modules, from the ground up. Losses: `losses` (functional), `logistic`, `discriminator`, `classifiers`, `contrast` (any
candidates, queue, chunks), `gather`, `modules`, `penalties`. Runs: `device`, `keyed` (randomness), `data`, `augment`, `methods`,
`config` (what a run is), `encoder`, `streams` (data and views on the device), `pretrain` (the engine), `evaluate`,
`traces`, `checkpoint`, `provenance`. Results: `results` (the store), `variations` and `weight_choices` (what is varied beside
the protocol), `experiments`, `work` (train what is missing), `cluster`, `audit`, `selection`, `statistics`, `sensitivity`
(the calibration), `evidence`, `verdicts` and `claims`, `reported`, `tables`, `style`, `figures`, `interactive`,
`illustrations`, `notebook`, `speed`, `selfcheck` (of a machine), `checks` (of what users give), and the command line.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .classifiers import LinearDiscriminator as LinearDiscriminator
    from .classifiers import MLPDiscriminator as MLPDiscriminator
    from .contrast import NegativeQueue as NegativeQueue
    from .modules import DomainWeightedInfoNCELoss as DomainWeightedInfoNCELoss
    from .modules import DomainWeightedSupConLoss as DomainWeightedSupConLoss
    from .modules import InfoNCELoss as InfoNCELoss
    from .modules import SameDomainInfoNCELoss as SameDomainInfoNCELoss
    from .modules import SupConLoss as SupConLoss
    from .penalties import DomainAdversary as DomainAdversary
    from .penalties import MMDPenalty as MMDPenalty

__version__ = "0.1.0"
_HOMES = {
    "classifiers": ("LinearDiscriminator", "MLPDiscriminator"),
    "contrast": ("NegativeQueue",),
    "modules": (
        "DomainWeightedInfoNCELoss",
        "DomainWeightedSupConLoss",
        "InfoNCELoss",
        "SameDomainInfoNCELoss",
        "SupConLoss",
    ),
    "penalties": ("DomainAdversary", "MMDPenalty"),
}
__all__ = sorted(name for names in _HOMES.values() for name in names)


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f".{home}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
