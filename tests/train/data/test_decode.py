"""Every kind of image file, good and bad."""

import errno
import os
from unittest import mock

import numpy as np
import pytest
from PIL import Image

import images
from rootpool.train.data import BadImageError, decode_image


def gradient(height=6, width=10):
    """A picture without symmetries: red grows to the right, green downwards."""
    y, x = np.mgrid[:height, :width]
    return np.stack([20 * x + 10, 30 * y + 10, np.full_like(x, 100)], -1).astype(np.uint8)


def decoded(path):
    image = decode_image(path)
    assert image.mode == "RGB"
    return np.asarray(image)


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "photo.jpg"
    images.save_image(path, 1, 3, (200, 100), seed=0)
    return path


# --------------------------------------------------------------------------------------------------
# Good images


def test_pixels_stay_and_are_upright(tmp_path):
    turned = Image.Exif()
    turned[0x0112] = 6  # the camera was turned
    for pixels, exif in (
        (gradient(), None),
        (np.rot90(gradient()).copy(), turned),
        (gradient(), b"Exif\0\0MM\0*\xff\xff\xff\xff garbage"),
    ):
        Image.fromarray(pixels).save(tmp_path / "image.png", exif=exif)
        assert np.array_equal(decoded(str(tmp_path / "image.png")), gradient())


@pytest.mark.parametrize("suffix", ["png", "tif", "pgm"])
def test_16_bits_are_scaled_and_not_cut_off(suffix, tmp_path):
    grey = np.linspace(0, 65535, 256).round().astype(np.uint16).reshape(8, 32)
    Image.fromarray(grey).save(tmp_path / f"image.{suffix}")
    expected = np.arange(256).reshape(8, 32)
    assert np.array_equal(decoded(tmp_path / f"image.{suffix}")[:, :, 1], expected)


def test_transparent_pixels_are_white_and_an_animation_is_its_first_frame(tmp_path):
    pixels = np.array([[[10, 10, 10, 255], [10, 10, 10, 0], [50, 50, 50, 255]]], dtype=np.uint8)
    indexed = Image.new("P", (3, 1))
    indexed.putpalette([10, 10, 10, 90, 90, 90, 50, 50, 50])
    indexed.putdata([0, 1, 2])
    first, second = (Image.new("RGB", (8, 8), name) for name in ("red", "blue"))
    for name, picture, options, reds in (
        ("rgba.png", Image.fromarray(pixels), {}, [10, 255, 50]),
        ("palette.png", indexed, {"transparency": 1}, [10, 255, 50]),
        ("image.gif", first, {"save_all": True, "append_images": [second]}, [255] * 8),
    ):
        picture.save(tmp_path / name, **options)
        assert decoded(tmp_path / name)[0, :, 0].tolist() == reds


# --------------------------------------------------------------------------------------------------
# Bad images


@pytest.mark.parametrize(
    ("content", "reason"),
    [(0.0, "the file is empty"), (0.01, r"\w+: .*"), (0.9, r"\w+: .*"), ("<html>", r"\w+: .*")],
)
def test_files_that_are_cut_off_or_not_images(content, reason, photo):
    if isinstance(content, str):
        photo.write_text(content)
    else:
        os.truncate(photo, int(content * photo.stat().st_size))
    with pytest.raises(BadImageError, match=rf"cannot decode .*photo\.jpg \({reason}\); repair or"):
        decode_image(photo)
    for dtype in (np.int32, np.float32):
        Image.fromarray(np.ones((4, 4), dtype)).save(photo.with_suffix(".tif"))
        with pytest.raises(BadImageError, match="32-bit pixels have no agreed range; convert"):
            decode_image(photo.with_suffix(".tif"))


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_decompression_bombs_are_refused(photo, monkeypatch):
    for limit, message in (
        (200 * 100, None),
        (200 * 100 - 1, r"200 x 100 pixels are more than PIL.Image.MAX_IMAGE_PIXELS = 19999"),
        (200 * 50 - 1, r"DecompressionBombError: .*20000 pixels"),
        (None, None),
    ):
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        if message is None:
            decode_image(photo)
        else:
            with pytest.raises(BadImageError, match=message):
                decode_image(photo)


def test_files_that_cannot_be_read_are_no_bad_images(tmp_path, monkeypatch, photo):
    with pytest.raises(FileNotFoundError, match=r"No such file .*nothing\.jpg"):
        decode_image(tmp_path / "nothing.jpg")
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        decode_image(tmp_path)

    for error, message in (
        (OSError(errno.EIO, "Input/output error"), r"Errno 5\] Input/output error: .*photo\.jpg"),
        (MemoryError("full"), "^full$"),
    ):
        monkeypatch.setattr(Image, "open", mock.Mock(side_effect=error))
        with pytest.raises(type(error), match=message):
            decode_image(photo)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this platform has no named pipes")
def test_what_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "zeros.jpg").symlink_to("/dev/zero")
    for name in ("pipe.jpg", "zeros.jpg"):
        with pytest.raises(BadImageError, match=f"{name} is not a regular file; remove it"):
            decode_image(tmp_path / name)
