"""The tables of the migration pages and the defaults that documents name, against the real functions."""

import ast
import functools
import inspect
import re
from pathlib import Path

import pytest
import torch

import rootpool.linalg
import rootpool.models
import rootpool.nn
import rootpool.train.data

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "migrate").glob("*.md"))
CODE = re.compile(r"`([^`]+)`")


@functools.cache
def scope():
    """Every public name of linalg and nn, and the matrices that the tables speak of."""
    matrices = {"A": 2 * torch.eye(3), "B": torch.randn(4, 3), "P": torch.eye(3)}
    lam, U = torch.linalg.eigh(matrices["A"])
    matrices |= {"X": torch.randn(8, 3, 5), "Y": torch.randn(8, 3, 5), "lam": lam, "U": U}
    public = (rootpool.linalg, rootpool.nn)
    return {n: getattr(m, n) for m in public for n in m.__all__} | matrices | {"torch": torch}


def rows(page):
    """The cells of the tables of a page, without the lines below their headers."""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def calls(cell):
    """The calls in a cell whose name is ours or torch's."""
    for code in CODE.findall(cell):
        try:
            tree = ast.parse(code, mode="eval").body
        except SyntaxError:
            continue
        name = ast.unparse(tree).split("(")[0]
        if "(" in code and (name.startswith("torch.linalg.") or name in scope()):
            yield code


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_our_calls_run(page):
    found = [code for cells in rows(page) for cell in cells[1:] for code in calls(cell)]
    assert found
    for code in found:
        eval(code, dict(scope()))


def test_calls_in_the_readme_run():
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("What do you need?")[2]
    names = scope() | {"linalg": rootpool.linalg, "nn": rootpool.nn, "models": rootpool.models}
    names |= {"net": torch.nn.Sequential(torch.nn.BatchNorm2d(4)), "name": "patchnet"}
    names |= {"X": torch.randn(20, 3), "Y": torch.randn(20, 3)}
    cells = [
        line.split(" | ")[1] for line in table.partition("##")[0].splitlines() if " | " in line
    ]
    found = [code for cell in cells for code in CODE.findall(cell) if "(" in code]
    assert len(found) > 15
    for code in found:
        if "path" not in code:
            exec(f"{code} pass" if code.startswith("with") else code, dict(names))


def test_methods_in_tables_exist():
    page = (ROOT / "docs" / "migrate" / "differentiable-svd.md").read_text(encoding="utf-8")
    named = re.findall(r'`"([\w-]+)"`', page)
    assert len(named) > 15
    assert set(named) <= set(rootpool.nn.METHODS)


@pytest.mark.parametrize("row", list(rows(PAGES[-1])), ids=lambda row: row[0])
def test_torch_and_ours_agree(row):
    (theirs,), (ours,) = (CODE.findall(cell) for cell in row[:2])
    if theirs.startswith("torch.") and not hasattr(torch.linalg, theirs[13:].split("(")[0]):
        pytest.skip(f"this torch has no {theirs}")
    torch.manual_seed(0)
    found = [
        eval(code, scope() | {"B": torch.ones(4, 3).fill_diagonal_(5)}) for code in (theirs, ours)
    ]
    a, b = ([x] if isinstance(x, torch.Tensor) else list(x) for x in found)
    assert [x.shape for x in a] == [x.shape for x in b]
    if len(a) == 1:
        torch.testing.assert_close(a[0], b[0])


def defaults():
    """All (parameter, default) pairs of public functions and classes."""
    for module in (rootpool.linalg, rootpool.models, rootpool.nn, rootpool.train.data):
        for name in module.__all__:
            if callable(function := getattr(module, name)) and not isinstance(function, dict):
                try:
                    parameters = inspect.signature(function).parameters.values()
                except (TypeError, ValueError):
                    continue
                yield from ((p.name, p.default) for p in parameters)


NAMED = r"`(?:(\w+)=)?\"?([\w.-]+)\"?`"
SAID = re.compile(rf"{NAMED} \((?:the )?default\)|[Tt]he default(?: \w+)?, {NAMED}")
DOCUMENTS = [
    ROOT / "README.md",
    *(p for p in sorted((ROOT / "docs").rglob("*.md")) if "appendix" not in p.parts),
]


def test_defaults_that_documents_name_are_those_of_the_code():
    known = {(name, str(value)) for name, value in defaults()}
    values = {value for _, value in known}
    found = 0
    for page in DOCUMENTS:
        for match in SAID.finditer(page.read_text(encoding="utf-8")):
            name, value = match[1] or match[3], match[2] or match[4]
            found += 1
            assert (name, value) in known if name else value in values, f"{page.name}: {match[0]}"
    assert found > 3
