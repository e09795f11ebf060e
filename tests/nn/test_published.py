"""The paper's forms: *published* against its equations in plain loops, *released* against stored numbers."""

import math
import os
import pickle
from pathlib import Path

import numpy
import pytest
import torch

import matrices
from rootpool.nn import METHODS, CovariancePool, covariance_pool, method_names, resolve_method

EPS = {dtype: torch.finfo(dtype).eps for dtype in (torch.float32, torch.float64)}
NAMES = [name.removesuffix("-published") for name in method_names("published")]
PAPERS = {  # K_ij for lam_i >= lam_j, x = lam_j / lam_i, as the paper writes it
    "mpn-cov": lambda a, b: math.inf if a == b else 1 / (a - b),
    "svd-topn": lambda a, b: math.inf if a == b else 1 / (a - b),
    "svd-trunc": lambda a, b: 1e10 if a == b else min(1 / (a - b), 1e10),
    "svd-taylor": lambda a, b: sum((b / a) ** k for k in range(101)) / a,
    "svd-pi": lambda a, b: sum((b / a) ** k for k in range(20)) / a,
}


def transcription(G, lam, U, kernel):
    """dl/dP of a batch, entry by entry: equations of the paper, in Python's floats."""
    B, d = lam.shape
    K = torch.zeros(B, d, d, dtype=torch.float64)
    for b in range(B):
        for i in range(d):
            for j in range(d):
                if i != j:
                    larger, smaller = sorted((float(lam[b, i]), float(lam[b, j])))[::-1]
                    K[b, i, j] = kernel(larger, smaller) * (1 if lam[b, i] >= lam[b, j] else -1)
    finite = [float(k) for k in K.flatten() if abs(k) < math.inf]
    K[K.isposinf()] = max(finite)
    G, lam, U = G.double(), lam.double(), U.double()
    found = torch.zeros(B, d, d, dtype=torch.float64)
    for b in range(B):
        s = [math.sqrt(v) for v in lam[b]]
        u = [U[b, :, i] for i in range(d)]
        for i in range(d):
            dl_du = s[i] * (G[b] + G[b].T) @ u[i]
            for j in range(d):
                share = float(K[b, i, j]) * float(u[j] @ dl_du) if i != j else 0.0
                found[b] += share * torch.outer(u[j], u[i])
            found[b] += float(u[i] @ G[b] @ u[i]) / (2 * s[i]) * torch.outer(u[i], u[i])
    return found


def orthogonal(n, seed):
    return torch.linalg.qr(matrices.random(n, n, seed=seed))[0]


SPECTRA = {
    "separated": [[5.0, 3.0, 1.0, 0.5], [7.0, 2.0, 0.3, 0.1]],
    "ties": [[5.0, 3.0, 3.0, 0.5], [2.0, 2.0, 2.0, 0.25]],
    "raised to eps": [[5.0, 3.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]],
}


@pytest.mark.parametrize("dtype", EPS, ids=str)
@pytest.mark.parametrize("spectra", SPECTRA.values(), ids=list(SPECTRA))
@pytest.mark.parametrize("name", [name for name in NAMES if name in PAPERS])
def test_the_equations(name, spectra, dtype):
    lam = torch.tensor(spectra, dtype=dtype).clamp_min(EPS[dtype])
    U = torch.stack([orthogonal(4, seed) for seed in range(2)]).to(dtype)
    G = matrices.random(2, 4, 4, seed=5).to(dtype).triu()
    found = METHODS[f"{name}-published"]().gradient(G, lam, U)
    expected = transcription(G, lam, U, PAPERS[name])
    scale = float(expected.abs().max())
    assert found.dtype == dtype
    torch.testing.assert_close(
        found.double(), expected, rtol=0, atol=200 * EPS[dtype] * max(1.0, scale)
    )


def test_infinities_become_the_largest_finite_entry_of_the_batch():
    kernel = resolve_method("mpn-cov-published").kernel
    lam = torch.tensor([[3.0, 3.0, 1.0], [4.0, 3.75, 1.0]], dtype=torch.float64)
    K = kernel(lam)
    assert float(K[0, 0, 1]) == float(K[1, 0, 1]) == 4.0  # the tie, and 1 / (4 - 3.75)
    assert float(K[0, 1, 0]) == 4.0  # positive on both sides
    assert float(K[1, 1, 0]) == -4.0
    assert not kernel(lam[:1, :2]).any()  # no finite entry but those of the diagonal
    assert kernel(lam[:0]).shape == (0, 3, 3)


