import sys

import pytest
import torch


@pytest.fixture(autouse=True)
def fresh_compiler():
    """Graphs of other tests do not count towards the compiler's limit of variants of one function."""
    yield
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()
