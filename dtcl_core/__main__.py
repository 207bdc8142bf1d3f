"""The command line: ``python -m dtcl_core check|run|status|audit|benchmark``."""

from __future__ import annotations

import argparse
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

try:
    from . import pretrain
    from .analysis import selection
    from .config import Protocol
    from .engine.device import resolve_device
    from .experiments import BESIDE, OUTSIDE, PRESETS, REGISTRY, wants_trace
    from .launch import audit, local, selfcheck
    from .results import Store
except ModuleNotFoundError as missing:
    if missing.name not in ("pandas", "scipy", "tqdm"):
        raise
    sys.exit(f'error: the runs need {missing.name}, which the losses do not: pip install ".[study]" in a clone.')

STOPPED = 130  # the exit status shells give an interrupted command


def shard(text: str) -> tuple[int, int]:
    """Parse "i/n"."""
    try:
        index, count = (int(part) for part in text.split("/"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected i/n, such as 0/4, got {text!r}") from None
    if not 0 <= index < count:
        raise argparse.ArgumentTypeError(f"i/n needs 0 <= i < n, got {text!r}")
    return index, count


def positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"expected a number > 0, got {text!r}")
    return value


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m dtcl_core",
        description="Train and inspect the runs behind the book.",
        epilog="Rows are added to results/ (or $DTCL_RESULTS). Stop at any moment with Ctrl-C; the same command goes on.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser(
        "run",
        help="train the missing runs of an experiment",
        description="Train those runs of an experiment that have no row yet, evaluate them and store their rows.",
    )
    run.add_argument("experiment", choices=REGISTRY, metavar="EXPERIMENT", help=f"one of: {', '.join(REGISTRY)}")
    purposes = "; ".join(f"{name}: {p.purpose} ({p.seeds} seeds, {p.epochs} epochs)" for name, p in PRESETS.items())
    run.add_argument("--preset", choices=PRESETS, default="smoke", help=f"{purposes} (default: smoke)")
    run.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    run.add_argument("--methods", help="names with commas between them (default: all)")
    run.add_argument("--sigma", help="colour spreads with commas between them (default: the experiment's)")
    run.add_argument("--tau-alpha", help="temperatures to try instead of the preset's, with commas between them")
    run.add_argument("--seeds", type=int, help="number of seeds (default: the preset's)")
    run.add_argument("--epochs", type=int, help="epochs (default: the preset's)")
    run.add_argument(
        "--fresh",
        action="store_true",
        help="train what was selected on as many seeds that took no part in the selection",
    )
    run.add_argument("--shard", type=shard, metavar="I/N", help="do only part I (from 0) of N, as in a job array")
    run.add_argument("--time-limit", type=positive, metavar="SECONDS", help="stop cleanly after this long")
    run.add_argument(
        "--precision",
        default="auto",
        help="auto, float32 or bfloat16 (default: bfloat16 on a GPU that is good at it, else float32)",
    )
    run.add_argument(
        "--engine", choices=local.ENGINES, default="local", help="local, or ray for a cluster (default: local)"
    )
    run.add_argument("--stack-size", type=int, help="most runs trained at once (default: what suits the device)")
    run.add_argument(
        "--results", metavar="FOLDER", help="the store (default: results/, or results/smoke for that preset)"
    )

    status = commands.add_parser(
        "status",
        help="how many of each experiment's runs exist, and how long the rest would take",
        description="Count, for each experiment and preset, the runs that have a row and those that do not.",
    )
    status.add_argument("--device", default="auto", help="whose time is estimated: auto, cpu or cuda (default: auto)")
    status.add_argument("--results", metavar="FOLDER", help="the store (default: results/)")

    check = commands.add_parser(
        "audit",
        help="retrain stored rows and compare",
        description="Retrain randomly picked rows, each with the stack it was trained in. On the same kind of machine, with "
        "the same code and versions, they must be identical; elsewhere they must agree in distribution over seeds. "
        "Exit status: 0 passed, 1 failed, 3 undecided (too few seeds, or differences that vary too much).",
    )
    check.add_argument("-n", type=int, default=1, metavar="N", help="how many rows are picked (default: 1)")
    check.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    check.add_argument("--seed", type=int, help="pick the same rows as another call with this seed")
    check.add_argument("--max-epochs", type=int, help="pick among runs of at most so many epochs")
    check.add_argument(
        "--exact",
        action="store_true",
        help="pick among rows that must come out identical: of this code, such a machine, as many threads",
    )
    check.add_argument("--results", metavar="FOLDER", help="the store (default: results/)")

    first = commands.add_parser(
        "check",
        help="what this machine would train with, whether it computes right, and how fast",
        description="Hold a training step against float64 on the CPU, measure the pace, and say how long each experiment would "
        "take; under a minute. Exit status: 0 all is well, 1 something is wrong.",
    )
    first.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")

    benchmark = commands.add_parser(
        "benchmark",
        add_help=False,
        help="time the engine beside its peers on this machine",
    )
    benchmark.add_argument("rest", nargs=argparse.REMAINDER)
    return top


