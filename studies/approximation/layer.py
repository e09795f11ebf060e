r"""The layer alone: what the floor eps does to the null space and to the gradient, measured and predicted.

A covariance of N < d positions has d - N zero eigenvalues. They come out of a decomposition as noise,
:math:`\xi\, \epsilon \lambda_1`, where :math:`\xi` hardly depends on N, d and the precision: it is about
lognormal, with a median :math:`\kappa` and a spread :math:`\sigma` that are taken from the small network here
and used for all other features. What the paper's gradients see of it depends on :math:`\lambda_1` alone:

* the share :math:`\Phi(\log(\kappa \lambda_1) / \sigma)` of it is above the floor;
* n values within :math:`\nu = \kappa \epsilon \lambda_1` repel each other, so that the smallest gap of a
  batch of B is about :math:`g = \nu / (n \sqrt{B n})`;
* exact ties, of which there are always some, get the kernel of the smallest gap, 1/g, with the same sign in
  both triangles. With :math:`\tau = \epsilon \lambda_1 / \sqrt{\lambda_r}`, what is left of the features
  in the computed null space (:math:`\lambda_r`: the smallest eigenvalue that is not zero), the relative error
  of the gradient is about :math:`2 \sqrt\nu\, \tau / (g \sqrt d)` if there is a gap at all, that is, if
  noise is above the floor, and :math:`\sqrt{\epsilon / \lambda_r}`, the floor itself, if there is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from rootpool.models import create_model
from rootpool.nn import Branch, covariance_pool, make_pool, resolve_method
from rootpool.report import Record
from rootpool.train import build, recipe, resolve
from rootpool.train.data.patches import PHOTOGRAPHS, photograph
from studies.methods import Scaled
from studies.paper.networks import Moment, features

__all__ = ["calibrate", "measure_layer", "null_space", "photograph_features", "small_features"]

SIDES = (224, 416, 448)  # pixels; 7 x 7, 13 x 13 and 14 x 14 positions
CHANNELS = 256
SCALES = (-6, -4, -2, 0, 2)  # powers of two of the features
FORMS = ("mpn-cov-published", "mpn-cov-released", "svd-pade-released")
DTYPES = (torch.float64, torch.float32)


def small_features() -> Tensor:
    """Features of the small network with batch norm before training, ``(32, 64, 49)``."""
    module, data = build(resolve(recipe("patches-norm", "exact").config))
    torch.manual_seed(0)
    batch = next(iter(data.train_dataloader()))
    return features(Moment("exact", 0, "untrained", module.model, batch)).flatten(2)


@torch.no_grad()
def photograph_features(side: int) -> Tensor:
    """Features of the photographs at the full size of the layer, ``(18, 256, N)``.

    The last blocks of EfficientNet-Lite0, trained on ImageNet, then the paper's reduction: a 1x1 convolution
    (untrained), batch norm and ReLU.
    """
    model = create_model(
        "tf_efficientnet_lite0", [Branch("blocks.6", "gap")], 1, weights="packaged"
    )
    images = torch.stack([_square(photograph(name).float(), side) for name in PHOTOGRAPHS])
    (maps,) = model.eval().forward_features(images).values()
    torch.manual_seed(0)
    pool = make_pool(maps.shape[1], "exact", CHANNELS).train()
    reduced: Tensor = pool.reduction(maps)
    return reduced.flatten(2)


def _square(image: Tensor, side: int) -> Tensor:
    """The centre of a grey photograph, in three channels between -1 and 1."""
    size = min(image.shape)
    top, left = ((n - size) // 2 for n in image.shape)
    centre = image[None, None, top : top + size, left : left + size] / 127.5 - 1
    return interpolate(centre, (side, side), mode="bilinear", antialias=True)[0].expand(3, -1, -1)


@torch.no_grad()
def null_space(X: Tensor, method: str, k: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Eigenvalues as a method sees them, times :math:`4^k`: in the range, and in the null space."""
    P = resolve_method(method).covariance(2.0**k * X.to(dtype))
    _, lam, _ = torch.linalg.svd(P)  # with vectors, as the method: without, the noise is another
    return lam[:, : X.shape[-1] - 1], lam[:, X.shape[-1] :]


def calibrate(X: Tensor) -> tuple[float, float]:
    """Median and spread of the noise in units of eps times the largest eigenvalue, from some features."""
    kept, null = null_space(X, FORMS[0], 0, torch.float64)
    log = (null / (torch.finfo(null.dtype).eps * kept[:, :1])).log()
    return float(log.median().exp()), float(log.std())


def measure_layer(names: Sequence[str] = ("small", *map(str, SIDES))) -> list[Record]:
    """A record for each set of features, precision, form and scale."""
    small = small_features()
    noise = calibrate(small)
    records: list[Record] = []
    for name in names:
        X = small if name == "small" else photograph_features(int(name))
        records += [{"features": name, **record} for record in _records(X, noise)]
    return records


def _records(X: Tensor, noise: tuple[float, float]) -> Iterator[Record]:
    for dtype in DTYPES:
        exact = _gradient(X.double(), "exact", 0, torch.float64)
        for method in FORMS:
            for k in SCALES:
                found = _gradient(X, method, k, dtype).double()
                own = {"method": method, "precision": str(dtype).removeprefix("torch."), "k": k}
                size = {"channels": X.shape[1], "positions": X.shape[2]}
                yield {
                    **own,
                    **size,
                    **_noise(X, method, k, dtype, noise),
                    "error": float((found - exact).norm() / exact.norm()),
                }


def _gradient(X: Tensor, method: str, k: int, dtype: torch.dtype) -> Tensor:
    """The gradient to the features for a random one to the triangles, the same for all."""
    Y = X.to(dtype).requires_grad_()
    pooled = covariance_pool(Y, Scaled(method, k), compute_dtype=dtype)
    G = torch.randn(pooled.shape, generator=torch.Generator().manual_seed(1))
    return torch.autograd.grad(pooled, Y, G.to(dtype))[0]


def _noise(
    X: Tensor, method: str, k: int, dtype: torch.dtype, noise: tuple[float, float]
) -> Record:
    """What is above the floor and how close it is, with what is predicted for it and for the gradient."""
    eps, (kappa, sigma) = torch.finfo(dtype).eps, noise
    kept, null = null_space(X, method, k, dtype)
    first, last = float(kept[:, 0].mean()), float(kept[:, -1].mean())
    (B, m), d = null.shape, X.shape[1]
    gaps = -null.clamp_min(eps).diff(dim=-1)
    gaps = gaps[gaps > 0]
    shares = [NormalDist(0, sigma).cdf(math.log(kappa * float(lam))) for lam in kept[:, 0]]
    above = sum(shares) / len(shares)
    nu = kappa * eps * first
    n = max(1.0, above * m)  # values of a sample above the floor
    gap = nu / (n * math.sqrt(B * n))
    tau = eps * first / math.sqrt(max(last, eps))
    spurious = 2 * math.sqrt(max(nu, eps)) * tau / (gap * math.sqrt(d))
    there = above * B * m > 1  # a gap needs a value above the floor
    return {
        "lambda_1": first,
        "zeroed": float((kept <= eps).double().mean()),
        "above": float((null > eps).double().mean()),
        "predicted_above": above,
        "gap": float(gaps.min()) if len(gaps) else None,
        "predicted_gap": gap if there else None,
        "predicted_error": math.sqrt(eps / max(last, eps)) + (spurious if there else 0),
    }
