"""Put the project in one file that can be deposited: code, pages, rows, traces, trained encoders, figures, licences, versions.

    python book/archive.py dist/dtcl.tar.gz

The file holds what git has at this commit, the encoders that rows name and that are here, each chapter's figures as PDF and SVG,
the versions that drew them, and a checksum of everything (`sha256sum -c SHA256SUMS`). With the same content it is the same file.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import platform
import subprocess
import sys
import tarfile
import tempfile
from importlib import metadata
from pathlib import Path

import nbformat
import papermill

import dtcl_core
from dtcl_core.files import write_whole
from dtcl_core.results import Store
from dtcl_study.chapter import assigned_names

BOOK = Path(__file__).resolve().parent
ROOT = BOOK.parent
NAME = f"dtcl-{dtcl_core.__version__}"  # the folder that it unpacks into


def git(*arguments: str) -> str:
    """What git says about the checkout.

    Raises:
        ValueError: if this is not one.
    """
    try:
        return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        raise ValueError("an archive is made from a checkout of the repository, and this is none.") from None


def committed() -> list[Path]:
    """The files that git has, as they are here.

    Raises:
        ValueError: if one of them was changed, or this is no checkout.
    """
    if changed := git("status", "--porcelain", "--untracked-files=no").splitlines():
        raise ValueError(f"{len(changed)} files differ from the commit; commit them first.")
    return [ROOT / name for name in git("ls-files", "-z").split("\0") if name]


def encoders(store: Store) -> tuple[list[Path], int]:
    """The files of encoders that rows name and that are here, and how many are not."""
    names = {(row.get("encoder") or {}).get("file") for row in store.rows().values()} - {None}
    here = [path for name in sorted(names) if (path := store.encoders_path / name).is_file()]
    return here, len(names) - len(here)


def draw(folder: Path) -> None:
    """Every figure of every chapter that saves its own, as PDF and SVG."""
    for chapter in sorted(BOOK.glob("*.ipynb")):
        cells = nbformat.read(chapter, as_version=4).cells
        (own,) = [cell.source for cell in cells if "parameters" in cell.metadata.get("tags", [])]
        if "save" in assigned_names(own):
            print(f"drawing {chapter.stem}", flush=True)
            papermill.execute_notebook(
                str(chapter), None, {"save": str(folder)}, cwd=str(BOOK), progress_bar=False, log_output=False
            )


def versions() -> str:
    """Python and every package that is installed, a line each; first the commit."""
    found = sorted({f"{d.metadata['Name']}=={d.version}" for d in metadata.distributions()}, key=str.lower)
    head = [f"commit {git('rev-parse', 'HEAD').strip()}", f"Python {platform.python_version()}"]
    return "\n".join([*head, *found]) + "\n"


def write(target: Path, figures: bool = True) -> str:
    """Write the archive, whole or not at all; returns a line that says what is in it.

    Args:
        target: a `.tar.gz` to be.
        figures: whether to draw them, which takes minutes.

    Raises:
        ValueError: if the checkout differs from its commit, or is none.
        OSError: if the archive cannot be written.
    """
    contents = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in committed() if path.is_file()}
    store = Store(ROOT / "results")
    kept, missing = encoders(store)
    contents |= {f"results/encoders/{path.name}": path.read_bytes() for path in kept}
    with tempfile.TemporaryDirectory() as folder:
        if figures:
            draw(Path(folder))
        drawn = sorted(Path(folder).iterdir())
        contents |= {f"figures/{path.name}": path.read_bytes() for path in drawn}
    contents["VERSIONS"] = versions().encode()
    sums = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(contents.items())]
    contents["SHA256SUMS"] = "".join(sums).encode()
    when = int(git("log", "-1", "--format=%ct"))
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(contents.items()):
            member = tarfile.TarInfo(f"{NAME}/{name}")
            member.size, member.mtime, member.mode = len(content), when, 0o755 if name == ".ci/run" else 0o644
            archive.addfile(member, io.BytesIO(content))
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(gzip.compress(memory.getvalue(), mtime=0), target)  # without the time of day
    rows = len(store.rows())
    return (
        f"{target}: {len(contents)} files, {target.stat().st_size / 2**20:.1f} MiB; {rows} rows, {len(kept)} files of encoders"
        f" ({missing} named by rows are not here), {len(drawn)} of figures"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", type=Path, help="the .tar.gz to write")
    parser.add_argument("--no-figures", action="store_true", help="leave the figures out: they take minutes to draw")
    options = parser.parse_args()
    try:
        print(write(options.target, not options.no_figures))
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
