"""NOG and OLR: the gradient of the layer before a covariance."""

import lightning.pytorch as pl
import pytest
import torch
from torch import nn

from rootpool.models import create_model
from rootpool.nn import CovariancePool
from rootpool.train import OrthogonalGradient, SettingsError
from small_runs import run, typed


def polar(gradient):
    U, _, Vh = torch.linalg.svd(gradient.double(), full_matrices=False)
    return U @ Vh


def best(weight, gradient, rate):
    w, g = weight.double().flatten(), gradient.double().flatten()
    eta = (w @ w) * (g @ w) / ((w @ w) * (g @ g) + 2 * (g @ w) ** 2)
    return eta if 0 < eta < rate else rate


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("rate", [1e9, 1e-30])
def test_the_gradient_is_what_the_papers_say(rate, scale, sign):
    model = nn.Sequential(nn.Conv2d(3, 4, 1), CovariancePool(4))
    weight = model[0].weight
    generator = torch.Generator().manual_seed(0)
    gradient = torch.randn(4, 3, generator=generator) + weight.detach().flatten(1)
    gradient *= sign * scale
    optimizer = torch.optim.SGD(model.parameters(), rate)
    W, Q = weight.detach().flatten(1), polar(gradient)
    for conditioning, expected in (
        ("nog", Q),
        ("olr", gradient.double() * best(W, gradient, rate) / rate),
        ("nog+olr", Q * best(W, Q, rate) / rate),
    ):
        weight.grad = gradient.view_as(weight).clone()
        callback = OrthogonalGradient(conditioning)
        callback.setup(None, model, "fit")
        callback.on_before_optimizer_step(None, model, optimizer)
        torch.testing.assert_close(
            weight.grad.flatten(1).double(), expected, rtol=1e-5, atol=1e-6 * expected.abs().max()
        )


def test_which_layer():
    for options, layer in (
        ({"reduction": 8}, lambda model: model.pool.reduction[0]),
        ({}, lambda m: [c for c in m.backbone.modules() if isinstance(c, nn.Conv2d)][-1]),
    ):
        model, callback = create_model("patchnet", "exact", 3, **options), OrthogonalGradient()
        callback.setup(None, model, "fit")
        assert callback.layer is layer(model)
    for model in (create_model("patchnet", "gap", 3), CovariancePool(3)):
        with pytest.raises(SettingsError, match="this model has none; leave it out, or choose"):
            OrthogonalGradient().setup(None, model, "fit")


@pytest.mark.slow
def test_one_key_of_a_recipe(tmp_path):
    """Gradients of every step have singular values of one, or of zero where the rank is not full."""
    values = []

    class Note(pl.Callback):
        def on_train_batch_end(self, trainer, *_):
            (found,) = [c for c in trainer.callbacks if isinstance(c, OrthogonalGradient)]
            values.append(torch.linalg.svdvals(found.layer.weight.grad.flatten(1)))

    config = typed("model.method=exact ; conditioning=nog ; trainer.max_epochs=1")
    run(tmp_path, config=config, callbacks=[Note()])
    found = torch.stack(values)
    torch.testing.assert_close(found, found.round(), rtol=0, atol=1e-4)
    assert found[:, 0].round().tolist() == [1.0] * 6
