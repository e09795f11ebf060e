"""A corpus of hard matrices and feature maps, each made from its kind, dtype and seed alone.

Sixteen consecutive seeds have one size and go through the library as one batch. Within it every item has
a scale of its own, a power of two from the smallest to the largest numbers of the dtype, so that items
of all scales meet in one call and the item without its scale is known exactly.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from matrices import symmetric

GROUP = 16
SIZES = (1, 2, 3, 5, 8, 13, 21, 34, 70)
SHAPES = ((1, 5), (4, 1), (5, 3), (6, 6), (4, 20), (40, 30))  # channels, positions
# Multiples of 6, so that square and cube roots of a scale are powers of two as well. The last is so
# low that entries are denormal numbers. Half of all items stay near 1.
EXPONENTS = {
    torch.float64: (0, -996, 0, 996, 0, -504, 0, 504, 0, 1020, 0, -60, 0, 60, 0, -1044),
    torch.float32: (0, -126, 0, 120, 0, -60, 0, 60, 0, 126, 0, -24, 0, 24, 0, -138),
}
DTYPES = tuple(EXPONENTS)
Make = Callable[..., Tensor]


def uniform(g: torch.Generator, *shape: int) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64, generator=g)


def normal(g: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=g)


def integer(g: torch.Generator, low: int, high: int) -> int:
    return int(torch.randint(low, high + 1, (), generator=g))


def small(g: torch.Generator, low: int, high: int) -> float:
    return 10.0 ** -integer(g, low, high)


def shuffled(x: Tensor, g: torch.Generator) -> Tensor:
    return x[torch.randperm(len(x), generator=g)]


def some(n: int, g: torch.Generator) -> Tensor:
    """Indices, of which half are repeated."""
    return torch.randint(max(1, n // 2), (n,), generator=g)


def falling(n: int, decades: int) -> Tensor:
    return 10 ** -torch.linspace(0, decades, n, dtype=torch.float64)


def all_but_one(n: int, others: float, first: float) -> Tensor:
    lam = torch.full((n,), others, dtype=torch.float64)
    lam[0] = first
    return lam


# --------------------------------------------------------------------------------------------------
# Matrices: from a spectrum in general position, and by name


def with_spectrum(spectrum: Callable[[int, torch.Generator], Tensor]) -> Make:
    def make(n: int, g: torch.Generator) -> Tensor:
        Q = torch.linalg.qr(normal(g, n, n))[0]
        return symmetric((Q * spectrum(n, g)) @ Q.mT)

    return make


def rank_deficient(n: int, g: torch.Generator) -> Tensor:
    lam = uniform(g, n) + 0.1
    lam[integer(g, 0, n) :] = 0
    return lam


def low_rank_plus_noise(n: int, g: torch.Generator) -> Tensor:
    return rank_deficient(n, g) + small(g, 5, 25)


def indices(n: int) -> Tensor:
    return torch.arange(1, n + 1, dtype=torch.float64)


def wilkinson(n: int) -> Tensor:
    """W+ (W21+ for n = 21): pairs of eigenvalues that agree to many digits."""
    off = torch.ones(n - 1, dtype=torch.float64)
    centre = (indices(n) - (n + 1) / 2).abs()
    return torch.diag(centre) + torch.diag(off, 1) + torch.diag(off, -1)


def glued_wilkinson(n: int, g: torch.Generator) -> Tensor:
    """Copies of W5+ joined by tiny entries: clusters that have defeated tridiagonal eigensolvers."""
    A = torch.zeros(n, n, dtype=torch.float64)
    glue = small(g, 4, 15)
    for k in range(0, n, 5):
        size = min(5, n - k)
        A[k : k + size, k : k + size] = wilkinson(size) + 2 * torch.eye(size)
        if k:
            A[k, k - 1] = A[k - 1, k] = glue
    return A


def kahan(n: int, g: torch.Generator) -> Tensor:
    """K^T K of Kahan's triangular matrix, whose small singular value no pivoting sees."""
    s = 0.5 + 0.49 * float(uniform(g, 1))
    K = torch.eye(n, dtype=torch.float64) - math.sqrt(1 - s * s) * torch.ones(n, n).double().triu(1)
    K = K * s ** (indices(n) - 1).unsqueeze(-1)
    return symmetric(K.mT @ K)  # on some CPUs products round differently on both sides


def swaps(n: int, g: torch.Generator) -> Tensor:
    """The identity with rows exchanged in pairs: symmetric, eigenvalues 1 and -1."""
    order = torch.randperm(n, generator=g)
    target = torch.arange(n)
    for a, b in zip(order[0::2].tolist(), order[1::2].tolist(), strict=False):
        target[a], target[b] = b, a
    return torch.eye(n, dtype=torch.float64)[target]


