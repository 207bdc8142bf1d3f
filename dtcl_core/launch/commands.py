"""What the command line does: check, run, status, audit, benchmark. Each takes its options and returns an exit status."""

from __future__ import annotations

import argparse
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

from .. import pretrain
from ..config import Protocol, Run
from ..console import STOPPED, stop_requests
from ..engine.device import check_precision_name, resolve_device
from ..experiments import PRESETS, REGISTRY, wants_trace
from ..experiments.core import Validation, nothing, validation_of
from ..results import Store, default_store
from . import engines, local, selfcheck  # what needs pandas is imported where it serves: `status` answers sooner
from .progress import numbered, readable_time


def run(options: argparse.Namespace) -> int:
    """Train the missing runs of an experiment; 0 if there is a finished one in the end, 1 if all diverged."""
    if options.stack_size is not None and options.stack_size < 1:
        raise ValueError(f"--stack-size must be at least 1, got {options.stack_size}.")
    check_precision_name(options.precision)
    # Where Ray trains, its cluster decides what there is.
    device = options.device if options.engine == "ray" else str(resolve_device(options.device))

    def ask(validation: Validation) -> list[Run]:
        return REGISTRY[options.experiment].runs(
            options.preset,
            seeds=options.seeds,
            epochs=options.epochs,
            sigma=options.sigma,
            methods=options.methods,
            tau_alpha=options.tau_alpha,
            validation=validation,
        )

    ask(nothing)  # a slip in an option is refused before rows are read
    store = Store(options.results or default_store(options.preset).path)
    runs = ask(validation_of(store.rows()))
    if options.fresh:
        runs = fresh(options.experiment, runs, store)
    if options.shard:
        runs = local.shard_of(runs, *options.shard)
    missing = len(store.missing(runs, wants_trace))
    print(
        f"{options.experiment}, preset {options.preset}: {len(runs) - missing} of {len(runs)} runs exist.", flush=True
    )
    if missing:
        print(f"Training {missing} on {device}{' through Ray' if options.engine == 'ray' else ''}.", flush=True)
        try:
            engines.compute_all(
                # What a part of a job array selects waits for the other parts: the same command trains it then.
                (lambda validation: runs) if options.fresh or options.shard else ask,
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
        before = len(runs)
        if not (options.fresh or options.shard):
            runs = ask(validation_of(store.rows()))
        selected = f", {len(runs) - before} of which the others selected" if len(runs) > before else ""
        print(f"All {len(runs)} runs exist now{selected}.")
    if PRESETS[options.preset].caution:
        print(PRESETS[options.preset].caution)
    rows = store.rows()
    diverged = sum(rows[run.key]["status"] == "diverged" for run in runs)
    if diverged:
        print(f"{diverged} of {len(runs)} runs diverged: they have a row, and no accuracy.")
    return int(0 < diverged == len(runs))


def fresh(name: str, runs: list[Run], store: Store) -> list[Run]:
    """What was selected among an experiment's runs, on as many seeds that took no part in the selection."""
    from ..analysis import selection

    if not REGISTRY[name].selects:
        raise ValueError(f"--fresh is for experiments that select among configurations, not for {name}.")
    absent, seeds = store.missing(runs), {run.seed for run in runs}
    whole, least = len(seeds - {run.seed for run in absent}), min(len(seeds), selection.SHARED_SEEDS)
    if whole < least:
        raise ValueError(
            f"--fresh needs the whole grid on {least} seeds or more to select from; "
            f"{len(absent)} of its {len(runs)} runs are missing."
        )
    note = "; with all of them it may select others" if whole < len(seeds) else ""
    print(f"The whole grid has {whole} of {len(seeds)} seeds{note}.")
    return selection.fresh_runs(selection.select(store.load(runs)), runs, len(seeds))


def status(options: argparse.Namespace) -> int:
    """Say how many runs of each experiment and preset exist, and how long the rest would take."""
    device = resolve_device(options.device)
    stores = {True: Store(options.results or default_store("smoke").path), False: Store(options.results)}
    rows = {smoke: store.rows() for smoke, store in stores.items()}
    kept = {**rows[True], **rows[False]}
    pace = local.seconds_an_image(list(kept.values()), device)
    validations = {smoke: validation_of(found) for smoke, found in rows.items()}
    lines: list[dict[str, Any]] = []

    @cache
    def lacks_trace(run: Run, store: Store) -> bool:
        return wants_trace(run) and store.trace(run) is None

    for name, experiment in REGISTRY.items():
        for preset in PRESETS:
            store, present = stores[preset == "smoke"], rows[preset == "smoke"]
            runs = {run.key: run for run in experiment.runs(preset, validation=validations[preset == "smoke"])}
            left = [run for key, run in runs.items() if key not in present or lacks_trace(run, store)]
            images = pace.images(left)
            lines.append(
                {
                    "experiment": name,
                    "preset": preset,
                    "runs": len(runs),
                    "present": len(runs) - len(left),
                    "missing": len(left),
                    "diverged": sum(present[key]["status"] == "diverged" for key in runs if key in present),
                    "seconds_left": pace.seconds * images if pace.seconds or not left else None,
                    "core_hours": None if pace.core_seconds is None else pace.core_seconds * images / 3600,
                }
            )
    found = {
        "store": str(stores[False].path),
        "smoke_store": str(stores[True].path),
        "rows": len(kept),
        "diverged": sum(row["status"] == "diverged" for row in kept.values()),
        "conflicts": {key: list(files) for store in stores.values() for key, files in store.conflicts.items()},
        "device": str(device),
        "seconds_an_image": pace.seconds or None,
        "core_seconds_an_image": pace.core_seconds,
        "jitter": pace.jitter,
        "pace_of": pace.source,
        "experiments": lines,
    }
    print(json.dumps(found, indent=1) if options.json else "\n".join(described(found)))
    return 0


def described(found: dict[str, Any]) -> list[str]:
    """What `status` found, as lines of text."""
    width = max(map(len, REGISTRY)) + 2
    said = [f"{found['rows']} rows in {found['store']}, {len(found['conflicts'])} of them in conflict with another."]
    if found["smoke_store"] != found["store"]:
        said[0] = f"{said[0]} Rows of smoke are in {found['smoke_store']}."
    if found["diverged"]:
        said.append(f"{numbered(found['diverged'], 'run')} diverged: a row, and no accuracy.")
    heads = ("runs", "present", "missing", "time left", "core-hours")
    said.append(
        f"{'experiment':<{width}}{'preset':<8}" + "".join(f"{h:>{w}}" for h, w in zip(heads, (7, 9, 9, 12, 12)))
    )
    for line in found["experiments"]:
        left = "?" if line["seconds_left"] is None else readable_time(line["seconds_left"])
        hours = "?" if line["core_hours"] is None else f"{line['core_hours']:.1f}"
        said.append(
            f"{line['experiment']:<{width}}{line['preset']:<8}{line['runs']:>7}{line['present']:>9}{line['missing']:>9}"
            f"{left:>12}{hours:>12}"
        )
    if not found["seconds_an_image"]:
        return [*said, f"There is no telling how long the rest takes: {found['pace_of']}."]
    epoch = found["seconds_an_image"] * Protocol().split_sizes[0]
    device, rows = found["device"], found["pace_of"]
    said.append(f"Time left is for one process on {device}, at {epoch:.3g} s a run-epoch, the median of {rows},")
    said.append(f"and {found['jitter']:.2g} times that with colour jitter;")
    if found["core_seconds_an_image"] is not None:
        said.append(
            "core-hours are the same times its threads; a process a core, with --shard I/N each, shares them out."
        )
        an_hour = 3600 / (found["core_seconds_an_image"] * local.image_epochs(Run()))
        said.append(f"A core trains {an_hour:.3g} runs of {Protocol().epochs} epochs an hour.")
    return said


def audit_rows(options: argparse.Namespace) -> int:
    """Retrain stored rows and compare; 0 if they passed, 1 if they failed, 3 if that is undecided."""
    import pandas as pd

    from . import audit

    for name, value in (("-n", options.n), ("--max-epochs", options.max_epochs)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
    of_outcome = {audit.PASSED: 0, audit.FAILED: 1, audit.UNDECIDED: 3}
    lines: list[dict[str, Any]] = []
    stopped = False
    try:
        audit.audit(
            Store(options.results),
            options.n,
            options.device,
            seed=options.seed,
            max_epochs=options.max_epochs,
            exact=options.exact,
            should_stop=stop_requests(None),
            on_compared=lines.append,
            quiet=options.json,
        )
    except (pretrain.Interrupted, KeyboardInterrupt):
        stopped = True
    outcome, said = audit.verdict(pd.DataFrame(lines)) if lines else (audit.UNDECIDED, ["No row was compared."])
    if options.json:
        plain = [{k: None if v != v else v for k, v in line.items()} for line in lines]  # JSON has no NaN
        print(json.dumps({"outcome": outcome, "stopped": stopped, "said": said, "rows": plain}, indent=1))
        return STOPPED if stopped else of_outcome[outcome]
    ending = "The audit is undecided." if outcome == audit.UNDECIDED else f"The audit {outcome}."
    if stopped:
        ending = f"Stopped; {numbered(len(lines), 'row')} {'was' if len(lines) == 1 else 'were'} compared until then."
    print("\n".join([*(audit.describe(pd.DataFrame(lines)) if lines else []), *said, ending]))
    return STOPPED if stopped else of_outcome[outcome]


def benchmark(options: argparse.Namespace) -> int:
    """Time the engine beside its peers."""
    script = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "compare.py"
    if not script.exists():
        raise ValueError("benchmark needs a checkout of the project: the peers are in its folder benchmarks/.")
    sys.path.insert(0, str(script.parent))
    import compare

    compare.main(options.rest)
    return 0


def check(options: argparse.Namespace) -> int:
    """Look at this machine; 0 if all is well."""
    return 0 if selfcheck.check(options.device, lambda line: print(line, flush=True)) else 1


COMMANDS = {"check": check, "run": run, "status": status, "audit": audit_rows, "benchmark": benchmark}
