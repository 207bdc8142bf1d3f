"""dtcl_core: contrastive losses with domain-aware temperature, and the engine that reproduces their paper.

The losses, for your own project, are here: ``from dtcl_core import DomainWeightedInfoNCELoss``. They need torch and numpy,
nothing else, and nothing is imported before it is asked for.

Where things are, in the order in which a number travels:

- the core, in this folder: `data`, `augment` (views), `encoder`, `logistic`, `discriminator`, `losses`, `methods` (which loss is
  which), `config` (what a run is), `pretrain`, `evaluate`, `results` (the store), `keyed` (randomness), `checks` (of values given),
  `files` (written whole or not at all), `presets` and `console` (of the command line);
- asked, `experiments`: the `registry` of tables and figures as lists of runs, `open_choices`, `weight_choices`;
- trained, `engine`: `device`, `streams` (images and views for runs that share them), `native` and `trunk` (a CPU's own operators),
  `checkpoint`, `encoder_files` (trained networks), `traces`, `provenance`; `launch` asks the engine for what is missing:
  `commands`, `local`, `cluster` (Ray), `audit` (stored rows trained again), `selfcheck` (is this machine sound?);
- concluded, `analysis`: `selection`, `intervals`, `reported` (the paper's numbers), `contrasts`, `claims`, `verdicts`; the later
  rule in `restated`, `rule` and `operating`; `sensitivity` and `calibration` of the open choices, `specifications` (the effect
  under each);
- shown, `report`: `tables`, `styled` (tables as pages), `overview`, `card` and `forest` (all claims at once), `figures`, `style`,
  `illustrations`, `interactive`, `notebook` (what chapters call), `benchmarked`;
- for your project, `nn`: the losses as `modules`, `weigher` (which pairs share a domain?), `candidates` (of an anchor), `queue`,
  `discriminators`, `penalties`, `monitor` (figures to log), `caching` and `gather` (large batches, several processes), `inputs`
  (checks), `metric_learning` (an adapter).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .nn.caching import embed_in_chunks as embed_in_chunks
    from .nn.discriminators import LinearDiscriminator as LinearDiscriminator
    from .nn.discriminators import MLPDiscriminator as MLPDiscriminator
    from .nn.modules import DomainWeightedInfoNCELoss as DomainWeightedInfoNCELoss
    from .nn.modules import DomainWeightedSupConLoss as DomainWeightedSupConLoss
    from .nn.modules import InfoNCELoss as InfoNCELoss
    from .nn.modules import SameDomainInfoNCELoss as SameDomainInfoNCELoss
    from .nn.modules import SupConLoss as SupConLoss
    from .nn.penalties import DomainAdversary as DomainAdversary
    from .nn.penalties import MMDPenalty as MMDPenalty
    from .nn.queue import NegativeQueue as NegativeQueue

__version__ = "0.1.0"
_HOMES = {
    "nn.caching": ("embed_in_chunks",),
    "nn.discriminators": ("LinearDiscriminator", "MLPDiscriminator"),
    "nn.queue": ("NegativeQueue",),
    "nn.modules": (
        "DomainWeightedInfoNCELoss",
        "DomainWeightedSupConLoss",
        "InfoNCELoss",
        "SameDomainInfoNCELoss",
        "SupConLoss",
    ),
    "nn.penalties": ("DomainAdversary", "MMDPenalty"),
}
__all__ = sorted(name for names in _HOMES.values() for name in names)


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f".{home}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
