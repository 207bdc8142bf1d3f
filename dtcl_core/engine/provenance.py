"""Where a row comes from: a hash of the code that decided its numbers, the commit of that code, and the machine."""

from __future__ import annotations

import ast
import hashlib
import platform
import re
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from .device import is_accelerator, module_of

# The modules that decide a row's numbers: a change in the statements of one changes SOURCES.
NUMERIC_SOURCES = (
    "keyed", "data", "augment", "encoder", "losses", "logistic", "discriminator", "methods", "engine.streams",
    "engine.networks", "engine.groups", "engine.embedding", "pretrain", "evaluate", "engine.device", "engine.native",
    "engine.trunk", "engine.cuda", "engine.graph",
)  # fmt: skip


def statements(source: str) -> str:
    """Python source without docstrings, comment lines and blank lines, as if all modules of the package lay in one folder.

    So docstrings, lines of comment and moves of modules change no hash. A comment behind code does.
    """
    lines, nodes = source.splitlines(), list(ast.walk(ast.parse(source)))
    texts = [node for node in nodes if isinstance(node, (ast.Constant, ast.JoinedStr))]
    within = {n for text in texts for n in range(text.lineno + 1, (text.end_lineno or text.lineno) + 1)}
    aside = {n for n, line in enumerate(lines, 1) if line.lstrip().startswith("#")} - within
    for node in nodes:
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node, clean=False) is not None:
            words, *rest = node.body
            first, last = words.lineno, words.end_lineno or words.lineno
            alone = not lines[first - 1][: words.col_offset].strip() and all(n.lineno > last for n in rest)
            aside |= set(range(first, last + 1)) if alone else set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.level:
            names = ", ".join(f"{n.name} as {n.asname}" if n.asname else n.name for n in node.names)
            first, last = node.lineno - 1, node.end_lineno or node.lineno
            module = (node.module or "").rpartition(".")[2]
            lines[first:last] = [f"{' ' * node.col_offset}from .{module} import {names}"] + [""] * (last - first - 1)
    left = "\n".join(line for n, line in enumerate(lines, 1) if n not in aside and line.strip())
    return re.sub(r'files\("dtcl_core[.\w]*"\)', 'files("dtcl_core")', left)


def code_hash(modules: Sequence[str] = NUMERIC_SOURCES) -> str:
    """Twelve hexadecimal digits of the code of these modules, as it is on disk."""
    digest = hashlib.sha256()
    for module in modules:
        path = resources.files("dtcl_core") / f"{module.replace('.', '/')}.py"
        digest.update(statements(path.read_text(encoding="utf-8")).encode())
        if beside := {"engine.native": "engine/native.cpp", "engine.cuda": "engine/cuda.cu"}.get(module):
            digest.update((resources.files("dtcl_core") / beside).read_bytes())
    return digest.hexdigest()[:12]


SOURCES = code_hash()  # taken at import: a file may be edited while it runs
# What must be the same for a retrained row to be identical.
ORIGIN = ("sources", "torch", "device", "device_name", "instructions", "threads", "precision", "stack", "trunk")


@lru_cache(maxsize=1)
def cpu_name() -> str:
    """The name of the processor where it can be read, else its architecture."""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        if found := re.search(r"^model name.*?:(.*)$", text, re.MULTILINE):
            return found[1].strip()
    return platform.machine()


def machine(device: torch.device) -> dict[str, Any]:
    """Provenance of this machine and its versions; a `Stack` adds its trunk."""
    on_gpu = is_accelerator(device)
    return {
        "sources": SOURCES,
        "torch": str(torch.__version__),
        "device": device.type,
        "device_name": module_of(device).get_device_name(device) if on_gpu else cpu_name(),
        "instructions": None if on_gpu else torch.backends.cpu.get_cpu_capability(),
        "threads": None if on_gpu else torch.get_num_threads(),
    }


@lru_cache(maxsize=1)
def commit() -> str | None:
    """The git commit of the checkout this package runs from, with "+" if files of the package differ; None without one.

    It is read once a process, before training: later the files may be others.
    """
    root = str(Path(__file__).resolve().parents[1])

    def git(*arguments: str) -> str:
        command = ["git", "-C", root, *arguments]
        return subprocess.check_output(command, text=True, stderr=subprocess.DEVNULL, timeout=10).strip()

    try:
        git("ls-files", "--error-unmatch", "--", str(Path(__file__).resolve()))  # a copy in another checkout is none of its files
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "--", root) else "")
    except (OSError, subprocess.SubprocessError):
        return None
