import html
import re

import numpy as np
import pytest
from markdown_it import MarkdownIt
from PIL import Image

from rootpool.heads import birds_page as module
from rootpool.heads.birds import TABLES, BirdStudy
from rootpool.heads.birds_page import birds_page, experiment, write_reports
from rootpool.heads.study import HeadResult
from rootpool.nn import method_names

CLASSES = tuple(f"{k:03d}.Bird_number_{k}" for k in range(6))
IMAGES = 40


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    for k in range(IMAGES):
        Image.new("RGB", (30, 20), (6 * k, 0, 0)).save(folder / f"bird_{k}.png")
    return [str(folder / f"bird_{k}.png") for k in range(IMAGES)]


def study(heads, files, seeds=3, skill=None, names=CLASSES):
    """Results of heads that are right as often as their skill says."""
    generator = np.random.default_rng(0)
    labels = np.arange(IMAGES) % len(CLASSES)
    results = []
    for seed in range(seeds):
        for k, head in enumerate(heads):
            right = generator.random(IMAGES) < (skill or {}).get(head, 0.4 + 0.05 * k)
            first = np.where(right, labels, (labels + 1) % len(CLASSES))
            classes = (first[:, None] + np.arange(5)) % len(CLASSES)
            probabilities = np.tile(np.float32([0.5, 0.2, 0.1, 0.1, 0.05]), (IMAGES, 1))
            results.append(HeadResult(head, seed, 5.0, 0.1, classes, probabilities, labels))
    seconds = {"features": 300.0, "main-test": 240.0}
    return BirdStudy(heads, results, names, files, seconds)


def test_page_says_what_was_found(files, tmp_path):
    main = study(TABLES["main"], files)
    methods = study(TABLES["methods"], files, skill={"svd-newton": 1.0, "isqrt-cov": 0.05})
    write_reports(tmp_path, main, methods)
    text = (tmp_path / "birds.md").read_text()
    assert "9.0 minutes" in text
    for head in TABLES["main"]:
        assert head in text
    for method in method_names("ours", "paper"):
        assert method in text
    assert "✓ svd-newton: better by 9" in text
    assert "Bird number 1" in text
    assert "001.Bird" not in text
    pictures = list((tmp_path / "birds-pictures").glob("*.svg"))
    assert len(pictures) == 4
    assert any("Bird number 0 → Bird number 1" in picture.read_text() for picture in pictures)
    with Image.open(tmp_path / "examples.png") as picture:
        assert picture.width > 500
    assert "<html" in (tmp_path / "index.html").read_text()


def test_photographs_stay_out_of_the_page(files):
    page = birds_page(study(TABLES["main"], files, seeds=1))
    assert "<img" not in page.html()
    assert "not shown here" in page.markdown()
    assert "Which of the paper" not in page.markdown()


def test_a_perfect_head_confuses_nothing(files):
    heads = {"root": TABLES["main"]["root"]}
    text = birds_page(study(heads, files, skill={"root": 1.1})).markdown()
    assert "100.00" in text
    assert "![The pairs of species" not in text


def test_experiment_adds_the_methods_on_demand(files, tmp_path, monkeypatch):
    calls = []

    def run(data, output, *, table="main", **options):
        calls.append((table, options["seeds"]))
        return study(TABLES[table], files, seeds=options["seeds"])

    monkeypatch.setattr(module, "run", run)
    page = experiment("birds", tmp_path, seeds=2)
    assert "Which of the paper" not in page.read_text()
    elsewhere = tmp_path / "docs" / "birds.md"
    page = experiment("birds", tmp_path, methods=True, seeds=2, markdown=str(elsewhere))
    assert "Which of the paper" in page.read_text()
    assert "Which of the paper" in elsewhere.read_text()
    assert calls == [("main", 2), ("main", 2), ("methods", 2)]


HOSTILE = (
    "001.<script>window.hacked = 1</script>",
    "002.\"><img src=x onerror='window.hacked = 1'>",
    "003.</text></svg><svg onload='window.hacked = 1'>",
    "004.$\\frac{ [x](javascript:window.hacked=1) `a` | b",
    "005.]]> <!-- &lt;b&gt; javascript:window.hacked=1",
    "006.</title></style><iframe srcdoc='<script>top.hacked = 1</script>'>",
)


def test_names_of_classes_and_files_are_shown_and_do_nothing(files, tmp_path):
    paths = [
        str(Image.open(file).save(path) or path)
        for k, file in enumerate(files)
        for path in [tmp_path / f"<img src=x onerror=window.hacked=1> {k}.png"]
    ]
    page = write_reports(tmp_path, study(TABLES["main"], paths, names=HOSTILE))
    pictures = list((tmp_path / "birds-pictures").glob("*.svg"))
    assert (tmp_path / "examples.png").stat().st_size > 1000
    for path in [page, *pictures]:
        shown = path.read_text(encoding="utf-8")
        assert not re.search(r"<(script|iframe|img)|<[^>]* on\w+=", shown)
    text = html.unescape(page.read_text(encoding="utf-8"))
    assert all(module.species(name) in text for name in HOSTILE)
    tokens = MarkdownIt("commonmark").enable("table").parse((tmp_path / "birds.md").read_text())
    inline = [child for token in tokens for child in token.children or ()]
    assert not [child for child in inline if child.type in ("html_inline", "link_open")]
    assert not [token for token in tokens if token.type == "html_block"]
