"""The rule that chooses what the paper leaves open, on made-up rows and beside a computation of its own."""

import json
import random
from itertools import product

import numpy as np
import pytest

from dtcl_core.config import Protocol
from dtcl_core.results import Store
from dtcl_study import left_open, reported
from dtcl_study.experiments import REGISTRY

NETWORKS = left_open.NETWORKS[:3]


def two_best(comparison) -> tuple[str, ...]:
    """The two candidates that get more seeds, in the list's order."""
    best = sorted(comparison.misfits().items(), key=lambda item: item[1])[:2]
    return tuple(name for name in comparison.found if name in dict(best))


def made_up(candidates, stage, seeds, off, noise=0.02, diverged=()):
    """Rows whose accuracies are what the paper reports, off by so much for each candidate, with noise over seeds and draws."""
    rows, rng = {}, np.random.default_rng(0)
    for candidate, error in zip(candidates, off, strict=True):
        for number, configuration in enumerate(stage.configurations):
            targets = [a for a in stage.targets if number in a.configurations]
            for seed in seeds:
                draws = {str(f): {m: [0.5] * 20 for m in ("validation", "test_id", "test_ood", "d_test_id")} for f in (0.01, 0.1)}
                draws["1.0"] = {m: [0.5] for m in ("validation", "test_id", "test_ood", "d_test_id")}
                for a in targets:
                    value = a.reported + error + noise * rng.normal()
                    count = len(draws[str(a.label_fraction)][a.metric])
                    draws[str(a.label_fraction)][a.metric] = list(value + 0.01 * rng.normal(size=count))
                if targets[0].metric != "validation":  # the first configuration of a method is selected
                    draws["0.01"]["validation"] = [0.9 - 0.1 * (number - targets[0].configurations[0])] * 20
                key = candidate.run(configuration, seed).key
                rows[key] = {"draws": draws, "status": "diverged" if key in diverged else "ok"}
    return rows


def test_the_anchors_are_those_that_the_rule_names():
    first, second = left_open.network_stage(), left_open.weight_stage()
    assert len(first.targets) == 35 and len(second.targets) == 20
    assert {a.method for a in first.targets} == {"standard", "same_domain", "mmd", "dann", "color_jitter"}
    assert {a.metric for a in second.targets} == {"validation"} and {a.label_fraction for a in second.targets} == {0.01}
    for target, cell in zip(second.targets, second.configurations):
        whole = reported.temperature_tables()
        line = whole[
            (whole.method == cell["method"]) & (whole.tau_alpha == cell["tau_alpha"]) & (whole.tau_beta == cell["tau_beta"])
        ]
        assert target.reported == line[line.metric == "validation"].value.item()


def test_runs_have_the_size_of_the_design_and_share_what_no_floor_reaches():
    networks, tried = left_open.NETWORKS, left_open.NETWORK_CONFIGURATIONS
    assert len({n.run(c, seed) for n in networks for c in tried for seed in left_open.NETWORK_SEEDS}) == 280
    weights = left_open.weight_candidates([left_open.NETWORKS[0].name])
    both = {weight.run(c, 100) for weight in weights[:2] for c in left_open.WEIGHT_CONFIGURATIONS}
    assert len(both) == 2 * 20 - 2 * 4, "of ten configurations four are above both floors"
    assert {run.protocol.tau_min for run in both} == {0.05, 0.01}
    assert len({c.name for c in left_open.weight_candidates([n.name for n in left_open.NETWORKS[:2]])}) == 12


def by_hand(rows, stage, seeds, picks=()):
    """Misfits by candidate, computed anew: `rows[name][configuration, seed]` are draws. A list where seeds are picked: means on these, scatter on all."""

    def draws(name, target, among):
        tried = [tuple(stage.configurations[i].items()) for i in target.configurations]
        best = max(tried, key=lambda c: np.mean([validation[name, c, seed] for seed in among]))
        return [np.array(rows[name][best, seed][str(target.label_fraction)][target.metric]) for seed in among]

    validation = {(name, *place): np.mean(told["0.01"]["validation"]) for name in rows for place, told in rows[name].items()}
    squares = [{name: [] for name in rows} for _ in picks or [seeds]]
    for target in stage.targets:
        every = [draws(name, target, seeds) for name in rows]
        draw = np.mean([[d.var(ddof=1) if len(d) > 1 else 0.0 for d in each] for each in every])
        seed = max(0.0, np.mean([np.var([d.mean() for d in each], ddof=1) for each in every]) - draw / 20)
        scale = ((seed + draw) / 5 + seed / len(seeds) + draw / (20 * len(seeds))) ** 0.5
        for picked, found in zip(picks or [seeds], squares):
            for name in rows:
                mean = np.mean([d.mean() for d in draws(name, target, picked)])
                found[name].append(min(4, abs(mean - target.reported) / scale) ** 2)
    misfits = [{name: np.mean(each) ** 0.5 for name, each in found.items()} for found in squares]
    return misfits if picks else misfits[0]


