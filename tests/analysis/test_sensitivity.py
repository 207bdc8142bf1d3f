"""The calibration rule on made-up rows, and the default protocol against what the rule takes from the committed ones."""

from dataclasses import fields, replace

import pandas as pd
import pytest
import torch
from made_up_rows import made_up

from dtcl_core import evaluate, pretrain, results
from dtcl_core.analysis import intervals, reported, sensitivity, weight_effects
from dtcl_core.analysis.sensitivity import GROUPS
from dtcl_core.config import METRICS, Protocol, Run
from dtcl_core.experiments import REGISTRY, open_choices, readings, weight_choices
from dtcl_core.experiments.open_choices import (
    CELLS,
    FULL_EPOCHS,
    LATER,
    LENGTHS,
    PROBES,
    SHORT_EPOCHS,
    UNSEEN,
    VARIATIONS,
)
from dtcl_core.launch import local
from dtcl_core.launch.progress import trainings


def papers_value(run, metric):
    group = "collapse" if run.method == "dw_pairs" else run.method
    return float(sensitivity.targets(group).get(metric, 0.5))


def test_the_papers_own_numbers_have_no_misfit():
    runs = REGISTRY["sensitivity"].runs("core", seeds=2)
    short, full, *_ = sensitivity.portions(sensitivity.with_choices(made_up(runs, papers_value), runs))
    assert set(short.epochs) == {SHORT_EPOCHS} and set(full.epochs) == {FULL_EPOCHS}
    ranked = sensitivity.ranking(short)
    assert len(ranked) == len(VARIATIONS) * len(PROBES) and (ranked.misfit < 1e-12).all() and (ranked.n == 2).all()
    taken = sensitivity.decide(sensitivity.ranking(full))
    assert (taken.variation, taken.probe, taken.changes) == ("start", "raw", 0)


def test_variations_are_ranked_on_the_seeds_they_share():
    runs = REGISTRY["sensitivity"].runs("core", seeds=2)
    rows = sensitivity.portions(sensitivity.with_choices(made_up(runs, papers_value), runs)).short
    begun = rows[(rows.seed == 0) | ((rows.variation == "start") & (rows.method != "color_jitter"))].copy()
    begun.loc[begun.seed == 1, list(METRICS)] = 0.0  # a seed that one variation alone has, and not whole
    ranked = sensitivity.ranking(begun)
    assert len(ranked) == len(VARIATIONS) * len(PROBES) and (ranked.misfit < 1e-12).all() and (ranked.n == 1).all()


def test_choices_changed_after_the_freeze_are_shown_but_not_ranked():
    runs = REGISTRY["sensitivity"].runs("laptop", seeds=1)
    later = {v.name for v in LATER}
    rows = sensitivity.portions(sensitivity.with_choices(made_up(runs, papers_value), runs)).short
    assert later <= set(sensitivity.by_variation(rows).variation) and not later & set(
        sensitivity.ranking(rows).variation
    )
    before = {name for v in VARIATIONS for name in v.changes} | {"probe_features"}
    assert not before & {name for v in (*LATER, *UNSEEN) for name in v.changes}, (
        "what the calibration varied is not varied again"
    )


def test_every_open_choice_is_varied_where_something_sees_it():
    """All fields but those that the paper states, and the one without an alternative, which lengths of training stand for."""
    stated = set(open_choices.STATED)
    varied = {name for v in (*VARIATIONS, *LATER[1:], *UNSEEN) for name in v.changes} | {"probe_features"}
    varied |= set(open_choices.JUDGED_ELSEWHERE)
    assert varied | stated | {"epoch_selection"} == {f.name for f in fields(Protocol)} and not varied & stated
    assert [sensitivity.cell_of(Run(**cell)) for cell in CELLS.values()] == list(CELLS)
    names = [v.name for v in open_choices.ALL]
    assert len(set(names)) == len(names)


