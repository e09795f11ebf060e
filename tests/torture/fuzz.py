"""Random compositions of our functions under random transformations, against finite differences in float64.

``python -m torture.fuzz --seed 7 --minutes 60`` goes on for that long; ``--case 123`` repeats one case of it
alone. A case is a chain of functions, a matrix with a random spectrum, and two ways to differentiate.
"""

from __future__ import annotations

import argparse
import functools
import math
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rootpool.linalg import (
    Minimax,
    bures_wasserstein,
    canonical_correlations,
    eigh,
    eigvalsh,
    expm,
    frechet_distance,
    inv_sqrtm,
    inverse_root,
    leading_projector,
    logm,
    newton_schulz,
    orthogonalize,
    polar,
    powm,
    principal_subspace,
    rotation,
    sqrtm,
    svd,
    svdvals,
)
from rootpool.nn import GroupWhitening, covariance_pool

Function = Callable[[Tensor], Tensor]


def eye(A: Tensor) -> Tensor:
    return torch.eye(A.shape[-1], dtype=A.dtype)


def general(A: Tensor, rows: int = 0) -> Tensor:
    """A general matrix ``(rows, n)`` that changes with A, always in the same way."""
    C, shift = _constants(rows or A.shape[-1], A.shape[-1])
    return C.to(A.dtype) @ A + 0.3 * shift.to(A.dtype)


@functools.cache
def _constants(rows: int, n: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n)
    C, shift = (torch.randn(rows, n, generator=generator, dtype=torch.float64) for _ in range(2))
    return C, shift


for _rows in range(3, 12):  # before anything else: torch.vmap allows no random numbers
    for _n in (3, 4, 5):
        _constants(_rows, _n)


def gram(M: Tensor) -> Tensor:
    return M @ M.mH


def pooled(method: str) -> Function:
    return lambda A: covariance_pool(
        general(A, A.shape[-1] + 3).mT.unsqueeze(0), method, output="matrix"
    )[0]


def whitened(A: Tensor) -> Tensor:
    n = A.shape[-1]
    X = GroupWhitening(n, n, 0.1)(general(A, n + 3).mT.unsqueeze(0))[0]
    return gram(X * torch.linspace(0.5, 2.0, n, dtype=A.dtype).unsqueeze(-1))


# From Hermitian positive definite matrices (n, n) to semi-definite ones. Functions of the matrix are smooth
# at ties; the others need eigenvalues or singular values that differ.
SMOOTH: dict[str, Function] = {
    "sqrtm": sqrtm,
    "inv_sqrtm": inv_sqrtm,
    "logm": lambda A: logm(A + 1.5 * eye(A)),
    "expm": lambda A: expm(A / 4),
    "inverse_root 3": lambda A: inverse_root(A, 3),
    "powm 0.3": lambda A: powm(A, 0.3),
    "powm -1.7": lambda A: powm(A, -1.7),
    "newton_schulz": lambda A: newton_schulz(A, 9).root,
    "minimax": lambda A: newton_schulz(A, Minimax()).inverse_root,
    "orthogonalize": lambda A: gram(orthogonalize(general(A)) + eye(A)),
    "orthogonalize, wide": lambda A: gram(A @ orthogonalize(general(A, A.shape[-1] + 2)).mH),
    "polar": lambda A: polar(general(A)).H,
    "bures_wasserstein": lambda A: A * (1 + bures_wasserstein(A, A * A.mT + eye(A))),
    "frechet_distance": lambda A: A * (1 + frechet_distance(general(A, 7), general(A.mT, 5))),
    "pool exact": pooled("exact"),
    "pool log": lambda A: gram(pooled("log")(A)),  # a logarithm is not definite
    "pool power": pooled("power"),
    "pool isqrt-cov": pooled("isqrt-cov"),
    "pool minimax": pooled("minimax"),
    "whitening": whitened,
}
SIMPLE: dict[str, Function] = {
    "eigvalsh": lambda A: A * eigvalsh(A).cos().sum().square(),
    "svdvals": lambda A: A * svdvals(general(A, A.shape[-1] + 1)).sin().sum().square(),
    "eigh": lambda A: gram(eigh(A).eigenvectors[..., 1:] * eigh(A).eigenvalues[..., 1:]),
    "svd": lambda A: gram(svd(general(A)).U[..., :-1]),
    "leading_projector": lambda A: leading_projector(A, 1),
    "principal_subspace": lambda A: gram(principal_subspace(general(A, 8), 2)),
    "correlations": lambda A: (
        A * canonical_correlations(general(A, 9), general(A.mT, 9), 0.1).sin().sum().square()
    ),
    "correlations, few": lambda A: (
        A * canonical_correlations(general(A, 3), general(A.mT, 3), 0.1).sin().sum().square()
    ),
}
ONCE: dict[str, Function] = {  # has no second derivative
    "powm tensor": lambda A: powm(A, torch.tensor(0.6, dtype=torch.float64)),
    "sqrtm floor": lambda A: sqrtm(A, eigenvalue_floor=0.7),
    "pool newton-fused": pooled("newton-fused"),
    "pool seb": pooled("seb"),
}
REAL = {name for name in SMOOTH if name.startswith(("pool", "whitening"))} | {"pool seb"}
REAL |= {"pool newton-fused", "rotation"}
SIMPLE["rotation"] = lambda A: gram(rotation(general(A)) + 2 * eye(A))


