"""Random views of digits: resized crop, Gaussian blur and colour jitter, for whole batches on any device.

Crop, bilinear resize and blur are linear and separable. A view of a gray image is therefore two small matrix products,
``(G A_h) gray (G A_w)^T``, where A holds the image's own crop and G its blur. Each digit has one colour, so colour is applied last, as an
outer product. Distributions follow torchvision's `RandomResizedCrop`, `GaussianBlur` and `ColorJitter`, with one draw for each image.
"""

from __future__ import annotations

import numpy as np
import torch

from . import keyed

CROP_ATTEMPTS = 10  # torchvision draws a crop up to ten times, then falls back to the centre


def random_resized_crop_boxes(
    count: int,
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
    size: tuple[int, int] = (28, 28),
    key: tuple[str | int, ...] = (0,),
) -> np.ndarray:
    """Draw crop boxes, int64 [count, 4] (top, left, height, width), with the distribution of torchvision's `RandomResizedCrop`.

    Args:
        count: number of boxes.
        scale: range of the crop's area, as a fraction of the image's area.
        ratio: range of width over height, drawn log-uniformly.
        size: height and width of the image, in pixels.
        key: of the draw (see `keyed`); the same key gives the same boxes.
    """
    height, width = size
    u = keyed.uniform((2, CROP_ATTEMPTS, count), *key, "shape")
    area = height * width * (scale[0] + (scale[1] - scale[0]) * u[0])
    log_ratio = np.log(ratio)
    aspect = np.exp(log_ratio[0] + (log_ratio[1] - log_ratio[0]) * u[1])
    w = np.round(np.sqrt(area * aspect)).astype(np.int64)
    h = np.round(np.sqrt(area / aspect)).astype(np.int64)
    fits = (0 < w) & (w <= width) & (0 < h) & (h <= height)
    first, found = fits.argmax(axis=0), fits.any(axis=0)
    each = np.arange(count)

    # The fallback: the largest centred crop whose ratio is in range.
    whole = width / height
    fall_w = round(height * max(ratio)) if whole > max(ratio) else width
    fall_h = round(width / min(ratio)) if whole < min(ratio) else height
    w, h = np.where(found, w[first, each], fall_w), np.where(found, h[first, each], fall_h)

    u = keyed.uniform((2, count), *key, "place")
    top = np.where(found, np.floor(u[0] * (height - h + 1)), (height - h) // 2).astype(np.int64)
    left = np.where(found, np.floor(u[1] * (width - w + 1)), (width - w) // 2).astype(np.int64)
    return np.stack([top, left, h, w], axis=1)


def random_blur_sigmas(count: int, sigma: tuple[float, float], probability: float, key: tuple[str | int, ...]) -> np.ndarray:
    """Draw blur standard deviations in pixels, float32 [count]: uniform on `sigma` with `probability`, else 0 (no blur)."""
    u = keyed.uniform((2, count), *key)
    return np.where(u[0] < probability, sigma[0] + (sigma[1] - sigma[0]) * u[1], 0.0).astype(np.float32)


def resize_matrix(start: torch.Tensor, length: torch.Tensor, size: int, out: int) -> torch.Tensor:
    """Matrices [..., out, size] that crop `length` [...] pixels at `start` [...] and resize them to `out`, bilinear with antialiasing."""
    start, length = start.float()[..., None], length.float()[..., None]
    pixel = torch.arange(size, device=start.device, dtype=torch.float32)
    step = length / out
    center = start + step * (torch.arange(out, device=start.device) + 0.5)
    support = step.clamp(min=1.0)  # the triangle widens only when the cut is made smaller
    weight = (1 - (pixel + 0.5 - center[..., None]).abs() / support[..., None]).clamp(min=0)
    inside = (pixel >= start) & (pixel < start + length)
    weight = weight * inside[..., None, :]
    return weight / weight.sum(-1, keepdim=True)


def blur_matrix(sigma: torch.Tensor, kernel_size: int, size: int) -> torch.Tensor:
    """Matrices [..., size, size] of a Gaussian blur with reflected edges; the identity where sigma [...] is 0."""
    half = kernel_size // 2
    tap = torch.arange(-half, half + 1, device=sigma.device)
    weight = torch.exp(-0.5 * (tap / sigma.clamp(min=1e-3)[..., None]) ** 2)
    weight = weight / weight.sum(-1, keepdim=True)
    source = (torch.arange(size, device=sigma.device)[:, None] + tap).abs()
    source = (size - 1) - (size - 1 - source).abs()
    placed = torch.nn.functional.one_hot(source, size).to(weight.dtype)  # [size, taps, size]
    return torch.einsum("...t,its->...is", weight, placed)


def resize_crop_blur(
    gray: torch.Tensor,
    boxes: torch.Tensor | np.ndarray,
    blur_sigmas: torch.Tensor | np.ndarray | None,
    kernel_size: int,
) -> torch.Tensor:
    """Crop gray images, resize them back to full size and blur them, each with its own parameters.

    Args:
        gray: [..., H, W] float.
        boxes: [..., 4] top, left, height, width, in pixels.
        blur_sigmas: [...] standard deviations in pixels, 0 for no blur; None blurs no image.
        kernel_size: width of the blur kernel in pixels, odd.

    Returns:
        [..., H, W]: equal to torchvision's `resized_crop(antialias=True)` then `gaussian_blur` on floats, to about 1e-6.

    Raises:
        ValueError: if the kernel size is even, or too wide for reflection at the image's edges.
    """
    height, width = gray.shape[-2:]
    if kernel_size % 2 == 0 or not 0 < kernel_size // 2 + 1 <= min(height, width):
        raise ValueError(f"kernel_size must be odd and less than twice the image's side, got {kernel_size}.")
    top, left, box_height, box_width = torch.as_tensor(boxes, device=gray.device).unbind(-1)
    rows = resize_matrix(top, box_height, height, height)
    columns = resize_matrix(left, box_width, width, width)
    if blur_sigmas is not None:
        blur_sigmas = torch.as_tensor(blur_sigmas, device=gray.device)
        blur = blur_matrix(blur_sigmas, kernel_size, height)
        rows = blur @ rows
        columns = (blur if width == height else blur_matrix(blur_sigmas, kernel_size, width)) @ columns
    return rows @ gray @ columns.transpose(-1, -2)


def luma(images: torch.Tensor) -> torch.Tensor:
    """Gray value [..., 1, H, W] of colour images [..., 3, H, W], with torchvision's weights."""
    red, green, blue = images.unbind(-3)
    return (0.2989 * red + 0.587 * green + 0.114 * blue).unsqueeze(-3)


def _blend(images: torch.Tensor, other: torch.Tensor | float, factor: torch.Tensor) -> torch.Tensor:
    factor = factor[..., None, None, None]
    return (factor * images + (1 - factor) * other).clamp(0, 1)


def adjust_brightness(images: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """Blend images [..., 3, H, W] with black and cut them to [0, 1]; factor [...] is at least 0, and 1 only cuts."""
    return _blend(images, 0.0, factor)


def adjust_contrast(images: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """Blend each image [..., 3, H, W] with its mean gray value by factor [...], cut to [0, 1]; this lifts a black background."""
    return _blend(images, luma(images).mean((-1, -2, -3), keepdim=True), factor)


def adjust_saturation(images: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """Blend images [..., 3, H, W] with their gray versions, by factor [...], and cut them to [0, 1]."""
    return _blend(images, luma(images), factor)


def adjust_hue(images: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """Rotate the hue of images [..., 3, H, W] by `shift` [...], a fraction of the full circle in [-0.5, 0.5]."""
    value, low = images.amax(-3), images.amin(-3)
    spread = value - low
    red, green, blue = images.unbind(-3)
    safe = torch.where(spread > 0, spread, 1.0)
    hue = torch.where(
        value == red,
        (green - blue) / safe,
        torch.where(value == green, 2.0 + (blue - red) / safe, 4.0 + (red - green) / safe),
    )
    hue = torch.remainder(hue / 6 + shift[..., None, None], 1.0) * 6
    # Back to RGB: channel c of hue h is value - spread * clamp(min(k, 4 - k), 0, 1), with k = (n_c + h) mod 6.
    offset = 5.0 - 2.0 * torch.arange(3, device=images.device)[:, None, None]  # n_c: 5, 3, 1, made on the device
    k = torch.remainder(offset + hue.unsqueeze(-3), 6.0)
    return value.unsqueeze(-3) - spread.unsqueeze(-3) * torch.minimum(k, 4 - k).clamp(0, 1)


JITTER_OPERATIONS = (adjust_brightness, adjust_contrast, adjust_saturation, adjust_hue)


def random_color_jitter(
    count: int, strengths: tuple[float, float, float, float], probability: float, key: tuple[str | int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the parameters of torchvision's `ColorJitter` for each image; an image is jittered with the given probability.

    `strengths` s are of brightness, contrast, saturation (factors uniform on [max(0, 1 - s), 1 + s]) and hue (shift uniform on [-s, s]).
    Returns factors, float32 [count, 4] (1, 1, 1, 0 where an image is only cut to [0, 1]), and order, int64 [count, 4]: entry [b, p] is the
    operation (its index in `JITTER_OPERATIONS`) applied p-th to image b.
    """
    u = keyed.uniform((5, count), *key, "factor")
    low = [max(0.0, 1 - s) for s in strengths[:3]] + [-strengths[3]]
    high = [1 + s for s in strengths[:3]] + [strengths[3]]
    factors = np.stack([low[i] + (high[i] - low[i]) * u[i] for i in range(4)], axis=1)
    factors[u[4] >= probability] = (1, 1, 1, 0)
    order = np.argsort(keyed.uniform((count, 4), *key, "order"), axis=1, kind="stable")
    return factors.astype(np.float32), order


def jitter_places(order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each of the four turns of `color_jitter`, the images sorted by the operation that they get in it.

    Args:
        order: int64 [B, 4], each row a permutation: the operation applied p-th to an image.

    Returns:
        places, int64 [4, B]: for each place, the images sorted by the operation they get there; and counts, int [4, 4]: for each place, the
        number of images that get each operation. The counts stay on the host, so that nothing waits for a device.
    """
    places = np.argsort(order.T, axis=1, kind="stable")
    return places, np.stack([np.bincount(place, minlength=len(JITTER_OPERATIONS)) for place in order.T])


def color_jitter(
    images: torch.Tensor, factors: torch.Tensor, places: torch.Tensor | np.ndarray, counts: np.ndarray
) -> torch.Tensor:
    """Apply the four operations to images [B, 3, H, W] (all but hue cut to [0, 1]), each with its own factors [B, 4] and in its own order.

    `places` and `counts` are what `jitter_places` returns; `places` may be a tensor. Returns [B, 3, H, W].
    """
    images, places = images.clone(), torch.as_tensor(places, device=images.device)
    for place, numbers in zip(places, counts.tolist()):
        for operation, chosen in enumerate(place.split(numbers)):
            images[chosen] = JITTER_OPERATIONS[operation](images[chosen], factors[chosen, operation])
    return images
