"""Which network a row's file gives, and when it gives none."""

import dataclasses

import pytest
import torch

from dtcl_core import encoder_files
from dtcl_core.config import Protocol, Run
from dtcl_core.encoder import Encoder


def probed(run: Run, **changes) -> Run:
    return dataclasses.replace(run, protocol=dataclasses.replace(run.protocol, **changes))


@pytest.fixture
def written(tiny, tmp_path):
    """Two runs, their networks, and what a row tells of the file."""
    runs = [Run(seed=seed, protocol=tiny) for seed in range(2)]
    encoder = Encoder([0, 1], tiny)
    name, content = encoder_files.packed(encoder, runs)
    (tmp_path / name).write_bytes(content)
    return runs, encoder, {"file": name}, tmp_path


def row_of(run: Run, entry: dict) -> dict:
    return {"key": run.key, "run": run.to_dict(), "encoder": entry}


@pytest.mark.parametrize("changes", [{}, {"label_draws": 1}, {"domain_probe_data": "label_subset", "probe_l2": 2.0}], ids=str)
def test_a_row_finds_its_network_however_it_is_probed(written, changes):
    runs, encoder, entry, folder = written
    run = probed(runs[1], **changes)
    found = encoder_files.read(row_of(run, {**entry, "place": 1}), folder)
    for name, value in found.state_dict().items():
        assert torch.equal(value[0], encoder.state_dict()[name][1])


@pytest.mark.parametrize("place", [0, 2, -1, "1", None])
def test_a_place_of_another_run_gives_no_network(written, place):
    runs, _, entry, folder = written
    with pytest.raises(ValueError, match="holds other runs"):
        encoder_files.read(row_of(runs[1], {**entry, "place": place}), folder)


def test_the_key_of_a_training_names_fixed_probes():
    """Those of the first files, whatever the defaults are by now."""
    probes = {"probe_features": "raw", "probe_l2": 1.0, "stratified_labels": False, "nested_labels": True}
    fixed = Run(protocol=Protocol(**probes, label_draws=20, domain_probe_data="train"))
    other = probed(fixed, label_draws=3, domain_probe_data="label_subset", probe_features="l2")
    assert other.training == fixed.training == fixed
