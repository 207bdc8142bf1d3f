"""A Sphinx extension: under each figure that a chapter draws from rows, where it comes from and how to make it again.

Three links: to the cell that draws it, to the rows, and to the chapter's commands. Buttons that open a chapter elsewhere need the
repository's address, so without one there are none.
"""

from docutils import nodes

from dtcl_core.experiments import REGISTRY

PAGES = {*REGISTRY, "effects", "intro", "speed"}  # whose figures are drawn from rows, or from files of benchmarks
ROWS, COMMANDS = ("rows", "execution.html#the-rows"), "rerun-it"
FILES = {"speed": ("files", "#which-code-was-measured")}
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
            FILES.get(docname, ROWS),
            *([("run it again", f"#{COMMANDS}")] if commands else []),
        ]
        line = nodes.paragraph(classes=["dtcl-source"])
        for place, (text, address) in enumerate(links):
            line += [nodes.Text(" · ")] * bool(place) + [nodes.reference("", text, refuri=address, internal=True)]
        output += line


def drop_buttons(app, config):
    if not config.html_theme_options.get("repository_url"):
        config.html_theme_options.pop("launch_buttons", None)


def setup(app):
    app.connect("config-inited", drop_buttons)
    app.connect("doctree-resolved", add_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
