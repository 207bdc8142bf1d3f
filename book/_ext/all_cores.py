"""A Sphinx extension: pages are read on all cores, so that chapters run beside each other.

Sphinx can read pages in several processes, an option that `jupyter-book build` does not pass on, and does it only where every
extension says that it may. Those of `SILENT` say nothing and keep nothing of a page that another needs. Elsewhere than on Linux a
fork of a process that has loaded PyTorch is not safe, and pages are read one after another.
"""

import atexit
import multiprocessing
import multiprocessing.util
import os
import sys

from sphinx.errors import SphinxParallelError

SILENT = ("sphinx_multitoc_numbering", "sphinx-mathjax-offline", "sphinx_jupyterbook_latex")
MOST = 8  # a chapter's process takes about a gigabyte


def share(app, config):
    if sys.platform != "linux":
        return
    app.parallel = min(len(os.sched_getaffinity(0)), MOST)
    for name in SILENT:
        if name in app.extensions and app.extensions[name].parallel_read_safe is None:
            app.extensions[name].parallel_read_safe = True


def told(error):
    """The error with its traceback, which Sphinx has and leaves out: it names the cell and the line that failed."""
    return f"{error.message}\n{error.traceback}"


def end():
    """Ends the readers of other pages when one has failed: asked to end, they would wait for their chapter, for up to an hour."""
    for reader in multiprocessing.active_children():
        reader.kill()


def setup(app):
    SphinxParallelError.__str__ = told
    atexit.register(end)  # after `multiprocessing.util`, and so called before it waits for them
    app.connect("config-inited", share)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