@pytest.mark.parametrize("shape", [(2, 4, 9), (2, 4, 30), (2, 6, 4)])
@pytest.mark.parametrize("name", NAMES)
def test_where_eigenvalues_are_separated_both_forms_have_the_same_gradient(name, shape):
    X = matrices.random(*shape).requires_grad_()
    count = {"count": 3} if name == "svd-topn" else {}
    g = matrices.random(shape[0], shape[1] * (shape[1] + 1) // 2, seed=1)
    values, gradients = [], []
    for form in (name, f"{name}-published"):
        Q = covariance_pool(X, resolve_method(form, **count))
        values.append(Q)
        gradients.append(torch.autograd.grad(Q, X, g)[0])
    torch.testing.assert_close(*values, rtol=1e-6, atol=1e-6)
    if name != "svd-topn":  # the published one sends 0.5 / sqrt(eps) through what it drops
        limit = (
            1e-12 if shape[2] > shape[1] else 1e-5
        )  # below the rank both divide by a root of eps
        assert matrices.relative_error(*gradients) < limit


# --------------------------------------------------------------------------------------------------
# As released

FIXTURES = Path(
    os.environ.get("ROOTPOOL_TEST_FIXTURES") or Path(__file__).parents[3] / "shared" / "fixtures"
)
MODULES = {
    "SVD_Original": "mpn-cov",
    "SVD_TopN": "svd-topn",
    "SVD_Trunc": "svd-trunc",
    "SVD_PI": "svd-pi",
    "SVD_Newton": "svd-newton",
    "SVD_Taylor": "svd-taylor",
    "SVD_Pade": "svd-pade",
}


@pytest.fixture(scope="module")
def released():
    """What the authors' program gives for stored features and gradients."""
    file = FIXTURES / "released.npz"
    if not file.is_file():
        pytest.skip(f"{file} is not there; ROOTPOOL_TEST_FIXTURES names another folder")
    with numpy.load(file) as arrays:
        return {name: torch.from_numpy(array) for name, array in arrays.items()}


@pytest.mark.parametrize("case", ["wide", "narrow"])
@pytest.mark.parametrize("module", MODULES)
def test_values_and_gradients_of_the_authors_program(released, module, case):
    method = resolve_method(f"{MODULES[module]}-released")
    X = released[f"{case}/features"].requires_grad_()
    Q = covariance_pool(X, method)
    (gradient,) = torch.autograd.grad(Q, X, released[f"{case}/cotangent"])
    P = method.covariance(X.detach().flatten(2).double())
    assert matrices.relative_error(P, released[f"{case}/covariance"]) < 1e-15
    assert matrices.relative_error(Q, released[f"{case}/{module}/value"]) < 1e-6
    expected = released[f"{case}/{module}/gradient"]
    if module == "SVD_PI":  # rounding errors, of which only the size is the same everywhere
        assert float(gradient.abs().max()) < 1e-17
        assert float(expected.abs().max()) < 1e-17
    else:
        assert matrices.relative_error(gradient, expected) < 1e-6


def test_the_released_centring_adds_a_rank():
    """Rounded to float32, its rows do not add up to zero; the published one is exact."""
    X = matrices.random(1, 64, 49)
    ranks = []
    for form in ("published", "released"):
        P = resolve_method(f"mpn-cov-{form}").covariance(X)
        s = torch.linalg.svdvals(P)[0]
        ranks.append(int((s > 1e-12 * s[0]).sum()))
    assert ranks == [48, 49]


def test_the_released_kernel_is_not_antisymmetric_near_ties():
    lam = matrices.random(1, 30).abs().sort(descending=True).values * 1e-6 + 1
    published, released = (
        resolve_method(f"svd-pade-{form}").kernel(lam) for form in ("published", "released")
    )
    assert torch.equal(published, -published.mT)
    assert not torch.equal(released, -released.mT)
    torch.testing.assert_close(released, published, rtol=1e-6, atol=0)


def test_what_the_released_gradient_does_with_infinities():
    method = resolve_method("mpn-cov-released")
    T = torch.tensor([[1.0, math.inf, -math.inf], [-2.0, 0.5, 3.0]], dtype=torch.float64)
    assert method.repair(T).tolist() == [[1.0, 3.0, -2.0], [-2.0, 0.5, 3.0]]
    T[1, 2] = math.nan  # which spreads to what replaces infinities, and ends as zero
    assert method.repair_features(T).tolist() == [[1.0, 0.0, 0.0], [-2.0, 0.5, 0.0]]
    assert resolve_method("svd-newton-released").repair_features(T) is T


@pytest.mark.parametrize(("channels", "kept"), [(256, 206), (64, 14), (24, 0)])
def test_the_released_top_n_drops_fifty_whatever_their_number(channels, kept):
    assert resolve_method("svd-topn-released").keep(channels) == kept
    assert resolve_method("svd-topn-released", count=30).keep(channels) == 30


@pytest.mark.parametrize("name", method_names("published", "released"))
def test_forms_are_values_like_other_methods(name):
    method = resolve_method(name)
    assert pickle.loads(pickle.dumps(method)) == method
    assert type(method).__name__ in str(CovariancePool(8, name))
    X = matrices.random(2, 3, 7).requires_grad_()
    (gradient,) = torch.autograd.grad(
        covariance_pool(X, method).square().sum(), X, create_graph=True
    )
    with pytest.raises(RuntimeError, match=f"{name} has no second derivative"):
        torch.autograd.grad(gradient.sum(), X)
