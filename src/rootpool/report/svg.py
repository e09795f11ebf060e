"""Figures as SVG that follows the colours of the page around it."""

from __future__ import annotations

import io
import re
import warnings
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from .plots.drawing import STYLE
from .plots.palette import INK, PAPER, css_colours, tones

__all__ = ["inline_svg", "standalone_svg"]

# Text stays text (in the reader's own fonts, and searchable), and the same figure gives the same bytes.
RENDERING: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "rootpool",
    "text.parse_math": False,
}
TWINS = {tone.light: tone.css for tone in tones()} | {"#000000": INK.css}


def inline_svg(figure: Figure, prefix: str, alt: str) -> str:
    """An ``<svg>`` element with a transparent background, for a page that declares our colours.

    ``prefix`` must be unique in the page; ``alt`` must be escaped already.
    """
    svg = _rewrite(_raw_svg(figure, "none"), prefix)
    return svg.replace("<svg", f'<svg class="plot" role="img" aria-label="{alt}"', 1)


def standalone_svg(figure: Figure) -> str:
    """An SVG file of its own, with a background, that is dark on a dark screen."""
    css = (
        f"svg{{{css_colours('light')}fill:{INK.css}}}"
        f"@media (prefers-color-scheme:dark){{svg{{{css_colours('dark')}}}}}"
        "*{stroke-linejoin:round;stroke-linecap:butt}"
    )
    svg = _rewrite(_raw_svg(figure, PAPER.light), "p")
    return re.sub(r"(<svg[^>]*>)", rf"\g<1><style>{css}</style>", svg, count=1) + "\n"


def _raw_svg(figure: Figure, background: str) -> str:
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context(STYLE | RENDERING), warnings.catch_warnings():
        # Only the reader's fonts matter; those that matplotlib measures with may lack a letter.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(
            buffer, format="svg", metadata=nothing, facecolor=background, edgecolor="none"
        )
    return buffer.getvalue()


def _rewrite(svg: str, prefix: str) -> str:
    """Replace fixed colours by those of the theme and prefix every name, in tags only, not in text."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<!--.*?-->|<style.*?</style>|<defs>\s*</defs>", "", svg, flags=re.DOTALL)

    def tag(match: re.Match[str]) -> str:
        text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}-", match[0])
        return re.sub(r"#[0-9a-f]{6}\b", lambda hexes: TWINS.get(hexes[0], hexes[0]), text)

    return re.sub(r"<[^<>]*>", tag, svg).strip()
