"""Where a number comes from: a hash of the code that decided it, and the commit that code belongs to."""

from __future__ import annotations

import hashlib
import subprocess
from functools import lru_cache
from importlib import resources
from pathlib import Path

# What a row's numbers depend on: a change in one of these files changes SOURCES.
NUMERIC_SOURCES = (
    "keyed",
    "data",
    "augment",
    "encoder",
    "losses",
    "logistic",
    "discriminator",
    "methods",
    "streams",
    "pretrain",
    "evaluate",
)


def sources_hash() -> str:
    """Twelve hexadecimal digits that stand for the code that decides numbers, as it is on disk."""
    digest = hashlib.sha256()
    for module in NUMERIC_SOURCES:
        digest.update((resources.files("dtcl_core") / f"{module}.py").read_bytes())
    return digest.hexdigest()[:12]


SOURCES = sources_hash()  # taken when the code is imported: a file may be edited while it runs


@lru_cache(maxsize=1)
def commit() -> str | None:
    """The git commit of the checkout this package runs from, with "+" if files differ from it; None without one."""
    root = Path(__file__).resolve().parent

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=10
        )
        return done.stdout.strip()

    try:
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "--", str(root)) else "")
    except (OSError, subprocess.SubprocessError):
        return None
