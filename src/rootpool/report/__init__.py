"""Records, statistics, plots and pages; and measures of the spectra of any model.

Names are imported at first use: measures need torch alone, pages also matplotlib and a Markdown renderer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rootpool.lazy import lazy_names

if TYPE_CHECKING:
    from .blocks import (
        Block,
        Cell,
        Code,
        Details,
        Facts,
        Heading,
        Note,
        Paragraph,
        Picture,
        Rendering,
        Table,
        anchor,
    )
    from .document import Page
    from .records import Record, read_records, write_records
    from .run_report import runs_page
    from .runs import RunFolder, RunGroup, group_runs, read_run
    from .spectrum import covariance_eigenvalues, spectrum_statistics
    from .statistics import (
        Comparison,
        PairedDifference,
        compare,
        comparison_table,
        describe,
        difference_by_seed,
        holm,
        paired_difference,
    )
    from .text import Link, Mono, Number, Strong, Text

__all__ = [
    "Block",
    "Cell",
    "Code",
    "Comparison",
    "Details",
    "Facts",
    "Heading",
    "Link",
    "Mono",
    "Note",
    "Number",
    "Page",
    "PairedDifference",
    "Paragraph",
    "Picture",
    "Record",
    "Rendering",
    "RunFolder",
    "RunGroup",
    "Strong",
    "Table",
    "Text",
    "anchor",
    "compare",
    "comparison_table",
    "covariance_eigenvalues",
    "describe",
    "difference_by_seed",
    "group_runs",
    "holm",
    "paired_difference",
    "read_records",
    "read_run",
    "runs_page",
    "spectrum_statistics",
    "write_records",
]

__getattr__ = lazy_names(
    __name__,
    __all__,
    # What needs torch alone comes first.
    (
        "records",
        "spectrum",
        "text",
        "blocks",
        "document",
        "statistics",
        "runs",
        "run_report",
    ),
)
