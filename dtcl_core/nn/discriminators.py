"""The paper's domain discriminator in scikit-learn's manner: `fit`, `predict_proba`, `predict`, `score`.

Fit it to all embeddings once an epoch (global). It is a module: what it learned is saved with a loss and moves with it. Its
posteriors decide temperatures, so their sharpness matters. With `calibrate`, a share of the examples is held out, and logits are
divided by the temperature under which these are most likely (Guo et al. 2017).

By default a discriminator sees the direction of an embedding (``features="l2"``), as the losses do. The paper's text gives it
the embedding itself: ``features="raw"``, whose posteriors sharpen as embeddings grow.
"""

from __future__ import annotations

import math
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from .. import logistic
from ..checks import checked_choice, checked_number
from ..discriminator import FEATURES
from ..discriminator import features as seen_of
from .inputs import check_domains, check_embeddings, check_integers, widened
from .settings import Described


def fit_temperature(logits: Tensor, domains: Tensor, iterations: int = 60) -> float:
    """The T in [0.01, 100] that makes domains [N] most likely under logits [N, D] / T, by golden-section search on log T."""

    def cost(log_t: float) -> float:
        return F.cross_entropy(logits.double() * math.exp(-log_t), domains.long()).item()

    low, high, golden = math.log(0.01), math.log(100.0), (math.sqrt(5) - 1) / 2
    for _ in range(iterations):
        a, b = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, b) if cost(a) <= cost(b) else (a, high)
    return math.exp((low + high) / 2)


class LinearDiscriminator(Described):
    """Logistic regression of the domains, solved to its optimum.

    Args:
        num_domains: N_D, at least 2; domains are 0 ... N_D - 1, and a negative number is an unknown one.
        l2: penalty, > 0; scikit-learn's 1 / C. A smaller one makes sharper posteriors.
        calibrate: share of the examples held out to set the temperature of the posteriors; 0 leaves them as they are.
        seed: of the choice of these examples.
        features: what is seen of an embedding: "l2" its direction, "raw" the embedding itself.

    Attributes:
        weight, bias: [N_D, k] and [N_D], None before `fit`.
        temperature_: what logits are divided by; 1 without calibration, None before `fit`.

    >>> z, domains = torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, 1.0], [1.0, 2.0]]), torch.tensor([0, 0, 1, 1])
    >>> LinearDiscriminator(2).fit(z, domains).predict(torch.tensor([[9.0, 1.0], [0.1, 0.3]]))
    tensor([0, 1])
    """

    settings = ("num_domains", "l2", "calibrate", "seed", "features")
    weight: Tensor | None
    bias: Tensor | None
    temperature_: Tensor | None

    def __init__(self, num_domains: int, *, l2: float = 1.0, calibrate: float = 0.0, seed: int = 0, features: str = "l2"):
        super().__init__()
        self.num_domains = int(checked_number("num_domains", num_domains, 2, integer=True))
        self.l2 = float(checked_number("l2", l2, 0.0, above=True))
        self.calibrate = float(checked_number("calibrate", calibrate, 0.0, high=0.9))
        self.seed = int(checked_number("seed", seed, 0, integer=True))
        self.features = checked_choice("features", features, FEATURES)
        for name in ("weight", "bias", "temperature_"):
            self.register_buffer(name, None)

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
        domains = domains.long()
        known = domains >= 0
        there = domains[known].unique().tolist()
        if len(there) < 2:
            whose = f"of domain {there[0]}" if there else "of unknown domain"
            raise ValueError(f"all examples are {whose}: there is nothing to tell apart.")
        count = int(known.sum())
        held = round(self.calibrate * count)
        if self.calibrate and not 0 < held < count:
            raise ValueError(f"calibrate={self.calibrate:g} holds out {held} of {count} examples.")
        order = torch.arange(count)
        if held:
            order = torch.randperm(count, generator=torch.Generator().manual_seed(self.seed))
        apart, rest = order[:held].to(z.device), order[held:].to(z.device)
        with torch.inference_mode(False), torch.autocast(z.device.type, enabled=False):
            x, domains = seen_of(widened(z.detach().clone()), self.features)[known], domains[known]
            model = logistic.fit(x[rest].double(), domains[rest], self.num_domains, self.l2, solver="lbfgs", watched=True)
            self.weight, self.bias = model.weight.to(x), model.bias.to(x)
            temperature = fit_temperature(model.logits(x[apart]), domains[apart]) if held else 1.0
            self.temperature_ = x.new_tensor(temperature)
        return self

    @torch.no_grad()
    def predict_proba(self, z: Tensor) -> Tensor:
        """Domain posteriors [..., N, D] of embeddings z [..., N, k].

        Raises:
            RuntimeError: before `fit`.
            ValueError: for embeddings of another width than those fitted to.
        """
        if self.weight is None or self.bias is None or self.temperature_ is None:
            raise RuntimeError(f"this {type(self).__name__} is not fitted yet; call fit(z, domains) first.")
        width = self.weight.shape[-1]
        if not isinstance(z, Tensor) or z.dim() < 2 or z.shape[-1] != width:
            given = tuple(z.shape) if isinstance(z, Tensor) else type(z).__name__
            raise ValueError(f"z must be embeddings [..., N, {width}], as those fitted to, got {given}.")
        z = widened(z)
        with torch.autocast(z.device.type, enabled=False):
            logits = logistic.LogisticModel(self.weight, self.bias).logits(seen_of(z, self.features))
            return (logits / self.temperature_.to(z)).softmax(-1)

    forward = predict_proba

    def predict(self, z: Tensor) -> Tensor:
        """Most probable domain, int [..., N]."""
        return self.predict_proba(z).argmax(-1)

    def score(self, z: Tensor, domains: Tensor) -> float:
        """Fraction of the known domains that are predicted correctly; NaN if none is known.

        Args:
            z: [..., N, k] embeddings.
            domains: int [..., N], less than num_domains; an example of unknown domain, a negative number, does not count.

        Raises:
            ValueError: for domains of another shape, that are no integers, or out of range.
        """
        predicted = self.predict(z)
        check_integers("domains", domains, predicted.shape)
        check_domains(domains, self.num_domains)
        domains = domains.long()
        return (predicted == domains)[domains >= 0].double().mean().item()

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        for name in self._buffers:  # they get the saved shapes, or None
            saved = state.get(prefix + name)
            setattr(self, name, None if saved is None else torch.empty_like(saved))
        super()._load_from_state_dict(state, prefix, *rest)