def stop_requests(time_limit: float | None) -> Callable[[], bool]:
    """A function that turns true after Ctrl-C, a SIGTERM, or the time limit."""
    asked: list[int] = []
    end = None if time_limit is None else time.monotonic() + time_limit

    def remember(number: int, frame: object) -> None:
        if asked:  # a second Ctrl-C means it
            raise KeyboardInterrupt
        asked.append(number)
        print("\nStopping; Ctrl-C again to stop at once.", file=sys.stderr, flush=True)

    signal.signal(signal.SIGINT, remember)
    signal.signal(signal.SIGTERM, remember)
    return lambda: bool(asked) or (end is not None and time.monotonic() >= end)


def run_command(options: argparse.Namespace) -> int:
    if options.stack_size is not None and options.stack_size < 1:
        raise ValueError(f"--stack-size must be at least 1, got {options.stack_size}.")
    # Where Ray trains, its cluster decides what there is.
    device = options.device if options.engine == "ray" else str(resolve_device(options.device))
    experiment = REGISTRY[options.experiment]
    runs = experiment.runs(
        options.preset,
        seeds=options.seeds,
        epochs=options.epochs,
        sigma=options.sigma,
        methods=options.methods,
        tau_alpha=options.tau_alpha,
    )
    store = Store(options.results or local.default_store(options.preset).path)
    if options.fresh:
        if options.experiment in (*BESIDE, *OUTSIDE):
            raise ValueError(
                f"--fresh is for experiments that select among configurations, not for {options.experiment}."
            )
        absent, seeds = store.missing(runs), {run.seed for run in runs}
        whole, least = len(seeds - {run.seed for run in absent}), min(len(seeds), selection.SHARED_SEEDS)
        if whole < least:
            raise ValueError(
                f"--fresh needs the whole grid on {least} seeds or more to select from; "
                f"{len(absent)} of its {len(runs)} runs are missing."
            )
        note = "; with all of them it may select others" if whole < len(seeds) else ""
        print(f"The whole grid has {whole} of {len(seeds)} seeds{note}.")
        runs = selection.fresh_runs(selection.select(store.load(runs)), runs, len(seeds))
    if options.shard:
        runs = local.shard_of(runs, *options.shard)
    missing = len(store.missing(runs, wants_trace))
    print(
        f"{options.experiment}, preset {options.preset}: {len(runs) - missing} of {len(runs)} runs exist.", flush=True
    )
    if not missing:
        return 0
    print(f"Training {missing} on {device}{' through Ray' if options.engine == 'ray' else ''}.", flush=True)
    try:
        local.compute(
            runs,
            store,
            device,
            precision=options.precision,
            stack_size=options.stack_size,
            engine=options.engine,
            record=wants_trace,
            should_stop=stop_requests(options.time_limit),
        )
    except (pretrain.Interrupted, KeyboardInterrupt):
        left = len(store.missing(runs, wants_trace))
        print(f"Stopped with {left} of {len(runs)} runs to go. The same command goes on from here.", flush=True)
        return STOPPED
    print(f"All {len(runs)} runs exist now.")
    return 0


