"""Linear and MLP domain discriminators in scikit-learn's manner: `fit`, `predict_proba`, `predict`, `score`.

Fit one to all embeddings once an epoch (global). It is a module: what it learned is saved with a loss and moves with it. Its
posteriors decide temperatures, so their sharpness matters. With `calibrate`, a share of the examples is held out, and logits are
divided by the temperature under which these are most likely (Guo et al. 2017).

By default a discriminator sees the direction of an embedding (``features="l2"``), as the losses do. The paper's text gives it
the embedding itself: ``features="raw"``, whose posteriors sharpen as embeddings grow.
"""

from __future__ import annotations

import math
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .. import logistic
from ..checks import checked_number
from ..discriminator import FEATURES
from ..discriminator import features as seen_of
from .inputs import check_domains, check_embeddings, check_integers, widened
from .settings import Described


def fit_temperature(logits: Tensor, domains: Tensor) -> float:
    """The T in [0.01, 100] that makes domains [N] most likely under logits [N, D] / T, by golden-section search on log T."""

    def cost(log_t: float) -> float:
        return F.cross_entropy(logits.double() * math.exp(-log_t), domains.long()).item()

    low, high, golden = math.log(0.01), math.log(100.0), (math.sqrt(5) - 1) / 2
    for _ in range(60):
        a, b = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, b) if cost(a) <= cost(b) else (a, high)
    return math.exp((low + high) / 2)


