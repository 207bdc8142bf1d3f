"""What the appendix on the first reading shows, on the rows that calibrated it."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from dtcl_core.analysis import sensitivity
from dtcl_core.experiments import open_choices
from dtcl_core.methods import ALL_METHODS
from dtcl_core.report import figures, first_reading, notebook

SHORT_NAMES = ("Oracle", "oracle", "Collapse", "collapsed", "pairs", "negatives", "dw_", "projector")


@pytest.fixture(scope="module")
def portions():
    runs, measured = notebook.obtain("sensitivity", "first", False, "cpu")
    return sensitivity.portions(sensitivity.with_choices(measured, runs))


def test_methods_and_cells_have_one_name(portions):
    tables = [
        first_reading.largest(portions.short, "raw").group,
        first_reading.yardsticks(portions.short, "raw").group,
        first_reading.every_choice(portions.short, "raw").group,
        first_reading.largest_elsewhere(portions.unseen).cell,
        first_reading.every_elsewhere(portions.unseen).cell,
        pd.Series(first_reading.reported_collapse().removeprefix("Reported of ")),
    ]
    titles = tuple(method.title for method in ALL_METHODS.values())
    for names in tables:
        assert names.str.startswith(titles).all()
        assert not names.str.contains("|".join(SHORT_NAMES)).any()


def test_a_near_tie_says_what_another_temperature_would_have_measured(portions):
    rows = portions.full[(portions.full.variation == "start") & (portions.full.probe == "raw")]
    first, second = first_reading.near_ties(rows).splitlines()
    means = rows[(rows.method == "standard") & (rows.label_fraction == 0.01)].groupby("tau_alpha")
    at = {tau: part.mean(numeric_only=True) for tau, part in means}
    gap = at[0.05].validation - at[0.1].validation
    assert first == f"A near-tie decides Standard CL: validation takes 0.05 over 0.1 by {gap:.3f} (n = 5):"
    assert f"Test-OOD {at[0.05].test_ood:.3f}, not {at[0.1].test_ood:.3f};" in second
    ahead = rows.assign(validation=rows.validation.mask(rows.tau_alpha == 0.1, 0.5))
    assert first_reading.near_ties(ahead) == ""


def test_full_runs_are_shown_with_their_near_tie_and_nothing_without_them(portions, capsys):
    first_reading.show_fits(portions.full, "raw")
    told = capsys.readouterr().out
    assert told.count("A near-tie decides") == 1 and told.count("reported lie outside the interval") == 1
    first_reading.show_fits(portions.full.iloc[:0], "raw")
    first_reading.show_finalists(portions.full.iloc[:0])
    assert capsys.readouterr().out == ""


def test_the_best_fits_are_those_of_the_ranking(portions):
    table = first_reading.best_fits(portions.short, 3)
    ranked = sensitivity.ranking(sensitivity.at_freeze(portions.short))
    assert table.misfit.tolist() == ranked.misfit.head(3).tolist() and table.misfit.is_monotonic_increasing
    assert table["Standard CL"].tolist() == ranked.standard.head(3).tolist() and "cost" not in table


def test_lengths_that_validation_prefers_are_counted(portions, capsys):
    first_reading.show_lengths(portions.lengths)
    chosen = sensitivity.validated_epoch(portions.lengths)
    last = (chosen.epoch == open_choices.FULL_EPOCHS).sum()
    assert f"the validated one in {last} of {len(chosen)}." in capsys.readouterr().out
    first_reading.show_lengths(portions.lengths.iloc[:0])
    assert "No run has all lengths yet." in capsys.readouterr().out


def test_figures_are_of_the_cells_asked_for(portions, tmp_path, monkeypatch):
    drawn = []
    draw = figures.open_choices
    monkeypatch.setattr(
        figures,
        "open_choices",
        lambda effects, titles, *rest: drawn.append((effects, titles)) or draw(effects, titles, *rest),
    )
    first_reading.draw_choices(portions.short, "raw", str(tmp_path))
    first_reading.draw_elsewhere(portions.unseen, ("mmd", "dann"), "others", str(tmp_path))
    first_reading.draw_elsewhere(portions.unseen.iloc[:0], ("mmd",), "nothing", str(tmp_path))
    plt.close("all")
    assert {path.stem for path in tmp_path.glob("*.svg")} == {"sensitivity", "others"}
    assert set(drawn[1][0].group) == {"mmd", "dann"} == set(drawn[1][1])
    assert list(drawn[0][1].values())[1] == "Standard CL\nw/ Color Jitter"


def varied(rows):
    return first_reading.fields(rows).split("open and not varied")[0]


def test_fields_that_nothing_changed_are_said(portions):
    rows = pd.concat([portions.short, portions.unseen])
    assert "epoch_selection" not in varied(rows) and "downsampling" in varied(rows)
    whole = pd.concat([rows, portions.full, portions.lengths])
    assert "epoch_selection" in varied(whole[~whole.duplicated(["key", "label_fraction"])])
    alone = varied(rows[rows.variation == "start"])
    assert alone.startswith("1 open and varied:") and "probe_features" in alone
