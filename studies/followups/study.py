"""``python -m studies followups``: what was published since the paper, tried and judged by its rules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from rootpool.suggest import unknown_name
from studies.paper.command import train, write_page
from studies.paper.plan import MINIATURES, Measured, Plan, Run
from studies.paper.rows import Row

from .follow_ups import SETTINGS, follow_up_rows, follow_up_trials
from .page import followups_page

if TYPE_CHECKING:
    from studies.birds.birds import BirdStudy
    from studies.followups.few_shot import FewShotResult

__all__ = ["followups"]


def followups(
    parts: Sequence[str] = (),
    *,
    output: str | Path = "runs/followups",
    runs: str | Path | None = None,
    seeds: int = 5,
    workers: int | None = None,
    birds: str | None = None,
    features: str | Path = "runs/birds",
    bird_seeds: int = 5,
    methods: Sequence[str] | None = None,
    episodes: int = 2000,
    markdown: str | Path | None = None,
) -> int:
    """Train what has no result yet, and write the page.

    Args:
        parts: ``miniature``, ``birds``, ``few-shot``; by default all, without birds the first alone.
        output: folder of the results and the page.
        runs: folder of the trainings, which commands can share; by default in the output.
        seeds: repetitions of every training in miniature.
        workers: processes at a time; None for one per core.
        birds: CUB-200-2011, for heads on frozen features and for episodes.
        features: the folder of ``python -m studies birds``, where the features and heads are kept.
        bird_seeds: repetitions of every head.
        methods: those that are compared as heads; None for all, and DropCov.
        episodes: of few shots.
        markdown: where to write the Markdown page instead of the output.
    """
    chosen = _parts(parts, birds)
    output, console = Path(output), Console(highlight=False)
    miniatures: dict[str, list[Row]] = {}
    trained: dict[str, Run] = {}
    if "miniature" in chosen:
        folder = Path(runs or output / "runs")
        plans = [Plan(family, seeds=seeds) for family in MINIATURES]
        trained = train([t for plan in plans for t in follow_up_trials(plan)], folder, workers)
        for plan in plans:
            trials = follow_up_trials(plan)
            results = [trained[trial.key] for trial in trials]
            miniatures[plan.family] = follow_up_rows(Measured(plan, trials, results, folder))
    study = few = None
    if birds is not None and "birds" in chosen:
        study = _heads(birds, features, methods, bird_seeds, workers)
    if birds is not None and "few-shot" in chosen:
        few = _few_shot(birds, features, episodes, workers)
    command = _command(chosen, seeds, birds, bird_seeds, methods, episodes)
    write_page(followups_page(miniatures, study, few, command), trained, output, markdown, console)
    return 0


def _parts(parts: Sequence[str], birds: str | None) -> list[str]:
    for part in parts:
        if part not in SETTINGS:
            raise ValueError(unknown_name("part", part, SETTINGS))
        if part != "miniature" and birds is None:
            raise ValueError(f"the part {part} needs --birds, the folder of CUB-200-2011")
    if parts:
        return [part for part in SETTINGS if part in parts]
    return ["miniature"] if birds is None else list(SETTINGS)


def _heads(
    data: str,
    features: str | Path,
    methods: Sequence[str] | None,
    seeds: int,
    workers: int | None,
) -> BirdStudy:
    from studies.birds.birds import run

    return run(data, features, table="all", heads=methods, seeds=seeds, workers=workers)


def _few_shot(
    data: str, features: str | Path, episodes: int, workers: int | None
) -> list[FewShotResult]:
    from studies.followups.few_shot import run_few_shot

    return run_few_shot(data, features, episodes=episodes, workers=workers)


def _command(
    parts: Sequence[str],
    seeds: int,
    birds: str | None,
    bird_seeds: int,
    methods: Sequence[str] | None,
    episodes: int,
) -> str:
    """The command as a reader would give it, without paths of this machine."""
    words = ["python -m studies followups"]
    words += [] if len(parts) == len(SETTINGS) else parts
    words += [f"--seeds {seeds}"] if "miniature" in parts else []
    words += [] if birds is None else ["--birds CUB_200_2011"]
    words += [f"--bird-seeds {bird_seeds}"] if "birds" in parts else []
    words += [] if methods is None or "birds" not in parts else ["--methods", *methods]
    words += [f"--episodes {episodes}"] if "few-shot" in parts else []
    return " ".join(words)
