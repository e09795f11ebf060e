"""``python -m studies approximation``: the trainings behind the question of the title, and their page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rootpool.train.jobs import stable_key, versions

from rootpool.models.files import load_weights_only
from rootpool.nn import METHODS
from rootpool.report.records import Record, read_records, write_records
from rootpool.train import families, merge
from rootpool.train.run import LAST
from rootpool.train.study import Trial
from studies.approximation.filters import VARIANTS, Variant
from studies.methods import learned_values
from studies.paper.command import train, write_page
from studies.paper.plan import MINIATURES, Measured, Plan
from studies.paper.rows import endings

from .answers import LEARNED
from .failure import watch_training
from .page import approximation_page
from .setting import Setting

__all__ = ["Heads", "approximation", "approximation_trials", "failure_traces", "setting_of"]

# MPN-COV as published: where, and in which precision.
WATCHED = (("patches-norm", "float32"), ("patches-norm", "float64"), ("patches", "float32"))


# Exponents are a side question, and real data take time.
WITHOUT_EXPONENTS = [v for v in VARIANTS if v.decides or "exponent" not in v.tags]


class VariantTrial(Trial):
    """A run with a method of :mod:`studies.methods`: the process that gets it imports that, too."""


def approximation_trials(
    plan: Plan, deciding: int | None = None, variants: Sequence[Variant] = VARIANTS
) -> list[Trial]:
    """A standalone run for each variant and seed of a plan.

    Args:
        plan: the recipes and the seeds.
        deciding: seeds of the variants that answers rest on; None for those of the plan.
        variants: what to train.

    The settings are those of the recipe; only the method and its parameters change. Where they are the
    recipe's own, the run is the one that other entries train, too.

    >>> [trial.label for trial in approximation_trials(Plan(seeds=1))][:4]
    ['exact', 'svd-newton, 5 iterations', 'newton-exact', 'isqrt-cov']
    """
    more = replace(plan, seeds=deciding or plan.seeds)
    return [t for v in variants for t in _trials(more if v.decides else plan, v)]


def _trials(plan: Plan, variant: Variant) -> list[Trial]:
    change = {"method": variant.method} | (
        {"method_options": dict(variant.options)} if variant.options else {}
    )
    return [
        VariantTrial(
            variant.label,
            merge(trial.config, {"model": change}),
            {**trial.tags, "method": variant.method, **variant.tags},
        )
        for trial in plan.trials([variant.method], ["standalone"])
    ]


def approximation(
    output: str | Path = "runs/approximation",
    *,
    runs: str | Path | None = None,
    seeds: int = 5,
    deciding_seeds: int | None = None,
    large_seeds: int = 3,
    large_deciding_seeds: int | None = None,
    workers: int | None = None,
    data: str | None = None,
    birds: str | None = None,
    features: str | Path = "runs/birds",
    steps: int = 252,
    markdown: str | Path | None = None,
) -> int:
    """Train what has no result yet, and write the page.

    Args:
        output: folder of the results and the page.
        runs: folder of the trainings, which commands can share; by default in the output.
        seeds: repetitions of every training of the miniatures.
        deciding_seeds: those of the two-by-two and the learned filters; None for the same number.
        large_seeds: repetitions of the others.
        large_deciding_seeds: those of the two-by-two and the learned filters; None for the same number.
        workers: trainings at a time; None for one per core.
        data: images for a third network, by the recipes that their layout says.
        birds: CUB-200-2011, for heads on frozen features.
        features: the folder of ``python -m studies birds``, where these features are kept.
        steps: of the trainings that are watched.
        markdown: where to write the Markdown page instead of the output.
    """
    output, console = Path(output), Console(highlight=False)
    runs = Path(runs or output / "runs")
    small = [Plan(family, seeds=seeds) for family in MINIATURES]
    trials = {plan: approximation_trials(plan, deciding_seeds) for plan in small}
    if data is not None:
        plan = Plan.for_data(data, seeds=large_seeds)
        trials[plan] = approximation_trials(plan, large_deciding_seeds, WITHOUT_EXPONENTS)
    trained = train([t for own in trials.values() for t in own], runs, workers)
    settings = [
        setting_of(Measured(plan, own, [trained[t.key] for t in own], runs))
        for plan, own in trials.items()
    ]
    tested = None
    if birds is not None:
        heads = Heads(birds, features, workers)
        settings.append(heads.held_out(large_seeds, large_deciding_seeds or large_seeds))
        tested = heads.tested(settings[-1], large_deciding_seeds or large_seeds)
    traces = failure_traces(output / "watched", steps)
    given: dict[str, object] = {"data": data and Path(data).name, "birds": birds and "CUB_200_2011"}
    given |= {"seeds": seeds, "deciding-seeds": deciding_seeds}
    if data is not None or birds is not None:
        given |= {"large-seeds": large_seeds, "large-deciding-seeds": large_deciding_seeds}
    page = approximation_page(settings, traces, tested, _command(given))
    write_page(page, trained, output, markdown, console)
    return 0


def _command(given: Mapping[str, object]) -> str:
    """The command as a reader would give it, without paths of this machine.

    >>> _command({"data": "CIFAR10", "birds": None, "seeds": 4})
    'python -m studies approximation --data CIFAR10 --seeds 4'
    """
    options = (f"--{name} {value}" for name, value in given.items() if value is not None)
    return " ".join(["python -m studies approximation", *options])


def setting_of(study: Measured) -> Setting:
    """The final errors of a plan's runs, and what their filters have learned."""
    learned: dict[str, list[dict[str, float]]] = {}
    for trial, result in zip(study.trials, study.results, strict=True):
        if trial.label in LEARNED and result.get("diverged") is None:
            checkpoint = study.folder / trial.key / LAST
            learned.setdefault(trial.label, []).append(_learned(trial.label, checkpoint))
    about = f"{families()[study.plan.family].about}: validation error after the last epoch."
    return Setting(study.plan.family, about, endings(study.runs()), learned)