def integer_gram(n: int, g: torch.Generator) -> Tensor:
    B = torch.randint(-3, 4, (n, integer(g, 1, n + 1)), generator=g).double()
    return B @ B.mT


def of_dead_channels(n: int, g: torch.Generator) -> Tensor:
    """Covariances of rank 2 to 4, most channels dead: float32 ones have made LAPACK fail."""
    X = torch.zeros(n, 25, dtype=torch.float64)
    live = integer(g, 1, n)
    low_rank = normal(g, live, integer(g, 2, 4))
    X[torch.randperm(n, generator=g)[:live]] = (low_rank @ normal(g, low_rank.shape[1], 25)).relu()
    X = X - X.mean(1, keepdim=True)
    return symmetric(X @ X.mT)


def laplacian(n: int, g: torch.Generator) -> Tensor:
    """Of a path: singular with an exactly known null vector, eigenvalues pair up towards both ends."""
    off = torch.ones(n - 1, dtype=torch.float64)
    A = torch.diag(off, 1) + torch.diag(off, -1)
    return torch.diag(A.sum(1)) - A


def arrowhead(n: int, g: torch.Generator) -> Tensor:
    A = torch.diag(1 + uniform(g, n))
    A[0, 1:] = A[1:, 0] = small(g, 1, 18)
    return A


MATRICES: dict[str, Make] = {
    "separated": with_spectrum(lambda n, g: indices(n)),
    "random": with_spectrum(lambda n, g: uniform(g, n)),
    "graded": with_spectrum(lambda n, g: falling(n, integer(g, 1, 30))),
    "clustered": with_spectrum(
        lambda n, g: torch.randint(1, 4, (n,), generator=g) / 3 + small(g, 3, 16) * uniform(g, n)
    ),
    "repeated": with_spectrum(lambda n, g: torch.randint(1, 4, (n,), generator=g).double()),
    "rank 0 ... n": with_spectrum(rank_deficient),
    "low rank + noise": with_spectrum(low_rank_plus_noise),
    "one small": with_spectrum(lambda n, g: all_but_one(n, 1.0, small(g, 1, 20))),
    "one large": with_spectrum(lambda n, g: all_but_one(n, small(g, 1, 20), 1.0)),
    "indefinite": with_spectrum(lambda n, g: normal(g, n)),
    "zero": lambda n, g: torch.zeros(n, n, dtype=torch.float64),
    "identity": lambda n, g: torch.eye(n, dtype=torch.float64),
    "swaps": swaps,
    "permuted diagonal": lambda n, g: torch.diag(shuffled(indices(n).fmod(4), g)),
    "wide diagonal": lambda n, g: torch.diag(10 ** (-300 * uniform(g, n))),
    "integer Gram": integer_gram,
    "all ones": lambda n, g: torch.ones(n, n, dtype=torch.float64),
    "Hilbert": lambda n, g: 1 / (indices(n).unsqueeze(-1) + indices(n) - 1),
    "Kahan": kahan,
    "Wilkinson": lambda n, g: wilkinson(n),
    "glued Wilkinson": glued_wilkinson,
    "Brownian": lambda n, g: torch.minimum(indices(n).unsqueeze(-1), indices(n)),
    "correlated": lambda n, g: (
        (1 - small(g, 1, 12)) ** (indices(n).unsqueeze(-1) - indices(n)).abs()
    ),
    "Laplacian": laplacian,
    "arrowhead": arrowhead,
    "dead channels": of_dead_channels,
}


# --------------------------------------------------------------------------------------------------
# Feature maps, (d, N)


def spike(d: int, N: int, g: torch.Generator) -> Tensor:
    X = torch.zeros(d, N, dtype=torch.float64)
    X[integer(g, 0, d - 1), integer(g, 0, N - 1)] = 1
    return X


def low_rank(d: int, N: int, g: torch.Generator) -> Tensor:
    r = integer(g, 1, 3)
    return normal(g, d, r) @ normal(g, r, N)


def orthogonal_rows(d: int, N: int, g: torch.Generator) -> Tensor:
    """Centred rows, orthogonal and of one length where there is room: repeated eigenvalues."""
    first = torch.ones(N, 1, dtype=torch.float64)
    Q = torch.linalg.qr(torch.cat([first, normal(g, N, N - 1)], 1))[0][:, 1:]
    return torch.cat([Q, torch.zeros(N, d, dtype=torch.float64)], 1)[:, :d].mT


