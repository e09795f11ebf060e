"""Features on disk: the same numbers as the network's, after any accident."""

import json
import os
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torchvision.transforms import v2

import hostile
from rootpool.heads.cache import Views, cache_features
from rootpool.train.data import BadImageError

COUNT, BATCH = 70, 2  # blocks of 32 images, and one of 6


class Tiny(nn.Module):
    """Two stages, and a count of the images it has seen."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.first = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU())
        self.second = nn.Conv2d(4, 5, 2)
        self.seen = 0

    def forward(self, x):
        self.seen += len(x)
        first = self.first(x)
        return {"first": first, "blocks.1": self.second(first)}


TRANSFORM = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.CenterCrop(8)])


@pytest.fixture
def files(tmp_path):
    generator = np.random.default_rng(0)
    paths = []
    for k in range(COUNT):
        path = tmp_path / "images" / f"{k % 3}" / f"{k}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 256, (9, 11, 3), dtype=np.uint8)).save(path)
        paths.append(path)
    return paths


def make(files, tmp_path, network=None, transform=TRANSFORM, **options):
    network = network or Tiny()
    options = {"batch_size": BATCH, "progress": False} | options
    return network, cache_features(network, files, transform, tmp_path / "cache", **options)


def expected(files, network, transform=TRANSFORM):
    images = torch.stack([transform(Image.open(file).convert("RGB")) for file in files])
    with torch.no_grad():
        return network.eval()(images)


def assert_right(cache, files, network):
    rows = torch.arange(len(files))
    for stage, features in cache.batch(rows).items():
        reference = expected(files, network)[stage]
        assert features.dtype == torch.float32
        assert torch.allclose(features, reference, rtol=2e-3, atol=1e-3), stage


@pytest.mark.parametrize("threads", [1, 2])
def test_features_are_those_of_the_network(files, tmp_path, threads):
    default = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        network, cache = make(files, tmp_path)
    finally:
        torch.set_num_threads(default)
    assert len(cache) == COUNT
    assert cache.channels == {"first": 4, "blocks.1": 5}
    assert all(features.dtype == np.float16 for features in cache.maps.values())
    assert_right(cache, files, network)


def test_views_are_picked_by_sample(files, tmp_path):
    mirror = v2.Compose([v2.RandomHorizontalFlip(p=1.0), TRANSFORM])
    network, cache = make(files, tmp_path, transform=Views((TRANSFORM, mirror)))
    assert cache.views == 2
    mirrored = expected(files, network, mirror)["first"]
    plain = expected(files, network)["first"]
    got = cache.batch(torch.tensor([3, 5]), torch.tensor([0, 1]))["first"]
    assert torch.allclose(got[0], plain[3], rtol=2e-3, atol=1e-3)
    assert torch.allclose(got[1], mirrored[5], rtol=2e-3, atol=1e-3)


def test_second_time_nothing_is_computed(files, tmp_path):
    _, first = make(files, tmp_path)
    network, second = make(files, tmp_path)
    assert network.seen == 0
    for stage in first.maps:
        assert np.array_equal(first.maps[stage], second.maps[stage])
    with pytest.raises(ValueError, match="read-only"):
        second.maps["first"][0] = 0


@dataclass(frozen=True)
class Brighter:
    by: float

    def __call__(self, image):
        return TRANSFORM(image) + self.by


def test_a_change_of_anything_makes_a_new_cache(files, tmp_path):
    make(files, tmp_path, transform=Brighter(0.0))

    def computed(**changes):
        network, cache = make(**{"files": files, "tmp_path": tmp_path} | changes)
        return network.seen >= len(cache)

    assert not computed(transform=Brighter(0.0))
    assert computed(transform=Brighter(0.1))
    assert computed(network=Tiny(seed=1), transform=Brighter(0.0))
    assert computed(files=files[1:], transform=Brighter(0.0))
    os.utime(files[5], (1, 1))  # changed since
    assert computed(transform=Brighter(0.0))


def test_data_that_are_moved_keep_their_cache(files, tmp_path):
    make(files, tmp_path)
    (tmp_path / "images").rename(tmp_path / "elsewhere")
    moved = [tmp_path / "elsewhere" / file.relative_to(tmp_path / "images") for file in files]
    network, _ = make(moved, tmp_path)
    assert network.seen == 0


def test_a_cache_travels_to_other_processes_by_name(files, tmp_path):
    _, cache = make(files, tmp_path)
    parcel = pickle.dumps(cache.select(["first"]))
    assert len(parcel) < 1000
    other = pickle.loads(parcel)
    assert list(other.maps) == ["first"]
    assert np.array_equal(other.maps["first"], cache.maps["first"])
    with pytest.raises(KeyError, match=r"no stage 'third'; it has first, blocks\.1"):
        cache.select(["third"])


def only_directory(tmp_path):
    (directory,) = (tmp_path / "cache").iterdir()
    return directory


def test_damaged_data_are_computed_again_and_only_they(files, tmp_path, caplog):
    make(files, tmp_path)
    array = only_directory(tmp_path) / "first.npy"
    data = bytearray(array.read_bytes())
    data[-3] ^= 1  # one bit of the last block
    array.write_bytes(data)
    network, cache = make(files, tmp_path)
    assert "1 blocks of" in caplog.text
    assert network.seen == COUNT % 32
    assert_right(cache, files, network)


@pytest.mark.parametrize("name", ["first.npy", "description.json", "blocks.jsonl"])
@pytest.mark.parametrize("accident", ["cut", "empty", "gone"])
def test_any_file_may_be_cut_or_gone(files, tmp_path, name, accident):
    make(files, tmp_path)
    path = only_directory(tmp_path) / name
    if accident == "gone":
        path.unlink()
    else:
        os.truncate(path, path.stat().st_size // 2 if accident == "cut" else 0)
    network, cache = make(files, tmp_path)
    assert network.seen > 0
    assert_right(cache, files, network)
    again, _ = make(files, tmp_path)
    assert again.seen == 0


def describe(directory, **changes):
    about = json.loads((directory / "description.json").read_text())
    (directory / "description.json").write_text(json.dumps(about | changes))


def absurd_header(directory, **_):
    path = directory / "first.npy"
    with path.open("r+b") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f2", "fortran_order": False, "shape": (10**12, 1, 1, 1, 1)}
        )


def pickled(directory, marker, **_):
    np.save(
        directory / "first.npy", np.array([hostile.RunsCode(marker)], object), allow_pickle=True
    )


def linked(directory, outside, **_):
    os.replace(directory / "first.npy", outside)
    (directory / "first.npy").symlink_to(outside)


HARM = {
    "an array of a million million": absurd_header,
    "pickled objects": pickled,
    "a link to another file": linked,
    "a name that leads out": lambda d, **_: describe(d, shapes={"../../outside": [70, 1, 4, 3, 3]}),
    "shapes of no kind": lambda d, **_: describe(d, shapes=[1]),
    "shapes of none": lambda d, **_: describe(d, shapes={}),
    "other files": lambda d, **_: describe(d, files="others"),
    "endless depth": lambda d, **_: (d / "description.json").write_text("[" * 100_000),
}


@pytest.mark.parametrize("harm", HARM.values(), ids=HARM.keys())
def test_a_cache_from_a_stranger_is_made_anew(files, tmp_path, harm, caplog):
    make(files, tmp_path)
    directory, outside, marker = (
        only_directory(tmp_path),
        tmp_path / "outside.npy",
        tmp_path / "run",
    )
    outside.write_bytes((directory / "first.npy").read_bytes())
    harm(directory, outside=outside, marker=marker)
    before = outside.read_bytes()
    network, cache = make(files, tmp_path)
    assert "is damaged" in caplog.text
    assert network.seen > COUNT
    assert_right(cache, files, network)
    assert outside.read_bytes() == before
    assert not marker.exists()


def test_progress_is_shown_when_there_is_any(files, tmp_path, capsys):
    make(files, tmp_path, progress=True, title="train")
    assert "train" in capsys.readouterr().out
    make(files, tmp_path, progress=True, title="train")
    assert capsys.readouterr().out == ""


class Wide(nn.Module):
    def forward(self, x):
        return {"wide": x * 1e6}


@pytest.mark.parametrize(
    ("network", "transform", "error", "message"),
    [
        (Wide(), TRANSFORM, ValueError, "'wide' of .* do not fit into half precision, largest 1e"),
        (nn.Conv2d(3, 4, 1), TRANSFORM, TypeError, "dictionary of feature maps, got Tensor"),
        (Tiny(), lambda image: TRANSFORM(image), ValueError, "does not say what it does, only wh"),
    ],
)
def test_what_cannot_be_cached(files, tmp_path, network, transform, error, message):
    with pytest.raises(error, match=message):
        make(files, tmp_path, network, transform)


def test_images_of_two_sizes(files, tmp_path):
    whole = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    Image.new("RGB", (20, 20)).save(files[9])
    with pytest.raises(
        ValueError, match=r"'first' of .* those of the first image are \(1, 4, 4, 5\)"
    ):
        make(files, tmp_path, transform=whole, batch_size=1)


def test_unreadable_images(files, tmp_path):
    with pytest.raises(ValueError, match="at least one image file, got none"):
        make([], tmp_path)
    os.truncate(files[7], 60)
    with pytest.raises(BadImageError, match=r"cannot decode .*7\.png"):
        make(files, tmp_path)
