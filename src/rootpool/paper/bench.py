"""What the training entries run: recipes of one family, on the embedded data or on the user's."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rootpool.nn import method_names
from rootpool.train.data.layouts import LAYOUTS
from rootpool.train.recipes import Recipe, load_recipe, recipe_names
from rootpool.train.settings import SettingsError, merge
from rootpool.train.study import Trial

from .demo import demo_trials

__all__ = ["FAMILIES", "WARM_UPS", "Bench", "Study"]

Run = dict[str, Any]  # a result of run_trials
WARM_UPS = (0, 1, 2, 3)
PATCHES = "patches"

# The recipes for a layout of data; others of the same layout are a matter of --recipes.
FAMILIES = {
    "cub-200-2011": "birds",
    "stanford-dogs": "dogs",
    "stanford-cars": "cars",
    "image-folder": "alexnet-imagenet",
}


def families() -> list[str]:
    """Names that recipes begin with: patches, birds, alexnet-imagenet and so on."""
    return sorted(name.removesuffix("-gap") for name in recipe_names() if name.endswith("-gap"))


@dataclass(frozen=True)
class Bench:
    """Which recipes to run, on what, and how often.

    Args:
        family: what the names of the recipes begin with.
        data: folder of the images; None for the embedded ones.
        weights: a checkpoint to start from, which fine-tuning needs.
        seeds: repetitions of every run.
    """

    family: str = PATCHES
    data: str | None = None
    weights: str | None = None
    seeds: int = 3

    def __post_init__(self) -> None:
        if self.family not in families():
            raise SettingsError(
                f"no recipes begin with {self.family!r}; there are {', '.join(families())}"
            )
        if self.seeds < 1:
            raise SettingsError(f"seeds must be positive, got {self.seeds}")
        given = {"--data": self.data, "--weights": self.weights}
        needs = self.recipe("exact").needs
        for option, what in needs.items():
            path = given[option]
            if path is None or not os.path.exists(path):
                got = "which is not given" if path is None else f"and {path} does not exist"
                raise SettingsError(f"the recipes {self.family}-* need {option} ({what}), {got}")

    @classmethod
    def of(cls, data: str | None, recipes: str | None, weights: str | None, seeds: int) -> Bench:
        """The bench for a folder of images, whose layout says which recipes are meant."""
        if data is None or recipes is not None:
            return cls(recipes or PATCHES, data, weights, seeds)
        root = Path(data)
        kinds = [layout.name for layout in LAYOUTS if None not in layout.find(root)]
        if len(kinds) != 1:
            raise SettingsError(
                f"{data} has the layout of no known data, or of several; "
                f"name the recipes to use by --recipes, one of {', '.join(families())}"
            )
        return cls(FAMILIES[kinds[0]], data, weights, seeds)

    @property
    def miniature(self) -> bool:
        """Whether these are the embedded images."""
        return self.family == PATCHES

    def recipe(self, method: str, protocol: str = "standalone") -> Recipe:
        """The recipe of a method."""
        return load_recipe(f"{self.family}-{method}" + "-hybrid" * (protocol == "hybrid"))

    @functools.cached_property
    def milestones(self) -> Sequence[int]:
        """Epochs at which the learning rate decays."""
        decays: Sequence[int] = self.recipe("exact").config["model"].get("milestones", ())
        return decays

    @functools.cached_property
    def epochs(self) -> int:
        """Epochs of a run."""
        count: int = self.recipe("exact").config["trainer"]["max_epochs"]
        return count

    @functools.cached_property
    def switch(self) -> int | None:
        """The first epoch of the second stage of hybrid runs; None where there are none."""
        if f"{self.family}-exact-hybrid" not in recipe_names():
            return None
        epoch: int = self.recipe("exact", "hybrid").config["hybrid"]["switch_epoch"]
        return epoch

    def comparison(
        self, seeds: int | None = None, methods: Sequence[str] | None = None
    ) -> list[Trial]:
        """Every method, standalone and hybrid: the runs of the demo."""
        chosen = [*method_names("ours", "paper"), "gap"] if methods is None else methods
        return self._at_home(demo_trials(chosen, seeds or self.seeds, self.family))

    def precisions(self) -> list[Trial]:
        """MPN-COV and iSQRT-COV, with the root in double and in single precision."""
        double = [
            trial
            for trial in self.comparison(methods=("mpn-cov", "isqrt-cov"))
            if trial.tags["protocol"] == "standalone"
        ]
        return [*double, *(_changed(t, "float32", _FLOAT32) for t in double)]

    def warm_ups(self) -> list[Trial]:
        """SVD-Pade hybrid with none to three epochs of warm-up, and iSQRT-COV."""
        runs = self.comparison(methods=("svd-pade", "isqrt-cov"))
        last = self.milestones[-1]
        schedules = {
            count: {"hybrid": {"switch_epoch": last - count, "warmup_epochs": count}}
            for count in WARM_UPS
        }
        return [
            *(
                _changed(trial, f"warm-up {count}", schedule, warmup=count)
                for count, schedule in schedules.items()
                for trial in runs
                if trial.tags["protocol"] == "hybrid"
            ),
            *(trial for trial in runs if trial.tags["method"] == "isqrt-cov"),
        ]

    def _at_home(self, trials: list[Trial]) -> list[Trial]:
        """With the user's images and weights, if there are any."""
        given: dict[str, Any] = {}
        if self.data is not None:
            given["data"] = {"root": self.data}
        if self.weights is not None:
            given["model"] = {"weights": self.weights}
        return [Trial(t.label, merge(t.config, given), t.tags) for t in trials] if given else trials


_FLOAT32: Mapping[str, Any] = {"model": {"compute_dtype": "float32"}}


def _changed(trial: Trial, what: str, change: Mapping[str, Any], **tags: Any) -> Trial:
    """A variant of a run, which says so in its label."""
    label = f"{trial.tags['method']}, {what}"
    return Trial(label, merge(trial.config, change), {**trial.tags, **tags})


@dataclass(frozen=True)
class Study:
    """What a training entry is measured from: its runs, with their results, and where they lie."""

    bench: Bench
    trials: Sequence[Trial]
    results: Sequence[Run]
    folder: Path = field(default_factory=Path)

    def of(self, *, protocol: str | None = None, methods: Sequence[str] | None = None) -> list[Run]:
        """The results of some of the runs."""
        return [
            run
            for run in self.results
            if (protocol is None or run["protocol"] == protocol)
            and (methods is None or run["method"] in methods)
        ]
