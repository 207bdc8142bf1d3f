import itertools

import matplotlib
import matplotlib.pyplot
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from dtcl_core.methods import ALL_METHODS, METHODS, Method
from dtcl_study import experiments, style

matplotlib.use("Agg")

# What colour-blind eyes see, on linear RGB: Machado, Oliveira and Fernandes (2009), severity 1.
EYES = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])


def lab(color, eye="normal"):
    """CIE L*a*b* of a colour as an eye sees it."""
    c = np.array(to_rgb(color))
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    t = XYZ @ np.clip(np.array(EYES[eye]) @ linear, 0, 1) / [0.95047, 1, 1.08883]
    x, y, z = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("names", [tuple(METHODS), ("standard", "dw_negatives", "dw_pairs", "dw_outside", "macl", "isogclr")])
def test_methods_that_are_shown_together_are_told_apart_by_every_eye(names, eye):
    assert lab("red") == pytest.approx([53.24, 80.09, 67.20], abs=0.05), "as CIE has it"
    seen = {name: lab(style.look(name).color, eye) for name in names}
    near = {(a, b): np.linalg.norm(seen[a] - seen[b]) for a, b in itertools.combinations(names, 2)}
    assert min(near.values()) > 23, min(near, key=near.get)  # Okabe and Ito's eight colours: 10


def test_methods_have_markers_of_their_own_and_colours_that_nothing_else_has():
    assert METHODS.keys() <= style.LOOKS.keys() <= ALL_METHODS.keys(), "others look alike: `style.OTHER`"
    assert len({look.marker for look in style.LOOKS.values()} | {style.OTHER.marker, "D"}) == len(style.LOOKS) + 2
    assert max(lab(look.color)[0] for look in style.LOOKS.values()) < 80
    methods = {look.color.lower() for name, look in style.LOOKS.items() if name != "standard"}  # which is ink
    assert not methods & {c.lower() for c in (style.SELECTED, style.GRAY, style.PALE, *style.PAIRS.values())}, "reserved"


def test_a_method_that_a_reader_adds_has_a_look_and_its_title(monkeypatch):
    monkeypatch.setitem(ALL_METHODS, "mine", Method("My Very Own Method"))
    assert style.look("mine") == style.OTHER and experiments.title("mine") == "My Very Own Method"


def test_a_saved_figure_is_the_same_each_time(tmp_path):
    style.use_style()
    for folder in ("one", "two"):
        figure, axis = matplotlib.pyplot.subplots()
        axis.plot([0, 1])
        style.save(figure, "a", str(tmp_path / folder))
        matplotlib.pyplot.close(figure)
    style.save(figure, "a", None)
    for kind in ("pdf", "svg"):
        assert (tmp_path / "one" / f"a.{kind}").read_bytes() == (tmp_path / "two" / f"a.{kind}").read_bytes()
