"""Figures as SVG, inside a page or as a file."""

from __future__ import annotations

import io
import re
import warnings

from matplotlib import style
from matplotlib.figure import Figure

from .plots.drawing import STYLE
from .plots.palette import DARK, INK, PAPER

__all__ = ["dark_rules", "inline_svg", "standalone_svg", "without_paper"]

# Text stays text (in the reader's own fonts, and searchable), and the same figure gives the same bytes.
RENDERING = {"svg.fonttype": "none", "svg.hashsalt": "rootpool"}
PATCH = re.compile(r'(id="(?:p-)?patch_1">\s*<path [^>]*style="fill: )[^";]+')


def inline_svg(figure: Figure, prefix: str, alt: str) -> str:
    """An ``<svg>`` element; ``prefix`` must be unique in the page, and ``alt`` escaped already."""
    svg = without_paper(standalone_svg(figure))
    # Every figure has the same names. Only tags are changed, never text.
    svg = re.sub(
        r"<[^<>]*>",
        lambda tag: re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}-", tag[0]),
        svg,
    )
    least = round(0.75 * 96 * figure.get_figwidth())  # pixels: smaller, its text is hard to read
    attributes = f'class="plot" style="min-width: {least}px" role="img" aria-label="{alt}"'
    return svg.strip().replace("<svg", f"<svg {attributes}", 1)


def without_paper(svg: str) -> str:
    """A picture whose background is the page's."""
    return PATCH.sub(r"\1none", svg, count=1)


def dark_rules(within: str = "") -> str:
    """Rules of a style sheet by which pictures without paper are legible on a dark page."""
    rules = [f"{within}text{{fill:{DARK[INK]}}}"]
    for light, dark in DARK.items():
        for kind in ("fill", "stroke"):
            rules.append(f"{within}[style*='{kind}: {light}']{{{kind}:{dark}!important}}")
    return f"@media screen and (prefers-color-scheme:dark){{{''.join(rules)}}}"


def standalone_svg(figure: Figure) -> str:
    """An SVG file on white paper."""
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with style.context([STYLE, RENDERING]), warnings.catch_warnings():
        # Only the reader's fonts matter; those that matplotlib measures with may lack a letter.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(buffer, format="svg", metadata=nothing, facecolor=PAPER, edgecolor="none")
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<!--.*?-->|<style.*?</style>|<defs>\s*</defs>", "", svg, flags=re.DOTALL)
    # What matplotlib's own style sheet would have said, for every kind of element.
    return svg.replace("<svg", '<svg stroke-linejoin="round" stroke-linecap="butt"', 1)
