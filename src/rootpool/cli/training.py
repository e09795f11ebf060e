"""``rootpool train``, ``evaluate`` and ``predict``: mistakes are reported before Lightning is imported."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rootpool.recipes import Recipe, SettingsError, apply_overrides, load_recipe, merge

if TYPE_CHECKING:
    from rootpool.train import Run

__all__ = ["evaluate", "predict", "train"]

# Names that were recipes once, and what does the same now.
REPLACED = {"birds-cpu": "rootpool birds --data PATH"}


def train(
    recipe: str,
    *,
    data: str | None = None,
    weights: str | None = None,
    output: str | None = None,
    resume: bool = False,
    on_bad_image: str | None = None,
    overrides: Sequence[str] = (),
    show: bool = False,
) -> int:
    """Train by a recipe; the result and its configuration are in the output folder."""
    if recipe in REPLACED:
        raise SettingsError(f"{recipe} is now a command of its own: {REPLACED[recipe]}")
    loaded = load_recipe(recipe)
    flags = {"data": {"root": data, "on_bad_image": on_bad_image}, "model": {"weights": weights}}
    given = {
        part: {k: v for k, v in values.items() if v is not None} for part, values in flags.items()
    }
    config = apply_overrides(merge(loaded.config, given), overrides)
    if not show:
        _check_needs(loaded, config)

    from rootpool.train.run import prepare
    from rootpool.train.settings import as_yaml, resolve

    settings = resolve(config)
    if show:
        print(as_yaml(settings), end="")
        return 0
    folder = Path(output or Path("runs") / loaded.name)
    run = prepare(settings, folder, resume=resume)
    checkpoint = run.last if resume and run.last.is_file() else None
    if run.trainer.is_global_zero:
        _announce(run, checkpoint)
    run.fit(resume_from=checkpoint)
    if run.trainer.is_global_zero:
        _report(run)
    return 0


def _check_needs(recipe: Recipe, config: Mapping[str, Any]) -> None:
    """Raise unless the user has brought what a recipe needs."""
    given = {
        "--data": _value(config, "data", "root"),
        "--weights": _value(config, "model", "weights"),
    }
    unknown = recipe.needs.keys() - given.keys()
    if unknown:
        raise SettingsError(
            f"recipe {recipe.name} needs {', '.join(map(str, unknown))}; known are {', '.join(given)}"
        )
    missing = [option for option in recipe.needs if given[option] is None]
    if missing:
        raise SettingsError(
            f"recipe {recipe.name} needs "
            + " and ".join(f"{option} ({recipe.needs[option]})" for option in missing)
        )
    for option, what in recipe.needs.items():
        if not os.path.exists(given[option]):
            raise SettingsError(f"{option} {given[option]} does not exist; it should be {what}")


def _value(config: Mapping[str, Any], part: str, key: str) -> Any:
    values = config.get(part)
    return values.get(key) if isinstance(values, Mapping) else None


def _announce(run: Run, checkpoint: Path | None) -> None:
    options, splits = run.module.hparams, run.data.splits
    weights = sum(parameter.numel() for parameter in run.module.parameters())
    print(
        f"{options['backbone']} with {options['method']}: {weights / 1e6:.2f} million weights; "
        f"{splits.name}: {len(splits.train)} images for training, {len(splits.val)} for validation, "
        f"{len(splits.classes)} classes"
    )
    if checkpoint is not None:
        print(f"continuing from {checkpoint}")


def _report(run: Run) -> None:
    metrics = run.trainer.callback_metrics
    errors = {"top-1": "val_error", "top-5": "val_error5"}
    known = [
        f"{name} {float(metrics[key]):.2f} %" for name, key in errors.items() if key in metrics
    ]
    if known:
        print(f"validation error: {', '.join(known)}")
    files = ("last.ckpt", "best.ckpt", "history.csv", "config.yaml")
    written = [name for name in files if (run.output / name).is_file()]
    print(f"{run.output}: {', '.join(written)}")


def evaluate(checkpoint: str, data: str | None) -> int:
    """Print the errors of a checkpoint."""
    _check_file(checkpoint)

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from rootpool.train import evaluation

    run = evaluation.load_run(checkpoint)
    metrics = evaluation.evaluate(run, data)
    table = Table(title=Text(f"{checkpoint} after epoch {run.epoch}"))
    for heading in ("samples", "top-1 error", "top-5 error", "loss"):
        table.add_column(heading, justify="right")
    table.add_row(
        str(metrics["samples"]),
        f"{metrics['val_error']:.2f} %",
        f"{metrics['val_error5']:.2f} %",
        f"{metrics['val_loss']:.4f}",
    )
    Console().print(table)
    return 0


def predict(checkpoint: str, images: Sequence[str]) -> int:
    """Print the most probable classes of images."""
    _check_file(checkpoint)

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from rootpool.train import evaluation

    run, console = evaluation.load_run(checkpoint), Console()
    for image, classes in zip(images, evaluation.predict(run, images), strict=True):
        console.print(Text(image), soft_wrap=True)  # above, since a title is wrapped to its table
        table = Table(show_header=False)
        for name, probability in classes:
            # The name comes from the file; a terminal would obey its control characters.
            shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
            table.add_row(Text(shown), f"{100 * probability:.1f} %")
        console.print(table)
    return 0


def _check_file(checkpoint: str) -> None:
    if not os.path.isfile(checkpoint):
        raise SettingsError(
            f"there is no checkpoint {checkpoint}; rootpool train writes last.ckpt and best.ckpt"
        )
