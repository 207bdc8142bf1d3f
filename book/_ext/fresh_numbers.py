"""Sphinx extension: read every page again when the library or the results changed.

Sphinx rereads a page when the page's own file changed. A chapter's numbers also come from `dtcl_core`, `dtcl_study` and from the stored
rows, so without this an incremental build would go on showing old ones. Rows are stored in `results/`, or in $DTCL_RESULTS.
"""

import hashlib
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (
    "dtcl_core/**/*.py",
    "dtcl_core/**/*.cpp",
    "dtcl_core/**/*.cu",
    "dtcl_core/**/*.npz",
    "dtcl_study/**/*.py",
    "dtcl_study/**/*.csv",
    "dtcl_study/**/*.json",
    "dtcl_study/**/*.md",
    "benchmarks/*.csv",
)
RESULTS = ("rows/*.jsonl", "traces/*.json", "encoders/*.npz")


def fingerprint() -> str:
    """A hash of everything but the pages that decides what the pages show."""
    store = Path(os.environ.get("DTCL_RESULTS") or ROOT / "results").resolve()
    digest = hashlib.sha256(str(store).encode())
    places = [(ROOT, pattern) for pattern in SOURCES] + [(store, pattern) for pattern in RESULTS]
    for path in sorted(path for folder, pattern in places for path in folder.glob(pattern)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def outdated(app, env, added, changed, removed):
    now = fingerprint()
    before, env.dtcl_fingerprint = getattr(env, "dtcl_fingerprint", None), now
    return sorted(env.found_docs) if now != before else []


def setup(app):
    app.connect("env-get-outdated", outdated)
    return {"parallel_read_safe": True}
