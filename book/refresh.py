"""Run every chapter in place and keep its text outputs, which the tests compare; write the README's answer.

Images and HTML are not committed: the book makes them when it is built.
"""

from pathlib import Path

import nbformat
import yaml
from nbclient import NotebookClient

from dtcl_study import claims, study, tables

BOOK = Path(__file__).parent
BEGIN, END = "<!-- the answer, from the rows -->", "<!-- -->"
STAR = r"\*"  # as Markdown shows it
MARKED = {None: "{}", "b": "**{}**", "u": "<ins>{}</ins>"}  # a mark of a table's cell, likewise
INSTALL = "install"  # the tag of the cell that a fresh machine needs


def address() -> str:
    """Where the repository is, as `_config.yml` says; empty if nowhere yet."""
    return yaml.safe_load((BOOK.parent / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]


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
        for output in cell.get("outputs", []):
            for kind in [kind for kind in output.get("data", {}) if kind.startswith(("image/", "text/html"))]:
                del output["data"][kind]
    document.metadata["language_info"] = {"name": "python"}
    nbformat.write(document, path)


def answer() -> list[str]:
    """The README's answer: a sentence, and Table 1 with what is reported over what is measured."""
    evidence = study.Evidence()
    verdict, means = claims.judged(1, evidence), ""
    first = f"{claims.MAIN} **Not judged yet.** {evidence.awaited}"
    if verdict.word != claims.NOT_YET:
        told, compared, means = claims.headline(verdict, claims.judged(2, evidence), claims.second_study())
        cells = [list(compared.frame), ["---"] * compared.frame.shape[1], *compared.frame.to_numpy().tolist()]
        first = "\n".join([f"{claims.MAIN}<br>{told}<br>{compared.caption}", "", *(f"| {' | '.join(line)} |" for line in cells)])
    twins = tables.studies_of_table_1(evidence)
    twin, *_ = twins.values()
    heads = ["method", *(f"{c.label}, {' / '.join(['reported', *twins])}" for c in twin.columns)]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    marks = [twin.marks(twin.reported), *(one.marks(one.comparable) for one in twins.values())]
    for i, line in enumerate(twin.lines):
        cells = []
        for j in range(len(twin.columns)):
            texts = [f"{twin.reported[i, j]:.3f}", *(one.measured[i, j].text() for one in twins.values())]
            cells.append(" / ".join(MARKED[found.get((i, j))].format(text) for found, text in zip(marks, texts, strict=True)))
        lines.append(f"| {' | '.join([line.label + line.mark.replace('*', STAR), *cells])} |")
    mixed = tables.devices_said(evidence.shown.query("label_fraction == 0.01"))
    return [
        first,
        "",
        *lines,
        "",
        (tables.beside(twins).caption if len(twins) > 1 else twin.said).replace("*", STAR),
        *(part for told in (means, mixed) if told for part in ("", told)),
    ]


def write_answer(path: Path) -> None:
    """Put the answer into the README, between the lines that mark it; ValueError if these are not there."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{path} needs the lines {BEGIN} and {END}, between which the answer stands.")
    path.write_text("\n".join([f"{before}{BEGIN}", *answer(), f"{END}{after}"]), encoding="utf-8")


if __name__ == "__main__":
    for chapter in sorted(BOOK.glob("*.ipynb")):
        print(f"running {chapter.name}", flush=True)
        refresh(chapter)
    write_answer(BOOK.parent / "README.md")
