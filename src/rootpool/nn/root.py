r"""The root of a covariance straight from the features, forward and backward.

With :math:`A = (X - \bar X)/\sqrt N = U\,\mathrm{diag}(s) V^T` (thin) the root is :math:`Q = W W^T`,
:math:`W = U \mathrm{diag}(\sqrt s) = A V \mathrm{diag}(s^{-1/2})`. When there are no more positions
than channels, V comes from the Gram matrix of the positions, and the d x d eigenproblem is never met.
The mean is a null vector of that matrix; a Householder reflection takes it out exactly and leaves
N - 1 positions. The backward needs W, ``K = diag(s^{-1/2}) V^T / sqrt(N)`` (centred) and s;
its derivation is in :mod:`rootpool.nn.spectral_roots`.

Everything for a few images at a time in one thread, so that what one step writes is still in the
cache for the next. The cut of the batch depends on the shape alone: the result is the same to the bit
for any number of threads.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch import Tensor

from rootpool.linalg.checks import first_index, is_plain
from rootpool.linalg.decompose import eigh_forward, roundoff
from rootpool.linalg.parallel import run_pieces
from rootpool.linalg.vectorize import triangle_size, triangle_weights

from .covariance import flatten_positions
from .methods import METHODS
from .spectral_roots import Exact, SpectralRoot
from .triangle import pack_product, unpack_times

__all__ = ["OUTPUTS", "check_options", "covariance_root"]

OUTPUTS = ("triangle", "isometric", "matrix")


# --------------------------------------------------------------------------------------------------
# A few images at a time


def _decompose(X: Tensor, dtype: torch.dtype, floor: float) -> tuple[Tensor, Tensor, Tensor]:
    """``W`` ``(b, d, r)``, ``K`` ``(b, r, N)`` and singular values ``(b, r)`` of some features.

    Those whose square is at round-off level or below ``floor`` come back as zeros, with zeros in W
    and K.
    """
    _, d, N = X.shape
    thin = d >= N
    if torch.finfo(X.dtype).eps < torch.finfo(dtype).eps:
        X = X - X[..., :1]  # while the features still have their digits
    # Differences to the first position: a constant map becomes exactly zero.
    Y = (X[..., 1:] if thin else X).to(dtype, copy=True, memory_format=torch.contiguous_format)
    Y -= X[..., :1].to(dtype)
    if thin:
        # Columns 2 ... N after the reflection that maps the constant vector to the first axis.
        k = 1 / (N + math.sqrt(N))
        Y -= Y.sum(-1, keepdim=True).mul_(k)
    else:
        Y -= Y.mean(-1, keepdim=True)
    root_scale = _normalise(Y)
    gram = torch.bmm(Y.mT, Y) if thin else torch.bmm(Y, Y.mT)
    lam, V = eigh_forward(gram.div_(N), "triangle", "covariance_root", None)
    keep = lam > roundoff(lam)
    if floor:
        keep &= lam * root_scale**4 > floor
    lam = torch.where(keep, lam, 0)
    s = lam.sqrt()
    inverse_root = torch.where(lam > 0, s, torch.inf).rsqrt_()
    if thin:
        right = V * (inverse_root / root_scale / math.sqrt(N)).unsqueeze(-2)
        W = torch.bmm(Y, right)
        if isinstance(root_scale, Tensor):
            W *= root_scale.square().unsqueeze(-1)
        K = right.new_empty(right.shape[0], N - 1, N)  # the reflection, transposed, on the right
        total = right.sum(1)
        torch.sub(right.mT, (total * k).unsqueeze(-1), out=K[:, :, 1:])
        K[:, :, 0] = total * (k * (N - 1) - 1)
    else:
        W = V * (s.sqrt() * root_scale).unsqueeze(-2)
        right = V * (inverse_root.square() * inverse_root / root_scale / N).unsqueeze(-2)
        K = torch.bmm(right.mT, Y)
    return W, K, s * root_scale**2


def _normalise(Y: Tensor) -> Tensor | float:
    """Divide maps by powers of four near their largest entry, in place; return their roots, ``(b, 1)``.

    Squares of features neither overflow nor vanish then. Maps far from either are left alone, whatever
    the others are: a map does not depend on its company.
    """
    if Y.numel() == 0:
        return 1.0
    # An infinity norm costs ten times more.
    size = torch.maximum(Y.amax((-2, -1)), -Y.amin((-2, -1)))
    largest = int(math.log2(torch.finfo(Y.dtype).max)) - 4
    exponent = torch.frexp(size).exponent.clamp(-largest, largest).unsqueeze(-1)
    extreme = exponent.abs() >= largest / 5
    if Y.device.type == "cpu":
        if not math.isfinite(float(size.amax())):
            raise ValueError(
                f"covariance_root: differences of features are beyond the range of {Y.dtype}; "
                "divide the features by a constant, or use compute_dtype=torch.float64"
            )
        if not extreme.any():
            return 1.0
    half = (exponent.to(Y.dtype) / 2).floor()
    root_scale = torch.exp2(torch.where(extreme, half, 0))
    Y /= root_scale.square().unsqueeze(-1)
    return root_scale


def _write_root(method: SpectralRoot, W: Tensor, s: Tensor, out: Tensor) -> None:
    """``out <- W diag(1 - f_0/s) W^T + f_0 I`` with the root ``f_0`` of the floor, or its triangle."""
    base = math.sqrt(method.floor(s.dtype))
    left = W
    if base or method.keep is not None:
        # Not 0 / s: torch multiplies with the reciprocal, which is infinite for denormal numbers.
        share = (1 - base / torch.where(s > 0, s, torch.inf)).clamp_min(0) if base else s.sign()
        if method.keep is not None:
            share[:, : max(0, share.shape[1] - method.keep)] = 0
        left = W * share.unsqueeze(-2)
    d = W.shape[1]
    if out.dim() == 3:
        out.copy_(torch.bmm(left, W.mT))
        if base:
            out.diagonal(dim1=1, dim2=2).add_(base)
    else:
        pack_product(left, W, out)
        if base:
            k = torch.arange(d, device=out.device)
            out[:, k * d - k * (k - 1) // 2] += base


def _feature_gradient(method: SpectralRoot, g: Tensor, W: Tensor, K: Tensor, s: Tensor) -> Tensor:
    T = torch.bmm((g + g.mT).to(W.dtype), W) if g.dim() == 3 else unpack_times(g, W)
    inner, columns = method.inner(s, torch.bmm(W.mT, T))
    if columns is not None:
        T *= columns.unsqueeze(-2)
    return torch.bmm(T.baddbmm_(W, inner), K)


# --------------------------------------------------------------------------------------------------
# Whole batches


def _cuts(B: int, d: int, N: int, device: torch.device) -> list[int]:
    """Some 8 MB of d x d float64 a piece, enough pieces to balance, enough work in each."""
    if device.type != "cpu":
        return [0, B]
    least = 1 if min(d, N) >= 96 else 8
    size = max(1, min(16, 2**20 // d**2, max(least, B // 16)))
    return [*range(0, B, size), B]


def _check_finite(X: Tensor, first: int) -> None:
    if not math.isfinite(X.sum().item()):  # one cheap pass; an overflow of the sum is looked into
        bad = ~X.isfinite().flatten(1).all(1)
        if bad.any():
            raise ValueError(
                f"features[{first + first_index(bad)[0]}] has NaN or infinite entries: the features "
                "are broken, not the pooling; look at the layers before it and at the learning rate"
            )


def _allocate(X: Tensor, dtype: torch.dtype, output: str, save: bool) -> tuple[Tensor, ...]:
    """The result, and what the backward needs: W, K and the singular values."""
    B, d, N = X.shape
    r = N - 1 if d >= N else d
    out = X.new_empty(B, d, d) if output == "matrix" else X.new_empty(B, triangle_size(d))
    sizes = ((d, r), (r, N), (r,)) if save else ((0,), (0,), (0,))
    return out, *(X.new_empty(B, *size, dtype=dtype) for size in sizes)


def _forward(
    X: Tensor, kind: str, parameters: list[float], dtype: torch.dtype, output: str, save: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    method, X = _method(kind, parameters), X.detach()
    out, W, K, s = _allocate(X, dtype, output, save)

    def work(piece: slice) -> None:
        part = X[piece]
        _check_finite(part, piece.start)
        factors = _decompose(part, dtype, method.gradient_floor(dtype))
        _write_root(method, factors[0], factors[2], out[piece])
        if save:
            for target, factor in zip((W, K, s), factors, strict=True):
                target[piece] = factor

    with torch.autocast(X.device.type, enabled=False):
        run_pieces(work, _cuts(X.shape[0], X.shape[1], X.shape[2], X.device))
    return out, W, K, s


def _backward(
    g: Tensor, W: Tensor, K: Tensor, s: Tensor, kind: str, parameters: list[float]
) -> Tensor:
    method, g = _method(kind, parameters), g.contiguous()
    B, d, N = W.shape[0], W.shape[1], K.shape[2]
    gradient = g.new_empty(B, d, N)

    def work(piece: slice) -> None:
        gradient[piece] = _feature_gradient(method, g[piece], W[piece], K[piece], s[piece])

    with torch.autocast(g.device.type, enabled=False):
        run_pieces(work, _cuts(B, d, N, g.device))
    return gradient


def _method(kind: str, parameters: list[float]) -> SpectralRoot:
    """Back from what an operator can take: the name and the numbers of a method."""
    fields = dataclasses.fields(METHODS[kind])
    # The annotations are strings; a whole number has come as a float.
    values = (
        int(p) if field.type == "int" else p for field, p in zip(fields, parameters, strict=True)
    )
    method = METHODS[kind](*values)
    assert isinstance(method, SpectralRoot)
    return method


_forward_op = torch.library.custom_op("rootpool::covariance_root", _forward, mutates_args=())
_backward_op = torch.library.custom_op(
    "rootpool::covariance_root_backward", _backward, mutates_args=()
)


@_forward_op.register_fake
def _(
    X: Tensor, kind: str, parameters: list[float], dtype: torch.dtype, output: str, save: bool
) -> tuple[Tensor, ...]:
    return _allocate(X, dtype, output, save)


@_backward_op.register_fake
def _(g: Tensor, W: Tensor, K: Tensor, s: Tensor, kind: str, parameters: list[float]) -> Tensor:
    return g.new_empty(W.shape[0], W.shape[1], K.shape[2])


class _CovarianceRoot(torch.autograd.Function):
    @staticmethod
    def forward(
        X: Tensor, kind: str, parameters: list[float], dtype: torch.dtype, output: str
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        forward = _forward if is_plain(X) else _forward_op
        out, W, K, s = forward(X, kind, parameters, dtype, output, True)
        return out, W, K, s

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        X, ctx.kind, ctx.parameters, *_ = inputs
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(X, *output[1:])

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if g is None:
            return None, None, None, None, None
        X, W, K, s = ctx.saved_tensors
        gradient = _FeatureGradient.apply(X, g, W, K, s, ctx.kind, ctx.parameters)
        return gradient, None, None, None, None


class _FeatureGradient(torch.autograd.Function):
    """The backward. ``X`` is there only so that a second derivative meets the refusal below."""

    @staticmethod
    def forward(
        X: Tensor, g: Tensor, W: Tensor, K: Tensor, s: Tensor, kind: str, parameters: list[float]
    ) -> Tensor:
        backward = _backward if is_plain(g) else _backward_op
        return backward(g, W, K, s, kind, parameters)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[None, ...]:
        raise RuntimeError(
            "covariance_root has no second derivative; rootpool.linalg.sqrtm(covariance(X)) has, "
            "where the covariance is not singular"
        )


def check_options(compute_dtype: torch.dtype, output: str) -> None:
    """Raise for a precision or a form of output that there is not."""
    if compute_dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"compute_dtype must be torch.float32 or torch.float64, got {compute_dtype}"
        )
    if output not in OUTPUTS:
        raise ValueError(f"output must be one of {', '.join(OUTPUTS)}, got {output!r}")


def covariance_root(
    features: Tensor,
    method: SpectralRoot | None = None,
    *,
    compute_dtype: torch.dtype = torch.float64,
    output: str = "triangle",
) -> Tensor:
    r"""Square root of the covariance of each feature map, with its gradient to the features.

    .. math:: Q = \left( \tfrac1N (X - \bar X)(X - \bar X)^T \right)^{1/2}

    The gradient of the default method has no singularity: zero, constant and rank-deficient maps,
    fewer positions than channels and repeated eigenvalues are ordinary. Once differentiable.

    Args:
        features: ``(B, C, H, W)`` or ``(B, C, N)``, any floating-point dtype.
        method: a root of ``METHODS`` that is computed by eigendecomposition; default :class:`Exact`.
        compute_dtype: float64, or float32 for half the time. Singular values below the square root of
            the precision (1e-7 or 1e-3 of the largest) count as zeros.
        output: ``"triangle"``, ``(B, C (C + 1) / 2)`` in row-major order; ``"isometric"``, the
            same with off-diagonal entries times the root of 2, so that inner products are those of the
            matrices; or ``"matrix"``.

    Returns:
        The roots in the dtype of the features. Root and gradient of a map have the same bits whatever
        else is in the batch and however many threads there are.

    >>> X = torch.tensor([[[1.0, 3.0], [2.0, 2.0]]])
    >>> covariance_root(X)
    tensor([[1., 0., 0.]])
    """
    X = flatten_positions(features, "covariance_root")
    method = Exact() if method is None else method
    check_options(compute_dtype, output)
    kind = next((name for name, kinds in METHODS.items() if kinds is type(method)), None)
    if kind is None or not isinstance(method, SpectralRoot):
        raise TypeError(f"covariance_root needs a root by eigendecomposition, got {method!r}")
    if output == "isometric":
        Q = covariance_root(X, method, compute_dtype=compute_dtype)
        return Q * triangle_weights(X.shape[1], dtype=Q.dtype, device=Q.device)
    parameters = [float(p) for p in dataclasses.astuple(method)]
    if is_plain(X) and not (X.requires_grad and torch.is_grad_enabled()):
        return _forward(X, kind, parameters, compute_dtype, output, False)[0]
    result: Tensor = _CovarianceRoot.apply(X, kind, parameters, compute_dtype, output)[0]
    return result
