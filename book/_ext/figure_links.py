"""A Sphinx extension: under each figure that a chapter draws from rows, where it comes from and how to make it again.

Links: to the cell that draws it, to the page's rows as a table (CSV, written when the book is built), and to the chapter's
commands. A chapter without figures links its rows where it says how to run it again. Buttons that open a chapter elsewhere need the
repository's address, so without one there are none.
"""

from pathlib import Path

import pandas as pd
from docutils import nodes

from dtcl_study.experiments import REGISTRY
from dtcl_study.study import Study

EXPERIMENTS_OF = {name: [name] for name in REGISTRY} | {
    name: [name, "fresh"] for name in ("sigma_ablation", "label_fractions", "global_vs_batch")
}
EXPERIMENTS_OF |= {
    "main_table": ["main_table", "fresh"],
    "model_selection": ["model_selection", "other_selection", "fresh"],
    "why": ["other_temperatures", "main_table", "fresh"],
    "choices": ["choices", "fresh", "left_open", "retuned", "dropout_grid", "dropout_fresh"],
}
FOLDER, COMMANDS = "rows", "rerun-it"


def is_figure(node):
    """Whether a node is the output of a cell that draws."""
    return isinstance(node, nodes.container) and "cell_output" in node["classes"] and any(node.findall(nodes.image))


def linked(*links):
    """A line of links, each a text and an address."""
    line = nodes.paragraph(classes=["dtcl-source"])
    for place, (text, address) in enumerate(links):
        line += [nodes.Text(" · ")] * bool(place) + [nodes.reference("", text, refuri=address, internal=True)]
    return line


def add_links(app, doctree, docname):
    if app.builder.format != "html" or docname not in EXPERIMENTS_OF:
        return
    data = ("data (CSV)", f"{FOLDER}/{docname}.csv")
    commands = [node for node in doctree.findall(nodes.section) if COMMANDS in node["ids"]]
    drawn = list(doctree.findall(is_figure))
    for number, output in enumerate(drawn):
        cell = output.parent
        while "cell" not in cell["classes"]:  # a hidden output has a node of its own around it
            cell = cell.parent
        cell["ids"].append(f"figure-{number}")
        output += linked(("code", f"#figure-{number}"), data, *[("rerun", f"#{COMMANDS}")] * bool(commands))
    if commands and not drawn:
        commands[0] += linked(data)


def write_rows(app, error):
    """The rows of every page that draws from some, one row per run and label fraction."""
    if error or app.builder.format != "html":
        return
    folder = Path(app.outdir) / FOLDER
    folder.mkdir(exist_ok=True)
    for docname in sorted(EXPERIMENTS_OF.keys() & app.env.found_docs):
        frames = [Study(name, "paper", quiet=True).frame for name in EXPERIMENTS_OF[docname]]
        rows = pd.concat(frames, ignore_index=True).drop_duplicates(["key", "label_fraction"])
        rows.to_csv(folder / f"{docname}.csv", index=False)


def drop_buttons(app, config):
    if not config.html_theme_options.get("repository_url"):
        config.html_theme_options.pop("launch_buttons", None)


def setup(app):
    app.connect("config-inited", drop_buttons)
    app.connect("doctree-resolved", add_links)
    app.connect("build-finished", write_rows)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
