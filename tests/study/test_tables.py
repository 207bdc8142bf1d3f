"""Twins of the paper's tables: its rows, its columns, its numbers, ours beside them."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from made_up import frame

from dtcl_core.config import TAU_ALPHAS, TAU_BETAS, Run
from dtcl_study import reported, tables
from dtcl_study.chapter import Table
from dtcl_study.compare import Interval
from dtcl_study.study import Evidence


def selected(n=3, value=lambda run, f, m: 0.7):
    runs = []
    for seed in range(n):
        runs += [Run(m, 0.1, seed=seed) for m in ("standard", "same_domain", "color_jitter")]
        runs += [Run(m, 0.1, lambda_=1.0, seed=seed) for m in ("mmd", "dann")]
        runs += [Run(m, 0.1, 0.5, seed=seed) for m in ("dw_negatives", "dw_pairs")]
    return frame(runs, value)


def test_every_number_of_the_paper_has_a_place():
    """No table of the paper has a cell that its twin lacks."""
    evidence = Evidence()
    twins = {n: tables.twin_of(n, evidence) for n in range(1, 10)}
    numbers = sorted(pd.concat([twin.frame for twin in twins.values()]).reported.dropna())
    assert numbers == sorted(reported.load().value), "each reported number stands in one cell of one twin"
    shapes = {1: (7, 3), 2: (7, 6), **dict.fromkeys(range(3, 9), (10, 4)), 9: (4, 15)}
    assert {n: (len(twin.lines), len(twin.columns)) for n, twin in twins.items()} == shapes


def test_measured_stands_where_it_belongs():
    def value(run, fraction, metric):
        return 0.1 * list(("standard", "same_domain", "mmd", "dann", "dw_negatives", "dw_pairs", "color_jitter")).index(run.method) + {
            "test_ood": 0.01, "test_id": 0.02, "d_test_id": 0.03, "validation": 0.0}[metric] + fraction / 1000  # fmt: skip

    twin = tables.table_2(selected(value=value))
    for line in twin.frame.itertuples():
        fraction = float(line.column.split(", ")[1].removesuffix(" %")) / 100
        (place,) = [i for i, row in enumerate(twin.lines) if row.label == line.row]
        assert (
            line.mean == pytest.approx(0.1 * place + {"test_ood": 0.01, "test_id": 0.02}[line.metric] + fraction / 1000)
            and line.n == 3
        )


@pytest.mark.parametrize("number", [*tables.TEMPERATURE_TABLES])
def test_the_tables_of_temperatures_hold_what_they_say(number):
    method, metric = (("dw_negatives", "dw_pairs")[number > 5], ("validation", "test_ood", "test_id")[number % 3])
    runs = [Run(m, a, b, seed=s) for m in ("dw_negatives", "dw_pairs") for a in TAU_ALPHAS for b in TAU_BETAS for s in range(2)]
    place = {"dw_negatives": 0.2, "dw_pairs": 0.0, "validation": 0.03, "test_ood": 0.02, "test_id": 0.01}
    value = lambda run, f, m: place[run.method] + place.get(m, 0.0) + run.tau_alpha / 10 + run.tau_beta / 100 + f / 1000
    twin = tables.temperature_table(number, frame(runs, value))
    assert len(twin.measured) == 40 and [line.label for line in twin.lines] == [f"{a:g}" for a in TAU_ALPHAS]
    for (i, j), found in twin.measured.items():
        told = place[method] + place[metric] + TAU_ALPHAS[i] / 10 + TAU_BETAS[j] / 100 + 1e-5
        assert found.mean == pytest.approx(told, abs=1e-9) and found.n == 2


def test_table_9_tells_kinds_of_discriminators_apart():
    runs = [
        Run(m, 0.1, 0.5, sigma=25.0, seed=s, discriminator=k)
        for m in ("dw_negatives", "dw_pairs")
        for k in ("global", "batch")
        for s in range(2)
    ]
    place = {
        "dw_negatives": 0.2,
        "dw_pairs": 0.0,
        "global": 0.05,
        "batch": 0.0,
        "test_ood": 0.02,
        "test_id": 0.01,
        "d_test_id": 0.5,
    }
    value = lambda run, f, m: place[run.method] + place[run.discriminator] + place.get(m, 0.0) + f / 1000
    found = tables.table_9(frame(runs, value), (25.0,)).frame
    told = {
        (f"{title}, {kind}", metric): place[m] + place[k] + place[name] + 1e-5
        for m, title in (("dw_negatives", "Domain-Weighted Negatives"), ("dw_pairs", "Domain-Weighted Pairs"))
        for k, kind in (("global", "global"), ("batch", "batch-level"))
        for name, metric in (("test_ood", "Test-OOD"), ("test_id", "Test-ID"), ("d_test_id", "D-Test-ID"))
    }
    assert {(line.row, line.column): line.mean for line in found.itertuples()} == pytest.approx(told)


def test_table_9_is_of_fresh_seeds_where_both_discriminators_have_them(monkeypatch):
    def runs(sigma, kinds, seeds):
        return [
            Run(m, 0.1, 0.5, sigma=sigma, seed=s, discriminator=k)
            for m in ("dw_negatives", "dw_pairs")
            for k in kinds
            for s in seeds
        ]

    both = ("global", "batch")
    grid = frame([*runs(25.0, both, range(2)), *runs(50.0, both, range(2))], lambda *_: 0.6)
    monkeypatch.setattr(tables, "Study", lambda *_, **__: SimpleNamespace(selected=lambda: grid))
    evidence = Evidence()
    plain = [Run("standard", 0.1, sigma=s, seed=0) for s in (25.0, 50.0)]
    evidence.fresh = frame(
        [*runs(50.0, both, range(1100, 1103)), *runs(25.0, ("global",), range(1100, 1103)), *plain], lambda *_: 0.7
    )
    found = tables.twin_of(9, evidence).frame
    spread = found.column.str.split(",").str[0]
    assert set(zip(found.n[spread == "sigma 50"], found["mean"][spread == "sigma 50"].round(9))) == {(3, 0.7)}
    assert set(zip(found.n[spread == "sigma 25"], found["mean"][spread == "sigma 25"].round(9))) == {(2, 0.6)}
    assert set(found.n[spread == "sigma 75"]) == {0}


def test_the_best_is_bold_and_the_oracle_is_aside():
    rows = selected(value=lambda run, f, m: {"color_jitter": 0.99, "dw_pairs": 0.9, "standard": 0.52}.get(run.method, 0.6))
    table = tables.table_1(rows).table("method")
    names = [m.removesuffix(" *") for m in table.frame["method"]]
    assert [m for m in table.frame["method"] if m[-2:] in (" *", " †")] == [
        "Domain-Weighted Negatives *", "Domain-Weighted Pairs *", "Standard CL w/ Color Jitter †"
    ]  # fmt: skip
    heads = ["Unseen (Test-OOD)", "Training (Test-ID)", told := "Colour probe (D-Test-ID)"]
    assert list(table.frame)[1:] == [f"{head}, {kind}" for head in heads for kind in tables.KINDS]
    place = lambda line, column: (names[line], column.rpartition(", ")[2], column.rpartition(", ")[0])
    bold, second = ({place(*where) for where, mark in table.marked.items() if mark == wanted} for wanted in "bu")
    assert ("Domain-Weighted Pairs", "measured", "Unseen (Test-OOD)") in bold
    assert second >= {("Domain-Weighted Negatives", "reported", column) for column in heads[:2]}, "as in the paper"
    assert {("Standard CL", "measured", told), ("Same Domain Negatives", "reported", told)} <= bold and not [
        b for b in bold if "Jitter" in b[0]
    ]
    assert len(bold) == 6


def test_table_2_marks_what_the_paper_marks():
    """But for 10 % of the labels on Test-ID, where both of the paper's methods have 0.963."""
    twin = tables.table_2(selected().iloc[:0])
    short = [line.label.split("-Weighted ")[-1] for line in twin.lines]
    marks = twin.marks(twin.reported)
    assert [{short[i]: mark for (i, at), mark in marks.items() if at == j} for j in range(6)] == [
        {"Pairs": "b", "Negatives": "u"}, {"CL with MMD Penalty": "b", "Pairs": "u"}, {"Negatives": "b", "Same Domain Negatives": "u"},
        {"Pairs": "b", "Negatives": "u"}, {"Pairs": "b", "Negatives": "b"}, {"Negatives": "b", "Pairs": "u"},
    ]  # fmt: skip


