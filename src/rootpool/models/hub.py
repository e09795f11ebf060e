"""Trained networks as folders of the Hugging Face hub. Needs the extra ``hub``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from huggingface_hub import ModelHubMixin, hf_hub_download
from torch import Tensor, nn

from rootpool.files import write_atomically

from .checkpoints import load_checkpoint, save_checkpoint
from .classifier import PooledClassifier

WEIGHTS, CONFIG = "model.safetensors", "config.json"


class HubClassifier(nn.Module, ModelHubMixin, library_name="rootpool"):
    """A network with ``save_pretrained``, ``from_pretrained`` and ``push_to_hub``.

    A folder or a repository of the hub holds ``model.safetensors``, which says how the network was made,
    and ``config.json``, the same for readers. Nothing in it is executed.

    Args:
        network: from :func:`rootpool.models.create_model`.

    >>> import tempfile
    >>> from rootpool.models import create_model
    >>> folder = tempfile.mkdtemp()
    >>> _ = HubClassifier(create_model("patchnet", num_classes=18)).save_pretrained(folder)
    >>> HubClassifier.from_pretrained(folder).network.num_classes
    18
    """

    def __init__(self, network: PooledClassifier) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network(images)
        return logits

    def _save_pretrained(self, save_directory: Path) -> None:
        save_checkpoint(self.network, save_directory / WEIGHTS)
        spec = self.network.spec
        config = {} if spec is None else json.loads(spec.to_json())
        write_atomically(save_directory / CONFIG, json.dumps(config, indent=2))

    @classmethod
    def _from_pretrained(
        cls, *, model_id: str, pool: str | None = None, num_classes: int | None = None, **fetch: Any
    ) -> HubClassifier:
        """From a folder, or else from a repository; pool and classes as in ``load_checkpoint``."""
        path = Path(model_id) / WEIGHTS
        if not path.is_file():
            path = Path(hf_hub_download(model_id, WEIGHTS, **fetch))
        return cls(load_checkpoint(path, pool=pool, num_classes=num_classes))
