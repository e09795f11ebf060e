"""Training: recipes, the hybrid protocol, data, studies. Needs the extra ``train``.

Recipes and settings need no torch; the rest of the names is imported at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

_MODULES = {
    "HybridProtocol": "hybrid",
    "ImageData": "datamodule",
    "NonFiniteError": "nonfinite",
    "OrthogonalGradient": "conditioning",
    "PooledTraining": "module",
    "Run": "run",
    "TrainedRun": "evaluation",
    "build": "run",
    "evaluate": "evaluation",
    "load_run": "evaluation",
    "predict": "evaluation",
    "prepare": "run",
}

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


def __getattr__(name: str) -> Any:
    """Import what needs torch and Lightning at first use."""
    import importlib

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