def test_in_table_9_the_better_of_a_methods_two_is_bold_as_in_the_paper():
    twin = tables.table_9(selected().iloc[:0], [50.0])
    marks = twin.marks(twin.reported)
    best = [{i: mark for (i, at), mark in marks.items() if at == j} for j in range(3)]
    expected = [{0, 2}, {1, 2}, {1, 2}]  # the paper's bold ones in its first two, nearest one half in the last
    assert best == [dict.fromkeys(lines, "b") for lines in expected]
    assert twin.marks({(0, 0): 0.9, (2, 0): 0.5, (3, 0): 0.5}) == {(2, 0): "b", (3, 0): "b"}, (
        "a tie is bold twice, one alone not at all"
    )
    for seeds in (1, 2):
        measured = {(i, j): Interval(0.9 - 0.1 * i, 0.8, 1.0, 2 if i != 1 else seeds) for i, j in twin.measured}
        bold = {line for line, column in dataclasses.replace(twin, measured=measured).table().marked if "measured" in column}
        assert (0 in bold) is (seeds == 2) and 2 in bold, "two means over different seeds are not compared"


def test_in_tables_3_to_8_the_best_of_the_whole_table_is_bold_as_in_the_paper():
    twin = tables.temperature_table(3, selected().iloc[:0])
    best = set(twin.marks(twin.reported))
    assert {twin.reported[place] for place in best} == {max(twin.reported.values())}
    assert "best mean of the table" in twin.table().caption


