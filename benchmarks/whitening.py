"""Whitening against batch norm and IterNorm's algorithm written plainly: time, memory, and how white it is.

Claim: in float32 `exact` and `cholesky` cost no more than IterNorm's five steps, and are white where those
are not.

    python benchmarks/whitening.py            the tables (about three minutes)
    python benchmarks/whitening.py --quick    one small map
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from timing import duration, machine, race, table
from torch import Tensor, nn

from rootpool.nn import GroupWhitening, NewtonWhitening, Whitening

GROUP = 64  # channels that are whitened together, as IterNorm recommends


@dataclass(frozen=True)
class Maps:
    """Feature maps of a stage of a ResNet-50, for a batch that fits a laptop."""

    batch: int
    channels: int
    side: int

    @property
    def values(self) -> int:
        return self.batch * self.side**2

    def features(self, condition: float = 1e4) -> Tensor:
        """Correlated channels: within each group a random basis with eigenvalues down to 1 / condition."""
        generator = torch.Generator().manual_seed(0)
        white = torch.randn(self.channels, self.values, dtype=torch.float64, generator=generator)
        mixed = []
        for part in white.split(GROUP):
            Q = torch.linalg.qr(
                torch.randn(GROUP, GROUP, dtype=torch.float64, generator=generator)
            ).Q
            scales = torch.logspace(0, -0.5, GROUP, base=condition, dtype=torch.float64)
            mixed.append(Q @ (scales.unsqueeze(1) * part) + 1)
        maps = torch.cat(mixed).view(self.channels, self.batch, self.side, self.side)
        return maps.transpose(0, 1).float().contiguous()


MAPS = [Maps(16, 64, 56), Maps(16, 256, 28), Maps(16, 512, 14)]


class PlainIterNorm(nn.Module):
    """IterNorm as its paper writes it, in the precision of the features, by autograd."""

    def __init__(self, channels: int, iterations: int = 5, eps: float = 1e-5) -> None:
        super().__init__()
        self.groups, self.iterations, self.eps = channels // GROUP, iterations, eps

    def forward(self, features: Tensor) -> Tensor:
        X = features.transpose(0, 1).reshape(self.groups, GROUP, -1)
        X = X - X.mean(-1, keepdim=True)
        eye = torch.eye(GROUP, dtype=X.dtype)
        S = X @ X.mT / X.shape[-1] + self.eps * eye
        trace = S.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None]
        P = eye.expand_as(S)
        for _ in range(self.iterations):
            P = 1.5 * P - 0.5 * P @ P @ P @ (S / trace)
        Y = P @ X / trace.sqrt()
        return Y.view(features.transpose(0, 1).shape).transpose(0, 1).contiguous()


def layers(channels: int) -> dict[str, nn.Module]:
    groups = channels // GROUP
    single = functools.partial(Whitening, channels, groups=groups, compute_dtype=torch.float32)
    double = functools.partial(Whitening, channels, groups=groups)
    return {
        "BatchNorm2d": nn.BatchNorm2d(channels, affine=False),
        "IterNorm, plain, 5 steps": PlainIterNorm(channels),
        "newton, float32": single(method="newton"),
        "cholesky, float32": single(method="cholesky"),
        "exact, float32": single(method="exact"),
        "newton, float64": double(method="newton"),
        "cholesky, float64": double(method="cholesky"),
        "exact, float64": double(method="exact"),
        f"GroupWhitening({GROUP}), exact, float32": GroupWhitening(
            channels, GROUP, compute_dtype=torch.float32
        ),
    }


def step(layer: nn.Module, X: Tensor) -> Callable[[], object]:
    X = X.clone().requires_grad_()
    weight = torch.ones_like(X)
    return lambda: torch.autograd.grad(layer(X), X, weight)


def kept(layer: nn.Module, X: Tensor) -> float:
    """Bytes that the forward keeps for the backward, besides its input, as a multiple of the input."""
    X = X.clone().requires_grad_()
    storages: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = layer(X)
    storages.pop(X.untyped_storage().data_ptr(), None)
    assert output.requires_grad
    return sum(storages.values()) / X.untyped_storage().nbytes()


def whiteness(layer: nn.Module, X: Tensor) -> str:
    """The largest distance of an entry of the covariance of a group from the identity."""
    with torch.no_grad():
        Y = layer(X).double().transpose(0, 1).reshape(X.shape[1] // GROUP, GROUP, -1)
    Y = Y - Y.mean(-1, keepdim=True)
    error = (Y @ Y.mT / Y.shape[-1] - torch.eye(GROUP, dtype=Y.dtype)).abs().max().item()
    return f"{error:.0e}"


def costs(maps: list[Maps], seconds: float) -> None:
    names = list(layers(GROUP))
    times: dict[str, list[str]] = {name: [] for name in names}
    memory: dict[str, list[str]] = {name: [] for name in names}
    for shape in maps:
        X, contestants = shape.features(), layers(shape.channels)
        best = race(
            {name: step(layer, X) for name, layer in contestants.items()}, seconds, rounds=3
        )
        norm = best["BatchNorm2d"]
        for name, layer in contestants.items():
            times[name].append(f"{duration(best[name])} (x{best[name] / norm:.1f})")
            memory[name].append(f"{kept(layer, X):.1f}")
    columns = [f"{m.batch} x {m.channels} x {m.side} x {m.side}" for m in maps]
    print("\n\nForward and backward, float32 features, and how many times that of batch norm\n")
    print(table(["layer", *columns], [[name, *times[name]] for name in names]))
    print("\n\nWhat the forward keeps for the backward, besides its input, in units of the input\n")
    print(table(["layer", *columns], [[name, *memory[name]] for name in names]))


def errors(maps: Maps) -> None:
    conditions = [1e1, 1e2, 1e4, 1e6]
    contestants = {
        name: layer for name, layer in layers(maps.channels).items() if "Group" not in name
    }
    for steps in (10, 20):
        newton = NewtonWhitening(steps)
        contestants[f"IterNorm, plain, {steps} steps"] = PlainIterNorm(maps.channels, steps, 1e-10)
        contestants[f"newton, {steps} steps, float32"] = Whitening(
            maps.channels,
            groups=maps.channels // GROUP,
            method=newton,
            compute_dtype=torch.float32,
        )
    for layer in contestants.values():
        layer.eps = 1e-10  # type: ignore[assignment]
    inputs = [maps.features(condition) for condition in conditions]
    rows = [[name, *(whiteness(layer, X) for X in inputs)] for name, layer in contestants.items()]
    print(
        "\n\nLargest error of an entry of the covariance after whitening, by the condition number of the "
        "covariance before it (eps = 1e-10)\n"
    )
    print(table(["layer", *(f"{condition:.0e}" for condition in conditions)], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one small map")
    quick = parser.parse_args().quick
    print(f"{machine()}; groups of {GROUP} channels, in training mode, without an affine part")
    maps = [Maps(2, 64, 8)] if quick else MAPS
    costs(maps, 0.1 if quick else 2.0)
    errors(maps[-1])


if __name__ == "__main__":
    main()
