"""Training: recipes, the hybrid protocol, data, studies. Needs the extra ``train``."""

from rootpool.recipes import Recipe, SettingsError, load_recipe, recipe_names

from .conditioning import OrthogonalGradient
from .datamodule import ImageData
from .evaluation import TrainedRun, evaluate, load_run, predict
from .hybrid import HybridProtocol, HybridSchedule
from .module import PooledTraining
from .nonfinite import NonFiniteError
from .replay import Replay, replay
from .run import Run, build, prepare
from .settings import resolve

__all__ = [
    "HybridProtocol",
    "HybridSchedule",
    "ImageData",
    "NonFiniteError",
    "OrthogonalGradient",
    "PooledTraining",
    "Recipe",
    "Replay",
    "Run",
    "SettingsError",
    "TrainedRun",
    "build",
    "evaluate",
    "load_recipe",
    "load_run",
    "predict",
    "prepare",
    "recipe_names",
    "replay",
    "resolve",
]