def status_command(options: argparse.Namespace) -> int:
    device = resolve_device(options.device)
    stores = {True: Store(options.results or local.default_store("smoke").path), False: Store(options.results)}
    rows = {smoke: store.rows() for smoke, store in stores.items()}
    pace = local.seconds_an_image([row for kept in rows.values() for row in kept.values()], device)
    width = max(map(len, REGISTRY)) + 2
    print(
        f"{'experiment':<{width}}{'preset':<8}{'runs':>7}{'present':>9}{'missing':>9}{'time left':>12}{'core-hours':>12}"
    )
    for name, experiment in REGISTRY.items():
        for preset in PRESETS:
            runs = {run.key: run for run in experiment.runs(preset)}
            store, present = stores[preset == "smoke"], rows[preset == "smoke"]
            left = [
                run
                for key, run in runs.items()
                if key not in present or (wants_trace(run) and store.trace(run) is None)
            ]
            images = sum(local.image_epochs(run) for run in left)
            time_left = local.readable_time(pace.seconds * images) if pace.seconds or not left else "?"
            hours = "?" if pace.core_seconds is None else f"{pace.core_seconds * images / 3600:.1f}"
            print(
                f"{name:<{width}}{preset:<8}{len(runs):>7}{len(runs) - len(left):>9}{len(left):>9}{time_left:>12}{hours:>12}"
            )
    if pace.seconds:
        epoch = pace.seconds * Protocol().split_sizes[0]
        print(f"Time left is for one process on {device}, at {epoch:.3g} s a run-epoch, the median of {pace.told};")
        if pace.core_seconds is not None:
            print(
                "core-hours are the same times its threads; a process a core, with --shard I/N each, shares them out."
            )
    else:
        print(f"There is no telling how long the rest takes: {pace.told}.")
    return 0


def audit_command(options: argparse.Namespace) -> int:
    if options.n < 1:
        raise ValueError(f"-n must be at least 1, got {options.n}.")
    try:
        found = audit.audit(
            Store(options.results),
            options.n,
            options.device,
            seed=options.seed,
            max_epochs=options.max_epochs,
            exact=options.exact,
            should_stop=stop_requests(None),
        )
    except (pretrain.Interrupted, KeyboardInterrupt):
        print("Stopped; nothing was compared.")
        return STOPPED
    outcome, said = audit.verdict(found)
    ending = "The audit is undecided." if outcome == audit.UNDECIDED else f"The audit {outcome}."
    print("\n".join([*audit.describe(found), *said, ending]))
    return {audit.PASSED: 0, audit.FAILED: 1, audit.UNDECIDED: 3}[outcome]


def benchmark_command(options: argparse.Namespace) -> int:
    script = Path(__file__).resolve().parent.parent / "benchmarks" / "compare.py"
    if not script.exists():
        raise ValueError("benchmark needs a checkout of the project: the peers are in its folder benchmarks/.")
    sys.path.insert(0, str(script.parent))
    import compare

    compare.main(options.rest)
    return 0


def check_command(options: argparse.Namespace) -> int:
    return 0 if selfcheck.check(options.device, lambda line: print(line, flush=True)) else 1


COMMANDS = {
    "check": check_command,
    "run": run_command,
    "status": status_command,
    "audit": audit_command,
    "benchmark": benchmark_command,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; a user's mistake is one line on standard error and exit status 2."""
    options, unknown = parser().parse_known_args(arguments)
    if options.command == "benchmark":
        options.rest = unknown + options.rest
    elif unknown:
        parser().error(f"unrecognized arguments: {', '.join(map(repr, unknown))}")
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
    try:
        if getattr(options, "results", None) == "":
            raise ValueError("--results must name a folder.")
        if getattr(options, "results", None) and options.command != "run" and not Path(options.results).is_dir():
            raise ValueError(f"--results: there is no folder {options.results}.")
        return COMMANDS[options.command](options)
    except (ValueError, OSError) as error:
        said = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(error))  # names of files may hold anything
        print(f"error: {said}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
