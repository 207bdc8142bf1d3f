"""Views against torchvision: the same parameters give the same pixels, and parameters are drawn from its distributions."""

import numpy as np
import pytest
import torch
from scipy import stats
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as reference

from dtcl_core import augment
from dtcl_core.data import ColoredDigits


@pytest.fixture(scope="module")
def digits():
    return ColoredDigits(sigma=50, seed=0)


def test_resize_crop_blur_equals_torchvision(digits):
    gray = digits.gray("train")[:200]
    boxes = augment.random_resized_crop_boxes(200, key=("boxes",))
    sigmas = augment.random_blur_sigmas(200, (0.1, 2.0), 0.7, ("blur",))
    for kernel in (3, 5, 9):
        ours = augment.resize_crop_blur(gray, boxes, sigmas, kernel)
        for image, box, sigma, view in zip(gray, boxes, sigmas, ours):
            top, left, height, width = box.tolist()
            theirs = reference.resized_crop(image[None], top, left, height, width, [28, 28], antialias=True)
            if sigma > 0:
                theirs = reference.gaussian_blur(theirs, [kernel, kernel], [float(sigma)] * 2)
            assert torch.allclose(view, theirs[0], atol=2e-6)


def test_resize_matrix_shrinks_with_antialias():
    image = torch.rand(1, 40, 40, generator=torch.Generator().manual_seed(0))
    rows = augment.resize_matrix(torch.tensor(3), torch.tensor(33), 40, 12)
    columns = augment.resize_matrix(torch.tensor(5), torch.tensor(20), 40, 12)
    theirs = reference.resized_crop(image, 3, 5, 33, 20, [12, 12], antialias=True)
    assert torch.allclose(rows @ image[0] @ columns.T, theirs[0], atol=2e-6)


def test_colour_commutes_with_crop_and_blur(digits):
    images, boxes = digits.split("train").images[:8], torch.tensor([[2, 3, 20, 17]] * 8)
    gray = augment.resize_crop_blur(digits.gray("train")[:8], boxes, torch.full((8,), 1.3), 5)
    theirs = reference.gaussian_blur(reference.resized_crop(images, 2, 3, 20, 17, [28, 28], antialias=True), 5, [1.3] * 2)
    assert torch.allclose(digits.colors("train")[:8, :, None, None] * gray[:, None], theirs, atol=2e-6)


@pytest.mark.parametrize("scale", [(0.08, 1.0), (0.9, 1.0)])
def test_boxes_follow_torchvisions_distribution(scale):
    count = 4000
    ours = augment.random_resized_crop_boxes(count, scale, key=("d", scale[0].hex()))
    torch.manual_seed(0)
    transform, image = v2.RandomResizedCrop(28, scale=scale), torch.zeros(1, 28, 28)
    drawn = [transform.make_params([image]) for _ in range(count)]
    theirs = np.array([[d["top"], d["left"], d["height"], d["width"]] for d in drawn])
    for column in range(4):
        values = np.unique(np.concatenate([ours[:, column], theirs[:, column]]))
        table = np.array([[(x[:, column] == v).sum() for v in values] for x in (ours, theirs)])
        assert stats.chi2_contingency(table[:, table.sum(0) > 20]).pvalue > 1e-3


def test_boxes_stay_inside_and_vary():
    boxes = augment.random_resized_crop_boxes(2000, key=("inside",))
    top, left, height, width = boxes.T
    assert (boxes >= 0).all() and (height > 0).all() and (width > 0).all()
    assert (top + height <= 28).all() and (left + width <= 28).all()
    assert len(np.unique(boxes, axis=0)) > 1000


def test_boxes_fall_back_to_the_centre():
    boxes = augment.random_resized_crop_boxes(5, (1.0, 1.0), (4.0, 4.0), key=("fallback",))
    assert boxes.tolist() == [[10, 0, 7, 28]] * 5  # torchvision: height = round(28 / 4), centred


def test_blur_is_drawn_as_often_and_as_wide_as_asked():
    sigmas = augment.random_blur_sigmas(20_000, (0.1, 2.0), 0.5, ("s",))
    assert (sigmas > 0).mean() == pytest.approx(0.5, abs=0.01)
    assert stats.kstest(sigmas[sigmas > 0], "uniform", args=(0.1, 1.9)).pvalue > 0.01


ADJUSTMENTS = [
    (augment.adjust_brightness, reference.adjust_brightness, (0.0, 0.4, 1.0, 1.8)),
    (augment.adjust_contrast, reference.adjust_contrast, (0.0, 0.4, 1.0, 1.8)),
    (augment.adjust_saturation, reference.adjust_saturation, (0.0, 0.4, 1.0, 1.8)),
    (augment.adjust_hue, reference.adjust_hue, (-0.5, -0.13, 0.0, 0.2, 0.5)),
]


@pytest.mark.parametrize(("ours", "theirs", "factors"), ADJUSTMENTS, ids=lambda a: getattr(a, "__name__", ""))
def test_each_adjustment_equals_torchvision(digits, ours, theirs, factors):
    images = torch.cat([digits.split("train").images[:30], torch.rand(30, 3, 28, 28)])
    for factor in factors:
        assert torch.allclose(ours(images, torch.full((60,), factor)), theirs(images, factor), atol=3e-6)


def test_color_jitter_applies_each_images_factors_in_its_own_order(digits):
    images = digits.split("test_ood").images[:48]
    factors, order = augment.random_color_jitter(48, (0.8, 0.8, 0.8, 0.2), 1.0, ("jitter",))
    ours = augment.color_jitter(images, torch.from_numpy(factors), *augment.jitter_places(order))
    theirs = [a[1] for a in ADJUSTMENTS]
    for image, factor, places, view in zip(images, factors, order, ours):
        for operation in places:
            image = theirs[operation](image, float(factor[operation]))
        assert torch.allclose(view, image, atol=5e-6)
    assert len(np.unique(order, axis=0)) > 15


def test_jitter_follows_torchvisions_distribution():
    factors, order = augment.random_color_jitter(20_000, (0.8, 0.5, 1.5, 0.2), 0.8, ("distribution",))
    applied = (factors != [1, 1, 1, 0]).any(axis=1)
    assert applied.mean() == pytest.approx(0.8, abs=0.01)
    ranges = v2.ColorJitter(0.8, 0.5, 1.5, 0.2)
    for column, (low, high) in enumerate([ranges.brightness, ranges.contrast, ranges.saturation, ranges.hue]):
        assert stats.kstest(factors[applied, column], "uniform", args=(low, high - low)).pvalue > 1e-3
    assert stats.chisquare(np.unique(order, axis=0, return_counts=True)[1]).pvalue > 1e-3


@pytest.mark.parametrize("kernel", [4, 57])
def test_a_kernel_that_cannot_be_reflected_is_refused(kernel):
    with pytest.raises(ValueError, match="kernel_size"):
        augment.resize_crop_blur(torch.zeros(1, 28, 28), torch.tensor([[0, 0, 28, 28]]), torch.ones(1), kernel)
