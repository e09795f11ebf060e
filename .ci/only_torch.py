"""Fail unless this environment holds rootpool, the torch and tools of core.txt, and nothing else.

    python .ci/only_torch.py

What may be here is computed from the metadata of what is here: the requirements of rootpool without
extras and of the tools, followed to the end. The torch must be the oldest that pyproject.toml allows.
"""

import platform
import sys
from importlib.metadata import PackageNotFoundError, distribution, distributions, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PINNED = [
    Requirement(line)
    for line in Path(__file__).with_name("core.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
INSTALLERS = ("pip", "setuptools", "uv")  # from python -m venv and scripts/install.sh


def closure(*roots: str) -> set[str]:
    """Return the canonical names of `roots` and of all that they require here."""
    found: set[str] = set()
    todo = [Requirement(root) for root in roots]
    seen: set[tuple[str, str]] = set()
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        found.add(name)
        for extra in {"", *requirement.extras}:
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            try:
                children = [Requirement(text) for text in requires(name) or ()]
            except PackageNotFoundError:
                continue
            todo += [c for c in children if c.marker is None or c.marker.evaluate({"extra": extra})]
    return found


def problems() -> list[str]:
    """Compare what is installed with what may be."""
    ours = [Requirement(text) for text in requires("rootpool") or ()]
    (floor,) = (str(r.specifier) for r in ours if r.name == "torch" and r.marker is None)
    found = []
    for pin in PINNED:
        installed = version(pin.name).partition("+")[0]
        if installed not in pin.specifier:
            found.append(f"expected {pin}, got {installed}")
        if pin.name == "torch" and f">={installed}" not in (floor, f"{floor}.0"):
            found.append(f"torch {installed} is tested, but pyproject.toml allows torch{floor}")
    tools = {canonicalize_name(pin.name) for pin in PINNED}
    extras = set(distribution("rootpool").metadata.get_all("Provides-Extra", ())) - {"dev"}
    optional = {
        canonicalize_name(r.name)
        for r in ours
        if r.marker and any(r.marker.evaluate({"extra": extra}) for extra in extras)
    } - {"rootpool"}
    allowed = closure("rootpool", *tools, *INSTALLERS)
    installed_names = {canonicalize_name(d.metadata["Name"]) for d in distributions()}
    if foreign := installed_names - allowed:
        found.append(f"expected torch alone, got also {', '.join(sorted(foreign))}")
    absent = optional - allowed
    print(
        f"Python {platform.python_version()}, torch {version('torch')} alone: "
        f"none of {', '.join(sorted(absent))} is installed"
    )
    return found


if __name__ == "__main__":
    sys.exit("\n".join(problems()) or None)  # an empty text would count as a failure
