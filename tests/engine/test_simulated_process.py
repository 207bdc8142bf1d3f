"""A process with a simulated device may not fork once it has trained, as other tests do: its tests run in one of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


def test_the_path_a_gpu_takes_on_a_simulated_device():
    here = Path(__file__).parents[1]
    cases = [
        "engine/test_simulated_device.py",
        "launch/test_selfcheck.py::test_an_accelerator_is_checked",
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [*command, *(str(here / case) for case in cases)],
        capture_output=True,
        text=True,
        env={**environment, "DTCL_SIMULATED": "1", "OMP_NUM_THREADS": "1"},
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    if "passed" not in done.stdout:
        pytest.skip("this PyTorch takes no simulated device")
    assert re.search(r"\d\d passed", done.stdout), done.stdout[-2000:]
