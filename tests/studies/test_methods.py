"""Methods that only studies need, against definitions that do not share their code."""

import pytest
import torch

import matrices
from matrices import relative_error
from rootpool.nn import Length, covariance_pool, make_pool, resolve_method, resolve_pool
from studies.methods import NewtonExact, Scaled


def test_newton_exact_has_the_value_of_the_iteration_and_the_exact_gradient():
    X, G = matrices.random(2, 4, 9), matrices.random(2, 4, 4, seed=1)
    results = []
    for method in (NewtonExact(3), "exact", resolve_method("isqrt-cov", iterations=3)):
        Y = X.clone().requires_grad_()
        Q = covariance_pool(Y, method, output="matrix")
        results.append((Q.detach(), torch.autograd.grad(Q, Y, G)[0]))
    assert relative_error(results[0][0], results[2][0]) < 1e-13
    assert relative_error(results[0][1], results[1][1]) < 1e-7


@pytest.mark.parametrize("k", [-6, 2])
@pytest.mark.parametrize("of", ["exact", "mpn-cov-published", "svd-pade-released"])
def test_another_scale_changes_nothing_above_the_floor(of, k):
    """More positions than channels, so that no eigenvalue is near eps: equal to the bit."""
    X, G = matrices.random(2, 4, 30), matrices.random(2, 4, 4, seed=1)
    results = []
    for method in (Scaled(of), Scaled(of, k)):
        Y = X.clone().requires_grad_()
        Q = covariance_pool(Y, method, output="matrix")
        results.append((Q.detach(), torch.autograd.grad(Q, Y, G)[0]))
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


def test_another_scale_moves_the_floor():
    """Fewer positions than channels: the null space is at the floor, which is larger for small features."""
    X, eps = matrices.random(1, 6, 4), torch.finfo(torch.float64).eps
    for k in (-3, 3):
        Q = covariance_pool(X, Scaled("mpn-cov-published", k), output="matrix")
        smallest = torch.linalg.eigvalsh(Q)[0, 0]
        assert abs(smallest) < 20 * eps**0.5 * max(1.0, 2.0**-k)
        if k < 0:
            assert smallest == pytest.approx(eps**0.5 / 2.0**k, rel=1e-3)


def test_attention_poolings_by_name():
    """An attentive probe by a loop over queries; both in a network that is made by their name."""
    X = torch.randn(2, 64, 3, 3, generator=torch.Generator().manual_seed(0))
    pool = make_pool(64, "attentive-probe")
    share = 64 // pool.queries
    expected = []
    for sample in X.flatten(2):
        weights = [torch.softmax(query @ sample, 0) for query in pool.query]
        parts = [sample[k * share : (k + 1) * share] @ w for k, w in enumerate(weights)]
        expected.append(torch.cat(parts))
    torch.testing.assert_close(pool(X), torch.stack(expected))
    equal = torch.ones(2, 64, 9)  # attention to equal positions is their average
    torch.testing.assert_close(pool(equal), equal.mean(-1))
    for name in ("simpool", "attentive-probe"):
        pool = make_pool(64, name, reduction=96, scaling=Length(4.0))
        assert pool(X).norm(dim=1).allclose(torch.tensor(4.0))
        assert pool.method == name
        with pytest.raises(ValueError, match=f"{name} has no options"):
            resolve_pool(name, queries=2)
