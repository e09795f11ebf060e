"""The examples run, and show what they say."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def numbers(pattern, text):
    return [float(found) for found in re.findall(pattern, text)]


def timm_head(out):
    average, root = numbers(r"(\d+)% of unseen pictures right", out)
    assert average < 65
    assert root > 85


def hybrid_loop(out):
    assert re.findall(r"isqrt-cov|exact", out) == 4 * ["isqrt-cov"] + 2 * ["exact"]
    errors = numbers(r"([\d.]+) % of the test images wrong", out)
    assert errors[-1] < 40 < errors[0]


def deep_cca(out):
    samples, features = map(int, re.search(r"(\d+) samples of (\d+) features", out).groups())
    assert samples < features
    before, after = (
        sum(map(float, line.split()))
        for line in re.findall(r"held-out correlations \w+: +(.*)", out)
    )
    assert after > before + 0.3
    first, *_, last = numbers(r"sum of correlations (\S+)", out)
    assert last > first + 2


@pytest.mark.slow
@pytest.mark.parametrize("check", [timm_head, hybrid_loop, deep_cca])
def test_example_shows_its_point(check, capsys):
    runpy.run_path(str(EXAMPLES / f"{check.__name__}.py"))
    check(capsys.readouterr().out)
