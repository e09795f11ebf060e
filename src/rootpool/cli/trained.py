"""``rootpool evaluate``, ``predict`` and ``export``: what to do with a trained network."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rootpool.files import write_atomically
from rootpool.train import SettingsError

if TYPE_CHECKING:
    from rootpool.train.evaluation import Evaluation

__all__ = ["evaluate", "export", "predict"]

WORST = 10  # classes in the table on the screen


def evaluate(
    checkpoint: str,
    data: str | None,
    output: str | None = None,
    mirrored: bool = False,
    on_bad_image: str | None = None,
) -> int:
    """Print the errors of a checkpoint, and those of its worst classes."""
    _check_exists(checkpoint)
    if output is not None and os.path.isfile(output):  # said before the work, not after it
        raise SettingsError(f"{output} is a file, not a folder; choose another --output")

    from rootpool.train.evaluation import evaluate as measure
    from rootpool.train.evaluation import load_run
    from rootpool.train.evaluation_page import evaluation_page
    from rootpool.train.trainer import quiet_lightning

    run = load_run(checkpoint)
    found = measure(
        run,
        data,
        mirrored=mirrored,
        on_bad_image=on_bad_image,
        enable_progress_bar=sys.stdout.isatty(),
    )
    metrics = found.metrics
    errors = {name: f"{error:.2f} %" for name, error in found.errors.items()}
    total = {"samples": str(metrics["samples"]), **errors, "loss": f"{metrics['val_loss']:.4f}"}
    seen = ", with mirror images" * mirrored
    _print_table(f"{run.checkpoint} after epoch {run.epoch + 1}{seen}", [total])
    rows = found.by_class()
    _print_table(
        f"the {WORST} worst of {len(rows)} classes" if len(rows) > WORST else "",
        [
            {
                "class": row["class"],
                "images": str(row["images"]),
                "error": f"{row['error']:.1f} %",
                "taken for": row["confused_with"],
            }
            for row in rows[:WORST]
        ],
    )
    if output is not None:
        with quiet_lightning():  # also about fonts that lack the names of classes
            _write_evaluation(found, Path(output))
            page = evaluation_page(run, found).write(Path(output) / "index.html")
        print(f"Look at {page.resolve().as_uri()}")
    return 0


def _print_table(title: str, rows: Sequence[Mapping[str, str]], *, header: bool = True) -> None:
    """A table on the screen; numbers are aligned right, and markup in names is shown, not obeyed."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), show_header=header)
    for name, cell in rows[0].items():
        if cell[:1].isdigit():
            table.add_column(name, justify="right", style="cyan")
        else:
            table.add_column(name)
    for row in rows:
        table.add_row(*(Text(_printable(cell)) for cell in row.values()))
    Console().print(table)


def _write_evaluation(found: Evaluation, folder: Path) -> None:
    from rootpool.report.records import write_records

    write_records(found.by_class(), folder / "classes.csv")
    counts = [dict(zip(found.classes, row, strict=True)) for row in found.confusion]
    names = [{"true class": name} for name in found.classes]
    both = zip(names, counts, strict=True)
    write_records([name | row for name, row in both], folder / "confusion.csv")
    print(f"{folder}: classes.csv, confusion.csv")


def predict(
    checkpoint: str,
    images: Sequence[str],
    *,
    table: str | None = None,
    count: int = 5,
    on_bad_image: str = "raise",
) -> int:
    """Print the most probable classes of images, or write them to a CSV file."""
    _check_exists(checkpoint)
    from rootpool.train.evaluation import find_images, load_run, predictions

    run = load_run(checkpoint)
    found = predictions(run, find_images(images), count, on_bad_image=on_bad_image)
    if table is None:
        _print(found)
    else:
        _write(found, table)
    return 0


def _print(found: Iterable[tuple[Any, Any]]) -> None:
    for image, classes in found:
        print(_printable(str(image)))  # above: a title is wrapped to its table
        if isinstance(classes, Exception):
            print(f"  left out: {classes}")
            continue
        rows = [{"class": name, "share": f"{100 * share:.1f} %"} for name, share in classes]
        _print_table("", rows, header=False)


def _write(found: Iterable[tuple[Any, Any]], path: str) -> None:
    """One line per image: file, then class and probability of each guess, the most probable first."""
    from rootpool.report.records import to_csv

    rows, bad = [], 0
    for image, classes in found:
        if isinstance(classes, Exception):
            print(f"rootpool: left out: {classes}", file=sys.stderr)
            bad += 1
            continue
        row = {"image": str(image)}
        for k, (name, share) in enumerate(classes, 1):
            row |= {f"class_{k}": name, f"share_{k}": f"{share:.6f}"}
        rows.append(row)
    # The names of files keep their bytes, whatever the encoding.
    write_atomically(path, to_csv(rows).encode("utf-8", "surrogateescape"))
    print(f"{path}: {len(rows)} images" + (f", {bad} left out" if bad else ""))


def export(checkpoint: str, output: str | None) -> int:
    """Write the network of a run as ONNX or as a program of torch.export, and check it."""
    _check_exists(checkpoint)
    from rootpool.train.evaluation import load_run
    from rootpool.train.export import export_run

    run = load_run(checkpoint)
    trained = run.module.pooling
    folder = Path(checkpoint) if os.path.isdir(checkpoint) else Path(checkpoint).parent
    done = export_run(run, output or folder / "model.onnx")
    size = " x ".join(map(str, done.shape))
    print(f"{done.path}: images of {size} to {len(run.classes)} classes, any batch size")
    if done.method != trained:
        print(f"the root is computed by {done.method} (matrix products) instead of {trained}")
    print(
        f"logits differ from the network's by at most {done.difference:.1e} of {done.largest:.3g}"
    )
    return 0


def _check_exists(checkpoint: str) -> None:
    if not os.path.exists(checkpoint):
        raise SettingsError(
            f"there is no checkpoint {checkpoint}; rootpool train writes last.ckpt and best.ckpt"
        )


def _printable(name: str) -> str:
    # The name comes from a file; a terminal would obey its control characters.
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
