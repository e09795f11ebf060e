"""The trainings that entries are measured from: recipes of one family, on embedded data or the user's."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rootpool.nn import METHODS, Method, resolve_method
from rootpool.suggest import unknown_name
from rootpool.train import (
    Recipe,
    SettingsError,
    families,
    merge,
    recipe,
)

if TYPE_CHECKING:  # naming entries, methods and seeds does not wait for Lightning
    from rootpool.train.study import Trial

__all__ = [
    "FUSED",
    "MINIATURES",
    "OURS",
    "PATCHES",
    "WARM_UPS",
    "Measured",
    "Plan",
    "Run",
    "in_our_form",
    "named_methods",
    "run_method",
]

Run = dict[str, Any]  # see command.run_record
PATCHES = "patches"  # the family of recipes for the embedded photographs
MINIATURES = (PATCHES, "patches-norm")  # without and with batch norm
FUSED = "{}, fused"  # what a method of the paper is called in our form; its own name is the published form
OURS = (FUSED.format("mpn-cov"), "exact")  # trained beside the paper's methods, and never judged
STANDALONE, HYBRID = "standalone", "hybrid"
PROTOCOLS = (STANDALONE, HYBRID)
WARM_UPS = (0, 1, 2, 3)
SPECTRUM_EVERY = 21  # steps; three records per epoch


def in_our_form(method: str) -> str:
    """The name of our form of a method: itself, unless there is also a published one.

    >>> in_our_form("mpn-cov"), in_our_form("isqrt-cov")
    ('mpn-cov, fused', 'isqrt-cov')
    """
    return FUSED.format(method) if _has_published_form(method) else method


def _has_published_form(method: str) -> bool:
    return f"{method}-published" in METHODS


def run_method(name: str) -> Method:
    """The method that a name of a run stands for: as published, unless it says fused.

    >>> run_method("svd-trunc"), run_method("svd-trunc, fused")
    (SVDTruncPublished(bound=10000000000.0), SVDTrunc(bound=10000000000.0))
    """
    return resolve_method(_pooling(name)[1])


def _pooling(name: str) -> tuple[str, str]:
    """For the name of a run: the method whose recipe it has, and the method that it trains."""
    for method in METHODS:
        if name == FUSED.format(method):
            return method, method
    return name, f"{name}-published" if _has_published_form(name) else name


def pooling_names() -> list[str]:
    """Average pooling, and all methods but the baselines."""
    return sorted(["gap", *(name for name, m in METHODS.items() if m.source != "baseline")])


def named_methods(names: Sequence[str] | None) -> tuple[str, ...] | None:
    """The methods that a command line names: ``all`` for every one with a recipe, None for none."""
    if names is None:
        return None
    return tuple(pooling_names()) if list(names) == ["all"] else tuple(names)


@dataclass(frozen=True)
class Plan:
    """Which recipes to train, on what, and how often.

    Args:
        family: the family of recipes.
        data: folder of the images; None for the embedded ones.
        weights: a checkpoint to start from, which fine-tuning needs.
        seeds: repetitions of every training.
        methods: those to train where an entry compares methods, as published and in our form; None for the
            entry's own as published, and ours.
    """

    family: str = PATCHES
    data: str | None = None
    weights: str | None = None
    seeds: int = 3
    methods: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.family not in families():
            raise SettingsError(
                unknown_name("family of recipes", self.family, families(), "rootpool recipes")
            )
        if self.seeds < 1:
            raise SettingsError(f"seeds must be positive, got {self.seeds}")
        for method in self.methods or ():
            if method not in pooling_names():
                raise SettingsError(unknown_name("method", method, pooling_names()))
        given = {"--data": self.data, "--weights": self.weights}
        for option, what in self.recipe().needs.items():
            path = given[option]
            if path is None or not os.path.exists(path):
                got = "which is not given" if path is None else f"and {path} does not exist"
                raise SettingsError(f"the recipes {self.family}-* need {option} ({what}), {got}")

    @classmethod
    def for_data(cls, data: str | None, recipes: str | None = None, **options: Any) -> Plan:
        """The plan for a folder of images, whose layout decides on the recipes if none are named.

        Recipes that start from a checkpoint are meant where one is given, the others where none is.
        """
        if data is None or recipes is not None:
            return cls(recipes or PATCHES, data, **options)
        from rootpool.train.data.layouts import LAYOUTS

        root = Path(data)
        layouts = [layout.name for layout in LAYOUTS if None not in layout.find(root)]
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
    def reported_as(self) -> str:
        """The family of the paper in whose columns the results are."""
        return families()[self.family].reported_as or self.family

    @property
    def miniature(self) -> bool:
        """Whether the trainings use the embedded images."""
        return self.data is None

    def recipe(self, method: str = "exact", protocol: str = STANDALONE) -> Recipe:
        """The recipe of a method, which must exist."""
        return recipe(self.family, method, hybrid=protocol == HYBRID)

    def _protocols(self, method: str) -> tuple[str, ...]:
        """Those of a method: a hybrid training switches from isqrt-cov to another covariance root."""
        fixed = self.switch is None or method in ("gap", "isqrt-cov")
        return (STANDALONE,) if fixed else PROTOCOLS

    @functools.cached_property
    def milestones(self) -> Sequence[int]:
        """Epochs at which the learning rate decays."""
        decays: Sequence[int] = self.recipe().config["model"].get("milestones", ())
        return decays

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

    def method(self, name: str) -> Method:
        """The method of a run by its name, with the options of its recipe.

        >>> Plan().method("svd-topn")
        SVDTopNPublished(count=50)
        """
        model = self.trials([name], [STANDALONE], 1)[0].config["model"]
        return resolve_method(model["method"], **model.get("method_options") or {})

    # ----------------------------------------------------------------------------------------------
    # Trials

    def trials(
        self,
        methods: Sequence[str],
        protocols: Sequence[str] = PROTOCOLS,
        seeds: int | None = None,
    ) -> list[Trial]:
        """A run for each method, protocol and seed for which there is a recipe.

        The methods of the paper have their gradients as published; with ``, fused`` after the name, ours.

        >>> [trial.label for trial in Plan(seeds=1).trials(["isqrt-cov", "mpn-cov, fused"])]
        ['isqrt-cov', 'mpn-cov, fused', 'mpn-cov, fused, hybrid']
        """
        from rootpool.train.study import Trial

        found = []
        for method in methods:
            name, form = _pooling(method)
            known = self._protocols(name)
            for protocol in (protocol for protocol in protocols if protocol in known):
                shared = self.recipe(name, protocol).config
                label = method if protocol == STANDALONE else f"{method}, {protocol}"
                for seed in range(seeds or self.seeds):
                    own = {"seed": seed, "spectrum_every": SPECTRUM_EVERY}
                    tags = {"method": method, "protocol": protocol, "seed": seed}
                    config = merge(shared, {"model": {"method": form}}, own, self._given)
                    found.append(Trial(label, config, tags))
        return found

    def comparison(self, methods: Sequence[str]) -> list[Trial]:
        """The methods of an entry and ours, or those that the plan asks for, in both protocols."""
        if self.methods is None:
            return self.trials([*methods, *OURS])
        return self.trials(
            list(dict.fromkeys(form for m in self.methods for form in (m, in_our_form(m))))
        )

    def precisions(self, methods: Sequence[str]) -> list[Trial]:
        """Runs with the root in double and in single precision, as published and in our form."""
        runs = self.trials(
            list(dict.fromkeys(form for m in methods for form in (m, in_our_form(m))))
        )
        single = {"model": {"compute_dtype": "float32"}}
        return [
            *(_variant(trial, trial.label, {}, precision="float64") for trial in runs),
            *(_variant(t, f"{t.label}, float32", single, precision="float32") for t in runs),
        ]

    def warm_ups(self, method: str, baseline: str) -> list[Trial]:
        """Hybrid runs with different numbers of warm-up epochs, and a standalone baseline."""
        last = self.milestones[-1]
        return [
            *(
                _variant(
                    trial,
                    f"{method}, warm-up {count}",
                    {"hybrid": {"switch_epoch": last - count, "warmup_epochs": count}},
                    warmup=count,
                )
                for count in WARM_UPS
                for trial in self.trials([method], [HYBRID])
            ),
            *self.trials([baseline], [STANDALONE]),
        ]

    @property
    def _given(self) -> dict[str, Any]:
        """The user's images and weights, if there are any."""
        given: dict[str, Any] = {}
        if self.data is not None:
            given["data"] = {"root": self.data}
        if self.weights is not None:
            given["model"] = {"weights": self.weights}
        return given


