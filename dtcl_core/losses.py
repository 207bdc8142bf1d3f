"""The contrastive losses of the paper: one formula with a mask of positives, a mask of negatives and a temperature for each pair.

For anchor i with cosine similarities s_ij to its candidates, where the sum runs over positives and admitted negatives j::

    l_i = mean over positives p of  [ log sum_j e^{s_ij / tau_ij}  -  s_ip / tau ],     tau_ip = tau

With one positive this is Eq. 2 of the paper, -log e^{s_ii / tau} / (e^{s_ii / tau} + sum_{j != i} e^{s_ij / tau_ij}). With several it is
SupCon's L_out (Khosla et al. 2020). Equations are numbered as in arXiv 2601.07748: InfoNCE is Eq. 2, the temperature of a pair Eq. 3, the
objective Eq. 4. Leading dimensions are independent runs, as in `torch.linalg`: `[N, k]` embeddings give a scalar, `[R, N, k]` give `[R]`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def _check_views(z: Tensor, z_pos: Tensor, positive: Tensor | None) -> None:
    if positive is None and (z.shape != z_pos.shape or z.dim() < 2):
        raise ValueError(f"z and z_pos must share a shape [..., N, k], got {tuple(z.shape)} and {tuple(z_pos.shape)}.")
    if min(z.dim(), z_pos.dim()) < 2 or z.shape[-1] != z_pos.shape[-1]:
        raise ValueError(f"z must be [..., N, k] and z_pos [..., M, k], got {tuple(z.shape)} and {tuple(z_pos.shape)}.")


def _check_positive(name: str, value: float | Tensor) -> None:
    # Tensors are checked where they are set, by `config.Run` or `nn.settings`; reading them here would stall a GPU.
    if not isinstance(value, Tensor) and not value > 0:
        raise ValueError(f"{name} must be > 0, got {value!r}.")


def _check_pairs(n: int, m: int, **given: Tensor | None) -> None:
    for name, value in given.items():
        if value is not None and any(size not in (1, whole) for size, whole in zip(reversed(value.shape), (m, n))):
            raise ValueError(f"{name} must be [..., {n}, {m}], got {tuple(value.shape)}.")


def _per_run(value: float | Tensor, like: Tensor) -> Tensor:
    """A number or [...] tensor as [..., 1, 1], to broadcast against [..., N, N]."""
    return torch.as_tensor(value, dtype=like.dtype, device=like.device)[..., None, None]


def directions(z: Tensor) -> Tensor:
    """Embeddings z [..., N, k] scaled to unit length. One with all entries below 1e-12 in size becomes zero and gets no gradient.

    (`torch.nn.functional.normalize` gives it a gradient of 1e12, which ends training in half precision.)
    """
    none = z.abs().amax(-1, keepdim=True) < 1e-12
    length = z.masked_fill(none, 1.0).norm(dim=-1, keepdim=True)  # a length of zero has no second derivative
    return z / length.masked_fill(none, torch.inf).expand_as(z)


def cosine_similarity(z: Tensor, z_pos: Tensor) -> Tensor:
    """Cosines [..., N, M] of every anchor z [..., N, k] with every z_pos [..., M, k], in float32 or better.

    Half precision would change a cosine by up to 0.003, and at temperature 0.01 a logit by 0.3. TF32, if allowed, rounds alike.
    """
    with torch.autocast(z.device.type, enabled=False):
        z, z_pos = (t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in (z, z_pos))
        return directions(z) @ directions(z_pos).transpose(-1, -2)


def anchor_losses(
    similarity: Tensor,
    tau: float | Tensor,
    *,
    positive: Tensor | None = None,
    tau_neg: Tensor | None = None,
    admitted: Tensor | None = None,
    weight: Tensor | None = None,
    anchor_tau: Tensor | None = None,
) -> Tensor:
    """The loss of each anchor, by the formula at the top of this module.

    Args:
        similarity: [..., N, M] of N anchors with M candidates.
        tau, positive, tau_neg, admitted, weight, anchor_tau: see `info_nce`; nothing is checked here.

    Returns:
        [..., N] in nats. The loss is 0 for an anchor without a positive, or with one positive and no negative.
    """
    own = torch.eye(*similarity.shape[-2:], dtype=torch.bool, device=similarity.device) if positive is None else positive
    tau = _per_run(tau, similarity)
    # Similarities times tau / anchor_tau, divided by tau, are s / anchor_tau. The loss is then multiplied by anchor_tau / tau.
    if anchor_tau is not None:  # as if all had the one temperature
        each = anchor_losses(
            similarity * (tau / anchor_tau[..., None]),
            tau[..., 0, 0],
            positive=positive,
            tau_neg=tau_neg,
            admitted=admitted,
            weight=weight,
        )
        return each * (anchor_tau / tau[..., 0])
    logits = similarity / (tau if tau_neg is None else torch.where(own, tau, tau_neg))
    if weight is not None:
        logits = logits + torch.where(own, 0.0, weight.clamp(min=torch.finfo(weight.dtype).tiny).log())
    if positive is None:  # the same as below, for less
        if admitted is not None:
            logits = logits.masked_fill(~(admitted | own), -torch.inf)
        # `logsumexp` minus the diagonal would be 3 to 8 times slower on CPUs: MKL's exponential is slow, most of all for small numbers.
        return -torch.log_softmax(logits, -1).diagonal(dim1=-2, dim2=-1)
    count = positive.sum(-1)
    attracted = logits.masked_fill(~positive, 0.0).sum(-1) / count.clamp(min=1)
    if admitted is not None:  # an anchor without a positive keeps all its candidates: no gradient is undefined
        logits = logits.masked_fill(~(admitted | positive | (count == 0)[..., None]), -torch.inf)
    return torch.where(count > 0, torch.logsumexp(logits, -1) - attracted, 0.0)


def info_nce(
    z: Tensor,
    z_pos: Tensor,
    tau: float | Tensor,
    *,
    tau_neg: Tensor | None = None,
    admitted: Tensor | None = None,
    weight: Tensor | None = None,
    positive: Tensor | None = None,
    anchor_tau: Tensor | None = None,
) -> Tensor:
    """InfoNCE (Eq. 2); optionally each negative pair has its own temperature (Eq. 4), and positives and negatives are chosen.

    Args:
        z: [..., N, k] anchors.
        z_pos: [..., N, k] the other view: row i is the positive of anchor i, all other rows are its negatives. If `positive` is given,
            any candidates [..., M, k].
        tau: temperature of positive pairs, and of negatives unless `tau_neg` is given; > 0, a number or [...].
        tau_neg: [..., N, M] temperatures of the negative pairs, > 0; ignored where a pair is positive.
        admitted: [..., N, M] bool, the negatives that count; positives always count.
        weight: [..., N, M] factors >= 0 of the negatives' exponentials; ignored where a pair is positive.
        positive: [..., N, M] bool, the positives of each anchor; None means row i for anchor i. The loss is averaged over several
            positives (SupCon's L_out).
        anchor_tau: [..., N] temperatures of the anchors, > 0. Each replaces `tau` in the pairs of its anchor and multiplies `tau_neg`
            by anchor_tau / tau. The anchor's loss is multiplied by anchor_tau / tau too, so that its gradient does not grow as its
            temperature falls (Qiu et al. 2023).

    Returns:
        [...] mean over the anchors that have a positive, in nats.

    Raises:
        ValueError: if the shapes do not agree (`anchor_tau`'s is not checked), or a plain number for `tau` is not positive. Signs and
            types of tensors are not checked: `weight` must be a float tensor.

    >>> z = torch.eye(4)
    >>> info_nce(z, z, tau=1.0)  # three orthogonal negatives: log(1 + 3 / e)
    tensor(0.7437)
    """
    _check_views(z, z_pos, positive)
    _check_positive("tau", tau)
    _check_pairs(z.shape[-2], z_pos.shape[-2], tau_neg=tau_neg, admitted=admitted, weight=weight, positive=positive)
    similarity = cosine_similarity(z, z_pos)
    each = anchor_losses(
        similarity, tau, positive=positive, tau_neg=tau_neg, admitted=admitted, weight=weight, anchor_tau=anchor_tau
    )
    if positive is None:
        return each.mean(-1)
    return each.sum(-1) / positive.any(-1).expand(each.shape).sum(-1).clamp(min=1)


def same_domain(domains: Tensor, other: Tensor | None = None) -> Tensor:
    """[..., N, M] bool, whether domains [..., N] equal other [..., M] (None: `domains`); two unknown domains, -1, are equal."""
    other = domains if other is None else other
    return domains[..., :, None] == other[..., None, :]


def same_domain_info_nce(z: Tensor, z_pos: Tensor, domains: Tensor, tau: float | Tensor) -> Tensor:
    """InfoNCE [...], in nats, with negatives from the anchor's own domain only (the baseline "Same Domain Negatives").

    An anchor without a negative contributes 0 to the mean.

    Args:
        z, z_pos: [..., N, k] embeddings of the two views.
        domains: [..., N] domain of each example, all of them known: two examples with -1 would share a domain.
        tau: temperature, > 0, a number or [...].

    Raises:
        ValueError: see `info_nce`.
    """
    return info_nce(z, z_pos, tau, admitted=same_domain(domains))


def pair_temperature(
    w: Tensor, tau_alpha: float | Tensor, tau_beta: float | Tensor, tau_min: float | Tensor, num_domains: int
) -> Tensor:
    """Temperature of each pair, [..., N, M]: tau_ij = max(tau_alpha + tau_beta (1/N_D - w_ij), tau_min) (Eq. 3).

    Args:
        w: [..., N, M] probability that the examples of a pair share a domain, in [0, 1].
        tau_alpha: base temperature, > 0, a number or [...].
        tau_beta: strength of the effect of w, >= 0, a number or [...].
        tau_min: lower bound, > 0, a number, or a tensor that broadcasts against w: [R, 1, 1] for R runs.
        num_domains: N_D, the number of training domains, at least 1.

    Raises:
        ValueError: if a plain number is out of range.
    """
    _check_positive("tau_alpha", tau_alpha)
    _check_positive("tau_min", tau_min)
    if not isinstance(tau_beta, Tensor) and not tau_beta >= 0:
        raise ValueError(f"tau_beta must be >= 0, got {tau_beta!r}.")
    if not num_domains >= 1:
        raise ValueError(f"num_domains must be >= 1, got {num_domains!r}.")
    shift = 1.0 / num_domains - w
    return (_per_run(tau_alpha, w) + _per_run(tau_beta, w) * shift).clamp(min=tau_min)


def domain_weighted_info_nce(
    z: Tensor,
    z_pos: Tensor,
    w: Tensor,
    tau_alpha: float | Tensor,
    tau_beta: float | Tensor,
    tau_min: float,
    num_domains: int,
) -> Tensor:
    """The paper's loss (Eq. 4), [...] in nats: InfoNCE with tau_alpha for positives and `pair_temperature` for negatives.

    Args:
        z, z_pos: [..., N, k] embeddings of the two views.
        w: [..., N, N] probability that anchor i and negative j share a domain (`discriminator.same_domain_probability`).
        tau_alpha, tau_beta, tau_min, num_domains: see `pair_temperature`.

    Raises:
        ValueError: see `info_nce` and `pair_temperature`.
    """
    return info_nce(z, z_pos, tau_alpha, tau_neg=pair_temperature(w, tau_alpha, tau_beta, tau_min, num_domains))


class _KernelSum(torch.autograd.Function):
    """sum_ij a_i a_j sum_b exp(-|z_i - z_j|^2 / (2 b^2)) of z [..., N, k] and a [..., N]; only z gets a gradient.

    `forward` computes the gradient too, in two passes over [..., N, N] where autograd takes a dozen. If an exponent is 2^m times the one
    before, its kernel is the previous one squared m times, which is cheaper than an exponential. Second derivatives are left to autograd.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(z: Tensor, a: Tensor, bandwidths: Sequence[float]) -> tuple[Tensor, Tensor]:
        z = z - z.mean(-2, keepdim=True)  # distances stay, and lose fewer digits
        squared = z.square().sum(-1)
        distance = (2 * z @ z.transpose(-1, -2)).sub_(squared[..., :, None]).sub_(squared[..., None, :]).clamp_max_(0)
        kernel, slope = torch.zeros_like(distance), torch.zeros_like(distance)
        term, before = distance, 0.0
        for b in sorted(bandwidths, reverse=True):
            rate = 1 / (2.0 * b * b)
            doublings = math.log2(rate / before) if before else 0.5
            if doublings == int(doublings):
                for _ in range(int(doublings)):
                    term.mul_(term)
            else:
                term = torch.exp(distance * rate)
            kernel += term
            slope.add_(term, alpha=-rate)
            before = rate
        by_row = slope @ torch.cat([a[..., None], a[..., None] * z], -1)
        by_z = 4 * a[..., None] * (by_row[..., :1] * z - by_row[..., 1:])
        return torch.einsum("...i,...ij,...j->...", a, kernel, a), by_z

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Sequence[float]], output: tuple[Tensor, Tensor]) -> None:
        z, a, ctx.bandwidths = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(z, a, output[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        z, a, by_z = ctx.saved_tensors
        if torch.is_grad_enabled():  # the graph of this gradient is wanted
            difference = z[..., :, None, :] - z[..., None, :, :]
            squared = difference.square().sum(-1)
            rates = [1 / (2.0 * b * b) for b in ctx.bandwidths]
            slope = sum((-rate * torch.exp(-rate * squared) for rate in rates), torch.zeros_like(squared))
            by_z = 4 * torch.einsum("...i,...j,...ij,...ijk->...ik", a, a, slope, difference)
        return gradient[..., None, None] * by_z, None, None


def _check_bandwidths(bandwidths: Sequence[float]) -> None:
    if not len(bandwidths):
        raise ValueError("bandwidths must be one or more numbers, got none.")
    for bandwidth in bandwidths:
        _check_positive("each of bandwidths", bandwidth)


def _signed_kernel_sum(z: Tensor, a: Tensor, bandwidths: Sequence[float]) -> Tensor:
    """`_KernelSum` [...] of z [..., N, k] and a [..., N], after a check of the bandwidths."""
    _check_bandwidths(bandwidths)
    return _KernelSum.apply(z, a.to(z.dtype), tuple(bandwidths))[0]


def _kernels(z: Tensor, bandwidths: Sequence[float]) -> Tensor:
    """Kernels sum_b exp(-|z_i - z_j|^2 / (2 b^2)) of all pairs, [..., N, N]; z [..., N, k]."""
    _check_bandwidths(bandwidths)
    z = z - z.mean(-2, keepdim=True)
    squared = z.square().sum(-1)
    distance = (squared[..., :, None] + squared[..., None, :] - 2 * z @ z.transpose(-1, -2)).clamp(min=0)
    return torch.stack([torch.exp(distance * (-0.5 / (b * b))) for b in bandwidths]).sum(0)


def mmd(x: Tensor, y: Tensor, bandwidths: Sequence[float]) -> Tensor:
    """Squared maximum mean discrepancy [...] between two samples: the biased estimate, with a sum of Gaussian kernels.

    The estimate is ``mean k(x, x') + mean k(y, y') - 2 mean k(x, y)``, with ``k(u, v) = sum_b exp(-|u - v|^2 / (2 b^2))`` (Gretton et al.
    2012, Eq. 5; Li et al. 2018 use it as a penalty). Up to rounding it is at least 0.

    Args:
        x, y: [..., N, k] and [..., M, k], the two samples.
        bandwidths: standard deviations b of the kernels, > 0; one or more.

    Raises:
        ValueError: if there is no bandwidth, or one is not positive.
    """
    signs = torch.cat([x.new_full(x.shape[:-1], 1.0 / x.shape[-2]), y.new_full(y.shape[:-1], -1.0 / y.shape[-2])], -1)
    return _signed_kernel_sum(torch.cat([x, y], -2), signs, bandwidths)


def domain_mmd(z: Tensor, domains: Tensor, num_domains: int, bandwidths: Sequence[float], *, unbiased: bool = False) -> Tensor:
    """Mean of `mmd` [...] over the pairs of domains that both occur in the batch; 0 if there is no such pair.

    A negative number is an unknown domain; its examples do not count. Kernels are computed once; one product costs N^2 D for D domains.

    Args:
        z: [..., N, k] embeddings.
        domains: [..., N] domain of each in 0 ... num_domains - 1; an example with any other number does not count.
        num_domains: N_D, the number of domains.
        bandwidths: see `mmd`.
        unbiased: leave out each example's similarity with itself (Gretton et al. 2012, Eq. 3). The mean over batches then does not
            depend on how many examples a domain has. The estimate may be negative, and a domain needs two examples to count.

    Raises:
        ValueError: see `mmd`.
    """
    member = (domains.long()[..., None] == torch.arange(num_domains, device=z.device)).to(z.dtype)
    count = member.sum(-2, keepdim=True)
    present = (count > int(unbiased)).to(z.dtype)
    share = (member * present / count.clamp(min=1)).expand(*z.shape[:-1], num_domains)
    number = present[..., 0, :].sum(-1)
    if num_domains == 2 and not unbiased:
        return (number == 2).to(z.dtype) * _signed_kernel_sum(z, share[..., 0] - share[..., 1], bandwidths)
    means = share.transpose(-1, -2) @ _kernels(z, bandwidths) @ share  # of each pair of domains
    within = means.diagonal(dim1=-2, dim2=-1)
    between = means.sum((-1, -2)) - within.sum(-1)
    if unbiased:
        size = count[..., 0, :]
        within = present[..., 0, :] * (size * within - len(bandwidths)) / (size - 1).clamp(min=1)
    total = (number - 1) * within.sum(-1) - between
    return total / (number * (number - 1) / 2).clamp(min=1)


class _ReverseGradient(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, scale: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        if torch.is_grad_enabled():
            raise RuntimeError("a reversed gradient has no gradient: it takes no create_graph=True and no torch.func.grad.")
        (scale,) = ctx.saved_tensors
        return -scale[..., None, None] * gradient, None


def reverse_gradient(x: Tensor, scale: float | Tensor) -> Tensor:
    """The identity, with a gradient multiplied by -scale (Ganin et al. 2016); x [..., N, k], scale a number or [...].

    Its gradient has no gradient: `create_graph=True` and `torch.func.grad` raise a RuntimeError.
    """
    return _ReverseGradient.apply(x, torch.as_tensor(scale, dtype=x.dtype, device=x.device))


def annealed(progress: float | Tensor) -> float | Tensor:
    """Fraction of lambda that DANN uses once a fraction `progress` of training is done: 2 / (1 + e^(-10 progress)) - 1."""
    fallen = torch.exp(-10.0 * progress) if isinstance(progress, Tensor) else math.exp(-10.0 * progress)
    return 2.0 / (1.0 + fallen) - 1.0


def adversarial_loss(z: Tensor, domains: Tensor, weight: Tensor, bias: Tensor, scale: float | Tensor) -> Tensor:
    """DANN's term: mean cross entropy [...] of a linear domain classifier, in nats; its gradient is reversed before the encoder.

    Args:
        z: [..., N, k] embeddings.
        domains: [..., N] domain of each; a negative number is an unknown domain, and the example does not count.
        weight, bias: [..., D, k] and [..., D] of the classifier, which minimises this loss.
        scale: lambda, a number or [...]; the encoder maximises lambda times this loss.

    Its gradient has no gradient; see `reverse_gradient`.
    """
    logits = reverse_gradient(z, scale) @ weight.transpose(-1, -2) + bias[..., None, :]
    domains = domains.long()
    known = (domains >= 0).expand(z.shape[:-1])
    target = domains.clamp(min=0).expand(z.shape[:-1])[..., None]
    log_likelihood = logits.log_softmax(-1).gather(-1, target)[..., 0].masked_fill(~known, 0.0)
    return -log_likelihood.sum(-1) / known.sum(-1).clamp(min=1)
