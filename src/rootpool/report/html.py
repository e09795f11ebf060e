"""Markdown of a report as HTML: markdown-it renders it, and a template frames it.

Raw HTML is switched off, so no text of a user can become markup. What is ours beyond plain Markdown
(anchors, captions, the tone of notes, folded parts, pictures) is put into the tokens here.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import jinja2
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markupsafe import Markup

from .blocks import TONES, Rendering, anchor, unique
from .svg import inline_svg

__all__ = ["Html", "frame", "to_html"]

# The two pieces of HTML that a block writes; the text inside is escaped already.
FOLDED = re.compile(r"<details>\n<summary>[^<>]*</summary>|</details>")
FEWEST_SECTIONS = 4  # that need a list of contents


class Html(NamedTuple):
    """A rendered document and its sections as anchor and title."""

    body: Markup
    sections: Sequence[tuple[str, str]]


def to_html(markdown: str, rendering: Rendering | None = None) -> Html:
    """Render the Markdown of some blocks, with the pictures that they left in ``rendering``.

    >>> print(to_html("a &lt; **b** <i>").body)
    <p>a &lt; <strong>b</strong> &lt;i&gt;</p>
    <BLANKLINE>
    """
    env: dict[str, Any] = {"rendering": rendering or Rendering(), "sections": []}
    body = _parser().render(markdown, env)
    return Html(Markup(body), env["sections"])


def frame(title: str, lead: Markup, main: Html, footer: Markup) -> str:
    """The whole document, with its style sheet inside."""
    ours = resources.files(__package__)
    template = jinja2.Environment(autoescape=True).from_string(
        ours.joinpath("page.html").read_text("utf-8")
    )
    return template.render(
        title=title,
        lead=lead,
        body=main.body,
        footer=footer,
        sections=main.sections if len(main.sections) >= FEWEST_SECTIONS else (),
        css=Markup(ours.joinpath("page.css").read_text("utf-8")),
    )


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
    """Anchors of headings, classes of captions, pictures and notes."""
    rendering: Rendering = state.env["rendering"]
    taken: dict[str, None] = {}
    quote = None
    for token, inside in zip(state.tokens, state.tokens[1:], strict=False):
        if token.type == "heading_open":
            title = "".join(child.content for child in inside.children or ())
            name = unique(anchor(title), taken)
            taken[name] = None
            token.attrSet("id", name)
            if token.tag == "h2":
                state.env["sections"].append((name, title))
        elif token.type == "blockquote_open":
            quote = token
        elif token.type == "paragraph_open" and quote is not None:
            quote.attrSet("class", _tone(inside.content))
            quote = None
        elif token.type == "paragraph_open" and inside.content in rendering.captions:
            token.attrSet("class", "caption")
        elif token.type == "paragraph_open" and _is_picture(inside):
            token.attrSet("class", "picture")


def _is_picture(inline: Token) -> bool:
    return [child.type for child in inline.children or ()] == ["image"]


def _tone(text: str) -> str:
    return next((tone for tone, mark in TONES.items() if mark and text.startswith(mark)), "plain")


def _picture(
    renderer: RendererHTML, tokens: Sequence[Token], i: int, options: Any, env: Any
) -> str:
    path, alt = (
        str(tokens[i].attrs["src"]),
        renderer.renderInlineAsText(tokens[i].children, options, env),
    )
    figures = env["rendering"].pictures
    if path not in figures:
        return html.escape(alt)  # a page loads nothing from elsewhere
    return inline_svg(figures[path], anchor(path), html.escape(alt))


def _table_open(*_: Any) -> str:
    return '<div class="scroll" role="region" aria-label="table" tabindex="0"><table>\n'
