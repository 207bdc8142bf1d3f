"""The engine: trains a stack of runs, of any methods, hyperparameters and seeds, as one network.

One step (`Stack.step`) is: make the views, embed both, ask each method for its loss, sum, step Adam. Nothing in it
mixes runs, so run r of a stack is the same run trained alone, rounding aside (training amplifies it: the book's chapter on
trust has how far), and one that diverges harms no other. Runs that share seed, sigma and augmentation form a *stream*: they
see the same views, made once.

Whatever is random is drawn on the host by key (`keyed`), an epoch at a time; the state of a stack is therefore its
parameters, its optimisers and its epoch, and that is all a checkpoint holds.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from . import discriminator
from .engine.checkpoint import copied, read_checkpoint, write_checkpoint
from .checks import checked_choice
from .config import Protocol, Run
from .engine.device import (
    is_accelerator,
    release_memory,
    reproducible,
    resolve_device,
    resolve_precision,
    tune_cpu_memory,
)
from .encoder import Encoder, feature_sizes
from .losses import annealed, same_domain
from .methods import ALL_METHODS, Batch
from .engine.native import CHOICES, Unavailable, switched
from .engine.provenance import SOURCES, machine
from .engine.recorder import TemperatureRecorder, traces_of
from .engine.streams import Streams, stream_of
from .engine.trunk import Tinted, Trunk, supported
from .traces import Trace

EMBED_BATCH = 1155  # images embedded at a time outside training; divides the splits nearly evenly
CHECKPOINT_SECONDS = 15.0


class Interrupted(Exception):
    """Training was asked to stop; the checkpoint holds what was done."""


def shape_of(run: Run) -> tuple[Any, ...]:
    """What the runs of one stack must share."""
    return (run.protocol, run.projector, run.projector_dim)


def choose_trunk(
    protocol: Protocol, device: torch.device, precision: str, wanted: str = "auto"
) -> tuple[Trunk | None, str]:
    """What computes the blocks of an encoder, None for PyTorch's operators, and why, in words.

    Args:
        wanted: "auto" (our own code where it applies), "native" (an error where it does not) or "pytorch"; for "auto", the
            environment's DTCL_TRUNK may name one of them.

    Raises:
        ValueError: for another `wanted`, or if "native" does not apply.
    """
    asked = checked_choice("trunk", wanted, CHOICES)
    wanted = switched() if asked == "auto" else asked
    if wanted == "pytorch":
        return None, "PyTorch's operators, as asked for"
    try:
        library = supported(protocol, device, getattr(torch, precision))
    except Unavailable as reason:
        if wanted == "native":
            raise ValueError(f"the trunk for CPUs was asked for, but {reason}.") from None
        return None, f"PyTorch's operators ({reason})"
    return Trunk(library, feature_sizes(protocol)), "the trunk for CPUs"


class Group(NamedTuple):
    """The runs of a stack that share a method and a kind of discriminator, with their hyperparameters [R]."""

    method: str
    discriminator: str | None
    runs: Tensor
    streams: list[int]  # what they look at,
    counts: list[int]  # and how many of them look at each
    tau_alpha: Tensor
    tau_beta: Tensor
    lambda_: Tensor
    adversaries: Tensor | None  # which of the stack's are theirs


class Stack:
    """A stack of runs in training.

    Args:
        runs: any runs that share a protocol and a projector, each once; the stack orders them by stream.
        device: see `resolve_device`.
        precision: "float32", "bfloat16" (convolutions; the last layer, losses and solvers stay in float32) or "auto".
        record: whether temperatures are recorded; see `engine.recorder`.
        trunk: see `choose_trunk`.

    Attributes:
        runs: the runs, ordered by stream.
        trunk, path: what computes the encoder's blocks, if not PyTorch's operators; and why, in words.
        encoder: their networks.
        epoch: epochs done.
        seconds: time spent training them.
        machine: what may decide the last digits (`provenance.machine`), of every machine that trained them.
        losses: [epochs done, R] mean loss of each epoch.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        device: str | torch.device = "auto",
        precision: str = "auto",
        record: bool = False,
        trunk: str = "auto",
    ):
        if not runs:
            raise ValueError("a stack needs at least one run.")
        if len(set(runs)) < len(runs):
            raise ValueError("a stack cannot hold a run twice.")
        if len({shape_of(run) for run in runs}) > 1:
            raise ValueError("the runs of a stack must share protocol, projector and projector_dim.")
        self.device = resolve_device(device)
        self.precision = resolve_precision(precision, self.device)
        if not is_accelerator(self.device):
            tune_cpu_memory()
        self.runs = sorted(runs, key=lambda run: (stream_of(run), list(ALL_METHODS).index(run.method)))
        self.protocol: Protocol = runs[0].protocol
        counts = Counter(stream_of(run) for run in self.runs)
        self.counts = list(counts.values())
        self.trunk, self.path = choose_trunk(self.protocol, self.device, self.precision, trunk)
        self.streams = Streams(list(counts), self.protocol, self.device, self.trunk)
        self._looks = [stream for stream, count in enumerate(self.counts) for _ in range(count)]  # of each run
        self.stream_of_run = torch.tensor(self._looks, device=self.device)
        self._build_networks()
        self._build_groups()
        self.keys = [run.key for run in self.runs]
        self.machine = self._machine()
        self.epoch, self.seconds = 0, 0.0
        self.losses: list[Tensor] = []
        self.recorder = TemperatureRecorder(self.runs, self.streams.num_domains, self.device) if record else None

    def _machine(self) -> dict[str, Any]:
        return {**machine(self.device), "trunk": None if self.trunk is None else self.trunk.library.told}

    # --- set-up -------------------------------------------------------------------------------------------------

    def _build_networks(self) -> None:
        p, first = self.protocol, self.runs[0]
        self.encoder = Encoder([r.seed for r in self.runs], p, first.projector, first.projector_dim).to(self.device)
        self.encoder.dtype, self.encoder.trunk = getattr(torch, self.precision), self.trunk
        self.optimizers = [torch.optim.Adam(self.encoder.parameters(), lr=p.learning_rate, fused=True)]
        # DANN's classifiers: one for every run of the stack that uses one, from zero, with an optimiser of their own.
        users = [r for r in self.runs if "adversary" in ALL_METHODS[r.method].uses]
        width = first.projector_dim or p.embedding_dim
        self.adversary = nn.ParameterList(
            [
                torch.zeros(len(users), self.streams.num_domains, width),
                torch.zeros(len(users), self.streams.num_domains),
            ]
        ).to(self.device)
        if users:
            self.optimizers.append(torch.optim.Adam(self.adversary.parameters(), lr=p.dann_learning_rate, fused=True))

    def _build_groups(self) -> None:
        kinds = sorted({(r.method, r.discriminator or "") for r in self.runs})
        users = [i for i, r in enumerate(self.runs) if "adversary" in ALL_METHODS[r.method].uses]
        self.groups = []
        for method, kind in kinds:
            index = [i for i, r in enumerate(self.runs) if (r.method, r.discriminator or "") == (method, kind)]
            looks = Counter(self._looks[i] for i in index)

            def values(name: str, index: list[int] = index) -> Tensor:
                return torch.tensor([float(getattr(self.runs[i], name) or 0.0) for i in index], device=self.device)

            self.groups.append(
                Group(
                    method,
                    kind or None,
                    torch.tensor(index, device=self.device),
                    list(looks),
                    list(looks.values()),
                    values("tau_alpha"),
                    values("tau_beta"),
                    values("lambda_"),
                    torch.tensor([users.index(i) for i in index], device=self.device) if index[0] in users else None,
                )
            )

    # --- embedding ----------------------------------------------------------------------------------------------

    @torch.no_grad()
    def embed(self, split: str, group: Group | None = None) -> Tensor:
        """Embeddings [R, N, embedding_dim] of a split's clean images, in evaluation mode; as many at once as fit."""
        streams, counts = (range(len(self.counts)), self.counts) if group is None else (group.streams, group.counts)
        runs, size = None if group is None else group.runs, EMBED_BATCH
        while True:
            try:
                chunks = zip(*(self.streams.clean_chunks(s, split, size) for s in streams))
                with self._mode(training=False), reproducible(self.device):
                    return torch.cat([self.encoder(images, counts, runs=runs) for images in chunks], 1)
            except torch.OutOfMemoryError:
                if size == 1:
                    raise
            size //= 2  # a step of training fits, so a few images will
            release_memory(self.device)

    @torch.no_grad()
    def _embed_for_discriminator(self, group: Group) -> tuple[Tensor, Tensor]:
        """Embeddings [R, N, k] of the training images and their domains [R, N], as the protocol says."""
        p, runs = self.protocol, group.runs
        domains = self.streams.domains[self.stream_of_run[runs]]
        if p.discriminator_inputs == "clean" and p.discriminator_mode == "eval":
            return self._project(self.embed("train", group), runs), domains
        parts, training = [], p.discriminator_mode == "train"
        with self._mode(training), reproducible(self.device):
            for start in range(0, self.streams.size, p.batch_size):
                host = np.arange(start, min(start + p.batch_size, self.streams.size))
                index = self.streams.upload(host)
                images: list[Tensor | Tinted]
                if p.discriminator_inputs == "augmented":
                    images = [self.streams.views(s, index, host, 0) for s in group.streams]
                else:
                    images = [self.streams.clean(s, index) for s in group.streams]
                masks = self.streams.dropout_masks(len(host), self.epoch, "discriminator", start) if training else None
                if masks is not None:
                    masks = [[block[s] for s in group.streams] for block in masks]
                parts.append(self.encoder(images, group.counts, masks, runs=runs))
        return self._project(torch.cat(parts, 1), runs), domains

    def _project(self, z: Tensor, runs: Tensor) -> Tensor:
        if not len(self.encoder.head):
            return z
        full = z.new_zeros(len(self.runs), *z.shape[1:])
        full[runs] = z
        return self.encoder.project(full)[runs]

    @contextmanager
    def _mode(self, training: bool) -> Iterator[None]:
        before = self.encoder.training
        self.encoder.train(training)
        try:
            yield
        finally:
            self.encoder.train(before)

    # --- training -----------------------------------------------------------------------------------------------

    def _fit_discriminator(self, z: Tensor, domains: Tensor) -> Callable[..., Tensor]:
        p = self.protocol
        return discriminator.fit(
            z,
            domains,
            self.streams.num_domains,
            p.discriminator_l2,
            kind=p.discriminator_features,
            steps=p.discriminator_steps if p.discriminator_fit == "adam" else None,
            learning_rate=p.discriminator_learning_rate,
        )

    def _batch(self, group: Group, z: Tensor, z_pos: Tensor, domains: Tensor, posteriors: dict) -> Batch:
        """What a group's method may look at in this batch."""
        p = self.protocol
        z, z_pos, domains = z[group.runs], z_pos[group.runs], domains[group.runs]
        anchor_posterior = posterior = None
        if group.discriminator is not None:
            if group.discriminator == "global":
                g = posteriors[group.method]
            else:
                both = torch.cat([z, z_pos], -2)
                g = self._fit_discriminator(both, torch.cat([domains, domains], -1))
            anchor_posterior, posterior = g(z, p.weight_gradient), g(z_pos, p.weight_gradient)
        lambda_ = group.lambda_
        adversary = None
        if group.adversaries is not None:
            lambda_ = lambda_ if p.dann_schedule == "constant" else lambda_ * annealed(self.epoch / p.epochs)
            whole = len(group.adversaries) == len(self.adversary[0])
            adversary = tuple(part if whole else part[group.adversaries] for part in self.adversary)
        return Batch(
            z=z,
            z_pos=z_pos,
            domains=domains,
            num_domains=self.streams.num_domains,
            tau_alpha=group.tau_alpha,
            tau_beta=group.tau_beta,
            lambda_=lambda_,
            tau_min=p.tau_min,
            anchor_posterior=anchor_posterior,
            posterior=posterior,
            adversary=adversary,
            posterior_view=p.posterior_view,
            penalty_views=p.penalty_views,
            mmd_features=p.mmd_features,
            mmd_bandwidths=p.mmd_bandwidths,
            dann_features=p.dann_features,
        )

    def step(self, number: int, posteriors: dict) -> Tensor:
        """The training step: one batch of every stream, one update of every run. Returns the losses [R]."""
        with reproducible(self.device):
            data, size = self.streams, self.protocol.batch_size
            place = slice(number * size, (number + 1) * size)
            index, host = data.order[:, place], data.host_order[:, place]
            images = data.step_views(index, host)
            masks = data.dropout_masks(2 * index.shape[1], self.epoch, number)
            z, z_pos = self.encoder.project(self.encoder(images, self.counts, masks)).chunk(2, 1)
            domains = data.domains.gather(1, index)[self.stream_of_run]

            losses = z.new_zeros(len(self.runs))
            for group in self.groups:
                method, batch = ALL_METHODS[group.method], self._batch(group, z, z_pos, domains, posteriors)
                losses = losses.index_add(0, group.runs, method.loss(batch, self.protocol.symmetric))
                if self.recorder is not None and "tau_beta" in method.uses:
                    self.recorder.add(group.runs, method.pairs(batch)["tau_neg"].detach(), same_domain(batch.domains))
            for optimizer in self.optimizers:
                optimizer.zero_grad(set_to_none=True)
            losses.sum().backward()
            for optimizer in self.optimizers:
                optimizer.step()
            return losses.detach()

    def train_epoch(self, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Train one epoch of every run.

        Raises:
            Interrupted: if `should_stop` turned true; the epoch is then lost, and the stack must be restored.
        """
        p, began = self.protocol, time.perf_counter()
        for optimizer, rate in zip(self.optimizers, (p.learning_rate, p.dann_learning_rate)):
            optimizer.param_groups[0]["lr"] = rate * p.lr_gamma ** (self.epoch // p.lr_step)
        self.streams.draw(self.epoch)
        self.encoder.train()
        posteriors = {
            g.method: self._fit_discriminator(*self._embed_for_discriminator(g))
            for g in self.groups
            if g.discriminator == "global"
        }
        steps = self.streams.steps
        total = torch.zeros(len(self.runs), device=self.device)
        for number in range(steps):
            if should_stop():
                raise Interrupted
            total += self.step(number, posteriors)
        self.losses.append(total / steps)
        if self.recorder is not None:
            self.recorder.end_epoch()
        self.epoch += 1
        self.seconds += time.perf_counter() - began

    # --- checkpoints --------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that training depends on, as copies."""
        return {
            "keys": self.keys,
            "sources": SOURCES,
            "machine": self.machine,
            "epoch": self.epoch,
            "seconds": self.seconds,
            "losses": list(self.losses),
            "encoder": copied(self.encoder.state_dict()),
            "adversary": copied(self.adversary.state_dict()),
            "optimizers": [copied(optimizer.state_dict()) for optimizer in self.optimizers],
            "precision": self.precision,
            "temperatures": None if self.recorder is None else list(self.recorder.epochs),
        }

    def traces(self) -> list[Trace]:
        """What each run recorded."""
        return traces_of(self.runs, torch.stack(self.losses), self.recorder)

    def restore(self, path: Path) -> None:
        """Go on from a checkpoint of the same runs, be it of another machine: `machine` tells of both then.

        Raises:
            ValueError: if it belongs to other runs, or was written by other code.
        """
        state = read_checkpoint(path, self.device)
        if state["keys"] != self.keys:
            raise ValueError("it belongs to other runs")
        if state["sources"] != SOURCES:
            raise ValueError("it was written by other code")
        if state["precision"] != self.precision:
            raise ValueError(f"it was trained in {state['precision']}")
        if self.recorder is not None:
            if state["temperatures"] is None:
                raise ValueError("it holds no temperatures")
            self.recorder.epochs = list(state["temperatures"])
        for name, now in self._machine().items():
            before = state["machine"][name]
            same = before == now or str(before).endswith(f", then {now}")
            self.machine[name] = before if same else f"{before}, then {now}"
        if state["epoch"] > self.protocol.epochs:
            raise ValueError(f"it has trained {state['epoch']} epochs of {self.protocol.epochs}")
        self.epoch, self.seconds, self.losses = state["epoch"], float(state["seconds"]), list(state["losses"])
        self.encoder.load_state_dict(state["encoder"])
        self.adversary.load_state_dict(state["adversary"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)


def train(
    runs: Sequence[Run],
    device: str | torch.device = "auto",
    *,
    precision: str = "auto",
    record: bool = False,
    trunk: str = "auto",
    checkpoint: Path | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    on_restore: Callable[[Stack], None] = lambda stack: None,
    on_epoch: Callable[[Stack], None] = lambda stack: None,
) -> Stack:
    """Pre-train a stack of runs for all the epochs of their protocol.

    Args:
        runs: runs that share a protocol and a projector.
        device: "auto", "cpu", "cuda" or "cuda:N".
        precision, record, trunk: see `Stack`.
        checkpoint: file to go on from if it exists, and to write every few seconds while training. One that cannot be
            read, or belongs to other runs, is named in a warning and training starts anew.
        should_stop: asked before every step.
        on_restore: called if training goes on from a checkpoint.
        on_epoch: called after every epoch.

    Returns:
        The trained `Stack`; give it to `evaluate.evaluate`.

    Raises:
        Interrupted: when `should_stop` turned true. With a checkpoint, the epoch under way is lost, no more.
    """
    stack = Stack(runs, device, precision, record, trunk)
    if checkpoint is not None and checkpoint.exists():
        try:
            stack.restore(checkpoint)
        except (torch.OutOfMemoryError, MemoryError, OSError):  # the file may be sound
            raise
        except Exception as error:  # whatever a whole file may hold that is not ours
            reason = (str(error) or repr(error)).partition("\n")[0]
            told = f"checkpoint {checkpoint} is not usable ({reason}); training starts anew."
            warnings.warn(told, stacklevel=2)
            stack = Stack(runs, device, precision, record, trunk)
        else:
            on_restore(stack)
    saved = time.monotonic()
    while stack.epoch < stack.protocol.epochs:
        before = None if checkpoint is None else stack.state()
        if checkpoint is not None and before is not None and time.monotonic() - saved > CHECKPOINT_SECONDS:
            write_checkpoint(before, checkpoint)
            saved = time.monotonic()
        try:
            stack.train_epoch(should_stop)
        except Interrupted:
            if checkpoint is not None and before is not None:
                write_checkpoint(before, checkpoint)
            raise
        on_epoch(stack)
    if checkpoint is not None:  # whatever evaluation meets, training is done
        try:
            write_checkpoint(stack.state(), checkpoint)
        except OSError as error:  # no longer needed: what counts now are rows, which need less room
            told = f"checkpoint {checkpoint} could not be written ({error.strerror or error}); rows come next."
            warnings.warn(told, stacklevel=2)
    return stack
