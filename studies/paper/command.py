"""``python -m studies paper``: the tables, figures and claims of the paper, measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from studies.engine.command import Options, command_line, list_entries, run_study
from studies.engine.network import SMALL, Network
from studies.engine.study import Study, load_study

__all__ = ["cifar", "load_paper", "main"]

FINE_GRAINED = ("birds", "dogs", "cars")  # families of the paper


def load_paper(names: Sequence[str] = ()) -> Study:
    """The study of the paper with the theory; where only statements of the theory are named, these."""
    folder = Path(__file__).parent
    theory, paper = (load_study(folder / name) for name in ("theory/study.yaml", "study.yaml"))
    if names and all(name.partition(":")[0] == "theory" for name in names):
        return theory
    return replace(
        paper,
        entries={**paper.entries, **theory.entries},
        sections={**paper.sections, **theory.sections},
    )


def main(
    entries: Sequence[str] = (),
    *,
    seeds: int = 3,
    data: str | None = None,
    recipes: str | None = None,
    weights: str | None = None,
    **where: Any,
) -> int:
    """Measure entries, or what is left of them, and write the page; or list the entries.

    Args:
        entries: by name or kind; all by default.
        seeds: repetitions of every training.
        data: a folder of images instead of the embedded ones.
        recipes: the family of recipes; by default what the layout of the data says, and without data both
            small networks.
        weights: a checkpoint to start from, which fine-tuning needs.
        where: ``show`` to list the entries and stop, and the fields of :class:`Options`.
    """
    study = load_paper(entries)
    if where.get("show"):
        return list_entries(study, entries)
    families = [recipes] if data or recipes else list(SMALL)
    networks = [Network.for_data(data, f, weights=weights, seeds=seeds) for f in families]
    if data is not None:
        fine = networks[0].reported_as in FINE_GRAINED
        networks = [replace(networks[0], kind=networks[0].reported_as if fine else "large")]
    given = command_line(
        study.command,
        entries,
        seeds=seeds if any(entry.runs for entry in study.choose(entries)) else None,
        recipes=recipes,
        data=data and Path(data).name,
        weights=weights and Path(weights).name,
    )
    run_study(study, entries, networks, Options.given(given, where))
    return 0


def cifar(*, data: str | None = None, seeds: int = 3, **where: Any) -> int:
    """Train what has no result yet of the comparison on CIFAR-10, and write the page; or list the entries.

    Args:
        data: CIFAR-10 in its official layout.
        seeds: repetitions of every training.
        where: ``show`` to list the entries and stop, and the fields of :class:`Options`.
    """
    study = load_study(Path(__file__).with_name("cifar.yaml"))
    if where.get("show"):
        return list_entries(study)
    network = Network("cifar10-resnet9", data, seeds=seeds, kind="large")
    given = command_line(study.command, seeds=seeds)
    run_study(study, (), [network], Options.given(given, where))
    return 0
