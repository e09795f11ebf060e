"""Normalisations and a regulariser published after the paper, as plain functions of covariances."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from rootpool.linalg import logm, powm
from rootpool.linalg.parameters import check_at_least, check_not_negative, check_positive
from rootpool.linalg.precision import product

from .covariance import flatten_positions
from .factors import cholesky, inverse_factor, with_ridge
from .method import Method


@dataclass(frozen=True)
class BoxCox(Method):
    r"""The family :math:`(P^\theta - I) / \theta` from the power to the logarithm (Chen et al. 2025).

    The exponent one half is the "Pow-TMLR" of Chen et al., Understanding matrix function normalizations in
    covariance pooling through the lens of Riemannian geometry, ICLR 2025; 0 is the logarithm. Rounding is
    divided by the exponent.

    A zero eigenvalue becomes :math:`-1/\theta` without a ridge: with fewer positions than channels, the
    smaller the exponent, the more such eigenvalues dominate. Below one half the gradient to the features
    grows without bound as an eigenvalue tends to zero; a ridge bounds it. The logarithm needs one.

    Args:
        exponent: :math:`\theta`, at least 0.
        ridge: added to the eigenvalues.

    >>> BoxCox()(torch.diag(torch.tensor([4.0, 0.0])))
    tensor([[ 2.,  0.],
            [ 0., -2.]])
    """

    name: ClassVar[str] = "box-cox"
    source: ClassVar[str] = "follow-up"
    use: ClassVar[str] = "to interpolate between power and logarithm"

    exponent: float = 0.5
    ridge: float = 0.0

    def __post_init__(self) -> None:
        for name in ("exponent", "ridge"):
            check_not_negative(f"BoxCox.{name}", getattr(self, name))
        if self.exponent == 0 and self.ridge == 0:
            raise ValueError(
                "BoxCox with the exponent 0 is the logarithm, which zero eigenvalues do not have; give a "
                "ridge, such as BoxCox(0, ridge=1e-3)"
            )

    def __call__(self, P: Tensor) -> Tensor:
        raised = with_ridge(P, self.ridge)
        if self.exponent == 0:
            return logm(raised)
        return with_ridge(powm(raised, self.exponent), -1) / self.exponent


@dataclass(frozen=True)
class BrownianDistance(Method):
    r"""Distances between channels, centred twice, instead of covariances (DeepBDC, Xie et al. 2022).

    .. math:: D_{ij} = \sqrt{ \tau\, \tfrac1N |x_i - x_j|^2 + \epsilon }, \qquad
        Q = H D H, \quad H = I - \tfrac1d 1 1^T .

    A function of the *second moment* :math:`M = X X^T / N`, so the mean of the features counts:
    :math:`\tfrac1N |x_i - x_j|^2 = M_{ii} + M_{jj} - 2 M_{ij}`. The paper's t is :math:`\log(\tau / N)`.

    Args:
        temperature: :math:`\tau`. One half is where the paper's learning starts.
        eps: bounds the gradient where two channels are equal: the derivative of a distance by its square is
            at most :math:`\tau / (2 \sqrt\epsilon)`. It is absolute, whatever the scale of the features.

    Reference: Xie et al., Joint distribution matters: deep Brownian distance covariance for few-shot
    classification, CVPR 2022.

    >>> second_moment = torch.diag(torch.tensor([9.0, 7.0]))  # the distance of the channels is 4
    >>> BrownianDistance(temperature=1.0, eps=1e-12)(second_moment)
    tensor([[-2.0000,  2.0000],
            [ 2.0000, -2.0000]])
    """

    name: ClassVar[str] = "brownian"
    source: ClassVar[str] = "follow-up"
    use: ClassVar[str] = "to compare images of unseen classes, as in few-shot classification"
    centred: ClassVar[bool] = False

    temperature: float = 0.5
    eps: float = 1e-5

    def __post_init__(self) -> None:
        check_positive("BrownianDistance.temperature", self.temperature)
        check_positive("BrownianDistance.eps", self.eps)

    def __call__(self, P: Tensor) -> Tensor:
        power = P.diagonal(dim1=-2, dim2=-1)
        distance = power.unsqueeze(-1) + power.unsqueeze(-2) - 2 * P
        scaled = self.temperature * distance.clamp_min(0)  # negative: rounding
        # Centring twice removes every constant, so this is as good as sqrt(scaled + eps), and small
        # distances do not drown in sqrt(eps).
        D = scaled / ((scaled + self.eps).sqrt() + math.sqrt(self.eps))
        rows = D - D.mean(-1, keepdim=True)
        return rows - rows.mean(-2, keepdim=True)


@dataclass(frozen=True)
class LogCholesky(Method):
    r"""The Cholesky factor of ``P + ridge * I`` with the logarithm of its diagonal (Chen et al. 2025).

    .. math:: Q = T + T^T, \qquad P + \mathrm{ridge}\, I = L L^T, \qquad
        T = \mathrm{tril}_{-1}(L) + \log \mathrm{diag}(L) .

    **It depends on the order of the channels**, as the factor does: permuted channels are not permuted
    results, and a channel is described by what those before it have left. A network can learn for one order;
    nothing else here depends on it.

    The ridge is absolute. Where it is lost in the rounding of the largest eigenvalue, a singular covariance
    has no factor, which is an error. Reference: Chen et al., Understanding matrix function normalizations in
    covariance pooling through the lens of Riemannian geometry ("Cho-TMLR"), ICLR 2025.

    >>> LogCholesky(ridge=1e-12)(torch.tensor([[1.0, 2.0], [2.0, 5.0]]))
    tensor([[0., 2.],
            [2., 0.]])
    """

    name: ClassVar[str] = "log-cholesky"
    source: ClassVar[str] = "follow-up"
    use: ClassVar[str] = (
        "to compare with it: a logarithm without eigenvalues; the order of channels matters"
    )

    ridge: float = 1e-6

    def __post_init__(self) -> None:
        check_positive("LogCholesky.ridge", self.ridge)

    def __call__(self, P: Tensor) -> Tensor:
        advice = "raise its ridge, or divide the features by a constant"
        L = cholesky(with_ridge(P, self.ridge), self.name, advice)
        T = L.tril(-1) + torch.diag_embed(L.diagonal(dim1=-2, dim2=-1).log())
        return (T + T.mT).to(P.dtype)


@dataclass(frozen=True)
class SparsePrecision(Method):
    r"""A sparse inverse covariance by proximal steps (iSICE, Rahman et al. 2023).

    With :math:`C = P / \mathrm{tr} P` and the inverse
    :math:`(M / \mathrm{tr} M + \mathrm{ridge}\, I)^{-1} / \mathrm{tr} M` of M, which exists for every
    covariance, :math:`\Theta` begins as the inverse of C. Each step moves the positive and the negative part
    of its entries,

    .. math::
        \Theta_\pm \leftarrow \max\left(
            \Theta_\pm - \eta_k (\pm (C - \Theta^{-1}) + \mathrm{sparsity}), 0 \right), \qquad
        \eta_k = \mathrm{step} \left( 1 - \tfrac{k}{K - 1} \right), \quad k = 0, \dots, K - 1 .

    The result is :math:`\Theta / \sqrt{\mathrm{tr}\, \Theta}`. It does not change with the scale of the
    features.

    Args:
        sparsity: how much each step takes from every entry.
        step: the length of the first step; the last one is 0 (if there are several), as published.
        iterations: K.
        ridge: relative to the trace. The authors' inverse is seven steps of Newton-Schulz of a matrix with
            a random ridge of 1e-9, drawn anew at evaluation, too; they raise a zero to :math:`(3/2)^{14}`.
            So does this ridge.

    Reference: Rahman et al., Learning partial correlation based deep visual representation for image
    classification, CVPR 2023.

    >>> P = torch.tensor([[2.0, 0.01], [0.01, 2.0]])  # nearly independent: the correlation vanishes
    >>> SparsePrecision(sparsity=0.02)(P)
    tensor([[0.9..., 0.0000],
            [0.0000, 0.9...]])
    """

    name: ClassVar[str] = "isice"
    source: ClassVar[str] = "follow-up"
    use: ClassVar[str] = "to describe channels by partial correlations, most of them zero"

    sparsity: float = 0.01
    step: float = 1.0
    iterations: int = 5
    ridge: float = 3.4e-3

    def __post_init__(self) -> None:
        check_at_least("SparsePrecision.iterations", self.iterations, 1)
        check_positive("SparsePrecision.step", self.step)
        check_positive("SparsePrecision.ridge", self.ridge)
        check_not_negative("SparsePrecision.sparsity", self.sparsity)

    def _inverse(self, M: Tensor, trace: Tensor) -> Tensor:
        advice = "shorten its step, or raise its ridge"
        W = inverse_factor(cholesky(with_ridge(M / trace, self.ridge), self.name, advice))
        return product(W.mT, W).to(M.dtype) / trace

    def __call__(self, P: Tensor) -> Tensor:
        C = P / _trace(P)
        theta = self._inverse(C, torch.ones_like(_trace(C)))
        for k in range(self.iterations):
            eta = self.step * (1 - k / max(self.iterations - 1, 1))
            if eta == 0:
                break  # nothing moves any more
            g = C - self._inverse(theta, _trace(theta))
            positive = (theta.relu() - eta * (g + self.sparsity)).relu()
            negative = ((-theta).relu() - eta * (self.sparsity - g)).relu()
            theta = positive - negative
            theta = (theta + theta.mT) / 2
        return theta / _trace(theta).sqrt()


def _trace(P: Tensor) -> Tensor:
    """The trace, ``(..., 1, 1)``; 1 for a zero matrix."""
    trace = P.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    return torch.where(trace == 0, 1, trace)


class AdaptiveChannelDropout(nn.Module):
    r"""Adaptive channel dropout (DropCov, Wang et al. 2022), for the features before a covariance.

    Weights of the channels come from their means by a convolution over neighbouring channels (ECA). The
    rate is high where they disagree with the row sums of the covariance, :math:`c = P 1`:

    .. math::
        y = \mathrm{softmax}(w * \bar x), \qquad X \leftarrow (1 + y)\, X, \qquad
        p = 1 - \frac{10}{\log_2 d}\; \mathrm{mean}_B \cos(y, c), \quad \text{within } [0, 1] .

    In training each channel of each map is dropped with the probability p above, and the others are divided
    by 1 - p. Evaluation drops nothing. The gain 1 + y is there in both; the authors' code has it in
    training only, so that evaluation sees other features than training.

    The rate is one number for a batch, without a gradient; with several processes each has its own. Masks
    come from torch's global generator: the same seed gives the same masks.

    Args:
        kernel_size: neighbouring channels that the convolution sees, an odd number.

    Shape:
        ``(B, C, H, W)`` or ``(B, C, N)``, to the same.

    Reference: Wang et al., DropCov: a simple yet effective method for improving deep architectures,
    NeurIPS 2022.

    >>> from rootpool.nn import CovariancePool
    >>> pool = CovariancePool(256, "covariance", channel_dropout=AdaptiveChannelDropout())
    >>> pool(torch.randn(2, 256, 7, 7)).shape
    torch.Size([2, 32896])
    """

    def __init__(self, kernel_size: int = 3) -> None:
        super().__init__()
        check_at_least("AdaptiveChannelDropout.kernel_size", kernel_size, 1)
        if kernel_size % 2 == 0:
            raise ValueError(
                f"AdaptiveChannelDropout.kernel_size must be odd, got {kernel_size!r}; the paper has 3"
            )
        self.convolution = nn.Conv1d(1, 1, int(kernel_size), padding="same", bias=False)

    def weights(self, features: Tensor) -> Tensor:
        """The weights of the channels, ``(B, C)``; they sum to 1."""
        means = flatten_positions(features, "AdaptiveChannelDropout").mean(-1)
        logits: Tensor = self.convolution(means.unsqueeze(1)).squeeze(1)
        return logits.softmax(-1)

    def forward(self, features: Tensor) -> Tensor:
        y = self.weights(features)
        kept = 1 + y
        if self.training:
            rate = drop_rate(features * _per_channel(kept, features), y)
            mask = torch.rand_like(y) >= rate
            kept = kept * mask / torch.where(rate < 1, 1 - rate, 1)
        return features * _per_channel(kept, features)


def _per_channel(values: Tensor, features: Tensor) -> Tensor:
    return values.reshape(*values.shape, *(1,) * (features.dim() - 2))


@torch.no_grad()
def drop_rate(features: Tensor, weights: Tensor) -> Tensor:
    """The probability to drop a channel, of features ``(B, C, ...)`` with weights ``(B, C)``; no dimensions.

    >>> drop_rate(torch.tensor([[[1.0, -1.0], [1.0, -1.0]]]), torch.tensor([[0.5, 0.5]]))
    tensor(0.)
    """
    X = features.flatten(2).to(torch.promote_types(features.dtype, torch.float32))
    if len(X) == 0:
        return weights.new_zeros(())
    # The cosine does not depend on the scale. In units of the largest entry squares do not overflow.
    largest = X.abs().amax((-2, -1), keepdim=True)
    X = X / torch.where(largest == 0, 1, largest)
    X = X - X.mean(-1, keepdim=True)
    row_sums = (X @ X.sum(-2).unsqueeze(-1)).squeeze(-1)  # of X X^T, which is never formed
    agreement = cosine_similarity(weights.to(X.dtype), row_sums, dim=-1).mean()
    d = max(X.shape[1], 2)
    return (1 - 10 / math.log2(d) * agreement).clamp(0, 1).to(weights.dtype)


CHANNEL_DROPOUTS: dict[str, type[nn.Module]] = {"adaptive": AdaptiveChannelDropout}
"""What may be applied to the features before a covariance, by the name that recipes and files have for it."""
