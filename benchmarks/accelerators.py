"""What a GPU would have to do, counted without one, and how accurate products in its precisions are.

Launches, waits, products and memory are counted on fake tensors (tests/fake_cuda.py), and times are estimated
from these counts. Errors are measured on this CPU; TF32, and three products of bfloat16 instead of one, are
simulated by rounding the factors of every product.

    python benchmarks/accelerators.py                          both tables (a minute)
    python benchmarks/accelerators.py docs/guides/gpu.md       and write them into the page
"""

from __future__ import annotations

import math
import re
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from precision import conditioned
from timing import table
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rootpool.files import write_atomically
from rootpool.nn import Method, PolarRoot, covariance_pool

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from fake_cuda import Counting, Counts, counted

METHODS = {
    "exact": {},
    "polar": {},
    "isqrt-cov": {"compute_dtype": torch.float32},
}
SHAPES = ((128, 256, 49), (128, 256, 196), (32, 2048, 49))

# An A100 by its data sheet: multiplications and additions, bytes. Seven tenths are reached, we assume, and a
# launch takes seven microseconds.
RATES, BANDWIDTH, REACHED, LAUNCH = {"float64": 9.7e12, "float32": 19.5e12}, 2e12, 0.7, 7e-6
# Seconds of CuPy for a matrix of a batch, 100 x 100 in float32 (pytorch issue 174674); twice for float64.
SOLVER = 16.7e-6


PRODUCTS = {"mm", "bmm", "baddbmm", "addmm", "baddbmm_", "addmm_"}


@dataclass
class Costs(Counts):
    """And how much work it is."""

    products: Counter[str] = field(
        default_factory=Counter
    )  # multiplications and additions, by dtype
    traffic: int = 0  # bytes that are read and written
    peak: int = 0  # bytes that are in use at once, of tensors that the step has made


