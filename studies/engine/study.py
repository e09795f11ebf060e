"""A study as data: its runs, and entries whose claims are divided into parts that are answered apart.

A study is a YAML file with the keys of :class:`Study`. ``runs`` are settings by name, ``entries`` what is
measured; an entry names the runs that it needs, and each part of its claim says how it is answered: by a
comparison of runs (``judge``), by a number that the code of the study computes (``measured``), or by an
argument that needs no computer (``outcome``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import yaml

from rootpool.suggest import unknown_name

__all__ = ["Entry", "Judge", "Outcome", "Part", "Runs", "Scale", "Study", "Tags", "load_study"]

Tags: TypeAlias = Mapping[str, Any]
Judge: TypeAlias = Literal["better", "level", "same", "gain", "fails"]
Outcome: TypeAlias = Literal["seen", "not seen", "opposite", "not testable", "not tried"]
Scale: TypeAlias = Literal["argument", "full size", "small scale", "this CPU"]
T = TypeVar("T")


@dataclass(frozen=True)
class Runs:
    """Trainings that differ in method and protocol.

    Args:
        methods: names in ``METHODS``, or ``gap``; any name where ``change`` has the method.
        protocols: ``standalone`` and ``hybrid``; a method that has no second stage is trained standalone.
        name: of a run, in which ``{method}`` stands for the method.
        change: what is merged into the recipe.
        small: what is merged as well where the images are the embedded ones.
        over: an option of the method and its values, such as ``{iterations: [1, 2, 3]}``: a run for each,
            which has the value as a tag and, by ``{iterations}``, in its name.
        warmup: epochs between the switch and the last decay of the hybrid runs; None for the recipe's.
        tags: what else questions can choose the runs by.
        seeds: how many; None for the network's.
        deciding: whether an answer rests on them, so that they get the deciding seeds.
        where: kinds of networks that are trained; empty for all.
    """

    methods: Sequence[str]
    protocols: Sequence[str] = ("standalone",)
    name: str = "{method}"
    change: Mapping[str, Any] = field(default_factory=dict)
    small: Mapping[str, Any] = field(default_factory=dict)
    over: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    warmup: int | None = None
    tags: Tags = field(default_factory=dict)
    seeds: int | None = None
    deciding: bool = False
    where: Sequence[str] = ()


@dataclass(frozen=True)
class Part:
    """One part of a claim, and how it is answered.

    Args:
        text: as a statement, which is true if the claim is.
        judge: how runs are compared (:mod:`studies.engine.questions`).
        first: tags of the runs that are compared.
        against: tags of the runs that they are compared with; several sets of tags.
        value: which number of the runs is compared; lower is better.
        margin: in points, where the judge needs one.
        effect: points that the claim is about: where the seeds cannot tell as much, it is not testable.
        measured: the name of its number in what the code of the entry finds.
        outcome: what an argument shows, with ``because``.
        because: the argument, or why it is not tried.
        scale: of the evidence.
        where: the kind of network that it is asked of; empty for all.
    """

    text: str
    judge: Judge | None = None
    first: Tags = field(default_factory=dict)
    against: Sequence[Tags] = ()
    value: str = "val_error"
    margin: float = 0.0
    effect: float | None = None
    measured: str = ""
    outcome: Outcome | None = None
    because: str = ""
    scale: Scale = "small scale"
    where: str = ""


@dataclass(frozen=True)
class Entry:
    """What is measured for one claim.

    Args:
        name: on the command line, such as ``table:speed``; before the colon its section.
        title: of its part of the page.
        claim: as a whole, in our words.
        source: where it is made.
        text: paragraphs that explain it.
        published: the numbers of the claim, in a sentence.
        differs: what is not the same here.
        remark: what a reader must know to read the numbers.
        runs: names of the runs that it needs.
        measure: the function that measures it, as ``module:name``; empty if its parts compare runs alone.
        parts: of the claim.
        beside: our own questions, which the claim does not ask.
        pictures: of the runs (:mod:`studies.engine.pictures`).
        caption: of the picture that the measure draws.
        full: commands for the experiment at its full size.
        needs: kinds of networks that can answer it; empty for all.
        missing: what the page says where there is none of these.
    """

    name: str
    title: str
    claim: str
    source: str = ""
    text: Sequence[str] = ()
    published: str = ""
    differs: str = ""
    remark: str = ""
    runs: Sequence[str] = ()
    measure: str = ""
    parts: Sequence[Part] = ()
    beside: Sequence[Part] = ()
    pictures: Sequence[Mapping[str, str]] = ()
    caption: str = ""
    full: Sequence[str] = ()
    needs: Sequence[str] = ()
    missing: str = ""

    @property
    def kind(self) -> str:
        """Its section."""
        return self.name.partition(":")[0]


@dataclass(frozen=True)
class Study:
    """A study.

    Args:
        title: of the page.
        lead: a sentence or two below it.
        command: that runs the study.
        sections: headings of the page by kind of entry.
        runs: settings by name.
        entries: by name, in the order of the page.
        notes: what a reader of the page must know.
        groups: names that stand for several methods.
        settings: what is merged into every recipe of the study.
        published: whether methods of the paper are trained with their gradients as published; with
            ``, fused`` after the name, as we implement them.
        reference: the name of runs that converge, which are always trained, too: a run fails if it diverges,
            or if its training error ends ``limit`` points above the reference with the same seed.
        limit: see above.
    """

    title: str
    lead: str
    command: str
    sections: Mapping[str, str]
    runs: Mapping[str, Runs]
    entries: Mapping[str, Entry]
    notes: Sequence[str] = ()
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    published: bool = False
    reference: str = ""
    limit: float = 10.0

    def choose(self, names: Sequence[str]) -> list[Entry]:
        """Entries by name, or by the kind before the colon; all without a name."""
        kinds = list(dict.fromkeys(entry.kind for entry in self.entries.values()))
        for name in names:
            if name not in self.entries and name not in kinds:
                known = [*self.entries, *kinds]
                raise ValueError(unknown_name("entry", name, known, f"{self.command} --list"))
        every = self.entries.values()
        return [e for e in every if not names or e.name in names or e.kind in names]


# --------------------------------------------------------------------------------------------------
# From text


def load_study(path: str | Path) -> Study:
    """Read the file of a study.

    Raises:
        ValueError: for what is wrong in it; the message says where.
    """
    path = Path(path)
    try:
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
        return _study(_spliced(given))
    except (ValueError, yaml.YAMLError) as error:
        raise ValueError(f"{path.name}: {error}") from error


def _spliced(given: Any) -> Any:
    """Plain data in which a list within a list, such as a named one of the file, is a part of it.

    >>> _spliced({"methods": ["gap", ["exact", "log"]]})
    {'methods': ['gap', 'exact', 'log']}
    """
    if isinstance(given, dict):
        return {key: _spliced(value) for key, value in given.items()}
    if not isinstance(given, list):
        return given
    items = [(isinstance(value, list), _spliced(value)) for value in given]
    return [each for nested, value in items for each in (value if nested else [value])]


def _study(given: Any) -> Study:
    study = _made(Study, given, "the study")
    runs = {name: _made(Runs, own, f"runs {name!r}") for name, own in study.runs.items()}
    entries = {name: _entry(name, own, study, runs) for name, own in study.entries.items()}
    return Study(**{**vars(study), "runs": runs, "entries": entries})


def _entry(name: str, given: Any, study: Study, runs: Mapping[str, Runs]) -> Entry:
    entry = _made(Entry, {"name": name, **given}, name)
    for own in entry.runs:
        if own not in runs:
            raise ValueError(f"{name}: {unknown_name('runs', own, runs)}")
    if entry.kind not in study.sections:
        raise ValueError(f"{name}: {unknown_name('section', entry.kind, study.sections)}")
    parts, beside = ([_part(own, name) for own in own] for own in (entry.parts, entry.beside))
    return Entry(**{**vars(entry), "parts": parts, "beside": beside})


def _part(given: Any, where: str) -> Part:
    part = _made(Part, given, f"a part of {where}")
    for key, known in (("judge", Judge), ("outcome", Outcome), ("scale", Scale)):
        value = getattr(part, key)
        if value is not None and value not in get_args(known):
            raise ValueError(f"{where}: {unknown_name(key, value, get_args(known))}")
    ways = [key for key in ("judge", "measured", "outcome") if getattr(part, key)]
    if len(ways) != 1:
        raise ValueError(
            f"{where}: a part has one of judge, measured and outcome, got {ways} in {part.text!r}"
        )
    against = part.against
    return Part(**{**vars(part), "against": [against] if isinstance(against, dict) else against})


def _made(kind: type[T], given: Any, where: str) -> T:
    """A dataclass from the keys of a file, which are its fields."""
    if not isinstance(given, dict):
        raise ValueError(f"{where} must have keys such as {fields(kind)[0].name}, got {given!r}")
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    for key in given:
        if key not in known:
            raise ValueError(f"{where}: {unknown_name('key', key, known)}")
    needed = [n for n, f in known.items() if f.default is f.default_factory is MISSING]
    missing = [name for name in needed if name not in given]
    if missing:
        raise ValueError(f"{where} needs {', '.join(missing)}, got {', '.join(given) or 'nothing'}")
    return kind(**given)
