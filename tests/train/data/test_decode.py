"""Every kind of image file, good and bad."""

import errno
import io
import os
import struct
import zlib

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


@pytest.mark.parametrize("suffix", ["png", "bmp", "ppm", "tif", "webp"])
def test_plain_images_keep_their_pixels(suffix, tmp_path):
    path = tmp_path / f"image.{suffix}"
    Image.fromarray(gradient()).save(path, lossless=True)
    assert np.array_equal(decoded(path), gradient())
    assert np.array_equal(decoded(str(path)), gradient())


# What was seen, and what the file then holds: EXIF says which side of the scene row 0 and column 0 are.
ORIENTATIONS = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: np.rot90(a),
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: np.rot90(a, -1),
}


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_exif_orientation_is_applied(orientation, tmp_path):
    stored = Image.fromarray(np.ascontiguousarray(ORIENTATIONS[orientation](gradient())))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / "image.png", exif=exif)
    assert np.array_equal(decoded(tmp_path / "image.png"), gradient())


def test_damaged_exif_leaves_the_pixels(tmp_path):
    path = tmp_path / "image.png"
    Image.fromarray(gradient()).save(path, exif=b"Exif\0\0MM\0*\xff\xff\xff\xff garbage")
    assert np.array_equal(decoded(path), gradient())


def test_grey(tmp_path):
    grey = gradient()[:, :, 0]
    Image.fromarray(grey).save(tmp_path / "grey.png")
    Image.fromarray(grey > 100).save(tmp_path / "bits.png")
    assert np.array_equal(decoded(tmp_path / "grey.png"), np.repeat(grey[:, :, None], 3, 2))
    assert np.array_equal(decoded(tmp_path / "bits.png")[:, :, 2], 255 * (grey > 100))


@pytest.mark.parametrize("suffix", ["png", "tif", "pgm"])
def test_16_bits_are_scaled_and_not_cut_off(suffix, tmp_path):
    grey = np.linspace(0, 65535, 256).round().astype(np.uint16).reshape(8, 32)
    Image.fromarray(grey).save(tmp_path / f"image.{suffix}")
    expected = np.arange(256).reshape(8, 32)
    assert np.array_equal(decoded(tmp_path / f"image.{suffix}")[:, :, 1], expected)


def test_16_bit_colour(tmp_path):
    def chunk(kind, content):
        check = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

    row = b"\0" + struct.pack(">6H", 0, 257 * 7, 65535, 257 * 200, 257 * 100, 257 * 50)
    header = struct.pack(">IIBBBBB", 2, 1, 16, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(row))
    (tmp_path / "image.png").write_bytes(png + chunk(b"IEND", b""))
    assert decoded(tmp_path / "image.png").tolist() == [[[0, 7, 255], [200, 100, 50]]]


def test_cmyk(tmp_path):
    picture = Image.new("CMYK", (16, 16), (0, 255, 255, 0))  # magenta and yellow ink: red
    picture.save(tmp_path / "image.jpg", quality=100)
    colour = decoded(tmp_path / "image.jpg").astype(int)
    assert np.abs(colour - [255, 0, 0]).max() <= 4


def test_palette(tmp_path):
    picture = Image.fromarray(gradient()).quantize(60)
    picture.save(tmp_path / "image.png")
    assert np.array_equal(decoded(tmp_path / "image.png"), np.asarray(picture.convert("RGB")))


@pytest.mark.parametrize("kind", ["rgba", "la", "palette", "key"])
def test_transparent_pixels_are_white(kind, tmp_path):
    path = tmp_path / "image.png"
    pixels = np.array([[[10, 10, 10, 255], [10, 10, 10, 0], [50, 50, 50, 255]]], dtype=np.uint8)
    picture = Image.fromarray(pixels)
    if kind == "rgba":
        picture.save(path)
    elif kind == "la":
        picture.convert("LA").save(path)
    elif kind == "palette":
        indexed = Image.new("P", (3, 1))
        indexed.putpalette([10, 10, 10, 90, 90, 90, 50, 50, 50])
        indexed.putdata([0, 1, 2])
        indexed.save(path, transparency=1)
    else:
        pixels[0, 1] = 77
        Image.fromarray(pixels[:, :, :3].copy()).save(path, transparency=(77, 77, 77))
    assert decoded(path)[0, :, 0].tolist() == [10, 255, 50]


