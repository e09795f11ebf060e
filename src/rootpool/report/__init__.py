"""Reports: blocks of text, tables and figures, written as one HTML file or as Markdown."""

from .blocks import (
    Block,
    Code,
    Details,
    Facts,
    Heading,
    List,
    Note,
    Paragraph,
    Picture,
    Rendering,
    anchor,
)
from .comparisons import comparison_table
from .document import Page
from .runs_page import runs_page
from .table import Cell, Table
from .text import Link, Mono, Number, Strong, Text

__all__ = [
    "Block",
    "Cell",
    "Code",
    "Details",
    "Facts",
    "Heading",
    "Link",
    "List",
    "Mono",
    "Note",
    "Number",
    "Page",
    "Paragraph",
    "Picture",
    "Rendering",
    "Strong",
    "Table",
    "Text",
    "anchor",
    "comparison_table",
    "runs_page",
]
