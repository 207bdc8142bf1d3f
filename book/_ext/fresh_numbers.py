"""Sphinx extension: read every page again when the library or the results changed.

Sphinx rereads a page when the page's own file changed. A chapter's numbers also come from `dtcl_core` and from the stored
rows, so without this an incremental build would go on showing old ones.
"""

import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def fingerprint() -> str:
    """A hash of everything but the pages that decides what the pages show."""
    digest = hashlib.sha256()
    for path in sorted([*ROOT.glob("dtcl_core/*.*"), *ROOT.glob("results/rows/*.jsonl")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def outdated(app, env, added, changed, removed):
    now = fingerprint()
    before, env.dtcl_fingerprint = getattr(env, "dtcl_fingerprint", None), now
    return sorted(env.found_docs) if now != before else []


def setup(app):
    app.connect("env-get-outdated", outdated)
    return {"parallel_read_safe": True}
