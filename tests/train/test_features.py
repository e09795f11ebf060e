"""Features on disk: the same numbers as the network's, after any accident."""

import os
import pickle
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader
from torchvision.transforms import v2

from rootpool.models import Stages
from rootpool.train.data import BadImageError
from rootpool.train.features import CachedFeatures, FeatureCache, Views, cache_features, extract
from rootpool.train.sampling import EpochBatches, ResumableLoader

COUNT, BATCH = 11, 2
STAGES = ("first", "second.0", "average")


class Tiny(nn.Module):
    def __init__(self, seed=0, scale=1.0):
        super().__init__()
        torch.manual_seed(seed)
        self.first = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(4, 5, 2), nn.Conv2d(5, 6, 1))
        self.scale = scale

    def forward(self, x):
        return self.second(self.first(x)) * self.scale


PLAIN = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.CenterCrop(8)])


class StopError(Exception):
    pass


@dataclass(frozen=True)
class Watched:
    """A transform that counts its images, and stops at one of them, without showing either."""

    by: float = 0.0
    stop: int = field(default=-1, repr=False)
    seen: list = field(default_factory=list, repr=False)

    def __call__(self, image):
        if len(self.seen) == self.stop:
            raise StopError
        self.seen.append(image)
        return PLAIN(image) + self.by


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


def make(files, tmp_path, network=None, transform=PLAIN, stages=STAGES, **options):
    backbone = Stages(network or Tiny(), stages, image_size=8)
    options = {"batch_size": BATCH, "progress": False} | options
    return cache_features(backbone, files, transform, tmp_path / "cache", **options)


def expected(files, transform=PLAIN, network=None):
    images = torch.stack([transform(Image.open(file).convert("RGB")) for file in files])
    network = (network or Tiny()).eval()
    with torch.no_grad():
        last = network(images)
        first = network.first(images)
        average = last.mean((2, 3), keepdim=True)
        return {"first": first, "second.0": network.second[0](first), "average": average}


def assert_right(cache, files):
    rows = torch.arange(len(files))
    for stage, features in cache.batch(rows).items():
        reference = expected(files)[stage]
        assert features.dtype == torch.float32
        assert torch.allclose(features, reference, rtol=2e-3, atol=1e-3), stage


@pytest.mark.parametrize("threads", [1, 2])
def test_features_are_those_of_the_network(files, tmp_path, threads):
    default = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        cache = make(files, tmp_path)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(default)
    assert len(cache) == COUNT
    assert cache.channels == {"first": 4, "second.0": 5, "average": 6}
    assert_right(cache, files)


def test_views_are_picked_by_sample(files, tmp_path):
    mirror = v2.Compose([v2.RandomHorizontalFlip(p=1.0), PLAIN])
    cache = make(files, tmp_path, transform=Views((PLAIN, mirror)))
    assert cache.views == 2
    both = [expected(files, transform)["first"] for transform in (PLAIN, mirror)]
    picked = cache.batch(torch.tensor([3, 5]), torch.tensor([0, 1]))["first"]
    assert torch.allclose(picked, torch.stack([both[0][3], both[1][5]]), rtol=2e-3, atol=1e-3)
    every = cache.batch(torch.tensor([3, 5]), slice(None))["first"]
    assert torch.allclose(every, torch.stack(both, 1)[[3, 5]], rtol=2e-3, atol=1e-3)


def test_second_time_nothing_is_computed(files, tmp_path):
    first = make(files, tmp_path, transform=Watched())
    again = Watched()
    second = make(files, tmp_path, transform=again)
    assert not again.seen
    assert second.files == first.files
    assert_right(second, files)
    with pytest.raises(ValueError, match="read-only"):
        second.arrays["first"][0] = 0


def test_stages_are_shared_by_those_who_need_them(files, tmp_path):
    """Each has a file of its own, which depends on the layers before it and on nothing else."""
    both = make(files, tmp_path, stages=["first", "average"])
    watched = Watched()
    other = Tiny()
    nn.init.ones_(other.second[1].weight)  # behind the stage
    alone = make(files, tmp_path, other, stages=["first"])
    assert alone.files["first"] == both.files["first"]
    make(files, tmp_path, transform=watched, stages=["average"])
    count = len(watched.seen)
    assert count > COUNT
    make(files, tmp_path, transform=watched, stages=["first", "average"])
    assert len(watched.seen) == 2 * count, "one of the two was missing"
    make(files, tmp_path, transform=watched, stages=["first"])
    assert len(watched.seen) == 2 * count


def test_a_change_of_anything_makes_a_new_cache(files, tmp_path):
    def computed(network=None, by=0.0, files=files):
        transform = Watched(by)
        make(files, tmp_path, network, transform, ["second.0"])
        return bool(transform.seen)

    assert computed()
    assert not computed()
    assert computed(by=0.1)
    assert computed(network=Tiny(seed=1))
    moved = Tiny()
    moved.first[1].running_mean += 1
    assert computed(network=moved)
    wider = Tiny()
    wider.first[0].padding = (1, 1)
    assert computed(network=wider)
    assert computed(files=files[1:])
    os.utime(files[5], (1, 1))  # changed since
    assert computed()
    assert not computed()


def test_data_that_are_moved_keep_their_cache(files, tmp_path):
    make(files, tmp_path, transform=Watched())
    (tmp_path / "images").rename(tmp_path / "elsewhere")
    moved = [tmp_path / "elsewhere" / file.relative_to(tmp_path / "images") for file in files]
    watched = Watched()
    make(moved, tmp_path, transform=watched)
    assert not watched.seen


