"""The files of a release, built here and examined."""

import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import rootpool

ROOT = Path(__file__).parents[1]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (ROOT / ".git").exists() or not shutil.which("git"),
        reason="only git knows what belongs",
    ),
]


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """An sdist, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_what_is_missing_or_does_not_belong_is_named(dist, tmp_path):
    check = runpy.run_path(str(ROOT / "scripts" / "check_dist.py"))["check"]
    assert check(dist) == []
    shutil.copytree(dist, tmp_path, dirs_exist_ok=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("studies/__main__.py", "")
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist, "w:gz") as archive:
        archive.add(ROOT / "LICENSE", "LICENSE")
    problems = check(tmp_path)
    assert "the wheel has studies/__main__.py" in problems
    assert f"LICENSE is not below rootpool-{rootpool.__version__}/" in problems
    assert "the sdist lacks pyproject.toml" in problems


def test_the_wheel_works_where_it_is_installed(dist, tmp_path):
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import rootpool.cli\n"
        "print(rootpool.__file__, flush=True)\n"
        "sys.exit(rootpool.cli.main(['recipes']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    file, *listed = done.stdout.splitlines()
    assert Path(file) == tmp_path / "rootpool" / "__init__.py"
    assert "patches:" in "\n".join(listed)  # the data files of the package are there too
