"""A report: one HTML file that needs nothing else, or Markdown with a folder of pictures.

Markdown-it renders the Markdown for a template. Raw HTML is switched off, so no text of a user can become
markup. What is ours beyond plain Markdown (anchors, captions, tones, folded parts, pictures) is put into the
tokens here.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markupsafe import Markup

from rootpool.files import write_atomically

from .blocks import TONES, Block, Rendering, anchor
from .plots.drawing import dark_rules, inline_svg, standalone_svg
from .text import Text, to_markdown

__all__ = ["Page"]

FEWEST_SECTIONS = 4  # that need a list of contents
# The two pieces of HTML that a block writes; the text inside is escaped already.
FOLDED = re.compile(r"<details>\n<summary>[^<>]*</summary>|</details>")


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
        rendering, ours = Rendering(), resources.files(__package__)
        body = to_html(self._body(rendering), rendering)
        lead, footer = (to_html(to_markdown(t), Rendering()) for t in (self.lead, self.footer))
        template, css = (
            ours.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("html", "css")
        )
        return (
            jinja2.Environment(autoescape=True)
            .from_string(template)
            .render(
                title=self.title,
                lead=lead,
                body=body,
                footer=footer,
                sections=rendering.sections if len(rendering.sections) >= FEWEST_SECTIONS else (),
                css=Markup(f"{css}{dark_rules('.plot ')}\n"),
            )
        )

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


def to_html(markdown: str, rendering: Rendering) -> Markup:
    """Render the Markdown of some blocks, with the pictures that they left in ``rendering``.

    >>> print(to_html("a &lt; **b** <i>", Rendering()))
    <p>a &lt; <strong>b</strong> &lt;i&gt;</p>
    <BLANKLINE>
    """
    return Markup(_parser().render(markdown, {"rendering": rendering}))


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.core.ruler.after("block", "folded", _unfold)
    parser.core.ruler.push("attributes", _add_attributes)
    parser.add_render_rule("image", _picture)
    parser.add_render_rule("table_open", _table_open)
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return parser


def _unfold(state: StateCore) -> None:
    """Let the tags of ``Details`` through."""
    for i, token in enumerate(state.tokens):
        if token.type == "inline" and FOLDED.fullmatch(token.content):
            around = state.tokens[i - 1 : i + 2]
            for part in around:
                part.type, part.tag, part.nesting = "html_block", "", 0
                part.content = token.content + "\n" if part is token else ""
                part.children = None


def _add_attributes(state: StateCore) -> None:
    """Anchors of headings, classes of captions and notes."""
    rendering: Rendering = state.env["rendering"]
    taken: Counter[str] = Counter()
    quote = None
    for token, inside in zip(state.tokens, state.tokens[1:], strict=False):
        if token.type == "heading_open":
            title = "".join(child.content for child in inside.children or ())
            name = anchor(title)
            taken[name] += 1
            name += (
                f"--{taken[name]}" if taken[name] > 1 else ""
            )  # no title has two dashes in a row
            token.attrSet("id", name)
            if token.tag == "h2":
                rendering.sections.append((name, title))
        elif token.type == "blockquote_open":
            quote = token
        elif token.type == "paragraph_open" and quote is not None:
            quote.attrSet("class", _tone(inside.content))
            quote = None
        elif token.type == "paragraph_open" and inside.content in rendering.captions:
            token.attrSet("class", "caption")


def _tone(text: str) -> str:
    return next((tone for tone, mark in TONES.items() if mark and text.startswith(mark)), "plain")


def _picture(
    renderer: RendererHTML, tokens: Sequence[Token], i: int, options: Any, env: Any
) -> str:
    path = str(tokens[i].attrs["src"])
    alt = renderer.renderInlineAsText(tokens[i].children, options, env)
    figures = env["rendering"].pictures
    if path not in figures:
        return html.escape(alt)  # a page loads nothing from elsewhere
    return inline_svg(figures[path], anchor(path), html.escape(alt))


def _table_open(*_: Any) -> str:
    return '<div class="scroll" role="region" aria-label="table" tabindex="0"><table>\n'
