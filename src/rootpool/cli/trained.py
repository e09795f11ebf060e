"""``rootpool evaluate``, ``predict`` and ``export``: what to do with a trained network."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rootpool.files import write_atomically
from rootpool.train import SettingsError

__all__ = ["evaluate", "export", "predict"]

WORST = 10  # classes in the table on the screen


def evaluate(
    checkpoint: str,
    data: str | None,
    output: str | None = None,
    mirrored: bool = False,
    on_bad_image: str | None = None,
) -> int:
    """Print the errors of a checkpoint and of its worst classes."""
    _check_exists(checkpoint)
    if output is not None and os.path.isfile(output):  # said before the work, not after it
        raise SettingsError(f"{output} is a file, not a folder; choose another --output")

    from rootpool.report import write_records
    from rootpool.train.evaluation import evaluate as measure
    from rootpool.train.evaluation import load_run
    from rootpool.train.evaluation_page import evaluation_page

    run, bar = load_run(checkpoint), {"enable_progress_bar": sys.stdout.isatty()}
    found = measure(run, data, mirrored=mirrored, on_bad_image=on_bad_image, **bar)
    metrics = found.metrics
    errors = {name: f"{error:.2f} %" for name, error in found.errors.items()}
    total = {"samples": str(metrics["samples"]), **errors, "loss": f"{metrics['val_loss']:.4f}"}
    seen = ", with mirror images" * mirrored
    _print_table(f"{run.checkpoint} after epoch {run.epoch + 1}{seen}", [total])
    classes = found.by_class()
    _print_table(
        f"the {WORST} worst of {len(classes)} classes" if len(classes) > WORST else "",
        [
            {
                "class": row["class"],
                "images": str(row["images"]),
                "error": f"{row['error']:.1f} %",
                "taken for": row["confused_with"],
            }
            for row in classes[:WORST]
        ],
    )
    if output is not None:
        folder, taken_for = Path(output), zip(found.classes, found.confusion, strict=True)
        counts = [
            {"true class": c, **dict(zip(found.classes, n, strict=True))} for c, n in taken_for
        ]
        write_records(classes, folder / "classes.csv")
        write_records(counts, folder / "confusion.csv")
        page = evaluation_page(run, found).write(folder / "index.html")
        print(f"{folder}: classes.csv, confusion.csv\nLook at {page.resolve().as_uri()}")
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
    from rootpool.report.records import to_csv
    from rootpool.train.evaluation import find_images, load_run, predictions

    rows, bad = [], 0
    for image, found in predictions(
        load_run(checkpoint), find_images(images), count, on_bad_image=on_bad_image
    ):
        if table is None:
            print(_printable(str(image)))  # above: a title is wrapped to its table
        if isinstance(found, Exception):
            print(f"  left out: {found}", file=sys.stderr if table else sys.stdout)
            bad += 1
        elif table is None:
            shares = [{"class": name, "share": f"{100 * share:.1f} %"} for name, share in found]
            _print_table("", shares, header=False)
        else:
            row = {"image": str(image)}
            for k, (name, share) in enumerate(found, 1):
                row |= {f"class_{k}": name, f"share_{k}": f"{share:.6f}"}
            rows.append(row)
    if table is not None:
        # The names of files keep their bytes, whatever the encoding.
        write_atomically(table, to_csv(rows).encode("utf-8", "surrogateescape"))
        print(f"{table}: {len(rows)} images" + (f", {bad} left out" if bad else ""))
    return 0


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
