"""The engine: trains a stack of runs, of any methods, hyperparameters and seeds, as one network.

A step (`Stack.step`) makes the views, embeds both, asks each method for its loss and takes an Adam step on the sum. Nothing in it mixes
runs. So run r of a stack equals the same run trained alone up to rounding (training amplifies it; the book's chapter on trust says how
far), and a run that diverges harms no other. Runs that share seed, sigma and augmentation form a *stream*: they see the same views, made
once. Random numbers are drawn by key (`keyed`), an epoch at a time, so a checkpoint needs no generator state.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from . import discriminator
from .checks import checked_choice, checked_number
from .config import Protocol, Run
from .data import ColoredDigits
from .discriminator import Fitted
from .encoder import feature_sizes
from .engine.checkpoint import read_checkpoint, write_checkpoint
from .engine.device import is_accelerator, reproducible, resolve_device, resolve_precision, tune_cpu_memory
from .engine.embedding import embed, for_discriminator
from .engine.graph import StepGraph
from .engine.groups import Group, groups_of, joined
from .engine.native import CHOICES, Unavailable, switched
from .engine.networks import Networks
from .engine.provenance import SOURCES, machine
from .engine.recorder import TemperatureRecorder, traces_of
from .engine.streams import Inputs, Streams, stream_of
from .engine.trunk import Trunk, supported
from .losses import annealed, same_domain
from .methods import ALL_METHODS, Batch
from .traces import Trace

CHECKPOINT_SECONDS = 15.0


class Interrupted(Exception):
    """Training was asked to stop. A checkpoint, if one was asked for, holds the epochs done."""


def shape_of(run: Run) -> tuple[Any, ...]:
    """Protocol, projector and projector dimension of a run, which the runs of one stack must share."""
    return (run.protocol, run.projector, run.projector_dim)


def choose_trunk(protocol: Protocol, device: torch.device, precision: str, wanted: str = "auto") -> tuple[Trunk | None, str]:
    """What computes the blocks of an encoder (None for PyTorch's operators), and the reason in words.

    `wanted` is "auto" (our own code where it applies), "native" or "pytorch"; for "auto", the environment variable DTCL_TRUNK may name one.
    Raises ValueError for another `wanted`, or if "native" does not apply.
    """
    asked = checked_choice("trunk", wanted, CHOICES)
    wanted = switched() if asked == "auto" else asked
    name = f"the trunk for {'GPUs' if is_accelerator(device) else 'CPUs'}"
    if wanted == "pytorch":
        return None, "PyTorch's operators, as asked for"
    try:
        library = supported(protocol, device, getattr(torch, precision))
    except Unavailable as reason:
        if wanted == "native":
            raise ValueError(f"{name} was asked for, but {reason}.") from None
        return None, f"PyTorch's operators ({reason})"
    return Trunk(library, feature_sizes(protocol)), name


class Stack:
    """A stack of runs in training.

    Args:
        runs: one or more different runs that share protocol, projector and projector_dim; others raise ValueError.
        device: see `resolve_device`.
        precision: "float32", "bfloat16" (convolutions only; last layer and losses float32, solvers float64) or "auto" (float32).
        record: whether to record temperatures; see `engine.recorder`.
        trunk: see `choose_trunk`.
        data: makes the data of a seed: `ColoredDigits`, or a class with its interface. A row does not name the data. Store
            no rows of other data.

    Attributes:
        runs: the runs, ordered by stream.
        trunk, path: what computes the encoder's blocks (None for PyTorch's operators), and the reason in words.
        encoder: the networks of all runs.
        epoch: number of epochs done.
        seconds: time spent in them.
        machine: what may affect the last digits (`provenance.machine`), for every machine that trained the stack.
        losses: mean loss of each epoch done, [R] each.
        recordable, graph: whether a step can become a CUDA graph, and that graph (`record` is about temperatures).
    """

    def __init__(
        self,
        runs: Sequence[Run],
        device: str | torch.device = "auto",
        precision: str = "auto",
        record: bool = False,
        trunk: str = "auto",
        data: Callable[..., ColoredDigits] = ColoredDigits,
    ):
        if not runs:
            raise ValueError("a stack needs at least one run.")
        if len(set(runs)) < len(runs):
            raise ValueError("a stack cannot hold a run twice.")
        if len({shape_of(run) for run in runs}) > 1:
            raise ValueError("the runs of a stack must share protocol, projector and projector_dim.")
        self.device = resolve_device(device)
        self.precision = resolve_precision(precision)
        if not is_accelerator(self.device):
            tune_cpu_memory()
        self.runs = sorted(runs, key=lambda run: (stream_of(run), list(ALL_METHODS).index(run.method)))
        self.protocol: Protocol = runs[0].protocol
        counts = Counter(stream_of(run) for run in self.runs)
        self.counts = list(counts.values())
        self.trunk, self.path = choose_trunk(self.protocol, self.device, self.precision, trunk)
        self.streams = Streams(list(counts), self.protocol, self.device, self.trunk, data)
        looks = [stream for stream, count in enumerate(self.counts) for _ in range(count)]  # each run at its stream
        self.stream_of_run = torch.tensor(looks, device=self.device)
        dtype = getattr(torch, self.precision)
        self.networks = Networks(self.runs, self.streams.num_domains, self.streams.size, self.device, dtype, self.trunk)
        self.encoder, self.adversary = self.networks.encoder, self.networks.adversary
        self.groups = groups_of(self.runs, looks, self.device)
        self.weighed = [group for group in self.groups if group.discriminator == "global"]
        self._joined = joined(self.weighed, looks)
        self.keys = [run.key for run in self.runs]
        self.machine = self._machine()
        self.epoch, self.seconds = 0, 0.0
        self.graph: StepGraph | None = None
        self.recordable, self.warm = self._may_be_recorded(), False  # an epoch comes first, in which libraries set themselves up
        self.losses: list[Tensor] = []
        self.recorder = TemperatureRecorder(self.runs, self.streams.num_domains, self.device) if record else None

    def _machine(self) -> dict[str, Any]:
        return {**machine(self.device), "trunk": None if self.trunk is None else self.trunk.library.description}

    def embed(self, split: str, group: Group | None = None) -> Tensor:
        """Embeddings [R, N, embedding_dim] of a split's clean images, for all runs or for a group; see `embedding.embed`."""
        return embed(self.encoder, self.streams, self.counts, split, group)

    def posteriors(self) -> dict[str, Fitted]:
        """The discriminator of each method with a global one, fitted to all training images before an epoch."""
        if self._joined is None:
            return {}
        whole, places = self._joined
        z = for_discriminator(self.encoder, self.streams, self.counts, whole, self.epoch)
        # Once an epoch, waiting for a GPU costs less than steps after convergence.
        fitted = self._fit_discriminator(z, self.streams.domains[self.stream_of_run[whole.runs]], watched=True)
        return {group.method: fitted.of(place) for group, place in zip(self.weighed, places)}

    def _fit_discriminator(self, z: Tensor, domains: Tensor, watched: bool = False) -> Fitted:
        p = self.protocol
        return discriminator.fit(
            z,
            domains,
            self.streams.num_domains,
            p.discriminator_l2,
            kind=p.discriminator_features,
            steps=p.discriminator_steps if p.discriminator_fit == "adam" else None,
            learning_rate=p.discriminator_learning_rate,
            watched=watched,
        )

    def _batch(self, group: Group, z: Tensor, z_pos: Tensor, domains: Tensor, images: Tensor, posteriors: dict) -> Batch:
        """The batch that a group's method sees in this step."""
        p = self.protocol
        z, z_pos, domains = z[group.runs], z_pos[group.runs], domains[group.runs]
        anchor_posterior = posterior = None
        if group.discriminator is not None:
            if group.discriminator == "global":
                fitted = posteriors[group.method]
            else:
                both = torch.cat([z, z_pos], -2)
                fitted = self._fit_discriminator(both, torch.cat([domains, domains], -1))
            seen, seen_pos = (z, z_pos) if p.weight_gradient else (z.detach(), z_pos.detach())
            anchor_posterior, posterior = fitted.predict_proba(seen), fitted.predict_proba(seen_pos)
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
            memory=None if group.memories is None else self.networks.memory[group.memories[:, None], images[group.runs]],
            posterior_view=p.posterior_view,
            penalty_views=p.penalty_views,
            mmd_features=p.mmd_features,
            mmd_bandwidths=p.mmd_bandwidths,
            dann_features=p.dann_features,
        )

    def _may_be_recorded(self) -> bool:
        """Whether a step can be a `StepGraph`: on a GPU with the trunk, if the host decides nothing within a step."""
        p = self.protocol
        fits = any(group.discriminator == "batch" for group in self.groups)
        anneals = len(self.adversary[0]) > 0 and p.dann_schedule != "constant"
        return self.trunk is not None and is_accelerator(self.device) and p.drop_last and not fits and not anneals

    def step(self, number: int, posteriors: dict) -> Tensor:
        """One training step, after `streams.draw`: one batch of every stream, one update of every run. Returns losses [R]."""
        return self._step(self.streams.inputs(number, self.epoch), posteriors)

    def _step(self, inputs: Inputs, posteriors: dict) -> Tensor:
        with reproducible(self.device):
            data, index = self.streams, inputs.places
            z, z_pos = self.encoder.project(self.encoder(inputs.images, self.counts, inputs.masks)).chunk(2, 1)
            domains, places = data.domains.gather(1, index)[self.stream_of_run], index[self.stream_of_run]

            losses = z.new_zeros(len(self.runs))
            for group in self.groups:
                method, batch = ALL_METHODS[group.method], self._batch(group, z, z_pos, domains, places, posteriors)
                losses = losses.index_add(0, group.runs, method.loss(batch, self.protocol.symmetric))
                if group.memories is not None:
                    kept = method.remembered(batch, self.protocol.symmetric).to(self.networks.memory)
                    self.networks.memory[group.memories[:, None], places[group.runs]] = kept
                if self.recorder is not None and "tau_beta" in method.uses:
                    self.recorder.add(group.runs, method.pairs(batch)["tau_neg"].detach(), same_domain(batch.domains))
            self.networks.update(losses)
            return losses.detach()

    def train_epoch(self, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Train every run for one epoch.

        Raises:
            Interrupted: if `should_stop` returned True; the epoch is then lost, and the stack must be restored.
        """
        began = time.perf_counter()
        self.networks.set_rates(self.epoch)
        self.streams.draw(self.epoch)
        self.encoder.train()
        posteriors = self.posteriors()
        steps = self.streams.steps
        if self.graph is None and self.recordable and self.warm:
            self.graph = self._recorded(posteriors)
        if self.graph is not None:
            self.graph.begin(posteriors)
        total = torch.zeros(len(self.runs), device=self.device)
        for number in range(steps):
            if should_stop():
                raise Interrupted
            if self.graph is not None:
                total += self.graph(self.streams.inputs(number, self.epoch))
            else:
                total += self.step(number, posteriors)
        self.warm = True
        self.losses.append(total / steps)
        if self.recorder is not None:
            self.recorder.end_epoch()
        self.epoch += 1
        self.seconds += time.perf_counter() - began

    def _recorded(self, posteriors: dict) -> StepGraph | None:
        """The step as a graph; None, with a warning, if CUDA cannot record it."""
        try:
            return StepGraph(self._step, self.streams.inputs(0, self.epoch), posteriors, self.networks.optimizers)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            told = str(error).strip().partition("\n")[0]
            warnings.warn(f"steps are not recorded as a CUDA graph, which is slower: {told}", stacklevel=3)
            self.recordable = False
            return None

    def state(self) -> dict[str, Any]:
        """Copies of everything that training depends on."""
        return {
            "keys": self.keys,
            "sources": SOURCES,
            "machine": self.machine,
            "epoch": self.epoch,
            "seconds": self.seconds,
            "losses": list(self.losses),
            **self.networks.state(),
            "precision": self.precision,
            "temperatures": None if self.recorder is None else list(self.recorder.epochs),
        }

    def traces(self) -> list[Trace]:
        """The trace that each run recorded."""
        return traces_of(self.runs, torch.stack(self.losses), self.recorder)

    def restore(self, path: Path) -> None:
        """Continue from a checkpoint of the same runs; if another machine wrote it, `machine` names both.

        Raises:
            ValueError: if it is damaged or incomplete, or of other runs, code or precision; the stack is then unchanged.
        """
        state = read_checkpoint(path, self.device)
        self._check(state)
        for name, now in self._machine().items():
            before = state["machine"][name]
            same = before == now or str(before).endswith(f", then {now}")
            self.machine[name] = before if same else f"{before}, then {now}"
        self.epoch, self.seconds, self.losses = state["epoch"], float(state["seconds"]), list(state["losses"])
        self.networks.load(state)
        self.graph = None  # it would write to the tensors of before
        if self.recorder is not None:
            self.recorder.epochs = list(state["temperatures"])

    def _check(self, state: dict[str, Any]) -> None:
        """Raise ValueError unless a state is complete and was written for these runs by this code."""
        if state.get("keys") != self.keys:
            raise ValueError("it belongs to other runs")
        if state.get("sources") != SOURCES:
            raise ValueError("it was written by other code")
        if state.get("precision") != self.precision:
            raise ValueError(f"it was trained in {state.get('precision')!r}")
        if state["epoch"] > self.protocol.epochs:
            raise ValueError(f"it has trained {state['epoch']} epochs of {self.protocol.epochs}")
        trained_on = state.get("machine")
        if not isinstance(trained_on, dict) or trained_on.keys() != self._machine().keys():
            raise ValueError("it does not say where it was trained")
        checked_number("its seconds", state.get("seconds"))
        if any(not isinstance(loss, Tensor) or loss.shape != (len(self.runs),) for loss in state["losses"]):
            raise ValueError("its losses are not whole")
        if self.recorder is not None:
            shape, counts = self.recorder.counts.shape, state.get("temperatures")
            if not isinstance(counts, list) or [getattr(c, "shape", None) for c in counts] != [shape] * state["epoch"]:
                raise ValueError("it holds no temperatures, or not those of each epoch")
        self.networks.check(state, state["epoch"])


def train(
    runs: Sequence[Run],
    device: str | torch.device = "auto",
    *,
    precision: str = "auto",
    record: bool = False,
    trunk: str = "auto",
    data: Callable[..., ColoredDigits] = ColoredDigits,
    checkpoint: Path | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    on_restore: Callable[[Stack], None] = lambda stack: None,
    on_epoch: Callable[[Stack], None] = lambda stack: None,
) -> Stack:
    """Pre-train a stack of runs for all the epochs of their protocol, and return the trained `Stack`, for `evaluate.evaluate`.

    Args:
        runs: different runs that share a protocol and a projector.
        device: "auto", "cpu", "cuda" or "cuda:N".
        precision, record, trunk, data: see `Stack`.
        checkpoint: file to continue from if it exists; written between epochs (15 s apart or more), when training stops and at
            the end; not deleted here. If damaged, or of other runs or code, training starts anew. This or a failed write warns.
        should_stop: called before every step; training stops when it returns True.
        on_restore: called if training continues from a checkpoint.
        on_epoch: called after every epoch.

    Raises:
        Interrupted: if `should_stop` returned True. With a checkpoint, only the current epoch is lost.
        ValueError: as for `Stack`. OSError, MemoryError: if the checkpoint cannot be read here; it stays as it is.
    """
    stack = Stack(runs, device, precision, record, trunk, data)
    if checkpoint is not None and checkpoint.exists():
        try:
            stack.restore(checkpoint)
        except (torch.OutOfMemoryError, MemoryError, OSError):  # the file may be sound
            raise
        except Exception as error:  # whatever a whole file may hold that is not ours
            reason = (str(error) or repr(error)).partition("\n")[0]
            message = f"checkpoint {checkpoint} is not usable ({reason}); training starts anew."
            warnings.warn(message, stacklevel=2)
            stack = Stack(runs, device, precision, record, trunk, data)
        else:
            on_restore(stack)
    saved = time.monotonic()
    while stack.epoch < stack.protocol.epochs:
        before = None if checkpoint is None else stack.state()
        if checkpoint is not None and before is not None and time.monotonic() - saved > CHECKPOINT_SECONDS:
            save(before, checkpoint, "training goes on without it")
            saved = time.monotonic()
        try:
            stack.train_epoch(should_stop)
        except Interrupted:
            if checkpoint is not None and before is not None:
                save(before, checkpoint, "what was trained since the one before, if any, is lost")
            raise
        on_epoch(stack)
    if checkpoint is not None:  # whatever evaluation meets, training is done
        save(stack.state(), checkpoint, "rows come next, which need less room")
    return stack


def save(state: dict[str, Any], path: Path, otherwise: str) -> None:
    """Write a checkpoint. If that fails, warn with the reason and with what follows (`otherwise`); training continues."""
    try:
        write_checkpoint(state, path)
    except OSError as error:
        warnings.warn(f"no checkpoint: {error} Then {otherwise}.", stacklevel=3)
