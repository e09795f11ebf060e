"""Reports: blocks of text, tables and figures that become one HTML file, and the same in Markdown."""

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
from .gallery import Gallery, Photo
from .table import Cell, Table
from .text import Link, Method, Mono, Number, Strong, Text

__all__ = [
    "Block",
    "Cell",
    "Code",
    "Details",
    "Facts",
    "Gallery",
    "Heading",
    "Link",
    "List",
    "Method",
    "Mono",
    "Note",
    "Number",
    "Page",
    "Paragraph",
    "Photo",
    "Picture",
    "Rendering",
    "Strong",
    "Table",
    "Text",
    "anchor",
    "comparison_table",
]
