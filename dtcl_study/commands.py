"""What each command of `dtcl` does: functions from options to an exit status.

0: done; 1: failed; 3: undecided; `STOPPED`: stopped. A ValueError says in one line what cannot be done; a mistake of the user's is
found before any work.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from dtcl_core.checks import checked_choice, checked_number
from dtcl_core.config import Protocol
from dtcl_core.engine.device import check_precision_name, resolve_device
from dtcl_core.engine.provenance import SOURCES
from dtcl_core.launch import local, selfcheck
from dtcl_core.launch.progress import numbered, readable_time
from dtcl_core.pretrain import Interrupted
from dtcl_core.results import Store
from dtcl_core.terminal import STOPPED, stop_requests

from . import audit, claims, compare, reported, selection, tables
from .experiments import HIGHER_DROPOUT, PRESETS, REGISTRY
from .study import Evidence, Study, grids, parts, runs_of_complete_seeds, store_of

HERE = Path(__file__).resolve().parent
GRIDS = ("main_table", "sigma_ablation", "global_vs_batch", "dropout_grid")  # of which selections are frozen


# --- run --------------------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> int:
    """Train the missing runs of an experiment; 1 if there are runs and all diverged, `STOPPED` if stopped, else 0."""
    experiment = REGISTRY[checked_choice("experiment", options.experiment, tuple(REGISTRY))]
    check_precision_name(options.precision)
    if options.stack_size is not None:
        checked_number("stack_size", options.stack_size, 1, integer=True)
    if options.time_limit is not None:
        checked_number("time_limit", options.time_limit, above=True)
    device = str(resolve_device(options.device))
    asked_for = {name: getattr(options, name) for name in ("seeds", "epochs", "sigma", "methods", "tau_alpha")}
    runs = experiment.runs(options.preset, **asked_for)
    if not runs:
        why = "nothing is frozen for it yet (dtcl freeze)" if options.preset == "paper" else "try preset paper"
        raise ValueError(f"{experiment.name} asks for no run in preset {options.preset}: {why}.")
    if (options.seeds or 0) > (count := len({run.seed for run in runs})):
        raise ValueError(f"--seeds {options.seeds} is too many: these runs of {experiment.name} have {count}.")
    runs = local.shard_of(runs, *options.shard) if options.shard else runs
    store = Store(options.results) if options.results else store_of(options.preset)
    of_the_book = store.path.resolve() == HERE.parent / "results"
    if options.precision == "bfloat16" and of_the_book:
        raise ValueError("the rows in results/ are in float32; bfloat16 needs a store of its own: --results FOLDER.")
    missing, counted = len(store.missing(runs, experiment.records)), f"{experiment.name}, preset {options.preset}"
    print(f"{counted}: {len(runs) - missing} of {len(runs)} runs exist in {store.path}.", flush=True)
    rows = store.rows({run.key for run in runs}).values()
    if old := 0 if of_the_book else sum(row["provenance"]["sources"] != SOURCES for row in rows):
        print(f"Rows of other numeric code: {old}. Name a changed method anew, or take another store.", flush=True)
    if missing:
        print(f"Training {missing} on {device}.", flush=True)
        try:
            how = {name: getattr(options, name) for name in ("precision", "stack_size")}
            local.compute(runs, store, device, record=experiment.records, should_stop=stop_requests(options.time_limit), **how)
        except (Interrupted, KeyboardInterrupt):
            left = len(store.missing(runs, experiment.records))
            print(f"Stopped with {left} of {len(runs)} runs to go. The same command goes on; whole epochs are kept.", flush=True)
            return STOPPED
        print(f"All {len(runs)} runs exist now.")
    if PRESETS[options.preset].caution:
        print(PRESETS[options.preset].caution)
    if diverged := sum(row["status"] == "diverged" for row in store.rows({run.key for run in runs}).values()):
        print(f"{diverged} of {len(runs)} runs diverged: they have a row, and no accuracy.")
    return int(0 < diverged == len(runs))


# --- status -----------------------------------------------------------------------------------------------------------


def status(options: argparse.Namespace) -> int:
    """Say how many runs of each part of the preset paper exist, and how long the rest would take."""
    device, store = resolve_device(options.device), Store(options.results)
    present = store.rows()
    pace = local.pace_of(present.values(), device)
    lines: list[dict[str, Any]] = []
    for part in parts(store, present.keys()):
        runs, missing, images = len(part.runs), len(part.missing), sum(map(local.image_epochs, part.to_train))
        seeds = {len(by_number) for by_number in grids(part.runs).values()}
        lines.append({
            "part": part.name, "runs": runs, "present": runs - missing, "missing": missing, "to_train": len(part.to_train),
            "seeds": max(seeds) if len(seeds) == 1 else None, "complete_seeds": min(map(len, runs_of_complete_seeds(part.runs, present).values()), default=0),
            "seconds_left": None if pace.seconds is None and images else (pace.seconds or 0) * images,
            "core_hours": None if pace.core_seconds is None and images else (pace.core_seconds or 0) * images / 3600,
        })  # fmt: skip
    found = {
        "store": str(store.path), "rows": len(present), "diverged": sum(row["status"] == "diverged" for row in present.values()),
        "conflicts": {key: list(files) for key, files in store.conflicts.items()}, "device": str(device),
        "seconds_an_image": pace.seconds, "core_seconds_an_image": pace.core_seconds, "pace_of": pace.source, "parts": lines,
    }  # fmt: skip
    print(json.dumps(found, indent=1) if options.json else "\n".join(described(found)))
    return 0


def described(found: dict[str, Any]) -> list[str]:
    """What `status` found, as lines of text."""
    conflicts = numbered(len(found["conflicts"]), "run")
    said = [f"{numbered(found['rows'], 'row')} in {found['store']}; {conflicts} with rows that disagree."]
    if found["diverged"]:
        said.append(f"{numbered(found['diverged'], 'run')} diverged: a row, and no accuracy.")
    lines = [*found["parts"], {"part": "all", "runs": "", "present": "", "missing": "", "seeds": None}]
    for name in ("to_train", "seconds_left", "core_hours"):
        values = [line[name] for line in found["parts"]]
        lines[-1][name] = None if None in values else sum(values)
    form = f"{{:<{max(len(line['part']) for line in lines) + 2}}}" + 7 * "{:>11}"
    said.append(form.format("preset paper", "runs", "present", "missing", "seeds", "to train", "time left", "core-hours"))
    for line in lines:
        counts = [line[name] for name in ("part", "runs", "present", "missing")]
        seeds = f"{line['complete_seeds']} of {line['seeds']}" if line["seeds"] else ""
        time = "?" if line["seconds_left"] is None else readable_time(line["seconds_left"])
        hours = "?" if line["core_hours"] is None else f"{line['core_hours']:.1f}"
        said.append(form.format(*counts, seeds, line["to_train"], time, hours))
    said.append(
        "A seed is complete when every configuration has a row on it. A run that several parts ask for is counted under *to train* in the first only."
    )
    said.append("The parts fresh, choices and dropout_fresh ask for runs of frozen selections only.")
    if found["seconds_an_image"] is None:
        return [*said, f"There is no telling how long the rest takes: {found['pace_of']}."]
    epoch = found["seconds_an_image"] * Protocol().split_sizes[0]
    said.append(f"Time left: one process on {found['device']}; core-hours count the threads of the rows timed.")
    return [*said, f"A run-epoch takes {epoch:.3g} s: {found['pace_of']}."]


# --- audit, check, benchmark ------------------------------------------------------------------------------------------


def audit_rows(options: argparse.Namespace) -> int:
    """Retrain stored rows and compare; 0 if they passed, 1 if they failed, 3 if that is undecided."""
    checked_number("n", options.n, 1, integer=True)
    lines: list[dict[str, Any]] = []
    stopped = False
    how = {"should_stop": stop_requests(None), "on_compared": lines.append, "quiet": options.json}
    try:
        audit.audit(Store(options.results), options.n, options.device, seed=options.seed, exact=options.exact, **how)
    except (Interrupted, KeyboardInterrupt):
        stopped = True
    outcome, said = audit.verdict(pd.DataFrame(lines)) if lines else (audit.UNDECIDED, ["No row was compared."])
    ending = "The audit is undecided." if outcome == audit.UNDECIDED else f"The audit {outcome}."
    if stopped:
        ending = f"Stopped; {numbered(len(lines), 'row')} {'was' if len(lines) == 1 else 'were'} compared until then."
    if options.json:
        print(as_json({"outcome": outcome, "stopped": stopped, "said": said, "rows": lines}))
    else:
        for line in lines:
            came_out = "identical" if line["identical"] else "differs"
            print(f"{line['key']}  {came_out:<9}  expected: {line['expected']:<28}  {line['run']}")
        print(*said, ending, sep="\n")
    return STOPPED if stopped else {audit.PASSED: 0, audit.FAILED: 1, audit.UNDECIDED: 3}[outcome]


def check(options: argparse.Namespace) -> int:
    """Look at this machine; 0 if all is well, 1 if something is wrong."""
    return int(not selfcheck.check(options.device, lambda line: print(line, flush=True)))


def benchmark(options: argparse.Namespace) -> int:
    """Time the engine beside its peers."""
    if not (HERE.parent / "benchmarks" / "compare.py").exists():
        raise ValueError("benchmark needs a checkout of the project: the peers are in its folder benchmarks/.")
    sys.path.insert(0, str(HERE.parent / "benchmarks"))
    import compare as peers

    peers.main(options.rest)
    return 0


# --- freeze, reproduce ------------------------------------------------------------------------------------------------


def freeze(options: argparse.Namespace) -> int:
    """Freeze what the first seeds of an experiment select."""
    checked_choice("experiment", options.experiment, GRIDS)
    if not re.fullmatch("dropout" if options.experiment == "dropout_grid" else r"\w+", options.name):
        raise ValueError(f"NAME must be letters, digits and _ (for dropout_grid: dropout), got {options.name!r}.")
    study = Study(options.experiment, "paper", sigma=options.sigma)
    rows = study.complete[study.complete.discriminator == "batch"] if options.experiment == "global_vs_batch" else study.complete
    if lacking := {run.sigma for run in study.runs} - set(rows.sigma):
        raise ValueError(f"no seed is complete at sigma {min(lacking):g}, so nothing can be selected there.")
    target = selection.freeze(options.name, rows, HERE / ("frozen_dropout" if options.experiment == "dropout_grid" else "frozen"))
    count = len(json.loads(target.read_text(encoding="utf-8"))["configurations"])
    print(f"{target}: {count} configurations. Commit this file before any fresh seed is trained.")
    return 0


def reproduce(options: argparse.Namespace) -> int:
    """Print a table of the paper, reported beside measured, with the verdicts on its claims; or a claim with its contrasts."""
    asked = re.fullmatch(r"\s*(table|claim)\s*(\d+)\s*", " ".join(options.what), re.IGNORECASE)
    if asked is None:
        raise ValueError(f'say "Table 1" to "Table 9" or "claim 1" to "claim 15", got {" ".join(options.what)!r}.')
    kind, number = asked[1].lower(), int(asked[2])
    if kind == "table":
        evidence = Evidence()
        twin = tables.twin_of(number, evidence)
        words = {f"claim {c.number} ({c.judged_on} seeds)": c.judged(evidence).word for c in claims.CLAIMS if number in c.tables}
        counts, most = {interval.n for interval in twin.measured.values()} - {0}, reported.SEEDS
        mixed = f" of the grid where n is at most {most}, else fresh"
        whose = " of the grid" if all(n <= most for n in counts) else " (fresh)" if all(n > most for n in counts) else mixed
        seeds = twin.n_text if twin.n_text == tables.NOT_RUN else twin.n_text + whose
        more = {"caption": twin.caption, "seeds": seeds, "verdicts": words}
        heading = f"Table {number}: {twin.caption} Measured: {seeds}."
        heading += "".join(f"\n{name.capitalize()}: {word}." for name, word in words.items())
        found = twin.frame.rename(columns={"mean": "measured"}).assign(difference=lambda f: f.measured - f.reported)
    else:
        verdict = claims.judged(number)
        more = {"says": claims.CLAIMS[number - 1].says, "verdict": verdict.word, "counts": verdict.counts}
        heading = f"Claim {number}: {more['says']}\nVerdict: {verdict.word} ({verdict.counts})"
        if number < 3:
            more["second_study"] = f"with {HIGHER_DROPOUT}: {claims.second_said(claims.second_study())}"
            heading += f"\nSecond study, {more['second_study']}"
        lines = [(c.label, *c.interval, c.state if c.decides else f"{c.state}, beside") for c in verdict.contrasts]
        found = pd.DataFrame(lines, columns=["contrast", "difference", "low", "high", "n", "state"])
    if options.json:
        print(as_json({"what": f"{kind} {number}", **more, "lines": found.to_dict("records")}))
    else:
        ends = {end: found[end].map(lambda v: compare.limit(v, kind == "claim"), na_action="ignore") for end in ("low", "high")}
        print(printed(heading, found.assign(**ends), options.format == "latex"))
    return 0


def printed(heading: str, found: pd.DataFrame, latex: bool) -> str:
    """A DataFrame in columns, or as a tabular: three decimals, differences with their sign, – where there is nothing."""
    forms = {"reported": ".3f", "measured": ".3f", "difference": "+.3f"}
    table = [[name, *("–" if value != value else f"{value:{forms.get(name, '')}}" for value in found[name])] for name in found]
    if latex:
        cells = [[re.sub(r"([%&_#$])", r"\\\1", cell).replace("–", "--") for cell in column] for column in table]
        head, *rest = (" & ".join(line) + r" \\" for line in zip(*cells))
        comment, form = re.sub("^", "% ", heading, flags=re.MULTILINE), "l" * len(table)
        return "\n".join([comment, rf"\begin{{tabular}}{{{form}}}", head, r"\hline", *rest, r"\end{tabular}"])
    padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in table]
    return "\n".join([heading, *("  ".join(line).rstrip() for line in zip(*padded))])


def as_json(content: Any) -> str:
    """JSON, which has no NaN: null in its place."""
    return json.dumps(json.loads(json.dumps(content), parse_constant=lambda _: None), indent=1)


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "run": run, "status": status, "audit": audit_rows, "check": check, "benchmark": benchmark, "freeze": freeze, "reproduce": reproduce,
}  # fmt: skip
