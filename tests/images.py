"""Small data sets on disk, in every layout that can be read.

A class has a colour of its own (:func:`colour`) under some noise, so that a test can tell from the
pixels which label an image must have, and a small network can learn it.
"""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat

NOISE = 12.0  # standard deviation, grey levels
SIZE = (40, 32)  # width and height


def class_names(count: int) -> list[str]:
    return [f"class{index:02d}" for index in range(count)]


def colour(label: int, count: int) -> np.ndarray:
    """The mean colour (R, G, B) of images of a class, 0 to 255; classes go round the colour wheel."""
    return 55 + 145 * np.array(colorsys.hsv_to_rgb(label / count, 1.0, 1.0))


def label_of(pixels: np.ndarray, count: int) -> int:
    """The class whose colour an image ``(H, W, 3)`` has."""
    mean = np.asarray(pixels, dtype=float).mean((0, 1))
    return int(np.argmin([np.abs(mean - colour(k, count)).sum() for k in range(count)]))


def pixels_of(label: int, count: int, size: tuple[int, int], seed: int) -> np.ndarray:
    """An image of a class: bytes, ``(height, width, 3)``."""
    width, height = size
    noise = np.random.default_rng([label, seed]).normal(0, NOISE, (height, width, 3))
    return (colour(label, count) + noise).clip(0, 255).round().astype(np.uint8)


def save_image(path: Path, label: int, count: int, size: tuple[int, int], seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels_of(label, count, size, seed)).save(path, quality=95)


def make_image_tree(
    root: Path,
    classes: int | Sequence[str] = 3,
    per_class: int = 4,
    size: tuple[int, int] = SIZE,
    splits: Sequence[str] = ("train", "val"),
) -> Path:
    """``root/<split>/<class>/<k>.jpg``, ``per_class`` images of ``size`` (width, height) in each."""
    names = class_names(classes) if isinstance(classes, int) else list(classes)
    for part, split in enumerate(splits):
        for label, name in enumerate(names):
            for k in range(per_class):
                path = root / split / name / f"{k}.jpg"
                save_image(path, label, len(names), size, seed=part * per_class + k)
    return root


def make_cub(root: Path, classes: int = 3, per_class: int = 4) -> Path:
    """CUB-200-2011: ``per_class`` images for training and as many for test, in turn."""
    names = [f"{index + 1:03d}.Bird_{index}" for index in range(classes)]
    files, labels, split = [], [], []
    for label, name in enumerate(names):
        for k in range(2 * per_class):
            file = f"{name}/Bird_{label}_{k:04d}.jpg"
            save_image(root / "images" / file, label, classes, SIZE, seed=k)
            files.append(file)
            labels.append(label + 1)
            split.append((k + 1) % 2)
    for path, values in (
        ("classes.txt", names),
        ("images.txt", files),
        ("image_class_labels.txt", labels),
        ("train_test_split.txt", split),
    ):
        lines = [f"{number} {value}\n" for number, value in enumerate(values, 1)]
        (root / path).write_text("".join(lines), encoding="utf-8")
    return root


def make_dogs(root: Path, classes: int = 3, per_class: int = 4, lists: str = "") -> Path:
    """Stanford Dogs; ``lists`` is the folder of train_list.mat and test_list.mat."""
    names = [f"n0208{index:04d}-Breed_{index}" for index in range(classes)]
    (root / lists).mkdir(parents=True, exist_ok=True)
    for part, split in enumerate(("train", "test")):
        files, labels = [], []
        for label, name in enumerate(names):
            for k in range(part * per_class, (part + 1) * per_class):
                files.append(f"{name}/{name.split('-')[0]}_{k}.jpg")
                labels.append(label + 1)
                save_image(root / "Images" / files[-1], label, classes, SIZE, seed=k)
        write_dog_list(root / lists / f"{split}_list.mat", files, labels)
    return root


def write_dog_list(path: Path, files: Sequence[str], labels: Sequence[int]) -> None:
    cells = np.empty((len(files), 1), dtype=object)
    cells[:, 0] = files
    annotations = np.empty((len(files), 1), dtype=object)
    annotations[:, 0] = [file.removesuffix(".jpg") for file in files]
    column = np.array(labels, dtype=np.float64).reshape(-1, 1)
    savemat(path, {"file_list": cells, "annotation_list": annotations, "labels": column})


def make_cars(
    root: Path,
    classes: int = 3,
    per_class: int = 4,
    test_list: str = "cars_test_annos_withlabels.mat",
) -> Path:
    """Stanford Cars; ``test_list`` is the path of the test annotations."""
    names = [f"Maker {index} Coupe 2012" for index in range(classes)]
    (root / "devkit").mkdir(parents=True, exist_ok=True)
    cells = np.empty((1, classes), dtype=object)
    cells[0] = names
    savemat(root / "devkit" / "cars_meta.mat", {"class_names": cells})
    lists = {"cars_train": "devkit/cars_train_annos.mat", "cars_test": test_list}
    for part, (folder, target) in enumerate(lists.items()):
        labels = np.repeat(np.arange(classes), per_class)
        labels = np.random.default_rng(part).permutation(labels)  # as in the original, mixed
        files = [f"{k + 1:05d}.jpg" for k in range(len(labels))]
        for k, (file, label) in enumerate(zip(files, labels, strict=True)):
            save_image(root / folder / file, int(label), classes, SIZE, seed=part * 1000 + k)
        write_car_list(root / target, files, [int(label) + 1 for label in labels])
    return root


def write_car_list(path: Path, files: Sequence[str], labels: Sequence[int] | None) -> None:
    """Annotations; without the field ``class`` if ``labels`` is None."""
    boxes = ["bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2"]
    fields = [*boxes, *(["class"] if labels is not None else []), "fname"]
    annotations = np.empty((1, len(files)), dtype=[(field, object) for field in fields])
    for field in boxes:
        annotations[field][0] = 1
    if labels is not None:
        annotations["class"][0] = labels
    annotations["fname"][0] = files
    savemat(path, {"annotations": annotations})


MAKERS = {
    "cub-200-2011": make_cub,
    "stanford-dogs": make_dogs,
    "stanford-cars": make_cars,
    "image-folder": make_image_tree,
}
# Of each copy the first classes, and what tells the files for training and for validation apart by name.
LISTED = {
    "cub-200-2011": (("001.Bird_0", "002.Bird_1"), "_0000.", "_0001."),
    "stanford-dogs": (("n02080000-Breed_0", "n02080001-Breed_1"), "_0.", "_3."),
    "stanford-cars": (("Maker 0 Coupe 2012", "Maker 1 Coupe 2012"), "cars_train", "cars_test"),
    "image-folder": (("class00", "class01"), "train", "val"),
}
