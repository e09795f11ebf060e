"""What orthogonal gradients (NOG) and optimal rates (OLR) do to the covariances of a small network.

Claim of Song et al. (ECCV 2022): both improve the condition of the covariance.

    python benchmarks/conditioning.py               50 steps of `patches-norm-exact` each, two seeds
    python benchmarks/conditioning.py --steps 1000  longer
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import warnings

import torch
from timing import machine, table

from rootpool.report.spectrum import covariance_eigenvalues
from rootpool.train import load_recipe, merge, prepare, resolve

KINDS = (None, "nog", "olr", "nog+olr")


def measure(kind: str | None, seed: int, steps: int, method: str) -> tuple[float, float]:
    """After a training, on some validation images: the median condition on the range, and the error in %."""
    changes = {
        "seed": seed,
        "conditioning": kind,
        "loggers": [],
        "trainer": {"max_steps": steps, "limit_val_batches": 10},
    }
    settings = resolve(merge(load_recipe("patches-norm", method).config, changes))
    with tempfile.TemporaryDirectory() as folder:
        run = prepare(settings, folder, progress=False)
        run.fit()
        validation = run.data.splits.val
        chosen = torch.randperm(len(validation), generator=torch.Generator().manual_seed(0))[:256]
        images, labels = zip(*(validation[int(k)] for k in chosen), strict=True)
        model = run.module.model.eval()
        with torch.no_grad():
            features = model.forward_features(torch.stack(images))
            wrong = model.forward_head(features).argmax(1) != torch.tensor(labels)
        lam = covariance_eigenvalues(features)
    least = torch.where(lam > 0, lam, torch.inf).amin(1)
    return float((lam[:, 0] / least).median()), 100 * float(wrong.double().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--method", default="exact")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    print(machine())
    recipe = f"patches-norm-{arguments.method}"
    print(
        f"\nConditions of covariances of 64 channels at 49 positions, 256 validation images, after "
        f"{arguments.steps} steps of `{recipe}`; median (each of {arguments.seeds} seeds)\n"
    )
    rows = []
    for kind in KINDS:
        found = [
            measure(kind, seed, arguments.steps, arguments.method)
            for seed in range(arguments.seeds)
        ]
        condition, error = zip(*found, strict=True)
        cells = [
            f"{statistics.median(values):.3g} ({', '.join(f'{v:.3g}' for v in values)})"
            for values in (condition, error)
        ]
        rows.append([f"`{kind}`" if kind else "none", *cells])
    print(table(["conditioning", "lam_1 / lam_r, r the rank", "error, %"], rows))


if __name__ == "__main__":
    main()
