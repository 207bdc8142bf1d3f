"""What is asked: every table and figure as a named list of runs, and the choices that the paper leaves open."""

from ..presets import PRESETS as PRESETS
from ..presets import Preset as Preset
from .core import PROPOSED as PROPOSED
from .registry import MAX_SEEDS as MAX_SEEDS
from .registry import REGISTRY as REGISTRY
from .registry import Experiment as Experiment
from .registry import cells as cells
from .registry import listed_numbers as listed_numbers
from .registry import wants_trace as wants_trace
