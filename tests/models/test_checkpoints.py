"""Files of ours: what comes back, and what is refused."""

from dataclasses import dataclass

import pytest
import torch

import matrices
from rootpool.models import create_model, load_checkpoint, read_tensors, save_checkpoint
from rootpool.nn import CovariancePool, Method, SVDTrunc

CLASSES = 3


def images(*shape, seed=0):
    return matrices.random(*shape, dtype=torch.float32, seed=seed)


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_round_trip(tmp_path, suffix):
    torch.manual_seed(0)
    model = create_model("patchnet", "isqrt-cov", 18, reduction=8, norm=False)
    model.pool.method = SVDTrunc(bound=1e8)
    path = tmp_path / f"patches.{suffix}"
    save_checkpoint(model, path, {"classes": "brick grass"})
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    again = load_checkpoint(path)
    x = images(3, 1, 28, 28)
    assert torch.equal(again(x), model(x))
    assert again.pool.method == SVDTrunc(bound=1e8)
    assert again.spec.options == {"norm": False}
    assert read_tensors(path)[1]["classes"] == "brick grass"
    assert (
        load_checkpoint(path, pool="svd-pade").pool.method == CovariancePool(1, "svd-pade").method
    )


def test_weights_do_not_depend_on_the_method(tmp_path):
    states = []
    for method in ("exact", "svd-newton"):
        torch.manual_seed(0)
        path = tmp_path / f"{method}.safetensors"
        save_checkpoint(create_model("patchnet", method, 4), path)
        states.append(read_tensors(path)[0])
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_a_pooling_of_ones_own_has_to_be_given(tmp_path):
    model = create_model("patchnet", CovariancePool(64, reduction=4), 5)
    path = tmp_path / "own.pt"
    save_checkpoint(model, path)
    with pytest.raises(ValueError, match="does not say how its network was made; make the network"):
        load_checkpoint(path)
    other = create_model("patchnet", CovariancePool(64, reduction=4), 5)
    load_checkpoint(path, other)
    assert torch.equal(other.classifier.weight, model.classifier.weight)


@dataclass(frozen=True)
class Halved(Method):
    def __call__(self, P):
        return P / 2
