"""Decode an image file to RGB pixels, or raise an error that names the file."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

__all__ = ["BadImageError", "decode_image"]

# Modes of 16-bit grey; some readers of Pillow widen it to 32 bits.
SIXTEEN_BITS = {"I;16", "I;16B", "I;16L", "I;16N"}
WIDENED = {("I", "PNG"), ("I", "PPM")}


class BadImageError(ValueError):
    """A file that can be read but does not hold an image that can be decoded."""


def decode_image(path: str | os.PathLike[str]) -> Image.Image:
    """The image in a file as 8-bit RGB, upright.

    The orientation in the EXIF data is applied; grey, palette and CMYK images are converted; 16-bit
    grey is scaled to 8 bits; what is transparent becomes white; of an animation the first frame is
    taken. Images of 32-bit numbers, which have no agreed range, and those with more pixels than
    ``PIL.Image.MAX_IMAGE_PIXELS`` (a small file can hold gigabytes of them) are refused.

    Raises:
        BadImageError: the file is empty, truncated or not an image.
        OSError: the file cannot be read at all (missing, not permitted, a failing disk).
    """
    path = Path(path)
    mode = path.stat().st_mode
    # To open a pipe is to wait for its other end.
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise BadImageError(f"{path} is not a regular file; remove it")
    try:
        with Image.open(path) as image:
            _check_pixels(image)
            image.load()
            wide = image.mode in SIXTEEN_BITS or (image.mode, image.format) in WIDENED
            upright = _upright(image)
            return _to_rgb(_halved(upright) if wide else upright)
    except OSError as error:
        if error.errno is not None:  # from the system; Pillow's own have no number
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise BadImageError(_message(path, error)) from error
    except MemoryError:
        raise  # says nothing about the file
    except Exception as error:  # its plugins raise SyntaxError, struct.error, zlib.error and others
        raise BadImageError(_message(path, error)) from error


def _message(path: Path, error: Exception) -> str:
    reason = "the file is empty" if path.stat().st_size == 0 else f"{type(error).__name__}: {error}"
    return f"cannot decode {path} ({reason}); repair or remove it"


def _check_pixels(image: Image.Image) -> None:
    # Pillow refuses from twice its limit on, and only warns below.
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and image.width * image.height > limit:
        raise ValueError(
            f"{image.width} x {image.height} pixels are more than PIL.Image.MAX_IMAGE_PIXELS = {limit}"
        )


def _upright(image: Image.Image) -> Image.Image:
    with contextlib.suppress(Exception):  # damaged EXIF data; the pixels are good
        ImageOps.exif_transpose(image, in_place=True)
    return image


def _halved(image: Image.Image) -> Image.Image:
    """16-bit grey in 8 bits: 65535 becomes 255."""
    return Image.fromarray((np.asarray(image) / 257).round().astype(np.uint8))


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode in ("I", "F"):
        raise ValueError("32-bit pixels have no agreed range; convert it to 8 or 16 bits")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image if image.mode == "RGB" else image.convert("RGB")
