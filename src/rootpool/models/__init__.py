"""Networks with covariance pooling: any backbone of timm and torchvision, and the paper's own."""

from .backbones import Backbone
from .classifier import PooledClassifier
from .factory import create_model, names
from .presets import PRESETS, Preset
from .spec import ModelSpec
from .stages import Frozen, Stages

__all__ = [
    "PRESETS",
    "Backbone",
    "Frozen",
    "ModelSpec",
    "PooledClassifier",
    "Preset",
    "Stages",
    "create_model",
    "names",
]
