"""The examples run, are short, and show what they say."""

import ast
import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def numbers(pattern, text):
    return [float(found) for found in re.findall(pattern, text)]


def stable_eigh_loss(out):
    assert "torch.linalg.eigh    [nan, nan, nan, nan, nan]" in out
    first, *_, last = numbers(r"distance of the planes (\S+)", out)
    assert first > 1
    assert last < 1e-6


def zca_whitening(out):
    assert numbers(r"(\d+)% of the gradient finite", out) == [0, 100]
    assert max(numbers(r"-> (\S+),", out)) < 1e-4
    predicted, measured = numbers(r"(-?[\d.]+) by (?:the gradient|differences)", out)
    assert predicted == pytest.approx(measured, rel=1e-5)


def timm_head(out):
    average, root = numbers(r"(\d+)% of unseen pictures right", out)
    assert average < 65
    assert root > 85


def hybrid_loop(out):
    assert re.findall(r"isqrt-cov|exact", out) == 4 * ["isqrt-cov"] + 2 * ["exact"]
    errors = numbers(r"([\d.]+) % of the test images wrong", out)
    assert errors[-1] < 40 < errors[0]


def procrustes(out):
    assert numbers(r"(\d+)% of the gradient finite", out) == [0, 100]
    start, end = numbers(r"(?:at the start|after LBFGS) ([\d.]+e[+-]\d+)", out)
    assert end < 1e-6 * start


SHOWN = {
    f.__name__: f for f in (stable_eigh_loss, zca_whitening, timm_head, hybrid_loop, procrustes)
}


@pytest.mark.parametrize("example", SHOWN)
def test_example_shows_its_point(example, capsys):
    runpy.run_path(str(EXAMPLES / f"{example}.py"))
    SHOWN[example](capsys.readouterr().out)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_example_is_short_and_documented(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 80
    assert ast.get_docstring(ast.parse(text))
