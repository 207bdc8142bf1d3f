"""What one would write without this project's engine: the loops it is measured against.

Every peer trains standard contrastive learning on the same digits with the same encoder, batch size and optimiser, and
reports the seconds that an epoch of one run costs. `plain_loop` is what a good student writes; `batched_loop` moves the
augmentation to the device and uses this project's views and loss; `ensemble` trains several models through `torch.func`.
"""

from __future__ import annotations

import os

import machine
import torch
from torch import nn
from torch.nn import functional as F

from dtcl_core import augment, losses
from dtcl_core.config import Protocol
from dtcl_core.data import ColoredDigits


def plain_encoder(protocol: Protocol) -> nn.Sequential:
    """The paper's encoder as an ordinary module, of the same shape as `dtcl_core.encoder.Encoder`."""
    layers: list[nn.Module] = []
    before = 3
    for width in protocol.channels:
        layers += [
            nn.Conv2d(before, width, protocol.kernel_size, 2, protocol.kernel_size // 2, bias=False),
            nn.BatchNorm2d(width),
            nn.Dropout(protocol.dropout),
            nn.ReLU(),
        ]
        before = width
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(protocol.embedding_dim))


def optimizer_of(model: nn.Module, protocol: Protocol) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=protocol.learning_rate, fused=True)


class TwoViews(torch.utils.data.Dataset):
    """Two views of each image, drawn a sample at a time by torchvision."""

    def __init__(self, images: torch.Tensor, protocol: Protocol):
        from torchvision.transforms import v2

        blur = v2.GaussianBlur(protocol.blur_kernel, protocol.blur_sigma)
        self.images = images
        self.transform = v2.Compose(
            [
                v2.RandomResizedCrop(28, scale=protocol.crop_scale, ratio=protocol.crop_ratio, antialias=True),
                v2.RandomApply([blur], protocol.blur_probability),
            ]
        )

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.transform(self.images[i]), self.transform(self.images[i])


def plain_loop(protocol: Protocol, device: torch.device) -> float:
    """DataLoader with workers, torchvision v2 for each sample, lightly's NT-Xent, Adam."""
    from lightly.loss import NTXentLoss

    images = ColoredDigits(seed=0).split("train").images
    loader = torch.utils.data.DataLoader(
        TwoViews(images, protocol),
        protocol.batch_size,
        shuffle=True,
        drop_last=protocol.drop_last,
        num_workers=min(os.cpu_count() or 1, 8),
        persistent_workers=True,
    )
    model = plain_encoder(protocol).to(device)
    model(images[:2].to(device))
    optimizer, criterion = optimizer_of(model, protocol), NTXentLoss(temperature=0.1)

    def epoch() -> None:
        for first, second in loader:
            loss = criterion(model(first.to(device)), model(second.to(device)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return machine.seconds(epoch, device, repeats=1, warm_up=1)


def batched_loop(protocol: Protocol, device: torch.device) -> float:
    """One run at a time, with this project's batched views and loss."""
    data = ColoredDigits(seed=0)
    gray, colors = data.gray("train").to(device), data.colors("train").to(device)
    model = plain_encoder(protocol).to(device)
    model(torch.zeros(2, 3, 28, 28, device=device))
    optimizer = optimizer_of(model, protocol)
    count, size = len(gray), protocol.batch_size

    def drawn(view: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Boxes and blurs of all images, on the device."""
        boxes = augment.random_resized_crop_boxes(count, protocol.crop_scale, protocol.crop_ratio, key=(view,))
        blurs = augment.random_blur_sigmas(count, protocol.blur_sigma, protocol.blur_probability, (view,))
        return torch.from_numpy(boxes).to(device), torch.from_numpy(blurs).to(device)

    def epoch() -> None:
        order, draws = torch.randperm(count, device=device), [drawn(view) for view in range(2)]
        for start in range(0, count - size + 1, size):
            index = order[start : start + size]
            seen = (augment.resize_crop_blur(gray[index], b[index], s[index], protocol.blur_kernel) for b, s in draws)
            z, z_pos = (model(colors[index][..., None, None] * view[:, None]) for view in seen)
            loss = losses.info_nce(z, z_pos, 0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return machine.seconds(epoch, device, repeats=1, warm_up=1)


def ensemble(protocol: Protocol, device: torch.device, models: int) -> float:
    """Seconds an epoch of one run costs when `models` train through `torch.func.vmap`, on shared batched views."""
    from torch.func import functional_call, grad, stack_module_state

    data = ColoredDigits(seed=0)
    gray, colors = data.gray("train").to(device), data.colors("train").to(device)
    members = [plain_encoder(protocol).to(device) for _ in range(models)]
    for member in members:
        member(torch.zeros(2, 3, 28, 28, device=device))
        for layer in member:
            if isinstance(layer, nn.BatchNorm2d):  # vmap cannot update running statistics in place
                layer.track_running_stats, layer.running_mean, layer.running_var = False, None, None
                layer.num_batches_tracked = None
    parameters, buffers = stack_module_state(members)
    template = members[0]
    parameters = {name: nn.Parameter(value.detach()) for name, value in parameters.items()}
    optimizer = torch.optim.Adam(parameters.values(), lr=protocol.learning_rate, fused=True)

    def loss_of(own: dict, own_buffers: dict, images: torch.Tensor) -> torch.Tensor:
        z, z_pos = functional_call(template, (own, own_buffers), (images,)).chunk(2)
        logits = F.normalize(z, dim=-1) @ F.normalize(z_pos, dim=-1).T / 0.1
        return (torch.logsumexp(logits, -1) - logits.diagonal()).mean()

    gradient = torch.func.vmap(grad(loss_of), in_dims=(0, 0, None), randomness="different")
    count, size = len(gray), protocol.batch_size

    def epoch() -> None:
        order = torch.randperm(count, device=device)
        for start in range(0, count - size + 1, size):
            index = order[start : start + size].repeat(2)
            boxes = augment.random_resized_crop_boxes(2 * size, protocol.crop_scale, protocol.crop_ratio, key=(start,))
            blurs = augment.random_blur_sigmas(2 * size, protocol.blur_sigma, protocol.blur_probability, (start,))
            seen = augment.resize_crop_blur(gray[index], boxes, blurs, protocol.blur_kernel)
            images = colors[index][..., None, None] * seen[:, None]
            for name, value in gradient(parameters, buffers, images).items():
                parameters[name].grad = value
            optimizer.step()

    return machine.seconds(epoch, device, repeats=1, warm_up=1) / models
