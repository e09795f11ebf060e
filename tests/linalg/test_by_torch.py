"""Decompositions that torch does for us: once, and with the derivative of our own formulas."""

import contextlib

import pytest
import torch

from matrices import random, with_spectrum
from rootpool.linalg import eigh, svd
from rootpool.linalg.rules import Degenerate
from rootpool.linalg.svd import _SVD
from tolerances import assert_same_to_rounding


@pytest.mark.parametrize("lam", [[1.0, 2.0, 3.0], [1.0, 2.0, 2.0], [0.0, 0.0, 1.0]])
@pytest.mark.parametrize("name", ["eigh", "svd"])
def test_ties_are_decomposed_once(name, lam, monkeypatch):
    calls, plain = [], getattr(torch.linalg, name)

    def counted(*args, **options):
        calls.append(args)
        return plain(*args, **options)

    monkeypatch.setattr(torch.linalg, name, counted)
    A = with_spectrum(torch.tensor(lam, dtype=torch.float64)).requires_grad_()
    factors = {"eigh": eigh, "svd": svd}[name](A)
    assert len(calls) == 1
    U, values = sorted(factors[:2], key=torch.Tensor.dim, reverse=True)
    rebuilt = U @ torch.diag(values) @ U.mT
    assert_same_to_rounding(rebuilt.detach(), A.detach())
    (g,) = torch.autograd.grad(values.sum(), A)
    assert_same_to_rounding(g, (U @ (factors[2] if name == "svd" else U.mT)).detach())


def _gradients(ours, theirs, A, weights):
    found = []
    for decompose in (ours, theirs):
        B = A.clone().requires_grad_()
        loss = sum((w * f).sum() for w, f in zip(weights, decompose(B), strict=True))
        found.append(torch.autograd.grad(loss, B)[0])
    return found


@pytest.mark.parametrize("gap", [1.0, 1e-3, 1e-9, 1e-12, 1e-15])
@pytest.mark.parametrize(
    ("shape", "scale"), [((3, 3), 1e-150), ((3, 3), 1e150), ((5, 3), 1e-30), ((3, 5), 1e30)]
)
def test_svd_by_torch_is_ours(shape, scale, gap):
    """The same factors with the formulas of our own: torch divides by differences of squares."""
    Q, R = (torch.linalg.qr(random(n, 3, seed=n)).Q for n in shape)
    s = torch.tensor([2 + gap, 2.0, 1.0], dtype=torch.float64)
    A = (Q * s) @ R.mT * scale
    kernel = Degenerate()
    U, S, Vh = svd(A)  # no gradient, so ours
    node = type(svd(A.clone().requires_grad_()).S.grad_fn).__name__
    assert (node == "LinalgSvdBackward0") == (gap >= 1e-3 and scale in (1e-30, 1e30))
    weights = [random(*U.shape), random(3, seed=1) / scale, random(*Vh.shape, seed=2)]

    def ours(B):
        return _SVD.apply(B, kernel, False, None, (U.clone(), S.clone(), Vh.clone()))

    with pytest.warns() if gap < 1e-14 else contextlib.nullcontext():
        g, expected = _gradients(svd, ours, A, weights)
    assert_same_to_rounding(g, expected, n=5, condition=max(1.0, 1 / gap if gap > 1e-14 else 1.0))
