"""A chapter's parameters, whatever they are, either run or are refused in one readable line before any training."""

import keyword

import nbformat
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_book import CHAPTERS
from test_properties import ODD, SHARED, TIMES, WORDS, is_readable

from dtcl_core.notebook import INJECTED, assigned_names


def opening(path):
    """A chapter's parameters, and its code up to where its runs are obtained (or up to its first cell of code)."""
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    (own,) = [c.source for c in cells if "parameters" in c.metadata.get("tags", [])]
    others = [c.source for c in cells if "parameters" not in c.metadata.get("tags", [])]
    last = max((i for i, source in enumerate(others) if "notebook.obtain(" in source), default=0)
    return own, others[: last + 1]


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
@given(st.data())
@settings(max_examples=12 * TIMES, suppress_health_check=SHARED)
def test_a_chapter_runs_or_refuses_its_parameters_in_a_line(path, nothing_trains, data):
    own, code = opening(path)
    names = sorted(assigned_names(own))
    given_ = data.draw(st.dictionaries(st.sampled_from(names) | WORDS.filter(str.isidentifier), ODD, max_size=3))
    injected = f"{INJECTED}\n" + "".join(f"{name} = {value!r}\n" for name, value in given_.items())
    space = {"In": ["", own, injected], "nan": float("nan"), "inf": float("inf")}
    assume(not any(keyword.iskeyword(name) for name in given_))
    try:
        for source in (own, injected, *code):
            exec(compile(source, path.stem, "exec"), space)
    except nothing_trains:
        assert space["compute"] is True
    except (ValueError, OSError) as error:
        assert is_readable(str(error)), error
