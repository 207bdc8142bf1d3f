"""A Sphinx extension: pages are read on all cores, so that chapters run beside each other.

Sphinx can read pages in several processes, an option that `jupyter-book build` does not pass on, and does it only where every
extension says that it may. Those loaded here that say nothing keep nothing from page to page. Elsewhere than on Linux a fork of a
process that has loaded PyTorch is not safe, and pages are read one after another.
"""

import os
import sys

MOST = 8  # a chapter's process takes about a gigabyte


def share(app, config):
    if sys.platform != "linux":
        return
    app.parallel = min(len(os.sched_getaffinity(0)), MOST)
    for extension in app.extensions.values():
        if extension.parallel_read_safe is None:
            extension.parallel_read_safe = True


def setup(app):
    app.connect("config-inited", share)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
