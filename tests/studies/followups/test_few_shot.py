"""Few shots of birds in very small: features in memory, and the whole way from image files."""

import numpy as np
import pytest
import torch

from rootpool.train.data import ImageSplits
from rootpool.train.features import FeatureCache
from studies.birds.birds import LATE
from studies.birds.study import Examples
from studies.followups import few_shot
from studies.followups.few_shot import FEW_SHOT, Pool, novel_classes, run_few_shot

CLASSES, IMAGES, SIZE = 24, 22, 6  # six classes of each kind of the split


def features(split, seed):
    """Maps whose channels have the variances of their class: the mean says nothing."""
    draw = np.random.default_rng(seed)
    labels = np.repeat(np.arange(CLASSES), IMAGES // 2)
    scales = np.random.default_rng(7).uniform(0.2, 3.0, (CLASSES, SIZE))
    maps = draw.normal(size=(len(labels), 2, SIZE, 5, 5)) * scales[labels][:, None, :, None, None]
    maps -= maps.mean((3, 4), keepdims=True)
    blocks = {LATE: (maps.astype(np.float16),)}
    return Examples.all(FeatureCache(blocks), torch.from_numpy(labels))


HEADS = {name: FEW_SHOT[name] for name in ("average", "covariance", "root", "Brownian")}


@pytest.fixture
def birds(monkeypatch):
    """Features instead of a data set with its network."""
    parts = features("train", 0), features("test", 1)
    splits = ImageSplits(None, None, tuple(map(str, range(CLASSES))), "small")
    monkeypatch.setattr(few_shot, "cached_splits", lambda *args, **kwargs: (*parts, splits))
    return parts


def test_the_split_is_that_of_the_literature():
    novel, others = novel_classes(200), novel_classes(200, remainder=1)
    assert len(novel) == len(others) == 50
    assert novel[:2] == [3, 7]  # the fourth and the eighth class
    assert not set(novel) & set(others)
    assert all(k % 2 for k in novel + others)  # the even ones are the base


def test_images_of_both_lists_and_of_no_other_class(birds):
    pool = Pool(birds, (3, 7))
    assert pool.labels.tolist() == ([3] * 11 + [7] * 11) * 2
    gram, size = pool.gram(FEW_SHOT["root"])
    assert gram.shape == (44, 44)
    assert size == SIZE * (SIZE + 1) // 2
    assert torch.allclose(gram.diagonal(), torch.ones(44), atol=1e-5)


@pytest.mark.slow
def test_second_order_sees_what_the_average_does_not(birds, tmp_path, capsys):
    found = run_few_shot("data", tmp_path, heads=HEADS, episodes=40, workers=2)
    assert [r.head for r in found[::4]] == list(HEADS)
    mean = {(r.head, r.classifier, r.shots): np.mean(r.accuracies) for r in found}
    for classifier in few_shot.CLASSIFIERS:
        for shots in few_shot.SHOTS:
            assert mean["average", classifier, shots] < 35  # a fifth, by chance
            assert mean["covariance", classifier, shots] > 60
            assert mean["root", classifier, shots] > 60
    assert mean["root", "nearest mean", 5] > mean["root", "nearest mean", 1]
    assert all(len(r.accuracies) == 40 for r in found)
    penalties = {r.penalty for r in found if r.classifier == "logistic regression"}
    assert penalties <= set(few_shot.PENALTIES)
    assert {r.penalty for r in found if r.classifier == "nearest mean"} == {None}


@pytest.mark.slow
def test_what_is_finished_is_not_done_again(birds, tmp_path, monkeypatch):
    heads = {name: HEADS[name] for name in ("average", "root")}
    options = {"heads": heads, "episodes": 10, "workers": 2, "progress": False}
    first = run_few_shot("data", tmp_path, **options)
    files = sorted((tmp_path / "few-shot").glob("*/result.json"))
    assert len(files) == len(heads)
    times = [file.stat().st_mtime_ns for file in files]
    files[0].unlink()
    again = run_few_shot("data", tmp_path, **options)
    assert [r.accuracies for r in again] == [r.accuracies for r in first]
    assert [file.stat().st_mtime_ns for file in files][1:] == times[1:]
    files[1].write_text("{}")
    with pytest.raises(ValueError, match=r"is corrupt .* delete it and it will be recomputed"):
        run_few_shot("data", tmp_path, **options)


def test_too_few(birds, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="episodes must be at least 2, got 1"):
        run_few_shot("data", tmp_path, episodes=1)
    monkeypatch.setattr(few_shot, "SHOTS", (10,))
    with pytest.raises(ValueError, match="5 classes of 25 images each"):
        run_few_shot("data", tmp_path, heads=HEADS, episodes=2)
