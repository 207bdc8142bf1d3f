"""Run every chapter in place and keep its text outputs, which the tests compare; redraw the README's picture and write its answer.

Images and HTML are not committed: the book makes them when it is built.
"""

import textwrap
from functools import partial
from pathlib import Path

import nbformat
import yaml
from nbclient import NotebookClient

from dtcl_core import results
from dtcl_core.analysis import reported
from dtcl_core.report import figures, findings

BOOK = Path(__file__).parent
BEGIN, END = "<!-- the answer, from the rows -->", "<!-- -->"
INSTALL = "install"  # the tag of the cell that a fresh machine needs


def address() -> str:
    """Where the repository is, as `_config.yml` says; empty if nowhere yet."""
    return yaml.safe_load((BOOK.parent / "_config.yml").read_text())["repository"]["url"]


def with_install(document: nbformat.NotebookNode, repository: str) -> None:
    """Give a chapter a first cell that installs the package on a fresh machine such as Colab's, or take it away."""
    document.cells = [cell for cell in document.cells if INSTALL not in cell.metadata.get("tags", [])]
    if repository:
        source = f"""import importlib.util
import os
import subprocess
import sys

if importlib.util.find_spec("dtcl_core") is None:  # a fresh machine
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", "{repository}", "dtcl"], check=True)
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "-e", "dtcl[book]"], check=True)
    sys.path.insert(0, os.path.abspath("dtcl"))"""
        cell = nbformat.v4.new_code_cell(source, id=INSTALL, metadata={"tags": [INSTALL, "remove-cell"]})
        document.cells.insert(0, cell)


def refresh(path: Path) -> None:
    """Execute a notebook in place; keep its text, drop what it draws and the HTML of its tables."""
    document = nbformat.read(path, as_version=4)
    with_install(document, address())
    place = {"metadata": {"path": str(BOOK)}}
    NotebookClient(document, timeout=3600, kernel_name="python3", coalesce_streams=True, resources=place).execute()
    for cell in document.cells:
        cell.metadata.pop("execution", None)  # times of execution
        if "nbval-ignore-output" in cell.metadata.get("tags", []):
            cell.outputs = []  # interactive figures: drawn when the book is built
        for output in cell.get("outputs", []):
            for kind in [kind for kind in output.get("data", {}) if kind.startswith(("image/", "text/html"))]:
                del output["data"][kind]
    document.metadata["language_info"] = {"name": "python"}
    nbformat.write(document, path)


def draw_headline(path: Path) -> None:
    """The README's picture: what was selected in the preset that the chapters show, on fresh seeds."""
    figures.use_style()
    figure = figures.compare_methods(
        findings.headline(), reported.main_comparison(), ["test_ood", "test_id", "d_test_id"]
    )
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def write_answer(path: Path) -> None:
    """The README's answer: the introduction's sentences, between the lines that mark them."""
    points = [f"- {point}" for point in findings.answer()]
    wrap = partial(textwrap.wrap, width=125, subsequent_indent="  ", break_on_hyphens=False)
    lines = [line for point in points for line in wrap(point)]
    before, _, rest = path.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text("\n".join([f"{before}{BEGIN}", *lines, f"{END}{after}"]))


if __name__ == "__main__":
    for chapter in sorted(BOOK.glob("*.ipynb")):
        print(f"running {chapter.name}", flush=True)
        refresh(chapter)
    draw_headline(BOOK / "images" / "headline.svg")
    write_answer(BOOK.parent / "README.md")
