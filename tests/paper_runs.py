"""Runs that were never made, for tests of what is concluded from them; and recipes of seconds."""

from __future__ import annotations

import dataclasses
import random
import zlib
from pathlib import Path

from rootpool.report import RunFolder
from rootpool.train import merge, recipe
from rootpool.train.study import Event, _train
from studies.engine.network import all_trials
from studies.engine.training import Place, Run

EPOCHS = 8
TINY = {
    "model": {"milestones": [1, 2]},
    "data": {"batch_size": 8, "workers": 0},
    "trainer": {"max_epochs": 3, "limit_train_batches": 2, "limit_val_batches": 2},
}


def made_up(trial, error=20.0, noise=0.05, condition=(3e14, 5e13, 2e13), ratio=(3.0, 1.5)):
    """A run whose final error is ``error`` up to the noise of the seed; None for one that diverged."""
    seed = trial.tags["seed"]
    chance = random.Random(zlib.crc32(f"{trial.label} {seed}".encode()))
    final = (error or 0.0) + seed + chance.gauss(0, noise)  # pairs share what the seed brings
    history = [
        {
            "epoch": epoch,
            "train_error": final + 8 * (EPOCHS - 1 - epoch),
            "val_error": final + 5 * (EPOCHS - 1 - epoch),
            "val_error5": final / 4,
        }
        for epoch in range(EPOCHS)
    ]
    spectrum = [
        {
            "step": 63 * epoch,
            "epoch": epoch,
            "condition_mean": condition[(epoch >= 4) + (epoch >= 6)] * (1 + chance.random() / 100),
            "lambda_1": 0.1,
            "lambda_min_kept": 1e-4 * (1 + chance.random() / 100),
            "rank": 48.0,
            "eigenvalue_ratio": ratio[0]
            + (ratio[1] - ratio[0]) * epoch / 7
            + chance.random() / 100,
        }
        for epoch in range(EPOCHS)
    ]
    diverged = {"epoch": 1, "step": 70} if error is None else None
    folder = RunFolder(Path(trial.key), seed, {}, history, spectrum, [], diverged=diverged)
    return Run(
        trial.label, trial.tags, trial, dataclasses.replace(folder, images=3600, seconds=1.0)
    )


def place(study, network, entry, errors=None, **options):
    """The runs of an entry with the given final errors by label, 20 by default."""
    trials = all_trials(study, network, study.entries[entry].runs)
    runs = [made_up(trial, (errors or {}).get(trial.label, 20.0), **options) for trial in trials]
    reference = (
        [made_up(t) for t in network.trials(study.runs[study.reference])] if study.reference else []
    )
    return Place.of_runs(network, runs, reference, study.limit)


def outcomes(measured):
    """The outcomes of the parts of a measured entry, in its only place."""
    (answers,) = measured.answers.values()
    return [answer.outcome for answer in answers]


def tiny_recipe(family, method, hybrid=False):
    """Recipes of three epochs of two steps."""
    found = recipe(family, method, hybrid)
    schedule = {"hybrid": {"switch_epoch": 1}} if "hybrid" in found.config else {}
    return dataclasses.replace(found, config=merge(found.config, TINY, schedule))


def run_here(left, folder, workers):
    """What `rootpool.train.study._train_all` does, in this process."""
    for key, (trial, first) in left.items():  # first stages come before the runs that need them
        _train(trial, key, first, folder)
        yield Event(key, done=True)
