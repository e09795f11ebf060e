"""Features on disk: the same numbers as the network's, after any accident."""

import os
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader
from torchvision.transforms import v2

from rootpool.models import Stages
from rootpool.train.features import CachedFeatures, FeatureCache, cache_features
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


def computed(files, tmp_path, network=None, by=0.0, stages=STAGES):
    """How many images a call has to transform."""
    transform = Watched(by)
    make(files, tmp_path, network, transform, stages)
    return len(transform.seen)


def expected(files, transform=PLAIN):
    images = torch.stack([transform(Image.open(file).convert("RGB")) for file in files])
    network = Tiny().eval()
    with torch.no_grad():
        first, average = network.first(images), network(images).mean((2, 3), keepdim=True)
        return {"first": first, "second.0": network.second[0](first), "average": average}


def assert_right(cache, files):
    for stage, features in cache.batch(torch.arange(len(files))).items():
        torch.testing.assert_close(features, expected(files)[stage], rtol=2e-3, atol=1e-3)


def test_features_are_those_of_the_network_and_views_are_picked_by_sample(files, tmp_path):
    mirror = v2.Compose([v2.RandomHorizontalFlip(p=1.0), PLAIN])
    cache = make(files, tmp_path, transform=[PLAIN, mirror])
    assert cache.channels == {"first": 4, "second.0": 5, "average": 6}
    assert_right(cache, files)
    plain, mirrored = (expected(files, transform)["first"] for transform in (PLAIN, mirror))
    images = torch.tensor([3, 5])
    for views, right in (
        (torch.tensor([0, 1]), torch.stack([plain[3], mirrored[5]])),
        (slice(None), torch.stack([plain, mirrored], 1)[[3, 5]]),
    ):
        picked = cache.batch(images, views)["first"]
        assert torch.allclose(picked, right, rtol=2e-3, atol=1e-3)
    with pytest.raises(ValueError, match="read-only"):
        cache.arrays["first"][0] = 0


def test_stages_are_shared_by_those_who_need_them(files, tmp_path):
    """Each has a file of its own, which depends on the layers before it and on nothing else."""
    assert computed(files, tmp_path, stages=["average"]) == 1 + COUNT  # one finds the shapes
    assert computed(files, tmp_path, stages=["first", "average"]) == 1 + COUNT
    assert len(list((tmp_path / "cache").glob("average-*"))) == 1
    assert computed(files, tmp_path, stages=["first"]) == 0
    other = Tiny()
    nn.init.ones_(other.second[1].weight)  # behind the stage
    assert computed(files, tmp_path, other, stages=["first"]) == 0
    assert computed(files, tmp_path, other, stages=["average"]) > 0


def test_a_change_of_anything_makes_a_new_cache(files, tmp_path):
    moved, wider = Tiny(), Tiny()
    moved.first[1].running_mean += 1
    wider.first[0].padding = (1, 1)
    changes = [{}, {"by": 0.1}, *({"network": n} for n in (Tiny(seed=1), moved, wider))]
    for change in changes:
        assert computed(files, tmp_path, stages=["second.0"], **change) > 0, change
    assert computed(files[1:], tmp_path) > 0
    (tmp_path / "images").rename(tmp_path / "elsewhere")  # the data set as a whole is the same
    files = [tmp_path / "elsewhere" / file.relative_to(tmp_path / "images") for file in files]
    assert computed(files, tmp_path, stages=["second.0"]) == 0
    os.utime(files[5], (1, 1))  # changed since
    assert computed(files, tmp_path, stages=["second.0"]) > 0


@pytest.mark.parametrize("stages", [["first"], STAGES])
def test_interrupted_work_goes_on_where_it_was(files, tmp_path, stages):
    options = {"stages": stages, "batch_size": 1}
    with pytest.raises(StopError):
        make(files, tmp_path, transform=Watched(stop=1 + 6), **options)
    with pytest.raises(ValueError, match="cannot be read"):
        FeatureCache({"first": next((tmp_path / "cache").glob("first-*.npy"))})
    later = Watched()
    assert_right(make(files, tmp_path, transform=later, **options), files)
    assert len(later.seen) <= 1 + COUNT - 4, "what threads had not finished in order"


@pytest.mark.parametrize("done", [None, 0, 4])
def test_a_file_that_is_gone_or_cut_off_is_completed(files, tmp_path, done):
    cache = make(files, tmp_path, transform=Watched())
    path, per_image = cache.files["second.0"], cache.arrays["second.0"][0].nbytes
    if done is None:
        path.unlink()
    else:  # in the header, or in the middle of an image
        header = path.stat().st_size - COUNT * per_image
        os.truncate(path, header + done * per_image + per_image // 2 if done else header // 2)
    with pytest.raises(ValueError, match=r"second.0-.*\.npy cannot be read"):
        FeatureCache(cache.files)
    assert computed(files, tmp_path) == 1 + COUNT - (done or 0)
    assert_right(make(files, tmp_path, transform=Watched()), files)


def test_what_cannot_be_cached(files, tmp_path):
    whole = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    Image.new("RGB", (20, 20)).save(files[9])
    os.truncate(files[7], 60)
    good = [*files[:7], files[8]]
    for given, options, message in (
        (good, {"network": Tiny(scale=1e6), "stages": ["last"]}, "'last' of .* do not fit into ha"),
        (good, {"transform": lambda image: PLAIN(image)}, "does not say what it does, only where"),
        ([], {}, "at least one image file, got none"),
        (files, {}, r"cannot decode .*7\.png"),
        ([*good, files[9]], {"transform": whole, "batch_size": 1}, r"first image has \(1, 4, 4, 5"),
    ):
        with pytest.raises(ValueError, match=message):
            make(given, tmp_path, **options)


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


@pytest.mark.parametrize("workers", [0, 1])
def test_training_draws_a_view_of_each_image_by_seed_and_epoch(cache, workers):
    images = torch.tensor([9, 2, 5, 7, 0, 3])  # some of those in the cache
    count = 2 if workers else 40  # processes cost time

    def epochs(seed):
        batches = EpochBatches(6, 3, seed)
        dataset = CachedFeatures(cache, images + 100, images, seed)
        loader = ResumableLoader(dataset, batches, collate_fn=whole, num_workers=workers)
        for epoch in range(count):
            batches.set_epoch(epoch)
            for maps, labels in loader:
                assert maps["late"].shape == (3, 1, 2, 4, 4)
                values = maps["late"].flatten(1).unique(dim=1).squeeze(1).int()
                assert torch.equal(values // 10 + 100, labels)
                yield from zip((values // 10).tolist(), (values % 10).tolist(), strict=True)

    drawn = list(epochs(seed=0))
    assert drawn == list(epochs(seed=0))
    assert workers or drawn != list(epochs(seed=1))
    for image in images.tolist():
        views = [view for other, view in drawn if other == image]
        assert len(views) == count
        assert workers or all(views.count(view) >= 4 for view in range(3)), "each in a third"


def test_validation_has_all_views(cache):
    dataset = CachedFeatures(cache, torch.arange(COUNT))
    batches = list(DataLoader(dataset, batch_size=4, collate_fn=whole))
    assert [len(labels) for _, labels in batches] == [4, 4, 3]
    got = torch.cat([maps["late"][:, :, 1, 2, 3] for maps, _ in batches])
    assert torch.equal(got, 10.0 * torch.arange(COUNT)[:, None] + torch.arange(3))
    with pytest.raises(ValueError, match="expected labels of 11 images, got 3"):
        CachedFeatures(cache, torch.arange(3))
