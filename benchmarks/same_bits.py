"""Does an edit keep the numbers? A stack of every method, trained by the code of a commit and by the tree, compared bit for bit.

    python benchmarks/same_bits.py [COMMIT] [--epochs 3]    # COMMIT: HEAD unless given

Losses of every step, all parameters and running statistics, and all metrics are compared, on both paths of the CPU and for a
batch-level discriminator, a projector head and every kind of stack. Exit status: 0 the same, 1 not.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def stacks(epochs: int) -> list:
    """Stacks that share a network's shape; together they use every method."""
    from dtcl_core.config import Protocol, Run

    said = {
        "color_clipping": "none",
        "crop_scale": (0.5, 1.0),
        "discriminator_fit": "adam",
        "tau_min": 0.05,
    }  # commits differ in defaults
    p = Protocol(epochs=epochs, split_sizes=(1386, 231, 231, 462), domain_probe_data="train", **said)
    solved = replace(p, discriminator_fit="newton")
    plain = [
        Run("standard", 0.1, protocol=p),
        Run("standard", 0.1, seed=1, sigma=25.0, protocol=p),
        Run("same_domain", 0.1, protocol=p),
        Run("mmd", 0.1, lambda_=5.0, protocol=p),
        Run("dann", 0.1, lambda_=1.0, protocol=p),
        Run("dw_negatives", 0.075, 0.5, protocol=p),
        Run("dw_pairs", 0.175, 1.0, protocol=p),
        Run("dw_pairs", 0.175, 1.0, discriminator="batch", protocol=p),
        Run("dw_outside", 0.1, protocol=p),
        Run("macl", 0.1, lambda_=0.5, protocol=p),
        Run("isogclr", 0.1, lambda_=0.3, protocol=p),
        Run("color_jitter", 0.1, protocol=p),
    ]
    headed = [Run("standard", tau, projector="mlp", projector_dim=8, protocol=p) for tau in (0.1, 0.2)]
    weighted = [Run(method, tau, 0.5, protocol=solved) for method in ("dw_negatives", "dw_pairs") for tau in (0.1, 0.2)]
    return [plain, headed, weighted]


def digests(epochs: int) -> dict[str, str]:
    """What each stack ends with, as hashes."""
    import numpy as np
    import torch

    from dtcl_core import evaluate, pretrain

    torch.set_num_threads(1)

    def digest(tensor: torch.Tensor) -> str:
        return hashlib.sha256(np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes()).hexdigest()[:16]

    found = {}
    for number, runs in enumerate(stacks(epochs)):
        for trunk in ("native", "pytorch"):
            stack = pretrain.train(runs, "cpu", trunk=trunk)
            name = f"stack {number}, {trunk}"
            found[f"{name}: losses"] = digest(torch.stack(stack.losses))
            found |= {f"{name}: {key}": digest(value) for key, value in stack.encoder.state_dict().items()}
            metrics = evaluate.evaluate(stack)
            found[f"{name}: metrics"] = hashlib.sha256(json.dumps(list(metrics.values())).encode()).hexdigest()[:16]
    return found


def of(checkout: Path, epochs: int) -> dict[str, str]:
    """`digests` by the code of a checkout, in a process of its own."""
    told = [sys.executable, str(Path(__file__).resolve()), "--digests", "--epochs", str(epochs)]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(told, cwd=checkout, env=environment, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("from") == str(checkout.resolve()), "other code was imported"
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", default="HEAD")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--digests", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.digests:
        import dtcl_core

        here = {"from": str(Path(dtcl_core.__file__).resolve().parents[1])}
        print(json.dumps({**here, **digests(options.epochs)}))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "before"
        subprocess.run(
            ["git", "-C", str(ROOT), "worktree", "add", "--quiet", "--detach", str(before), options.commit], check=True
        )
        try:
            old, new = of(before, options.epochs), of(ROOT, options.epochs)
        finally:
            subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(before)], check=True)
    differing = [name for name in old.keys() | new.keys() if old.get(name) != new.get(name)]
    print("\n".join(sorted(differing)) or f"The same bits as {options.commit}: {len(old)} arrays of losses, states and metrics.")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
