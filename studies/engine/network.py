"""The networks of a study: a family of recipes with its data, and the trials that a study makes of it."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rootpool.nn import METHODS, Method, resolve_method
from rootpool.suggest import unknown_name
from rootpool.train import Recipe, SettingsError, families, merge, recipe

from .study import Runs, Study

if TYPE_CHECKING:  # naming entries, methods and seeds does not wait for Lightning
    from .training import StudyTrial

__all__ = [
    "SMALL",
    "Network",
    "all_trials",
    "in_our_form",
    "pooling",
    "run_method",
]

# On embedded images; the first is what studies use by default: all networks of the paper have batch norm.
SMALL = {"patches-norm": "with batch norm", "patches": "without batch norm"}
# After the name of a method of the paper: our form of it, and the one of its authors' program.
FUSED, RELEASED = ", fused", ", released"
STANDALONE, HYBRID = "standalone", "hybrid"
SPECTRUM_EVERY = 21  # steps; three records per epoch of the embedded images


def in_our_form(method: str) -> str:
    """The name of our implementation of a method: itself, unless there is also a published one.

    >>> in_our_form("mpn-cov"), in_our_form("isqrt-cov")
    ('mpn-cov, fused', 'isqrt-cov')
    """
    return method + FUSED if f"{method}-published" in METHODS else method


def pooling(name: str, published: bool = True) -> tuple[str, str]:
    """For the method of a run: the method whose recipe it has, and the method that it trains.

    >>> pooling("svd-trunc"), pooling("svd-trunc, fused")
    (('svd-trunc', 'svd-trunc-published'), ('svd-trunc', 'svd-trunc'))
    >>> pooling("svd-trunc, released")
    ('svd-trunc', 'svd-trunc-released')
    """
    if name.endswith(RELEASED):
        base = name.removesuffix(RELEASED)
        return base, f"{base}-released"
    base = name.removesuffix(FUSED)
    as_published = published and base == name and f"{base}-published" in METHODS
    return base, f"{base}-published" if as_published else base


def run_method(name: str) -> Method:
    """The method that a name of a run stands for: as published, unless it says fused.

    >>> run_method("svd-trunc"), run_method("svd-trunc, fused")
    (SVDTruncPublished(bound=10000000000.0), SVDTrunc(bound=10000000000.0))
    """
    return resolve_method(pooling(name)[1])


@dataclass(frozen=True)
class Network:
    """A family of recipes, its data, and how often everything is trained.

    Args:
        family: the family of recipes.
        data: folder of the images; None for the recipe's own.
        weights: a checkpoint to start from, which fine-tuning needs.
        seeds: repetitions of every training.
        deciding: repetitions of those that an answer rests on; None for as many.
        kind: what the runs and parts of a study are chosen by, such as ``small`` or ``birds``.
        name: for tables; by default what is known of the family.
        change: what is merged into every recipe.
    """

    family: str
    data: str | None = None
    weights: str | None = None
    seeds: int = 3
    deciding: int | None = None
    kind: str = "small"
    name: str = ""
    change: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.family not in families():
            raise SettingsError(
                unknown_name("family of recipes", self.family, families(), "rootpool recipes")
            )
        if min(self.seeds, self.deciding or 1) < 1:
            raise SettingsError(f"seeds must be positive, got {self.seeds} and {self.deciding}")
        given = {"--data": self.data, "--weights": self.weights}
        for option, what in self.recipe().needs.items():
            path = given[option]
            if path is None or not os.path.exists(path):
                got = "which is not given" if path is None else f"and {path} does not exist"
                raise SettingsError(f"the recipes {self.family}-* need {option} ({what}), {got}")

    @classmethod
    def for_data(cls, data: str | None, recipes: str | None = None, **options: Any) -> Network:
        """The network for a folder of images, whose layout decides on the recipes if none are named.

        Recipes that start from a checkpoint are meant where one is given, the others where none is.
        """
        if data is None or recipes is not None:
            return cls(recipes or next(iter(SMALL)), data, **options)
        from rootpool.train.data.layouts import LAYOUTS

        layouts = [layout.name for layout in LAYOUTS if None not in layout.find(Path(data))]
        fitting = [family for family in families().values() if family.layout in layouts]
        given = options.get("weights") is not None
        meant = [family for family in fitting if (family.fine_tunes is not None) == given]
        found = [family.name for family in meant or fitting]
        if len(found) != 1:
            raise SettingsError(
                f"the layout of {data} does not say which recipes to use; choose them with "
                f"--recipes, one of {', '.join(families())}"
            )
        return cls(found[0], data, **options)

    @property
    def called(self) -> str:
        """What tables call it."""
        return self.name or SMALL.get(self.family, self.family)

    @property
    def about(self) -> str:
        """The network and its data in a sentence."""
        data = "" if self.data is None else f", {Path(self.data).name}"
        backbone = self.change.get("model", {}).get("backbone")
        own = f"{backbone}, otherwise as " if backbone else ""
        return f"{own}{families()[self.family].about}{data}, recipes {self.family}-*"

    @property
    def reported_as(self) -> str:
        """The family of the paper in whose columns the results are."""
        return families()[self.family].reported_as or self.family

    @functools.cached_property
    def milestones(self) -> Sequence[int]:
        """Epochs at which the learning rate decays."""
        return self.recipe().config["model"].get("milestones") or ()

    @functools.cached_property
    def epochs(self) -> int:
        """Epochs of a run."""
        count: int = self.recipe().config["trainer"]["max_epochs"]
        return count

    @functools.cached_property
    def switch(self) -> int | None:
        """The first epoch of the second stage of hybrid runs; None if the family has no such runs."""
        schedule = families()[self.family].hybrid
        return None if schedule is None else int(schedule["switch_epoch"])

    def recipe(self, method: str = "exact", protocol: str = STANDALONE) -> Recipe:
        """The recipe of a method."""
        return recipe(self.family, method, hybrid=protocol == HYBRID)

    def method(self, name: str) -> Method:
        """The method of a run by its name, with the options of its recipe.

        >>> Network("patches").method("svd-topn")
        SVDTopNPublished(count=50)
        """
        base, trained = pooling(name)
        model = self.recipe(base).config["model"]
        return resolve_method(trained, **model.get("method_options") or {})

    # ----------------------------------------------------------------------------------------------
    # Trials

    def trials(self, runs: Runs, published: bool = False) -> list[StudyTrial]:
        """A run for each method, protocol and seed.

        >>> block = Runs(["isqrt-cov", "mpn-cov, fused"], ["standalone", "hybrid"])
        >>> [trial.label for trial in Network("patches", seeds=1).trials(block)]
        ['isqrt-cov', 'mpn-cov, fused', 'mpn-cov, fused, hybrid']
        """
        if runs.where and self.kind not in runs.where:
            return []
        found = []
        for method in runs.methods:
            base, _ = pooling(method)
            fixed = self.switch is None or base in ("gap", "isqrt-cov")
            known = (STANDALONE,) if fixed else (STANDALONE, HYBRID)
            options = [{name: v} for name, own in runs.over.items() for v in own] or [{}]
            for protocol in (protocol for protocol in runs.protocols if protocol in known):
                for option in options:
                    found += self._repeated(runs, method, protocol, option, published)
        return found

    def _repeated(
        self, runs: Runs, method: str, protocol: str, option: dict[str, Any], published: bool
    ) -> list[StudyTrial]:
        from .training import StudyTrial

        base, trained = pooling(method, published)
        label = runs.name.format(method=method, **option) + f", {HYBRID}" * (protocol == HYBRID)
        own = self.recipe(base, protocol).config
        config = merge(own, {"model": {"method": trained}}, self._given, runs.change)
        if self.data is None:
            config = merge(config, runs.small)
        if option:
            config = merge(config, {"model": {"method_options": option}})
        if runs.warmup is not None and protocol == HYBRID:
            last = config["model"]["milestones"][-1]
            schedule = {"switch_epoch": last - runs.warmup, "warmup_epochs": runs.warmup}
            config = merge(config, {"hybrid": schedule})
        deciding = (self.deciding if runs.deciding else None) or self.seeds
        tags = {"method": method, "protocol": protocol, **runs.tags, **option}
        return [
            StudyTrial(label, merge(config, {"seed": seed}), {**tags, "seed": seed})
            for seed in range(runs.seeds or deciding)
        ]

    @property
    def _given(self) -> dict[str, Any]:
        """The user's images and weights, if there are any."""
        given: dict[str, Any] = {"spectrum_every": SPECTRUM_EVERY}
        if self.data is not None:
            given["data"] = {"root": self.data}
        if self.weights is not None:
            given["model"] = {"weights": self.weights}
        return merge(given, self.change)


def all_trials(study: Study, network: Network, names: Sequence[str]) -> list[StudyTrial]:
    """The trials of a network by the names of their runs; where two have the same label, the first."""
    found: dict[tuple[str, int], StudyTrial] = {}
    for name in names:
        for trial in network.trials(study.runs[name], study.published):
            found.setdefault((trial.label, trial.tags["seed"]), trial)
    return list(found.values())
