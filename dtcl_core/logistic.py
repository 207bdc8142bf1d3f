"""Multinomial logistic regression, batched over runs; discriminators and probes use it.

The objective is scikit-learn's with C = 1 / l2. Biases are not penalised, and for two classes W is a single vector w::

    sum_i -log p(y_i | x_i)  +  l2 / 2 |W|^2

For l2 > 0 it is strictly convex in the parameters of `_Objective`, also if classes are separable or missing. A damped Newton
method in float64 minimises it for all runs at once. So does L-BFGS, in the dtype of x, at a cost linear in classes and features.
Adam steps may replace them, and stop before the minimum. Both solvers freeze a converged run, and refuse a step that does not
lower a run's objective, for that run alone. So runs do not affect each other, and NaN embeddings give NaN weights, no error.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from .engine.device import is_accelerator

MAX_ITERATIONS = 50
UNWATCHED_ITERATIONS = 24  # on a GPU, where looking would cost more; well separated classes took up to 16
LBFGS_ITERATIONS = 200
CONVERGED = 1e-8  # largest component of the gradient, relative to the number of examples


@dataclass(frozen=True)
class LogisticModel:
    """A fitted model: weight [..., C, k] and bias [..., C], each summing to zero over classes."""

    weight: Tensor
    bias: Tensor

    def logits(self, x: Tensor) -> Tensor:
        """Logits [..., N, C] of x [..., N, k], in x's dtype."""
        return x @ self.weight.to(x).transpose(-1, -2) + self.bias.to(x)[..., None, :]

    def predict_proba(self, x: Tensor) -> Tensor:
        """Class probabilities [..., N, C] of x [..., N, k], in x's dtype."""
        return self.logits(x).softmax(-1)

    def predict(self, x: Tensor) -> Tensor:
        """Most probable class [..., N], int64."""
        return self.logits(x).argmax(-1)


