"""Contrastive pre-training with domain-aware temperatures on images of your own, in folders FOLDER/DOMAIN/CLASS/IMAGE.

    pip install . torchvision
    python examples/train.py FOLDER                     # --help says what can be set; --log DIR writes for TensorBoard

ResNet-18 with SimCLR's head. After each epoch: the means of the loss and of the temperatures, and how well linear probes of the
backbone, fitted on half of the images, name class and domain of the other half. With --unseen DOMAIN that folder takes no
part in the training, and the class is also named there.
"""

import argparse
import os
from pathlib import Path

import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader, Subset
from torchvision.transforms import v2

from dtcl_core import DomainWeightedInfoNCELoss, logistic


class Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults, and the description as it is."""


parser = argparse.ArgumentParser(description=__doc__, formatter_class=Help)
parser.add_argument("folder", type=Path, help="FOLDER/DOMAIN/CLASS/IMAGE")
for name, default, what in (
    ("epochs", 20, "passes over the images"),
    ("batch", 256, "images a step"),
    ("size", 96, "height and width of a view, in pixels"),
    ("tau_alpha", 0.2, "base temperature"),
    ("tau_beta", 0.2, "how far domains move a temperature"),
    ("seed", 0, "of views, batches and first weights"),
):
    parser.add_argument(f"--{name}", type=type(default), default=default, help=what)
parser.add_argument("--unseen", metavar="DOMAIN", help="a domain kept for testing")
parser.add_argument("--log", help="folder for TensorBoard (pip install tensorboard)")
options = parser.parse_args()
if min(options.epochs, options.batch - 1, options.size) < 1:
    parser.error("epochs and size must be at least 1, batch at least 2.")
if not options.folder.is_dir():
    parser.error(f"there is no folder {options.folder}.")
found = [
    Path(where, name).relative_to(options.folder)
    for where, _, names in os.walk(options.folder, followlinks=True)
    for name in names
]
found = [path for path in found if path.suffix.lower() in torchvision.datasets.folder.IMG_EXTENSIONS and len(path.parts) > 1]
bad = [path for path in found if len(path.parts) != 3 or any(part.startswith(".") for part in path.parts)]
if bad or not found:  # classes, or a hidden folder, would be taken for domains
    parser.error(f"images must lie as FOLDER/DOMAIN/CLASS/IMAGE, none of them hidden; found {bad[0] if bad else 'none'}.")
torch.manual_seed(options.seed)
device = "cuda" if torch.cuda.is_available() else "cpu"

plain = v2.Compose([v2.Resize((options.size, options.size)), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
blur = v2.GaussianBlur(options.size // 20 * 2 + 1)
augmented = v2.Compose(
    [
        v2.RandomResizedCrop(options.size, (0.3, 1.0)),
        v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.4)]),
        blur,
        *plain.transforms[1:],
    ]
)


def two_views(image):
    return augmented(image), augmented(image)


views, images = (torchvision.datasets.ImageFolder(options.folder, transform) for transform in (two_views, plain))
names = sorted({Path(path).parent.name for path, _ in images.samples})
labels = torch.tensor([names.index(Path(path).parent.name) for path, _ in images.samples])
if options.unseen not in (None, *images.classes):
    parser.error(f"there is no folder {options.unseen!r}; there are {', '.join(images.classes)}.")
domains = torch.tensor(images.targets)  # to torchvision the first folder is the class, to us it is the domain
unseen = domains == images.class_to_idx[options.unseen] if options.unseen else torch.zeros(len(domains), dtype=torch.bool)
known = domains[~unseen].unique()
if len(known) < 2:
    parser.error(f"training needs images of two domains or more, got {len(known)}.")
order = torch.full((len(images.classes),), -1).index_copy(0, known, torch.arange(len(known)))  # 0 ... N_D - 1, unseen -1

backbone = torchvision.models.resnet18()
backbone.fc = nn.Identity()
head = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 128))
net = nn.Sequential(backbone, head).to(device)
# The discriminator is fitted on each batch. Where the embedding is as wide as half a batch, it finds domains that are not there: l2 holds it back, at
# the price of domains that are there; with small batches or many domains, fit a LinearDiscriminator once an epoch instead.
loss_fn = DomainWeightedInfoNCELoss(options.tau_alpha, options.tau_beta, num_domains=len(known), negatives="both_views", l2=10.0)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-4)
train = Subset(views, (~unseen).nonzero()[:, 0].tolist())
loader = DataLoader(train, min(options.batch, len(train)), shuffle=True, drop_last=True)


@torch.no_grad()
def accuracies():
    backbone.eval()
    z = torch.cat([backbone(x.to(device)).cpu() for x, _ in DataLoader(images, options.batch)]).double()
    z = (z - z[~unseen].mean(0)) / (z[~unseen].std(0) + 1e-6)
    fit, test = (~unseen).nonzero()[:, 0][torch.randperm(int((~unseen).sum()))].chunk(2)
    told = {}
    for name, target, count in (("class", labels, len(names)), ("domain", order[domains], len(known))):
        probe = logistic.fit(z[fit], target[fit], max(count, 2), solver="lbfgs")
        told[f"{name} accuracy"] = logistic.accuracy(probe, z[test], target[test]).item()
        if name == "class" and unseen.any():
            told["class accuracy where unseen"] = logistic.accuracy(probe, z[unseen], target[unseen]).item()
    return told


for epoch in range(options.epochs):
    seen = {}
    for (x0, x1), domain in loader:
        z0, z1 = net.train()(torch.cat([x0, x1]).to(device)).chunk(2)
        loss = loss_fn(z0, z1, order[domain].to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for name, value in {
            "loss": loss.item(),
            **loss_fn.last,
        }.items():  # the discriminator's accuracy: on the batch that it was fitted on
            seen.setdefault(name, []).append(value)
    figures = {name: torch.tensor(values).nanmean().item() for name, values in seen.items()} | accuracies()
    print(f"epoch {epoch + 1}: " + ", ".join(f"{name} {value:.3f}" for name, value in figures.items()), flush=True)
    if options.log:
        from torch.utils.tensorboard import SummaryWriter

        with SummaryWriter(options.log) as writer:
            for name, value in figures.items():
                writer.add_scalar(name, value, epoch)
