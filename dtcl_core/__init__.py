"""dtcl_core: contrastive losses with domain-aware temperature, and the engine that trains thousands of runs of them.

The losses, for your own project, are here: ``from dtcl_core import DomainWeightedInfoNCELoss``. They need torch and numpy
alone, and nothing is imported before it is asked for. The package `dtcl_study` holds the paper's reproduction.

Where things are, from the description of a run to its row:

=============== ============= ========================================================================================
what for        in            modules
=============== ============= ========================================================================================
described       the core      `config` (what a run is), `checks` (of values that users give), `terminal` (output and
                              Ctrl-C of commands)
trained         the core      `data`, `augment` (views), `encoder`, `losses`, `methods` (which loss is which), `logistic`
                              and `discriminator` (solvers), `keyed` (randomness), `pretrain`, `evaluate`
..              `engine`      `networks` and `groups` (of a stack of runs), `streams` (views, made once for runs that
                              share them), `embedding`, `device`, `native` (C++ for CPUs), `cuda` (for GPUs) and `trunk`
                              (autograd around both), `graph` (a step recorded once), `recorder` (of temperatures),
                              `checkpoint`, `provenance`
..              `launch`      `local` (trains what is missing), `progress` (and time left), `selfcheck` (is this machine
                              sound?)
stored          the core      `results` (rows), `traces` (temperatures by epoch), `encoder_files` (trained networks),
                              `files` (written whole or not at all)
in your project `nn`          the losses as `modules`; `weigher` (which pairs share a domain?), `candidates` (of an
                              anchor), `settings` (set, learned or scheduled), `queue`, `discriminators`, `penalties`,
                              `monitor` (figures to log), `caching` and `gather` (large batches, several processes),
                              `inputs` (checks), `metric_learning` (an adapter)
=============== ============= ========================================================================================

Imports run one way: `results` never reaches `pretrain` or `evaluate`, and `nn` needs torch and numpy alone.
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
    from .nn.settings import LearnedTemperature as LearnedTemperature

_HOMES = {
    "embed_in_chunks": "caching",
    **dict.fromkeys(("LinearDiscriminator", "MLPDiscriminator"), "discriminators"),
    **dict.fromkeys(("InfoNCELoss", "SameDomainInfoNCELoss", "DomainWeightedInfoNCELoss"), "modules"),
    **dict.fromkeys(("SupConLoss", "DomainWeightedSupConLoss"), "modules"),
    **dict.fromkeys(("DomainAdversary", "MMDPenalty"), "penalties"),
    "NegativeQueue": "queue",
    "LearnedTemperature": "settings",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f".nn.{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