def test_changes_are_paired_at_one_temperature_with_networks_of_the_same_code():
    runs = REGISTRY["sensitivity"].runs("laptop", seeds=2)
    names = {(v.protocol(SHORT_EPOCHS, probe), v.replicate): v.name for v in open_choices.ALL for probe in PROBES}
    off = {"no dropout": 0.1, "trained again": 0.02, "max pooling": 0.05, "labels drawn again": 0.03}

    def value(run, metric):
        if metric == "validation":
            return 0.9 if run.tau_alpha == 0.2 else 0.8
        if run.tau_alpha == 0.2:
            return 0.3  # selected, but not compared
        return 0.5 + 0.01 * run.seed + off.get(names[run.protocol, run.replicate], 0.0)

    rows = sensitivity.portions(sensitivity.with_choices(made_up(runs, value), runs)).short
    rows = rows[~((rows.variation == "start") & (rows.seed == 1) & (rows.method == "standard"))]
    found = sensitivity.changes(rows).set_index(["variation", "group", "metric"]).sort_index()
    line = found.loc["no dropout", "standard", "test_id"]
    assert [line.base, line.moved] == pytest.approx([0.5, 0.1]) and line.n == 1
    assert found.loc[("trained again", "standard", "test_id")].moved == pytest.approx(0.02)
    line = found.loc["max pooling", "standard", "test_id"]
    assert [line.base, line.moved] == pytest.approx([0.525, 0.03]) and line.n == 2, "with the start trained again"
    assert found.loc["labels drawn again", "color_jitter", "test_ood"].moved == pytest.approx(0.01)
    assert ("SimCLR's jitter", "color_jitter", "test_id") in found.index
    assert ("SimCLR's jitter", "standard", "test_id") not in found.index
    assert (sensitivity.by_variation(rows).query("group == 'standard'").tau == 0.2).all()
    assert (sensitivity.by_variation(rows, tau=0.1).query("group == 'standard'").tau == 0.1).all()
    wide = sensitivity.spread(rows).set_index(["group", "metric"])
    assert wide.loc["color_jitter", "test_id"].tolist() == pytest.approx([0.01, 2]) and "standard" not in wide.index
    assert sensitivity.changes(rows.iloc[:0]).empty and sensitivity.spread(rows.iloc[:0]).empty


@pytest.mark.parametrize("variation", [v for v in LATER if v.reaches != open_choices.SEEN] + [open_choices.AGAIN])
def test_what_a_choice_does_not_reach_learns_the_same_to_the_bit(variation):
    def learned(v):
        small = replace(v.protocol(1), channels=(4, 4, 4), split_sizes=(512, 128, 128, 128))
        cells = (Run("standard", 0.1), Run("color_jitter", 0.1), Run(**open_choices.COLLAPSE))
        runs = [replace(run, protocol=small, replicate=v.replicate) for run in cells]
        stack = pretrain.train(runs, "cpu", precision="float32")
        names = {"dw_pairs": "collapse"}
        return {names.get(run.method, run.method): w for run, w in zip(stack.runs, stack.encoder.weight.detach())}

    start, other = learned(open_choices.UNCHANGED), learned(variation)
    reached = {group for group in start if not torch.equal(start[group], other[group])}
    assert reached == (set() if variation is open_choices.AGAIN else set(variation.reaches))


