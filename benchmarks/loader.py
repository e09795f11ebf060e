"""Images per second that one core loads: normalised in the worker, or as bytes for the device.

Claim: with ``data.as_bytes`` a core loads a tenth to a quarter more images, and copies a quarter of
the memory.

    python benchmarks/loader.py      half a minute

JPEG files of the size of ImageNet's, transforms as for ImageNet, batches of 32. Both take turns.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from timing import machine, race, table

from rootpool.train import DataSettings, ImageData

BATCH = 32


def make_images(folder: Path) -> None:
    """Two classes of smooth pictures with noise, 500 x 375."""
    draw = np.random.default_rng(0)
    for k in range(2 * BATCH):
        coarse = Image.fromarray(draw.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC))
        noisy = (smooth + draw.normal(0, 6, (375, 500, 1))).clip(0, 255).astype(np.uint8)
        path = folder / "train" / "ab"[k % 2] / f"{k}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noisy).save(path, quality=90)
    (folder / "val").symlink_to(folder / "train", target_is_directory=True)


def main() -> None:
    """Print a table."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        make_images(Path(name))
        rows = []
        for transform in ("imagenet", "resized-crop"):
            contestants, megabytes = {}, {}
            for as_bytes in (False, True):
                settings = DataSettings(
                    name, transform, batch_size=BATCH, workers=0, as_bytes=as_bytes
                )
                loader = ImageData(settings).train_dataloader()
                contestants[as_bytes] = lambda loader=loader: list(loader)
                megabytes[as_bytes] = next(iter(loader))[0].nbytes / 1e6
            found = race(contestants, seconds=6.0)
            plain, quick = (2 * BATCH / found[as_bytes] for as_bytes in (False, True))
            size = f"{megabytes[False]:.1f} / {megabytes[True]:.1f}"
            rows.append([transform, f"{plain:.0f}", f"{quick:.0f}", f"{quick / plain:.2f}", size])
    heading = ["transform", "images/s", "images/s as bytes", "ratio", "MB per batch"]
    print(f"{machine()}\n")
    print(table(heading, rows))


if __name__ == "__main__":
    main()
