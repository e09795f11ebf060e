"""The paper's numbers: counts, values read by eye, and every cell against the LaTeX where it is."""

import math
import re
from pathlib import Path

import pytest

from rootpool.nn import SVDNewton, SVDPade, SVDTaylor, SVDTopN, SVDTrunc
from rootpool.paper.published import Cell, load_published, parse_published

# The LaTeX source of the paper is no part of the project; it may lie beside it.
LATEX = Path(__file__).parents[3] / "shared" / "paper"

CELLS = {
    "condition-number": 3,
    "alexnet": 7 * 6,
    "resnet": 12 * 4,
    "fgvc": 7 * 6,
    "speed": 7 * 4,
    "approximation-error": 2 * 7,
    "upper-bounds": 6 * 3,
    "taylor-degrees": 4 * 7,
    "pade-degrees": 4 * 7,
    "upper-bounds-appendix": 6 * 3,
    "warm-up-epochs": 5 * 4,
}


def test_every_table_and_figure_is_there():
    paper = load_published()
    assert {t.id: len(t.records()) for t in paper.tables.values()} == CELLS
    assert list(paper.figures) == [
        "training-curves",
        "precision-and-smoothness",
        "eigenvalue-ratio",
        "smooth-gradients",
        "warm-up-curves",
    ]
    for item in (*paper.tables.values(), *paper.figures.values()):
        assert item.claim.endswith(".")
        assert item.section
        assert item.label
    assert paper.source["venue"] == "ICCV 2021"


@pytest.mark.parametrize(
    ("table", "row", "column", "value"),
    [
        ("condition-number", "MPN-COV", "Epoch 11", 5.36e13),
        ("alexnet", "SVD-Newton", "standalone final top-5", 25.08),
        ("alexnet", "MPN-COV", "hybrid best top-5", 23.24),
        ("fgvc", "SVD-Trunc", "Cars best", 93.04),
        ("fgvc", "SVD-TopN", "Dogs final", None),
        ("speed", "SVD-Newton", "Total (s)", 3.41),
        ("speed", "SVD-Pade", "Bottleneck", None),
        ("approximation-error", "Taylor", "0.999", 904),
        ("upper-bounds", "SVD-Pade", "Maximal Value", 6e36),
        ("upper-bounds", "SVD", "Maximal Value", math.inf),
        ("taylor-degrees", "200", "0.99", 13),
        ("pade-degrees", "50", "0.999", 1e-12),
        ("warm-up-epochs", "3 epochs", "best top-1", 47.54),
    ],
)
def test_values_read_by_eye(table, row, column, value):
    assert load_published().tables[table].cell(row, column).value == value


def test_rows_of_two_networks():
    resnet = load_published().tables["resnet"]
    assert resnet.cell("SVD-Pade", "hybrid top-5", "ResNet-101").value == 5.69
    assert resnet.cell("SVD-Pade", "hybrid top-5", "ResNet-50").value == 6.44
    with pytest.raises(KeyError, match="has 2 rows 'SVD-Pade', group None"):
        resnet.cell("SVD-Pade", "hybrid top-5")
    with pytest.raises(KeyError, match="asked for 'top-9'"):
        resnet.cell("Vanilla ResNet-50", "top-9")


def test_the_methods_have_the_papers_parameters():
    value = {s.id: s.value for s in load_published().statements.values()}
    assert SVDTopN().count == value["topn-count"]
    assert SVDTrunc().bound == value["trunc-bound"]
    assert SVDNewton().iterations == value["newton-iterations"]
    assert SVDTaylor().degree == SVDPade().degree == value["degree"]


def test_numbers_as_printed():
    assert Cell.number("22.60") == Cell("22.60", 22.6)
    units = {"22.60": 0.01, "36": 1.0, "9e-19": 1e-19, "3.41e14": 1e12, "5": 1.0}
    for text, unit in units.items():
        assert Cell.number(text).unit == pytest.approx(unit)
    assert Cell.number("/").unit is None
    assert Cell.number("inf").unit is None
    for text in ("abc", "", "nan", "1.2.3"):
        with pytest.raises(ValueError, match="a cell holds a number, 'inf' or '/', got"):
            Cell.number(text)


# --------------------------------------------------------------------------------- broken files

