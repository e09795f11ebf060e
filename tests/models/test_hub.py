"""A network goes into a folder of the Hugging Face hub and comes back, without a connection."""

import json

import pytest
import torch

from rootpool.models import create_model

hub = pytest.importorskip("rootpool.models.hub", reason="needs the extra hub")


def test_folder_holds_the_network(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "hf_hub_download", None)  # nothing is fetched
    network = create_model("patchnet", "svd-pade", num_classes=3).eval()
    hub.HubClassifier(network).save_pretrained(tmp_path)
    assert {"model.safetensors", "config.json"} <= {path.name for path in tmp_path.iterdir()}
    assert json.loads((tmp_path / "config.json").read_text())["name"] == "patchnet"
    images = torch.randn(2, 1, 28, 28)
    loaded = hub.HubClassifier.from_pretrained(tmp_path).eval()
    assert torch.equal(loaded(images), network(images))
    assert loaded.network.pool.method == network.pool.method
    other = hub.HubClassifier.from_pretrained(tmp_path, num_classes=5, pool="exact")
    assert other(images).shape == (2, 5)
