"""A pooling method as CONTRIBUTING adds it: one registered class, and everything knows it."""

import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from unittest import mock

import pytest
import torch
from torch import Tensor

from rootpool.linalg import sqrtm
from rootpool.models import create_model, load_checkpoint, save_checkpoint
from rootpool.nn import METHODS, CovariancePool, Method, register
from rootpool.train import build, recipe, resolve

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Shrinkage(Method):
    """The root of a covariance that is shrunk towards a multiple of the identity.

    >>> Shrinkage(share=1)(torch.tensor([[1.0, 0.0], [0.0, 7.0]]))
    tensor([[2., 0.],
            [0., 2.]])
    """

    name: ClassVar[str] = "shrinkage"
    source: ClassVar[str] = "ours"
    use: ClassVar[str] = "with many channels and few positions"

    share: float = 0.1

    def __call__(self, P: Tensor) -> Tensor:
        variance = P.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
        identity = torch.eye(P.shape[-1], dtype=P.dtype, device=P.device)
        return sqrtm((1 - self.share) * P + self.share * variance * identity)


@pytest.fixture(autouse=True)
def registered():
    with mock.patch.dict(METHODS):
        yield register(Shrinkage)


def test_a_layer_pools_with_it():
    features = torch.randn(2, 6, 4, dtype=torch.float64, requires_grad=True)
    pool = CovariancePool(6, "shrinkage")
    assert torch.autograd.gradcheck(pool, features)


def test_it_is_in_the_table_of_the_readme():
    rows = runpy.run_path(str(ROOT / "scripts" / "site_tables.py"))["methods"]()
    assert "`Shrinkage(share=0.1)`" in rows
    assert "with many channels and few positions" in rows


def test_networks_and_recipes_know_it(tmp_path):
    save_checkpoint(create_model("patchnet", "shrinkage", 4), tmp_path / "own.safetensors")
    assert load_checkpoint(tmp_path / "own.safetensors").pool.method == Shrinkage()
    module, _ = build(resolve(recipe("patches", "shrinkage", hybrid=True).config))
    assert module.model.pool.method == Shrinkage()


def test_plots_draw_it():
    pytest.importorskip("matplotlib")
    from rootpool.report.plots import learning_curves

    run = {"run": "a", "method": "shrinkage", "protocol": "standalone", "seed": 0}
    curve = [run | {"epoch": epoch, "val_error": 50.0 - epoch} for epoch in range(3)]
    assert learning_curves(curve).axes
