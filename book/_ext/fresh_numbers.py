"""Sphinx extension: read every page again when the library or the results changed.

Sphinx rereads a page when the page's own file changed. A chapter's numbers also come from `dtcl_core` and from the stored
rows, so without this an incremental build would go on showing old ones.
"""

import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (
    "dtcl_core/*.*",
    "results/*.csv",
    "results/rows/*.jsonl",
    "results/traces/*.json",
    "benchmarks/*.csv",
    "tests/test_properties.py",  # its counts are shown
)


def fingerprint() -> str:
    """A hash of everything but the pages that decides what the pages show."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in SOURCES for path in ROOT.glob(pattern)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def outdated(app, env, added, changed, removed):
    now = fingerprint()
    before, env.dtcl_fingerprint = getattr(env, "dtcl_fingerprint", None), now
    return sorted(env.found_docs) if now != before else []


def setup(app):
    app.connect("env-get-outdated", outdated)
    return {"parallel_read_safe": True}
