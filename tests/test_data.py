import shutil
from importlib import resources

import numpy as np
import pytest
import torch

from dtcl_core.data import PAPER_SIZES, SPLITS, ColoredDigits, read_verified


def test_splits_have_the_papers_sizes_and_share_no_digit():
    data = ColoredDigits(seed=3)
    index = [data.index(split) for split in SPLITS]
    assert tuple(map(len, index)) == PAPER_SIZES
    assert len(np.unique(np.concatenate(index))) == sum(PAPER_SIZES)


def test_split_shapes_ranges_and_domains():
    data = ColoredDigits(seed=0)
    for split, domains in zip(SPLITS, ({0, 1}, {2}, {0, 1}, {3})):
        images, labels, domain = data.split(split)
        assert images.dtype == torch.float32 and images.shape[1:] == (3, 28, 28)
        assert images.min() >= 0 and images.max() <= 1
        assert set(labels.tolist()) == {0, 1} and set(domain.tolist()) == domains
    assert (data.domains("train") == 0).sum() == 3465


def test_labels_and_pixels_are_those_of_the_file():
    archive, data = read_verified(), ColoredDigits(seed=5)
    index = data.index("test_ood")
    assert np.array_equal(data.labels("test_ood").numpy(), (archive["train_labels"][index] == 5).astype(int))
    assert np.array_equal((data.gray("test_ood") * 255).round().byte().numpy(), archive["train_images"][index])


def test_an_image_is_its_gray_digit_times_one_colour():
    data = ColoredDigits(sigma=50, seed=1)
    image, gray, color = data.split("train").images[7], data.gray("train")[7], data.colors("train")[7]
    for channel in range(3):
        assert torch.equal(image[channel], gray * color[channel])
    assert (image[:, gray == 0] == 0).all()


def test_colours_at_sigma_zero_are_the_domain_means():
    data = ColoredDigits(sigma=0)
    assert data.colors("validation").unique(dim=0).tolist() == [[1, 0, 1]]
    assert data.colors("test_ood").unique(dim=0).tolist() == [[0, 1, 0]]
    assert data.colors("train")[data.domains("train") == 0].unique(dim=0).tolist() == [[1, 0, 0]]


def test_colour_spread_is_sigma_before_clipping():
    data = ColoredDigits(sigma=50, seed=0)
    # A channel with mean 0 is clipped below: half of it is 0, the rest half-normal with mean sigma * sqrt(2 / pi).
    channel = data.colors("test_ood")[:, 0] * 255
    assert (channel == 0).float().mean() == pytest.approx(0.5, abs=0.04)
    assert channel[channel > 0].mean() == pytest.approx(50 * (2 / np.pi) ** 0.5, rel=0.06)


def test_wrapping_takes_what_overflows_to_the_other_end():
    clipped, wrapped = ColoredDigits(seed=0), ColoredDigits(seed=0, color_clipping="wrap")
    over = clipped.colors("test_ood")[:, 1] == 1
    assert over.float().mean() > 0.3  # a draw in [255, 256) stays at 255
    assert (wrapped.colors("test_ood")[over, 1] < 0.9).float().mean() > 0.97


def test_colours_that_are_not_clipped_keep_their_spread():
    clipped, free = ColoredDigits(seed=0), ColoredDigits(seed=0, color_clipping="none")
    colors = free.colors("test_ood") * 255
    assert torch.allclose(colors.std(0), torch.tensor(50.0), rtol=0.06)
    assert torch.allclose(colors.mean(0), torch.tensor([0.0, 255, 0]), atol=4)
    assert torch.equal(free.colors("train").clamp(0, 1), clipped.colors("train"))


