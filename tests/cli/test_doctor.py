"""``rootpool doctor``. Runs with torch alone installed, too."""

import os
import subprocess
import sys

import pytest
import torch

from rootpool.cli import bench, doctor, main

EXTRAS = [
    *("PIL", "lightning", "matplotlib", "rich", "safetensors", "scipy"),
    *("timm", "torchmetrics", "torchvision", "yaml"),
]


def test_everything_passes_without_the_extras():
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({EXTRAS}))\n"  # None: importing them fails
        "from rootpool.report import spectrum_statistics\n"  # measures need torch alone, too
        "from rootpool.cli import main; sys.exit(main(['doctor']))"
    )
    told = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=told)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert f"torch           {torch.__version__}" in lines
    assert done.stdout.count("  pass  ") == len(doctor.CHECKS)
    assert max(map(len, lines)) <= 80
    assert lines[-1].startswith("all 3 checks of the numerics passed in")
    for word in ("python", "threads", "OMP_NUM_THREADS=1\n", "LAPACK", "cpu: "):
        assert word in done.stdout


def naive_root(A):
    lam, U = torch.linalg.eigh(A)
    return (U * lam.abs().sqrt()) @ U.mT


@pytest.mark.parametrize(
    ("name", "wrong", "failing"),
    [
        ("sqrtm", naive_root, "root of the identity, and its derivatives"),
        (
            "covariance_pool",
            lambda X, *a, **k: naive_root(X @ X.mT / 4),
            "root of rank-deficient covariances, its gradient",
        ),
        ("eigh", lambda A: (A[..., 0], A), "float32 covariances with dead channels"),
    ],
)
def test_a_wrong_result_fails_its_check(name, wrong, failing, monkeypatch, capsys):
    gpu = torch.device("meta")
    monkeypatch.setattr(doctor, "devices", lambda: [torch.device("cpu"), gpu])
    monkeypatch.setattr(doctor, "_has_float64", lambda device: device != gpu)
    monkeypatch.setattr(doctor, name, wrong)
    monkeypatch.setattr(doctor, "CHECKS", {failing: doctor.CHECKS[failing]})
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "meta: meta (no float64, so not checked below)" in out
    assert f"  FAIL  {failing}" in out
    assert out.splitlines()[-1].startswith("1 of 1 checks FAILED: please report it")


def test_the_bench_is_a_table_of_small_errors(monkeypatch, capsys):
    monkeypatch.setattr(bench, "SHAPES", ((12, 7), (6, 9)))
    monkeypatch.setattr(bench, "RUNS", 1)
    wrong = {"half": lambda X: bench._pool("exact")(X) / 2, "broken": lambda X: X.bmm(X)}
    monkeypatch.setattr(bench, "CONTESTANTS", bench.CONTESTANTS | wrong)
    assert main(["doctor", "--bench"]) == 0
    about, blank, head, rule, *rows = capsys.readouterr().out.splitlines()
    assert torch.__version__ in about
    assert len({line.count("|") for line in (head, rule, *rows)}) == 1
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
    assert len(cells) == 2 * len(bench.CONTESTANTS)
    for _, name, ms, *errors in cells:
        if name == "broken":
            assert ms.startswith("RuntimeError")
        elif name == "half":
            assert errors == ["5e-01", "5e-01"]
        else:  # five iterations of Newton-Schulz are an approximation
            assert max(map(float, errors)) < (1 if "isqrt" in name else 1e-3)
