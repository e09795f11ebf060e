"""What orthogonal gradients (NOG) and optimal rates (OLR) do to the covariances of a small network.

Claim of Song et al. (ECCV 2022): both improve the condition of the covariance.

    python benchmarks/conditioning.py              one epoch of `patches-norm-exact` each, two seeds
    python benchmarks/conditioning.py --epochs 8   the whole recipe
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import warnings

import torch
from timing import machine, table

from rootpool.analysis.spectrum import covariance_eigenvalues
from rootpool.recipes import load_recipe, merge
from rootpool.train import prepare, resolve

KINDS = (None, "nog", "olr", "nog+olr")


def measure(kind: str | None, seed: int, epochs: int, method: str) -> tuple[float, float, float]:
    """After a training: condition on the range (median), and with a ridge; and the error in per cent."""
    changes = {
        "seed": seed,
        "conditioning": kind,
        "loggers": [],
        "model": {"milestones": [max(epochs - 1, 1)]},
        "trainer": {"max_epochs": epochs},
    }
    settings = resolve(merge(load_recipe(f"patches-norm-{method}").config, changes))
    with tempfile.TemporaryDirectory() as folder:
        run = prepare(settings, folder, progress=False)
        run.fit()
        images = torch.stack([run.data.splits.val[k][0] for k in range(256)])
        module = run.module.eval()
        with torch.no_grad():
            lam = covariance_eigenvalues(module.model.backbone(images))
        error = run.module.history[-1]["val_error"]
    least = torch.where(lam > 0, lam, torch.inf).amin(1)
    on_range = (lam[:, 0] / least).median()
    trace = lam.sum(1)
    ridged = ((lam[:, 0] / trace + 1e-6) / (lam[:, -1] / trace + 1e-6)).median()
    return float(on_range), float(ridged), error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--method", default="exact")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    print(machine())
    recipe = f"patches-norm-{arguments.method}"
    print(
        f"\nConditions of covariances of 64 channels at 49 positions, 256 validation images, after "
        f"{arguments.epochs} epochs of `{recipe}`; median (each of {arguments.seeds} seeds)\n"
    )
    rows = []
    for kind in KINDS:
        found = [
            measure(kind, seed, arguments.epochs, arguments.method)
            for seed in range(arguments.seeds)
        ]
        condition, ridged, error = zip(*found, strict=True)
        cells = [
            f"{statistics.median(values):.3g} ({', '.join(f'{v:.3g}' for v in values)})"
            for values in (condition, ridged, error)
        ]
        rows.append([f"`{kind}`" if kind else "none", *cells])
    header = [
        "conditioning",
        "lam_1 / lam_r, r the rank",
        "lam_1 / lam_d with a ridge of 1e-6 tr P",
    ]
    print(table([*header, "validation error, %"], rows))


if __name__ == "__main__":
    main()
