"""Which module may import which: read from the sources, nothing is imported."""

import ast
import graphlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("dtcl_core", "dtcl_study")


def name_of(path: Path) -> str:
    """A module's name, that of its package for an `__init__`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {name_of(path): path for package in PACKAGES for path in (ROOT / package).rglob("*.py")}


def imports_of(source: str, name: str, modules: set[str], is_package: bool = False) -> tuple[set[str], set[str]]:
    """What a module imports, also inside functions, but not for type checkers alone.

    Args:
        source: its text.
        name: of the module.
        modules: the names of all modules of our packages.
        is_package: whether relative imports start from its own folder.

    Returns:
        Modules of our packages, and the names of other packages.
    """
    own, others = set(), set()
    here = name.split(".") if is_package else name.split(".")[:-1]

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
            base = [*above, *(node.module or "").split(".")]
            for alias in node.names:
                note([part for part in base if part], alias.name)
        for child in ast.iter_child_nodes(node):
            visit(child)

    def note(path: list[str], taken: str | None) -> None:
        if path[0] not in PACKAGES:
            others.add(path[0])
            return
        inner = ".".join([*path, *([taken] if taken else [])])
        own.add(inner if inner in modules else ".".join(path))

    visit(ast.parse(source))
    return own, others


READ = {name: imports_of(path.read_text(), name, set(PATHS), path.stem == "__init__") for name, path in PATHS.items()}
IMPORTS = {name: own - {name} for name, (own, _) in READ.items()}


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
    from dtcl_study import study
"""
    names = {"launch.local", "engine.device", "config", "pretrain", "evaluate", "results", "launch"}
    modules = {f"dtcl_core.{name}" for name in names} | {"dtcl_study.study"}
    own, others = imports_of(source, "dtcl_core.launch.any", modules)
    inside = {f"dtcl_core.{name}" for name in ("launch.local", "engine.device", "config", "evaluate", "results")}
    assert own == inside | {"dtcl_study.study"} and others == {"__future__", "os", "typing"}
    own, _ = imports_of("from .modules import InfoNCELoss", "dtcl_core.nn", {"dtcl_core.nn.modules"}, is_package=True)
    assert own == {"dtcl_core.nn.modules"}
    assert {"dtcl_core.results", "dtcl_core.nn.modules", "dtcl_study.claims"} <= IMPORTS.keys()
    assert all(name in IMPORTS for found in IMPORTS.values() for name in found)


def test_imports_run_one_way():
    order = list(graphlib.TopologicalSorter(IMPORTS).static_order())  # names the circle, if there is one
    assert len(order) == len(PATHS)


def test_the_core_never_reaches_the_study():
    assert not [name for name in reached_from("dtcl_core") if name.startswith("dtcl_study")]


@pytest.mark.parametrize("place", ["results", "config", "traces"])
def test_what_is_described_or_stored_never_reaches_training(place):
    assert not {"dtcl_core.pretrain", "dtcl_core.evaluate"} & reached_from(f"dtcl_core.{place}")


def test_what_is_asked_does_not_know_what_is_concluded():
    reached = {name for name in reached_from("dtcl_study.experiments") if name.startswith("dtcl_study.")}
    assert reached == {f"dtcl_study.{name}" for name in ("experiments", "left_open", "reported")}


def test_the_losses_for_other_projects_need_torch_and_numpy_alone():
    reached = reached_from("dtcl_core.nn")
    assert "dtcl_core.config" not in reached
    needed = {name: READ[name][1] - sys.stdlib_module_names for name in reached}
    adapter = needed.pop("dtcl_core.nn.metric_learning")
    assert adapter == {"torch", "pytorch_metric_learning"}  # for those who have it
    assert {"torch"} <= set().union(*needed.values()) <= {"torch", "numpy"}
    assert not [name for name, found in IMPORTS.items() if "dtcl_core.nn.metric_learning" in found]


def test_what_reaches_the_engine_from_outside_is_known():
    """The engine is the folder and what training consists of in the core; here counts who imports it himself."""
    inside = tuple(f"dtcl_core.{name}" for name in ("engine", "pretrain", "evaluate", "encoder", "logistic", "keyed"))
    engine = ("dtcl_core.engine.", "dtcl_core.pretrain")
    outside = {name for name in IMPORTS if not name.startswith(inside) and any(m.startswith(engine) for m in IMPORTS[name])}
    assert {name for name in outside if name.startswith("dtcl_core")} == {
        *(f"dtcl_core.launch.{name}" for name in ("local", "selfcheck")),
    }


def test_the_table_of_modules_names_each_where_it_lies():
    told = ast.get_docstring(ast.parse(PATHS["dtcl_core"].read_text()))
    _, _, table, _ = re.split(r"^=[= ]+=$", told, flags=re.MULTILINE)
    named, folder = set(), ""
    for line in table.splitlines():
        place = line[16:29].strip("` ")
        folder = folder if not place else "" if place == "the core" else f"{place}."
        named |= {f"dtcl_core.{folder}{word}" for word in re.findall(r"`(\w+)`", line[30:])}
    assert named == {name for name, path in PATHS.items() if name.startswith("dtcl_core.") and path.stem != "__init__"}


def test_the_study_names_its_modules_and_each_imports_only_earlier_ones():
    named = re.findall(r"`(\w+)`", ast.get_docstring(ast.parse(PATHS["dtcl_study"].read_text())))
    modules = {name for name in PATHS if name.startswith("dtcl_study.")} - {"dtcl_study.__main__"}
    order = [f"dtcl_study.{name}" for name in named if f"dtcl_study.{name}" in modules]
    assert sorted(order) == sorted(modules)
    for place, name in enumerate(order):
        assert {other for other in IMPORTS[name] if other in modules} <= {*order[:place]}, name


FOR_GPUS = ("cuda.cu", "cuda.py", "graph.py")  # a trunk of CUDA kernels, and its steps as graphs: counted apart


@pytest.mark.parametrize(("package", "most", "for_gpus"), [("dtcl_core", 8500, 960), ("dtcl_study", 3500, 0)])
def test_the_packages_stay_small(package, most, for_gpus):
    """Blank lines and C++ included: who needs more room takes something out, or puts on a page what only that page needs."""
    files = [path for kind in ("*.py", "*.cpp", "*.cu") for path in (ROOT / package).rglob(kind)]
    lines = {path: len(path.read_text().splitlines()) for path in files}
    apart = sum(count for path, count in lines.items() if path.name in FOR_GPUS)
    assert sum(lines.values()) - apart <= most and apart <= for_gpus
