"""The errors of all variants in one network, and the differences that the page asks for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal, TypeAlias

from rootpool.report.statistics import Comparison, PairedDifference, compare, paired_difference
from studies.approximation.filters import ACCURATE, EXACT, NEWTON, VARIANTS

__all__ = ["ROOT", "Setting", "Tone", "cell_run", "half_effect", "iteration_runs", "tone"]

ROOT = "exact"
Tone: TypeAlias = Literal["yes", "no", "unclear"]


@dataclass(frozen=True)
class Setting:
    """A network with its data, and the final error of every variant and seed.

    Args:
        name: for tables and legends.
        about: a sentence: network, data, what the error is measured on.
        rows: mappings with ``run`` (the label of a variant), ``seed`` and ``val_error`` in per cent.
        learned: what the learned filters became, by label: one mapping per seed.
    """

    name: str
    about: str
    rows: Sequence[Mapping[str, object]]
    learned: Mapping[str, Sequence[Mapping[str, float]]] = field(default_factory=dict)

    def errors(self, run: str) -> dict[object, float]:
        """The errors of a run by seed."""
        return {r["seed"]: float(str(r["val_error"])) for r in self.rows if r["run"] == run}

    def against(self, runs: Iterable[str], baseline: str = ROOT) -> list[Comparison]:
        """Paired differences of some runs to a baseline, over the seeds that both have."""
        known = {row["run"] for row in self.rows}
        pairs = [(run, baseline) for run in runs if run in known and run != baseline]
        return compare(self.rows, pairs) if pairs and baseline in known else []

    def offset(self, run: str) -> float:
        """The mean difference of a run to the exact root, over the seeds that both have; infinite if none.

        Runs with different numbers of seeds are ordered by this: their mean errors are of different seeds.
        """
        if run == ROOT:
            return 0.0 if self.errors(ROOT) else math.inf
        return next((c.difference.mean for c in self.against([run])), math.inf)

    @property
    def seeds(self) -> str:
        """How many seeds the runs have, in words.

        >>> Setting(
        ...     "a", "", [{"run": "exact", "seed": k, "val_error": 1.0} for k in range(3)]
        ... ).seeds
        '3 seeds'
        """
        counts = {len(self.errors(run)) for run in {str(row["run"]) for row in self.rows}}
        return " or ".join(map(str, sorted(counts))) + " seeds"


def cell_run(forward: str, backward: str) -> str:
    """The label of the variant in a cell of the two-by-two."""
    wanted = {"forward": forward, "backward": backward}
    return next(v.label for v in VARIANTS if wanted.items() <= v.tags.items())


def half_effect(setting: Setting, half: str) -> PairedDifference | None:
    """Newton-Schulz against the accurate root in one half, averaged over the other, seed by seed."""
    if half == "forward":
        sides = [[cell_run(f, b) for b in (EXACT, NEWTON)] for f in (NEWTON, ACCURATE)]
    else:
        sides = [[cell_run(f, b) for f in (ACCURATE, NEWTON)] for b in (NEWTON, EXACT)]
    errors = [[setting.errors(run) for run in runs] for runs in sides]
    seeds = set.intersection(*(set(by_seed) for side in errors for by_seed in side))
    if not seeds:
        return None
    a, b = ([fmean(by_seed[seed] for by_seed in side) for seed in seeds] for side in errors)
    return paired_difference(a, b)


def iteration_runs() -> list[tuple[int, str]]:
    """The numbers of iterations in ascending order, with the labels of their variants."""
    found = {v.tags["iterations"]: v.label for v in VARIANTS if "iterations" in v.tags}
    return [(k, found[k]) for k in sorted(found)]


def tone(result: PairedDifference | Comparison) -> Tone:
    """The tone of a note on a difference in errors."""
    d = result.difference if isinstance(result, Comparison) else result
    return "unclear" if not result.clear else "yes" if d.mean < 0 else "no"
