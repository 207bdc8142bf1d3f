"""A Sphinx extension: pages are read on all cores, so that chapters run beside each other.

Sphinx can read pages in several processes, an option that `jupyter-book build` does not pass on, and does it only where every
extension says that it may. Those of `SILENT` say nothing and keep nothing of a page that another needs. Elsewhere than on Linux a
fork of a process that has loaded PyTorch is not safe, and pages are read one after another.
"""

import os
import sys

SILENT = ("sphinx_multitoc_numbering", "sphinx-mathjax-offline", "sphinx_jupyterbook_latex")
MOST = 8  # a chapter's process takes about a gigabyte


def share(app, config):
    if sys.platform != "linux":
        return
    app.parallel = min(len(os.sched_getaffinity(0)), MOST)
    for name in SILENT:
        if name in app.extensions and app.extensions[name].parallel_read_safe is None:
            app.extensions[name].parallel_read_safe = True


def setup(app):
    app.connect("config-inited", share)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
