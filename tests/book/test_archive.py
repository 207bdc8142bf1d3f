"""The archive is enough: unpacked anywhere, it holds what its checksums say and gives the README's answer again."""

import hashlib
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def archive(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book")
    import archive

    return archive


@pytest.fixture
def checkout(archive, monkeypatch):
    """The files of the checkout as they are, whether or not they are committed while one works on them."""
    found = archive.git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    monkeypatch.setattr(archive, "committed", lambda: [ROOT / name for name in found if name])


def test_the_answer_is_given_by_the_archive_alone(archive, checkout, tmp_path):
    said = archive.write(tmp_path / "one.tar.gz", figures=False)
    assert str(tmp_path / "one.tar.gz") in said and " 0 rows" not in said
    archive.write(tmp_path / "two.tar.gz", figures=False)
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "one.tar.gz") as packed:
        packed.extractall(tmp_path / "elsewhere", filter="data")
    (folder,) = (tmp_path / "elsewhere").iterdir()
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    for line in lines:
        told, name = line.split("  ", 1)
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == told, name
    held = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert held == {line.split("  ", 1)[1] for line in lines} | {"SHA256SUMS"}
    assert {"LICENSE", "LICENSE-digits", "VERSIONS", "README.md", "book/intro.md", "dtcl_core/mnist_3v5.npz"} <= held
    assert any(name.startswith("results/rows/") for name in held)

    environment = {k: v for k, v in os.environ.items() if k not in ("DTCL_RESULTS", "PYTHONPATH")}
    script = "import dtcl_core, refresh; print(dtcl_core.__file__); refresh.write_answer(refresh.BOOK.parent / 'README.md')"
    told = (folder / "README.md").read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": os.pathsep.join([str(folder), str(folder / "book")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).parent == folder / "dtcl_core"
    assert (folder / "README.md").read_bytes() == told == (ROOT / "README.md").read_bytes()


def test_an_archive_is_of_a_commit_and_nothing_else(archive, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "git", lambda *arguments: " M README.md\n" if arguments[0] == "status" else "")
    with pytest.raises(ValueError, match="1 files differ from the commit"):
        archive.write(tmp_path / "a.tar.gz")
    monkeypatch.undo()
    monkeypatch.syspath_prepend(ROOT / "book")
    monkeypatch.setattr(archive, "ROOT", tmp_path)
    with pytest.raises(ValueError, match="made from a checkout"):
        archive.write(tmp_path / "a.tar.gz")
    assert not (tmp_path / "a.tar.gz").exists()


def test_encoders_that_are_not_here_are_counted(archive, tmp_path):
    class Kept:
        encoders_path = tmp_path

        def rows(self):
            return {"a": {"encoder": {"file": "x.npz"}}, "b": {"encoder": {"file": "y.npz"}}, "c": {"encoder": None}}

    (tmp_path / "x.npz").write_bytes(b"x")
    assert archive.encoders(Kept()) == ([tmp_path / "x.npz"], 1)
