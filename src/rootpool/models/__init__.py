"""Networks with covariance pooling: backbones of timm and torchvision, and the paper's own."""

try:
    import safetensors  # noqa: F401
    import timm  # noqa: F401
    import torchvision  # noqa: F401
except ImportError as error:
    raise ImportError(
        "rootpool.models needs torchvision, timm and safetensors: pip install 'rootpool[models]'"
    ) from error

from .backbones import Backbone
from .checkpoints import load_checkpoint, save_checkpoint
from .classifier import PooledClassifier
from .cut import split_at_frozen
from .export import EXPORTABLE, export_onnx, export_program
from .factory import create_model, list_models, pretrained_input
from .files import read_tensors
from .groups import parameter_groups
from .presets import PRESETS, Preset
from .spec import ModelSpec
from .stages import Stages

__all__ = [
    "EXPORTABLE",
    "PRESETS",
    "Backbone",
    "ModelSpec",
    "PooledClassifier",
    "Preset",
    "Stages",
    "create_model",
    "export_onnx",
    "export_program",
    "list_models",
    "load_checkpoint",
    "parameter_groups",
    "pretrained_input",
    "read_tensors",
    "save_checkpoint",
    "split_at_frozen",
]
