"""The package as others meet it: its names, what importing it costs, its types, and its wheel."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import dtcl_core

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("pandas", "scipy", "matplotlib", "seaborn", "sklearn", "torchvision", "tqdm", "dtcl_study")
USE = """
import json, sys
import torch, numpy
torches = set(sys.modules)
import dtcl_core
bare = [m for m in set(sys.modules) - torches if not m.startswith("dtcl_core")]
loss_fn = dtcl_core.DomainWeightedInfoNCELoss(num_domains=2, chunk_size=4)
z0, z1, domains = torch.randn(8, 4).requires_grad_(), torch.randn(8, 4), torch.arange(8) % 2
loss_fn(z0, z1, domains).backward()
dtcl_core.LinearDiscriminator(2).fit(z1, domains)
dtcl_core.MLPDiscriminator(2, steps=2).fit(z1, domains)
dtcl_core.MMDPenalty(2)(z0, domains) + dtcl_core.DomainAdversary(4, 2)(z0, domains)
print(json.dumps([bare, sorted({m.partition(".")[0] for m in set(sys.modules) - torches})]))
"""


def test_the_losses_ask_for_nothing_but_torch_and_numpy():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {Requirement(line).name for line in project["dependencies"]} == {"torch", "numpy"}


def test_public_names_are_found_and_others_are_not():
    for name in dtcl_core.__all__:
        assert getattr(dtcl_core, name).__name__ == name and name in dir(dtcl_core)
    with pytest.raises(AttributeError, match="has no attribute 'InfoNCE'"):
        dtcl_core.InfoNCE


def test_the_exact_environment_names_every_package_that_is_asked_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [
        *project["dependencies"],
        *project["optional-dependencies"]["study"],
        *project["optional-dependencies"]["book"],
        *project["optional-dependencies"]["test"],
    ]
    exact = (Requirement(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if line[:1].isalnum())
    versions = {canonicalize_name(r.name): next(iter(r.specifier)).version for r in exact}
    for requirement in map(Requirement, asked):
        if requirement.name != "dtcl":
            assert versions[canonicalize_name(requirement.name)] in requirement.specifier, requirement


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The package as a wheel installs it, in a folder of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.rmtree(ROOT / "build", ignore_errors=True)  # modules that have moved since would be packaged again
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
    (wheel,) = folder.glob("dtcl-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.fixture(scope="module")
def mypy(tmp_path_factory):
    """Runs the type checker; torch's own types are read once for all tests."""
    cache = tmp_path_factory.mktemp("mypy")

    def run(*arguments, cwd, **environment):
        command = [sys.executable, "-m", "mypy", "--cache-dir", str(cache), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=os.environ | environment, check=False)
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=" ".join)
def test_style_holds(command):
    ruff = Path(sys.executable).parent / "ruff"
    done = subprocess.run([str(ruff), *command, "--quiet", "--no-cache", str(ROOT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_types_hold(mypy):
    status, said = mypy(cwd=ROOT)
    assert status == 0, said


def test_a_users_types_are_checked(mypy, site, tmp_path):
    (tmp_path / "user.py").write_text(
        "from dtcl_core import InfoNCELoss\nloss_fn = InfoNCELoss('low')\nx: int = loss_fn.extra_repr()\n"
    )
    _, said = mypy(
        "user.py", "--config-file", ROOT / "pyproject.toml", cwd=tmp_path, MYPYPATH=str(site)
    )  # so that the cache serves
    assert 'incompatible type "str"; expected "float | Tensor' in said and "Incompatible types in assignment" in said


def test_the_wheel_holds_what_is_needed_and_works_alone(site, tmp_path):
    for package in ("dtcl_core", "dtcl_study"):
        folder, installed = ROOT / package, site / package
        here = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}
        there = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
        assert here == there
    assert all(
        (site / name).exists()
        for name in (
            "dtcl_core/engine/native.cpp",
            "dtcl_core/engine/cuda.cu",
            "dtcl_core/mnist_3v5.npz",
            "dtcl_study/reported.csv",
            "dtcl_study/headline.md",
        )
    )
    assert {path.name for path in site.iterdir()} == {"dtcl_core", "dtcl_study", next(site.glob("*.dist-info")).name}
    tags = next(site.glob("*.dist-info/WHEEL")).read_text()
    assert "Root-Is-Purelib: true" in tags and "Tag: py3-none-any" in tags, "compiled where it is used"
    told = next(site.glob("*.dist-info/METADATA")).read_text()
    assert "License-Expression: MIT AND CC-BY-SA-3.0\n" in told and f"\nVersion: {dtcl_core.__version__}\n" in told
    assert {path.name for path in site.glob("*.dist-info/licenses/*")} == {"LICENSE", "LICENSE-digits"}
    code = f"import sys; sys.path.insert(0, {str(site)!r})\n{USE}\nassert dtcl_core.__file__.startswith({str(site)!r})"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    bare, used = json.loads(done.stdout.splitlines()[-1])
    assert not bare, "importing the package imports nothing but itself"
    assert not set(used) & set(HEAVY), "the losses need nothing but torch and numpy"
