"""What the chapters on the data and on the method say is what the data and the losses are."""

import re

import pytest
import torch

from dtcl_core import losses
from dtcl_core.data import ColoredDigits
from dtcl_core.methods import METHODS
from dtcl_core.report import lessons


def test_splits_are_counted():
    data = ColoredDigits(50.0, 1)
    table = lessons.splits(data).set_index("split")
    assert (table.threes + table.fives == table.images).all() and len(table) == 4
    assert table.loc["train", "threes"] == (data.labels("train") == 0).sum() and table.loc["train", "images"] == 6930
    assert table.colours.to_dict() == {
        "train": "red and blue",
        "validation": "purple",
        "test_id": "red and blue",
        "test_ood": "green",
    }


def test_colour_betrays_the_domain_less_the_wider_it_spreads():
    table = lessons.told_by_color((0.0, 150.0), seed=0)
    accuracies = table["accuracy from colour alone"].tolist()
    assert accuracies[0] == 1.0 and 0.75 < accuracies[1] < 0.99
    assert table.sigma.tolist() == ["0", "150"] and (table.n == 1154).all()


def test_the_sentence_on_the_data_takes_its_numbers_from_them():
    x = lessons.data_in_numbers((150.0, 25.0), seed=3)
    assert (x["narrow"], x["wide"], x["digits"]) == (25.0, 150.0, 6930 + 1154 + 1154 + 2310)
    assert x["digits"] <= x["in_training_file"] and x["told_wide"] < x["told_narrow"]
    said = lessons.data_in_words(x | {"told_wide": 0.5}).text
    assert "11,548 threes" in said and said.endswith("of 100% of new digits at sigma 25, and of 50% at sigma 150.")
    assert lessons.digits_used(x).startswith(
        "11,548 of the 11,552 threes and fives in MNIST's training file; 1,902 more"
    )


@pytest.mark.parametrize("settings", [(0.175, 1.0, 0.01, 2), (0.1, 0.0, 0.05, 3), (0.5, 2.0, 0.2, 4)])
def test_the_loss_written_out_is_the_librarys(settings):
    generator = torch.Generator().manual_seed(1)
    z, z_pos = torch.randn(2, 9, 5, generator=generator, dtype=torch.float64)
    w = torch.rand(9, 9, generator=generator, dtype=torch.float64)
    library = losses.domain_weighted_info_nce(z, z_pos, w, *settings).item()
    assert lessons.written_out(z, z_pos, w, *settings) == pytest.approx(library, rel=1e-12)
    assert lessons.written_out(z, z_pos, 1 - w, *settings) != pytest.approx(library) or settings[1] == 0


def test_the_sentence_on_the_method_takes_its_numbers_from_the_loss():
    x = lessons.method_in_numbers(0.2, 0.5, 0.05, 2)
    assert (x["alike"], x["other"], x["unknown"]) == (0.05, pytest.approx(0.45), 0.2) and x["apart"] < lessons.WITHIN
    said = lessons.method_in_words(x).text
    assert re.search(
        r"domain has 0\.05, one that surely does not 0\.45, and one of which nothing is known 0\.2\.", said
    )
    with pytest.raises(ValueError, match="the library's"):
        lessons.method_in_words(x | {"apart": 1e-6})
    with pytest.raises(ValueError, match="the library's"):
        lessons.method_in_words(x | {"apart": float("nan")})


def test_every_method_is_listed_with_what_is_its_own():
    table = lessons.registry().set_index("method")["its own"]
    assert list(table.index) == [method.title for method in METHODS.values()]
    assert table["Standard CL"] == "nothing: plain InfoNCE" and (table == "nothing: plain InfoNCE").sum() == 1
    assert table["CL with DANN"] == "a penalty" and table["Standard CL w/ Color Jitter"] == "jittered views"
    assert table["Domain-Weighted Pairs"] == "negatives or temperatures"
