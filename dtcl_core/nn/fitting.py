"""Fits a linear classifier of domains to a batch, at less than a loss costs: what `logistic` minimises, to a hundredth.

The optimum lies in the span of the examples, and most of it in that of the domains' means, which has one dimension a domain.
So the problem is solved there first, where a pass over the data is short. The gradient outside gives the next directions: one
a domain, in which the curvature is nearly the penalty's, so that one step along them takes most of what is left. Where that
step moves a posterior by several times `TOLERANCE` they join, and the problem is solved again; this takes one or two rounds.
Where it takes more (a small penalty, say), all directions are taken. Within a round it is limited-memory BFGS from the
curvature of each domain against the rest.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from .. import logistic

# A step that moves no posterior by more is the last one; what it leaves is a fraction of it, and moves temperatures by as much
# of tau_beta. Who asks for double precision gets it.
TOLERANCE = {torch.float32: 1e-2, torch.float64: 1e-9}
# Times the tolerance, that a step out of a round's directions may move: it leaves a tenth of what it moved.
LAST_ROUND = 3
ROUNDS, ITERATIONS, HISTORY = 4, 200, 3
SMALLEST = 1e-35  # of a posterior: smaller ones would be denormal, which are slow


class Fit(NamedTuple):
    """What is known at a point: weights [D, r + 1] (the last column is the bias), logits and posteriors [D, M], objective."""

    theta: Tensor
    logits: Tensor
    p: Tensor
    value: float


class _Objective:
    """The penalised negative log likelihood of weights [D, r + 1] of features [r, M]: `logistic`'s, classes first.

    Of the domains y [M] it knows the sums [D, r] of their features and the sizes [D].
    """

    def __init__(self, features: Tensor, y: Tensor, sums: Tensor, sizes: Tensor, l2: float):
        self.x = torch.cat([features, torch.ones_like(features[:1])])
        self.y = y[None]
        self.seen = torch.cat([sums, sizes[:, None]], 1)
        self.penalty = features.new_full((len(self.x),), l2)
        self.penalty[-1] = 0.0
        self.spread = self.x.square().sum(1)

    def start(self, bias: Tensor) -> Fit:
        """The point of these biases [D, 1] and no weight, which takes no pass over features that are centred."""
        theta = F.pad(bias, (self.seen.shape[1] - 1, 0))
        log_p = bias.log_softmax(0)
        p = log_p.exp().expand(-1, self.x.shape[1])
        return Fit(theta, bias.expand_as(p), p, -torch.dot(self.seen[:, -1], log_p[:, 0]).item())

    def at(self, theta: Tensor) -> Fit:
        logits = theta @ self.x
        p = logits.softmax(0).clamp_(min=SMALLEST)
        value = 0.5 * torch.dot((theta * self.penalty).flatten(), theta.flatten()) - p.gather(0, self.y).log_().sum()
        return Fit(theta, logits, p, value.item())

    def gradient(self, here: Fit) -> Tensor:
        """Of the objective, [D (r + 1)]."""
        slope = torch.addcmul(-self.seen, here.theta, self.penalty)
        if here.p.stride(1):
            return slope.addmm_(here.p, self.x.T).flatten()
        slope[:, -1] += here.p.sum(1)  # alike for all examples, as at the start: centred features sum to zero
        return slope.flatten()

    def scale(self, p: Tensor) -> Tensor:
        """Inverse curvature along each weight, [D (r + 1)]."""
        return torch.addcmul(self.penalty, curvature(p)[:, None], self.spread).reciprocal_().flatten()


def curvature(p: Tensor) -> Tensor:
    """Mean curvature [D] of the log likelihood in a domain's logit, from posteriors [D, M]."""
    count = len(p)
    total = p.sum(1).sub_(torch.linalg.vector_norm(p, dim=1).square_())
    return total.clamp_(min=1e-2 * p.shape[1] / count).mul_(count / (count - 1) / p.shape[1])


def minimise(objective: _Objective, here: Fit, tolerance: float) -> Fit:
    """Limited-memory BFGS until a step moves no posterior by more than tolerance; a step that does not lower is halved."""
    length, eps = 1.0, torch.finfo(here.p.dtype).eps
    scale, gradient = objective.scale(here.p), objective.gradient(here)
    pairs: list[tuple[Tensor, Tensor, float]] = []
    for _ in range(ITERATIONS):
        way, shares = gradient, []
        for step, bend, inverse in reversed(pairs):
            shares.append(inverse * torch.dot(step, way).item())
            way = torch.add(way, bend, alpha=-shares[-1])
        way = scale * way
        for (step, bend, inverse), share in zip(pairs, reversed(shares)):
            way = torch.add(way, step, alpha=share - inverse * torch.dot(bend, way).item())
        step = -length * way
        trial = objective.at(here.theta + step.view_as(here.theta))
        lower = trial.value <= here.value + 4 * eps * abs(here.value)
        if lower and (here.p - trial.p).abs_().max().item() <= tolerance * length:
            return trial
        slope = objective.gradient(trial)
        bend = slope - gradient
        bent = torch.dot(step, bend).item()
        if bent > 0:
            pairs = [*pairs[1 - HISTORY :], (step, bend, 1.0 / bent)]
        if lower:
            here, gradient, scale, length = trial, slope, objective.scale(trial.p), 1.0
        elif length < eps or not here.value < torch.inf:  # rounding decides, or nothing is finite
            break
        else:
            length /= 2
    return here


