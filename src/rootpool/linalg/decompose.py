r"""The forward of every decomposition: LAPACK over a batch in parallel, with fallbacks if it fails.

Nothing here is differentiable. The two operators are opaque to tracers (``torch.compile``,
``torch.vmap``, ``torch.export``), which cannot look into a thread pool, and so may look at values:
all checks that depend on data live here.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from ._private import NOT_IN_CUDA_GRAPHS
from .checks import checks_enabled, first_index, is_concrete, is_finite, name_item, raise_not_finite
from .parallel import batchwise, with_batch
from .solvers import EIGH, JACOBI, SVD, Factors, Solver, is_tiny


def roundoff(values: Tensor) -> Tensor:
    """The level ``(..., 1)`` below which computed eigen- or singular values ``(..., n)`` are noise.

    ``2 sqrt(n) eps max|values|``: null eigenvalues of rank-deficient covariances came out at
    1.0 to 2.7 ``eps max`` for n = 8 ... 512, and at most a quarter of this level. Entries that are
    denormal numbers are rounded by half of the smallest one, which moves eigenvalues by n times that.
    """
    n, info = values.shape[-1], torch.finfo(values.dtype)
    if n == 0:
        return values.new_zeros(*values.shape[:-1], 1)
    level = 2 * math.sqrt(n) * info.eps * values.abs().amax(-1, keepdim=True)
    return level + n // 2 * (info.eps * info.tiny)


# --------------------------------------------------------------------------------------------------
# One driver for all solvers


def _solve_directly(solver: Solver, A: Tensor, checked: bool) -> Factors | None:
    try:
        factors = solver.run(A)
    except LinAlgError:
        return None
    seen = factors if A.device.type == "cpu" else (solver.reads(A), *factors)  # by one look
    return factors if not checked or is_finite(*seen) else None


def _solve_by_ladder(solver: Solver, A: Tensor, name: str, caller: str) -> Factors:
    """Decompose one matrix by the first of the other ways that works."""
    for attempt in solver.ladder(A):
        with contextlib.suppress(LinAlgError):
            factors = attempt()
            if is_finite(*factors):
                return factors
    raise LinAlgError(
        f"{caller}: {solver.name} did not converge on {name} of shape {tuple(A.shape)}, nor scaled, "
        "reordered or in float64 on the CPU; check how the matrix was made, or add a small multiple "
        "of the identity"
    )


def solve(solver: Solver, A: Tensor, caller: str) -> Factors:
    """Decompose a batch ``(..., m, n)``; raise for input that is not finite."""
    work = functools.partial(_solve, solver, caller)
    return batchwise(work, A, trailing=[2], least=solver.least_piece)


def _solve(solver: Solver, caller: str, A: Tensor) -> Factors:
    """Decompose a batch at once, and one with broken or difficult matrices item by item."""
    checked, on_cpu = checks_enabled(), A.device.type == "cpu"
    if checked and on_cpu:
        _check_finite(solver, A, caller)
    factors = _solve_directly(solver, A, checked)
    if factors is not None:
        return factors
    if checked and not on_cpu:  # where each look makes the host wait
        _check_finite(solver, A, caller)
    lead = A.shape[:-2]
    each = [
        _solve_directly(solver, A[k], checked)
        or _solve_by_ladder(solver, A[k], name_item(k), caller)
        for k in itertools.product(*map(range, lead))
    ]
    return tuple(with_batch(_stacked(items), lead) for items in zip(*each, strict=True))


def _check_finite(solver: Solver, A: Tensor, caller: str) -> None:
    """Raise for NaN and infinities that the solver reads."""
    if not is_finite(A) and (bad := ~solver.reads(A).isfinite().flatten(-2).all(-1)).any():
        raise_not_finite(caller, name_item(first_index(bad)))


def _stacked(items: tuple[Tensor, ...]) -> Tensor:
    """In the layout of LAPACK, column by column."""
    return torch.stack([f.mT for f in items]).mT if items[0].dim() == 2 else torch.stack(items)


def check_symmetric(A: Tensor, caller: str, eps: float, item: str = "A") -> None:
    """Raise unless ``A`` equals its conjugate transpose to rounding, of ``eps``."""
    # When a compiled function runs for the first time, torch calls operators in a mode in which lazily
    # conjugated views count as not conjugated.
    transposed = A.mH.resolve_conj() if A.is_complex() else A.mH
    if torch.equal(A, transposed):  # one pass, and often so
        return
    if A.dim() == 2 and not A.is_complex() and A.numel() > 0:
        # The difference is antisymmetric, so its maximum is its size; numbers take less time than operators.
        least, largest = (end.item() for end in torch.aminmax(A))
        # Infinity is not less than infinity, nor is NaN.
        if (A - transposed).amax().item() < 10 * A.shape[-1] * eps * max(-least, largest):
            return
    skew, excess = _asymmetry(A, transposed, eps)
    if not excess.amax().item() <= 0:  # NaN is not, either
        broken = ~A.isfinite().flatten(-2).all(-1)
        if broken.any():
            raise_not_finite(caller, name_item(first_index(broken), item))
        index = first_index(excess > 0)
        kind, other, letter = (
            ("Hermitian", "conjugate transpose", "H")
            if A.is_complex()
            else ("symmetric", "transpose", "T")
        )
        raise ValueError(
            f"{caller} expects {kind} matrices, but {name_item(index, item)} differs from its "
            f"{other} by {skew[index].item():.3g}; symmetrise with ({item} + {item}.m{letter}) / 2"
        )


def _asymmetry(A: Tensor, transposed: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The difference to the transpose, and by how much it is beyond that of symmetric matrices."""
    skew, size = (torch.linalg.vector_norm(M, torch.inf, (-2, -1)) for M in (A - transposed, A))
    # Sums that were rounded in another order differ by this much; more is another matrix.
    return skew, torch.sub(skew, size, alpha=10 * A.shape[-1] * eps)


