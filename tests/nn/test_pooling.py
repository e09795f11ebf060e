import copy

import pytest
import torch
from torch import nn

import matrices
from rootpool.linalg import to_triangle
from rootpool.nn import METHODS, SVDTrunc, covariance_pool, make_pool

ALL = [*METHODS, "gap"]


class Network(nn.Module):
    def __init__(self, method="exact", reduction=6, **options):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 12, 3, stride=2), nn.BatchNorm2d(12), nn.ReLU())
        self.pool = make_pool(12, method, reduction, **options)
        self.classifier = nn.Linear(self.pool.out_features, 4)

    def forward(self, x):
        return self.classifier(self.pool(self.features(x)).flatten(1))


def images(*shape, seed=0):
    return matrices.random(*shape, dtype=torch.float32, seed=seed)


@pytest.mark.parametrize("method", ALL)
def test_the_gradient_of_every_parameter_is_the_slope_of_the_loss(method):
    torch.manual_seed(0)
    network = Network(method).double()
    parameters, X = list(network.parameters()), images(4, 3, 7, 7).double()

    def loss(step=0.0):
        with torch.no_grad():
            for parameter, g in zip(parameters, gradients, strict=True):
                parameter += step * g
        return nn.functional.cross_entropy(network(X), torch.arange(4))

    gradients = [torch.zeros_like(p) for p in parameters]
    gradients = torch.autograd.grad(loss(), parameters)
    assert all(g.abs().sum() > 0 for g in gradients)
    size = float(sum(g.square().sum() for g in gradients))
    step = 1e-6 / size**0.5
    slope = (loss(step) - loss(-2 * step)).item() / (2 * step)
    # Rules and iterations approximate; gradients as published and as released may be far off.
    faithful = method.endswith(("-published", "-released"))
    assert faithful or abs(slope / size - 1) < 1e-3


@pytest.mark.parametrize("method", ALL)
def test_forms_of_the_output(method):
    X = matrices.random(2, 5, 3, 4)
    forms = {
        form: make_pool(5, method, output=form) for form in ("matrix", "triangle", "isometric")
    }
    out = {form: pool(X) for form, pool in forms.items()}
    for form, pool in forms.items():
        assert out[form].flatten(1).shape == (2, pool.out_features)
        assert torch.allclose(pool(X.flatten(2)), out[form])
        assert pool(X.float()).dtype == torch.float32
    if method != "gap":
        Q, v = out["matrix"], out["isometric"]
        assert torch.allclose(to_triangle(Q), out["triangle"])
        assert torch.allclose(v @ v.mT, torch.einsum("aij,bij->ab", Q, Q), rtol=1e-12)


def test_method_can_be_changed_on_a_live_module():
    """Parameters stay the same tensors, so that an optimizer keeps them."""
    network, fresh = Network("isqrt-cov"), Network("mpn-cov")
    X = images(4, 3, 7, 7)
    parameters, before = list(network.parameters()), copy.deepcopy(network.state_dict())
    for method in ("svd-pade", SVDTrunc(bound=1e8)):
        network.pool.method = method
        assert str(network.pool.method) in repr(network)
        assert network.state_dict().keys() == before.keys()
        assert all(a is b for a, b in zip(network.parameters(), parameters, strict=True))
        features = network.pool.reduction(network.features(X))
        assert torch.equal(network.pool(network.features(X)), covariance_pool(features, method))
    fresh.load_state_dict(before)  # trained with one method, loaded with another