class _Objective:
    """Penalised negative log likelihood in free parameters theta [..., (C - 1)(k + 1)]; the logit of class 0 is zero.

    The penalty on centred class weights is then the quadratic form ``M = I - 11'/C`` over the other classes. For two classes it is doubled,
    which gives scikit-learn's penalty on a single vector.
    """

    def __init__(self, x: Tensor, y: Tensor, num_classes: int, l2: float):
        self.x = torch.cat([x, torch.ones_like(x[..., :1])], -1)
        self.y = y
        self.target = F.one_hot(y, num_classes)[..., 1:].to(x.dtype)
        free, width = num_classes - 1, x.shape[-1] + 1
        strength = l2 * (2.0 if num_classes == 2 else 1.0)
        form = torch.eye(free, dtype=x.dtype, device=x.device) - 1.0 / num_classes
        weights_only = torch.ones(width, dtype=x.dtype, device=x.device)
        weights_only[-1] = 0.0
        self.penalty = strength * torch.kron(form, torch.diag(weights_only))
        self.free, self.width = free, width

    def log_probabilities(self, theta: Tensor) -> Tensor:
        """Logarithms of the probabilities [..., N, C]."""
        logits = self.x @ theta.unflatten(-1, (self.free, self.width)).transpose(-1, -2)
        return F.pad(logits, (1, 0)).log_softmax(-1)

    def evaluate(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """The objective [...] and the probabilities [..., N, C - 1] of the free classes."""
        log_p = self.log_probabilities(theta)
        fit = -log_p.gather(-1, self.y[..., None])[..., 0].sum(-1)
        pull = 0.5 * torch.einsum("...i,ij,...j->...", theta, self.penalty, theta)
        return fit + pull, log_p[..., 1:].exp()

    def gradient(self, theta: Tensor, p: Tensor) -> Tensor:
        return ((p - self.target).transpose(-1, -2) @ self.x).flatten(-2) + theta @ self.penalty

    def hessian(self, p: Tensor) -> Tensor:
        rows = []
        for a in range(self.free):
            blocks = []
            for b in range(self.free):
                d = p[..., a] * (float(a == b) - p[..., b])
                blocks.append((self.x * d[..., None]).transpose(-1, -2) @ self.x)
            rows.append(torch.cat(blocks, -1))
        return torch.cat(rows, -2) + self.penalty

    def model(self, theta: Tensor, dtype: torch.dtype) -> LogisticModel:
        full = F.pad(theta.unflatten(-1, (self.free, self.width)), (0, 0, 1, 0))
        full = (full - full.mean(-2, keepdim=True)).to(dtype)
        return LogisticModel(full[..., :-1], full[..., -1])


def newton(objective: _Objective, theta: Tensor, watched: bool, max_iterations: int = MAX_ITERATIONS) -> Tensor:
    """Minimise over theta [..., F] by Newton steps; damping grows where a step would not lower the objective.

    A test for convergence reads from the device, which stalls a GPU. Unwatched, the loop takes fewer steps and does not test.
    """
    value, p = objective.evaluate(theta)
    damping = torch.zeros_like(value)
    count = objective.x.shape[-2]
    eye = torch.eye(theta.shape[-1], dtype=theta.dtype, device=theta.device)
    for _ in range(max_iterations if watched else min(max_iterations, UNWATCHED_ITERATIONS)):
        gradient = objective.gradient(theta, p)
        active = ~(gradient.abs().amax(-1) <= CONVERGED * count)
        if watched and not (active & value.isfinite()).any():
            break
        hessian = objective.hessian(p) + (damping + 1e-12)[..., None, None] * eye
        factor, failed = torch.linalg.cholesky_ex(hessian)
        step = torch.cholesky_solve(gradient[..., None], factor)[..., 0]
        trial = theta - step
        trial_value, trial_p = objective.evaluate(trial)
        better = active & (failed == 0) & (trial_value <= value)
        theta = torch.where(better[..., None], trial, theta)
        value = torch.where(better, trial_value, value)
        p = torch.where(better[..., None, None], trial_p, p)
        damping = torch.where(better, damping / 10, (damping * 10).clamp(min=1e-3 * count))
    return torch.where(value.isfinite()[..., None], theta, torch.nan)


def adam(objective: _Objective, theta: Tensor, steps: int, learning_rate: float) -> Tensor:
    """Take full-batch Adam steps on the mean loss, from theta [..., F]."""
    first, second, count = torch.zeros_like(theta), torch.zeros_like(theta), objective.x.shape[-2]
    for t in range(1, steps + 1):
        gradient = objective.gradient(theta, objective.log_probabilities(theta)[..., 1:].exp()) / count
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient.square()
        theta = theta - learning_rate * (first / (1 - 0.9**t)) / ((second / (1 - 0.999**t)).sqrt() + 1e-8)
    return theta


def lbfgs(x: Tensor, y: Tensor, num_classes: int, l2: float, counted: Tensor, watched: bool, history: int = 8) -> LogisticModel:
    """Minimise the same objective by L-BFGS in x's dtype; x [..., N, k], y [..., N], and `counted` [..., N] bool, the examples that count.

    It stops when no component of the mean gradient exceeds 0.3 sqrt(eps), or after `LBFGS_ITERATIONS` steps; unwatched (see
    `newton`), after `UNWATCHED_ITERATIONS`. Centring saves steps. The last `history` steps, refused ones too, give the curvature.
    """
    share = counted.to(x.dtype)[..., None]
    count = share.sum(-2).clamp(min=1)[..., 0]
    center = (x * share).sum(-2, keepdim=True) / count[..., None, None]
    x, basis = (x - center) * share, None
    if x.shape[-1] > x.shape[-2] and 20 * num_classes > x.shape[-2]:
        # The optimum lies in the span of the examples. Fewer coordinates describe it, which pays with many classes.
        basis, coordinates = torch.linalg.qr(x.transpose(-1, -2))
        x = coordinates.transpose(-1, -2)
    x = torch.cat([x, share], -1)
    target = F.one_hot(y, num_classes).to(x.dtype)
    penalty = x.new_full((x.shape[-1],), l2 * (2.0 if num_classes == 2 else 1.0))
    penalty[-1] = 0.0
    # Inverse curvature along each coordinate at the start, where all classes are equally likely.
    first = 1.0 / (x.square().sum(-2, keepdim=True) / num_classes + penalty).clamp(min=torch.finfo(x.dtype).tiny)

    def evaluate(theta: Tensor) -> tuple[Tensor, Tensor]:
        log_p = (x @ theta.transpose(-1, -2)).log_softmax(-1)
        value = -(log_p * target).sum((-1, -2)) + 0.5 * (penalty * theta.square()).sum((-1, -2))
        return value, (log_p.exp() - target).transpose(-1, -2) @ x + penalty * theta

    def dot(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).sum((-1, -2), keepdim=True)

    def direction(gradient: Tensor) -> Tensor:
        shares = []
        for step, bend, inverse in reversed(pairs):
            shares.append(inverse * dot(step, gradient))
            gradient = gradient - shares[-1] * bend
        scale = torch.ones_like(length)
        if pairs:
            step, bend, inverse = pairs[-1]
            scale = torch.where(inverse > 0, dot(step, bend) / dot(bend * first, bend), 1.0)
        gradient = scale * first * gradient
        for (step, bend, inverse), share in zip(pairs, reversed(shares)):
            gradient = gradient + (share - inverse * dot(bend, gradient)) * step
        return gradient

    theta, length = x.new_zeros(*x.shape[:-2], num_classes, x.shape[-1]), x.new_ones(*x.shape[:-2], 1, 1)
    (value, gradient), eps = evaluate(theta), torch.finfo(x.dtype).eps
    pairs: list[tuple[Tensor, Tensor, Tensor]] = []
    for _ in range(LBFGS_ITERATIONS if watched else UNWATCHED_ITERATIONS):
        active = ~(gradient.abs().amax((-1, -2)) <= 0.3 * eps**0.5 * count)
        if watched and not active.any():
            break
        step = -length * direction(gradient)
        trial_value, trial_gradient = evaluate(theta + step)
        bend = trial_gradient - gradient
        bent = dot(step, bend)
        pairs = [*pairs[1 - history :], (step, bend, torch.where(bent > 0, 1.0 / bent, 0.0))]
        better = active & (trial_value <= value + 4 * eps * value.abs())
        taken = better[..., None, None]
        theta, gradient = torch.where(taken, theta + step, theta), torch.where(taken, trial_gradient, gradient)
        value, length = torch.where(better, trial_value, value), torch.where(taken, 1.0, length / 2)
    theta = torch.where(value.isfinite()[..., None, None], theta, torch.nan)
    theta = theta - theta.mean(-2, keepdim=True)
    weight, bias = theta[..., :-1], theta[..., -1]
    weight = weight if basis is None else weight @ basis.transpose(-1, -2)
    return LogisticModel(weight, bias - (weight @ center.transpose(-1, -2))[..., 0])


@torch.no_grad()
def fit(
    x: Tensor,
    y: Tensor,
    num_classes: int,
    l2: float = 1.0,
    *,
    steps: int | None = None,
    learning_rate: float = 0.01,
    watched: bool = False,
    solver: str = "newton",
) -> LogisticModel:
    """Fit a linear classifier to each run's examples; returns a `LogisticModel` in x's dtype.

    Args:
        x: [..., N, k] features, any floating dtype; no gradient flows through the fit.
        y: [..., N] classes in range(num_classes), some may be missing. With "lbfgs" a negative number is an unknown class, and the
            example does not count.
        num_classes: C, at least 2.
        l2: penalty, > 0; scikit-learn's 1 / C.
        steps: number of full-batch Adam steps from zero; None solves to the optimum.
        learning_rate: of the Adam steps.
        watched: whether the solver may wait for a GPU to learn that it has converged; on a CPU it always does.
        solver: "newton" (float64, exact to the last digits, cost cubic in C k) or "lbfgs" (x's dtype, cost linear in C and k; posteriors
            in float32 mostly to 0.001, with thousands of examples to about 0.01, of features of unit length).

    Raises:
        ValueError: if l2 <= 0, num_classes < 2, x and y differ in N, the solver is unknown, or "lbfgs" is given `steps`.
    """
    if not l2 > 0:
        raise ValueError(f"l2 must be > 0 (separable classes have no optimum without it), got {l2!r}.")
    if num_classes < 2:
        raise ValueError(f"num_classes must be at least 2, got {num_classes!r}.")
    if x.dim() < 2 or x.shape[-2] != y.shape[-1]:
        raise ValueError(f"x must be [..., N, k] and y [..., N], got {tuple(x.shape)} and {tuple(y.shape)}.")
    if solver not in ("newton", "lbfgs") or (solver == "lbfgs" and steps is not None):
        raise ValueError(f"solver must be 'newton' or, without steps, 'lbfgs', got {solver!r}.")
    y = y.long().expand(x.shape[:-1])
    watched = watched or not is_accelerator(x.device)
    if solver == "lbfgs":
        return lbfgs(x.detach(), y.clamp(min=0), num_classes, l2, y >= 0, watched)
    objective = _Objective(x.detach().double(), y, num_classes, l2)
    start = torch.zeros(*x.shape[:-2], objective.free * objective.width, dtype=torch.float64, device=x.device)
    theta = newton(objective, start, watched) if steps is None else adam(objective, start, steps, learning_rate)
    return objective.model(theta, x.dtype)


def accuracy(model: LogisticModel, x: Tensor, y: Tensor) -> Tensor:
    """Fraction of correct predictions [...] for x [..., N, k] and y [..., N]; NaN for a run whose features are not all finite."""
    correct = (model.predict(x) == y).double().mean(-1)
    finite = x.isfinite().all(-1).all(-1)
    return torch.where(finite, correct, torch.nan)
