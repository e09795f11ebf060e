"""The report: for each entry what was published, what was measured, and whether the claim shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import rootpool
from rootpool.analysis import Record, machine
from rootpool.report import (
    Block,
    Code,
    Details,
    Facts,
    Heading,
    Link,
    List,
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

from .bench import Bench
from .entries import ENTRIES, Elsewhere, claim, source, title
from .published import load_published
from .result import Result
from .theory.explained import EXPLAINED, INTRODUCTION

__all__ = ["make_page"]

Tone = Literal["plain", "yes", "no", "unclear"]
TONES: dict[bool | None, Tone] = {True: "yes", False: "no", None: "unclear"}
WORDS = {True: "shows", False: "does not show", None: "unclear", "needs": "needs more"}
MARKS = {True: "✓", False: "✗", None: "≈", "needs": "–"}
SECTIONS = {
    "figure": "Figures",
    "table": "Tables",
    "text": "Seeds",
    "theory": "Theory",
}


def make_page(results: Mapping[str, Result | None], bench: Bench) -> Page:
    """A page of entries by name; None for those that need what is not here."""
    theory = all(name in EXPLAINED for name in results)
    page = _theory_page() if theory else _paper_page(results, bench)
    for kind, heading in SECTIONS.items():
        names = [name for name in results if name.partition(":")[0] == kind]
        if not names:
            continue
        if not theory:
            page.add(Heading(heading))
        if kind == "theory" and not theory:
            page.add(*(Paragraph(text) for text in INTRODUCTION))
        for name in names:
            page.add(*_entry(name, results[name], bench, level=2 if theory else 3))
    page.add(Heading("Where this was run"), Facts({k: str(v) for k, v in machine().items()}))
    return page


def _theory_page() -> Page:
    page = Page(
        "The gradient of a matrix square root: theory that runs",
        lead="Why the gradient of an accurate root is hard to get, what the remedies of the paper do about "
        "it, and why the exact gradient needs none of them.",
        footer=_footer("rootpool paper theory"),
    )
    page.add(*(Paragraph(text) for text in INTRODUCTION))
    return page


def _footer(command: str) -> Text:
    return (f"Written by rootpool {rootpool.__version__}: ", Mono(command))


def _paper_page(results: Mapping[str, Result | None], bench: Bench) -> Page:
    paper = load_published().source
    page = Page(
        "The paper, measured",
        lead=f"{paper['title']} ({paper['authors']}, {paper['venue']}): every table and figure, with what it "
        "prints, what was measured here, and whether its claim shows.",
        footer=_footer(_command(list(results), bench)),
    )
    page.add(
        _counts(results),
        _scale(bench),
        Paragraph(("The paper: ", Link(paper["url"], paper["url"]))),
    )
    page.add(_overview(results))
    return page


def _counts(results: Mapping[str, Result | None]) -> Facts:
    found = Counter("needs" if r is None else r.shows for r in results.values())
    return Facts({WORDS[key]: str(found[key]) for key in (True, False, None, "needs")})


def _scale(bench: Bench) -> Note:
    if not bench.miniature:
        return Note(f"Trained by the recipes {bench.family}-* on {bench.data}.")
    return Note(
        "The numerical tables are measured as they stand in the paper. Those that need training are "
        "measured in miniature: a network of three convolutions on grey patches of 18 photographs, "
        "which trains in half a minute. Such runs can show what a claim says, or the opposite, but "
        "differences of tenths of a percent, as ImageNet gives them, are below their noise: many "
        "answers are ‘unclear’, and that is what they should be. Every entry has the commands for the "
        "experiment at its full size."
    )


def _overview(results: Mapping[str, Result | None]) -> Table:
    rows: list[list[Text]] = []
    for name, result in results.items():
        said = claim(name) or (result.claim if result else "")
        word = "needs" if result is None else result.shows
        called = title(name)
        # Names of statements hold more than plain words, of which every renderer makes another anchor.
        entry: Text = called if name in EXPLAINED else Link(called, f"#{anchor(called)}")
        rows.append([entry, said, f"{MARKS[word]} {WORDS[word]}"])
    return Table(
        ["entry", "claim", "here"], rows, caption="All entries, and whether their claims show."
    )


# --------------------------------------------------------------------------------------------------
# One entry


def _entry(name: str, result: Result | None, bench: Bench, level: Literal[2, 3]) -> list[Block]:
    blocks: list[Block] = [Heading(title(name), level)]
    if name in EXPLAINED:
        blocks += [Paragraph(text) for text in EXPLAINED[name].text]
    found = source(name)
    if found is not None:
        blocks.append(
            Paragraph((Strong("The paper:"), f" {found.claim} (Section “{found.section}”)"))
        )
    elif result is not None and name not in EXPLAINED:
        blocks.append(Paragraph((Strong("The paper:"), f" {result.claim}")))
    entry = ENTRIES[name]
    if result is not None:
        blocks += _answers(result)
    elif entry.elsewhere is not None:
        blocks += _needs(name, entry.elsewhere)
    if entry.remark:
        blocks.append(Paragraph(entry.remark))
    if result is None:
        return blocks
    if (table := side_by_side(name, result)) is not None:
        blocks.append(table)
    blocks += entry.draw(result, bench)
    return [*blocks, _made_by(name, result, bench)]


def _answers(result: Result) -> list[Block]:
    answers = result.series.get("answers")
    if not answers:
        return [Note(result.verdict, TONES[result.shows])]
    return [Note(str(a["text"]), TONES[a["shows"]]) for a in answers]


def _needs(name: str, elsewhere: Elsewhere) -> list[Block]:
    return [
        Note(
            f"Not measured here: this needs {elsewhere.needs}. One method, the others are named alike:"
        ),
        Code("\n".join(_full_commands(name, "svd-pade")), "sh"),
        Paragraph(elsewhere.makes),
        Code(elsewhere.command.format(name=name), "sh"),
    ]


def _full_commands(name: str, method: str) -> list[str]:
    folders = {"birds": "CUB_200_2011", "dogs": "stanford-dogs", "cars": "stanford-cars"}
    commands = []
    for pattern in ENTRIES[name].full:
        recipe, *overrides = pattern.format(method=method).split()
        family = recipe.split("-")[0]
        options = f"--data {folders.get(family, 'imagenet')}"
        if family in folders:
            options += f" --weights runs/resnet50-imagenet-{method}-hybrid/last.ckpt"
        commands.append(" ".join(["rootpool train --recipe", recipe, options, *overrides]))
    return commands


def _made_by(name: str, result: Result, bench: Bench) -> Details:
    blocks: list[Block] = [Code(_command([name], bench), "sh")]
    if result.settings:
        blocks.append(Facts({key: str(value) for key, value in result.settings.items()}))
    comparisons = result.series.get("comparisons", ())
    if comparisons:
        blocks += [Paragraph("All comparisons:"), List([_comparison(c) for c in comparisons])]
    if ENTRIES[name].full:
        blocks += [
            Paragraph("At the size of the paper, for one method:"),
            Code("\n".join(_full_commands(name, "svd-pade")), "sh"),
        ]
    return Details("How this was made", blocks)


def _comparison(record: Record) -> str:
    mean, low, high, p = (record[key] for key in ("mean", "low", "high", "corrected_p"))
    interval = "one value" if low is None else f"{low:+.2f} to {high:+.2f}"
    chance = "" if p is None else f", p = {p:.2g} after Holm's correction"
    return f"{record['label']}: {mean:+.2f} points ({interval}{chance})"


def _command(names: Sequence[str], bench: Bench) -> str:
    parts = ["rootpool paper"]
    if len(names) < len(ENTRIES):
        parts += names
    if any(ENTRIES[name].trials(bench) for name in names):
        parts.append(f"--seeds {bench.seeds}")
    if bench.data is not None:
        parts.append(f"--recipes {bench.family} --data {bench.data}")
    if bench.weights is not None:
        parts.append(f"--weights {bench.weights}")
    return " ".join(parts)


# --------------------------------------------------------------------------------------------------
# Published and measured


def side_by_side(name: str, result: Result) -> Table | None:
    """Each row of the paper, as printed, and below it what was measured."""
    cells = [r for r in result.records if "row" in r and "column" in r]
    if not cells:
        return None
    columns = list(dict.fromkeys(str(r["column"]) for r in cells))
    rows: list[list[Text | None]] = []
    for row in dict.fromkeys(str(r["row"]) for r in cells):
        own = [r for r in cells if r["row"] == row]
        shown = _lines(own, columns, ENTRIES[name].form)
        rows += [[row if k == 0 else "", *line] for k, line in enumerate(shown)]
    headers = [_what(name), "", *columns]
    if not any(r.get("printed") for r in cells):  # a figure: nothing to compare with
        headers, rows = [headers[0], *columns], [[row[0], *row[2:]] for row in rows]
    return Table(headers, rows, caption=_caption(name, result))


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


def _what(name: str) -> str:
    return {"table:taylor-degrees": "degree", "table:pade-degrees": "degree"}.get(name, "row")


def _caption(name: str, result: Result) -> str:
    found = source(name)
    caption = getattr(found, "caption", "Measured here.")
    spread = any(r.get("spread") is not None for r in result.records)
    return caption + " Here: mean ± standard deviation over seeds." * spread
