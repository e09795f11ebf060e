"""``rootpool evaluate``, ``predict`` and ``export``: what to do with a trained network."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

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
    if output is not None and mirrored:
        raise SettingsError("--output shows decisions on images as they are: leave out --mirrored")

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from rootpool.train.evaluation import load_run, measure
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
    metrics, console = found.metrics, Console()
    columns = {
        "samples": str(metrics["samples"]),
        "top-1 error": f"{metrics['val_error']:.2f} %",
        **({"top-5 error": f"{metrics['val_error5']:.2f} %"} if len(run.classes) > 5 else {}),
        "loss": f"{metrics['val_loss']:.4f}",
    }
    seen = ", with mirror images" * mirrored
    table = Table(title=Text(f"{run.checkpoint} after epoch {run.epoch}{seen}"))
    for heading in columns:
        table.add_column(heading, justify="right")
    table.add_row(*columns.values())
    console.print(table)
    rows = sorted(found.by_class(), key=lambda row: -row["error"])
    classes = Table(title=f"the {WORST} worst of {len(rows)} classes" if len(rows) > WORST else "")
    for heading in ("class", "images", "error", "taken for"):
        classes.add_column(
            heading, justify="left" if heading in ("class", "taken for") else "right"
        )
    for row in rows[:WORST]:
        name, other = (Text(_printable(row[key])) for key in ("class", "confused_with"))
        classes.add_row(name, str(row["images"]), f"{row['error']:.1f} %", other)
    console.print(classes)
    if output is not None:
        with quiet_lightning():  # also about fonts that lack the names of classes
            _write_evaluation(found, Path(output))
            page = evaluation_page(run, found, data, on_bad_image).write(
                Path(output) / "index.html"
            )
        print(f"Look at {page.resolve().as_uri()}")
    return 0


def _write_evaluation(found: Evaluation, folder: Path) -> None:
    from rootpool.report.plots import confusion_matrix
    from rootpool.report.records import write_records

    folder.mkdir(parents=True, exist_ok=True)
    write_records(found.by_class(), folder / "classes.csv")
    rows = zip(found.classes, found.confusion, strict=True)
    _write_csv(
        folder / "confusion.csv",
        [["true class", *found.classes], *([name, *counts] for name, counts in rows)],
    )
    figure = confusion_matrix(found.confusion, found.classes)
    write_atomically(folder / "confusion.png", lambda file: figure.savefig(file, dpi=120))
    print(f"{folder}: classes.csv, confusion.csv, confusion.png")


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
        _write(found, min(count, len(run.classes)), table)
    return 0


def _print(found: Iterable[tuple[Any, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for image, classes in found:
        console.print(Text(str(image)), soft_wrap=True)  # above: a title is wrapped to its table
        if isinstance(classes, Exception):
            console.print(Text(f"  left out: {classes}"), soft_wrap=True)
            continue
        table = Table(show_header=False)
        for name, probability in classes:
            table.add_row(Text(_printable(name)), f"{100 * probability:.1f} %")
        console.print(table)


def _write(found: Iterable[tuple[Any, Any]], count: int, path: str) -> None:
    """One line per image: file, then class and probability of each guess, the most probable first."""
    done = bad = 0

    def rows() -> Iterator[list[Any]]:
        nonlocal done, bad
        guesses = range(1, count + 1)
        yield ["image", *(f"{what}_{k}" for k in guesses for what in ("class", "share"))]
        for image, classes in found:
            if isinstance(classes, Exception):
                print(f"rootpool: left out: {classes}", file=sys.stderr)
                bad += 1
                continue
            yield [str(image), *(x for name, share in classes for x in (name, f"{share:.6f}"))]
            done += 1

    _write_csv(Path(path), rows())
    print(f"{path}: {done} images" + (f", {bad} left out" if bad else ""))


def _write_csv(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    """A file that is there only when it is whole."""

    def write(file: BinaryIO) -> None:
        text = io.TextIOWrapper(file, "utf-8", errors="surrogateescape", newline="")
        csv.writer(text).writerows(rows)
        text.detach()  # flushed, and left open

    write_atomically(path, write)


def export(checkpoint: str, output: str | None) -> int:
    """Write the network of a run as ONNX or as a program of torch.export, and check it."""
    _check_exists(checkpoint)
    path = Path(output or _default_export(checkpoint))
    if path.suffix not in (".onnx", ".pt2"):
        raise SettingsError(f"--output must end in .onnx or .pt2, got {path}")

    from rootpool.train.evaluation import load_run
    from rootpool.train.export import export_run

    run = load_run(checkpoint)
    trained = run.module.pooling
    done = export_run(run, path)
    size = " x ".join(map(str, done.shape))
    print(f"{done.path}: images of {size} to {len(run.classes)} classes, any batch size")
    if done.method != trained:
        print(f"the root is computed by {done.method} (matrix products) instead of {trained}")
    print(
        f"logits differ from the network's by at most {done.difference:.1e} of {done.largest:.3g}"
    )
    return 0


def _default_export(checkpoint: str) -> Path:
    path = Path(checkpoint)
    return path / "model.onnx" if path.is_dir() else path.with_name("model.onnx")


def _check_exists(checkpoint: str) -> None:
    if not os.path.exists(checkpoint):
        raise SettingsError(
            f"there is no checkpoint {checkpoint}; rootpool train writes last.ckpt and best.ckpt"
        )


def _printable(name: str) -> str:
    # The name comes from a file; a terminal would obey its control characters.
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
