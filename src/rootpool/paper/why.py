"""``rootpool why``: the trainings behind the question of the title, and the page about them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from rootpool.analysis import Record
from rootpool.analysis.filters import VARIANTS, Variant
from rootpool.analysis.records import read_records, write_records
from rootpool.jobs import stable_key, versions
from rootpool.recipes import STANDALONE, families, merge
from rootpool.train.study import Trial

from .command import train, write_page
from .failure import watch_training
from .plan import MINIATURES, Measured, Plan
from .rows import endings
from .why_answers import LEARNED
from .why_data import Setting
from .why_page import why_page

__all__ = ["failure_traces", "setting_of", "why", "why_trials"]

# MPN-COV as published: where, and in which precision.
WATCHED = (("patches-norm", "float32"), ("patches-norm", "float64"), ("patches", "float32"))


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


def why(
    output: str | Path = "runs/why",
    *,
    runs: str | Path | None = None,
    seeds: int = 5,
    large_seeds: int = 3,
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
        large_seeds: repetitions of the others.
        workers: trainings at a time; None for one per core.
        data: images for a third network, by the recipes that their layout says.
        birds: CUB-200-2011, for heads on frozen features.
        features: the folder of ``rootpool birds``, where these features are kept.
        steps: of the trainings that are watched.
        markdown: where to write the Markdown page instead of the output.
    """
    output, console = Path(output), Console(highlight=False)
    runs = Path(runs or output / "runs")
    plans = [Plan(family, seeds=seeds) for family in MINIATURES]
    plans += [] if data is None else [Plan.for_data(data, seeds=large_seeds)]
    trained = train([t for plan in plans for t in why_trials(plan)], runs, workers)
    settings = [
        setting_of(Measured(plan, trials, [trained[t.key] for t in trials], runs))
        for plan in plans
        for trials in [why_trials(plan)]
    ]
    tested = None
    if birds is not None:
        held_out, tested = _birds(birds, features, large_seeds, workers)
        settings.append(held_out)
    traces = failure_traces(output / "watched", steps)
    page = why_page(settings, traces, tested, _command(seeds, large_seeds, data, birds))
    write_page(page, trained, output, markdown, console)
    return 0


def _command(seeds: int, large_seeds: int, data: str | None, birds: str | None) -> str:
    """The command as a reader would give it, without paths of this machine."""
    parts = [f"rootpool why --seeds {seeds}"]
    parts += [] if data is None else [f"--data {Path(data).name}"]
    parts += [] if birds is None else ["--birds CUB_200_2011"]
    parts += [] if data is None and birds is None else [f"--large-seeds {large_seeds}"]
    return " ".join(parts)


def setting_of(study: Measured) -> Setting:
    """The final errors of a plan's runs, and what their filters have learned."""
    found = study.runs()
    learned: dict[str, list[dict[str, float]]] = {}
    for run in found:
        if run["label"] in LEARNED and run.get("diverged") is None:
            last: dict[str, Any] = run["curves"][-1]
            names = [n for n in last if n == "exponent" or n.startswith("weight_")]
            learned.setdefault(run["label"], []).append({name: last[name] for name in names})
    about = f"{families()[study.plan.family].about}: validation error after the last epoch."
    return Setting(study.plan.family, about, endings(found), learned)


def _birds(
    data: str, output: str | Path, seeds: int, workers: int | None
) -> tuple[Setting, Setting]:
    """The variants as heads on frozen features, on the held-out fifth and on the test images."""
    from rootpool.heads.birds import run

    settings = []
    for measure_on in ("held-out", "test"):
        study = run(data, output, table="why", seeds=seeds, measure_on=measure_on, workers=workers)
        rows = [
            {"run": r.head, "seed": r.seed, "val_error": 100 - r.accuracy} for r in study.results
        ]
        learned = {
            run: [dict(r.learned) for r in study.results if r.head == run and not r.diverged]
            for run in LEARNED
        }
        about = f"heads on frozen features: error on {len(study.files)} {measure_on} images."
        settings.append(Setting(f"birds, {measure_on}", about, rows, learned))
    held_out, test = settings
    return held_out, test


def failure_traces(folder: Path, steps: int = 252, seed: int = 0) -> dict[str, list[Record]]:
    """Watched trainings of MPN-COV as published by name; those that are in the folder are read."""
    traces = {}
    for family, dtype in WATCHED:
        what = {"family": family, "dtype": dtype, "seed": seed, "steps": steps}
        key = stable_key({**what, "versions": versions()})
        file = folder / f"{family}-{dtype}-{key}.json"
        if not file.is_file():
            write_records(
                watch_training(Plan(family), "mpn-cov", dtype, seed=seed, steps=steps), file
            )
        traces[f"{family}, {dtype}"] = read_records(file)
    return traces
