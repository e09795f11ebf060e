"""``rootpool doctor``. Runs with torch alone installed, too."""

import os
import subprocess
import sys

import pytest
import torch

from rootpool.cli import doctor, main

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
    for word in ("python", "threads", "OMP_NUM_THREADS       1\n", "LAPACK", "cpu: "):
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
