"""``python -m studies birds``: heads on frozen features of birds, and a page with the results."""

from __future__ import annotations

from pathlib import Path

__all__ = ["birds"]


def birds(
    data: str,
    output: str,
    *,
    methods: bool = False,
    seeds: int = 5,
    workers: int | None = None,
    markdown: str | None = None,
) -> int:
    """Run the main table and, on demand, the table of all methods; write the page after each.

    Args:
        data: the folder of the data set.
        output: gets everything; what is finished there is not done again.
        methods: whether to compare all methods too, which takes longer than the rest.
        seeds: repetitions of every head.
        workers: processes at a time; None for one per core.
        markdown: where to write the Markdown report, instead of in the output folder.
    """
    if not Path(data).is_dir():
        raise FileNotFoundError(
            f"{data} is not a folder; --data must be CUB-200-2011 as its authors lay it out, or a folder "
            "with train/ and test/"
        )
    from studies.birds.birds import run
    from studies.birds.page import write_reports

    main = run(data, output, seeds=seeds, workers=workers)
    page = write_reports(output, main, markdown=markdown)
    if methods:
        compared = run(data, output, table="methods", seeds=seeds, workers=workers)
        page = write_reports(output, main, compared, markdown)
    print(f"The report is {page}; everything else is beside it.")
    return 0
