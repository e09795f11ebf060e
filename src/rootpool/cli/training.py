"""``rootpool train`` and ``rootpool recipes``: mistakes are reported before Lightning is imported."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rootpool.train import (
    Recipe,
    SettingsError,
    apply_overrides,
    families,
    load_recipe,
    merge,
    resolve,
)
from rootpool.train.settings import as_yaml

if TYPE_CHECKING:
    from rootpool.train import Run

__all__ = ["recipes", "train"]


def train(
    recipe: str | None,
    *,
    method: str | None = None,
    hybrid: bool = False,
    data: str | None = None,
    weights: str | None = None,
    output: str | None = None,
    resume: bool = False,
    on_bad_image: str | None = None,
    overrides: Sequence[str] = (),
    show: bool = False,
) -> int:
    """Train by a recipe; the result and its configuration are in the output folder."""
    if recipe is not None and "=" in recipe:  # an override, after --resume --output
        overrides, recipe = [recipe, *overrides], None
    loaded = load_recipe(recipe, method, hybrid) if recipe else _of_run(output, resume)
    flags = {"data": {"root": data, "on_bad_image": on_bad_image}, "model": {"weights": weights}}
    given = {
        part: {k: v for k, v in values.items() if v is not None} for part, values in flags.items()
    }
    config = apply_overrides(merge(loaded.config, given), overrides)
    settings = resolve(config)
    if show:
        print(as_yaml(settings), end="")
        return 0
    _check_needs(loaded, config)

    from rootpool.train import prepare

    # An override of the method also changes the name of the folder.
    name = loaded.name.replace(loaded.method or settings.model.method, settings.model.method)
    folder = Path(output or Path("runs") / name)
    run = prepare(settings, folder, resume=resume)
    checkpoint = run.last if resume and run.last.is_file() else None
    if run.trainer.is_global_zero:
        _announce(run, checkpoint)
    run.fit(resume_from=checkpoint)
    if run.trainer.is_global_zero:
        _report(run, loaded.family)
    return 0


def _of_run(output: str | None, resume: bool) -> Recipe:
    """The settings of a run that is to be continued, as a recipe."""
    if not resume or output is None:
        raise SettingsError(
            "give a recipe, such as patches (needs no data) or photos-kept; rootpool recipes lists them. "
            "To continue a run, give --resume and its --output"
        )
    config = Path(output) / "config.yaml"
    if not config.is_file():
        raise SettingsError(f"{output} is not a run to continue: it has no config.yaml")
    return load_recipe(str(config))


def _check_needs(recipe: Recipe, config: Mapping[str, Any]) -> None:
    """Raise unless the user has brought what a recipe needs."""
    data, model = (config.get(part) or {} for part in ("data", "model"))
    given = {"--data": data.get("root"), "--weights": model.get("weights")}
    missing = [option for option in recipe.needs if given.get(option) is None]
    if missing:
        raise SettingsError(
            f"recipe {recipe.name} needs "
            + " and ".join(f"{option} ({recipe.needs[option]})" for option in missing)
        )
    for option, what in recipe.needs.items():
        if not os.path.exists(str(given[option])):
            raise SettingsError(f"{option} {given[option]} does not exist; it should be {what}")


def _announce(run: Run, checkpoint: Path | None) -> None:
    options, splits = run.module.hparams, run.data.splits
    weights = sum(parameter.numel() for parameter in run.module.parameters())
    size = " x ".join(map(str, run.map_shape[1:]))
    print(
        f"{options['backbone']} with {options['method']}: {weights / 1e6:.2f} million weights, "
        f"{run.map_shape[0]} channels at {size} positions\n"
        f"{splits.name}: {len(splits.train)} images for training, {len(splits.val)} for validation, "
        f"{len(splits.classes)} classes" + f"\ncontinuing from {checkpoint}" * bool(checkpoint),
        flush=True,
    )
    for note in run.notes:
        print(f"rootpool: warning: {note}", file=sys.stderr)


def _report(run: Run, family: str | None) -> None:
    """Say how it ended: the best epoch, the files, and what to do next."""
    from rootpool.report.runs import best_epoch

    epochs, done = run.trainer.max_epochs, len(run.module.history)
    if run.stopped_early:
        print(f"stopped early: no lower validation error for {run.settings.patience} epochs")
    of = f" of {epochs}" if epochs and epochs > 0 else ""
    print(f"finished {done} epoch{'s' * (done > 1)}{of}" if done else "no epoch was finished")
    if best := best_epoch(run.module.history):
        many = len(run.data.splits.classes) > 5
        top5 = f", top-5 {best['val_error5']:.2f} %" if many else ""
        where = f"lowest validation error, in epoch {best['epoch'] + 1}"
        print(f"{where}: top-1 {best['val_error']:.2f} %{top5}")
        if family is not None and run.settings.model.method != "gap":
            print(_against_average(run, family))
    files = ("best.ckpt", "last.ckpt", "history.csv", "config.yaml")
    written = [name for name in files if (run.output / name).is_file()]
    print(f"{run.output}: {', '.join(written)}")
    if "best.ckpt" in written:
        folder = shlex.quote(str(run.output))
        print(f"next: rootpool evaluate {folder}, or rootpool report {folder}")


def _against_average(run: Run, family: str) -> str:
    """The error of average pooling: of a run next to this one, as recorded, or how to get it."""
    from rootpool.report.records import read_records
    from rootpool.report.runs import best_epoch

    twin = run.output.parent / f"{family}-gap"
    known = read_records(twin / "history.csv") if (twin / "history.csv").is_file() else []
    if best := best_epoch(known):
        return f"with average pooling, in {twin}: {best['val_error']:.2f} %"
    average = families()[family].average
    if average is not None:
        return f"with average pooling, by the recipe as it is: {average:.1f} %"
    return f"to compare with average pooling: rootpool train {family} --method gap"


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