def test_choices_the_calibration_does_not_see_are_measured_in_cells_of_their_own():
    """And take no part in what it does see, though a projector's run is one of standard contrastive learning too."""
    runs = REGISTRY["sensitivity"].runs("core", seeds=2)

    def value(run, metric):
        if not sensitivity.cell_of(run):
            return papers_value(run, metric)
        return 0.1 + 0.02 * run.seed + (0.3 if run.protocol.mmd_features == "raw" else 0.0)

    short, full, lengths, unseen = sensitivity.portions(sensitivity.with_choices(made_up(runs, value), runs))
    assert (sensitivity.ranking(short).misfit < 1e-12).all() and (full.cell == "").all() and (lengths.cell == "").all()
    found = sensitivity.unseen_effects(unseen).set_index(["variation", "group", "metric"]).sort_index()
    assert len(found) == 3 * sum(len(v.cells) for v in (open_choices.UNCHANGED_IN_CELLS, *UNSEEN))
    line = found.loc["MMD of raw embeddings", "mmd", "test_id"]
    assert [line["mean"], line.moved, line.start] == pytest.approx([0.41, 0.3, 0.11]) and line.moved_n == line.n == 2
    fewer = unseen[(unseen.seed == 0) | (unseen.variation == "start")]
    paired = sensitivity.unseen_effects(fewer).set_index(["variation", "group", "metric"]).sort_index()
    line, start = (paired.loc[name, "mmd", "test_id"] for name in ("MMD of raw embeddings", "start"))
    assert [line.moved, line.start, start.start, start["mean"]] == pytest.approx([0.3, 0.1, 0.1, 0.11])
    assert line.n == 1 and start.n == 2
    others = found.drop("MMD of raw embeddings")
    assert (others.moved.abs() < 1e-12).all() and ("start", "collapsed", "validation") in found.index
    alone = sensitivity.unseen_effects(unseen[unseen.variation == "MMD of raw embeddings"])
    assert alone.moved.isna().all() and (alone.moved_n == 0).all() and alone["mean"].notna().all()
    assert sensitivity.unseen_effects(unseen.iloc[:0]).empty
    titles = sensitivity.cell_titles()
    assert (
        list(titles) == list(CELLS)
        and titles["mmd"] == "CL with MMD Penalty at 0.1, 1"
        and titles["projector"].endswith("MLP head")
    )


def test_validation_takes_one_of_the_lengths_of_a_run_that_has_them_all():
    runs = REGISTRY["sensitivity"].runs("core", seeds=2)

    def value(run, metric):
        epochs = run.protocol.epochs
        if metric == "validation":
            return 0.9 if epochs in (100, 200) and run.seed == 0 else 0.8 + epochs / 1e4
        return epochs / 1000

    rows = made_up(runs, value)
    rows = rows[~((rows.seed == 1) & (rows.method == "dw_pairs"))]
    lengths = sensitivity.portions(sensitivity.with_choices(rows, runs)).lengths
    assert set(lengths.epochs) == set(LENGTHS)
    found = sensitivity.validated_epoch(lengths).set_index(["method", "tau_alpha", "seed"])
    assert found.loc["standard", 0.1, 0].epoch == 100 and found.loc["standard", 0.1, 1].epoch == FULL_EPOCHS
    line = found.loc["color_jitter", 0.1, 0]
    assert [line.test_id, line.test_id_last] == [0.1, 0.4]
    assert ("dw_pairs", 1.0, 0) in found.index and ("dw_pairs", 1.0, 1) not in found.index
    assert ("standard", 0.05, 0) not in found.index, "short runs leave that temperature out"


def test_a_shorter_run_is_the_beginning_of_a_longer_one():
    small = Protocol(epochs=1, channels=(4, 4, 4), split_sizes=(512, 128, 128, 128), lr_step=1)
    short, long = (pretrain.Stack([Run(protocol=replace(small, epochs=n))], "cpu", "float32") for n in (2, 3))
    for stack in (short, short, long, long):
        stack.train_epoch()
    assert torch.equal(short.encoder.weight, long.encoder.weight) and torch.equal(short.losses[1], long.losses[1])


