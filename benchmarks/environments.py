"""Try the library's own tests, from its wheel in an empty environment, on another Python and PyTorch.

    python benchmarks/environments.py python3.13 2.6.0 0.21.0   # an interpreter, PyTorch, torchvision

Runs `make test-library` in a clean clone of the commit at hand and adds a line to `environments.csv`, which the book shows.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

import pandas as pd

HERE = Path(__file__).resolve().parent
OUT = HERE / "environments.csv"
OUTCOMES = ("passed", "skipped", "failed", "errors")


def output(*command: str, cwd: Path = HERE) -> str:
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


def outcomes(log: str) -> dict[str, int]:
    """How many tests passed, were skipped and failed, from pytest's last line.

    Raises:
        ValueError: if no tests were run to the end.
    """
    lines = [line for line in log.splitlines() if re.search(r"\d+ (passed|failed|errors?)\b.* in [\d.]+s", line)]
    if not lines:
        raise ValueError("no tests were run: the end of what make said is above.")
    found = {name: int(count) for count, name in re.findall(r"(\d+) (\w+)", lines[-1])}
    found["errors"] = found.get("errors", 0) + found.pop("error", 0)
    return {name: found.get(name, 0) for name in OUTCOMES}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("python", "torch", "torchvision"):
        parser.add_argument(name)
    options = parser.parse_args(arguments)
    options.python = shutil.which(options.python) or parser.error(f"there is no {options.python}.")
    options.python = str(Path(options.python).absolute())
    version = output(options.python, "-c", "import platform; print(platform.python_version())")
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "dtcl"
        output("git", "clone", "--quiet", str(HERE.parent), str(clone))
        versions = [f"PYTHON={options.python}", f"TORCH={options.torch}", f"TORCHVISION={options.torchvision}"]
        done = subprocess.run(["make", "test-library", *versions], cwd=clone, capture_output=True, text=True)
        commit = output("git", "rev-parse", "--short=12", "HEAD", cwd=clone)
    try:
        found = outcomes(done.stdout)
    except ValueError:
        print(done.stdout[-2000:], done.stderr[-2000:], sep="\n")
        raise
    row = {"python": version, "torch": options.torch, "torchvision": options.torchvision, **found, "commit": commit,
           "date": date.today().isoformat()}  # fmt: skip
    rows = pd.read_csv(OUT, dtype=str) if OUT.exists() else None
    pd.concat([rows, pd.DataFrame([row])], ignore_index=True).to_csv(OUT, index=False)
    print(row)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
