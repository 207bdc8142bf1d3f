"""A chapter's parameters, whatever they are, either run or are refused in one readable line before any training."""

import re
from collections import Counter

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_book import CHAPTERS
from test_properties import EXAMPLES, ODD, SHARED, TIMES, is_readable

from dtcl_study.chapter import INJECTED, assigned_names

OBTAINS = re.compile(r"^study = Study\(", flags=re.MULTILINE)


def parts(path):
    """A chapter's parameters, and its code up to where its runs are obtained (or its first cell of code)."""
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    (own,) = [c.source for c in cells if "parameters" in c.metadata.get("tags", [])]
    others = [c.source for c in cells if "parameters" not in c.metadata.get("tags", [])]
    last = max((i for i, source in enumerate(others) if OBTAINS.search(source)), default=0)
    return own, others[: last + 1]


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
    own, code = parts(path)
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
