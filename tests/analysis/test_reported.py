"""The paper's numbers as they are stored."""

import pytest

from dtcl_core.analysis import reported


def test_reported_numbers_are_the_papers():
    table = reported.load()
    assert len(table) == 363 and table.value.between(0, 1).all()
    main = reported.main_comparison().set_index(["method", "metric"]).value
    assert main["dw_pairs", "test_ood"] == 0.819 and main["standard", "d_test_id"] == 0.688 and len(main) == 21
    assert len(reported.main_comparison(50, 0.1)) == 14 and len(reported.main_comparison(25)) == 6
    assert reported.main_comparison(33).empty
    with pytest.raises(ValueError, match="unknown source 'table_0'"):
        reported.load("table_0")