def test_seeds_differ_and_sigmas_share_their_draws():
    a, b = ColoredDigits(seed=0), ColoredDigits(seed=1)
    assert not np.array_equal(a.index("train"), b.index("train"))
    wide, narrow = ColoredDigits(sigma=20, seed=0), ColoredDigits(sigma=10, seed=0)
    inside = (wide.colors("train") > 0) & (wide.colors("train") < 1)
    mean = torch.tensor([[1.0, 0, 0], [0, 0, 1.0]])[wide.domains("train")]
    shift = (wide.colors("train") - mean)[inside]
    assert torch.allclose(shift, 2 * (narrow.colors("train") - mean)[inside], atol=1e-6)


def test_stratified_splits_hold_equal_shares():
    data = ColoredDigits(seed=2, stratified=True)
    shares = [data.labels(split).double().mean() for split in SPLITS]
    assert max(shares) - min(shares) < 2e-3


def test_label_subsets_are_nested_and_of_the_papers_sizes():
    data = ColoredDigits(seed=0)
    small, middle, whole = (data.label_subset(f) for f in (0.01, 0.1, 1.0))
    assert (len(small), len(middle), len(whole)) == (69, 693, 6930)
    assert set(small) < set(middle) < set(whole)
    apart = data.label_subset(0.1, nested=False)
    assert not set(data.label_subset(0.01, nested=False)) <= set(apart)
    share = data.labels("train")[data.label_subset(0.1, stratified=True)].double().mean()
    assert float(share) == pytest.approx(float(data.labels("train").double().mean()), abs=2e-3)


def test_a_damaged_file_is_refused(tmp_path):
    copy = tmp_path / "mnist_3v5.npz"
    shutil.copy(str(resources.files("dtcl_core") / "mnist_3v5.npz"), copy)
    assert "train_images" in read_verified(copy)
    content = bytearray(copy.read_bytes())
    content[1_000_000] ^= 1
    copy.write_bytes(content)
    with pytest.raises(ValueError, match="damaged.*SHA-256"):
        read_verified(copy)


@pytest.fixture
def whole_mnist(tmp_path):
    """A folder as torchvision leaves it, with 40 random images of each digit."""
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 40).astype(np.uint8)
    images = generator.integers(0, 256, (400, 28, 28), dtype=np.uint8)
    for part in ("train", "t10k"):
        head = np.array([0x803, 400, 28, 28], dtype=">u4").tobytes()
        (folder / f"{part}-images-idx3-ubyte").write_bytes(head + images.tobytes())
        head = np.array([0x801, 400], dtype=">u4").tobytes()
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(head + labels.tobytes())
    return tmp_path


def test_any_digits_and_domains_from_a_whole_mnist(whole_mnist):
    data = ColoredDigits(digits=(1, 7, 9), training_domains=("red", "blue", "yellow", (10, 20, 30)), root=whole_mnist, seed=1)
    train = data.split("train")
    assert len(train.images) == 72 and set(train.labels.tolist()) == {0, 1, 2}
    assert train.domains.bincount().tolist() == [18] * 4
    assert set(data.domains("validation").tolist()) == {4} and set(data.domains("test_ood").tolist()) == {5}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sigma": -5}, "sigma must be .* -5"),
        ({"sigma": float("nan")}, "sigma must be"),
        ({"sigma": "abc"}, "sigma must be a number >= 0, got 'abc'"),
        ({"seed": "a"}, "seed must be an integer >= 0, got 'a'"),
        ({"seed": -1}, "seed must be .* -1"),
        ({"digits": (1, 2)}, "only 3 and 5 are packaged"),
        ({"digits": (3, 3)}, "digits must be"),
        ({"training_domains": ("rde",)}, "unknown domain 'rde'"),
        ({"test_domain": (0, 0, 256)}, "0..255"),
        ({"color_clipping": "no"}, "color_clipping must be"),
        ({"sizes": (10_000, 1000, 1000, 1000)}, "at most 11552"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        ColoredDigits(**options)


def test_an_unknown_split_is_named():
    with pytest.raises(ValueError, match="unknown split 'test'"):
        ColoredDigits().split("test")
