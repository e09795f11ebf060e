r"""Dropout of channels whose rate follows the features: a regulariser in the place of a root (DropCov).

Weights of the channels come from their means by a convolution over neighbouring channels (ECA). The rate
is high where they disagree with the row sums of the covariance, :math:`c = P 1`:

.. math::
    y = \mathrm{softmax}(w * \bar x), \qquad X \leftarrow (1 + y)\, X, \qquad
    p = 1 - \frac{10}{\log_2 d}\; \mathrm{mean}_B \cos(y, c), \quad \text{within } [0, 1] .
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from rootpool.linalg.parameters import check_at_least

from .covariance import flatten_positions

__all__ = ["DROPS", "AdaptiveChannelDropout"]


class AdaptiveChannelDropout(nn.Module):
    r"""Adaptive channel dropout (DropCov, Wang et al. 2022), for the features before a covariance.

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
    >>> pool = CovariancePool(256, "covariance", drop=AdaptiveChannelDropout())
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
        self.convolution = nn.Conv1d(
            1, 1, int(kernel_size), padding=int(kernel_size) // 2, bias=False
        )

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


DROPS: dict[str, type[nn.Module]] = {"adaptive": AdaptiveChannelDropout}
"""What may be applied to the features before a covariance, by the name that recipes and files have for it."""
