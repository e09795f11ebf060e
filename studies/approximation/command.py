"""``python -m studies approximation``: the question of the title, taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from studies.engine.command import Options, command_line, list_entries, run_study
from studies.engine.network import SMALL, Network
from studies.engine.study import Study, load_study

__all__ = ["load_approximation", "main"]


def load_approximation() -> Study:
    """The study."""
    return load_study(Path(__file__).with_name("study.yaml"))


def main(
    entries: Sequence[str] = (),
    *,
    seeds: int = 5,
    deciding_seeds: int | None = None,
    large_seeds: int = 3,
    large_deciding_seeds: int | None = None,
    data: str | None = None,
    birds: str | None = None,
    **where: Any,
) -> int:
    """Train what has no result yet, and write the page; or list the entries.

    Args:
        entries: by name; all by default.
        seeds: repetitions of every training of the small networks.
        deciding_seeds: seeds of the two by two; None for the same number.
        large_seeds: repetitions of the others.
        large_deciding_seeds: seeds of the two by two; None for the same number.
        data: images for a third network, by the recipes that their layout says.
        birds: CUB-200-2011, for heads on frozen features.
        where: ``show`` to list the entries and stop, and the fields of :class:`Options`.
    """
    study = load_approximation()
    if where.get("show"):
        return list_entries(study, entries)
    networks = [Network(family, seeds=seeds, deciding=deciding_seeds) for family in SMALL]
    large = {"seeds": large_seeds, "deciding": large_deciding_seeds}
    if data is not None:
        networks.append(replace(Network.for_data(data, **large), kind="large"))
    if birds is not None:
        from studies.birds.command import bird_network

        networks.append(bird_network(birds, where["output"], held_out=True, **large))
        tested = bird_network(birds, where["output"], **large)
        networks.append(replace(tested, kind="birds-test"))
    said = {"data": data and Path(data).name, "birds": birds and "CUB_200_2011", "seeds": seeds}
    said |= {"deciding_seeds": deciding_seeds}
    if len(networks) > len(SMALL):
        said |= {"large_seeds": large_seeds, "large_deciding_seeds": large_deciding_seeds}
    given = command_line(study.command, entries, **said)
    run_study(study, entries, networks, Options.given(given, where))
    return 0