class Discriminator(Described):
    """The base of both discriminators: checks, calibration and prediction.

    Args:
        num_domains: N_D, at least 2; domains are 0 ... N_D - 1, and a negative number is an unknown one.
        calibrate: share, 0 to 0.9, of each known domain's examples held out to set the temperature of the posteriors; 0: none.
        seed: of the choice of these examples, and of the MLP's initial weights.
        features: what is seen of an embedding: "l2" its direction, "raw" all of it. It is saved with what was learned.

    Attributes:
        temperature_: what logits are divided by; 1 without calibration, None before `fit`.
    """

    learned: tuple[str, ...] = ()  # what `_fit` returns; buffers, None before `fit`
    settings: tuple[str, ...] = ("num_domains", "calibrate", "seed", "features")
    temperature_: Tensor | None
    _here: Tensor

    def __init__(self, num_domains: int, *, calibrate: float = 0.0, seed: int = 0, features: str = "l2"):
        super().__init__()
        self.num_domains = num_domains
        self.calibrate = calibrate
        self.seed = seed
        self.features = features
        for name in ("temperature_", *self.learned):
            self.register_buffer(name, None)
        self.register_buffer("_here", torch.zeros(()), persistent=False)  # on the module's device, before anything is learned

    def fit(self, z: Tensor, domains: Tensor) -> Self:
        """Fit to embeddings and their domains, and return the discriminator. No gradient flows into the embeddings.

        Args:
            z: [N, k] embeddings.
            domains: int [N], less than num_domains; an example of unknown domain, a negative number, does not count.

        Raises:
            ValueError: for shapes that do not agree, embeddings that are not finite, domains out of range or all alike, or too
                few examples to hold some out.
        """
        check_embeddings(z, domains, self.num_domains, needed=True)
        if z.dim() != 2:
            raise ValueError(f"z must be [N, k], got {tuple(z.shape)}.")
        domains = domains.to(z.device, torch.int64)
        known = domains >= 0
        there = domains[known].unique().tolist()
        if len(there) < 2:
            whose = f"of domain {there[0]}" if there else "of unknown domain"
            raise ValueError(f"all examples are {whose}: there is nothing to tell apart.")
        apart = self._held_out(domains[known], there)
        if self.calibrate and not apart.any():
            raise ValueError(f"calibrate={self.calibrate:g} holds out none of {len(apart)} examples.")
        with torch.inference_mode(False), torch.autocast(z.device.type, enabled=False):
            x, domains = seen_of(widened(z.detach().clone()), self.features)[known], domains[known]
            found = [value.detach().to(x) for value in self._fit(x[~apart], domains[~apart])]
            temperature = fit_temperature(self._logits(x[apart], *found), domains[apart]) if self.calibrate else 1.0
            for name, value in zip(self.learned, found):
                setattr(self, name, value)
            self.temperature_ = x.new_tensor(temperature)
        return self

    def _held_out(self, domains: Tensor, there: list[int]) -> Tensor:
        """Which examples [N] set the temperature: the share `calibrate` of each domain, of which one is left at least."""
        order = torch.randperm(len(domains), generator=torch.Generator().manual_seed(self.seed), device="cpu").to(domains.device)
        apart = torch.zeros_like(domains, dtype=torch.bool)
        for domain in there:
            mine = order[domains[order] == domain]
            apart[mine[: min(round(self.calibrate * len(mine)), len(mine) - 1)]] = True
        return apart

    @property
    def fitted(self) -> bool:
        """Whether it can predict: it was fitted, or what another learned was loaded."""
        return all(getattr(self, name) is not None for name in ("temperature_", *self.learned))

    @torch.no_grad()
    def predict_proba(self, z: Tensor) -> Tensor:
        """Domain posteriors [..., N, D] of embeddings z [..., N, k], without a gradient.

        Raises:
            RuntimeError: before `fit`.
            ValueError: for embeddings of another width than those fitted to.
        """
        if self.temperature_ is None or not self.fitted:
            raise RuntimeError(f"this {type(self).__name__} is not fitted yet; call fit(z, domains) first.")
        learned = [getattr(self, name) for name in self.learned]
        width = learned[0].shape[-1]
        if not isinstance(z, Tensor) or z.dim() < 2 or z.shape[-1] != width or not z.is_floating_point():
            given = f"{z.dtype} {tuple(z.shape)}" if isinstance(z, Tensor) else type(z).__name__
            raise ValueError(f"z must be embeddings [..., N, {width}], as those fitted to, got {given}.")
        z = widened(z)
        with torch.autocast(z.device.type, enabled=False):
            logits = self._logits(seen_of(z, self.features), *(value.to(z) for value in learned))
            return (logits / self.temperature_.to(z)).softmax(-1)

    forward = predict_proba

    def predict(self, z: Tensor) -> Tensor:
        """Most probable domain, int [..., N]. Raises what `predict_proba` raises."""
        return self.predict_proba(z).argmax(-1)

    def score(self, z: Tensor, domains: Tensor) -> float:
        """Fraction of the known domains that are predicted correctly; NaN if none is known.

        Args:
            z: [..., N, k] embeddings.
            domains: int [..., N], less than num_domains; an example of unknown domain, a negative number, does not count.

        Raises:
            RuntimeError, ValueError: as for `predict_proba`; ValueError also for domains of another shape, that are no integers, or out of range.
        """
        predicted = self.predict(z)
        check_integers("domains", domains, predicted.shape)
        check_domains(domains, self.num_domains)
        domains = domains.to(z.device, torch.int64)
        return (predicted == domains)[domains >= 0].double().mean().item()

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, metadata: dict[str, Any], *rest: Any) -> None:
        names = ("temperature_", *self.learned)
        saved = {name: state[prefix + name] for name in names if prefix + name in state}
        mine = [key for key in state if key.startswith(prefix)]
        unfitted = metadata.get("version") in (self._version, None) and mine == [f"{prefix}_extra_state"]
        if len(saved) < len(names) and not unfitted:  # of another module: nothing changes
            rest[1].extend(prefix + name for name in names if getattr(self, name) is not None)  # missing
            rest[2].extend(mine)  # unexpected
            return
        if saved and len(bias := saved[names[-1]]) != self.num_domains:
            rest[-1].append(f"{prefix}num_domains is {self.num_domains}, but what is loaded tells {len(bias)} domains apart.")
            return
        try:
            features_of(state.get(f"{prefix}_extra_state", torch.tensor(FEATURES.index(self.features))))
        except ValueError as wrong:
            rest[-1].append(f"{prefix}{wrong}")
            return
        for name in names:  # they get the saved shapes, or None
            setattr(self, name, torch.empty_like(saved[name], device=self._here.device) if saved else None)
        super()._load_from_state_dict(state, prefix, metadata, *rest)

    def get_extra_state(self) -> Tensor:
        """Which of `FEATURES` is seen, a 0-d tensor, which is saved with what was learned."""
        return torch.tensor(FEATURES.index(self.features), device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        """Take over the saved `features`; ValueError unless they are an index of `FEATURES`."""
        self.features = features_of(state)

    def _fit(self, x: Tensor, domains: Tensor) -> tuple[Tensor, ...]:
        """What `learned` names, the first of width k, from features x [N, k] and their domains."""
        raise NotImplementedError

    @staticmethod
    def _logits(x: Tensor, *learned: Tensor) -> Tensor:
        """Logits [..., N, D] of features x [..., N, k], from what was learned."""
        raise NotImplementedError


def features_of(state: Tensor) -> str:
    """The name in `FEATURES` whose index was saved; ValueError if there is none."""
    return FEATURES[int(checked_number("saved features", state.item(), 0, len(FEATURES) - 1, integer=True))]


class LinearDiscriminator(Discriminator):
    """A linear discriminator, as the paper has one: logistic regression, here solved to its optimum.

    Args:
        num_domains, calibrate, seed, features: as for `Discriminator`.
        l2: penalty, > 0; scikit-learn's 1 / C. A smaller one makes sharper posteriors.

    >>> z, domains = torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, 1.0], [1.0, 2.0]]), torch.tensor([0, 0, 1, 1])
    >>> LinearDiscriminator(2).fit(z, domains).predict(torch.tensor([[9.0, 1.0], [0.1, 0.3]]))
    tensor([0, 1])
    """

    _version = 101  # no other module's: it is saved, and tells a discriminator that is not fitted from them
    learned = ("weight", "bias")
    settings = (*Discriminator.settings, "l2")

    def __init__(self, num_domains: int, *, l2: float = 1.0, calibrate: float = 0.0, seed: int = 0, features: str = "l2"):
        super().__init__(num_domains, calibrate=calibrate, seed=seed, features=features)
        self.l2 = l2

    def _fit(self, x: Tensor, domains: Tensor) -> tuple[Tensor, ...]:
        model = logistic.fit(x.double(), domains, self.num_domains, self.l2, solver="lbfgs", watched=True)
        return model.weight, model.bias

    @staticmethod
    def _logits(x: Tensor, *learned: Tensor) -> Tensor:
        return logistic.LogisticModel(*learned).logits(x)


class MLPDiscriminator(Discriminator):
    """One hidden layer of ReLUs, trained by Adam on all examples at once; the input is standardised first.

    Args:
        num_domains, calibrate, seed, features: as for `Discriminator`.
        hidden: width of the hidden layer, at least 1.
        steps: of Adam, at least 1.
    """

    _version = 102
    learned = ("mean", "spread", "weight0", "bias0", "weight1", "bias1")
    settings = (*Discriminator.settings, "hidden", "steps")

    def __init__(
        self,
        num_domains: int,
        *,
        hidden: int = 64,
        steps: int = 200,
        calibrate: float = 0.0,
        seed: int = 0,
        features: str = "l2",
    ):
        super().__init__(num_domains, calibrate=calibrate, seed=seed, features=features)
        self.hidden = hidden
        self.steps = steps

    @torch.enable_grad()
    def _fit(self, x: Tensor, domains: Tensor) -> tuple[Tensor, ...]:
        mean, spread = x.mean(0), x.std(0, correction=0)
        spread = torch.where(spread > 1e-6 * (1 + mean.abs()), spread, 1.0)  # a constant stays as it is
        generator, parameters = torch.Generator().manual_seed(self.seed), []
        for inputs, outputs in ((x.shape[-1], self.hidden), (self.hidden, self.num_domains)):
            for shape in ((outputs, inputs), (outputs,)):  # as nn.Linear starts, from a generator of our own
                start = (torch.rand(shape, generator=generator, device="cpu") * 2 - 1) * (1 / math.sqrt(inputs))
                parameters.append(nn.Parameter(start.to(x)))
        optimizer = torch.optim.Adam(parameters, lr=0.01, weight_decay=1e-4)
        with x.device:  # where Adam of PyTorch 2.6 then keeps its number of steps
            for _ in range(self.steps):
                optimizer.zero_grad(set_to_none=True)
                F.cross_entropy(self._logits(x, mean, spread, *parameters), domains).backward()
                optimizer.step()
        return mean, spread, *parameters

    @staticmethod
    def _logits(x: Tensor, *learned: Tensor) -> Tensor:
        mean, spread, first, bias, second, offset = learned
        return F.linear(F.relu(F.linear((x - mean) / spread, first, bias)), second, offset)
