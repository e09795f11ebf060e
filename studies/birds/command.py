"""``python -m studies birds``: heads on frozen features of birds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rootpool.train import merge
from studies.engine.command import Options, command_line, list_entries, run_study
from studies.engine.network import Network
from studies.engine.study import Study, load_study

__all__ = ["bird_network", "load_birds", "main"]


def load_birds() -> Study:
    """The study."""
    return load_study(Path(__file__).with_name("study.yaml"))


def bird_network(data: str, output: str, *, held_out: bool = False, **seeds: Any) -> Network:
    """The frozen network of the birds, measured on the test images or on a held-out fifth of the others."""
    if not Path(data).is_dir():
        raise FileNotFoundError(
            f"{data} is not a folder; --data must be CUB-200-2011 as its authors lay it out, or a folder "
            "with train/ and test/"
        )
    cache = {"data": {"cache": str(Path(output) / "features"), "hold_out": held_out}}
    change = merge(load_birds().settings, cache)
    name = "birds, held out" if held_out else "birds"
    return Network("birds-head", data, kind="birds", name=name, change=change, **seeds)


def main(data: str, entries: Sequence[str] = (), *, seeds: int = 5, **where: Any) -> int:
    """Train heads, or what is left of them, and write the page; or list the entries.

    Args:
        data: the folder of the data set.
        entries: of the study; by default all but the methods of the paper, which take longer than the rest.
        seeds: repetitions of every head.
        where: ``show`` to list the entries and stop, and the fields of :class:`Options`.
    """
    study = load_birds()
    if where.get("show"):
        return list_entries(study, entries)
    network = bird_network(data, where["output"], seeds=seeds)
    given = command_line(study.command, entries, seeds=seeds)
    names = entries or ["birds:heads", "birds:poolings"]
    run_study(study, names, [network], Options.given(given, where))
    return 0
