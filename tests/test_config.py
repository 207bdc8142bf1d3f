import dataclasses
import json
from pathlib import Path

import pytest

from dtcl_core import config, results
from dtcl_core.config import Protocol, Run
from dtcl_core.methods import ALL_METHODS, Method

GOLDEN = [json.loads(line) for line in (Path(__file__).parent / "golden/keys.jsonl").read_text(encoding="utf-8").splitlines()]


def test_keys_never_change():
    """These name rows for ever, one of every protocol and every kind of run that was ever stored; a failure orphans rows.

    The keys of all committed rows are held by `test_every_committed_row_trace_and_encoder_is_asked_for`.
    """
    assert len(GOLDEN) > 80
    for stored in GOLDEN:
        assert Run.from_dict(stored["run"]).key == stored["key"], stored["run"]


def test_numbers_that_are_equal_give_equal_keys():
    assert Run(sigma=50, seed=1.0).key == Run(sigma=50.0, seed=1).key
    assert Run("dw_pairs", 0.1, 0.0).key == Run("dw_pairs", 0.1, -0.0).key
    assert Run("dw_pairs", 0.1, 0.5).key == Run("dw_pairs", 0.1, 0.5, discriminator="global").key


def test_every_field_moves_the_key():
    base = Run("dw_pairs", 0.1, 0.5, projector="mlp", projector_dim=4)
    changes = [
        {"method": "dw_negatives"}, {"tau_alpha": 0.2}, {"tau_beta": 0.6}, {"sigma": 25}, {"seed": 1},
        {"discriminator": "batch"}, {"projector": "linear"}, {"projector_dim": 8},
    ]  # fmt: skip
    keys = {dataclasses.replace(base, **change).key for change in changes} | {base.key}
    assert len(keys) == len(changes) + 1
    assert Run("mmd", 0.1, lambda_=1).key != Run("mmd", 0.1, lambda_=2).key
    for f in dataclasses.fields(Protocol):
        other = another_value(f)
        if other is not None:
            assert dataclasses.replace(base, protocol=Protocol(**{f.name: other})).key != base.key, f.name


def another_value(f):
    if "choices" in f.metadata:
        return next((c for c in f.metadata["choices"] if c != f.default), None)
    if "each" in f.metadata:
        return {
            "split_sizes": (6000, 1154, 1154, 2310),
            "crop_scale": (0.1, 1.0),
            "blur_sigma": (0.2, 2.0),
            "jitter_strengths": (0.1, 0.1, 0.1, 0.1),
        }.get(f.name, tuple(v + 1 for v in f.default))
    return {"dropout": 0.2, "blur_probability": 0.3, "jitter_probability": 0.5, "lr_gamma": 0.5, "blur_kernel": 5,
            "kernel_size": 5}.get(f.name, f.default + 1)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class LaterProtocol(Protocol):
    ema_decay: float = config.number(0.0, as_before=0.0)


@dataclasses.dataclass(frozen=True)
class LaterRun(Run):
    num_views: int = config.number(2, low=2, as_before=2)


def test_a_field_added_later_orphans_no_key():
    old, new = Run(), Run(protocol=LaterProtocol(ema_decay=0.9))
    keys = {
        old.key,
        new.key,
        LaterRun(num_views=3).key,
        LaterRun(num_views=3, protocol=LaterProtocol(ema_decay=0.9)).key,
    }
    assert len(keys) == 4
    assert old.key == Run(protocol=LaterProtocol()).key == LaterRun().key == LaterRun(protocol=LaterProtocol()).key


AS_BEFORE = {f.name: f.metadata["as_before"] for f in dataclasses.fields(Protocol) if "as_before" in f.metadata}