GOOD = """
source: {title: t}
tables:
  a:
    {number: 1, label: l, section: s, caption: c, claim: c., columns: [x, y], words: [y],
     rows: [{name: r, method: exact, cells: [1.0, w]}]}
figures: {f: {number: 1, label: l, section: s, panels: [p], claim: c.}}
statements: {s: {value: 1, section: s, text: t}}
"""


def test_a_small_file():
    paper = parse_published(GOOD)
    assert paper.tables["a"].cell("r", "x") == Cell("1.0", 1.0)
    assert paper.tables["a"].cell("r", "y") == Cell("w", None)
    assert paper.tables["a"].entry == "table:a"
    assert paper.figures["f"].entry == "figure:f"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cells: [1.0, w]", "cells: [1.0]", "row 'r': 1 cells for 2 columns"),
        ("cells: [1.0, w]", "cells: [one, w]", "a cell holds a number.*got 'one'"),
        ("method: exact", "method: svd", "row 'r': unknown method 'svd'"),
        ("columns: [x, y]", "columns: [y, y]", "table:a: names of columns must differ"),
        ("words: [y]", "words: [z]", "and words be some of them"),
        ("{number: 1, label: l, section: s, caption", "{number: 2, label: l, section: s, caption",
         r"the tables must be numbered in order from 1, got \[2\]"),
        ("caption: c, ", "", "table:a must have caption"),
        ("rows: [", "rows: [{name: r, method: exact, cells: [1, w]}, ", "names of rows must differ"),
        ("panels: [p], ", "", "figure:f must have claim.*panels"),
        ("value: 1", "value: /", "statement s must have a number"),
        ("source: {title: t}", "", "published.yaml must have"),
    ],
)  # fmt: skip
def test_broken_files(old, new, message):
    assert old in GOOD
    with pytest.raises(ValueError, match=message):
        parse_published(GOOD.replace(old, new))


# ------------------------------------------------------------------------------------- the LaTeX


def latex_tables():
    """Rows of cells of every table environment, by label."""
    (file,) = LATEX.glob("*.txt")
    text = file.read_text(encoding="utf-8")
    found = {}
    for body in re.findall(r"\\begin\{table\}.*?\\end\{table\}", text, re.S):
        label = re.search(r"\\label\{(.*?)\}", body)[1]
        inside = re.search(r"\\begin\{tabular\}\{[^}]*\}(.*?)\\end\{tabular\}", body, re.S)[1]
        inside = re.sub(r"\\textcolor\{\w+\}", "", inside)
        inside = inside.replace(r"/\ ", "/ ")
        rows = [re.split(r"(?<!\\)&", line) for line in inside.split(r"\\")]
        found[label] = [[re.sub(r"[{}]", "", cell).strip() for cell in row] for row in rows]
    return found, text


def numeric(cell):
    cell = cell.replace(" e", "e").replace(r"$\infty$", "inf")
    return cell if re.fullmatch(r"[\d.]+(e-?\d+)?|/|inf", cell) else None


@pytest.mark.skipif(not LATEX.is_dir(), reason="the LaTeX of the paper is not beside the project")
def test_every_number_of_the_latex():
    found, text = latex_tables()
    paper = load_published()
    assert set(found) == {table.label for table in paper.tables.values()}
    figures = re.findall(r"\\begin\{figure\}.*?\\label\{(.*?)\}.*?\\end\{figure\}", text, re.S)
    assert figures == [figure.label for figure in paper.figures.values()]
    for table in paper.tables.values():
        words = {c for c in table.columns if "Form" in c or "Condition" in c or c == "Bottleneck"}
        printed = [
            [c.text for n, c in zip(table.columns, row.cells, strict=True) if n not in words]
            for row in table.rows
        ]
        rows = found[table.label]
        if "upper" in table.label:  # methods in columns there
            (maximum,) = (row for row in rows if row[0].endswith("Maximal Value"))
            assert [[numeric(cell)] for cell in maximum[1:]] == printed
            continue
        width = len(printed[0])
        body = [(row[:-width], [numeric(cell) for cell in row[-width:]]) for row in rows]
        body = [(name, numbers) for name, numbers in body if None not in numbers]
        body = [(name, numbers) for name, numbers in body if numbers != list(table.columns)]
        assert [numbers for _, numbers in body if numbers] == printed, table.id
        for row, (name, _) in zip(table.rows, body, strict=True):
            assert row.name.replace("Pade", r"Pad\'e") in " ".join(name)
