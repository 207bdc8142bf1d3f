"""Tables as pages and as text: what the HTML says is what the numbers say."""

from html.parser import HTMLParser

import pandas as pd
import pytest

from dtcl_core.analysis import contrasts
from dtcl_core.report import html_tables, notebook
from dtcl_core.report.html_tables import Shown


class Cells(HTMLParser):
    """Headers, rows and the name of each cell of the first table of a text."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.names, self.open = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "tr":
            self.rows.append([])
            self.names.append([])
        self.open = tag in ("td", "th")
        if self.open:
            self.rows[-1].append("")
            self.names[-1].append(dict(attributes).get("id"))

    def handle_endtag(self, tag):
        self.open = False

    def handle_data(self, data):
        if self.open:
            self.rows[-1][-1] += data


def table(**more):
    lines = {
        "method": ["Standard CL", "CL with MMD Penalty", "Standard CL w/ Color Jitter"],
        "reported": [0.784, 0.688, 0.978],
        "measured": [0.663, 0.885, 0.976],
        "low": [0.470, 0.856, 0.969],
        "high": [0.856, 0.914, 0.983],
        "n": [5, 5, 5],
    }
    return pd.DataFrame({**lines, **more})


def test_the_text_is_the_table_that_tests_compare():
    text = repr(Shown(table(), title="Test-OOD accuracy"))
    assert text.splitlines()[0] == "Test-OOD accuracy"
    assert text.splitlines()[2].split() == ["Standard", "CL", "0.784", "0.663", "0.470", "0.856", "5"]
    assert Shown(table())._repr_mimebundle_()["text/plain"] == repr(Shown(table()))


def test_an_interval_is_one_column_and_the_difference_stands_beside_what_was_reported():
    rows = Cells(Shown(table()).html()).rows
    assert rows[0] == ["method", "reported", "measured", "less reported", "n"]
    assert rows[1] == ["Standard CL", "0.784", "0.66 ± 0.19", "-0.12", "5"]
    assert rows[3][2] == "0.976 ± 0.007"


def bold(html):
    """The cells that are bold."""
    found = Cells(html)
    selectors = [part.split("{")[0] for part in html.split("}") if "font-weight: bold" in part]
    names = {name.strip("# \n") for part in selectors for name in part.split(",")}
    return [cell for row, ids in zip(found.rows, found.names) for cell, name in zip(row, ids) if name and name in names]


def test_the_best_is_marked_and_an_oracle_is_not_the_best():
    assert bold(Shown(table(), best="test_ood").html()) == ["0.784", "0.89 ± 0.03"]
    assert bold(Shown(table(), best="d_test_id").html()) == ["0.66 ± 0.19", "0.688"]  # nearest to one half
    assert bold(Shown(table()).html()) == []
    with pytest.raises(ValueError, match="best must be one of .*, got 'tset_ood'"):
        Shown(table(), best="tset_ood")


@pytest.mark.parametrize("level", html_tables.LEVELS)
def test_methods_compete_at_equal_levels_only(level):
    several = pd.concat(
        [table(**{level: 0.01}), table(**{level: 1.0}).assign(measured=[0.9, 0.8, 0.99])], ignore_index=True
    )
    assert bold(Shown(several, best="test_ood").html()) == ["0.784", "0.89 ± 0.03", "0.784", "0.90 [0.47, 0.86]"]
    assert len(bold(Shown(several.drop(columns=level), best="test_ood").html())) == 2


@pytest.mark.parametrize("varied", html_tables.VARIED)
def test_settings_of_a_method_compete_within_it(varied):
    both = pd.DataFrame({"method": ["a", "a", "b", "b"], varied: [1, 2, 1, 2], "measured": [0.9, 0.8, 0.6, 0.7]})
    assert bold(Shown(both, best="test_id").html()) == ["0.900", "0.700"]
    assert bold(Shown(both.assign(reported=0.5), best="test_id").html()) == ["0.900", "0.700"], (
        "a part of what is reported"
    )
    assert bold(Shown(both.drop(columns=varied), best="test_id").html()) == ["0.900"]


def test_averages_over_a_grid_have_a_best():
    averages = pd.DataFrame({"method": ["a", "b"], "reported selected": [0.7, 0.8], "mean of cells": [0.6, 0.5]})
    assert bold(Shown(averages, best="test_id").html()) == ["0.600", "0.800"]


def test_a_difference_has_a_bar_to_its_own_side():
    html = Shown(pd.DataFrame({"method": ["a", "b"], "difference": [0.2, -0.1]})).html()
    bars = [part for part in html.split("}") if "linear-gradient" in part]
    for bar in bars:  # a declaration that is not closed swallows the next, and no bar is drawn
        declared = [line.strip() for line in bar.partition("{")[2].split(";") if line.strip()]
        assert all(line.count(":") == 1 for line in declared) and any(
            line.startswith("background:") for line in declared
        )
    assert [html_tables.ABOVE in bar for bar in bars] == [True, False] and [
        html_tables.BELOW in bar for bar in bars
    ] == [
        False,
        True,
    ]


def test_one_name_a_method_in_text_and_page():
    raw = pd.DataFrame(
        {"method": ["dw_pairs", "standard"], "metric": ["test_ood", "d_test_id"], "test_id": [0.5, 0.75]}
    )
    for said in (repr(Shown(raw)), Shown(raw).html()):
        assert "dw_pairs" not in said and "Domain-Weighted Pairs" in said and "Standard CL" in said
        assert "test_ood" not in said and "Test-OOD" in said and "D-Test-ID" in said
    assert (
        contrasts.plain("dw_pairs over the best baseline, test_id")
        == "Domain-Weighted Pairs over the best baseline, Test-ID"
    )
    assert contrasts.plain("Standard CL and CL with MMD") == "Standard CL and CL with MMD", "a title stays as it is"


def test_missing_values_and_markup_are_harmless():
    odd = pd.DataFrame(
        {"what": ["<b>", None], "measured": [float("nan"), 0.5], "low": [float("nan")] * 2, "high": [float("nan")] * 2}
    )
    rows = Cells(Shown(odd).html()).rows
    assert rows[1:] == [["<b>", "–"], ["–", "0.500"]]


def test_a_page_is_the_same_at_every_build():
    assert Shown(table()).html() == Shown(table()).html() != Shown(table(n=[4, 5, 5])).html()


def test_a_wide_table_scrolls_in_its_own_box_and_loads_nothing():
    html = Shown(table()).html()
    assert html.startswith('<div class="dtcl-table" style="overflow-x: auto') and html.endswith("</div>")
    assert "http" not in html and "url(" not in html and "@import" not in html


def test_show_without_rows_says_so(capsys):
    notebook.show(table().iloc[:0], title="Test-ID")
    notebook.show(table().iloc[:0])
    assert capsys.readouterr().out == "Test-ID\nNo runs yet.\nNo runs yet.\n"


def test_headers_that_code_names_are_plain_on_a_page():
    shown = Cells(Shown(pd.DataFrame({"method": ["dw_pairs"], "lambda_": [0.1]})).html()).rows
    assert shown[0] == ["method", "lambda"] and shown[1][0] == "Domain-Weighted Pairs"
