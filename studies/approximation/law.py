"""``python -m studies law``: features at several scales, which change nothing but the place of the floor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rootpool.report.records import write_records
from studies.engine.command import Options, all_places, list_entries
from studies.engine.network import Network
from studies.engine.study import Study, load_study

__all__ = ["load_law", "main"]


def load_law() -> Study:
    """The study."""
    return load_study(Path(__file__).with_name("law.yaml"))


def main(entries: Sequence[str] = (), *, seeds: int = 5, **where: Any) -> int:
    """Train what has no result yet, and write its rows."""
    study = load_law()
    if where.get("show"):
        return list_entries(study, entries)
    options = Options.given(study.command, where)
    network = Network("patches-norm", seeds=seeds)
    chosen = study.choose(entries)
    rows = [row for place in all_places(study, chosen, [network], options) for row in place.rows]
    write_records(rows, options.output / "law.csv")
    return 0
