"""Methods that only studies need, against definitions that do not share their code."""

import pytest
import torch

import matrices
from matrices import relative_error, value_and_gradient
from rootpool.nn import Length, covariance_pool, make_pool, resolve_method, resolve_pool
from studies.methods import NewtonExact, Scaled


def test_newton_exact_has_the_value_of_the_iteration_and_the_exact_gradient():
    X, G = matrices.random(2, 4, 9), matrices.random(2, 4, 4, seed=1)
    results = []
    for method in (NewtonExact(3), "exact", resolve_method("isqrt-cov", iterations=3)):
        pool = lambda X, method=method: covariance_pool(X, method, output="matrix")  # noqa: E731
        results.append(value_and_gradient(pool, X, G))
    assert relative_error(results[0][0], results[2][0]) < 1e-13
    assert relative_error(results[0][1], results[1][1]) < 1e-7


@pytest.mark.parametrize("k", [-6, 2])
@pytest.mark.parametrize("of", ["exact", "mpn-cov-published", "svd-pade-released"])
def test_another_scale_changes_nothing_above_the_floor(of, k):
    """More positions than channels, so that no eigenvalue is near eps: equal to the bit."""
    X, G = matrices.random(2, 4, 30), matrices.random(2, 4, 4, seed=1)
    results = []
    for method in (Scaled(of), Scaled(of, k)):
        pool = lambda X, method=method: covariance_pool(X, method, output="matrix")  # noqa: E731
        results.append(value_and_gradient(pool, X, G))
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


def simpool(pool, sample):
    """Equations of the paper, one position after the other."""
    parts = pool.attention
    V = [
        torch.nn.functional.layer_norm(x, x.shape, parts.norm.weight, parts.norm.bias)
        for x in sample.T
    ]
    query = parts.q.weight @ sample.mean(1)
    scores = torch.stack([query @ (parts.k.weight @ v) for v in V]) / len(sample) ** 0.5
    shifted = torch.stack(V) - torch.stack(V).amin(0) + 1e-6
    return sum(a * v**2 for a, v in zip(torch.softmax(scores, 0), shifted, strict=True)).sqrt()


def probe(pool, sample):
    """A query after the other, each with its share of the channels."""
    values = pool.reduction(sample[None, :, :, None])[0, :, :, 0].chunk(pool.queries)
    weights = [torch.softmax(query @ sample / len(sample) ** 0.5, 0) for query in pool.query]
    return torch.cat([v @ w for v, w in zip(values, weights, strict=True)])


@pytest.mark.parametrize(
    ("name", "reduction", "oracle"),
    [("simpool", None, simpool), ("attentive-probe", None, probe), ("attentive-probe", 96, probe)],
)
def test_attention_poolings_by_name(name, reduction, oracle):
    X = matrices.random(2, 64, 3, 3)
    pool = make_pool(64, name, reduction).double().eval()
    for parameter in pool.parameters():  # so that attention is far from the average
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(1))
    expected = torch.stack([oracle(pool, sample) for sample in X.flatten(2)])
    assert relative_error(pool(X), expected) < 1e-13
    scaled = make_pool(64, name, reduction=96, scaling=Length(4.0))
    assert scaled(X.float()).norm(dim=1).allclose(torch.tensor(4.0))
    assert (scaled.method, scaled.out_features) == (name, 96)
    with pytest.raises(ValueError, match=f"{name} has no options"):
        resolve_pool(name, queries=2)
