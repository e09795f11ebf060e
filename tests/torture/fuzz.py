"""Random compositions of our functions under random transformations, against finite differences in float64.

``python -m torture.fuzz --seed 7 --minutes 60`` goes on for that long; ``--case 123`` repeats one case of it
alone. A case is a chain of functions, a matrix with a random spectrum, and two ways to differentiate.
"""

from __future__ import annotations

import argparse
import functools
import itertools
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

from matrices import tangent
from rootpool.linalg import Minimax, newton_schulz, powm
from rootpool.nn import GroupWhitening
from transformations import FUNCTIONS, ONCE, difference, matrix, of_maps, pooling
from transformations import _gradient as backward
from transformations import _inner as inner

Function = Callable[[Tensor], Tensor]
ROWS = {
    **FUNCTIONS,
    "powm(A, -1.7)": matrix(lambda A: powm(A, -1.7)),
    "inverse root by Minimax()": matrix(lambda A: newton_schulz(A, Minimax()).inverse_root),
    "covariance_pool('power')": pooling("power"),
    "covariance_pool('newton-fused')": pooling("newton-fused", gradgrad=ONCE),
    "covariance_pool('seb')": pooling("seb", gradgrad=ONCE),
    "whitening": of_maps(GroupWhitening(3, 3, 0.1)),
}
# These have derivatives where eigenvalues, or singular values, differ.
SIMPLE = (
    *("eig", "svd", "leading_", "principal_", "null_", "low_rank", "rotation", "canonical_"),
    *("sqrtm(keep", "sqrtm(rule", "singular_value_", "align", "clip_", "topk_"),
)


def eye(A: Tensor) -> Tensor:
    return torch.eye(A.shape[-1], dtype=A.dtype)


@functools.cache
def _constants(shape: tuple[int, ...], n: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n)
    sizes = ((*shape[:-1], n), (n, shape[-1]), shape)
    left, right, shift = (
        torch.randn(*size, generator=generator, dtype=torch.float64) for size in sizes
    )
    return left, right, shift


SHAPES = {name: tuple(row.sample().shape) for name, row in ROWS.items()}
for _shape in SHAPES.values():  # before anything else: torch.vmap allows no random numbers
    for _n in (3, 4, 5):
        _constants(_shape, _n)


def applied(name: str, A: Tensor) -> Tensor:
    """A function of the table, from a definite matrix ``(n, n)`` to a semi-definite one."""
    row, shape = ROWS[name], SHAPES[name]
    if row.symmetric:
        F = row.call(A if len(shape) == 2 else torch.stack([A, A * A.mT + eye(A)]))
    else:
        left, right, shift = (C.to(A.dtype) for C in _constants(shape, A.shape[-1]))
        F = row.call(left @ A @ right + 0.3 * shift)
    if F.shape == A.shape:
        return (F + eye(F)) @ (F + eye(F)).mH
    return A * (1 + weighted(F).square())


def weighted(F: Tensor) -> Tensor:
    F = torch.view_as_real(F) if F.is_complex() else F
    return (torch.linspace(-1, 1, F.numel(), dtype=F.dtype).reshape(F.shape).sin() * F).sum()


@dataclass(frozen=True)
class Case:
    chain: tuple[str, ...]
    n: int
    spectrum: str
    dtype: torch.dtype
    first: str
    second: str | None
    around: str = ""

    def __str__(self) -> str:
        return (
            f"{' -> '.join(self.chain)}, n={self.n}, {self.spectrum}, {self.dtype}, {self.first}"
            f"{f', then {self.second}' if self.second else ''}{self.around}"
        )


def draw(generator: random.Random) -> Case:
    spectrum = generator.choice(["apart", "apart", "close", "tied", "graded"])
    second = generator.choice([None, *SECOND])
    dtype = torch.complex128 if generator.random() < 0.25 else torch.float64
    barred = ("complex",) * dtype.is_complex + ("gradgrad",) * (second is not None)
    smooth = spectrum in ("tied", "close")
    names = [name for name, row in ROWS.items() if not any(map(row.refusal, barred))]
    names = [name for name in names if not (smooth and name.startswith(SIMPLE))]
    chain = [generator.choice(names) for _ in range(generator.choice([1, 1, 2, 3]))]
    n = generator.choice([3, 4, 5])
    first, around = (generator.choice(list(table)) for table in (FIRST, AROUND))
    return Case(tuple(chain), n, spectrum, dtype, first, second, around)


def drawn(case: Case, seed: int) -> Tensor:
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
    def loss(A: Tensor) -> Tensor:
        A = (A + A.mH) / 2
        for name in case.chain:
            F = applied(name, A)
            F = (F + F.mH) / 2
            # Back to a definite matrix of moderate size, for the next one.
            trace = F.diagonal(dim1=-2, dim2=-1).sum(-1)
            trace = trace.real if trace.is_complex() else trace
            A = F / (1 + trace.square()).sqrt() + 0.3 * eye(F)
        F = torch.view_as_real(A) if A.is_complex() else A
        return weighted(F) + F.sin().square().sum()

    return loss


