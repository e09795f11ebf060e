"""A report: one HTML file that needs nothing else, or Markdown with a folder of pictures."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rootpool.files import write_atomically

from .blocks import Block, Rendering
from .html import frame, to_html
from .svg import standalone_svg
from .text import Text, to_markdown

__all__ = ["Page"]

FEWEST_SECTIONS = 4  # that need a list of contents


@dataclass
class Page:
    """A title, an introduction and blocks, one after the other.

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
        body = to_html(self._body(rendering), rendering)
        lead, footer = (to_html(to_markdown(t), Rendering()) for t in (self.lead, self.footer))
        sections = rendering.sections if len(rendering.sections) >= FEWEST_SECTIONS else ()
        return frame(title=self.title, lead=lead, body=body, footer=footer, sections=sections)

    def _body(self, rendering: Rendering) -> str:
        return "\n\n".join(part for b in self.blocks if (part := b.markdown(rendering)))

    def markdown(self, rendering: Rendering | None = None) -> str:
        """The page as Markdown; its pictures are left in ``rendering``."""
        rendering = Rendering("pictures/") if rendering is None else rendering
        parts = [f"# {to_markdown(self.title)}", to_markdown(self.lead), self._body(rendering)]
        parts += ["---", to_markdown(self.footer)] if self.footer else []
        return "\n\n".join(part for part in parts if part) + "\n"

    def write(self, path: str | Path) -> Path:
        """Write the HTML page, whole or not at all."""
        return write_atomically(path, self.html())

    def write_markdown(self, path: str | Path) -> Path:
        """Write ``report.md``, and its pictures to ``report-pictures/``."""
        path = Path(path)
        rendering = Rendering(f"{path.stem}-pictures/")
        text = self.markdown(rendering)
        for name, figure in rendering.pictures.items():
            write_atomically(path.parent / name, standalone_svg(figure))
        return write_atomically(path, text)
