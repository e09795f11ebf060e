"""Results of runs that were never made, for tests of what is concluded from them."""

from __future__ import annotations

import random
import zlib

from studies.paper.plan import Measured

RATES = (0.08,) * 4 + (0.008,) * 2 + (0.0008,) * 2


def made_up(trial, error=20.0, noise=0.05, condition=(3e14, 5e13, 2e13), ratio=(3.0, 1.5)):
    """A run as `run_record` reads it, whose final error is ``error`` up to the noise of the seed."""
    chance = random.Random(zlib.crc32(f"{trial.label} {trial.tags['seed']}".encode()))
    final = error + trial.tags["seed"] + chance.gauss(0, noise)  # pairs share what the seed brings
    curves = [
        {
            "epoch": epoch,
            "lr": rate,
            "train_loss": 1.0,
            "train_error": final + 8 * (7 - epoch),
            "val_loss": 1.0,
            "val_error": final + 5 * (7 - epoch),
            "val_error5": final / 4,
        }
        for epoch, rate in enumerate(RATES)
    ]
    spectrum = [
        {
            "step": 63 * epoch,
            "epoch": epoch,
            "pool": "pool",
            "condition_mean": condition[(epoch >= 4) + (epoch >= 6)] * (1 + chance.random() / 100),
            "condition_median": 1e14,
            "lambda_1": 0.1,
            "lambda_min_kept": 1e-4,
            "rank": 48.0,
            "eigenvalue_ratio": ratio[0]
            + (ratio[1] - ratio[0]) * epoch / 7
            + chance.random() / 100,
        }
        for epoch in range(8)
    ]
    return {
        "seconds": 1.0,
        "curves": curves,
        "spectrum": spectrum,
        "classes": 18,
        "diverged": None,
    }


def study(plan, trials, errors=None, **options):
    """Runs that have the given final errors by label, 20 by default."""
    errors = errors or {}
    results = [made_up(trial, errors.get(trial.label, 20.0), **options) for trial in trials]
    return Measured(plan, trials, results)


def verdicts(result):
    """The verdicts on the questions of a result."""
    return [answer["verdict"] for answer in result.series["answers"]]