FEATURES: dict[str, Make] = {
    "Gaussian": lambda d, N, g: normal(g, d, N),
    "ReLU": lambda d, N, g: normal(g, d, N).relu(),
    "zero": lambda d, N, g: torch.zeros(d, N, dtype=torch.float64),
    "constant": lambda d, N, g: normal(g, d, 1).expand(d, N).clone(),
    "one-hot": lambda d, N, g: torch.eye(d).double()[:, torch.randint(d, (N,), generator=g)],
    "spike": spike,
    "dead channel": lambda d, N, g: (
        normal(g, d, N) * (torch.arange(d) != integer(g, 0, d - 1)).unsqueeze(-1)
    ),
    "duplicate channels": lambda d, N, g: normal(g, d, N)[some(d, g)],
    "duplicate positions": lambda d, N, g: normal(g, d, N)[:, some(N, g)],
    "low rank": low_rank,
    "orthogonal rows": orthogonal_rows,
    "graded channels": lambda d, N, g: (
        normal(g, d, N) * falling(d, integer(g, 1, 12)).unsqueeze(-1)
    ),
    "graded entries": lambda d, N, g: normal(g, d, N) * 10 ** (-20 * uniform(g, d, N)),
    "large offset": lambda d, N, g: normal(g, d, N) + 10.0 ** integer(g, 1, 6),
    "integers": lambda d, N, g: torch.randint(-2, 3, (d, N), generator=g).double(),
    "signs": lambda d, N, g: torch.randint(2, (d, N), generator=g).double() * 2 - 1,
}
FAMILIES = {"matrix": (MATRICES, SIZES), "features": (FEATURES, SHAPES)}


# --------------------------------------------------------------------------------------------------
# Cases


def times_power_of_two(x: Tensor, exponent: Tensor) -> Tensor:
    """``x 2^exponent`` for items ``(b, ...)`` and exponents ``(b,)`` beyond the range of the dtype."""
    exponent = exponent.double().reshape(-1, *[1] * (x.dim() - 1))
    x = x.double()
    for part in (
        (exponent / 3).floor(),
        ((exponent + 1) / 3).floor(),
        ((exponent + 2) / 3).floor(),
    ):
        x = x * torch.exp2(part)
    return x


@dataclass(frozen=True)
class Group:
    """Cases that share kind, dtype and size, and whose seeds follow each other."""

    family: str
    kind: str
    dtype: torch.dtype
    seeds: tuple[int, ...]

    @property
    def size(self) -> int | tuple[int, int]:
        sizes = FAMILIES[self.family][1]
        return sizes[self.seeds[0] // GROUP % len(sizes)]

    @property
    def eps(self) -> float:
        return torch.finfo(self.dtype).eps

    @property
    def exponents(self) -> Tensor:
        return torch.tensor([EXPONENTS[self.dtype][seed % GROUP] for seed in self.seeds])

    def name(self, index: int) -> str:
        """What reproduces one case."""
        return f"{self.family}/{self.kind}/{str(self.dtype)[6:]}/{self.seeds[index]}"

    def generator(self, index: int, purpose: str = "") -> torch.Generator:
        seed = zlib.crc32((self.name(index) + purpose).encode())
        return torch.Generator().manual_seed(seed)

    @cached_property
    def batch(self) -> Tensor:
        """What goes into the library, ``(b, n, n)`` or ``(b, d, N)``."""
        make = FAMILIES[self.family][0][self.kind]
        size = self.size if isinstance(self.size, tuple) else (self.size,)
        items = []
        for k in range(len(self.seeds)):
            item = make(*size, self.generator(k))
            # Into the unit ball by a power of two: the largest scale then still fits the dtype.
            item = item / 2.0 ** math.frexp(float(item.abs().max()))[1]
            items.append(item / 2.0 ** math.frexp(float(item.norm()))[1])
        return times_power_of_two(torch.stack(items), self.exponents).to(self.dtype)

    @cached_property
    def unscaled(self) -> Tensor:
        """The batch as it came out (rounded, denormal) without its scales, exactly; float64."""
        return times_power_of_two(self.batch, -self.exponents)


def parse_case(name: str) -> Group:
    """The case of that name, ``family/kind/dtype/seed``."""
    family, kind, dtype, seed = name.split("/")
    if family not in FAMILIES or kind not in FAMILIES[family][0]:
        raise ValueError(f"no case {name!r}: families are {', '.join(FAMILIES)}, with their kinds")
    return Group(family, kind, getattr(torch, dtype), (int(seed),))


def groups() -> list[Group]:
    """The corpus: each kind in each dtype and size; small ones first."""
    corpus = [
        Group(family, kind, dtype, tuple(range(first, first + GROUP)))
        for family, (kinds, sizes) in FAMILIES.items()
        for kind in kinds
        for dtype in DTYPES
        for first in range(0, len(sizes) * GROUP, GROUP)
    ]
    return sorted(corpus, key=lambda group: group.seeds)