class Costing(Counting):
    """Counts them, of fake tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = Costs()
        self.sizes: dict[int, list[int]] = {}  # of storages: bytes, and how many tensors use them

    def following(self) -> Costing:
        after = Costing()
        after.sizes = self.sizes
        return after

    def compute(self, function: Any, name: str, args: tuple[Any, ...], kwargs: Any) -> Any:
        before = self.counts.launches
        result = super().compute(function, name, args, kwargs)
        made = [t for t in tree_leaves(result) if isinstance(t, Tensor)]
        if not made:  # a number, which the host has asked for
            return result
        if name in PRODUCTS:
            dtype = str(result.dtype).removeprefix("torch.")
            self.counts.products[dtype] += 2 * result.numel() * args[-2].shape[-1]
        tensors = [t for t in tree_leaves((args, kwargs, result)) if isinstance(t, Tensor)]
        self.counts.traffic += (self.counts.launches - before) * sum(t.nbytes for t in tensors)
        for tensor in made:
            self._keep(tensor)
        return result

    def _keep(self, tensor: Tensor) -> None:
        """Add memory that is new, until its last tensor is gone."""
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        self.sizes.setdefault(key, [size, 0])[1] += 1
        self.counts.peak = max(self.counts.peak, sum(size for size, _ in self.sizes.values()))

        def drop() -> None:
            self.sizes[key][1] -= 1
            if not self.sizes[key][1]:
                del self.sizes[key]

        weakref.finalize(tensor, drop)


def seconds(counts: Costs) -> tuple[float, float]:
    """From and to, for one direction, by torch 2.12 or newer."""
    products = sum(flops / RATES[dtype] for dtype, flops in counts.products.items())
    work = (products + counts.traffic / BANDWIDTH) / REACHED
    least = most = max(counts.launches * LAUNCH, work)
    for name in counts.solvers:
        batch, n, _ = map(int, name.split()[1].split("x"))
        each = sorted(2 * SOLVER * (n / 100) ** power for power in (2, 3))
        least, most = least + batch * each[0], most + batch * each[1]
    return least, most


def counts() -> str:
    rows = []
    for shape in SHAPES:
        for name, options in METHODS.items():

            def step(X: Tensor, name: str = name, options: Any = options) -> list[Tensor]:
                return [covariance_pool(X, name, **options)]

            forward, backward, _ = counted(step, *shape, warm=True, kind=Costing)
            both = (forward, backward)
            flops = forward.products + backward.products
            times = [1e3 * sum(ends) for ends in zip(*map(seconds, both), strict=True)]
            precision = ", float32" if options else ""
            rows.append(
                [
                    "x".join(map(str, shape)),
                    f"`{name}`{precision}",
                    f"{forward.launches}+{backward.launches}",
                    f"{forward.waits}+{backward.waits}",
                    f"{flops['float64'] / 1e9:.1f}/{flops['float32'] / 1e9:.1f}",
                    f"{max(c.peak for c in both) / 1e6:.0f}",
                    "-".join(dict.fromkeys(f"{t:.2g}" for t in times)),
                ]
            )
    head = ["batch x channels x positions", "method", "launches", "waits"]
    return table([*head, "GFLOP float64/float32", "MB", "ms on an A100 (estimate)"], rows)


# --------------------------------------------------------------------------------------------------


def _tf32(x: Tensor) -> Tensor:
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


class Rounded(TorchDispatchMode):
    """Products of float32 as tensor cores take them: of the leading digits, or of those and the next."""

    def __init__(self, narrow: Callable[[Tensor], Tensor], thrice: bool) -> None:
        super().__init__()
        self.narrow, self.thrice = narrow, thrice

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if function.name() == "aten::baddbmm":
            alpha = (kwargs or {}).get("alpha", 1)
            return args[0] + alpha * self.product(torch.ops.aten.bmm.default, *args[1:3])
        if function.name() not in ("aten::bmm", "aten::mm"):
            return function(*args, **(kwargs or {}))
        return self.product(function, *args)

    def product(self, function: Any, *args: Tensor) -> Tensor:
        if args[0].dtype != torch.float32:
            return function(*args)
        high = [self.narrow(x) for x in args]
        result = function(*high)
        if self.thrice:
            low = [self.narrow(x - y) for x, y in zip(args, high, strict=True)]
            result = result + function(high[0], low[1]) + function(low[0], high[1])
        return result


TF32 = Rounded(_tf32, thrice=False)
BF16X3 = Rounded(lambda x: x.bfloat16().float(), thrice=True)
FLOAT32 = torch.float32
CONTESTANTS: dict[str, tuple[str | Method, torch.dtype | None, Rounded | None]] = {
    "`exact`": ("exact", None, None),
    "`exact`, float32": ("exact", FLOAT32, None),
    "`polar`": ("polar", None, None),
    "`polar`, bf16x3, lower=1e-4": (PolarRoot(1e-4), None, BF16X3),
    "`polar`, TF32, lower=0.02": (PolarRoot(0.02), None, TF32),
    "`minimax`, float32": ("minimax", FLOAT32, None),
    "`isqrt-cov`, float32": ("isqrt-cov", FLOAT32, None),
}


def maps() -> dict[str, Tensor]:
    def normal(*shape: int, seed: int = 0) -> Tensor:
        return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))

    X = normal(4, 256, 49).relu()
    return {
        **{f"condition {c:.0e}": conditioned(c)[0] for c in (1.0, 1e2, 1e3, 1e4, 1e5)},
        "after a ReLU": X,
        "rank 20 of 48": normal(4, 256, 20) @ normal(4, 20, 49, seed=1),
        "positions in equal pairs": normal(4, 256, 25).repeat_interleave(2, -1)[..., :49],
        "1 % active": X * (normal(4, 256, 49, seed=2) > 2.33),
    }


def step(X: Tensor, name: str | Method, dtype: torch.dtype | None) -> tuple[Tensor, Tensor]:
    X = X.clone().requires_grad_()
    g = torch.randn(4, X.shape[1], X.shape[1], generator=torch.Generator().manual_seed(3)).to(X)
    Q = covariance_pool(X, name, output="matrix", compute_dtype=dtype)
    return Q.detach(), torch.autograd.grad(Q, X, g)[0]


def errors() -> str:
    rows = []
    for about, X in maps().items():
        expected, cells = step(X.double(), "exact", torch.float64), []
        for name, dtype, mode in CONTESTANTS.values():
            try:
                with mode or torch.enable_grad():
                    found = step(X, name, dtype)
            except torch.linalg.LinAlgError:
                cells.append("overflows")
                continue
            worst = [
                float(((a.double() - b).flatten(1).norm(dim=1) / b.flatten(1).norm(dim=1)).max())
                for a, b in zip(found, expected, strict=True)
            ]
            cells.append("/".join("nan" if math.isnan(w) else f"{w:.0e}" for w in worst))
        rows.append([about, *cells])
    return table(["features", *CONTESTANTS], rows, numbers=True)


def main() -> None:
    torch.set_num_threads(1)
    tables = {"counts": counts(), "errors": errors()}
    print(*tables.values(), sep="\n\n")
    for path in map(Path, sys.argv[1:]):
        text = path.read_text(encoding="utf-8")
        for name, lines in tables.items():
            place = re.compile(
                rf"(<!-- {name}: begin[^\n]*-->\n).*?(<!-- {name}: end -->)", re.DOTALL
            )
            text, found = place.subn(lambda m, lines=lines: f"{m[1]}{lines}\n{m[2]}", text)
            if not found:
                raise SystemExit(f"{path} has no place for {name}")
        write_atomically(path, text)


if __name__ == "__main__":
    main()
