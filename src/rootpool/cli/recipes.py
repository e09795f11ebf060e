"""``rootpool recipes``."""

from __future__ import annotations

from rootpool.train import families

__all__ = ["recipes"]


def recipes() -> int:
    """List the recipes: network and data, time and hardware, and what the user brings."""
    for name, family in families().items():
        print(f"{name}: {family.about}")
        needs = [f"{option} {what}" for option, what in family.needs.items()]
        if family.fine_tunes:
            needs.append(f"--weights a run of {family.fine_tunes}")
        for line in (family.time, *needs, "--hybrid possible" if family.hybrid else ""):
            if line:
                print(f"  {line}")
    print("\nrootpool train RECIPE --method METHOD trains one; rootpool train --help has examples")
    return 0
