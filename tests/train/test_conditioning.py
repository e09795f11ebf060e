"""NOG and OLR: the gradient of the layer before a covariance."""

import lightning.pytorch as pl
import pytest
import torch
from torch import nn

import matrices
import oracles
from rootpool.models import create_model
from rootpool.nn import CovariancePool
from rootpool.train import OrthogonalGradient, SettingsError, merge, resolve
from rootpool.train.conditioning import layer_before, optimal_rate
from rootpool.train.trainer import quiet_lightning
from small_runs import NUMBERED, run


class Small(pl.LightningModule):
    def __init__(self, rate=0.5):
        super().__init__()
        self.layer, self.pool, self.rate = nn.Conv2d(3, 4, 1), CovariancePool(4), rate

    def training_step(self, batch, index):
        return self.pool(self.layer(batch)).square().sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), self.rate)


def one_step(conditioning, rate=0.5):
    """The weight before and after one step, and the gradient that a plain step would use."""
    torch.manual_seed(0)
    module = Small(rate)
    images = matrices.random(2, 3, 4, 4, dtype=torch.float32)
    before = module.layer.weight.detach().clone()
    (gradient,) = torch.autograd.grad(module.training_step(images, 0), module.layer.weight)
    trainer = pl.Trainer(
        max_steps=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[OrthogonalGradient(conditioning)],
    )
    with quiet_lightning():
        trainer.fit(module, torch.utils.data.DataLoader(images, batch_size=2))
    return before.flatten(1), module.layer.weight.detach().flatten(1), gradient.flatten(1)


def polar(A):
    U = oracles.polar_factor(oracles.digits(A.double()))
    return torch.tensor(U.tolist(), dtype=torch.float64).reshape(A.shape).float()


def best(w, g, rate):
    w, g = w.double().flatten(), g.double().flatten()
    eta = (w @ w) * (g @ w) / ((w @ w) * (g @ g) + 2 * (g @ w) ** 2)
    return float(eta) if 0 < eta < rate else rate


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.5, 1e-4])
def test_a_step_is_what_the_papers_say(rate):
    before, after, g = one_step("nog", rate)
    assert torch.allclose(after, before - rate * polar(g), atol=1e-5)
    before, after, g = one_step("olr", rate)
    assert torch.allclose(after, before - best(before, g, rate) * g, atol=1e-5)
    before, after, g = one_step("nog+olr", rate)
    Q = polar(g)
    assert torch.allclose(after, before - best(before, Q, rate) * Q, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_the_optimal_rate_at_every_scale(scale):
    w, g = matrices.random(4, 3), matrices.random(4, 3, seed=1)
    g = g * torch.sign((w * g).sum())
    expected = best(w, g, 1e9)
    got = optimal_rate((w * scale).float(), (g * scale).float(), 1e9)
    assert float(got) == pytest.approx(expected, rel=1e-5)
    assert float(optimal_rate(w, -g, 0.1)) == pytest.approx(0.1)
    assert float(optimal_rate(w, g * 0, 0.1)) == pytest.approx(0.1)


def test_which_layer():
    with_reduction = create_model("patchnet", "exact", 3, reduction=8)
    assert layer_before(with_reduction) is with_reduction.pool.reduction[0]
    plain = create_model("patchnet", "exact", 3)
    convolutions = [m for m in plain.backbone.modules() if isinstance(m, nn.Conv2d)]
    assert layer_before(plain) is convolutions[-1]
    for model in (create_model("patchnet", "gap", 3), CovariancePool(3)):
        with pytest.raises(
            SettingsError, match=r"this model has none; leave it out, .*layer=\.\.\."
        ):
            layer_before(model)


def test_bad_settings():
    with pytest.raises(SettingsError, match=r"must be one of nog, olr, nog\+olr, got 'nag'"):
        OrthogonalGradient("nag")
    with pytest.raises(SettingsError, match=r"conditioning must be nog, olr, nog\+olr or null"):
        resolve({"conditioning": "nag"})


@pytest.mark.slow
def test_one_key_of_a_recipe(tmp_path):
    config = merge(NUMBERED, {"model": {"method": "exact"}, "conditioning": "nog+olr"})
    done = run(tmp_path, config=merge(config, {"trainer": {"max_epochs": 1}}))
    (callback,) = [c for c in done.trainer.callbacks if isinstance(c, OrthogonalGradient)]
    assert callback.conditioning == "nog+olr"
    assert callback.layer is layer_before(done.module)
