import numpy as np
import pytest
from PIL import Image

from studies.__main__ import main
from studies.birds.birds import TABLES, BirdStudy
from studies.birds.page import birds_page, write_reports
from studies.birds.study import HeadResult

CLASSES = tuple(f"{k:03d}.Bird_number_{k}" for k in range(6))
IMAGES = 40


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    for k in range(IMAGES):
        Image.new("RGB", (30, 20), (6 * k, 0, 0)).save(folder / f"bird_{k}.png")
    return [str(folder / f"bird_{k}.png") for k in range(IMAGES)]


def study(heads, files, seeds=3, skill=None):
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
    return BirdStudy(heads, results, CLASSES, files, seconds)


def test_page_says_what_was_found(files, tmp_path):
    heads = study(TABLES["main"], files)
    methods = study(TABLES["methods"], files, skill={"svd-newton": 1.0, "isqrt-cov": 0.05})
    write_reports(tmp_path, heads, methods)
    text = (tmp_path / "birds.md").read_text()
    assert "9.0 minutes" in text
    for head in TABLES["main"]:
        assert head in text
    for method in TABLES["methods"]:
        assert method in text
    assert "✓ svd-newton: better by 9" in text
    assert "clearly better in" in text
    assert "Bird number 1" in text
    assert "001.Bird" not in text
    assert "| Bird number 0 | Bird number 1 |" in text
    shown = (tmp_path / "index.html").read_text()
    assert shown.count("<image") > 8, "photographs of examples and of confused pairs"
    assert "not for publication" in shown


def test_photographs_stay_out_of_the_page(files):
    page = birds_page(study(TABLES["main"], files, seeds=1))
    assert not any(tag in page.html() for tag in ("<img", "<image"))
    assert "not shown here" in page.markdown()
    assert "Which of the paper" not in page.markdown()


def test_a_perfect_head_confuses_nothing(files):
    heads = {"root": TABLES["main"]["root"]}
    text = birds_page(study(heads, files, skill={"root": 1.1})).markdown()
    assert "100.00" in text
    assert "![The pairs of species" not in text


def test_the_command_adds_the_methods_on_demand(files, tmp_path, monkeypatch, capsys):
    calls = []

    def run(data, output, *, table="main", seeds, workers):
        calls.append((table, seeds))
        return study(TABLES[table], files, seeds=seeds)

    monkeypatch.setattr("studies.birds.birds.run", run)
    output, elsewhere = tmp_path, tmp_path / "docs" / "birds.md"
    command = ["birds", "--data", str(tmp_path), "--output", str(output), "--seeds", "2"]
    assert main([*command, "--markdown", str(elsewhere)]) == 0
    assert f"The report is {output / 'index.html'}" in capsys.readouterr().out
    assert "Which of the paper" not in elsewhere.read_text()
    assert main([*command, "--methods"]) == 0
    assert "Which of the paper" in (output / "index.html").read_text()
    assert calls == [("main", 2), ("main", 2), ("methods", 2)]


def test_the_command_says_what_is_wrong(tmp_path, capsys):
    assert main(["birds", "--data", str(tmp_path / "nowhere")]) == 1
    assert "nowhere is not a folder; --data must be CUB-200-2011" in capsys.readouterr().err
