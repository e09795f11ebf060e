"""``python -m studies followups``: what was published since the paper, tried."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rootpool.suggest import unknown_name
from studies.engine.command import Options, command_line, list_entries, run_study
from studies.engine.network import SMALL, Network
from studies.engine.study import Study, load_study

__all__ = ["PARTS", "load_followups", "main"]

PARTS = ("small", "birds", "few-shot")


def load_followups() -> Study:
    """The study.

    >>> load_followups().entries["claim:seb"].parts[0].text
    'SEB has a lower error than the root.'
    """
    return load_study(Path(__file__).with_name("study.yaml"))


def main(
    parts: Sequence[str] = (),
    *,
    seeds: int = 5,
    birds: str | None = None,
    bird_seeds: int = 5,
    episodes: int = 2000,
    **where: Any,
) -> int:
    """Train what has no result yet, and write the page; or list the claims.

    Args:
        parts: ``small``, ``birds``, ``few-shot``; by default all, without birds the first alone.
        seeds: repetitions of every training of the small networks.
        birds: CUB-200-2011, for heads on frozen features and for episodes.
        bird_seeds: repetitions of every head.
        episodes: of few shots.
        where: ``show`` to list the claims and stop, and the fields of :class:`Options`.
    """
    study = load_followups()
    if where.get("show"):
        return list_entries(study)
    chosen, output = _parts(parts, birds), where["output"]
    networks = [Network(family, seeds=seeds) for family in SMALL if "small" in chosen]
    others = []
    if birds is not None and "birds" in chosen:
        from studies.birds.command import bird_network

        networks.append(bird_network(birds, output, seeds=bird_seeds))
    if birds is not None and "few-shot" in chosen:
        from .few_shot import few_shots

        others.append(few_shots(birds, Path(output), episodes))
    given = command_line(
        study.command,
        [] if len(chosen) == len(PARTS) else chosen,
        seeds=seeds if "small" in chosen else None,
        birds=birds and "CUB_200_2011",
        bird_seeds=bird_seeds if "birds" in chosen else None,
        episodes=episodes if "few-shot" in chosen else None,
    )
    run_study(study, (), networks, Options.given(given, where), others)
    return 0


def _parts(parts: Sequence[str], birds: str | None) -> list[str]:
    for part in parts:
        if part not in PARTS:
            raise ValueError(unknown_name("part", part, PARTS))
        if part != "small" and birds is None:
            raise ValueError(f"the part {part} needs --birds, the folder of CUB-200-2011")
    if parts:
        return [part for part in PARTS if part in parts]
    return ["small"] if birds is None else list(PARTS)
