"""A study of heads: the same results however often it was stopped."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rootpool.train.features import FeatureCache
from studies.birds.head import Branch, Head, Schedule
from studies.birds.study import Examples, hold_out, run_heads
from studies.birds.summary import records, results_table

CLASSES, PER_CLASS = 6, 10
SCHEDULE = Schedule(epochs=2, batch_size=10)
AVERAGE = Head((Branch("late", "gap"),), SCHEDULE)
ROOT = Head((Branch("late"),), SCHEDULE)


def examples(seed):
    generator = np.random.default_rng(seed)
    labels = np.tile(np.arange(CLASSES), PER_CLASS)
    maps = generator.standard_normal((len(labels), 2, CLASSES, 4, 4))
    for k, label in enumerate(labels):
        maps[k, :, label] *= 4  # one loud channel per class: a matter of variance
    return Examples.all(FeatureCache({"late": [maps.astype(np.float16)]}), torch.from_numpy(labels))


TRAIN, TEST = examples(0), examples(1)


def study(folder, heads, seeds=1, train=TRAIN, **options):
    return run_heads(heads, train, TEST, CLASSES, folder, seeds=seeds, workers=1, **options)


@pytest.mark.slow
def test_results_progress_and_second_run(tmp_path):
    heads = {"average": AVERAGE, "root": ROOT}
    shares = []
    results = study(
        tmp_path,
        heads,
        seeds=2,
        on_progress=lambda share, found: shares.append((share, len(found))),
    )
    assert [(r.head, r.seed) for r in results] == [
        ("average", 0), ("root", 0), ("average", 1), ("root", 1)
    ]  # fmt: skip
    assert shares[0] == (0, 0)
    assert shares[-1] == (1, 4)
    assert shares == sorted(shares)
    by_name = {r.head: r for r in results}
    assert by_name["root"].accuracy > 95 > 60 > by_name["average"].accuracy
    root = by_name["root"]
    assert root.accuracy <= root.accuracy5 <= 100
    assert np.array_equal(root.labels, TEST.labels)
    assert (np.diff(root.probabilities, axis=1) <= 0).all()
    assert root.seconds > 0

    # A result that is lost is computed again, to the bit; the others are left alone.
    files = sorted(tmp_path.glob("*/result.npz"))
    before = {file: file.stat().st_mtime_ns for file in files}
    files[1].unlink()
    again = study(tmp_path, heads, seeds=2)
    untouched = [f for f in files if f.stat().st_mtime_ns == before[f]]
    assert untouched == [files[0], files[2], files[3]]
    for old, new in zip(results, again, strict=True):
        assert np.array_equal(old.classes, new.classes)
        assert np.array_equal(old.probabilities, new.probabilities)

    # A damaged one is an error that says what to do.
    files[0].write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"npz is corrupt .*; delete it and it will be computed"):
        study(tmp_path, heads, seeds=2)


class AskedError(Exception):
    """A study wanted to run these jobs."""


OTHERS = {
    "head": {"heads": {"root": AVERAGE}},
    "schedule": {"heads": {"root": replace(ROOT, schedule=Schedule(epochs=3))}},
    "features": {"train": examples(2)},
    "labels": {"train": replace(TRAIN, labels=TRAIN.labels.flip(0))},
    "images": {"train": hold_out(TRAIN)[0]},
    "same, but other images": {"train": hold_out(TRAIN, seed=1)[0]},
}


def test_other_settings_or_data_never_find_old_results(tmp_path, monkeypatch):
    def keys(heads=None, **options):
        def run_jobs(jobs, folder, workers):
            raise AskedError(*jobs)

        monkeypatch.setattr("studies.birds.study.run_jobs", run_jobs)
        with pytest.raises(AskedError) as asked:
            study(tmp_path, heads or {"root": ROOT}, **options)
        return asked.value.args

    (first,) = keys()
    assert keys(seeds=2)[0] == first != keys(seeds=2)[1]
    assert keys({"other name": ROOT}) == (first,)
    found = [keys(**options)[0] for options in OTHERS.values()]
    assert len({first, *found}) == 1 + len(OTHERS)


def test_hold_out_is_a_split_of_every_class():
    rest, held = hold_out(TRAIN, part=5)
    assert sorted([*rest.chosen.tolist(), *held.chosen.tolist()]) == list(range(len(TRAIN.labels)))
    assert TRAIN.labels[held.chosen].bincount().tolist() == [PER_CLASS // 5] * CLASSES
    assert torch.equal(hold_out(TRAIN, part=5)[1].chosen, held.chosen)
    assert not torch.equal(hold_out(TRAIN, part=5, seed=1)[1].chosen, held.chosen)


def test_no_seeds(tmp_path):
    with pytest.raises(ValueError, match="seeds must be at least 1, got 0"):
        study(tmp_path, {"root": ROOT}, seeds=0)


@pytest.mark.slow
def test_a_head_that_diverges_is_a_result(tmp_path):
    absurd = replace(SCHEDULE, reduction_rate=3e19, classifier_rate=1e30)
    heads = {"average": AVERAGE, "wild": Head((Branch("late", "gap", reduction=4),), absurd)}
    average, wild = study(tmp_path, heads)
    assert (average.diverged, wild.diverged) == (False, True)
    assert wild.accuracy == pytest.approx(100 / CLASSES)
    assert records([wild])[0]["loss"] is None
    assert "wild (diverged 1 ×)" in str(results_table(heads, [average, wild]).rows)
    assert study(tmp_path, heads)[1].diverged
