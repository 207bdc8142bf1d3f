"""Which module may import which: read from the sources, nothing is imported."""

import ast
import graphlib
import re
import sys
from pathlib import Path

import pytest

PACKAGE = "dtcl_core"
FOLDER = Path(__file__).resolve().parent.parent / PACKAGE


def name_of(path: Path) -> str:
    """A module's name below the package, "" for the package itself."""
    parts = path.relative_to(FOLDER).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {name_of(path): path for path in FOLDER.rglob("*.py")}


def imports_of(source: str, name: str, modules: set[str], is_package: bool = False) -> tuple[set[str], set[str]]:
    """What a module imports, also inside functions, but not for type checkers alone.

    Args:
        source: its text.
        name: of the module, below the package.
        modules: the names of all modules of the package.
        is_package: whether relative imports start from its own folder.

    Returns:
        Modules of the package, and the names of other packages.
    """
    own, others = set(), set()
    here = name.split(".") if name else []
    here = here if is_package else here[:-1]

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for child in node.orelse:
                visit(child)
            return
        if isinstance(node, ast.Import):
            for alias in node.names:
                note(alias.name.split("."), None)
        elif isinstance(node, ast.ImportFrom):
            above = here[: len(here) - node.level + 1] if node.level else []
            base = [*([PACKAGE] if node.level else []), *above, *(node.module or "").split(".")]
            for alias in node.names:
                note([part for part in base if part], alias.name)
        for child in ast.iter_child_nodes(node):
            visit(child)

    def note(path: list[str], taken: str | None) -> None:
        if path[0] != PACKAGE:
            others.add(path[0])
            return
        inner = ".".join([*path[1:], *([taken] if taken else [])])
        own.add(inner if inner in modules else ".".join(path[1:]))

    visit(ast.parse(source))
    return own, others


READ = {name: imports_of(path.read_text(), name, set(PATHS), path.stem == "__init__") for name, path in PATHS.items()}
IMPORTS = {name: own for name, (own, _) in READ.items()}


def reached_from(*starts: str) -> set[str]:
    """Modules that those in some folders, or of some names, import, directly or through others; themselves too."""
    todo = [name for name in IMPORTS if any(name == s or name.startswith(f"{s}.") for s in starts)]
    found = set()
    while todo:
        if (name := todo.pop()) not in found:
            found.add(name)
            todo += IMPORTS[name]
    return found


def test_imports_are_read_wherever_they_stand():
    source = """
from __future__ import annotations
import os.path
from typing import TYPE_CHECKING
from . import local
from ..engine.device import upload
from ..config import Run
if TYPE_CHECKING:
    from ..pretrain import Stack
def late():
    from .. import evaluate
    import dtcl_core.results
"""
    modules = {"launch.local", "engine.device", "config", "pretrain", "evaluate", "results", "launch"}
    own, others = imports_of(source, "launch.cluster", modules)
    assert own == {"launch.local", "engine.device", "config", "evaluate", "results"}
    assert others == {"__future__", "os", "typing"}
    inside, _ = imports_of("from .registry import REGISTRY", "experiments", {"experiments.registry"}, is_package=True)
    assert inside == {"experiments.registry"}
    assert {"results", "pretrain", "nn.modules", "analysis.claims"} <= IMPORTS.keys()
    assert all(name in IMPORTS for found in IMPORTS.values() for name in found)


def test_imports_run_one_way():
    order = list(graphlib.TopologicalSorter(IMPORTS).static_order())  # names the circle, if there is one
    assert len(order) == len(PATHS)


@pytest.mark.parametrize("place", ["analysis", "results", "experiments"])
def test_what_is_asked_stored_or_concluded_never_reaches_training(place):
    assert "pretrain" not in reached_from(place) and "evaluate" not in reached_from(place)


def test_what_is_asked_does_not_know_what_is_concluded():
    assert not [name for name in reached_from("experiments") if name.startswith(("analysis", "report", "launch"))]


def test_what_is_concluded_does_not_know_how_it_is_shown():
    assert not [name for name in reached_from("analysis") if name.startswith(("report", "launch"))]


def test_the_losses_for_other_projects_need_torch_and_numpy_alone():
    reached = reached_from("nn")
    assert "config" not in reached
    needed = {name: READ[name][1] - sys.stdlib_module_names for name in reached}
    assert needed.pop("nn.metric_learning") == {"torch", "pytorch_metric_learning"}  # an adapter, for those who have it
    assert {"torch"} <= set().union(*needed.values()) <= {"torch", "numpy"}
    assert not [name for name, found in IMPORTS.items() if "nn.metric_learning" in found]


# The engine is the folder engine/ and what training consists of in the core. Any other module counts as reaching it if it imports
# one of engine/'s files or `pretrain` itself, not through others; the command line may.
ENGINE = ("engine", "pretrain", "evaluate", "encoder", "logistic", "keyed")
COMMAND_LINE = ("__main__", "launch.commands")


def test_eight_modules_reach_the_engine():
    outside = {name for name in IMPORTS if name.partition(".")[0] not in ENGINE and name not in COMMAND_LINE}
    assert {name for name in outside if any(m.startswith("engine.") or m == "pretrain" for m in IMPORTS[name])} == {
        "results",  # keeps trained encoders
        "launch.local",
        "launch.cluster",
        "launch.rows",
        "launch.audit",
        "launch.selfcheck",
        "report.notebook",  # refuses a device that is not there before anything else
        "report.losses_elsewhere",  # the losses trained on other data, on a page: its rows say on which machine
    }


def test_the_table_of_modules_names_each_where_it_lies():
    _, _, table, _ = re.split(r"^=[= ]+=$", ast.get_docstring(ast.parse(PATHS[""].read_text())), flags=re.MULTILINE)
    named, folder = set(), ""
    for line in table.splitlines():
        place = line[16:29].strip("` ")
        folder = folder if not place else "" if place == "the core" else f"{place}."
        named |= {folder + word for word in re.findall(r"`(\w+)`", line[30:])}
    modules = {name for name, path in PATHS.items() if path.stem not in ("__init__", "__main__")}
    assert named == {".".join(name.split(".")[:2]) for name in modules}  # a folder in a wing has one name