def basis_of(directions: Tensor) -> tuple[Tensor, Tensor]:
    """An orthonormal basis [r, k] of directions [r, k], and the triangle [r, r] that makes them of it.

    A direction that depends on those before it leaves a row of almost nothing.
    """
    products = directions @ directions.T
    diagonal = products.diagonal()
    diagonal += 1e-6 * diagonal.mean() + torch.finfo(products.dtype).tiny
    triangle, _ = torch.linalg.cholesky_ex(products)
    return torch.linalg.solve_triangular(triangle, directions, upper=False), triangle


def _solve(x: Tensor, y: Tensor, num_domains: int, l2: float) -> tuple[Tensor, Tensor]:
    """Weights [D, k] and biases [D] for examples x [M, k] of domains y [M]."""
    count, width = x.shape
    tolerance, sizes = TOLERANCE[x.dtype], torch.bincount(y, minlength=num_domains).to(x)
    bias = (sizes / count).clamp(min=0.5 / count).log()[:, None]
    if num_domains == 2:
        l2 = 2.0 * l2
    center = x.mean(0)
    x = x - center
    power = torch.dot(x.flatten(), x.flatten())
    if power > l2 * count:  # steps shrink slowly where the penalty decides less, so that a short one says less
        tolerance = tolerance / 5
    sums = x.new_zeros(num_domains, width).index_add_(0, y, x)
    if width <= 2 * num_domains:
        objective = _Objective(x.T, y, sums, sizes, l2)
        found = minimise(objective, objective.start(bias), tolerance)
        return found.theta[:, :-1], found.theta[:, -1] - found.theta[:, :-1] @ center
    means = sums / sizes.clamp(min=1).sqrt()[:, None]
    basis, _ = basis_of(means[:-1])  # with the sizes as weights they sum to zero
    features = basis @ x.T
    theta = None
    for _ in range(ROUNDS):
        objective = _Objective(features, y, sums @ basis.T, sizes, l2)
        found = minimise(objective, objective.start(bias) if theta is None else objective.at(theta), tolerance)
        outside = found.p @ x - sums
        for _ in range(2):  # once leaves what rounding leaves, which would grow by rounds
            outside = torch.addmm(outside, outside @ basis.T, basis, alpha=-1)
        left = (power - features.square().sum()).clamp(min=0) / max(1, min(count, width) - len(basis))
        pace = -1.0 / (l2 + curvature(found.p) * left)[:, None]
        shift = outside @ x.T
        moved = torch.addcmul(found.logits, pace, shift).softmax(0).sub_(found.p).abs_().max()
        weight, bias = found.theta[:, :-1] @ basis + pace * outside, found.theta[:, -1:]
        if not moved > LAST_ROUND * tolerance:
            break
        more, triangle = basis_of(outside[:-1])  # they sum to zero too
        basis = torch.cat([basis, more])
        features = torch.cat([features, torch.linalg.solve_triangular(triangle, shift[:-1], upper=False)])
        triangle = torch.cat([triangle, -triangle.sum(0, keepdim=True)])
        theta = torch.cat([found.theta[:, :-1], pace * triangle, bias], 1)
    else:
        objective = _Objective(x.T, y, sums, sizes, l2)
        found = minimise(objective, objective.at(torch.cat([weight, bias], 1)), tolerance)
        weight, bias = found.theta[:, :-1], found.theta[:, -1:]
    return weight, bias[:, 0] - weight @ center


@torch.no_grad()
def fit(x: Tensor, y: Tensor, num_domains: int, l2: float = 1.0) -> tuple[Tensor, Tensor]:
    """A linear classifier of the domains of each batch, whose posteriors are the optimum's to about `TOLERANCE`.

    Over 432 problems in float32 they were away by 0.013 at worst, and by less than 0.005 in nine of ten.

    Args:
        x: [..., M, k] features in float32 or float64; no gradient flows through the fit.
        y: int [..., M], less than num_domains; a negative number is an unknown domain, which does not count.
        num_domains: D, at least 2; domains may be missing from y.
        l2: penalty, > 0; scikit-learn's 1 / C.

    Returns:
        Weights [..., D, k] and biases [..., D], each summing to zero over domains; the biases, and so all
        posteriors, are NaN where x is not finite. On an accelerator, which would wait for each decision taken here, it is
        `logistic.fit` that finds them.
    """
    if x.device.type != "cpu":
        model = logistic.fit(x, y, num_domains, l2, solver="lbfgs")
        return model.weight.clone(), model.bias.clone()  # nothing that shares memory leaves a compiled graph
    y = y.long().expand(x.shape[:-1])
    weights, biases = [], []
    for rows, domains in zip(x.detach().reshape(-1, *x.shape[-2:]), y.reshape(-1, y.shape[-1])):
        known = domains >= 0
        rows, domains = (rows, domains) if bool(known.all()) else (rows[known], domains[known])
        if len(rows):
            weight, bias = _solve(rows, domains, num_domains, l2)
        else:
            weight, bias = x.new_zeros(num_domains, x.shape[-1]), x.new_zeros(num_domains)
        weights.append(weight - weight.mean(0))
        biases.append(bias - bias.mean())
    return (
        torch.stack(weights).view(*x.shape[:-2], num_domains, x.shape[-1]),
        torch.stack(biases).view(*x.shape[:-2], num_domains),
    )
