"""The examples run, and show what they say."""

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


def learned_pca(out):
    predicted, measured = numbers(r"(-?[\d.]+) by (?:the gradient|differences)", out)
    assert predicted == pytest.approx(measured, rel=1e-5)
    first, *_, last = numbers(r"distance of the subspaces (\S+)", out)
    assert first > 1
    assert last < 1e-6


def newton_hessian(out):
    assert numbers(r"(\d+)% of the Hessian finite", out) == [0, 100]
    assert numbers(r"differs from differences of gradients by (\S+)", out)[0] < 1e-7
    assert numbers(r"found to (\S+)", out)[0] < 1e-12


def frechet(out):
    ours, usual = zip(*re.findall(r"error (\S+), by eigenvalues (\S+)", out), strict=True)
    assert max(map(float, ours)) < 1e-9
    assert max(map(float, usual)) > 1e-4
    start, end = numbers(r"(?:at the start|after 100 steps) ([\d.]+)", out)
    assert end < 0.2 * start


def readme(out):
    assert "tensor([nan, nan, nan])" in out
    assert "tensor([0.5000, 0.5000, 0.5000]) exact" in out


TRAIN = (timm_head, hybrid_loop, deep_cca)
SHOWN = [stable_eigh_loss, zca_whitening, procrustes, learned_pca, newton_hessian, frechet, readme]
SHOWN += [pytest.param(check, marks=pytest.mark.slow) for check in TRAIN]


@pytest.mark.parametrize("check", SHOWN)
def test_example_shows_its_point(check, capsys):
    runpy.run_path(str(EXAMPLES / f"{check.__name__}.py"))
    check(capsys.readouterr().out)