def test_the_misfit_is_that_of_its_definition():
    stage, seeds = left_open.network_stage(), (100, 101, 102)
    rows = made_up(NETWORKS, stage, seeds, (0.0, 0.05, -0.02), noise=0.03)
    comparison = left_open.Comparison(stage, {c.name: left_open.measured(c, stage, rows, seeds) for c in NETWORKS})
    plain = {
        n.name: {(tuple(c.items()), s): rows[n.run(c, s).key]["draws"] for c in stage.configurations for s in seeds}
        for n in NETWORKS
    }
    assert comparison.misfits() == pytest.approx(by_hand(plain, stage, seeds), rel=1e-9)
    for name, misfit in comparison.misfits().items():
        each, metrics = comparison.by_metric(name), [t.metric for t in stage.targets]
        assert len(set(each.values())) == 3 and np.mean([each[m] ** 2 for m in metrics]) == pytest.approx(misfit**2)


def stored_draws(candidates, stage, seeds):
    """What `by_hand` reads, from the lines of the committed shards; None while a run lacks."""
    lines = [
        line for shard in Store().rows_path.glob("*.jsonl") for line in shard.read_text().splitlines() if '"seed": 10' in line
    ]
    runs = [(row["run"], row["draws"]) for row in map(json.loads, lines) if "draws" in row and row["status"] == "ok"]
    found = {}
    for candidate in candidates:
        wanted = json.loads(json.dumps({**left_open.BASE, **candidate.changes}))
        found[candidate.name] = mine = {}
        for configuration, seed in product(stage.configurations, seeds):
            no_floor = (
                configuration["tau_alpha"] - configuration.get("tau_beta", 0.0) / 2 >= 0.05 - 1e-9
            )  # one run for both floors
            protocol = wanted | ({"tau_min": 0.05} if no_floor else {})
            said = {"tau_beta": None, "lambda_": None, **configuration, "seed": seed, "sigma": 50.0, "projector": None}
            fits = [
                draws
                for run, draws in runs
                if all(run[name] == value for name, value in said.items())
                and run["protocol"]["epochs"] == 400
                and all(run["protocol"].get(name) == value for name, value in protocol.items())
            ]
            if not fits:
                return None
            (mine[tuple(configuration.items()), seed],) = fits
    return found


def test_an_outsider_repeats_the_choice_from_the_rows():
    weights = left_open.weight_candidates(left_open.TAKEN_NETWORKS)
    chosen = tuple(c.name for c in weights if {**left_open.BASE, **c.changes} == left_open.CHOSEN)
    for candidates, stage, best, taken in (
        (left_open.NETWORKS, left_open.network_stage(), left_open.BEST_NETWORKS, left_open.TAKEN_NETWORKS),
        (weights, left_open.weight_stage(), left_open.BEST_WEIGHTS, chosen),
    ):
        misfits = by_hand(stored_draws(candidates, stage, stage.seeds), stage, stage.seeds)
        assert {*sorted(misfits, key=misfits.get)[:2]} == {*best}
        seeds = stage.seeds + stage.more_seeds
        rows = stored_draws([c for c in candidates if c.name in best], stage, seeds)
        first, second = sorted(rows, key=by_hand(rows, stage, seeds).get)
        picks = [random.Random(i).choices(seeds, k=len(seeds)) for i in range(100)]
        ahead = np.mean([again[first] < again[second] for again in by_hand(rows, stage, seeds, picks)])
        alike = tuple(name for name in best if name == first or ahead < 0.9)
        assert taken == (alike if candidates is left_open.NETWORKS else alike[:1])


def test_the_truth_has_a_misfit_of_about_one_and_is_taken_unless_another_is_alike():
    stage, seeds = left_open.network_stage(), left_open.NETWORK_SEEDS + left_open.MORE_NETWORK_SEEDS
    rows = made_up(NETWORKS, stage, seeds, (0.2, 0.0, 0.0001), noise=0.03)
    comparison = left_open.compare_candidates(NETWORKS, stage, rows)
    assert comparison is not None and comparison.n == 2
    assert two_best(comparison) == (NETWORKS[1].name, NETWORKS[2].name)
    both = left_open.compare_candidates(NETWORKS, stage, rows, two_best(comparison))
    assert both is not None and both.n == 6
    assert all(value < 1.3 for value in both.misfits().values())
    assert both.alike() == (NETWORKS[1].name, NETWORKS[2].name), "in the list's order"
    worse = made_up(NETWORKS, stage, seeds, (0.2, 0.1, 0.0), noise=0.03)
    both = left_open.compare_candidates(NETWORKS, stage, worse, two_best(comparison))
    assert both is not None and both.alike() == (NETWORKS[2].name,)


