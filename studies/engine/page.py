"""The page of a study: the parts of all claims with their states, then each entry with its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import rootpool
from rootpool.machine import machine
from rootpool.report import (
    Block,
    Cell,
    Code,
    Details,
    Facts,
    Heading,
    Link,
    Mono,
    Note,
    Page,
    Paragraph,
    Strong,
    Table,
    Text,
    anchor,
    comparison_table,
)

from .questions import Answer, seen
from .study import Entry, Study

__all__ = ["Measured", "study_page"]

NOWHERE = ""  # the place of an entry that needs no runs


@dataclass(frozen=True)
class Measured:
    """An entry with the answers to its parts by place, and what else its page shows.

    Args:
        entry: the entry.
        answers: to the parts of its claim, by name of the place; empty if it could not be measured.
        beside: to our own questions, in the same way.
        blocks: tables and pictures.
        facts: what made the numbers.
    """

    entry: Entry
    answers: Mapping[str, Sequence[Answer]] = field(default_factory=dict)
    beside: Mapping[str, Sequence[Answer]] = field(default_factory=dict)
    blocks: Sequence[Block] = ()
    facts: Mapping[str, Text] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """How many parts are seen, by place."""
        if not any(self.answers.values()):
            return "not tried"
        counts = {place: seen(answers) for place, answers in self.answers.items() if answers}
        if len(counts) == 1:
            return next(iter(counts.values()))
        return "; ".join(f"{place}: {count}" for place, count in counts.items())


def study_page(study: Study, measured: Sequence[Measured], command: str) -> Page:
    """The page.

    Args:
        study: its texts.
        measured: its entries.
        command: that writes the page, as a reader would give it.
    """
    footer = (f"Written by rootpool {rootpool.__version__}: ", Mono(command))
    page = Page(study.title, lead=study.lead, footer=footer)
    page.add(*(Paragraph(text) for text in study.notes), Code(command, "sh"))
    if any(len(one.entry.parts) > 1 for one in measured):
        page.add(_overview(measured))
    kinds = list(dict.fromkeys(one.entry.kind for one in measured))
    level: Literal[2, 3] = 3 if len(kinds) > 1 else 2
    for kind, heading in study.sections.items():
        own = [one for one in measured if one.entry.kind == kind]
        if own and level == 3:
            page.add(Heading(heading))
        for one in own:
            page.add(*_entry(one, study, level))
    page.add(Heading("Where this was run"), Facts({k: str(v) for k, v in machine().items()}))
    return page


def _overview(measured: Sequence[Measured]) -> Table:
    """A row for each part of each claim, with a column for each place."""
    places = list(dict.fromkeys(p for one in measured for p in one.answers if p != NOWHERE))
    rows: list[list[Cell]] = []
    for one in measured:
        everywhere = one.answers.get(NOWHERE, ())
        for k, part in enumerate(one.entry.parts):
            states: list[Cell] = []
            for place in places or [NOWHERE]:
                found = [a for a in one.answers.get(place, everywhere) if a.part is part]
                states.append(found[0].state if found else "–" if part.where else "not tried")
            title: Text = Link(one.entry.title, f"#{anchor(one.entry.title)}")
            rows.append([title if k == 0 else "", part.text, *states])
    caption = (
        "The parts of each claim, and what is to be seen of them: by argument, at full size, or at small "
        "scale, where it says little about networks of another size. –: not asked there."
    )
    return Table(["entry", "part of the claim", *(places or ["here"])], rows, caption)


def _entry(one: Measured, study: Study, level: Literal[2, 3]) -> list[Block]:
    entry = one.entry
    blocks: list[Block] = [Heading(entry.title, level), *(Paragraph(t) for t in entry.text)]
    source = f" ({entry.source})" if entry.source else ""
    blocks.append(Paragraph((Strong("The claim:"), f" {entry.claim}{source}")))
    for name, text in (("Published:", entry.published), ("What differs here:", entry.differs)):
        blocks += [Paragraph((Strong(name), f" {text}"))] if text else []
    if not any(one.answers.values()) and entry.missing:
        return [*blocks, Note(entry.missing), *_full(entry)]
    several = len(one.answers) > 1
    for place, answers in one.answers.items():
        blocks += [_note(answer, place if several else "") for answer in answers]
    for place, answers in one.beside.items():
        where = f"our own question{f', {place}' if several else ''}"
        blocks += [_note(answer, where) for answer in answers]
    blocks += [Paragraph(entry.remark)] if entry.remark else []
    return [*blocks, *one.blocks, *_comparisons(one), _made_by(one, study)]


def _note(answer: Answer, where: str = "") -> Note:
    where = f" ({where})" if where else ""
    here = "" if answer.part.outcome else "Here: "
    said = (
        f" {here}{answer.said[:1].upper() if not here else answer.said[:1]}{answer.said[1:].rstrip('.')}."
        if answer.said
        else ""
    )
    return Note((Strong(f"{answer.state}{where}."), f" {answer.part.text}{said}"), answer.tone)


def _comparisons(one: Measured) -> list[Block]:
    found = [
        (place, answer)
        for group in (one.answers, one.beside)
        for place, answers in group.items()
        for answer in answers
        if answer.comparisons
    ]
    several = len(one.answers) > 1
    tables = [
        comparison_table(
            a.comparisons,
            caption=f"Claim tested{f', {place}' if several else ''}: {a.part.text}",
        )
        for place, a in found
    ]
    return [Details("All comparisons", tables)] if tables else []


def _made_by(one: Measured, study: Study) -> Details:
    blocks: list[Block] = [Code(f"{study.command} {one.entry.name}", "sh")]
    blocks += [Facts(one.facts)] if one.facts else []
    return Details("How this was made", [*blocks, *_full(one.entry)])


def _full(entry: Entry) -> list[Block]:
    if not entry.full:
        return []
    told = Paragraph("At the size of the paper, for one method:")
    return [told, Code("\n".join(entry.full), "sh")]
