"""The command line: ``python -m dtcl_core check|run|status|audit|benchmark``."""

from __future__ import annotations

import signal

if HEARS := __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `main`, Ctrl-C ends the process without a word

import argparse
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

from . import __version__
from .checks import closest
from .console import STOPPED, interrupts_held, libraries_kept, nothing_collected, steady_output
from .presets import ENGINES, EXPERIMENTS, PRESETS


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


def one_of(what: str, known: Sequence[str]) -> Callable[[str], str]:
    """A parser of names that are known."""

    def parse(text: str) -> str:
        if text not in known:
            message = f"unknown {what} {text!r}{closest(text, known)}; there are {', '.join(known)}"
            raise argparse.ArgumentTypeError(message)
        return text

    return parse


def parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser of the whole line, and those of the commands."""
    top = argparse.ArgumentParser(
        prog="python -m dtcl_core",
        description="Train and inspect the runs behind the book.",
        epilog="Rows are added to results/ (or $DTCL_RESULTS). Stop at any moment with Ctrl-C; the same command goes on.",
    )
    top.add_argument("--version", action="version", version=f"dtcl {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser(
        "run",
        help="train the missing runs of an experiment",
        description="Train those runs of an experiment that have no row yet, evaluate them and store their rows.",
    )
    choices = f"one of: {', '.join(EXPERIMENTS)}"
    run.add_argument("experiment", type=one_of("experiment", EXPERIMENTS), metavar="EXPERIMENT", help=choices)
    purposes = "; ".join(f"{name}: {p.purpose} ({p.seeds} seeds, {p.epochs} epochs)" for name, p in PRESETS.items())
    run.add_argument(
        "--preset", type=one_of("preset", tuple(PRESETS)), default="smoke", help=f"{purposes} (default: smoke)"
    )
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
        "--engine",
        type=one_of("engine", ENGINES),
        default="local",
        help="local, or ray for a cluster (default: local)",
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
    status.add_argument("--json", action="store_true", help="print it as JSON; times in seconds")

    check = commands.add_parser(
        "audit",
        help="retrain stored rows and compare",
        description="Retrain randomly picked rows, each with the stack it was trained in. On the same kind of machine, with "
        "the same code and versions, they must be identical; elsewhere they must agree in distribution over seeds. "
        "Exit status: 0 passed, 1 failed, 3 undecided (too few seeds, or differences that vary too much). Stopped with Ctrl-C, "
        "it says what it has compared.",
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
    check.add_argument("--json", action="store_true", help="print what was found as JSON, at the end")

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
    return top, commands.choices


COMMANDS = ("check", "run", "status", "audit", "benchmark")


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a command line; ends the process with a message and status 2 if it makes no sense."""
    top, of_command = parsers()
    if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        top.error(f"unknown command {arguments[0]!r}{closest(arguments[0], COMMANDS)}; there are {', '.join(COMMANDS)}")
    options, unknown = top.parse_known_args(arguments)
    if options.command == "benchmark":
        options.rest = unknown + options.rest
    elif unknown:
        known = re.findall(r"--[a-z-]+", of_command[options.command].format_help())
        names = (f"{text!r}{closest(text.partition('=')[0], known)}" for text in unknown)
        top.error(f"unrecognized arguments: {', '.join(names)}")
    return options


def check_store(named: str | None, command: str) -> None:
    """Raise ValueError unless the folder of results that --results or $DTCL_RESULTS names, if any, is one for a command."""
    given_by = "--results" if named is not None else "DTCL_RESULTS"
    folder = named if named is not None else os.environ.get("DTCL_RESULTS") or None
    if folder == "":
        raise ValueError(f"{given_by} must name a folder.")
    if folder is None or command not in ("run", "status", "audit"):
        return
    if Path(folder).exists() and not Path(folder).is_dir():
        raise ValueError(f"{given_by}: {folder} is no folder.")
    if command != "run" and not Path(folder).is_dir():
        raise ValueError(f"{given_by}: there is no folder {folder}.")


def performed(options: argparse.Namespace) -> int:
    """Do what the options ask for; a user's mistake is one line on standard error and exit status 2."""
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
    try:
        check_store(getattr(options, "results", None), options.command)
        with interrupts_held(), libraries_kept():
            from .launch import commands  # not before: it takes seconds

        with nothing_collected() if options.command == "status" else nullcontext():
            return commands.COMMANDS[options.command](options)
    except ModuleNotFoundError as missing:
        if missing.name not in ("pandas", "scipy", "tqdm"):
            raise
        message = f'the runs need {missing.name}, which the losses do not: pip install ".[study]" in a clone.'
        print(f"error: {message}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return STOPPED
    except (ValueError, OSError) as error:
        said = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(error))  # names of files may hold anything
        print(f"error: {said}", file=sys.stderr)
        return 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 1 in place of 0 if what it printed could not be written (a full disk)."""
    with steady_output() as output:
        try:
            status = performed(parsed(sys.argv[1:] if arguments is None else arguments))
        except KeyboardInterrupt:  # before there was anything to perform
            print("Stopped.", file=sys.stderr)
            status = STOPPED
        output.flush()
        if output.failure is not None:
            print(f"error: standard output could not be written: {output.failure.strerror}", file=sys.stderr)
    return status or int(output.failure is not None)


if __name__ == "__main__":
    if HEARS:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
