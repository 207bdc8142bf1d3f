"""A Sphinx extension: under each figure that a chapter draws from rows, where it comes from and how to make it again.

Three links: to the cell that draws it, to the page's rows as a table (CSV, written when the book is built), and to the chapter's
commands. Buttons that open a chapter elsewhere need the repository's address, so without one there are none.
"""

import re
from pathlib import Path

from docutils import nodes

from dtcl_core.experiments import REGISTRY
from dtcl_core.report import findings, notebook

OF = {"intro": "claims", "effects": None}  # whose rows a page draws from, if it is no experiment's; None: all there are
PAGES = {*REGISTRY, *OF, "speed"}  # whose figures are drawn from rows, traces or encoders, or from files of benchmarks
WITH_FRESH = ("label_fractions", "main_table")  # pages that draw what was selected on fresh seeds too
FOLDER, COMMANDS = "rows", "rerun-it"
FILES = {  # of pages with figures that no row has: where to look instead
    "speed": ("files", "#which-code-was-measured"),
    "effective_temperature": ("rows", "execution.html#the-rows"),
    "encoders": ("rows", "execution.html#the-rows"),
}
DRAWN = {"intro": 1}  # figures at the head of a page that show no number


def is_output(node):
    return isinstance(node, nodes.container) and "cell_output" in node["classes"]


def add_links(app, doctree, docname):
    if app.builder.format != "html" or docname not in PAGES:
        return
    commands = any(COMMANDS in node["ids"] for node in doctree.findall(nodes.section))
    outputs = [node for node in doctree.findall(is_output) if any(node.findall(nodes.image))]
    for number, output in enumerate(outputs[DRAWN.get(docname, 0) :]):
        cell = output.parent
        while "cell" not in cell["classes"]:  # a hidden output has a node of its own around it
            cell = cell.parent
        cell["ids"].append(f"figure-{number}")
        links = [
            ("cell", f"#figure-{number}"),
            FILES.get(docname, ("rows", f"{FOLDER}/{docname}.csv")),
            *([("run it again", f"#{COMMANDS}")] if commands else []),
        ]
        line = nodes.paragraph(classes=["dtcl-source"])
        for place, (text, address) in enumerate(links):
            line += [nodes.Text(" · ")] * bool(place) + [nodes.reference("", text, refuri=address, internal=True)]
        output += line


def write_rows(app, error):
    """The rows of every page that draws from some, a line a run and label fraction."""
    if error or app.builder.format != "html":
        return
    folder = Path(app.outdir) / FOLDER
    folder.mkdir(exist_ok=True)
    for docname in sorted(PAGES & app.env.found_docs - {*FILES}):
        source = Path(app.env.doc2path(docname)).read_text()
        asked = re.search(r'preset: str = \\?"(\w+)', source)
        preset = asked[1] if asked else findings.PRESET
        rows = notebook.rows_behind(OF.get(docname, docname), preset, docname in WITH_FRESH)
        rows.to_csv(folder / f"{docname}.csv", index=False)


def drop_buttons(app, config):
    if not config.html_theme_options.get("repository_url"):
        config.html_theme_options.pop("launch_buttons", None)


def setup(app):
    app.connect("config-inited", drop_buttons)
    app.connect("doctree-resolved", add_links)
    app.connect("build-finished", write_rows)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
