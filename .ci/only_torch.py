"""Fail unless this environment holds rootpool, one given torch, the test tools, and nothing else.

    python .ci/only_torch.py 2.13.0

What may be here is computed from the metadata of what is here: the requirements of rootpool without
extras and of the tools, followed to the end.
"""

import sys
from importlib.metadata import PackageNotFoundError, distribution, distributions, requires, version

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TOOLS = ("pytest", "pytest-cov", "hypothesis", "mpmath", "numpy")
SEEDS = ("pip", "setuptools")  # what python -m venv itself installs


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


def main(torch_version: str) -> None:
    """Compare what is installed with what may be."""
    extras = set(distribution("rootpool").metadata.get_all("Provides-Extra", ())) - {"dev"}
    optional = {
        canonicalize_name(requirement.name)
        for requirement in map(Requirement, requires("rootpool") or ())
        if requirement.marker and any(requirement.marker.evaluate({"extra": e}) for e in extras)
    } - {"rootpool", *TOOLS}
    installed = {canonicalize_name(d.metadata["Name"]) for d in distributions()}
    foreign = installed - closure("rootpool", *TOOLS, *SEEDS)
    torch = version("torch").partition("+")[0]
    if torch != torch_version:
        sys.exit(f"expected torch {torch_version}, got {torch}")
    if foreign or optional & installed:
        sys.exit(f"expected torch alone, got also {sorted(foreign | (optional & installed))}")
    print(f"torch {torch} alone: none of {', '.join(sorted(optional))} is installed")


if __name__ == "__main__":
    main(sys.argv[1])