def test_fields_added_later_orphan_no_stored_row():
    rows = results.Store().rows()
    assert rows
    for key, row in rows.items():
        told = dict(row["run"])
        protocol = AS_BEFORE | told.pop("protocol")
        assert LaterRun.from_dict(row["run"]).key == key
        for run in (Run, LaterRun):
            assert run(**told, protocol=LaterProtocol(**protocol)).key == key


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "simclr"}, "unknown method 'simclr': the methods are standard"),
        ({"tau_alpha": 0}, "tau_alpha must be a number > 0, got 0"),
        ({"tau_alpha": float("inf")}, "tau_alpha must be"),
        ({"tau_alpha": "0.1"}, "tau_alpha must be a number > 0, got '0.1'"),
        ({"sigma": -5}, "sigma must be a number >= 0, got -5"),
        ({"seed": -1}, "seed must be an integer >= 0, got -1"),
        ({"seed": 1.5}, "seed must be an integer"),
        ({"seed": True}, "seed must be an integer"),
        ({"method": "mmd"}, "'mmd' needs lambda_"),
        ({"method": "mmd", "lambda_": -1}, "lambda_ must be a number >= 0, got -1"),
        ({"tau_beta": 0.5}, "'standard' does not use tau_beta, got 0.5"),
        ({"discriminator": "global"}, "does not use discriminator"),
        ({"method": "dw_pairs", "tau_beta": 1, "discriminator": "local"}, "discriminator must be one of"),
        ({"projector": "mlp"}, "projector and projector_dim go together"),
        ({"projector": "mlp", "projector_dim": 0}, "projector_dim must be an integer >= 1, got 0"),
    ],
)
def test_a_bad_run_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Run(**options)


def test_a_method_that_uses_an_unknown_word_is_refused(monkeypatch):
    monkeypatch.setitem(ALL_METHODS, "mine", Method("mine", uses=frozenset({"lambda"})))
    with pytest.raises(ValueError, match=r"'mine' uses 'lambda' \(did you mean 'lambda_'\?\): a method may use tau_beta"):
        Run("mine")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs must be an integer >= 1, got 0"),
        ({"dropout": 1.0}, "dropout must be a number >= 0 and <= 0.95"),
        ({"blur_kernel": 4}, "kernels must be odd"),
        ({"crop_scale": (1.0, 0.2)}, "crop_scale must be a range"),
        ({"crop_scale": (0.2,)}, "crop_scale must be 2 numbers"),
        ({"split_sizes": (150, 40, 40, 40)}, "split_sizes must sum"),
        ({"split_sizes": (20_000, 40, 40, 40)}, "split_sizes must sum"),
        ({"jitter_strengths": (1, 1, 1, 3)}, "hue's strength"),
        ({"batch_size": 10_000}, "batch_size must be at most"),
        ({"probe_features": "pca"}, "probe_features must be one of 'raw', 'standardized', 'l2', got 'pca'"),
        ({"symmetric": 1}, "symmetric must be one of"),
    ],
)
def test_a_bad_protocol_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Protocol(**options)


def test_a_field_missing_in_a_row_is_read_as_it_was_not_as_the_default(monkeypatch):
    """Were the default taken, every row of before would be refused on the day that a default changes."""

    @dataclasses.dataclass(frozen=True)
    class Later(Protocol):
        label_draws: int = config.number(20, low=1, as_before=1, probe=True)  # a default that is not as before

    run = Run(protocol=Protocol(label_draws=1))
    stored = run.to_dict()
    del stored["protocol"]["label_draws"]
    monkeypatch.setattr(config, "Protocol", Later)
    monkeypatch.setattr(config, "stored_protocol", config.stored_protocol.__wrapped__)  # remembers neither
    assert Later().label_draws == 20
    again = Run.from_dict(stored)
    assert again.protocol.label_draws == 1 and again.key == run.key


def test_a_replicate_has_a_key_of_its_own_and_the_first_has_that_of_before():
    run = Run(seed=3)
    stored = run.to_dict()
    del stored["replicate"]  # a row of before
    assert Run.from_dict(stored) == run and "replicate" not in run.canonical() and "replicate" not in str(run)
    again = dataclasses.replace(run, replicate=1)
    assert len({run.key, again.key, dataclasses.replace(run, replicate=2).key}) == 3
    assert Run.from_dict(again.to_dict()) == again and "replicate=1" in str(again)
    assert again.training.replicate == 1, "it is trained"
