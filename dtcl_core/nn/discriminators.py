"""Domain discriminators in scikit-learn's manner: `fit`, `predict_proba`, `predict`, `score`.

Global or batch-level is a matter of what they are fitted on: all embeddings once an epoch, or each batch anew. Their
posteriors decide temperatures, so how sharp they are matters; with `calibrate`, a share of the examples is held out and the
logits are divided by the temperature under which those are most likely (Guo et al. 2017).
"""

from __future__ import annotations

import math
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .. import logistic
from ..checks import checked_number

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def fit_temperature(logits: Tensor, domains: Tensor, iterations: int = 60) -> float:
    """The T > 0 that makes domains [N] most likely under logits [N, D] / T, by golden-section search on log T.

    The negative log likelihood has a single minimum in 1 / T; T is bounded to [0.01, 100].
    """

    def cost(log_t: float) -> float:
        return F.cross_entropy(logits.double() * math.exp(-log_t), domains).item()

    low, high, golden = math.log(0.01), math.log(100.0), (math.sqrt(5) - 1) / 2
    a, b = high - golden * (high - low), low + golden * (high - low)
    at_a, at_b = cost(a), cost(b)
    for _ in range(iterations):
        if at_a <= at_b:
            high, b, at_b = b, a, at_a
            a = high - golden * (high - low)
            at_a = cost(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + golden * (high - low)
            at_b = cost(b)
    return math.exp((low + high) / 2)


class Discriminator:
    """What both discriminators share: checks, calibration, prediction.

    Args:
        num_domains: N_D, at least 2; domains are 0 ... N_D - 1.
        calibrate: share of the examples held out to set the temperature of the posteriors; 0 keeps them as they are.
        seed: of the share held out (and of the initial weights, where there are any).

    Attributes:
        temperature_: what logits are divided by; 1 without calibration.
    """

    def __init__(self, num_domains: int, *, calibrate: float = 0.0, seed: int = 0):
        self.num_domains = int(checked_number("num_domains", num_domains, 2, integer=True))
        self.calibrate = float(checked_number("calibrate", calibrate, 0.0, high=0.9))
        self.seed = int(checked_number("seed", seed, 0, integer=True))
        self.temperature_ = 1.0
        self.fitted_ = False

    def fit(self, z: Tensor, domains: Tensor) -> Self:
        """Fit to embeddings and their domains; no gradient flows into the embeddings.

        Args:
            z: [N, k] embeddings.
            domains: int [N], in range(num_domains).

        Returns:
            The discriminator itself.

        Raises:
            ValueError: for shapes that do not agree, embeddings that are not finite, or a domain out of range.
        """
        check_embeddings(z, domains, self.num_domains, needed=True)
        if z.dim() != 2:
            raise ValueError(f"z must be [N, k], got {tuple(z.shape)}.")
        with torch.inference_mode(False), torch.autocast(z.device.type, enabled=False):
            self._fit_and_calibrate(widened(z.detach().clone()), domains.long())
        self.dim_, self.fitted_ = z.shape[-1], True
        return self

    def _fit_and_calibrate(self, z: Tensor, domains: Tensor) -> None:
        if not self.calibrate:
            self._fit(z, domains)
            self.temperature_ = 1.0
        else:
            held = int(round(self.calibrate * len(z)))
            if not 0 < held < len(z):
                raise ValueError(f"calibrate={self.calibrate:g} holds out {held} of {len(z)} examples.")
            order = torch.randperm(len(z), generator=torch.Generator().manual_seed(self.seed)).to(z.device)
            apart, rest = order[:held], order[held:]
            self._fit(z[rest], domains[rest])
            self.temperature_ = fit_temperature(self._logits(z[apart]), domains[apart])

    @torch.no_grad()
    def predict_proba(self, z: Tensor) -> Tensor:
        """Domain posteriors [..., N, D] of embeddings z [..., N, k].

        Raises:
            RuntimeError: before `fit`.
            ValueError: for embeddings of another width than those fitted to.
        """
        if not self.fitted_:
            raise RuntimeError(f"this {type(self).__name__} is not fitted yet; call fit(z, domains) first.")
        if not isinstance(z, Tensor) or z.dim() < 2 or z.shape[-1] != self.dim_:
            given = tuple(z.shape) if isinstance(z, Tensor) else type(z).__name__
            raise ValueError(f"z must be embeddings [..., N, {self.dim_}], as those fitted to, got {given}.")
        z = widened(z)
        with torch.autocast(z.device.type, enabled=False):
            return (self._logits(z) / self.temperature_).softmax(-1)

    def predict(self, z: Tensor) -> Tensor:
        """Most probable domain, int [..., N]."""
        return self.predict_proba(z).argmax(-1)

    def score(self, z: Tensor, domains: Tensor) -> float:
        """Fraction of domains [..., N] predicted correctly from embeddings z [..., N, k]."""
        predicted = self.predict(z)
        if not isinstance(domains, Tensor) or domains.shape != predicted.shape:
            raise ValueError(f"domains must be integers {list(predicted.shape)}, one an embedding.")
        return (predicted == domains).double().mean().item()

    def __repr__(self) -> str:
        names = [name for name in vars(self) if not name.endswith("_")]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def _fit(self, z: Tensor, domains: Tensor) -> None:
        raise NotImplementedError

    def _logits(self, z: Tensor) -> Tensor:
        raise NotImplementedError


class LinearDiscriminator(Discriminator):
    """The paper's discriminator: logistic regression, solved to its optimum.

    Args:
        num_domains, calibrate, seed: see `Discriminator`.
        l2: penalty, > 0; scikit-learn's 1 / C. Smaller means sharper posteriors.

    >>> z, domains = torch.tensor([[0.0], [1.0], [4.0], [5.0]]), torch.tensor([0, 0, 1, 1])
    >>> LinearDiscriminator(2).fit(z, domains).predict(torch.tensor([[-1.0], [6.0]]))
    tensor([0, 1])
    """

    def __init__(self, num_domains: int, *, l2: float = 1.0, calibrate: float = 0.0, seed: int = 0):
        super().__init__(num_domains, calibrate=calibrate, seed=seed)
        self.l2 = float(checked_number("l2", l2, 0.0, above=True))

    def _fit(self, z: Tensor, domains: Tensor) -> None:
        self.model_ = logistic.fit(z, domains, self.num_domains, self.l2)

    def _logits(self, z: Tensor) -> Tensor:
        return self.model_.logits(z)


class MLPDiscriminator(Discriminator):
    """One hidden layer of ReLUs, trained by Adam on all examples at once; the input is standardised first.

    Args:
        num_domains, calibrate, seed: see `Discriminator`.
        hidden: width of the hidden layer.
        steps: of Adam.
        learning_rate: of Adam.
        weight_decay: of Adam.
    """

    def __init__(
        self,
        num_domains: int,
        *,
        hidden: int = 64,
        steps: int = 200,
        learning_rate: float = 0.01,
        weight_decay: float = 1e-4,
        calibrate: float = 0.0,
        seed: int = 0,
    ):
        super().__init__(num_domains, calibrate=calibrate, seed=seed)
        self.hidden = int(checked_number("hidden", hidden, 1, integer=True))
        self.steps = int(checked_number("steps", steps, 1, integer=True))
        self.learning_rate = float(checked_number("learning_rate", learning_rate, 0.0, above=True))
        self.weight_decay = float(checked_number("weight_decay", weight_decay, 0.0))

    @torch.enable_grad()
    def _fit(self, z: Tensor, domains: Tensor) -> None:
        self.mean_, spread = z.mean(0), z.std(0, correction=0)
        self.spread_ = torch.where(spread > 1e-6 * (1 + self.mean_.abs()), spread, 1.0)  # a constant stays as it is
        generator = torch.Generator().manual_seed(self.seed)
        layers = [(z.shape[-1], self.hidden), (self.hidden, self.num_domains)]
        self.parameters_: list[Tensor] = []
        for inputs, outputs in layers:  # as nn.Linear starts, from a generator of our own
            bound = 1 / math.sqrt(inputs)
            for shape in ((outputs, inputs), (outputs,)):
                start = (torch.rand(shape, generator=generator) * 2 - 1) * bound
                self.parameters_.append(nn.Parameter(start.to(z)))
        optimizer = torch.optim.Adam(self.parameters_, lr=self.learning_rate, weight_decay=self.weight_decay)
        for _ in range(self.steps):
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(self._logits(z), domains).backward()
            optimizer.step()
        self.parameters_ = [p.detach() for p in self.parameters_]

    def _logits(self, z: Tensor) -> Tensor:
        first, bias, second, offset = (p.to(z) for p in self.parameters_)
        x = (z - self.mean_.to(z)) / self.spread_.to(z)
        return F.linear(F.relu(F.linear(x, first, bias)), second, offset)


def widened(z: Tensor) -> Tensor:
    """Embeddings [..., N, k] in float32 or better."""
    return z.float() if z.dtype in (torch.float16, torch.bfloat16) else z


def check_embeddings(
    z: Tensor, domains: Tensor | None = None, num_domains: int | None = None, name: str = "z", needed: bool = False
) -> None:
    """Raise ValueError unless embeddings can be used; reads from the device, so call it in eager mode only.

    Args:
        z: [..., N, k] embeddings.
        domains: int [N] or [..., N]; None where there are none.
        num_domains: how many there may be; None: any number.
        name: how a message calls z.
        needed: whether domains must be given, and more than one of them be there.
    """
    for what, value in ((name, z), ("domains", domains)):
        if not isinstance(value, Tensor) and (value is not None or needed or what == name):
            raise ValueError(f"{what} must be a tensor, got {type(value).__name__}.")
    if z.dim() < 2 or not z.is_floating_point() or not z.shape[-2]:
        raise ValueError(f"{name} must be floating embeddings [..., N, k], got {z.dtype} {tuple(z.shape)}.")
    check_finite(z, name)
    if domains is None:
        return
    if domains.dtype not in INTEGERS or domains.shape not in (z.shape[-2:-1], z.shape[:-1]):
        raise ValueError(
            f"domains must be integers [{z.shape[-2]}], one an example, got {domains.dtype} {tuple(domains.shape)}."
        )
    low, high = int(domains.min()), int(domains.max())
    if low < 0 or (num_domains is not None and high >= num_domains):
        accepted = "0 or more" if num_domains is None else f"in 0 ... {num_domains - 1}"
        raise ValueError(f"domains must be {accepted}, got {low} ... {high}.")
    if needed and bool((domains == domains[..., :1]).all()):
        raise ValueError(f"all examples are of domain {low}: there is nothing to tell apart.")


def check_finite(z: Tensor, name: str) -> None:
    """Raise ValueError if embeddings [..., N, k] hold what is not finite, or are too long for their length to be taken."""
    wide = widened(z.detach())
    if not bool(wide.square().sum(-1).isfinite().all()):
        whole = bool(wide.isfinite().all())
        raise ValueError(f"{name} holds {'values whose squares overflow' if whole else 'NaN or infinite values'}.")


def check_labels(z: Tensor, labels: Tensor | None) -> None:
    """Raise ValueError unless labels are integers [N] >= 0 (or bool), one a row of z [N, k]."""
    given = f"{labels.dtype} {tuple(labels.shape)}" if isinstance(labels, Tensor) else type(labels).__name__
    plain = isinstance(labels, Tensor) and labels.dtype in (*INTEGERS, torch.bool)
    if not isinstance(labels, Tensor) or not plain or labels.shape != z.shape[:-1] or z.dim() != 2:
        raise ValueError(f"labels must be integers [N], one a row of z0 [N, k], got {given} and {tuple(z.shape)}.")
    if bool((labels < 0).any()):
        raise ValueError(f"labels must be 0 or more, got {labels.min().item()}; leave unlabelled examples out.")
