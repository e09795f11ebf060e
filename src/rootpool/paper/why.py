"""The trainings behind the question of the title: which part of an approximate root does the good?"""

from __future__ import annotations

from collections.abc import Sequence

from rootpool.analysis.filters import VARIANTS, Variant
from rootpool.recipes import STANDALONE, merge
from rootpool.train.study import Trial

from .plan import Plan

__all__ = ["why_trials"]


def why_trials(plan: Plan, variants: Sequence[Variant] = VARIANTS) -> list[Trial]:
    """A standalone run for each variant and seed of a plan.

    The settings are those of the recipe; only the method and its parameters change. Where they are the
    recipe's own, the run is the one that other entries train, too.

    >>> [trial.label for trial in why_trials(Plan(seeds=1))][:4]
    ['exact', 'svd-newton, 5 iterations', 'newton-exact', 'isqrt-cov']
    """
    return [trial for variant in variants for trial in _trials(plan, variant)]


def _trials(plan: Plan, variant: Variant) -> list[Trial]:
    change = {"method": variant.method} | (
        {"method_options": dict(variant.options)} if variant.options else {}
    )
    return [
        Trial(
            variant.label,
            merge(trial.config, {"model": change}),
            {**trial.tags, "method": variant.method, **variant.tags},
        )
        for trial in plan.trials([variant.method], [STANDALONE])
    ]
