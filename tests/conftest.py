"""Shared by all tests: small protocols, and one thread a worker so that parallel tests do not fight for cores."""

import os
import signal
import warnings

import pytest
import torch

from dtcl_core import pretrain
from dtcl_core.config import Protocol, Run

if os.environ.get("PYTEST_XDIST_WORKER"):
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # for the notebooks' kernels


@pytest.fixture
def tiny() -> Protocol:
    """Small splits and networks: an epoch of three steps takes a fraction of a second."""
    return Protocol(split_sizes=(224, 40, 40, 40), batch_size=64, channels=(8, 8, 8), epochs=2)


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
def nothing_trains(tmp_path, monkeypatch):
    """An empty store, and what is raised where training would begin."""

    def reached(*_, **__):
        raise Reached

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DTCL_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(pretrain, "train", reached)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    shown = warnings.showwarning
    yield Reached
    warnings.showwarning = shown
    for number, handler in handlers.items():
        signal.signal(number, handler)
