"""The report: for each entry what was published, what was measured, and the verdict on its claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import rootpool
from rootpool.machine import machine
from rootpool.report import (
    Block,
    Code,
    Details,
    Facts,
    Heading,
    Link,
    Mono,
    Note,
    Number,
    Page,
    Paragraph,
    Strong,
    Table,
    Text,
    anchor,
)
from rootpool.report.records import Record
from rootpool.report.statistics import show_p
from rootpool.train import families

from .entries import ENTRIES
from .entry import Elsewhere, Entry
from .plan import PATCHES, Plan
from .published import load_published
from .recorded import NETWORKS, recorded_verdicts
from .result import Result, Verdict
from .theory import INTRODUCTION

__all__ = ["MARKS", "Cover", "make_page"]

Tone = Literal["plain", "yes", "no", "unclear"]
TONES: dict[Verdict, Tone] = {"supported": "yes", "contradicted": "no", "inconclusive": "unclear"}
MARKS = {"supported": "✓", "contradicted": "✗", "inconclusive": "≈", "not measured": "–"}
SECTIONS = {
    "figure": "Figures",
    "table": "Tables",
    "text": "Claims of the text",
    "theory": "Theory",
}


@dataclass(frozen=True)
class Cover:
    """How a page begins: title, a sentence about it, the command that writes it, and first blocks."""

    title: str
    lead: str
    command: str
    blocks: Sequence[Block] = ()


def make_page(results: Mapping[str, Result | None], plan: Plan, cover: Cover | None = None) -> Page:
    """A page of entries by name; None for those that need what is not here."""
    theory = all(ENTRIES[name].kind == "theory" for name in results)
    cover = cover or (_theory_cover() if theory else _paper_cover(results, plan))
    written = (f"Written by rootpool {rootpool.__version__}: ", Mono(cover.command))
    page = Page(cover.title, lead=cover.lead, footer=written)
    page.add(*cover.blocks)
    if not theory:
        page.add(_counts(results), _overview(results))
    for kind, heading in SECTIONS.items():
        entries = [ENTRIES[name] for name in results if ENTRIES[name].kind == kind]
        if not entries:
            continue
        if not theory:
            page.add(Heading(heading))
        if kind == "theory" and not theory:
            page.add(*(Paragraph(text) for text in INTRODUCTION))
        for entry in entries:
            page.add(*_entry(entry, results[entry.name], plan, level=2 if theory else 3))
    page.add(Heading("Where this was run"), Facts({k: str(v) for k, v in machine().items()}))
    return page


def _theory_cover() -> Cover:
    return Cover(
        "The gradient of a matrix square root: theory that runs",
        "Why the gradient of an accurate root is hard to get, what the remedies of the paper do about "
        "it, and why the exact gradient needs none of them.",
        "python -m studies paper theory",
        [Paragraph(text) for text in INTRODUCTION],
    )


def _paper_cover(results: Mapping[str, Result | None], plan: Plan) -> Cover:
    paper = load_published().source
    part = "every table and figure" if len(results) == len(ENTRIES) else "a part of it"
    return Cover(
        "The paper, measured",
        f"{paper['title']} ({paper['authors']}, {paper['venue']}): {part}, with what it prints, what was "
        "measured here, and whether that supports its claim.",
        _command(list(results), plan),
        [_scale(plan), Paragraph(("The paper: ", Link(paper["url"], paper["url"])))],
    )


def _counts(results: Mapping[str, Result | None]) -> Facts:
    found = Counter(_word(result) for result in results.values())
    return Facts({word: str(found[word]) for word in MARKS})


def _word(result: Result | None) -> str:
    return "not measured" if result is None else result.verdict


def _scale(plan: Plan) -> Note:
    if not plan.miniature:
        chosen = families()[plan.family].tuning_note
        return Note(f"Trained by the recipes {plan.family}-* on {plan.data}. {chosen}".strip())
    return Note(
        "The numerical tables are measured as they stand in the paper. Those that need training are "
        "measured in miniature: a network of three convolutions on grey patches of 18 photographs, "
        f"{NETWORKS[plan.family]}, which trains in half a minute. The methods of the paper have their "
        "gradients as published; ours, and MPN-COV in our form (‘fused’), stand beside them and enter no "
        "verdict. A run whose numbers stop being finite is a result: from there on it counts with the "
        "error of guessing. Where a verdict is ‘inconclusive’, the entry says what differences its seeds "
        "could tell from zero. Every entry has the commands for the experiment at its full size."
    )


def _overview(results: Mapping[str, Result | None]) -> Table:
    rows: list[list[Text]] = []
    for name, result in results.items():
        entry, word = ENTRIES[name], _word(result)
        # Titles of statements hold more than plain words, for which every renderer makes another anchor.
        plain = entry.kind != "theory"
        called: Text = Link(entry.title, f"#{anchor(entry.title)}") if plain else entry.title
        rows.append([called, entry.claim, f"{MARKS[word]} {word}"])
    return Table(
        ["entry", "claim", "here"], rows, caption="All entries, and the verdicts on their claims."
    )


# --------------------------------------------------------------------------------------------------
# One entry


def _entry(entry: Entry, result: Result | None, plan: Plan, level: Literal[2, 3]) -> list[Block]:
    blocks: list[Block] = [Heading(entry.title, level), *(Paragraph(t) for t in entry.text)]
    if entry.section:
        said = f" {entry.claim} (Section “{entry.section}”)"
        blocks.append(Paragraph((Strong("The paper:"), said)))
    if result is not None:
        blocks += _answers(result)
    elif entry.elsewhere is not None:
        blocks += _needs(entry, entry.elsewhere)
    if entry.remark:
        blocks.append(Paragraph(entry.remark))
    if result is None:
        return blocks
    if (table := side_by_side(entry, result)) is not None:
        blocks.append(table)
    blocks += entry.draw(result, plan)
    return [*blocks, *_comparisons(result), _made_by(entry, result, plan)]


def _answers(result: Result) -> list[Block]:
    answers = result.series.get("answers")
    if not answers:
        return [Note(result.reason, TONES[result.verdict])]
    beside = result.series.get("beside", ())
    return [
        *(Note(str(a["text"]), TONES[a["verdict"]]) for a in answers),
        *(Note(f"Not asked by the paper: {a['text']}") for a in beside),
    ]


def _needs(entry: Entry, elsewhere: Elsewhere) -> list[Block]:
    return [
        *_recorded(entry),
        Note(f"Not measured here: this needs {elsewhere.needs}. For one method:"),
        Code(_full_commands(entry), "sh"),
        Paragraph(elsewhere.makes),
        Code(elsewhere.command.format(name=entry.name), "sh"),
    ]


def _recorded(entry: Entry) -> list[Block]:
    """What our own record says of an entry that is not measured here."""
    return [
        Note(f"Our record ({network}): the claim is {word}.", tone)
        for network, word in recorded_verdicts(entry.name).items()
        for verdict, tone in TONES.items()
        if word == verdict
    ]


def _full_commands(entry: Entry, method: str = "svd-pade") -> str:
    return "\n".join(full.command(method) for full in entry.full)


def _made_by(entry: Entry, result: Result, plan: Plan) -> Details:
    blocks: list[Block] = [Code(_command([entry.name], plan), "sh")]
    if result.settings:
        blocks.append(Facts({key: str(value) for key, value in result.settings.items()}))
    if entry.full:
        blocks += [
            Paragraph("At the size of the paper, for one method:"),
            Code(_full_commands(entry), "sh"),
        ]
    return Details("How this was made", blocks)


def _comparisons(result: Result) -> list[Block]:
    """A table for each question; methods that the paper does not have stand below the others."""
    found: dict[str, list[Record]] = {}
    for record in result.series.get("comparisons", ()):
        found.setdefault(str(record["question"]), []).append(record)
    headers = ["run", "against", "difference, points", "p, after Holm", "seeds", "difference is"]
    tables: list[Block] = []
    for question, records in found.items():
        rows = [_comparison(record) for record in records]
        names, caption = list(headers), question
        if any("over_images" in record for record in records):
            names.insert(3, "over images")
            caption += (
                " Intervals (95 %) of differences: over other seeds, and paired over other images."
            )
            for row, record in zip(rows, records, strict=True):
                reach = record.get("over_images")
                row.insert(3, None if reach is None else f"± {reach:.2f}")
        tables.append(Table(names, rows, caption))
    return [Details("All comparisons", tables)] if tables else []


def _comparison(record: Record) -> list[Text | int | None]:
    mean, low, high, p = (record[key] for key in ("mean", "low", "high", "corrected_p"))
    assert isinstance(mean, float)
    reach = (high - low) / 2 if isinstance(low, float) and isinstance(high, float) else None
    chance = show_p(p if isinstance(p, float) else None).removeprefix("= ")
    word = (
        ("for the better" if mean < 0 else "for the worse") if record["clear"] else "within noise"
    )
    run, baseline, seeds = (str(record[key]) for key in ("run", "baseline", "n"))
    judged = "" if record["judged"] else " (not in the paper's, not judged)"
    return [run, baseline, Number(mean, reach, "+.2f"), chance, seeds, word + judged]


def _command(names: Sequence[str], plan: Plan) -> str:
    parts = ["python -m studies paper"]
    if len(names) < len(ENTRIES):
        parts += names
    if any(ENTRIES[name].trials(plan) for name in names):
        parts.append(f"--seeds {plan.seeds}")
        if plan.methods is not None:
            parts.append(f"--methods {' '.join(plan.methods)}")
    if plan.family != PATCHES:
        parts.append(f"--recipes {plan.family}")
    if plan.data is not None:
        parts.append(f"--data {plan.data}")
    if plan.weights is not None:
        parts.append(f"--weights {plan.weights}")
    return " ".join(parts)


# --------------------------------------------------------------------------------------------------
# Published and measured


def side_by_side(entry: Entry, result: Result) -> Table | None:
    """Each row of the paper, as printed, and below it what was measured."""
    cells = [r for r in result.records if "row" in r and "column" in r]
    if not cells:
        return None
    columns = list(dict.fromkeys(str(r["column"]) for r in cells))
    rows: list[list[Text | None]] = []
    for row in dict.fromkeys(str(r["row"]) for r in cells):
        own = [r for r in cells if r["row"] == row]
        shown = _lines(own, columns, entry.form)
        rows += [[row if k == 0 else "", *line] for k, line in enumerate(shown)]
    headers = [entry.rows, "", *columns]
    if not any(r.get("printed") for r in cells):  # a figure: nothing to compare with
        headers, rows = [headers[0], *columns], [[row[0], *row[2:]] for row in rows]
    return Table(headers, rows, caption=_caption(entry, result))


def _lines(own: Sequence[Record], columns: Sequence[str], form: str) -> list[list[Text | None]]:
    lines: list[list[Text | None]] = []
    printed = [r for r in own if r.get("printed") is not None]
    for group in dict.fromkeys(r.get("group") for r in printed):
        texts = {
            str(r["column"]): str(r["printed"]).replace("-", "−")
            for r in printed
            if r.get("group") == group
        }
        where = "paper" if group is None else f"paper, {group}"
        lines.append([where, *(texts.get(column) for column in columns)])
    measured = {str(r["column"]): _number(r, form) for r in own if r.get("measured") is not None}
    if measured:
        lines.append([Strong("here"), *(measured.get(column) for column in columns)])
    return lines


def _number(record: Record, form: str) -> Text:
    value, spread = record["measured"], record.get("spread")
    assert isinstance(value, int | float)
    return Number(value, spread if isinstance(spread, float) else None, form)


def _caption(entry: Entry, result: Result) -> str:
    spread = any(r.get("spread") is not None for r in result.records)
    return entry.caption + " Here: mean ± standard deviation over seeds." * spread
