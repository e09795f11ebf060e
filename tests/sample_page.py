"""A page with every block and every plot, and hostile text wherever text can be."""

from matplotlib.figure import Figure

from rootpool.report import (
    Code,
    Details,
    Facts,
    Heading,
    Link,
    Mono,
    Note,
    Number,
    Page,
    Paragraph,
    Picture,
    Strong,
    Table,
)
from rootpool.report.plots import (
    dots_with_spread,
    learning_curves,
    paired_differences,
    speed_bars,
)

HOSTILE = (
    "<script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "</title></style></svg><svg onload='window.hacked = 1'>",
    "<!-- --> ]]> &lt;b&gt; $x_1$ `a` | *b* {0} {{ title }}",
    "[a](javascript:window.hacked=1)",
    "名前 \N{BIRD} \u202e",
    "a" * 90,
)

# Rows for each plot: a method that nobody knows, with a name that must be drawn letter by letter.
NAME = "$a_1$ 猫 <b>"
RUN = {"run": NAME, "method": "user's own", "seed": 0, "epoch": 0, "step": 0}
PLOTS = [
    (learning_curves, [RUN | {"val_error": 3.0}], {}),
    (learning_curves, [RUN | {"val_error": 3.0, "method": NAME}], {"panels": True}),
    (learning_curves, [RUN | {"condition_mean": 3.0}], {"value": "condition_mean", "x": "step"}),
    (dots_with_spread, [RUN | {"val_error": 3.0}], {}),
    (
        paired_differences,
        [{"label": NAME, "method": "user's own", "mean": 0.5, "low": -1.0, "high": 2.0}],
        {},
    ),
    (speed_bars, [{"label": NAME, "method": "user's own", "milliseconds": 1.0}], {}),
]


def foreign_figure():
    """A figure that is not one of ours, with colours and names as matplotlib gives them."""
    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([1, 2], [3, 4], "k")
    axes.set_title(HOSTILE[0])
    axes.imshow([[0, 1], [1, 0]], extent=(1, 2, 3, 4))
    return figure


def full_page():
    """Every block, with hostile text wherever text can be."""
    page = Page("Results " + HOSTILE[0], lead=HOSTILE[1], footer=HOSTILE[2])
    page.add(Facts({name: name for name in HOSTILE}))
    for name in HOSTILE:
        page.add(Heading(name), Paragraph((name, Strong(name), Mono(name))), Note(name, "no"))
        page.add(Code(name), Details(name, [Heading(name, 3), Paragraph(name)]))
        page.add(Paragraph(Link(name, "#" + name)), Paragraph(Link("link", name)))
    page.add(
        Table(
            [*HOSTILE, "error, %"],
            [[*HOSTILE, Number(12.0 - i, 0.5)] for i in range(3)],
            caption=HOSTILE[1],
            best={"error, %": "lowest"},
        ),
        Picture(foreign_figure(), alt=HOSTILE[0], caption=HOSTILE[1]),
    )
    page.add(*(Picture.of(draw, rows, alt=HOSTILE[1], **options) for draw, rows, options in PLOTS))
    return page
