"""Check what a release would upload: one wheel and one sdist, whole, with nothing that does not belong.

    python -m build && python scripts/check_dist.py dist

What belongs is what git knows (or would, if it were added): the wheel has every file below ``src``, the
sdist every file of the repository.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from packaging.metadata import Metadata

ROOT = Path(__file__).parents[1]
KINDS = {
    ".css",
    ".html",
    ".json",
    ".md",
    ".mplstyle",
    ".png",
    ".py",
    ".typed",
    ".yaml",
}  # of files in the wheel
LARGEST = 4_000_000  # bytes; the embedded photographs have three million


def belonging() -> set[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {path for path in found.splitlines() if (ROOT / path).exists()}


def names(path: Path) -> list[str]:
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return wheel.namelist()
    with tarfile.open(path) as sdist:
        return [member.name for member in sdist.getmembers() if member.isfile()]


def compare(what: str, found: set[str], expected: set[str]) -> list[str]:
    lists = {"has": found - expected, "lacks": expected - found}
    return [f"the {what} {verb} {path}" for verb, paths in lists.items() for path in sorted(paths)]


def check_wheel(path: Path, version: str) -> list[str]:
    """Problems of a wheel, one line each."""
    info = f"rootpool-{version}.dist-info"
    with zipfile.ZipFile(path) as wheel:
        metadata = Metadata.from_email(wheel.read(f"{info}/METADATA"))  # validates, as PyPI does
        entry_points = wheel.read(f"{info}/entry_points.txt").decode()
    ours = {name.removeprefix("src/") for name in belonging() if name.startswith("src/")}
    notes = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
    problems = compare("wheel", set(names(path)), ours | {f"{info}/{note}" for note in notes})
    problems += [
        f"{name} is not one of {', '.join(KINDS)}"
        for name in ours
        if Path(name).suffix not in KINDS
    ]
    needs = [str(r) for r in metadata.requires_dist or [] if not r.marker]
    facts = {
        "torch is not its one requirement": len(needs) == 1 and needs[0].startswith("torch"),
        "its version is not that of the source": str(metadata.version) == version,
        "the command is missing": "rootpool = rootpool.cli:main" in entry_points,
        "the README is not its description": (metadata.description or "").startswith("# rootpool"),
        "it is too large": path.stat().st_size < LARGEST,
    }
    return problems + [problem for problem, holds in facts.items() if not holds]


def check_sdist(path: Path, version: str) -> list[str]:
    """Problems of an sdist, one line each."""
    top = f"rootpool-{version}/"
    problems = [f"{name} is not below {top}" for name in names(path) if not name.startswith(top)]
    return problems + compare(
        "sdist", {name.removeprefix(top) for name in names(path)}, belonging() | {"PKG-INFO"}
    )


def check(folder: Path) -> list[str]:
    """Problems of what was built into a folder, one line each."""
    source = (ROOT / "src" / "rootpool" / "__init__.py").read_text(encoding="utf-8")
    version = re.search(r'__version__ = "(.+)"', source)[1]
    wheel = folder / f"rootpool-{version}-py3-none-any.whl"
    sdist = folder / f"rootpool-{version}.tar.gz"
    found = {path.name for path in folder.iterdir() if path.name != ".gitignore"}
    problems = compare("folder", found, {wheel.name, sdist.name})
    if f"\nversion: {version}\n" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8"):
        problems.append(f"CITATION.cff is not of version {version}")
    return problems or check_wheel(wheel, version) + check_sdist(sdist, version)


def main(folder: str) -> None:
    problems = check(Path(folder))
    if problems:
        sys.exit("\n".join(problems))
    for path in sorted(Path(folder).glob("rootpool-*")):
        print(f"{path.name}: {len(names(path))} files, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1])
