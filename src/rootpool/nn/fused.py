r"""The root of a covariance computed from the features directly, forward and backward.

With :math:`A = (X - \bar X)/\sqrt N = U\,\mathrm{diag}(s) V^T` (thin) the root is :math:`Q = W W^T`,
:math:`W = U \mathrm{diag}(\sqrt s) = A V \mathrm{diag}(s^{-1/2})`. When there are no more positions
than channels, V comes from the Gram matrix of the positions, and the d x d eigenproblem is never met.
The mean is a null vector of that matrix; a Householder reflection takes it out exactly and leaves
N - 1 positions. The backward needs W, ``K = diag(s^{-1/2}) V^T / sqrt(N)`` (centred) and s;
its derivation is in :mod:`rootpool.nn.spectral_roots`.

Squaring the features squares their condition, so the Gram matrix, its eigenproblem and the products that
end in a W or a K take twice the digits. Their columns are then right to the digits of the features, and
every other product, forward and backward, can be taken in those: W and K may be *kept* in the dtype of
the features. Because the range of float32 is small, they are kept in a unit of their own then, on which the
gradient does not depend: :math:`W / \rho`, :math:`\rho K` and :math:`s / \rho^2` with a power of two
:math:`\rho` (:func:`unit_of`), which the singular values, kept as they are, remember.

On CPUs a thread takes a few images at a time through all steps, so that what one step writes is still
in the cache for the next. The batch is cut by its shape alone, whatever the number of threads. On other
devices everything stays in the calling thread, and so on its current stream.


The method is passed as an object. Only the operators for tracers (``torch.compile``, ``torch.export``)
need it as text: the name under which it is registered, and its fields.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import numbers
from collections.abc import Callable

import torch
from torch import Tensor

from rootpool.linalg.checks import checks_enabled, first_index
from rootpool.linalg.decompose import eigh_forward, roundoff
from rootpool.linalg.parallel import run_pieces
from rootpool.linalg.precision import no_autocast
from rootpool.linalg.vectorize import triangle_size

from .registry import METHODS, is_registered
from .spectral_roots import SpectralRoot
from .triangle import pack_product, unpack_times

__all__ = [
    "allocate",
    "backward_op",
    "check_traceable",
    "cuts",
    "decoded",
    "encoded",
    "forward_op",
    "own_units",
    "root",
    "root_gradient",
    "unit_of",
]


# --------------------------------------------------------------------------------------------------
# A few images at a time


def unit_of(s: Tensor) -> Tensor:
    """A power of two near the root of the largest singular value, ``(b, 1)``."""
    if s.shape[1] == 0:  # one position
        return s.new_ones(len(s), 1)
    return torch.exp2((torch.frexp(s[:, -1:]).exponent / 2).floor().to(s.dtype))


def own_units(s: Tensor, W: Tensor) -> Tensor:
    """The singular values in the unit of W, and in its dtype."""
    return s if s.dtype == W.dtype else (s / unit_of(s).square()).to(W.dtype)


def _decompose(
    X: Tensor, dtype: torch.dtype, kept: torch.dtype, floor: float
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
    lam, V = eigh_forward(gram.div_(N), "triangle", "covariance_pool", None)
    keep = lam > roundoff(lam)
    if floor:
        keep &= lam * root_scale**4 > floor
    lam = torch.where(keep, lam, 0)
    s = lam.sqrt()
    inverse_root = torch.where(lam > 0, s, torch.inf).rsqrt_()
    singular = s * root_scale**2
    if kept != dtype:  # W and K in units of their own: Y stays as it is
        root_scale = 1 / unit_of(s)
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
    """``out <- W diag(shares) W^T + base I``, or its triangle."""
    if W.dtype != s.dtype:
        W, s = W * unit_of(s).to(W.dtype).unsqueeze(-1), s.to(W.dtype)
    base, share = method.base(s), method.shares(s)
    shifted = (
        isinstance(base, Tensor) or base != 0
    )  # a tensor is not looked at: it may be elsewhere
    left = W if share is None else W * share.unsqueeze(-2)
    d = W.shape[1]
    if out.dim() == 3:
        out.copy_(torch.bmm(left, W.mT))
        if shifted:
            out.diagonal(dim1=1, dim2=2).add_(base)
    else:
        pack_product(left, W, out)
        if shifted:
            out[:, _diagonal(d, out)] += base


def _diagonal(d: int, like: Tensor) -> Tensor:
    """Where the diagonal of a d x d matrix is in its triangle."""
    k = torch.arange(d, device=like.device)
    return k * d - k * (k - 1) // 2


def _gradients(
    method: SpectralRoot, g: Tensor, W: Tensor, K: Tensor, s: Tensor, parameters: int
) -> tuple[Tensor, Tensor]:
    """Gradients to the features ``(b, d, N)`` and, for each map, to the parameters ``(b, k)``."""
    s = own_units(s, W)
    T = torch.bmm((g + g.mT).to(W.dtype), W) if g.dim() == 3 else unpack_times(g, W)
    Z = torch.bmm(W.mT, T)
    by_map = s.new_empty(len(s), 0)
    if parameters:
        d = W.shape[1]
        diagonal = g.diagonal(dim1=1, dim2=2) if g.dim() == 3 else g[:, _diagonal(d, g)]
        by_map = method.parameter_gradients(s, Z, diagonal.to(s.dtype).sum(-1, keepdim=True))
    inner, columns = method.inner(s, Z)
    if columns is not None:
        T *= columns.unsqueeze(-2)
    return torch.bmm(T.baddbmm_(W, inner), K), by_map


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


def allocate(
    X: Tensor, dtype: torch.dtype, kept: torch.dtype, output: str, save: bool
) -> tuple[Tensor, ...]:
    """The result, and what the backward needs: W, K and the singular values."""
    B, d, N = X.shape
    r = N - 1 if d >= N else d
    out = X.new_empty(B, d, d) if output == "matrix" else X.new_empty(B, triangle_size(d))
    sizes = ((d, r), (r, N), (r,)) if save else ((0,), (0,), (0,))
    dtypes = (kept, kept, dtype)
    return out, *(X.new_empty(B, *z, dtype=t) for z, t in zip(sizes, dtypes, strict=True))


def root(
    X: Tensor,
    method: SpectralRoot,
    dtype: torch.dtype,
    kept: torch.dtype,
    output: str,
    save: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The roots of the covariances of features ``(B, C, N)``; if asked, W, K and singular values.

    Args:
        X: features.
        method: a spectral root.
        dtype: of the decomposition.
        kept: of W, K and the products with them; another one is for methods that are ``homogeneous`` and
            have no floor.
        output: ``"triangle"`` or ``"matrix"``.
        save: whether a gradient will be asked for.
    """
    X = X.detach()
    out, W, K, s = allocate(X, dtype, kept, output, save)

    def work(piece: slice) -> None:
        part = X[piece]
        _check_finite(part, piece.start)
        factors = _decompose(part, dtype, kept, method.gradient_floor(dtype))
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
    parameters: int = 0,
    suspects: list[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """For the gradient ``g`` of the roots: that of the features, and that of parameters by map ``(B, k)``.

    ``suspects`` gets the first item of every piece whose sum is not finite. The look is taken where the
    piece is in the cache: one pass over the whole afterwards would wake up the threads of torch again.
    """
    g, W, K, s = g.detach().contiguous(), W.detach(), K.detach(), s.detach()
    B, d, N = W.shape[0], W.shape[1], K.shape[2]
    gradient, by_map = g.new_empty(B, d, N), W.new_empty(B, parameters)

    def work(piece: slice) -> None:
        factors = (W[piece], K[piece], s[piece])
        gradient[piece], by_map[piece] = _gradients(method, g[piece], *factors, parameters)
        if suspects is not None and not math.isfinite(gradient[piece].sum().item()):
            suspects.append(piece.start)

    _run(work, g, d, N)
    return gradient, by_map


# --------------------------------------------------------------------------------------------------
# Operators for tracers


def encoded(method: SpectralRoot | str) -> str:
    """The registered name of a method and its fields, as text."""
    if isinstance(method, str):
        return method
    if not is_registered(method):
        raise TypeError(
            f"torch.compile and torch.export need the name of {method}, which METHODS does not have; "
            "decorate its class with rootpool.nn.register"
        )
    values = {
        field.name: _number(getattr(method, field.name)) for field in dataclasses.fields(method)
    }
    for value in values.values():
        if not (value is None or type(value) in (int, float, bool, str)):
            raise TypeError(
                f"torch.compile and torch.export need fields of numbers, booleans, text or None; "
                f"{method} has {value!r}"
            )
    fields = ", ".join(f"{name!r}: {_literal(value)}" for name, value in values.items())
    return f"{method.name!r}, {{{fields}}}"


def _number(value: object) -> object:
    """An integer of NumPy as Python's; anything else as it is."""
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return int(value) if is_integer else value  # type: ignore[call-overload]


def _literal(value: object) -> str:
    if isinstance(
        value, float
    ):  # not repr, which torch.compile cannot trace for numbers that change
        return "1e999" if value == math.inf else f"{value}"  # infinity has no literal of its own
    return repr(value)


def decoded(text: str) -> SpectralRoot:
    """The method that :func:`encoded` wrote."""
    name, values = ast.literal_eval(text)
    method = METHODS[name](**values)
    assert isinstance(method, SpectralRoot)
    return method


@torch.library.custom_op("rootpool::covariance_root", mutates_args=())
def forward_op(
    X: Tensor, method: str, dtype: torch.dtype, kept: torch.dtype, output: str, save: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """:func:`root` for tracers."""
    return root(X, decoded(method), dtype, kept, output, save)


@torch.library.custom_op("rootpool::covariance_root_backward", mutates_args=())
def backward_op(g: Tensor, W: Tensor, K: Tensor, s: Tensor, method: str) -> Tensor:
    """:func:`root_gradient` for tracers."""
    return root_gradient(g, W, K, s, decoded(method))[0]


@forward_op.register_fake
def _(
    X: Tensor, method: str, dtype: torch.dtype, kept: torch.dtype, output: str, save: bool
) -> tuple[Tensor, ...]:
    return allocate(X, dtype, kept, output, save)


@backward_op.register_fake
def _(g: Tensor, W: Tensor, K: Tensor, s: Tensor, method: str) -> Tensor:
    return g.new_empty(W.shape[0], W.shape[1], K.shape[2])


def check_traceable(method: SpectralRoot) -> None:
    """Raise if ``torch.compile`` or ``torch.export`` is at work and cannot take this method."""
    if torch.compiler.is_compiling():
        encoded(method)
