"""Networks with covariance pooling: any backbone of timm and torchvision, and the paper's own."""

from .backbones import Backbone
from .classifier import PooledClassifier
from .factory import create_model, names
from .presets import PRESETS, Preset
from .spec import ModelSpec

__all__ = [
    "PRESETS",
    "Backbone",
    "ModelSpec",
    "PooledClassifier",
    "Preset",
    "create_model",
    "names",
]
