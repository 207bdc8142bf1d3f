"""A Sphinx extension: under each figure that a chapter draws from rows, where it comes from and how to make it again.

Three links: to the cell that draws it, to the page's rows as a table (CSV, written when the book is built), and to the chapter's
commands; a page without commands says its command there. Buttons that open a chapter elsewhere need the repository's address, so without one there are none.
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
COMMAND = "python -m dtcl_core run {} --preset " + findings.PRESET
FILES = {"speed": ("files", "#which-code-was-measured")}  # of pages with figures that no row has: where to look instead
BESIDE = {  # what else figures of a page are drawn from, and where the book says where that lies
    "effective_temperature": ("traces", "execution.html#the-rows"),
    "encoders": ("encoders", "execution.html#the-rows"),
}
PLOT = 'role="img"'  # in the HTML of an interactive figure, see `interactive.Page`
DRAWN = {"intro": 1}  # figures at the head of a page that show no number


def is_figure(node):
    """Whether a node is the output of a cell that draws: a picture, or a figure to turn."""
    if not (isinstance(node, nodes.container) and "cell_output" in node["classes"]):
        return False
    return any(node.findall(nodes.image)) or any(PLOT in raw.astext() for raw in node.findall(nodes.raw))


def again(docname, commands):
    """The last part of the line: a link to the page's commands, or the command."""
    if commands:
        return [nodes.reference("", "run it again", refuri=f"#{COMMANDS}", internal=True)]
    command = COMMAND.format(OF.get(docname) or docname)
    return [nodes.Text("again: "), nodes.literal("", command)] if docname in {*REGISTRY, *OF} else []


def add_links(app, doctree, docname):
    if app.builder.format != "html" or docname not in PAGES:
        return
    commands = any(COMMANDS in node["ids"] for node in doctree.findall(nodes.section))
    outputs = list(doctree.findall(is_figure))
    for number, output in enumerate(outputs[DRAWN.get(docname, 0) :]):
        cell = output.parent
        while "cell" not in cell["classes"]:  # a hidden output has a node of its own around it
            cell = cell.parent
        cell["ids"].append(f"figure-{number}")
        links = [("cell", f"#figure-{number}"), FILES.get(docname, ("rows", f"{FOLDER}/{docname}.csv"))]
        links += [BESIDE[docname]] if docname in BESIDE else []
        parts = [[nodes.reference("", text, refuri=address, internal=True)] for text, address in links]
        line = nodes.paragraph(classes=["dtcl-source"])
        for place, part in enumerate([*parts, *filter(None, [again(docname, commands)])]):
            line += [nodes.Text(" · ")] * bool(place) + part
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