@dataclass(frozen=True)
class Case:
    chain: tuple[str, ...]
    n: int
    spectrum: str
    dtype: torch.dtype
    first: str
    second: str | None

    def __str__(self) -> str:
        return (
            f"{' -> '.join(self.chain)}, n={self.n}, {self.spectrum}, {self.dtype}, {self.first}"
            f"{f', then {self.second}' if self.second else ''}"
        )


def draw(generator: random.Random) -> Case:
    spectrum = generator.choice(["apart", "apart", "close", "tied", "graded"])
    second = generator.choice([None, *SECOND])
    functions = SMOOTH | ({} if spectrum in ("tied", "close") else SIMPLE)
    dtype = torch.complex128 if generator.random() < 0.25 else torch.float64
    names = [name for name in functions if not (dtype.is_complex and name in REAL)]
    chain = [generator.choice(names) for _ in range(generator.choice([1, 1, 2, 3]))]
    if second is None and not dtype.is_complex and generator.random() < 0.2:
        chain[0] = generator.choice(list(ONCE))
    n = generator.choice([3, 4, 5])
    return Case(tuple(chain), n, spectrum, dtype, generator.choice(list(FIRST)), second)


def matrix(case: Case, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    n = case.n
    lam = 0.5 + torch.rand(n, generator=generator, dtype=torch.float64).cumsum(0)
    if case.spectrum == "tied":
        lam[1] = lam[0]
    elif case.spectrum == "close":
        lam[1] = lam[0] * (1 + 10.0 ** -float(torch.randint(1, 15, (), generator=generator)))
    elif case.spectrum == "graded":
        lam = 10.0 ** -torch.arange(n, dtype=torch.float64).flip(0)
    Q = torch.linalg.qr(_numbers(case, generator, n, n)).Q
    A = (Q * lam) @ Q.mH
    return (A + A.mH) / 2


def _numbers(case: Case, generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=case.dtype)


def loss_of(case: Case) -> Function:
    functions = SMOOTH | SIMPLE | ONCE

    def loss(A: Tensor) -> Tensor:
        A = (A + A.mH) / 2
        for name in case.chain:
            F = functions[name](A)
            F = (F + F.mH) / 2
            # Back to a definite matrix of moderate size, for the next one.
            trace = F.diagonal(dim1=-2, dim2=-1).sum(-1)
            A = F / (1 + (trace.real if trace.is_complex() else trace).square()).sqrt() + 0.3 * eye(
                F
            )
        F = torch.view_as_real(A) if A.is_complex() else A
        weights = torch.linspace(-1, 1, F.numel(), dtype=F.dtype).reshape(F.shape).sin()
        return (weights * F).sum() + F.sin().square().sum()

    return loss


# --------------------------------------------------------------------------------------------------
# Ways to the derivative along V, and to the one of that along W


def inner(g: Tensor, V: Tensor) -> Tensor:
    product = (g.conj() * V).sum()
    return product.real if product.is_complex() else product


def backward(f: Function, A: Tensor) -> Tensor:
    A = A.detach().requires_grad_()
    return torch.autograd.grad(f(A), A)[0]


def forward_ad(f: Function, A: Tensor, V: Tensor) -> Tensor:
    with torch.autograd.forward_ad.dual_level():
        return torch.autograd.forward_ad.unpack_dual(
            f(torch.autograd.forward_ad.make_dual(A, V))
        ).tangent


def jvp(f: Function, A: Tensor, V: Tensor) -> Tensor:
    return torch.func.jvp(f, (A,), (V,))[1]


def reentrant(f: Function, A: Tensor) -> Tensor:
    A = A.detach().requires_grad_()
    checkpoint(f, A, use_reentrant=True).backward()
    return A.grad


def two(A: Tensor) -> Tensor:
    return torch.stack([A, A + 0.1 * torch.eye(A.shape[-1], dtype=A.dtype)])


FIRST: dict[str, Callable[[Function, Tensor, Tensor], Tensor]] = {
    "backward": lambda f, A, V: inner(backward(f, A), V),
    "func.grad": lambda f, A, V: inner(torch.func.grad(f)(A), V),
    "jvp": jvp,
    "forward_ad": forward_ad,
    "checkpoint": lambda f, A, V: inner(
        backward(lambda A: checkpoint(f, A, use_reentrant=False), A), V
    ),
    "reentrant checkpoint": lambda f, A, V: inner(reentrant(f, A), V),
    "vmap of grad": lambda f, A, V: inner(torch.vmap(torch.func.grad(f))(two(A))[0], V),
    "vmap of jvp": lambda f, A, V: torch.vmap(lambda A: jvp(f, A, V))(two(A))[0],
    "jvp of vmap": lambda f, A, V: jvp(lambda A: torch.vmap(f)(two(A))[0], A, V),
    "grad of vmap": lambda f, A, V: inner(
        torch.func.grad(lambda A: torch.vmap(f, in_dims=1)(two(A).movedim(0, 1))[0])(A), V
    ),
    "backward of vmap": lambda f, A, V: inner(backward(lambda A: torch.vmap(f)(two(A))[0], A), V),
}


def double_backward(f: Function, A: Tensor, V: Tensor, W: Tensor) -> Tensor:
    A = A.detach().requires_grad_()
    (g,) = torch.autograd.grad(f(A), A, create_graph=True)
    return inner(torch.autograd.grad(inner(g, V), A)[0], W)


SECOND: dict[str, Callable[[Function, Tensor, Tensor, Tensor], Tensor]] = {
    "double backward": double_backward,
    "double backward of a checkpoint": lambda f, A, V, W: double_backward(
        lambda A: checkpoint(f, A, use_reentrant=False), A, V, W
    ),
    "double backward of vmap": lambda f, A, V, W: double_backward(
        lambda A: torch.vmap(f)(two(A))[0], A, V, W
    ),
    "forward over reverse": lambda f, A, V, W: inner(jvp(torch.func.grad(f), A, W), V),
    "reverse over forward": lambda f, A, V, W: inner(torch.func.grad(lambda A: jvp(f, A, V))(A), W),
    "backward over forward_ad": lambda f, A, V, W: inner(backward(lambda A: jvp(f, A, V), A), W),
    "forward over forward": lambda f, A, V, W: jvp(lambda A: jvp(f, A, V), A, W),
    "grad of grad": lambda f, A, V, W: inner(
        torch.func.grad(lambda A: inner(torch.func.grad(f)(A), V))(A), W
    ),
    "vmap of forward over reverse": lambda f, A, V, W: inner(
        torch.vmap(lambda W: jvp(torch.func.grad(f), A, W))(torch.stack([W, V]))[0], V
    ),
    "forward over reverse of vmap": lambda f, A, V, W: inner(
        jvp(torch.func.grad(lambda A: torch.vmap(f)(two(A))[0]), A, W), V
    ),
    "forward over forward of vmap": lambda f, A, V, W: jvp(
        lambda A: jvp(lambda A: torch.vmap(f)(two(A))[0], A, V), A, W
    ),
}


STEPS = (1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6)


def difference(f: Callable[[Tensor], Tensor], A: Tensor, V: Tensor, h: float) -> Tensor:
    """Of the sixth order."""
    parts = [(1.5, 1), (-0.6, 2), (0.1, 3)]
    return sum(w * (f(A + k * h * V) - f(A - k * h * V)) / (2 * k * h) for w, k in parts)


def compare(got: Tensor, f: Callable[[Tensor], Tensor], A: Tensor, V: Tensor) -> str:
    """``right``, ``wrong: ...``, or ``unsure`` where differences of any two steps disagree."""
    doubt, finer = math.inf, difference(f, A, V, STEPS[0])
    for step in STEPS[1:]:
        if doubt < 1e-4:
            break
        coarser, finer = finer, difference(f, A, V, step)
        size = 1 + abs(float(finer))
        doubt, error = (abs(float(other - finer)) / size for other in (coarser, got))
    if doubt >= 1e-4:
        return f"unsure: {float(got):.12g} instead of {float(finer):.12g}"
    if error <= 1e-7 + 30 * doubt:
        return "right"
    return f"wrong: {float(got):.12g} instead of {float(finer):.12g} (differences to {doubt:.1g})"


def examine(seed: int, number: int) -> tuple[Case, str]:
    """Draw a case, and say how it ended."""
    case = draw(random.Random(f"{seed} {number}"))
    generator = torch.Generator().manual_seed(number)
    A, loss = matrix(case, number), loss_of(case)
    V, W = (_numbers(case, generator, case.n, case.n) for _ in range(2))
    V, W = ((M + M.mH) / 2 * A.diagonal().real.amin() for M in (V, W))  # A stays definite
    if case.spectrum == "graded":
        V, W = V / V.norm() / 100, W / W.norm() / 100
    ways = [(FIRST[case.first], FIRST["backward"], (loss, A, V), loss, V)]
    if case.second is not None:
        slope = lambda A: inner(backward(loss, A), V)  # noqa: E731
        ways.append((SECOND[case.second], double_backward, (loss, A, V, W), slope, W))
    try:
        for way, plain, arguments, f, direction in ways:
            ending = compare(way(*arguments), f, A, direction)
            if ending != "right":
                # Where values cannot be read, NaN stands for an error, and nothing is warned of.
                with warnings.catch_warnings():
                    warnings.filterwarnings("error", module="rootpool", category=UserWarning)
                    plain(*arguments)
                break
    except Exception as error:
        text = str(error).splitlines()[0][:160]
        known = ("has no second derivative", "second derivative of", "no derivative", "the loss ")
        return case, "refused" if any(
            k in text for k in known
        ) else f"{type(error).__name__}: {text}"
    return case, ending


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--case", type=int, help="this case of the seed alone")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # torch's own, of deprecations
    torch.set_num_threads(1)
    endings: Counter[str] = Counter()
    numbers = [options.case] if options.case is not None else None
    start, number = time.monotonic(), 0
    while numbers or (numbers is None and time.monotonic() - start < 60 * options.minutes):
        k = numbers.pop() if numbers else number
        case, ending = examine(options.seed, k)
        endings[ending.split(":")[0]] += 1
        if ending not in ("right", "refused"):
            print(f"seed {options.seed}, case {k}: {case}\n    {ending}", flush=True)
        number += 1
    print(
        f"seed {options.seed}: {number} cases, " + ", ".join(f"{n} {e}" for e, n in endings.items())
    )
    return 1 if set(endings) - {"right", "unsure", "refused"} else 0


if __name__ == "__main__":
    sys.exit(main())
