"""A page with every block and picture, and hostile text wherever text can be."""

from matplotlib.figure import Figure
from PIL import Image

from rootpool.nn import METHODS
from rootpool.report import (
    Code,
    Details,
    Facts,
    Gallery,
    Heading,
    Link,
    List,
    Method,
    Mono,
    Note,
    Number,
    Page,
    Paragraph,
    Photo,
    Picture,
    Strong,
    Table,
)
from rootpool.report.plots import (
    confusion_pairs,
    dots_with_spread,
    learning_curve_panels,
    learning_curves,
    paired_differences,
    speed_bars,
)

HOSTILE = (
    "<script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "</title></style></svg><svg onload='window.hacked = 1'>",
    "<!-- --> ]]> &lt;b&gt; $x_1$ `a` | *b* {0}",
    "_hidden",
    "名前 \N{BIRD} \u202e\x07",
    "a" * 90,
)

CURVES = [
    {
        "run": f"{method}, {protocol}",
        "method": method,
        "protocol": protocol,
        "seed": seed,
        "epoch": epoch,
        "val_error": 10 + seed + 50 / (1 + epoch) + (protocol == "hybrid"),
    }
    for method in [*list(METHODS)[:2], *HOSTILE]
    for protocol in ("standalone", "hybrid")
    for seed in (0, 1)
    for epoch in (0, 1, 2)
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
        page.add(Heading(name), Paragraph((name, Strong(name), Mono(name), Method(name))))
        page.add(Note(name, "no"), List([name]), Code(name), Code(name * 3))
        page.add(Details(name, [Heading(name, 3), Paragraph(Link(name, "#" + name))]))
    page.add(
        Table(
            [*HOSTILE, "error, %"],
            [[*HOSTILE, Number(12.0 - i, 0.5)] for i in range(3)],
            caption=HOSTILE[1],
            best={"error, %": "lowest"},
        ),
        Gallery([Photo(Image.new("RGB", (40, 30), "red"), name, [name] * 2) for name in HOSTILE]),
    )
    rows = [{"label": name, "milliseconds": 1.0 + i} for i, name in enumerate(HOSTILE)]
    differences = [{"label": name, "mean": 1, "low": 0, "high": 2} for name in HOSTILE]
    pairs = [{"true": name, "predicted": name[:40], "count": 3} for name in HOSTILE]
    few = [r for r in CURVES if r["method"] in (*METHODS, *HOSTILE[:4])]
    page.add(
        Picture.of(learning_curves, few, switch_epoch=2, decay_epochs=(1,), alt=HOSTILE[0]),
        Picture.of(learning_curve_panels, CURVES, alt=HOSTILE[1], caption=HOSTILE[1]),
        Picture.of(dots_with_spread, CURVES, alt="dots"),
        Picture.of(paired_differences, differences, alt="differences"),
        Picture.of(speed_bars, rows, alt="speeds"),
        Picture.of(confusion_pairs, pairs, alt="confusions"),
        Picture(foreign_figure(), alt="a figure of somebody else"),
    )
    return page
