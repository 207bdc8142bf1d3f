"""The command `dtcl`: run, status, audit, check, benchmark, freeze, reproduce.

Its exit status: 0 done, 1 failed, 2 it cannot be done (one line on standard error; before it the usage, if an option makes no
sense), 3 undecided, 130 stopped. What a command does stands in `commands`. `performed` imports it under guard: a package may be
missing, and Ctrl-C may come while it loads.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dtcl_core import __version__
from dtcl_core.checks import closest
from dtcl_core.terminal import STOPPED, interrupts_held, steady_output

# --- what may be asked ------------------------------------------------------------------------------------------------


def shard(text: str) -> tuple[int, int]:
    """Parse "i/n"."""
    parts = text.split("/")
    if len(parts) != 2 or not all(part.isdecimal() for part in parts) or int(parts[0]) >= int(parts[1]):
        raise argparse.ArgumentTypeError(f"expected i/n with 0 <= i < n, such as 0/4, got {text!r}")
    return int(parts[0]), int(parts[1])


def parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser of the whole line, and those of the commands."""
    from .commands import GRIDS
    from .experiments import PRESETS, REGISTRY

    top = argparse.ArgumentParser(
        prog="dtcl",
        description="Train, inspect and reproduce the runs behind the book.",
        epilog="Rows are added to results/ (or $DTCL_RESULTS). Stop at any moment with Ctrl-C; the same command goes on.",
    )
    top.add_argument("--version", action="version", version=f"dtcl {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    presets = "; ".join(f"{name}: {p.purpose} ({p.seeds} seeds, {p.epochs} epochs)" for name, p in PRESETS.items())
    device = {"default": "auto", "help": "auto, cpu, cuda or cuda:N (default: auto)"}
    sigma = {"help": "colour spreads with commas between them (default: the experiment's)"}
    store = {"metavar": "FOLDER", "help": "the store (default: results/)"}
    as_data = {"action": "store_true", "help": "print it as JSON"}

    def command(name: str, says: str, more: str, options: dict[str, dict[str, Any]]) -> None:
        parser = commands.add_parser(name, help=says, description=f"{says[0].upper()}{says[1:]}. {more}", allow_abbrev=False)
        for option, about in options.items():
            parser.add_argument(option, **about)

    command("run", "train the missing runs of an experiment", "They are evaluated, and their rows are stored.", {
        "experiment": {"metavar": "EXPERIMENT", "help": f"one of: {', '.join(REGISTRY)}"},
        "--preset": {"default": "smoke", "help": f"{presets} (default: smoke)"},
        "--device": device,
        "--methods": {"help": "names with commas between them (default: all)"},
        "--sigma": sigma,
        "--tau-alpha": {"help": "temperatures to try instead of the preset's, with commas between them"},
        "--seeds": {"type": int, "help": "number of seeds (default: the preset's); of experiments on fixed seeds, how many of them"},
        "--epochs": {"type": int, "help": "epochs (default: the preset's)"},
        "--shard": {"type": shard, "metavar": "I/N", "help": "do only part I (from 0) of N, as in a job array"},
        "--time-limit": {"type": float, "metavar": "SECONDS", "help": "stop cleanly after this long"},
        "--precision": {"default": "auto", "help": "auto, float32 or bfloat16 (default: auto, which is float32)"},
        "--stack-size": {"type": int, "help": "most runs trained at once (default: what suits the device)"},
        "--results": {**store, "help": "the store (default: results/, or results/smoke for the preset smoke)"},
    })  # fmt: skip
    command("status", "how many runs of each part of the design exist, and how long the rest would take", "In the preset paper.", {
        "--device": {"default": "auto", "help": "of this machine, whose time is estimated from stored rows: auto, cpu or cuda (default: auto)"},
        "--results": store,
        "--json": as_data,
    })  # fmt: skip
    more = ("They are picked at random, each with the stack it was trained in. On the same kind of machine, with the same code and "
            "versions, they must be identical; elsewhere they must agree in distribution over seeds. Exit status: 0 passed, 1 failed, "
            "3 undecided (too few seeds, or differences that vary too much).")  # fmt: skip
    command("audit", "retrain stored rows and compare", more, {
        "-n": {"type": int, "default": 1, "metavar": "N", "help": "how many rows are picked (default: 1)"},
        "--device": device,
        "--seed": {"type": int, "help": "pick the same rows as another call with this seed"},
        "--exact": {"action": "store_true", "help": "only rows that must be identical: of this code, such a machine, as many threads"},
        "--results": store,
        "--json": as_data,
    })  # fmt: skip
    more = "A training step of every method is held against float64 on the CPU. Exit status: 0 all is well, 1 something is wrong."
    command("check", "what this machine would train with, and whether it computes right", more, {"--device": device})
    more = ("Seeds 0 to 4 select at sigma 50, 0 and 1 elsewhere. Their file, dtcl_study/frozen/NAME.json (of dropout_grid in frozen_dropout/), "
            "is never changed. Of global_vs_batch only the batch-level discriminators are frozen.")  # fmt: skip
    command("freeze", "freeze the configurations that an experiment's first seeds select", more, {
        "name": {"metavar": "NAME", "help": "of the selection: letters, digits and _; for dropout_grid it must be dropout"},
        "experiment": {"metavar": "EXPERIMENT", "help": f"one of: {', '.join(GRIDS)}"},
        "--sigma": sigma,
    })  # fmt: skip
    command("reproduce", "print a table or claim of the paper, reported beside measured", "With intervals and n. Only reads.", {
        "what": {"nargs": "+", "metavar": "WHAT", "help": '"Table 1" to "Table 9", or "claim 1" to "claim 15"'},
        "--format": {"choices": ("text", "latex"), "default": "text", "help": "(default: text)"},
        "--json": {**as_data, "help": "print it as JSON, whatever the format"},
    })  # fmt: skip
    peers = commands.add_parser(
        "benchmark", add_help=False, help="time the engine beside its peers on this machine; writes to benchmarks/, or --out"
    )
    peers.add_argument("rest", nargs=argparse.REMAINDER)
    return top, commands.choices


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a command line; ends the process with a message and status 2 if it makes no sense."""
    from .commands import COMMANDS

    top, of_command = parsers()
    if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        top.error(f"unknown command {arguments[0]!r}{closest(arguments[0], COMMANDS)}; there are {', '.join(COMMANDS)}")
    options, unknown = top.parse_known_args(arguments)
    if options.command == "benchmark":
        options.rest = unknown + options.rest
    elif unknown:
        known = re.findall(r"--[a-z-]+", of_command[options.command].format_help())
        top.error("unrecognized arguments: " + ", ".join(f"{u!r}{closest(u.partition('=')[0], known)}" for u in unknown))
    return options


def check_store(named: str | None, command: str) -> None:
    """Raise ValueError if --results or $DTCL_RESULTS names no folder; for `run` it may be one that does not exist yet."""
    given_by, folder = ("--results", named) if named is not None else ("DTCL_RESULTS", os.environ.get("DTCL_RESULTS"))
    if command in ("check", "benchmark") or (named is None and not folder):
        return
    if not folder or not (Path(folder).is_dir() or (command == "run" and not Path(folder).exists())):
        raise ValueError(f"{given_by}: there is no folder {folder or 'without a name'}.")


# --- the command ------------------------------------------------------------------------------------------------------


def performed(arguments: Sequence[str]) -> int:
    """Do what a command line asks for; a user's mistake is one line on standard error and exit status 2."""
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
    try:
        with interrupts_held():
            from .commands import COMMANDS  # with PyTorch and pandas, which take seconds
        options = parsed(arguments)
        check_store(getattr(options, "results", None), options.command)
        return COMMANDS[options.command](options)
    except ModuleNotFoundError as missing:
        if (missing.name or "dtcl").startswith("dtcl"):
            raise
        told = f'this needs {missing.name}, which is not installed: pip install ".[study]" in a clone. The losses alone do not need it.'
        print(f"error: {told}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return STOPPED
    except (ValueError, OSError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and type(error).__name__ != "OutOfMemoryError":
            raise
        said = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(error))  # names of files may hold anything
        print(f"error: {said}", file=sys.stderr)
        return 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 1 in place of 0 if what it printed could not be written (a full disk)."""
    with steady_output() as output, warnings.catch_warnings():
        status = performed(sys.argv[1:] if arguments is None else arguments)
        output.flush()
        if output.failure is not None:
            print(f"error: standard output could not be written: {output.failure.strerror}", file=sys.stderr)
    return status or int(output.failure is not None)
