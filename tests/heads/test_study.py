"""A study of heads: the same results however often it was stopped."""

import numpy as np
import pytest
import torch
from numpy.lib.format import open_memmap

import hostile
from rootpool.heads.cache import FeatureCache
from rootpool.heads.head import Branch, Head, Schedule
from rootpool.heads.study import Examples, _Job, _load, hold_out, run_heads

CLASSES, PER_CLASS = 6, 10
SCHEDULE = Schedule(epochs=2, batch_size=10)
HEADS = {
    "average": Head((Branch("late", "gap"),), SCHEDULE),
    "root": Head((Branch("late"),), SCHEDULE),
}


def examples(folder, seed):
    generator = np.random.default_rng(seed)
    labels = np.tile(np.arange(CLASSES), PER_CLASS)
    maps = generator.standard_normal((len(labels), 2, CLASSES, 4, 4))
    for k, label in enumerate(labels):
        maps[k, :, label] *= 4  # one loud channel a class: a matter of variance
    folder.mkdir()
    array = open_memmap(folder / "late.npy", "w+", np.float16, maps.shape)
    array[:] = maps
    return Examples.all(FeatureCache({"late": array}), torch.from_numpy(labels))


@pytest.fixture
def data(tmp_path):
    return examples(tmp_path / "train", 0), examples(tmp_path / "test", 1)


def study(data, folder, heads=HEADS, seeds=2, **options):
    return run_heads(heads, *data, CLASSES, folder, seeds=seeds, workers=1, **options)


def test_results_progress_and_second_run(data, tmp_path):
    shares = []
    results = study(
        data,
        tmp_path / "results",
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
    assert root.accuracy == pytest.approx(100 * np.mean(root.classes[:, 0] == root.labels))
    assert root.accuracy <= root.accuracy5 <= 100
    assert np.array_equal(root.labels, data[1].labels)
    assert (np.diff(root.probabilities, axis=1) <= 0).all()
    assert root.seconds > 0

    # A result that is lost is computed again, to the bit; the others are left alone.
    files = sorted((tmp_path / "results").iterdir())
    before = {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in files}
    files[1].unlink()
    again = study(data, tmp_path / "results")
    untouched = [f for f in files if f.stat().st_mtime_ns == before[f][0]]
    assert untouched == [files[0], files[2], files[3]]
    for old, new in zip(results, again, strict=True):
        assert np.array_equal(old.classes, new.classes)
        assert np.array_equal(old.probabilities, new.probabilities)


def test_other_settings_or_data_never_find_old_results(data, tmp_path):
    train, test = data
    root = HEADS["root"]
    jobs = [
        _Job(root, 0, train, test, CLASSES),
        _Job(root, 1, train, test, CLASSES),
        _Job(HEADS["average"], 0, train, test, CLASSES),
        _Job(Head(root.branches, Schedule(epochs=3)), 0, train, test, CLASSES),
        _Job(root, 0, train, examples(tmp_path / "other", 2), CLASSES),
        _Job(root, 0, *hold_out(train), CLASSES),
        _Job(root, 0, *hold_out(train, seed=1), CLASSES),
        _Job(root, 0, Examples.all(train.cache, train.labels.flip(0)), test, CLASSES),
    ]
    assert len({job.key for job in jobs}) == len(jobs)
    assert (
        _Job(root, 0, Examples.all(train.cache, train.labels.clone()), test, CLASSES).key
        == jobs[0].key
    )


def test_hold_out_is_a_split_of_every_class(data):
    whole = data[0]
    rest, held = hold_out(whole, part=5)
    assert sorted([*rest.chosen.tolist(), *held.chosen.tolist()]) == list(range(len(whole.labels)))
    assert whole.labels[held.chosen].bincount().tolist() == [PER_CLASS // 5] * CLASSES
    assert torch.equal(hold_out(whole, part=5)[1].chosen, held.chosen)
    assert not torch.equal(hold_out(whole, part=5, seed=1)[1].chosen, held.chosen)


def test_an_error_in_a_worker_is_raised(data, tmp_path):
    with pytest.raises(KeyError, match="no stage 'early'"):
        study(data, tmp_path / "results", {"wrong": Head((Branch("early"),), SCHEDULE)})


def test_results_from_strangers(tmp_path):
    marker, path = tmp_path / "executed", tmp_path / "result.npz"
    honest = {name: np.zeros(3) for name in ("loss", "classes", "probabilities", "labels")}
    harm = {
        "Object arrays cannot be loaded": lambda: np.savez(
            path, **honest, seconds=np.array([hostile.RunsCode(marker)], object)
        ),
        "claims more bytes than it has": lambda: np.savez_compressed(
            path, **honest, seconds=np.zeros(10**6)
        ),
        "File is not a zip file": lambda: path.write_bytes(b"PK"),
        "seconds is not a file": lambda: np.savez(path, **honest),
    }
    for message, write in harm.items():
        write()
        with pytest.raises(ValueError, match=f"npz is damaged .*{message}.*; remove it, and it is"):
            _load("head", 0, path)
    assert not marker.exists()
