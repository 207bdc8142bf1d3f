import pytest

from dtcl_core.config import Protocol
from dtcl_core.experiments import PRESETS, REGISTRY
from dtcl_core.experiments.readings import FIRST
from dtcl_core.methods import METHODS

MAIN = REGISTRY["main_table"]


def test_the_papers_grid_has_the_papers_size():
    runs = MAIN.runs("paper")
    assert len({r.key for r in runs}) == 950  # 190 configurations, 5 seeds
    assert {r.protocol.epochs for r in runs} == {400} and {r.sigma for r in runs} == {50.0}


def test_every_part_of_the_paper_has_its_size():
    sizes = {name: len({r.key for r in e.runs("paper")}) for name, e in REGISTRY.items()}
    assert sizes["sigma_ablation"] == 4750 and sizes["temperature"] == 400
    assert sizes["global_vs_batch"] == 2 * 2000  # two discriminators, of which one is in the sigma figure too
    assert sizes["projector_head"] == 300 + 50 and sizes["effective_temperature"] == 5
    assert sizes["claims"] == 7050 + 15  # and three temperatures of the weight outside the exponent


def test_tables_share_their_runs():
    paper = {name: {r.key for r in e.runs("paper")} for name, e in REGISTRY.items()}
    assert paper["main_table"] == paper["label_fractions"] == paper["model_selection"] <= paper["sigma_ablation"]
    assert paper["temperature"] < paper["main_table"] and paper["effective_temperature"] < paper["main_table"]
    assert len(paper["global_vs_batch"] - paper["sigma_ablation"]) == 2000
    assert len(paper["projector_head"] - paper["sigma_ablation"]) == 300


@pytest.mark.parametrize("name", [name for name in REGISTRY if name not in ("questions", "readings")])  # their grids are their own
def test_core_runs_are_runs_of_the_paper_but_for_tau_min(name):
    """At the level of tau_min that is the default; what was run under the first reading is a part of that one's grid."""
    paper = {r.key for r in REGISTRY[name].runs("paper")}
    core = {r.key for r in REGISTRY[name].runs("core") if r.protocol.tau_min == Protocol().tau_min}
    assert core and core <= paper
    first = {r.key for r in REGISTRY[name].runs("first")}
    assert first and first <= {r.key for r in REGISTRY[name].runs("paper", protocol=FIRST)}


def test_the_laptop_grid_is_part_of_the_papers_but_for_epochs():
    def cell(r):
        return (r.method, r.tau_alpha, r.tau_beta, r.lambda_, r.discriminator)

    laptop, paper = MAIN.runs("laptop"), {cell(r) for r in MAIN.runs("paper")}
    assert {cell(r) for r in laptop} <= paper
    for method in METHODS:
        mine = [r for r in laptop if r.method == method]
        assert len({r.tau_alpha for r in mine}) >= 2 and len({r.seed for r in mine}) >= 3
    assert min(r.protocol.epochs for r in laptop) >= 100
    chosen = {("dw_negatives", 0.075, 0.5), ("dw_pairs", 0.175, 1.0)}
    assert chosen <= {cell(r)[:3] for r in laptop}


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_covers_every_method_with_two_seeds(preset):
    for method in METHODS:
        assert len({r.seed for r in MAIN.runs(preset) if r.method == method}) >= 2


def test_options_narrow_and_change_the_runs():
    runs = MAIN.runs("smoke", seeds=3, epochs=2, sigma="0,25", methods="standard, mmd", tau_alpha="0.3,0.4")
    assert {(r.method, r.sigma, r.seed, r.tau_alpha) for r in runs} == {
        (m, s, k, t) for m in ("standard", "mmd") for s in (0, 25) for k in range(3) for t in (0.3, 0.4)
    }
    assert {r.protocol.epochs for r in runs} == {2}
    assert MAIN.runs("smoke", tau_alpha=0.1, methods=["standard"])[0] == MAIN.runs("smoke", methods="standard")[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "full"}, "preset must be one of 'smoke', 'laptop', 'core', 'paper', 'first', got 'full'"),
        ({"seeds": 0}, "seeds must be an integer >= 1 and <= 1000, got 0"),
        ({"seeds": 2.5}, "seeds must be an integer"),
        ({"epochs": 0}, "epochs must be"),
        ({"sigma": -5}, "sigma must be a number >= 0, got -5"),
        ({"methods": "standard,mdm"}, "unknown method 'mdm'"),
        ({"tau_alpha": 0}, "tau_alpha must be a number > 0, got 0"),
        ({"tau_alpha": "a"}, "expected numbers"),
        ({"tau_alpha": []}, "at least one number"),
        ({"methods": []}, "at least one method"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        MAIN.runs(**options)


def test_no_run_is_listed_twice():
    assert MAIN.runs("smoke", sigma="50,50", tau_alpha="0.1,0.1") == MAIN.runs("smoke", sigma=50, tau_alpha=0.1)
