"""Training: recipes, the hybrid protocol, data, studies. Needs the extra ``train``."""

from .datamodule import ImageData
from .evaluation import TrainedRun, evaluate, load_run, predict
from .hybrid import HybridProtocol, HybridSchedule, covariance_pools, set_method
from .module import PooledTraining
from .recipes import Recipe, load_recipe, recipe_names
from .run import Run, prepare
from .settings import SettingsError, resolve

__all__ = [
    "HybridProtocol",
    "HybridSchedule",
    "ImageData",
    "PooledTraining",
    "Recipe",
    "Run",
    "SettingsError",
    "TrainedRun",
    "covariance_pools",
    "evaluate",
    "load_recipe",
    "load_run",
    "predict",
    "prepare",
    "recipe_names",
    "resolve",
    "set_method",
]