def test_nothing_is_compared_while_a_run_lacks_and_a_diverged_one_is_chance():
    stage, seeds = left_open.network_stage(), left_open.NETWORK_SEEDS
    rows = made_up(NETWORKS, stage, seeds, (0.0, 0.0, 0.0))
    lost = NETWORKS[0].run(stage.configurations[0], 101).key
    assert left_open.compare_candidates(NETWORKS, stage, {k: v for k, v in rows.items() if k != lost}) is None
    ill = left_open.measured(NETWORKS[0], stage, {**rows, lost: {"status": "diverged"}}, seeds)
    assert ill.validation[0, 1] == 0.5 and ill.mean[0, 0, 1] == 0.5 and ill.draw[0, 0, 1] == 0.0


def test_validation_alone_selects_and_again_in_every_resample():
    stage, seeds = left_open.network_stage(), left_open.NETWORK_SEEDS
    rows = made_up(NETWORKS, stage, seeds, (0.0, 0.0, 0.0))
    second = NETWORKS[0].run(stage.configurations[1], 101).key
    rows[second]["draws"]["0.01"]["validation"] = [0.99] * 20  # the better one on the second seed, worse on both
    found = left_open.measured(NETWORKS[0], stage, rows, seeds)
    both, other = (found.at(stage.targets, np.array(s))[0][0] for s in ([0, 1], [1, 1]))
    assert both == pytest.approx(found.mean[0, 0]), "0.9 twice is more than 0.8 and 0.99"
    assert other[0] == found.mean[0, 1, 1]


def test_what_was_chosen_is_the_default():
    assert Protocol() == Protocol(**left_open.CHOSEN)


def test_the_experiment_asks_for_all_that_the_rule_needs_whatever_the_stage(monkeypatch):
    experiment = REGISTRY["left_open"]
    for name in ("BEST_NETWORKS", "TAKEN_NETWORKS", "BEST_WEIGHTS", "LATER"):
        monkeypatch.setattr(left_open, name, ())

    def needed(candidates, stage, seeds):
        return {
            candidate.run(configuration, seed)
            for candidate in candidates
            for configuration in stage.configurations
            for seed in seeds
        }

    first, second = left_open.network_stage(), left_open.weight_stage()
    assert {*experiment.runs("paper")} == needed(left_open.NETWORKS, first, first.seeds)
    for name, taken in {
        "BEST_NETWORKS": left_open.NETWORKS[:2],
        "TAKEN_NETWORKS": left_open.NETWORKS[:1],
        "BEST_WEIGHTS": left_open.WEIGHTS[:2],
    }.items():
        monkeypatch.setattr(left_open, name, tuple(one.name for one in taken))
    asked, weights = {*experiment.runs("paper")}, left_open.weight_candidates(left_open.TAKEN_NETWORKS)
    assert asked == (
        needed(left_open.NETWORKS, first, first.seeds)
        | needed(left_open.NETWORKS[:2], first, first.more_seeds)
        | needed(weights, second, second.seeds)
        | needed(weights[:2], second, second.more_seeds)
    )
    assert {run.seed for run in asked} == {*range(100, 108)}
    assert {run.seed for run in experiment.runs("paper", seeds=2)} == {100, 101}
    assert {run.method for run in asked} == {"standard", "same_domain", "mmd", "dann", "color_jitter", "dw_negatives", "dw_pairs"}
    with pytest.raises(ValueError, match="the runs of left_open are fixed, and none is at sigma 25 in preset paper"):
        experiment.runs("paper", sigma=25)
    with pytest.raises(ValueError, match="none is at sigma 25 in preset paper"):
        experiment.runs("paper", sigma="50,25")
    with pytest.raises(ValueError, match="tau_alpha cannot be changed in preset paper"):
        experiment.runs("paper", tau_alpha=0.1)
    assert {run.seed for run in experiment.runs("paper", seeds=2)} == {100, 101}, "the first two"


def test_the_candidate_that_was_added_later_gets_all_seeds_and_is_in_no_choice():
    (later,), stage = left_open.LATER, left_open.network_stage()
    asked = {*REGISTRY["left_open"].runs("paper")}
    assert {later.run(c, seed) for c in stage.configurations for seed in (*stage.seeds, *stage.more_seeds)} <= asked
    assert later.name not in (*(c.name for c in left_open.NETWORKS), *left_open.TAKEN_NETWORKS, *left_open.BEST_NETWORKS)


def test_the_later_candidate_is_compared_on_all_seeds_once_they_are_there():
    stage, taken = left_open.network_stage(), next(c for c in left_open.NETWORKS if c.name in left_open.TAKEN_NETWORKS)
    two, seeds = (*left_open.LATER, taken), stage.seeds + stage.more_seeds
    rows = made_up(two, stage, seeds, (0.0, 0.02))
    few = {key: row for key, row in rows.items() if key != two[0].run(stage.configurations[0], seeds[-1]).key}
    for some, n in ((rows, 6), (few, 2)):
        found, late, now = left_open.later_beside_taken(some)
        assert found.n == n and (late, now) == tuple(c.name for c in two) and found.misfits()[late] < found.misfits()[now]
    assert left_open.later_beside_taken({}) is None