def _learned(method: str, checkpoint: Path) -> dict[str, float]:
    """What the filter of a trained network has become."""
    state = load_weights_only(checkpoint)["state_dict"]
    (logs,) = (value for name, value in state.items() if name.endswith(".learned.logs"))
    module = METHODS[method]().build()
    module.load_state_dict({"logs": logs})
    return learned_values(module)


@dataclass(frozen=True)
class Heads:
    """The variants as heads on frozen features of birds."""

    data: str
    output: str | Path
    workers: int | None

    def held_out(self, seeds: int, deciding: int) -> Setting:
        """All of them, on the held-out fifth of the training images."""
        return self._setting(
            "held-out",
            [
                (seeds, [v.label for v in VARIANTS if not v.decides]),
                (deciding, [v.label for v in VARIANTS if v.decides]),
            ],
        )

    def tested(self, chosen_on: Setting, seeds: int) -> Setting:
        """Those that decide, and the one that the held-out images choose, on the test images."""
        deciding = [v.label for v in VARIANTS if v.decides]
        best = min((v.label for v in VARIANTS), key=chosen_on.offset)
        return self._setting("test", [(seeds, list(dict.fromkeys([*deciding, best])))])

    def _setting(self, measure_on: str, heads: Sequence[tuple[int, Sequence[str]]]) -> Setting:
        from studies.birds.birds import run

        studies = [
            run(
                self.data,
                self.output,
                table="approximation",
                heads=names,
                seeds=seeds,
                measure_on=measure_on,
                workers=self.workers,
            )
            for seeds, names in heads
        ]
        results = [result for study in studies for result in study.results]
        rows = [{"run": r.head, "seed": r.seed, "val_error": 100 - r.accuracy} for r in results]
        learned = {
            name: [dict(r.learned) for r in results if r.head == name and not r.diverged]
            for name in LEARNED
        }
        about = f"Heads on frozen features: error on {len(studies[0].files)} {measure_on} images."
        return Setting(f"birds, {measure_on}", about, rows, learned)


def failure_traces(folder: Path, steps: int = 252, seed: int = 0) -> dict[str, list[Record]]:
    """Watched trainings of MPN-COV as published by name; those that are in the folder are read."""
    traces = {}
    for family, dtype in WATCHED:
        what = {"family": family, "dtype": dtype, "seed": seed, "steps": steps}
        key = stable_key({**what, "versions": versions()})
        file = folder / f"{family}-{dtype}-{key}.csv"
        if not file.is_file():
            write_records(
                watch_training(Plan(family), "mpn-cov", dtype, seed=seed, steps=steps), file
            )
        traces[f"{family}, {dtype}"] = read_records(file)
    return traces
