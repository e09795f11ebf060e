"""Networks with covariance pooling: any backbone of timm and torchvision, and the paper's own."""

from .backbones import Backbone
from .classifier import PooledClassifier
from .factory import create_model, names
from .presets import PRESETS, Preset
from .spec import ModelSpec
from .stages import StageFeatures

__all__ = [
    "PRESETS",
    "Backbone",
    "ModelSpec",
    "PooledClassifier",
    "Preset",
    "StageFeatures",
    "create_model",
    "names",
]