def _variant(trial: Trial, label: str, change: Mapping[str, Any], **tags: Any) -> Trial:
    """A run with other settings, which its label and its tags say."""
    from rootpool.train.study import Trial

    return Trial(label, merge(trial.config, change), {**trial.tags, **tags})


@dataclass(frozen=True)
class Measured:
    """What a trained entry is measured from: its runs with their results, and the folder of the runs."""

    plan: Plan
    trials: Sequence[Trial]
    results: Sequence[Run]
    folder: Path = field(default_factory=Path)

    def runs(self, **tags: Any) -> list[Run]:
        """The results of the runs that have these tags, each with its ``label`` and ``tags``.

        From where a run diverged on, its errors are those of guessing.
        """
        return [
            {**self._to_the_end(result), "label": trial.label, "tags": dict(trial.tags)}
            for trial, result in zip(self.trials, self.results, strict=True)
            if all(trial.tags.get(tag) == value for tag, value in tags.items())
        ]

    def _to_the_end(self, result: Run) -> Run:
        if result.get("diverged") is None:
            return result
        classes = result["classes"]
        guess, guess5 = (100 * (1 - min(k, classes) / classes) for k in (1, 5))
        lost = {"train_error": guess, "val_error": guess, "val_error5": guess5}
        curves = list(result["curves"])
        curves += [{"epoch": epoch, **lost} for epoch in range(len(curves), self.plan.epochs)]
        return {**result, "curves": curves}