def test_half_transparent_pixels_are_mixed_with_white(tmp_path):
    Image.new("RGBA", (2, 2), (0, 100, 200, 51)).save(tmp_path / "image.png")  # one fifth
    assert np.abs(decoded(tmp_path / "image.png").astype(int) - [204, 224, 244]).max() <= 1


@pytest.mark.parametrize("suffix", ["gif", "webp", "png", "tif"])
def test_first_frame_of_an_animation(suffix, tmp_path):
    first, second = (Image.new("RGB", (8, 8), name) for name in ("red", "blue"))
    path = tmp_path / f"image.{suffix}"
    first.save(path, save_all=True, append_images=[second], lossless=True)
    with Image.open(path) as animation:
        assert animation.n_frames == 2
    assert (decoded(path) == [255, 0, 0]).all()


def test_content_counts_and_not_the_suffix(tmp_path):
    Image.fromarray(gradient()).save(tmp_path / "image.jpg", format="PNG")  # ImageNet has one
    assert np.array_equal(decoded(tmp_path / "image.jpg"), gradient())


# --------------------------------------------------------------------------------------------------
# Bad images


@pytest.mark.parametrize("suffix", ["jpg", "png", "gif", "bmp", "webp", "tif", "ppm"])
@pytest.mark.parametrize("part", [0.0, 0.01, 0.3, 0.9])
def test_truncated_files(suffix, part, photo):
    path = photo.with_name(f"image.{suffix}")
    Image.open(photo).save(path)
    os.truncate(path, int(part * path.stat().st_size))
    reason = r"\(the file is empty\)" if part == 0 else r"\(\w+: .*\)"
    with pytest.raises(
        BadImageError, match=rf"cannot decode .*image\.{suffix} {reason}; repair or"
    ):
        decode_image(path)


@pytest.mark.parametrize(
    "content", [b"hello", b"\0" * 4096, b"<html>not found</html>", b"\xff\xd8\xff"]
)
def test_no_image_at_all(content, tmp_path):
    path = tmp_path / "image.jpg"
    path.write_bytes(content)
    with pytest.raises(BadImageError, match=r"cannot decode .*image\.jpg"):
        decode_image(path)


def test_damaged_bytes_never_escape_as_another_error(photo):
    """Whatever is changed in a file: an image, or a BadImageError."""
    generator = np.random.default_rng(0)
    for suffix in ("png", "gif", "tif", "jpg", "webp"):
        buffer = io.BytesIO()
        Image.open(photo).resize((20, 10)).save(
            buffer, suffix.replace("tif", "tiff").replace("jpg", "jpeg")
        )
        bad = 0
        for _ in range(60):
            content = np.frombuffer(buffer.getvalue(), np.uint8).copy()
            where = generator.integers(0, min(len(content), 400), 4)
            content[where] = generator.integers(0, 256, 4)
            photo.write_bytes(content.tobytes())
            try:
                assert decode_image(photo).mode == "RGB"
            except BadImageError:
                bad += 1
        assert bad > 0
        images.save_image(photo, 1, 3, (200, 100), seed=0)


def test_32_bit_pixels_are_refused(tmp_path):
    for dtype in (np.int32, np.float32):
        Image.fromarray(np.ones((4, 4), dtype)).save(tmp_path / "image.tif")
        with pytest.raises(
            BadImageError, match="32-bit pixels have no agreed range; convert it to 8"
        ):
            decode_image(tmp_path / "image.tif")


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

    def failing(path):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Image, "open", failing)
    with pytest.raises(OSError, match=r"Input/output error: .*photo\.jpg") as caught:
        decode_image(photo)
    assert caught.value.errno == errno.EIO


def test_running_out_of_memory_is_no_bad_image(photo, monkeypatch):
    def failing(path):
        raise MemoryError

    monkeypatch.setattr(Image, "open", failing)
    with pytest.raises(MemoryError):
        decode_image(photo)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this platform has no named pipes")
def test_what_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "zeros.jpg").symlink_to("/dev/zero")
    for name in ("pipe.jpg", "zeros.jpg"):
        with pytest.raises(BadImageError, match=f"{name} is no regular file; remove it"):
            decode_image(tmp_path / name)
