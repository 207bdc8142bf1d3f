"""Cells show, the library computes: what a cell may hold, so that no analysis hides where no test looks."""

import ast

import nbformat
import pytest
from test_book import CHAPTERS, cells

GLUE = (
    ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip
DEMONSTRATION = "demonstration"  # the tag of a cell that shows learners the library's own functions
HIDDEN = {"hide-input", "remove-input", "hide-cell", "remove-cell"}


def glue_of(source):
    """The kinds of loops, definitions and comprehensions in a cell's source."""
    return sorted({type(node).__name__ for node in ast.walk(ast.parse(source)) if isinstance(node, GLUE)})


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
def test_a_cell_shows_what_the_library_computes(path):
    plain = [c for c in cells(path) if not {"parameters", DEMONSTRATION} & {*c.metadata.get("tags", [])}]
    found = {cell.id: kinds for cell in plain if (kinds := glue_of(cell.source))}
    assert not found, "move it into dtcl_core/report, or tag a demonstration of the library to learners so"


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
def test_a_demonstration_is_there_to_be_read(path):
    for cell in cells(path, DEMONSTRATION):
        assert glue_of(cell.source), f"{cell.id} needs no such tag"
        assert not HIDDEN & {*cell.metadata.tags}, f"{cell.id} demonstrates what a reader does not see"


def test_loops_definitions_and_comprehensions_are_found_wherever_they_stand():
    assert glue_of("show(1)\nif x:\n    print([y for y in x])") == ["ListComp"]
    assert glue_of("for x in y:\n    show(x)\ndef f(): pass") == ["For", "FunctionDef"]
    assert glue_of("show(', '.join(str(y) for y in x), {k: v for k, v in z})") == ["DictComp", "GeneratorExp"]
    assert glue_of("rows = study.selected()\nshow_each(METRICS, lambda metric: table(rows, metric))") == []
    made = nbformat.v4.new_code_cell("x = {y for y in z}")
    assert glue_of(made.source) == ["SetComp"]
