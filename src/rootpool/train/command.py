"""What the commands do: read a recipe, run it, say what came out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .evaluation import evaluate as evaluate_run
from .evaluation import load_run
from .evaluation import predict as predict_images
from .recipes import Recipe, load_recipe, recipe_names
from .run import LAST, Run, prepare
from .settings import SettingsError, apply_overrides, as_yaml, merge, resolve
from .studies import STUDIES

__all__ = ["evaluate", "predict", "recipes", "train"]


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
    if recipe in STUDIES:
        refused = {"--weights": weights, "--on-bad-image": on_bad_image}
        return _study(recipe, data, output, overrides, show, refused)
    loaded = load_recipe(recipe)
    flags = {"data": {"root": data, "on_bad_image": on_bad_image}, "model": {"weights": weights}}
    given = {
        part: {k: v for k, v in values.items() if v is not None} for part, values in flags.items()
    }
    settings = resolve(apply_overrides(merge(loaded.config, given), overrides))
    if show:
        print(as_yaml(settings), end="")
        return 0
    _check_needs(loaded, settings)
    folder = Path(output or Path("runs") / loaded.name)
    run = prepare(settings, folder, resume=resume)
    checkpoint = run.last if resume and run.last.is_file() else None
    if run.trainer.is_global_zero:
        _announce(run, checkpoint)
    run.fit(resume_from=checkpoint)
    if run.trainer.is_global_zero:
        _report(run)
    return 0


def _study(
    name: str,
    data: str | None,
    output: str | None,
    overrides: Sequence[str],
    show: bool,
    refused: Mapping[str, str | None],
) -> int:
    study = STUDIES[name]
    options = study.options(overrides)
    if show:
        print(yaml.safe_dump(options), end="")
        return 0
    for option, value in refused.items():
        if value is not None:
            raise SettingsError(f"recipe {name} has no use for {option}")
    if data is None or not os.path.exists(data):
        got = "" if data is None else f"; {data} does not exist"
        raise SettingsError(f"recipe {name} needs --data ({study.data}){got}")
    page = study.run(data, Path(output or Path("runs") / name), **options)
    print(f"{page} is the report; everything else is beside it")
    return 0


def _check_needs(recipe: Recipe, settings: Any) -> None:
    has = {
        "--data": settings.data.root != "photo-patches",
        "--weights": settings.model.weights is not None,
    }
    unknown = recipe.needs.keys() - has.keys()
    if unknown:
        raise SettingsError(
            f"recipe {recipe.name} needs {', '.join(map(str, unknown))}; known are {', '.join(has)}"
        )
    missing = [option for option in recipe.needs if not has[option]]
    if missing:
        raise SettingsError(
            f"recipe {recipe.name} needs "
            + " and ".join(f"{option} ({recipe.needs[option]})" for option in missing)
        )
    for option, path in (("--data", settings.data.root), ("--weights", settings.model.weights)):
        if option in recipe.needs and not os.path.exists(path):
            raise SettingsError(
                f"{option} {path} does not exist; it should be {recipe.needs[option]}"
            )


def _announce(run: Run, checkpoint: Path | None) -> None:
    options, splits = run.module.hparams, run.data.splits
    weights = sum(parameter.numel() for parameter in run.module.parameters())
    print(
        f"{options['backbone']} with {options['method']}: {weights / 1e6:.2f} million weights; "
        f"{splits.name}: {len(splits.train)} images for training, {len(splits.val)} for validation, "
        f"{len(splits.classes)} classes"
    )
    if checkpoint is not None:
        print(f"going on from {checkpoint}")


def _report(run: Run) -> None:
    metrics = run.trainer.callback_metrics
    errors = {"top-1": "val_error", "top-5": "val_error5"}
    known = [
        f"{name} {float(metrics[key]):.2f} %" for name, key in errors.items() if key in metrics
    ]
    if known:
        print(f"validation error: {', '.join(known)}")
    print(f"{run.output}: {LAST}, best.ckpt, history.csv, config.yaml")


def evaluate(checkpoint: str, data: str | None) -> int:
    """Print the errors of a checkpoint."""
    run = load_run(checkpoint)
    metrics = evaluate_run(run, data)
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
    run, console = load_run(checkpoint), Console()
    for image, classes in zip(images, predict_images(run, images), strict=True):
        console.print(Text(image), soft_wrap=True)  # above, since a title is wrapped to its table
        table = Table(show_header=False)
        for name, probability in classes:
            # The name is from the file; a terminal would obey its control characters.
            shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
            table.add_row(Text(shown), f"{100 * probability:.1f} %")
        console.print(table)
    return 0


def recipes(words: Sequence[str]) -> int:
    """List recipes whose names contain all words."""
    ours = {name: load_recipe(name).about for name in recipe_names()}
    ours |= {name: study.about for name, study in STUDIES.items()}
    found = {name: ours[name] for name in sorted(ours) if all(word in name for word in words)}
    if not found:
        raise SettingsError(f"no recipe has {' and '.join(words)} in its name")
    width = max(map(len, found))
    for name, about in found.items():
        print(f"{name:<{width}}  {about}")
    return 0
