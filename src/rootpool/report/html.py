"""Markdown of a report as HTML: markdown-it renders it, and a template frames it.

Raw HTML is switched off, so no text of a user can become markup. What is ours beyond plain Markdown
(anchors, captions, the tone of notes, folded parts, pictures) is put into the tokens here.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import jinja2
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markupsafe import Markup

from .blocks import TONES, Rendering, anchor
from .svg import dark_rules, inline_svg

__all__ = ["frame", "to_html"]

# The two pieces of HTML that a block writes; the text inside is escaped already.
FOLDED = re.compile(r"<details>\n<summary>[^<>]*</summary>|</details>")


def to_html(markdown: str, rendering: Rendering) -> Markup:
    """Render the Markdown of some blocks, with the pictures that they left in ``rendering``.

    >>> print(to_html("a &lt; **b** <i>", Rendering()))
    <p>a &lt; <strong>b</strong> &lt;i&gt;</p>
    <BLANKLINE>
    """
    return Markup(_parser().render(markdown, {"rendering": rendering}))


def frame(**parts: Any) -> str:
    """The whole document, with its style sheet inside: title, lead, body, footer, sections."""
    ours = resources.files(__package__)
    template, css = (ours.joinpath(name).read_text("utf-8") for name in ("page.html", "page.css"))
    css += dark_rules(".plot ") + "\n"
    return (
        jinja2.Environment(autoescape=True).from_string(template).render(css=Markup(css), **parts)
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