def all_above_roundoff(values: Tensor) -> bool:
    """Whether all values are above the round-off of the largest of all: nothing else to look for."""
    if values.numel() == 0:
        return True
    n, info = values.shape[-1], torch.finfo(values.dtype)
    if values.dim() == 1:  # numbers of Python take less time than operators
        numbers = values.tolist()
        least, largest = min(numbers), max(numbers)
    else:
        least, largest = torch.stack(torch.aminmax(values)).tolist()
    return bool(least - 2 * math.sqrt(n) * info.eps * largest > n * info.tiny)


def _rounded(lam: Tensor, eps: float) -> tuple[Tensor, Tensor, float]:
    """Eigenvalues with exact zeros at the level of round-off, and that level; how much less digits A has."""
    level, wider = roundoff(lam), eps / torch.finfo(lam.dtype).eps
    null = lam.abs() <= level
    if wider > 1:  # the matrices came in half precision
        null |= (lam < 0) & (-lam <= level * wider)
    return lam.masked_fill(null, 0), level, wider


def _eigh_by_one_look(A: Tensor, domain: str, eps: float) -> Factors | None:
    """Eigenvalues and eigenvectors on an accelerator; None if that look finds anything wrong.

    Each look makes the host wait for all that the device still has to do. So everything that may be wrong is
    gathered into one number; only if something is, the caller looks at one thing after another.
    """
    try:
        lam, U = (JACOBI if is_tiny(A) else EIGH).run(A)
    except LinAlgError:
        return None
    wrong = [_asymmetry(A, A.mH, eps)[1].amax() > 0]
    if domain in ("nonnegative", "positive"):
        lam = _rounded(lam, eps)[0]
        wrong.append(lam.amin() < 0 if domain == "nonnegative" else lam.amin() <= 0)
    seen = [torch.where(w, torch.nan, 0.0) for w in wrong]
    return (lam, U) if is_finite(A, lam, U, *seen) else None


def _without_roundoff(lam: Tensor, domain: str, caller: str, eps: float) -> Tensor:
    """Eigenvalues at the level of round-off as exact zeros; raise where that is outside ``domain``."""
    if checks_enabled() and all_above_roundoff(lam):
        return lam
    rounded, level, wider = _rounded(lam, eps)
    if not checks_enabled() or lam.numel() == 0:
        return rounded
    least = rounded.amin().item()  # one look, whatever the domain
    if least < 0:
        index = first_index(rounded[..., 0] < 0)
        raise LinAlgError(
            f"{caller} expects positive semi-definite matrices, but {name_item(index)} has the "
            f"eigenvalue {lam[..., 0][index].item():.3g}, beyond the round-off of "
            f"{level[..., 0][index].item() * wider:.2g}; give eigenvalue_floor= to raise small "
            "eigenvalues"
        )
    if least == 0 and domain == "positive":
        index = first_index(rounded[..., 0] == 0)
        raise LinAlgError(
            f"{caller} expects positive definite matrices, but {name_item(index)} is singular to "
            f"working precision (smallest eigenvalue {lam[..., 0][index].item():.3g}, largest "
            f"{lam[..., -1][index].item():.3g}); give eigenvalue_floor=, or add a ridge"
        )
    return rounded


