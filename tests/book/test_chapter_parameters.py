"""A chapter's parameters, whatever they are, either run or are refused in one readable line before any training."""

import contextlib
import io
import linecache
import re
from collections import Counter

import matplotlib
import nbformat
import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from test_book import CHAPTERS
from test_properties import EXAMPLES, ODD, SHARED, TIMES, is_readable

from dtcl_core import methods
from dtcl_study.chapter import INJECTED, assigned_names

OBTAINS = re.compile(r"^study = Study\(", flags=re.MULTILINE)


def parts(path):
    """A chapter's parameters, its code up to where its runs are obtained (or its first cell of code), and the rest."""
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    (own,) = [c.source for c in cells if "parameters" in c.metadata.get("tags", [])]
    others = [c.source for c in cells if "parameters" not in c.metadata.get("tags", [])]
    last = max((i for i, source in enumerate(others) if OBTAINS.search(source)), default=0)
    return own, others[: last + 1], others[last + 1 :]


SOUND = {  # what a reader might well give
    "preset": ["smoke"], "compute": [True, False], "device": ["cpu", "auto"], "seeds": [None, 1, 2], "epochs": [None, 1],
    "sigma": [0, 25.0], "methods": ["all", "dw_pairs"], "tau_alpha": [0.1], "save": [None, "figures"], "seed": [0, 3],
    "tau": [0.1],
}  # fmt: skip


@st.composite
def parameters(draw: st.DrawFn, names: list[str]) -> dict:
    """Up to four of a chapter's parameters with sound values, up to two with odd ones, sometimes one it does not have."""
    sound = [name for name in names if name in SOUND]
    told = (
        {name: draw(st.sampled_from(SOUND[name])) for name in draw(st.lists(st.sampled_from(sound), max_size=4))} if sound else {}
    )
    told |= {name: draw(ODD) for name in draw(st.lists(st.sampled_from(names), max_size=2))}
    other = draw(st.sampled_from([None] * 9 + ["sgima", "In_"]))
    return told | ({other: draw(ODD)} if other else {})


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
def test_a_chapter_runs_or_refuses_its_parameters_in_a_line(path, nothing_trains):
    own, code, _ = parts(path)
    names, outcomes, drawn = sorted(assigned_names(own)), Counter(), set()

    def check(told):
        drawn.update(told)
        injected = f"{INJECTED}\n" + "".join(f"{name} = {value!r}\n" for name, value in told.items())
        space = {"In": ["", own, injected], "nan": float("nan"), "inf": float("inf")}
        try:
            for source in (own, injected, *code):
                exec(compile(source, path.stem, "exec"), space)
            outcomes["ran"] += 1
        except nothing_trains:
            assert space["compute"] is True
            outcomes["trained"] += 1
        except (ValueError, OSError) as error:
            assert is_readable(str(error)), error
            outcomes["refused"] += 1

    for name in names:
        check({name: []})  # none takes an empty list
    check({"preset": "smoke", "compute": True} if "preset" in names else {})
    settings(max_examples=EXAMPLES["each chapter's parameters"] * TIMES, suppress_health_check=SHARED)(
        given(parameters(names))(check)
    )()
    assert drawn >= set(names) and outcomes["refused"] >= len(names) and outcomes["ran"] > 1, (outcomes, drawn)
    assert outcomes["trained"] or not any(OBTAINS.search(source) for source in code), outcomes


ONE_NUMBER = st.floats(0.0, 1e30, exclude_min=True)
SEVERAL = st.lists(ONE_NUMBER, min_size=1, max_size=3).map(lambda values: ",".join(map(str, values)))
EXTREME = {  # what a chapter may accept; hypothesis begins with the first of each
    "preset": st.sampled_from(["paper", "laptop", "smoke"]),
    "compute": st.just(False),
    "device": st.sampled_from(["cpu", "auto", "cuda"]),
    "seeds": st.sampled_from([2, None, 1]),
    "epochs": st.sampled_from([10**30, None, 1, 399, 401]),
    "sigma": st.sampled_from([1e30, 0.0, 50.0]) | ONE_NUMBER | SEVERAL,
    "sigmas": st.just("0,1e30") | SEVERAL,
    "methods": st.sampled_from(["all", "dw_pairs", "dw_negatives", "standard", "dann,mmd", "color_jitter,dw_pairs"]),
    "method": st.sampled_from(["dw_negatives", "dw_pairs"]),
    "tau_alpha": st.sampled_from([1e30, None]) | ONE_NUMBER | SEVERAL,
    "tau_beta": st.sampled_from([1e30, 0.0]) | ONE_NUMBER,
    "tau": st.sampled_from([1.0, 0.1]) | st.floats(1e-3, 1e3),
    "tau_min": st.sampled_from([1e30, 1e-30]) | ONE_NUMBER,
    "num_domains": st.sampled_from([10**30, 1]) | st.integers(1, 99),
    "seed": st.sampled_from([10**30, 2**63 - 1]) | st.integers(0, 2**70),
    "label_fraction": st.sampled_from([1.0, 0.1, 0.01]),
    "probe": st.sampled_from(["standardized", "l2", "raw"]),
    "save": st.sampled_from(["figures", None]),
}
OF_ONE_CHAPTER = {"adding_a_method": {"epochs": st.just(1)}}  # it trains


def perform(sources, space, name):
    """Execute cells, with their lines where `inspect` looks for them."""
    with contextlib.redirect_stdout(io.StringIO()), matplotlib.rc_context({"backend": "agg"}):
        for number, source in enumerate(sources):
            file = f"<{name} {number}>"
            linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
            exec(compile(source, file, "exec"), space)


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
def test_parameters_that_a_chapter_accepts_carry_it_to_its_end(path, tmp_path, monkeypatch):
    """On an empty store: what rows change is for the smoke runs to find."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DTCL_RESULTS", str(tmp_path / "results"))
    own, code, rest = parts(path)
    values, carried = EXTREME | OF_ONE_CHAPTER.get(path.stem, {}), []

    def check(told):
        injected = f"{INJECTED}\n" + "".join(f"{name} = {value!r}\n" for name, value in told.items())
        space = {"In": ["", own, injected], "__name__": "__main__"}
        try:
            perform([own, injected, *code], space, path.stem)
        except (ValueError, OSError):
            reject()
        try:
            perform(rest, space, path.stem)
        finally:
            plt.close("all")
            methods.ALL_METHODS.pop("mine", None)  # what the chapter on adding a method adds
        carried.append(told)

    drawn = st.fixed_dictionaries({name: values[name] for name in sorted(assigned_names(own))})
    settings(
        max_examples=EXAMPLES["each whole chapter"] * TIMES,
        phases=[Phase.generate],  # a smaller example of a failure would take many more runs
        suppress_health_check=list(HealthCheck),
    )(given(drawn)(check))()
    assert len(carried) >= min(EXAMPLES["each whole chapter"] * TIMES, 2)
