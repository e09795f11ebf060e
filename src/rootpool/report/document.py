"""A report as one HTML file that needs nothing else, and the same report in Markdown."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from rootpool.files import write_atomically
from rootpool.report.plots.palette import css_colours

from .blocks import Block, Rendering
from .text import Text, to_html, to_markdown

__all__ = ["Page"]

# Nothing is loaded and nothing runs, whatever slips into the page.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass
class Page:
    """A title, a lead, and blocks one after the other.

    >>> from rootpool.report import Heading, Mono, Paragraph
    >>> page = Page("Demo", lead="Nine methods on small images.")
    >>> page.add(Heading("Result"), Paragraph(("See ", Mono("a < b"))))
    >>> print(page.markdown())
    # Demo
    <BLANKLINE>
    Nine methods on small images.
    <BLANKLINE>
    ## Result
    <BLANKLINE>
    See `a < b`
    <BLANKLINE>
    """

    title: str
    lead: Text = ""
    footer: Text = ""
    blocks: list[Block] = field(default_factory=list)

    def add(self, *blocks: Block) -> None:
        """Append blocks."""
        self.blocks.extend(blocks)

    def html(self) -> str:
        """The page as one HTML document."""
        rendering = Rendering()
        body = "\n".join(block.html(rendering) for block in self.blocks)
        title = html.escape(self.title)
        lead = f'<p class="lead">{to_html(self.lead)}</p>' if self.lead else ""
        footer = f"<footer>{to_html(self.footer)}</footer>" if self.footer else ""
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f"<title>{title}</title>\n<style>\n{_css()}</style>\n</head>\n<body>\n"
            f"<header><h1>{title}</h1>\n{lead}</header>\n{_contents(rendering)}"
            f"<main>\n{body}\n</main>\n{footer}\n</body>\n</html>\n"
        )

    def markdown(self) -> str:
        """The page as Markdown, whose pictures ``write_markdown`` puts beside it."""
        return self._markdown(Rendering("pictures/"))

    def _markdown(self, rendering: Rendering) -> str:
        parts = [f"# {to_markdown(self.title)}", to_markdown(self.lead)]
        parts += [block.markdown(rendering) for block in self.blocks]
        parts += ["---", to_markdown(self.footer)] if self.footer else []
        return "\n\n".join(part for part in parts if part) + "\n"

    def write(self, path: str | Path) -> Path:
        """Write the HTML page, whole or not at all."""
        return write_atomically(path, self.html())

    def write_markdown(self, path: str | Path) -> Path:
        """Write ``report.md`` and its pictures in ``report-pictures/``."""
        path = Path(path)
        rendering = Rendering(f"{path.stem}-pictures/")
        text = self._markdown(rendering)
        for name, picture in rendering.files.items():
            write_atomically(path.parent / name, picture)
        return write_atomically(path, text)


def _css() -> str:
    colours = f":root{{{css_colours('light')}}}\n"
    dark = f"@media screen and (prefers-color-scheme:dark){{:root{{{css_colours('dark')}}}}}\n"
    return colours + dark + resources.files(__package__).joinpath("page.css").read_text("utf-8")


def _contents(rendering: Rendering, fewest: int = 4) -> str:
    """A list of the sections, for a page that has several."""
    sections: Sequence[tuple[int, str, str]] = [c for c in rendering.contents if c[0] == 2]
    if len(sections) < fewest:
        return ""
    items = "".join(f'<li><a href="#{anchor}">{text}</a></li>' for _, text, anchor in sections)
    return f'<nav aria-label="Contents"><ol>{items}</ol></nav>\n'
