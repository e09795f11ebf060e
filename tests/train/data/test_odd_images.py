"""A data set with every kind of file that collections from the web have."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import images
from rootpool.cli import main
from rootpool.train.data import BadImageError, open_splits

CLASSES, LABEL = 2, 1
HEIGHT, WIDTH = 32, 40


def pixels(image):
    return torch.from_numpy(np.asarray(image).copy())


def picture():
    """In the colour of its class, with a white corner at the top left."""
    painted = np.full((HEIGHT, WIDTH, 3), images.colour(LABEL, CLASSES).round(), np.uint8)
    painted[:8, :8] = 255
    return Image.fromarray(painted)


def bomb(path):
    """A gigapixel of zeros in a small PNG."""

    def chunk(kind, content):
        check = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

    side = 32_000
    packer = zlib.compressobj(1)
    row = bytes(1 + side // 8)
    data = b"".join(packer.compress(row * 1000) for _ in range(side // 1000)) + packer.flush()
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", data), (b"IEND", b""))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts))
    assert path.stat().st_size < 1_000_000


def truncated(path):
    images.save_image(path, LABEL, CLASSES, (WIDTH, HEIGHT), seed=9)
    path.write_bytes(path.read_bytes()[:400])


BAD = {
    "bomb.png": (bomb, "DecompressionBomb"),
    "empty.jpg": (lambda path: path.touch(), "the file is empty"),
    "page.jpg": (lambda path: path.write_text("<html>not found</html>"), "UnidentifiedImageError"),
    "truncated.jpg": (truncated, "OSError"),
}


def rotated(path):
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned
    picture().transpose(Image.Transpose.ROTATE_90).save(path, quality=95, exif=exif)


def animated(path):
    other = Image.new("RGB", (WIDTH, HEIGHT), "black")
    picture().save(path, save_all=True, append_images=[other])


def sixteen_bits(path):
    grey = np.asarray(picture().convert("L")).astype(np.uint16) * 257
    Image.fromarray(grey).save(path)


GOOD = {
    "16-bit.png": sixteen_bits,
    "animated.gif": animated,
    "cmyk.jpg": lambda path: picture().convert("CMYK").save(path, quality=95),
    "png-called.jpg": lambda path: picture().save(path, format="PNG"),
    "rotated.jpg": rotated,
}
IGNORED = {"Thumbs.db": lambda path: path.write_bytes(b"\0" * 99)}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("odd")
    root = images.make_image_tree(folder, CLASSES, per_class=2, size=(WIDTH, HEIGHT))
    folder = root / "train" / images.class_names(CLASSES)[LABEL]
    makers = {name: make for name, (make, _) in BAD.items()} | GOOD | IGNORED
    for name, make in makers.items():
        make(folder / name)
    return root


def opened(root, **options):
    """The training images, and the index of each by its name."""
    train = open_splits(root, train_transform=pixels, val_transform=pixels, **options).train
    return train, {Path(train.path(k)).name: k for k in range(len(train))}


def test_readable_ones_are_right_and_bad_ones_are_listed(root, capsys):
    train, index = opened(root, on_bad_image="skip")
    assert index.keys() == {"0.jpg", "1.jpg", *GOOD}
    for name in GOOD:
        image, label = train[index[name]]
        assert label == LABEL
        expected = picture().convert("L").convert("RGB") if name == "16-bit.png" else picture()
        difference = np.abs(image.numpy().astype(int) - np.asarray(expected).astype(int))
        assert image.shape == (HEIGHT, WIDTH, 3), name
        assert np.median(difference) <= 3, name  # of JPEG and of palettes
        assert difference[:6, :6].max() <= 12, name  # the corner is where it was
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"left out {len(BAD)} of {4 + len(GOOD) + len(BAD) + 4} images:"
    for line, (name, (_, reason)) in zip(lines[1:], BAD.items(), strict=True):
        assert name in line
        assert reason in line


@pytest.mark.parametrize("name", BAD)
def test_each_bad_one_is_named_when_it_is_met(root, name):
    train, index = opened(root)
    message = rf"cannot decode .*{name} \(.*{BAD[name][1]}.*--on-bad-image skip"
    with pytest.raises(BadImageError, match=message):
        train[index[name]]


@pytest.mark.slow
def test_the_command_says_so_or_trains_without_them(root, tmp_path, capsys):
    arguments = [
        "train",
        "--recipe=resnet50-imagenet-gap",
        f"--data={root}",
        "model.backbone=resnet10t",
        "data.batch_size=9",
        "data.workers=1",
        "data.resize=32",
        "data.crop=32",
        "trainer.max_epochs=1",
        "trainer.num_sanity_val_steps=0",
    ]
    assert main([*arguments, f"--output={tmp_path / 'raise'}"]) == 1
    assert f"cannot decode {root / 'train' / 'class01'}" in capsys.readouterr().err
    assert main([*arguments, f"--output={tmp_path / 'skip'}", "--on-bad-image=skip"]) == 0
    error = capsys.readouterr().err
    assert all(str(root / "train" / "class01" / name) in error for name in BAD)
