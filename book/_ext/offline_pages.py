"""A Sphinx extension: pages that need no network and raise no error in a browser.

Thebe (live cells on a remote server) is not used here; the theme declares its settings twice, which is a syntax error, and would fetch it
from elsewhere.
"""


def drop_thebe(app, pagename, templatename, context, doctree):
    def belongs(script):
        return "thebe" in f"{getattr(script, 'filename', script)} {getattr(script, 'attributes', {}).get('body', '')}".lower()

    context["script_files"] = [script for script in context.get("script_files", []) if not belongs(script)]


def setup(app):
    app.connect("html-page-context", drop_thebe, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
