"""Features on disk: the same numbers as the network's, after any accident."""

import os
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torchvision.transforms import v2

from rootpool.train.data import BadImageError
from rootpool.train.features import FeatureCache, Views, cache_features, open_cache

COUNT, BLOCK = 11, 4  # two blocks of four images, and one of three


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
    options = {"batch_size": 2, "block_size": BLOCK, "progress": False} | options
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
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(default)
    assert len(cache) == COUNT
    assert cache.channels == {"first": 4, "blocks.1": 5}
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
    network, first = make(files, tmp_path)
    again, second = make(files, tmp_path)
    assert network.seen > 0 == again.seen
    assert second.key == first.key
    assert_right(second, files, network)
    with pytest.raises(ValueError, match="read-only"):
        second.blocks["first"][0][0] = 0


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
    assert list(other.blocks) == ["first"]
    rows = torch.tensor([0, 7, COUNT - 1])
    assert torch.equal(other.batch(rows)["first"], cache.batch(rows)["first"])


def test_arrays_in_memory_are_a_cache_too():
    maps = np.arange(2 * 3 * 4, dtype=np.float16).reshape(2, 1, 3, 2, 2)
    cache = pickle.loads(pickle.dumps(FeatureCache({"late": [maps]})))
    assert torch.equal(
        cache.batch(torch.tensor([1]))["late"], torch.from_numpy(maps[1, :1]).float()
    )
    assert cache.key == FeatureCache({"late": [maps.copy()]}).key
    assert cache.key != FeatureCache({"late": [maps + 1]}).key


class StopError(Exception):
    pass


@dataclass(frozen=True)
class StopAt:
    """A transform that fails when it has seen some images, and does not show it."""

    left: list

    def __call__(self, image):
        if not self.left:
            raise StopError
        self.left.pop()
        return TRANSFORM(image)

    def __repr__(self):
        return "the same every time"


def test_interrupted_work_goes_on_with_the_first_missing_block(files, tmp_path):
    with pytest.raises(StopError):
        make(files, tmp_path, transform=StopAt([1] * (1 + BLOCK + 2)), batch_size=1)
    network, cache = make(files, tmp_path, transform=StopAt([1] * 99))
    assert network.seen == COUNT - BLOCK
    assert_right(cache, files, network)


@pytest.mark.parametrize("name", ["first.0000004.npy", "about.json"])
@pytest.mark.parametrize("accident", ["cut", "empty", "gone", "other"])
def test_a_damaged_file_is_made_again(files, tmp_path, name, accident):
    _, cache = make(files, tmp_path)
    path = cache.folder / name
    if accident == "gone":
        path.unlink()
    elif accident == "other":
        np.save(path.with_suffix(".npy"), np.zeros(3))
        path.with_suffix(".npy").rename(path)
    else:
        os.truncate(path, path.stat().st_size // 2 if accident == "cut" else 0)
    if name != "about.json":
        with pytest.raises(ValueError, match=r"first.0000004.npy (cannot be read|has \(3,\))"):
            open_cache(cache.folder)
    network, cache = make(files, tmp_path)
    assert 0 < network.seen <= BLOCK
    assert_right(cache, files, network)


def test_progress_is_shown_when_there_is_any(files, tmp_path, capsys):
    make(files, tmp_path, progress=True, title="train")
    shown = capsys.readouterr().out
    assert "train" in shown
    assert "100%" in shown
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