def test_a_cell_without_rows_is_a_dash_and_n_is_told():
    table = tables.table_1(selected().iloc[:0]).table("method")
    assert set(table.frame["Training (Test-ID), measured"]) == {"–"} and "not yet run" in table.caption
    assert "our mean over 3 seeds and its 95 % interval." in tables.table_1(selected(3)).table().caption
    assert "Measured: one seed, so no interval." in tables.table_1(selected(1)).table().caption
    rows, rng = selected(3), np.random.default_rng(0)
    mixed = tables.table_1(rows[(rows.method != "dann") | (rows.seed == 0)]).table()
    assert "3 seeds" in mixed.caption and "1 to" in mixed.caption
    assert "Means of different n are not compared." in mixed.caption and not [
        name for _, name in mixed.marked if "measured" in name
    ]
    assert "* the paper's methods; † oracle, not ranked." in tables.table_1(rows).table().caption
    plain = tables.table_1(rows[rows.method != "color_jitter"])
    assert plain.table("method").frame.iloc[-1].str.contains("†|–").sum() == 4 and "over 3 seeds" in plain.said
    assert plain.marks(plain.comparable), "the oracle takes no part"
    both = tables.beside({"one": tables.table_1(rows), "other": plain})
    assert [name.split(", ")[1] for name in list(both.frame)[1:]] == ["reported", "one", "other"] * 3
    assert both.frame.iloc[-1].tolist()[1:4] == ["0.978", "0.700", "–"] and " With one and other: our mean" in both.caption
    assert len(both.small) == 3 * (7 + 6) and {*both.small.values()} == {"±.000"}
    some = tables.table_1(rows[rows.method != "dann"])
    assert (
        len([place for place in some.marks(some.reported) if place[1] == 0]) == 2
        and tables.table_2(rows[rows.method != "dann"]).marks({(0, 0): 0.9, (1, 0): 0.8}) == {}
    )
    line = list(mixed.frame.iloc[:, 0]).index("CL with DANN")
    assert {text for place, text in mixed.small.items() if place[0] == line} == {"n 1"}
    assert all(text.endswith(", n 3") for place, text in mixed.small.items() if place[0] != line)
    assert "cut at" not in mixed.caption and len(mixed.small) == 3 * 7
    assert "interval, cut at 0 and 1." in tables.table_1(selected(3, lambda *_: rng.uniform(0.9, 1))).table().caption
    assert "cut at" not in tables.table_1(selected(3, lambda *_: 1.0)).table().caption
    assert not any("n 3" in text for text in tables.table_1(rows).table().small.values())


