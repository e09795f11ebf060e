"""Training: recipes, the hybrid protocol, data, studies. Needs the extra ``train``.

Recipes and settings need no torch; the rest of the names is imported at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rootpool.lazy import lazy_names

from .config import SettingsError, apply_overrides, merge
from .recipe import Family, Recipe, families, load_recipe, recipe
from .settings import (
    DataSettings,
    HybridSchedule,
    ModelSettings,
    Settings,
    TrainerSettings,
    resolve,
)

if TYPE_CHECKING:
    from .conditioning import OrthogonalGradient
    from .datamodule import ImageData
    from .evaluation import TrainedRun, evaluate, load_run, predict
    from .hybrid import HybridProtocol
    from .module import PooledTraining
    from .nonfinite import NonFiniteError
    from .run import Run, build, prepare

__all__ = [
    "DataSettings",
    "Family",
    "HybridProtocol",
    "HybridSchedule",
    "ImageData",
    "ModelSettings",
    "NonFiniteError",
    "OrthogonalGradient",
    "PooledTraining",
    "Recipe",
    "Run",
    "Settings",
    "SettingsError",
    "TrainedRun",
    "TrainerSettings",
    "apply_overrides",
    "build",
    "evaluate",
    "families",
    "load_recipe",
    "load_run",
    "merge",
    "predict",
    "prepare",
    "recipe",
    "resolve",
]

__getattr__ = lazy_names(
    __name__,
    __all__,
    ("conditioning", "datamodule", "evaluation", "hybrid", "module", "nonfinite", "run"),
)
