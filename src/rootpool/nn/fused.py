r"""The root of a covariance computed from the features directly: derivation, value and gradient.

**Value.** With :math:`A = (X - \bar X)/\sqrt N = U\,\mathrm{diag}(s) V^T` (thin) and :math:`P = A A^T`, the
root is :math:`Q = P^{1/2} = W W^T`, :math:`W = U \mathrm{diag}(\sqrt s) = A V \mathrm{diag}(s^{-1/2})`. When
there are no more positions than channels, V comes from the Gram matrix of the positions, and the d x d
eigenproblem is never met. The mean is a null vector of that matrix; a Householder reflection takes it out
exactly and leaves N - 1 positions. What follows needs W, ``K = diag(s^{-1/2}) V^T / sqrt(N)`` (centred) and s
alone.

**Gradient** (vjp). With coefficients :math:`L_{ij}` between two eigenvalues and :math:`l_i` between an
eigenvalue and the null space, for :math:`2S = G + G^T`,

.. math::
    \frac{\partial l}{\partial A} = \left[ U (L \circ M) + (I - U U^T)\, 2 S U \,\mathrm{diag}(l)
    \right] \mathrm{diag}(s) V^T, \qquad M = U^T (2 S) U .

In terms of W and :math:`Z = W^T (2S) W`:

.. math::
    \frac{\partial l}{\partial A} = \left[ 2 S W \mathrm{diag}(l s) + W \left( (L_{ij} - l_j)
    \tfrac{s_j}{s_i} Z_{ij} \right) \right] \mathrm{diag}(s^{-1/2}) V^T .

For the exact gradient :math:`L_{ij} = 1/(s_i + s_j)` and :math:`l_i = 1/s_i`, which leaves
:math:`2SW - W(Z_{ij}/(s_i + s_j))`: no gap and no singularity.

**Change** (jvp), the transpose of that map. With :math:`T = dX K^T` and the transpose :math:`\mathcal L^*` of
what a method puts between W and K (a matrix and a scale c of columns),

.. math:: dQ = M + M^T, \qquad M = T \mathrm{diag}(c) W^T + W \mathcal L^*(W^T T) W^T,

for the exact gradient :math:`dQ = T W^T + W T^T - W \left( \frac{(F + F^T)_{ij}}{s_i + s_j} \right) W^T`
with :math:`F = W^T T`.

**Second derivative** of the exact root. It follows from forms that are smooth where the rank of the centred
features X does not change, along changes that keep it: with f on positive eigenvalues alone,

.. math:: Q = \tfrac1N X (\tfrac1N X^T X)^{-1/2} X^T \quad (N \le d), \qquad
          Q = (\tfrac1N X X^T)^{1/2} \quad (N > d).

That is slower than the rest: it decomposes again, and uses the derivatives of matrix functions. Change and
second derivative are computed in :mod:`rootpool.nn.fused_derivatives`, value and gradient here.

**Precision.** Squaring the features squares their condition, so the Gram matrix, its eigenproblem and the
products that end in a W or a K take twice the digits. Their columns are then right to the digits of the
features, and every other product, forward and backward, can be taken in those: W and K may be *kept* in the
dtype of the features. Because the range of float32 is small, they are kept in a unit of their own then, on
which the gradient does not depend: :math:`W / \rho`, :math:`\rho K` and :math:`s / \rho^2` with a power of
two :math:`\rho` (:func:`_unit`), which the singular values, kept as they are, remember.

**Threads.** On CPUs a thread takes a few images at a time through all steps, so that what one step writes is
still in the cache for the next. The batch is cut by its shape alone, whatever the number of threads. On other
devices everything stays in the calling thread, and so on its current stream.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from rootpool.linalg._private import cuda_solves_in_turn
from rootpool.linalg.checks import checks_enabled, first_index
from rootpool.linalg.decompose import eigh_forward, roundoff
from rootpool.linalg.parallel import run_pieces
from rootpool.linalg.precision import no_autocast
from rootpool.linalg.solvers import power_of_two
from rootpool.linalg.vectorize import triangle_size

from .spectral_roots import SpectralRoot
from .triangle import pack_product, row_start, unpack_times

# --------------------------------------------------------------------------------------------------
# A few images at a time


def _unit(s: Tensor) -> Tensor:
    """A power of two near the root of the largest singular value, ``(b, 1)``."""
    if s.shape[1] == 0:  # one position
        return s.new_ones(len(s), 1)
    return power_of_two(s[:, -1:].sqrt())


def own_units(s: Tensor, W: Tensor) -> Tensor:
    """The singular values in the unit of W, and in its dtype."""
    return s if s.dtype == W.dtype else (s / _unit(s).square()).to(W.dtype)


def _decompose(
    X: Tensor, dtype: torch.dtype, kept: torch.dtype, floor: float, solver_device: str
) -> tuple[Tensor, Tensor, Tensor]:
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
    if not solver_device and cuda_solves_in_turn(X.device, gram.shape[-1]):
        solver_device = "cpu"  # all cores at once
    lam, V = eigh_forward(gram.div_(N), "triangle", "covariance_pool", solver_device)
    keep = lam > roundoff(lam)
    if floor:
        keep &= lam * root_scale**4 > floor
    lam = torch.where(keep, lam, 0)
    s = lam.sqrt()
    inverse_root = torch.where(lam > 0, s, torch.inf).rsqrt_()
    singular = s * root_scale**2
    if kept != dtype:  # W and K in units of their own: Y stays as it is
        root_scale = 1 / _unit(s)
    if thin:
        right = V * (inverse_root / root_scale / math.sqrt(N)).unsqueeze(-2)
        W = torch.bmm(Y, right)
        if isinstance(root_scale, Tensor):
            W *= root_scale.square().unsqueeze(-1)
        W = W.to(kept)
        # The reflection, transposed, on the right.
        K = right.new_empty(right.shape[0], N - 1, N, dtype=kept)
        total = right.sum(1)
        torch.sub(right.mT, (total * k).unsqueeze(-1), out=K[:, :, 1:])
        K[:, :, 0] = total * (k * (N - 1) - 1)
    else:
        W = (V * (s.sqrt() * root_scale).unsqueeze(-2)).to(kept)
        right = V * (inverse_root.square() * inverse_root / root_scale / N).unsqueeze(-2)
        K = torch.bmm(right.mT, Y).to(kept)
    return W, K, singular


def _normalise(Y: Tensor) -> Tensor | float:
    """Divide maps by powers of four near their largest entry, in place; return their roots, ``(b, 1)``.

    Squares of features then neither overflow nor vanish. Maps that are far from either are left alone,
    whatever the others are: a map does not depend on the rest of the batch.
    """
    if Y.numel() == 0:
        return 1.0
    # An infinity norm costs ten times more.
    size = torch.maximum(Y.amax((-2, -1)), -Y.amin((-2, -1)))
    largest = int(math.log2(torch.finfo(Y.dtype).max)) - 4
    exponent = torch.frexp(size).exponent.clamp(-largest, largest).unsqueeze(-1)
    extreme = exponent.abs() >= largest / 5
    if _on_cpu(Y):  # elsewhere a look at values would make the host wait
        if checks_enabled() and not math.isfinite(float(size.amax())):
            raise ValueError(
                f"covariance_pool: differences of features are beyond the range of {Y.dtype}; "
                "divide the features by a constant, or use compute_dtype=torch.float64"
            )
        if not extreme.any():
            return 1.0
    half = (exponent.to(Y.dtype) / 2).floor()
    root_scale = torch.exp2(torch.where(extreme, half, 0))
    Y /= root_scale.square().unsqueeze(-1)
    return root_scale


def _write_root(method: SpectralRoot, W: Tensor, s: Tensor, out: Tensor) -> None:
    r"""``out`` becomes :math:`W diag(weights) W^T + \sqrt{floor} I`, or its triangle."""
    if W.dtype != s.dtype:
        W, s = W * _unit(s).to(W.dtype).unsqueeze(-1), s.to(W.dtype)
    null, weights = math.sqrt(method.floor(s.dtype)), method.weights(s)
    left = W if weights is None else W * weights.unsqueeze(-2)
    d = W.shape[1]
    if out.dim() == 3:
        out.copy_(torch.bmm(left, W.mT))
        if null:
            out.diagonal(dim1=1, dim2=2).add_(null)
    else:
        pack_product(left, W, out)
        if null:
            out[:, row_start(torch.arange(d, device=out.device), d)] += null


def gradient(method: SpectralRoot, g: Tensor, W: Tensor, K: Tensor, s: Tensor) -> Tensor:
    """The gradient to some features, ``(b, d, N)``."""
    s = own_units(s, W)
    T = torch.bmm((g + g.mT).to(W.dtype), W) if g.dim() == 3 else unpack_times(g, W)
    Z = torch.bmm(W.mT, T)
    inner, columns = method.feature_gradient(s, Z)
    if columns is not None:
        T *= columns.unsqueeze(-2)
    return torch.bmm(T.baddbmm_(W, inner), K)


# --------------------------------------------------------------------------------------------------
# Whole batches


def _on_cpu(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu"


def _run(work: Callable[[slice], None], X: Tensor, d: int, N: int) -> None:
    """Call ``work`` on pieces of the batch of X: in worker threads on CPUs, else at once and here."""
    with no_autocast(X.device):
        if _on_cpu(X):
            run_pieces(work, cuts(len(X), d, N))
        else:  # another thread would have another current stream
            work(slice(0, len(X)))


def cuts(B: int, d: int, N: int) -> list[int]:
    """Some 8 MB of d x d float64 per piece, enough pieces to balance, enough work in each."""
    least = 1 if min(d, N) >= 96 else 8
    size = max(1, min(16, 2**20 // d**2, max(least, B // 16)))
    return [*range(0, B, size), B]


def _check_finite(X: Tensor, first: int) -> None:
    if checks_enabled() and not math.isfinite(X.sum().item()):  # the sum may just have overflowed
        bad = ~X.isfinite().flatten(1).all(1)
        if bad.any():
            raise ValueError(
                f"features[{first + first_index(bad)[0]}] has NaN or infinite entries: the features "
                "are broken, not the pooling; look at the layers before it and at the learning rate"
            )


@dataclass(frozen=True)
class Plan:
    """How to compute roots.

    Args:
        method: a spectral root, registered where ``torch.compile`` traces; it is text then.
        dtype: of the decomposition.
        kept: of W, K and the products with them; another one is for methods with ``low_precision_ok``.
        output: ``"triangle"`` or ``"matrix"``.
        solver_device: where to decompose; empty for a choice by device, size and version of torch.
    """

    method: SpectralRoot | str
    dtype: torch.dtype
    kept: torch.dtype
    output: str
    solver_device: str


def unfilled(X: Tensor, plan: Plan, save: bool) -> tuple[Tensor, ...]:
    """Memory for what :func:`root` returns."""
    B, d, N = X.shape
    r = N - 1 if d >= N else d
    out = X.new_empty(B, d, d) if plan.output == "matrix" else X.new_empty(B, triangle_size(d))
    sizes = ((d, r), (r, N), (r,)) if save else ((0,), (0,), (0,))
    dtypes = (plan.kept, plan.kept, plan.dtype)
    return out, *(X.new_empty(B, *z, dtype=t) for z, t in zip(sizes, dtypes, strict=True))


def root(X: Tensor, plan: Plan, save: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The roots of the covariances of features ``(B, C, N)``; W, K and s to ``save`` for a gradient."""
    method, dtype = plan.method, plan.dtype
    assert isinstance(method, SpectralRoot)
    X = X.detach()
    out, W, K, s = unfilled(X, plan, save)
    # Elsewhere a look makes the host wait, and the decomposition refuses what broken features have made of
    # the Gram matrix; of one position, that matrix is empty.
    looks_first = _on_cpu(X) or X.shape[2] == 1

    def work(piece: slice) -> None:
        part = X[piece]
        if looks_first:
            _check_finite(part, piece.start)
        try:
            floor = method.gradient_floor(dtype)
            factors = _decompose(part, dtype, plan.kept, floor, plan.solver_device)
        except (ValueError, LinAlgError):
            _check_finite(part, piece.start)  # whose error is about the features
            raise
        _write_root(method, factors[0], factors[2], out[piece])
        if save:
            for target, factor in zip((W, K, s), factors, strict=True):
                target[piece] = factor

    _run(work, X, X.shape[1], X.shape[2])
    return out, W, K, s


def root_gradient(
    g: Tensor,
    W: Tensor,
    K: Tensor,
    s: Tensor,
    method: SpectralRoot,
    suspects: list[int] | None = None,
) -> Tensor:
    """The gradient of the features for the gradient ``g`` of the roots.

    ``suspects`` gets the first item of every piece whose sum is not finite. The look is taken where the
    piece is in the cache: one pass over the whole afterwards would wake up the threads of torch again.
    """
    g, W, K, s = g.detach().contiguous(), W.detach(), K.detach(), s.detach()
    B, d, N = W.shape[0], W.shape[1], K.shape[2]
    whole = g.new_empty(B, d, N)

    def work(piece: slice) -> None:
        whole[piece] = gradient(method, g[piece], W[piece], K[piece], s[piece])
        if suspects is not None and not math.isfinite(whole[piece].sum().item()):
            suspects.append(piece.start)

    _run(work, g, d, N)
    return whole