def test_rows_of_two_configurations_are_refused():
    rows = pd.concat([selected(), frame([Run("standard", 0.2, seed=s) for s in range(3)])])
    with pytest.raises(ValueError, match="several rows"):
        tables.table_1(rows)


@pytest.mark.parametrize(
    ("proposed", "said"),
    [(0.9, "4 better (+0."), (0.5, "4 worse (-0."), (0.7, "4 unclear (")],
)
def test_leads_are_over_every_baseline(proposed, said):
    rng = np.random.default_rng(0)
    rows = selected(12, lambda run, f, m: (proposed if run.method.startswith("dw") else 0.7) + 0.01 * rng.normal())
    found = tables.leads(rows[rows.label_fraction == 0.01])
    assert len(found) == 4 and found["beside the four baselines"].str.startswith(said).all()
    assert tables.leads(selected(1)[selected(1).label_fraction == 0.01]).empty, "one seed has no interval"


def test_the_smallest_lead_is_the_one_over_the_highest_baseline():
    rng = np.random.default_rng(1)
    level = {"standard": 0.6, "same_domain": 0.65, "mmd": 0.72, "dann": 0.5}
    rows = selected(12, lambda run, f, m: level.get(run.method, 0.7) + 0.001 * rng.normal()).query("label_fraction == 0.01")
    for line in tables.leads(rows).to_dict("records"):
        assert line["beside the four baselines"].startswith("3 better, 1 worse (-0.0")
        assert line["smallest lead"].startswith("-0.02") and line["smallest lead"].endswith(", CL with MMD Penalty")


def test_a_table_is_plain_text_and_html():
    table = Table(
        pd.DataFrame({"a<b": ["x&y", None], "n": [3, 4], "v": [0.12345, np.nan]}),
        "A caption",
        {(0, "v"): "b"},
        {(0, "n"): "small"},
    )
    assert repr(table).splitlines()[0] == "A caption" and "0.123" in repr(table) and "3 (small)" in repr(table)
    page = table.html()
    assert "a&lt;b" in page and "x&amp;y" in page and "<b>0.123</b>" in page and "<small>small</small>" in page and "–" in page
    heads = Table(pd.DataFrame({"method": ["x"], "OOD, 1 %": [1], "OOD, 10 %": [2], "ID, 1 %": [3]})).html()
    assert "<th rowspan=2>method</th><th colspan=2>OOD</th><th rowspan=2>ID, 1&nbsp;%</th></tr><tr><th>1&nbsp;%</th>" in heads
    joined = Table(pd.DataFrame({"a": ["x", "", "y"], "b": ["1", "2", ""]})).html()
    assert joined.count("<td") == 5 and joined.count("<td rowspan=2>x") == 1 and "<td>y</td><td></td>" in joined
    assert "Not yet run." in repr(Table(pd.DataFrame())) and "Not yet run." in Table(pd.DataFrame()).html()


def test_a_table_whose_rows_come_from_two_kinds_of_device_says_whose():
    rows = frame([Run("mmd", 0.1, lambda_=1.0), Run("standard"), Run("standard", seed=1)])
    assert tables.devices_said(rows) == "" == tables.devices_said(rows.iloc[:0])
    rows.loc[(rows.method == "standard") & (rows.seed == 1), "device"] = "cuda"
    said = tables.devices_said(rows)
    assert said.startswith("Trained by a GPU: Standard CL (1 of 2 runs); all other runs by a CPU. ")
    assert tables.devices_said(rows[rows.device == "cuda"]) == ""
    rows["device"], rows["instructions"] = "cpu", "AVX512"
    assert tables.devices_said(rows) == ""
    rows.loc[rows.method == "mmd", "instructions"] = "AVX2"
    assert tables.devices_said(rows).startswith(
        "Trained by a CPU with AVX2: CL with MMD Penalty (1 of 1 runs); all other runs by a CPU with AVX512. "
    )
    others = frame([Run("macl", lambda_=0.5), Run("standard"), Run("standard", seed=1)])
    others.loc[others.method == "macl", "device"] = "cuda"
    assert tables.devices_said(others).startswith("Trained by a GPU: MACL (1 of 1 runs); ")