# --------------------------------------------------------------------------------------------------
# The operators


def _eigh(
    A: Tensor, domain: str, caller: str, solver_device: str, eps: float
) -> tuple[Tensor, Tensor]:
    """Eigenvalues (ascending) and eigenvectors of symmetric or Hermitian ``A`` ``(..., n, n)``.

    ``domain`` is ``"triangle"`` (read the lower triangle, whatever the rest), ``"any"`` (symmetric),
    ``"nonnegative"`` (eigenvalues at round-off level come back as exact zeros) or ``"positive"``.
    ``eps`` is the rounding unit of the dtype that the matrices came in, 0 for their own: what they
    lost before they were widened may make them asymmetric, and zero eigenvalues negative.
    """
    moved = A.to(solver_device) if solver_device else A
    eps = eps or torch.finfo(A.dtype).eps
    looks = domain != "triangle" and checks_enabled()
    found = None
    if looks and moved.device.type != "cpu" and moved.numel() > 0:
        found = _eigh_by_one_look(moved, domain, eps)
    if found is not None:
        lam, U = found
    else:
        if looks:
            check_symmetric(moved, caller, eps)
        lam, U = solve(JACOBI if is_tiny(moved) else EIGH, moved, caller)
        # Without checks, negative ones stay and become NaN.
        if domain == "nonnegative" or (domain == "positive" and checks_enabled()):
            lam = _without_roundoff(lam, domain, caller, eps)
    return (lam.to(A.device), U.to(A.device)) if solver_device else (lam, U)


def _svd(A: Tensor, full_matrices: bool, solver_device: str) -> tuple[Tensor, Tensor, Tensor]:
    """Singular value decomposition ``U, s, Vh`` of ``A`` ``(..., m, n)``."""
    moved = A.to(solver_device) if solver_device else A
    U, s, Vh = solve(SVD[full_matrices], moved, "svd")
    return U.to(A.device), s.to(A.device), Vh.to(A.device)


def without_derivative(operator: torch.library.CustomOpDef) -> None:
    """Let the backward of an operator name who wants one: a graph that was recorded for its values."""

    def refuse(ctx: object, *_: object) -> None:
        raise RuntimeError(
            "torch.jit.trace has recorded values without their derivatives, because its example needed no "
            "gradient; trace with inputs that require one, or use torch.export"
        )

    operator.register_autograd(refuse)


def _operator(
    name: str, function: Callable[..., Factors], fake: Callable[..., Factors]
) -> torch.library.CustomOpDef:
    operator = torch.library.custom_op(name, function, mutates_args=(), **NOT_IN_CUDA_GRAPHS)
    without_derivative(operator)
    operator.register_fake(fake)

    def vmap(info: object, in_dims: tuple[int, ...], A: Tensor, *rest: object) -> object:
        factors = operator(A.movedim(in_dims[0], 0), *rest)
        return factors, (0,) * len(factors)

    operator.register_vmap(vmap)
    return operator


_eigh_op = _operator("rootpool::eigh", _eigh, lambda A, *_: EIGH.run(A))
_svd_op = _operator("rootpool::svd", _svd, lambda A, full, _: SVD[full].run(A))


def eigh_forward(
    A: Tensor,
    domain: str,
    caller: str,
    solver_device: str | torch.device | None,
    eps: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """See :func:`_eigh`; the operator is only for tracers, since it costs 10 microseconds."""
    solve = _eigh if is_concrete(A) else _eigh_op
    lam, U = solve(A, domain, caller, str(solver_device or ""), eps)
    return lam, U


def svd_forward(
    A: Tensor, full_matrices: bool, solver_device: str | torch.device | None
) -> tuple[Tensor, Tensor, Tensor]:
    """See :func:`_svd`."""
    solve = _svd if is_concrete(A) else _svd_op
    U, s, Vh = solve(A, full_matrices, str(solver_device or ""))
    return U, s, Vh
