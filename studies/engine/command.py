"""From a study and its networks to a page: train what is not trained, measure, answer, write."""

from __future__ import annotations

import pkgutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.console import Console

from rootpool.report import Block, Page, Text

from .kept import Kept
from .network import Network, all_trials
from .page import NOWHERE, Measured, study_page
from .questions import Finding, answers
from .study import Entry, Study

if TYPE_CHECKING:  # listing entries does not wait for Lightning
    from .training import Place, Run

__all__ = [
    "Found",
    "Measure",
    "Options",
    "command_line",
    "list_entries",
    "measure_entry",
    "run_study",
]


@dataclass(frozen=True)
class Found:
    """What the code of an entry measures.

    Args:
        findings: by place, and by the name of the number that a part asks for; the place is empty for what
            needs no runs.
        blocks: tables and pictures.
        facts: what made the numbers.
    """

    findings: Mapping[str, Mapping[str, Finding]] = field(default_factory=dict)
    blocks: Sequence[Block] = ()
    facts: Mapping[str, Text] = field(default_factory=dict)

    @classmethod
    def by_place(
        cls,
        places: Sequence[Place],
        measure: Callable[[Place], tuple[Mapping[str, Finding], Sequence[Block]]],
    ) -> Found:
        """What each place gives by itself."""
        found = {place.name: measure(place) for place in places}
        blocks = [block for _, own in found.values() for block in own]
        return cls({name: findings for name, (findings, _) in found.items()}, blocks)


Measure: TypeAlias = Callable[[Entry, Sequence["Place"], Kept], Found]


@dataclass(frozen=True)
class Options:
    """Where a study works.

    Args:
        output: folder of measurements and page.
        runs: folder of the runs, which studies can share.
        workers: runs at a time; None for one per core.
        markdown: where to write the Markdown page instead of the output.
        command: that writes the page.
    """

    output: Path
    runs: Path
    workers: int | None = None
    markdown: Path | None = None
    command: str = ""

    @classmethod
    def given(cls, command: str, where: Mapping[str, Any]) -> Options:
        """From the arguments that all studies share, and the command as a reader would give it."""
        folder, page = Path(where["output"]), where.get("markdown")
        runs = Path(where.get("runs") or folder / "runs")
        return cls(folder, runs, where.get("workers"), page and Path(page), command)


def command_line(command: str, names: Sequence[str] = (), **options: Any) -> str:
    """A command as a reader would give it, without paths of this machine.

    >>> command_line("python -m studies paper", ["text"], seeds=3, data=None, large_seeds=5)
    'python -m studies paper text --seeds 3 --large-seeds 5'
    """
    words = [command, *names]
    for name, value in options.items():
        if value is not None:
            values = value if isinstance(value, list | tuple) else [value]
            words += [f"--{name.replace('_', '-')}", *map(str, values)]
    return " ".join(words)


def list_entries(study: Study, names: Sequence[str] = ()) -> int:
    """Print each entry with its claim and the parts of it."""
    console = Console(highlight=False)
    width = max(40, console.width - 6)
    for entry in study.choose(names):
        console.print(f"[bold]{entry.name}[/]", soft_wrap=True)
        texts = [(entry.title, 4), (entry.claim, 4), *((p.text, 6) for p in entry.parts)]
        for text, indent in texts:
            mark = "- " if indent == 6 else ""
            for k, line in enumerate(textwrap.wrap(text, width)):
                start = " " * (indent - len(mark)) + mark if k == 0 else " " * indent
                console.print(start + line, markup=False)
    return 0


def run_study(
    study: Study,
    names: Sequence[str],
    networks: Sequence[Network],
    options: Options,
    others: Sequence[Place] = (),
) -> Page:
    """Train and measure what has no result yet, and write ``index.html`` and ``report.md``.

    Args:
        study: the study.
        names: entries, or kinds of entries; all by default.
        networks: what is trained.
        options: where.
        others: places that the study has measured otherwise.
    """
    entries, console = study.choose(names), Console(highlight=False)
    known = _train(study, entries, networks, options)
    kept = Kept(options.output / "measured")
    measured = []
    for entry in entries:
        places = [p for n in networks if _suits(entry, n) and (p := _place(study, entry, n, known))]
        places += [p for p in others if any(part.where == p.kind for part in entry.parts)]
        one = measure_entry(study, entry, places, kept)
        measured.append(one)
        console.print(f"  {entry.name}: {one.summary}", soft_wrap=True)
    page = study_page(study, measured, options.command)
    text = page.write_markdown(options.markdown or options.output / "report.md")
    where = page.write(options.output / "index.html").resolve().as_uri()
    console.print(f"Look at [bold]{where}[/], or at {text}", soft_wrap=True)
    return page


def _suits(entry: Entry, network: Network) -> bool:
    return bool(entry.runs) and (not entry.needs or network.kind in entry.needs)


def _reference(study: Study) -> list[str]:
    return [study.reference] if study.reference else []


def _train(
    study: Study, entries: Sequence[Entry], networks: Sequence[Network], options: Options
) -> dict[str, Run]:
    """The finished runs of all entries and networks, by key."""
    trials = [
        trial
        for network in networks
        for entry in entries
        if _suits(entry, network)
        for names in (entry.runs, _reference(study))
        for trial in all_trials(study, network, names)
    ]
    if not trials:
        return {}
    from .training import train

    return train(trials, options.runs, options.workers)


def _place(study: Study, entry: Entry, network: Network, known: Mapping[str, Run]) -> Place | None:
    """A network with the runs of an entry; None if the entry has none there."""
    from .training import Place

    def runs(names: Sequence[str]) -> list[Run]:
        trials = all_trials(study, network, names)
        return [replace(known[t.key], label=t.label, tags=t.tags) for t in trials]

    own = runs(entry.runs)
    return Place.of_runs(network, own, runs(_reference(study)), study.limit) if own else None


def measure_entry(study: Study, entry: Entry, places: Sequence[Place], kept: Kept) -> Measured:
    """The answers to the parts of an entry, with its tables and pictures."""
    if entry.runs and not places:
        return Measured(entry)
    measure: Measure | None = pkgutil.resolve_name(entry.measure) if entry.measure else None
    found = Found() if measure is None else measure(entry, places, kept)
    if not places:
        numbers = found.findings.get(NOWHERE, {})
        given = {NOWHERE: answers(study, entry.parts, "", (), numbers)}
        return Measured(entry, given, {}, found.blocks, found.facts)
    from .pictures import draw
    from .training import facts

    given, beside, blocks = {}, {}, list(found.blocks)
    about: dict[str, Text] = dict(found.facts)
    for place in places:
        numbers = {**found.findings.get(NOWHERE, {}), **found.findings.get(place.name, {})}
        given[place.name] = answers(study, entry.parts, place.kind, place.rows, numbers)
        beside[place.name] = answers(study, entry.beside, place.kind, place.rows, numbers)
        blocks += draw(entry.pictures, place, [*given[place.name], *beside[place.name]])
        about |= {f"{place.name}, {name}": text for name, text in facts(place).items()}
    return Measured(entry, given, beside, blocks, about)