def test_a_misfit_is_the_mean_over_groups_of_mean_differences():
    runs = VARIATIONS[0].settings(SHORT_EPOCHS)
    runs = [Run(**{**setting, "protocol": Protocol(**setting["protocol"])}) for setting in runs[: len(runs) // 3]]
    off = {"standard": 0.03, "color_jitter": 0.0, "dw_pairs": -0.06}
    table = sensitivity.misfit(made_up(runs, lambda run, metric: papers_value(run, metric) + off[run.method]))
    assert list(table.group.unique()) == list(GROUPS) == list(open_choices.SEEN)
    assert sensitivity.terms(table).tolist() == pytest.approx([0.03, 0.0, 0.06])
    assert sensitivity.score(table) == pytest.approx((0.03 + 0.0 + 0.06) / 3)
    assert pd.isna(sensitivity.score(table[table.group != "collapse"])), "no score before every group has rows"


def ranking(*lines):
    return pd.DataFrame(lines, columns=["variation", "probe", "changes", "misfit", "n", "cost"])


def test_the_rule_prefers_the_plain_then_the_cheap_among_those_that_fit_alike():
    far, plain = ("far", "raw", 0, 0.09, 2, 1.0), ("plain", "raw", 1, 0.045, 2, 1.0)
    best, cheap = ("best", "raw", 2, 0.03, 2, 1.0), ("cheap", "raw", 1, 0.049, 2, 0.5)
    assert sensitivity.decide(ranking(far, best)).variation == "best"
    assert sensitivity.decide(ranking(far, best, plain)).variation == "plain"
    assert sensitivity.decide(ranking(far, best, plain, cheap)).variation == "cheap"
    with pytest.raises(ValueError, match="no variation has its full runs yet"):
        sensitivity.decide(ranking())


def test_the_first_reading_is_what_its_rule_takes():
    runs = REGISTRY["sensitivity"].runs("core")
    rows = sensitivity.with_choices(results.Store().load(runs), runs)
    full = sensitivity.portions(rows).full
    taken = sensitivity.decide(sensitivity.ranking(sensitivity.at_freeze(full)))
    assert (sensitivity.at_freeze(full).created < sensitivity.FROZEN).all() and len(full) > len(
        sensitivity.at_freeze(full)
    )
    chosen = next(v for v in VARIATIONS if v.name == taken.variation)
    assert chosen.protocol(FULL_EPOCHS, taken.probe) == readings.FIRST


def test_a_wider_network_costs_more():
    assert sensitivity.cost(Protocol(channels=(32, 32, 64))) > 2 * sensitivity.cost(Protocol(channels=(16, 16, 32)))
    by_hand = (14 * 14 * 3 * 4 + 7 * 7 * 4 * 8 + 4 * 4 * 8 * 8) * 9 / 1e6
    assert sensitivity.cost(Protocol(channels=(4, 8, 8))) == pytest.approx(by_hand)
    pooled = (28 * 28 * 3 * 4 + 14 * 14 * 4 * 8 + 7 * 7 * 8 * 8) * 9 / 1e6
    assert sensitivity.cost(Protocol(channels=(4, 8, 8), downsampling="max_pool")) == pytest.approx(pooled)


def test_runs_that_differ_in_their_probes_alone_are_trained_once(tmp_path, monkeypatch):
    short = Protocol(epochs=1)
    probes = [replace(short, probe_features=kind) for kind in PROBES] + [replace(short, nested_labels=False)]
    runs = [Run(seed=seed, protocol=p) for seed in range(2) for p in probes]
    trained = []
    train = pretrain.train

    def counted(members, *arguments, **options):
        trained.extend(members)
        return train(members, *arguments, **options)

    monkeypatch.setattr(pretrain, "train", counted)
    assert trainings(runs) == [Run(seed=0, protocol=short), Run(seed=1, protocol=short)]
    assert sum(map(len, local.cut_into_stacks(runs, 1))) == 8 and len(local.cut_into_stacks(runs, 1)) == 2
    store = results.Store(tmp_path)
    local.compute(runs, store, "cpu", stack_size=1, quiet=True)
    assert len(trained) == 2 and not store.missing(runs)
    # Each row is what a run of its own, with that probe, would have measured.
    alone = pretrain.Stack([runs[1]], "cpu")
    alone.train_epoch()
    assert evaluate.evaluate(alone)[runs[1].key] == store.rows()[runs[1].key]["metrics"]


def test_a_preset_sizes_what_the_experiment_leaves_to_it_and_no_epochs_are_passed_over():
    experiment = REGISTRY["sensitivity"]
    runs = experiment.runs("smoke", epochs=2)
    own = made_up(runs, papers_value).assign(created="2027-01-01")
    assert len(sensitivity.at_freeze(own)) == len(own), "a sweep of one's own counts whole"
    assert {run.protocol.epochs for run in runs} == {2} and {sum(run.protocol.split_sizes) for run in runs} == {2310}
    sensitivity.with_choices(results.frame([]), runs)  # knows each
    for preset in ("laptop", "core", "paper"):
        with pytest.raises(ValueError, match="sensitivity sets the epochs of its runs itself"):
            experiment.runs(preset, epochs=7)


def test_choices_of_the_weight_reach_methods_with_a_weight_alone():
    """Each changes what weighted pairs learn where all are clipped, and not a bit of a method without a weight."""
    small = Protocol(epochs=1, channels=(4, 4, 4), split_sizes=(512, 128, 128, 128))
    learned = {}
    for name, changes in weight_choices.CHOICES.items():
        protocol = replace(small, **changes)
        assert weight_choices.choice_of(protocol) == name
        runs = [Run("dw_pairs", 0.05, tau_beta=1.0, protocol=protocol)]
        runs += [Run(method, 0.1, protocol=protocol) for method in weight_choices.REFERENCES]
        stack = pretrain.train(runs, "cpu", precision="float32")
        learned[name] = dict(zip((run.method for run in stack.runs), stack.encoder.weight.detach()))
    default = learned.pop("default")
    for name, weights in learned.items():
        assert all(torch.equal(weights[method], default[method]) for method in weight_choices.REFERENCES), name
        assert not torch.equal(weights["dw_pairs"], default["dw_pairs"]), name
    with pytest.raises(ValueError, match="no choice in CHOICES is {'tau_min': 0.2}"):
        weight_choices.choice_of(Protocol(tau_min=0.2))


def test_the_papers_cells_are_those_its_tables_select():
    for method, table in reported.temperature_tables().groupby("method"):
        chosen = table[table.metric == "validation"].sort_values("value").iloc[-1]
        assert weight_choices.PAPER_CELLS[method] == {"tau_alpha": chosen.tau_alpha, "tau_beta": chosen.tau_beta}


def test_what_a_choice_moves_is_paired_by_seed():
    runs = REGISTRY["weight_choices"].runs("laptop")
    best = {"default": 0.075, "tau_min 0.05": 0.175}  # the tau_alpha that validation is made to select

    def value(run, metric):
        if run.method not in weight_choices.PAPER_CELLS:
            return 0.55 + 0.01 * run.seed
        choice = weight_choices.choice_of(run.protocol)
        if metric == "validation":
            if run.tau_alpha == weight_choices.OFF_FLOOR["tau_alpha"]:
                return 0.99  # takes part in no selection
            return 0.9 if run.tau_alpha == best.get(choice, 0.075) else 0.6
        return 0.5 + 0.01 * run.seed + (0.2 if choice == "default" else 0.1 if run.tau_alpha == 0.175 else 0.0)

    rows = made_up(runs, value)
    rows = rows[~((rows.seed == 2) & (rows.method == "same_domain"))]
    found = weight_effects.by_choice(rows, runs).set_index(["group", "variation", "metric"])
    assert len(found) == len(weight_choices.PAPER_CELLS) * len(weight_choices.CHOICES) * 3
    line = found.loc["dw_pairs", "tau_min 0.05", "test_id"]
    assert line.cell == "0.175/1" and line["mean"] == pytest.approx(0.61) and line.n == 3 and line.reported == 0.945
    assert [line.moved, line.moved_low, line.moved_high] == pytest.approx([-0.1] * 3) and line.moved_n == 3
    same = [line.same_domain, line.same_domain_low, line.same_domain_high]
    assert same == pytest.approx([0.05] * 3) and line.same_domain_n == 2 and line.standard_n == 3
    assert found.loc["dw_pairs", "default", "test_id"].cell == "0.075/0.5"
    only = REGISTRY["weight_choices"].runs("laptop", methods="dw_negatives")
    without = weight_effects.by_choice(rows[rows.method == "dw_negatives"], only)
    assert (without.same_domain_n == 0).all() and without.moved.notna().all()
    assert weight_effects.by_choice(rows.iloc[:0], runs).empty
    tried = rows[~((rows.protocol == rows.protocol[0]) & (rows.method == "dw_pairs") & (rows.tau_alpha == 0.075))]
    begun = weight_effects.by_choice(tried, runs)  # one cell alone cannot have been selected
    assert len(begun) == len(found) - 3 and len(begun[begun.group == "dw_negatives"]) == len(found) / 2


def test_the_cell_off_the_floor_is_compared_where_all_cells_were_run():
    """Eq. 3 stays above the floor there for any weight, and falls below it in both cells of the paper."""
    floor, runs = Protocol().tau_min, REGISTRY["weight_choices"].runs("laptop")
    lowest = {tuple(c.values()): c["tau_alpha"] - c["tau_beta"] / 2 for c in weight_choices.PAPER_CELLS.values()}
    off = weight_choices.OFF_FLOOR
    assert max(lowest.values()) < floor < off["tau_alpha"] - off["tau_beta"] / 2

    def value(run, metric):
        if run.tau_alpha == off["tau_alpha"]:
            return 0.8 + 0.01 * run.seed
        return 0.7 + 0.02 * run.seed if weight_choices.choice_of(run.protocol) == "default" else 0.1

    rows = made_up(runs, value)
    rows = rows[~((rows.seed == 2) & (rows.method == "dw_pairs") & (rows.tau_alpha == 0.175))]
    means, more = weight_effects.off_floor(rows, runs, "dw_pairs", ["test_id"])
    assert means.cell.tolist() == ["0.075/0.5", "0.125/0.1", "0.175/1"] and means.n.tolist() == [2, 2, 2]
    assert means.test_id.tolist() == pytest.approx([0.71, 0.805, 0.71])
    d = intervals.mean_interval([0.1, 0.09])
    assert more.cell.tolist() == ["0.075/0.5", "0.175/1"]
    assert more.test_id.tolist() == [f"{d.mean:.3f} ±{d.high - d.mean:.3f}"] * 2
    assert weight_effects.off_floor(rows, runs, "dw_negatives", ["test_id"])[0].n.tolist() == [3, 3, 3]
    assert all(table.empty for table in weight_effects.off_floor(rows.iloc[:0], runs, "dw_pairs", ["test_id"]))


def test_rows_as_if_another_choice_had_been_made():
    """The proposed methods' rows are exchanged, on the seeds that have all four cells; the others stay."""
    runs = REGISTRY["weight_choices"].runs("laptop")
    rows = made_up(runs, lambda run, metric: 0.9 if weight_choices.choice_of(run.protocol) == "l2 of 100" else 0.6)
    keys = {run.key for run in runs if weight_choices.choice_of(run.protocol) == "default"}
    default = rows[rows.key.isin(keys)]
    lacking = next(
        run for run in runs if run.seed == 1 and run.protocol.discriminator_l2 == 100 and run.method == "dw_pairs"
    )
    there = weight_effects.as_if(default, rows[rows.key != lacking.key], runs, "l2 of 100")
    assert set(there.seed) == {0, 2} and there.protocol.nunique() == 1
    proposed = there.method.isin(weight_choices.PAPER_CELLS)
    assert (there[proposed].test_id == 0.9).all() and (there[~proposed].test_id == 0.6).all()
    assert set(there[proposed].tau_alpha) == {0.075, 0.175} and set(there[~proposed].method) == set(
        weight_choices.REFERENCES
    )
    assert there[proposed].key.nunique() == 2 * 4
    assert weight_effects.as_if(default, rows.iloc[:0], runs, "l2 of 100").empty
    assert weight_effects.as_if(default.iloc[:0], rows, runs, "l2 of 100").empty


def test_an_accuracys_interval_stays_within_nought_and_one():
    runs = REGISTRY["sensitivity"].runs("core")

    def value(run, metric):
        return 0.999 if run.seed else 0.8

    short, _, _, unseen = sensitivity.portions(sensitivity.with_choices(made_up(runs, value), runs))
    for table in (sensitivity.by_variation(short), sensitivity.unseen_effects(unseen)):
        several = table[table.n > 1]
        assert len(several) and several.high.max() == 1.0 and several.low.min() >= 0.0