# --------------------------------------------------------------------------------------------------
# Ways to the derivative along V, and to the one of that along W


def jvp(f: Function, A: Tensor, V: Tensor) -> Tensor:
    return torch.func.jvp(f, (A,), (V,))[1]


def reentrant(f: Function, A: Tensor) -> Tensor:
    A = A.detach().requires_grad_()
    checkpoint(f, A, use_reentrant=True).backward()
    return A.grad


# A function, as it is or by way of a batch.
AROUND: dict[str, Callable[[Function], Function]] = {
    "": lambda f: f,
    " of vmap": lambda f: lambda A: torch.vmap(f)(two(A))[0],
    " of vmap over columns": lambda f: lambda A: torch.vmap(f, in_dims=1)(two(A).movedim(0, 1))[0],
}


def two(A: Tensor) -> Tensor:
    return torch.stack([A, A + 0.1 * torch.eye(A.shape[-1], dtype=A.dtype)])


FIRST: dict[str, Callable[[Function, Tensor, Tensor], Tensor]] = {
    "backward": lambda f, A, V: inner(backward(f, A), V),
    "func.grad": lambda f, A, V: inner(torch.func.grad(f)(A), V),
    "jvp": jvp,
    "forward_ad": tangent,
    "checkpoint": lambda f, A, V: inner(
        backward(lambda A: checkpoint(f, A, use_reentrant=False), A), V
    ),
    "reentrant checkpoint": lambda f, A, V: inner(reentrant(f, A), V),
    "vmap of grad": lambda f, A, V: inner(torch.vmap(torch.func.grad(f))(two(A))[0], V),
    "vmap of jvp": lambda f, A, V: torch.vmap(lambda A: jvp(f, A, V))(two(A))[0],
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
    "forward over reverse": lambda f, A, V, W: inner(jvp(torch.func.grad(f), A, W), V),
    "reverse over forward": lambda f, A, V, W: inner(torch.func.grad(lambda A: jvp(f, A, V))(A), W),
    "backward over forward_ad": lambda f, A, V, W: inner(
        backward(lambda A: tangent(f, A, V), A), W
    ),
    "forward over forward": lambda f, A, V, W: jvp(lambda A: jvp(f, A, V), A, W),
    "grad of grad": lambda f, A, V, W: inner(
        torch.func.grad(lambda A: inner(torch.func.grad(f)(A), V))(A), W
    ),
    "vmap of forward over reverse": lambda f, A, V, W: inner(
        torch.vmap(lambda W: jvp(torch.func.grad(f), A, W))(torch.stack([W, V]))[0], V
    ),
}


STEPS = (1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6)


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
    A, loss = drawn(case, number), loss_of(case)
    V, W = (_numbers(case, generator, case.n, case.n) for _ in range(2))
    V, W = ((M + M.mH) / 2 * A.diagonal().real.amin() for M in (V, W))  # A stays definite
    if case.spectrum == "graded":
        V, W = V / V.norm() / 100, W / W.norm() / 100
    around = AROUND[case.around](loss)
    ways = [(FIRST[case.first], FIRST["backward"], (A, V), loss, V)]
    if case.second is not None:
        slope = lambda A: inner(backward(loss, A), V)  # noqa: E731
        ways.append((SECOND[case.second], double_backward, (A, V, W), slope, W))
    try:
        for way, plain, arguments, f, direction in ways:
            ending = compare(way(around, *arguments), f, A, direction)
            if ending != "right":
                # Where values cannot be read, NaN stands for an error, and nothing is warned of.
                with warnings.catch_warnings():
                    warnings.filterwarnings("error", module="rootpool", category=UserWarning)
                    plain(loss, *arguments)
                break
    except Exception as error:
        text = str(error).splitlines()[0][:160]
        known = ("has no second derivative", "second derivative of", "no derivative", "the loss ")
        refused = any(words in text for words in known)
        return case, "refused" if refused else f"{type(error).__name__}: {text}"
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
    end = time.monotonic() + 60 * options.minutes
    for k in itertools.count() if options.case is None else [options.case]:
        if options.case is None and time.monotonic() > end:
            break
        case, ending = examine(options.seed, k)
        endings[ending.split(":")[0]] += 1
        if ending not in ("right", "refused"):
            print(f"seed {options.seed}, case {k}: {case}\n    {ending}", flush=True)
    ended = ", ".join(f"{n} {e}" for e, n in endings.items())
    print(f"seed {options.seed}: {endings.total()} cases, {ended}")
    return 1 if set(endings) - {"right", "unsure", "refused"} else 0


if __name__ == "__main__":
    sys.exit(main())
