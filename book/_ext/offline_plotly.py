"""A Sphinx extension: one copy of plotly's script in the built book, so that interactive figures need no network."""

import shutil
from pathlib import Path


def copy_script(app, exception):
    if exception is None and app.builder.format == "html":
        import plotly

        target = Path(app.outdir) / "_static" / "plotly.min.js"
        shutil.copyfile(Path(plotly.__file__).parent / "package_data" / "plotly.min.js", target)


def setup(app):
    app.connect("build-finished", copy_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