def test_a_cache_travels_to_other_processes_by_name(files, tmp_path):
    cache = make(files, tmp_path)
    parcel = pickle.dumps(cache.select(["first"]))
    assert len(parcel) < 1000
    other = pickle.loads(parcel)
    assert list(other.files) == ["first"]
    rows = torch.tensor([0, 7, COUNT - 1])
    assert torch.equal(other.batch(rows)["first"], cache.batch(rows)["first"])
    with pytest.raises(KeyError, match="no stage 'third'; it has first"):
        cache.select(["third"])


@pytest.mark.parametrize("stages", [["first"], STAGES])
def test_interrupted_work_goes_on_where_it_was(files, tmp_path, monkeypatch, stages):
    monkeypatch.setattr(extract, "BLOCK", 4)
    options = {"stages": stages, "batch_size": 1}
    with pytest.raises(StopError):
        make(files, tmp_path, transform=Watched(stop=1 + 6), **options)  # one finds the shapes
    with pytest.raises(ValueError, match="cannot be read"):
        FeatureCache({"first": next((tmp_path / "cache").glob("first-*.npy"))})
    later = Watched()
    cache = make(files, tmp_path, transform=later, **options)
    assert len(later.seen) == 1 + COUNT - 6
    assert_right(cache, files)


@pytest.mark.parametrize("accident", ["cut", "empty", "gone", "other"])
def test_a_damaged_file_is_made_again(files, tmp_path, accident):
    cache = make(files, tmp_path, transform=Watched())
    path = cache.files["second.0"]
    size, done = path.stat().st_size, 0
    if accident == "gone":
        path.unlink()
    elif accident == "other":
        np.save(path, np.zeros(3))
    elif accident == "empty":
        os.truncate(path, 0)
    else:
        done = 4
        per_image = cache.arrays["second.0"][0].nbytes
        os.truncate(path, size - (COUNT - done) * per_image + per_image // 2)
    with pytest.raises(ValueError, match=r"second.0-.*\.npy (cannot be read|has \(3,\))"):
        FeatureCache(cache.files)
    watched = Watched()
    cache = make(files, tmp_path, transform=watched)
    assert len(watched.seen) == 1 + COUNT - done
    assert_right(cache, files)


def test_progress_is_shown_when_there_is_any(files, tmp_path, capsys):
    make(files, tmp_path, progress=True, title="train")
    shown = capsys.readouterr().out
    assert "train" in shown
    assert "100%" in shown
    make(files, tmp_path, progress=True, title="train")
    assert capsys.readouterr().out == ""


def test_what_cannot_be_cached(files, tmp_path):
    with pytest.raises(ValueError, match=r"'last' of .* do not fit into half precision, largest"):
        make(files, tmp_path, Tiny(scale=1e6), stages=["last"])
    with pytest.raises(ValueError, match="does not say what it does, only where it is"):
        make(files, tmp_path, transform=lambda image: PLAIN(image))
    with pytest.raises(ValueError, match="at least one image file, got none"):
        make([], tmp_path)
    os.truncate(files[7], 60)
    with pytest.raises(BadImageError, match=r"cannot decode .*7\.png"):
        make(files, tmp_path)


def test_images_of_two_sizes(files, tmp_path):
    whole = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    Image.new("RGB", (20, 20)).save(files[9])
    with pytest.raises(ValueError, match=r"'first' of .* the first image has \(1, 4, 4, 5\)"):
        make(files, tmp_path, transform=whole, batch_size=1)


# --------------------------------------------------------------------------------------------------
# Batches


@pytest.fixture
def cache(tmp_path):
    """Every number says which image and view it is of: 10 * image + view."""
    numbers = 10 * np.arange(COUNT)[:, None] + np.arange(3)
    maps = np.broadcast_to(numbers[..., None, None, None], (COUNT, 3, 2, 4, 4))
    np.save(tmp_path / "late.npy", maps.astype(np.float16))
    return FeatureCache({"late": tmp_path / "late.npy"})


def whole(batch):
    return batch


@pytest.mark.parametrize("workers", [0, 2])
def test_training_draws_a_view_of_each_image_by_seed_and_epoch(cache, workers):
    images = torch.tensor([9, 2, 5, 7, 0, 3])  # some of those in the cache

    def epochs(count, seed):
        dataset = CachedFeatures(cache, images + 100, images, seed)
        loader = ResumableLoader(
            dataset, EpochBatches(6, 3, seed), collate_fn=whole, num_workers=workers
        )
        for epoch in range(count):
            loader.batches.set_epoch(epoch)
            for maps, labels in loader:
                assert maps["late"].shape == (3, 1, 2, 4, 4)
                values = maps["late"].flatten(1).unique(dim=1).squeeze(1).int()
                assert torch.equal(values // 10 + 100, labels)
                yield from zip((values // 10).tolist(), (values % 10).tolist(), strict=True)

    drawn = list(epochs(40, seed=0))
    assert drawn == list(epochs(40, seed=0))
    assert drawn != list(epochs(40, seed=1))
    for image in images.tolist():
        views = [view for other, view in drawn if other == image]
        assert len(views) == 40
        assert all(views.count(view) >= 4 for view in range(3)), "each in a third of the epochs"


def test_validation_has_all_views(cache):
    dataset = CachedFeatures(cache, torch.arange(COUNT))
    batches = list(DataLoader(dataset, batch_size=4, collate_fn=whole))
    assert [len(labels) for _, labels in batches] == [4, 4, 3]
    got = torch.cat([maps["late"][:, :, 1, 2, 3] for maps, _ in batches])
    assert torch.equal(got, 10.0 * torch.arange(COUNT)[:, None] + torch.arange(3))
    with pytest.raises(ValueError, match="expected labels of 11 images, got 3"):
        CachedFeatures(cache, torch.arange(3))
