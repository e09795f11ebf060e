"""Shared by all plots: style, width, legends, axes, and figures as SVG, inside a page or as a file."""

from __future__ import annotations

import functools
import io
import math
import re
import textwrap
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, ParamSpec

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from rootpool.report.records import Record

from .palette import DARK, INK, PAPER

__all__ = [
    "WIDE",
    "below",
    "checked",
    "dark_rules",
    "fit",
    "inline_svg",
    "left_out",
    "legend",
    "logarithmic",
    "standalone_svg",
    "styled",
    "without_paper",
]

WIDE = 7.5  # inches, 720 pixels of a page

P = ParamSpec("P")

STYLE = Path(__file__).with_name("rootpool.mplstyle")
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
CHARACTER = 0.077  # inches of 9-point text, on the safe side
# Text stays text (in the reader's own fonts, and searchable), and the same figure gives the same bytes.
RENDERING = {"svg.fonttype": "none", "svg.hashsalt": "rootpool"}
PATCH = re.compile(r'(id="(?:p-)?patch_1">\s*<path [^>]*style="fill: )[^";]+')


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Make a function draw in our style, whatever the user's matplotlib settings; they stay unchanged."""

    @functools.wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with style.context(["default", STYLE]):
            return draw(*args, **kwargs)

    return drawn


def checked(records: Sequence[Record], *needed: str) -> Sequence[Record]:
    """The records, if there are any and each has what a plot draws."""
    if not records:
        raise ValueError(f"no records to draw; each needs {', '.join(needed)}")
    for record in records:
        missing = [key for key in needed if key not in record]
        if missing:
            raise ValueError(f"records need {', '.join(missing)}; got {', '.join(record)}")
    return records


def legend(figure: Figure, handles: Mapping[str, Line2D], width: float) -> None:
    """Put a legend above the plot, in as many columns as fit."""
    if not handles:
        return
    line = 0.52  # inches of an entry beside its text
    labels = [fit(label, width - line) for label in handles]
    columns = max(1, int(width / (max(map(len, labels)) * CHARACTER + line)))
    figure.legend(list(handles.values()), labels, loc="outside upper left", ncols=columns)
    figure.set_figheight(figure.get_figheight() + 0.19 * -(-len(labels) // columns))


def below(figure: Figure, *lines: str) -> None:
    """Put the label of the x axis and remarks under the whole figure, where long lines fit."""
    width = figure.get_figwidth()
    figure.supxlabel("\n".join(fit(line, width, lines=3) for line in lines), fontsize=9)


def left_out(count: int) -> list[str]:
    """A remark on values that could not be drawn, if there are any."""
    return [f"{count} value{'s' * (count > 1)} not finite, left out"] if count else []


def logarithmic(axes: Axes, name: Literal["x", "y"]) -> None:
    """Make an axis logarithmic, with ticks at decades, or also within them if there are few.

    Over many decades the labels are powers of ten throughout.
    """
    getattr(axes, f"set_{name}scale")("log")
    low, high = getattr(axes, f"get_{name}lim")()
    steps = (1, 1.5, 2, 3, 5, 7) if high <= 10 * low else (1, 2, 5) if high <= 300 * low else (1,)
    axis = getattr(axes, f"{name}axis")
    axis.set_major_locator(LogLocator(subs=steps, numticks=8))
    axis.set_major_formatter(FuncFormatter(_power_of_ten if high > 1e5 * low else "{:g}".format))
    axis.set_minor_locator(NullLocator())


def _power_of_ten(number: float, place: int) -> str:
    """A decade in one notation, whatever its size."""
    return "10" + f"{math.log10(number):.0f}".translate(SUPERSCRIPTS)


def fit(text: str, inches: float, lines: int = 1) -> str:
    """Wrap text to a width; an ellipsis marks what does not fit into ``lines``.

    >>> fit("Clay colored Sparrow", 1.2)
    'Clay colored…'
    >>> fit("Clay colored Sparrow", 1.2, lines=2).splitlines()
    ['Clay colored', 'Sparrow']
    """
    text = text.encode(errors="replace").decode()  # fonts cannot draw lone surrogates
    characters = max(2, int(inches / CHARACTER))
    wrapped = textwrap.wrap(text, characters, break_on_hyphens=False) or [text]
    if len(wrapped) > lines:
        wrapped[lines - 1] = wrapped[lines - 1][: characters - 1] + "…"
    return "\n".join(wrapped[:lines])


# --------------------------------------------------------------------------------------------------
# SVG


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
