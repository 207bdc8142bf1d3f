"""Shared by all tests: small protocols, no other machine, and one thread a worker so that workers do not fight for cores."""

import os
import shutil
import signal
import socket
import sys
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

import pytest
import simulated
import torch

from dtcl_core import pretrain
from dtcl_core.config import Protocol, Run

if os.environ.get("PYTEST_XDIST_WORKER"):
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # for the notebooks' kernels

SIMULATED = "DTCL_SIMULATED"  # set for the process that has a simulated device; see `test_simulated_process`
if os.environ.get(SIMULATED):
    with suppress(simulated.Unavailable):  # PyTorch counts its devices once, at the first backward pass of a process
        simulated.register()
collect_ignore = [] if os.environ.get(SIMULATED) else ["engine/test_simulated_device.py"]

# What keeps a process on this machine. Python runs a `sitecustomize` on PYTHONPATH at its start, so kernels, builds of the
# book, trainers and command lines that a test starts are kept here too; one that stood there before is run as well.
# Rare garbage collections, and none when a notebook's kernel ends, save a fifth of the time in which a process imports PyTorch and pandas.
OFFLINE = """
import atexit, gc, importlib.machinery, importlib.util, os, socket, sys

gc.set_threshold(100_000, 50, 50)
atexit.register(lambda: "ipykernel" in sys.modules and "triton" not in sys.modules and gc.freeze())  # Triton would complain

def kept_here(real):
    def checked(self, *arguments):
        told = arguments[-1]
        if self.family in (socket.AF_INET, socket.AF_INET6) and told[0] not in OWN and not str(told[0]).startswith("127."):
            raise OSError(f"a test tried to reach {told[0]}")
        return real(self, *arguments)
    return checked

for name in ("connect", "connect_ex", "sendto"):
    setattr(socket.socket, name, kept_here(getattr(socket.socket, name)))

def sends(real):
    def checked(self, buffers, ancdata=(), flags=0, address=None):
        return real(self, buffers, ancdata, flags) if address is None else kept_here(real)(self, buffers, ancdata, flags, address)
    return checked

socket.socket.sendmsg = sends(socket.socket.sendmsg)
"""
CHAIN = """
others = [path for path in sys.path if os.path.abspath(path) != os.path.dirname(os.path.abspath(__file__))]
spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
if spec is not None and spec.loader is not None:
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
"""


def own_addresses() -> list[str]:
    """Names and addresses of this machine."""
    found = ["localhost", "::1", "", "0.0.0.0", "::"]
    with suppress(OSError):
        found += socket.gethostbyname_ex(socket.gethostname())[2]
    with (
        suppress(OSError),
        socket.socket(type=socket.SOCK_DGRAM) as probe,
    ):  # sends nothing, and tells which address would
        probe.connect(("198.51.100.1", 9))
        found.append(probe.getsockname()[0])
    return found


def pytest_configure(config):
    own = f"OWN = {own_addresses()!r}\n"
    exec(own + OFFLINE, {})
    if "DTCL_TESTS_OFFLINE" in os.environ:  # a worker of pytest-xdist: its children inherit the folder
        return
    folder = tempfile.mkdtemp(prefix="dtcl-offline-")
    (Path(folder) / "sitecustomize.py").write_text(own + OFFLINE + CHAIN)
    before = os.environ.get("PYTHONPATH")
    os.environ["DTCL_TESTS_OFFLINE"] = folder
    for name in ("http_proxy", "https_proxy", "all_proxy"):  # for git and others that are not Python
        os.environ[name] = os.environ[name.upper()] = "http://127.0.0.1:9"
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = "localhost,127.0.0.1,::1"
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *([before] if before else [])])
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.fixture(scope="session")
def tiny() -> Protocol:
    """Small splits and networks: an epoch of three steps takes a fraction of a second."""
    return Protocol(split_sizes=(224, 40, 40, 40), batch_size=64, channels=(8, 8, 8), epochs=2, label_draws=3)


@pytest.fixture
def all_methods(tiny) -> list[Run]:
    """One run of every method, both discriminators and two seeds among them."""
    return [
        Run("standard", 0.2, protocol=tiny),
        Run("standard", 0.1, protocol=tiny),
        Run("standard", 0.1, seed=1, protocol=tiny),
        Run("same_domain", 0.2, protocol=tiny),
        Run("same_domain", 0.4, protocol=tiny),
        Run("mmd", 0.2, lambda_=1.0, protocol=tiny),
        Run("mmd", 0.3, lambda_=5.0, protocol=tiny),
        Run("dann", 0.2, lambda_=0.5, protocol=tiny),
        Run("dann", 0.3, lambda_=2.0, protocol=tiny),
        Run("dann", 0.2, lambda_=0.5, seed=1, sigma=25, protocol=tiny),
        Run("dw_negatives", 0.2, 0.1, protocol=tiny),
        Run("dw_negatives", 0.3, 0.3, protocol=tiny),
        Run("dw_pairs", 0.2, 0.1, protocol=tiny),
        Run("dw_pairs", 0.3, 0.3, protocol=tiny),
        Run("dw_pairs", 0.2, 0.1, discriminator="batch", seed=1, protocol=tiny),
        Run("dw_pairs", 0.3, 0.3, discriminator="batch", seed=1, protocol=tiny),
        Run("color_jitter", 0.2, protocol=tiny),
        Run("color_jitter", 0.3, protocol=tiny),
    ]


class Reached(BaseException):
    """Training would begin here."""


@pytest.fixture
def handlers():
    """Signal handlers and the way of showing warnings are given back after the test: the command line sets its own."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    shown = warnings.showwarning
    yield
    warnings.showwarning = shown
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def nothing_trains(tmp_path, monkeypatch, handlers):
    """An empty store, and what is raised where training would begin."""

    def reached(*_, **__):
        raise Reached

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DTCL_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(pretrain, "train", reached)
    return Reached


@pytest.fixture(autouse=True)
def fresh_compiler():
    """Graphs of other tests do not count towards the compiler's limit of variants of one function."""
    yield
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()
