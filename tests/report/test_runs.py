"""The report of training runs, from folders made up so that the right answers are known."""

import json

import pytest
import yaml

from rootpool import cli
from rootpool.report import group_runs, read_run, runs_page, write_records


def make_run(folder, errors, *, seed=0, method="exact", lr=0.1, **files):
    """A folder as a training leaves it."""
    config = {"seed": seed, "model": {"method": method, "lr": lr, "milestones": [1, 90]}}
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(config | files.pop("config", {})))
    history = [
        {"epoch": i, "val_error": e, "train_error": e / 2, "train_loss": e / 10}
        for i, e in enumerate(errors)
    ]
    write_records(history, folder / "history.csv")
    for name, records in files.items():
        write_records(records, folder / f"{name}.csv")
    return folder


def rows(page, heading):
    """The first table below a heading, as lists of cells."""
    part = page.markdown().replace("\\", "").split(f"## {heading}\n")[1]
    lines = [line for line in part.split("\n\n#")[0].splitlines() if line.startswith("|")]
    return [[cell.strip("* ") for cell in line.strip("|").split(" | ")] for line in lines]


def test_runs_that_differ_only_in_their_seed_are_one_group(tmp_path):
    choices = enumerate([(0.1, 0), (0.2, 0), (0.2, 1), (0.2, 1)])
    runs = [read_run(make_run(tmp_path / f"{k}", [1.0], lr=x, seed=s)) for k, (x, s) in choices]
    for given, labels, expected in (
        # The same seed again is not a repetition.
        (runs, None, {"lr 0.1": 1, "lr 0.2": 2, str(tmp_path / "3"): 1}),
        (runs, ["mine", "yours", "mine", "yours"], {"mine": 2, "yours": 2}),
    ):
        assert {group.label: len(group.runs) for group in group_runs(given, labels)} == expected
    alike = group_runs([runs[0], runs[0]])
    assert [group.label for group in alike] == [str(tmp_path / "0")] * 2


def test_final_and_best_errors(tmp_path):
    make_run(tmp_path / "a", [40.0, 20.0, 30.0])
    make_run(tmp_path / "b", [40.0, 25.0], method="gap")
    page = runs_page([tmp_path / "a", tmp_path / "b"])
    _, _, first, second = rows(page, "Errors")
    assert first[1:] == ["1", "3", "30.00", "20.00", "2", "15.00"]
    assert second[1:] == ["1", "2", "25.00", "25.00", "2", "12.50"]
    assert "Differences" not in page.markdown()  # one seed each
    headers, _, setting = rows(page, "Settings")
    assert headers == ["setting", str(tmp_path / "a"), str(tmp_path / "b")]
    assert setting == ["model.method", "exact", "gap"]


def test_seeds_are_compared_in_pairs_with_the_first(tmp_path):
    noise = (0.0, 1.0, -1.0)
    folders = []
    for k, (method, offset) in enumerate((("exact", 0.0), ("gap", 8.0), ("svd-pade", 0.1))):
        for seed in range(3):
            error = 30 + 5 * seed + offset + 0.1 * noise[(seed + k) % 3]
            folder = tmp_path / f"{method}-{seed}"
            folders.append(make_run(folder, [error], seed=seed, method=method))
    table = rows(runs_page(folders), "Differences")
    assert table[0][3] == "p, corrected for 2"
    assert [row[:2] + row[-2:] for row in table[2:]] == [
        ["gap", "exact", "3", "worse"],
        ["svd-pade", "exact", "3", "within noise"],
    ]


def test_with_one_seed_runs_are_compared_image_by_image(tmp_path):
    for name, missed in (("exact", [0, 1]), ("gap", [0, 1, 2, 3]), ("other", [0])):
        folder = make_run(
            tmp_path / name,
            [100 * len(missed) / 8],
            method=name,
            config={"data": {"root": "elsewhere"}} if name == "other" else {},
        )
        end = {"seconds": 1.0, "classes": 4, "images": 8, "missed": missed, "diverged": None}
        (folder / "result.json").write_text(json.dumps(end))
    page = runs_page([tmp_path / name for name in ("exact", "gap", "other")])
    header, _, *found = rows(page, "Differences")
    # The differences 0, 0, 100, 100, 0, 0, 0, 0 have a mean of 25 and a standard error of 16.37; other
    # images cannot be paired.
    assert header[3] == "over images"
    assert [row[2:4] + row[5:] for row in found] == [["+25.00", "± 32.08", "1", "spread not known"]]
    assert "picture" not in page.markdown().split("## Differences")[1].split("## ")[0]


def test_a_run_that_diverged_in_its_first_epoch(tmp_path):
    finished = make_run(tmp_path / "a", [40.0, 20.0], config={"hybrid": None})
    assert (read_run(finished).hybrid, read_run(finished).right) == (False, None)
    folder = make_run(tmp_path / "b", [], config={"hybrid": {"switch_epoch": 1}})
    end = {"seconds": 1.5, "classes": 9, "images": 3, "missed": [1]}
    (folder / "result.json").write_text(json.dumps(end | {"diverged": {"epoch": 0, "step": 4}}))
    run = read_run(folder)
    assert run.right.tolist() == [True, False, True]
    assert (run.hybrid, run.seconds, run.classes, run.images) == (True, 1.5, 9, 3)
    assert run.diverged == {"epoch": 0, "step": 4}
    page = runs_page([finished, folder])
    assert [row[2:4] for row in rows(page, "Errors")[2:]] == [["2", "20.00"], ["0", "–"]]


def test_the_command_writes_html_or_markdown(tmp_path, capsys):
    run = str(make_run(tmp_path / "a", [40.0, 30.0]))
    assert cli.main(["report", run, "--output", str(tmp_path / "r.html"), "--title", "<Mine>"]) == 0
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<h1>&lt;Mine&gt;</h1>" in text
    assert "<svg" in text
    assert cli.main(["report", run, f"{run}/", "--output", str(tmp_path / "r.md")]) == 0
    assert "1 run of 1 configuration." in (tmp_path / "r.md").read_text()  # given twice
    assert list((tmp_path / "r-pictures").glob("*.svg"))
    assert str(tmp_path / "r.md") in capsys.readouterr().out


DAMAGED = ("[" * 100_000, '[{"a": 1', "3", "\udcff\udcfe", '{"other": 1}')


def test_errors_say_which_folder_is_not_a_run(tmp_path):
    make_run(tmp_path / "runs" / "mine", [40.0])
    for name, file, content in (
        ("unfinished", "history.csv", None),
        ("damaged", "config.yaml", "a: ["),
        *((f"half {k}", "result.json", content) for k, content in enumerate(DAMAGED)),
    ):
        path = make_run(tmp_path / name, [40.0]) / file
        path.unlink() if content is None else path.write_text(content, errors="surrogateescape")
    for folder, message in {
        "nowhere": "nowhere is not a folder",
        "runs": "runs is not a run: it has no config.yaml; did you mean",
        "unfinished": "no epoch of this run is finished yet",
        "damaged": "config.yaml is not YAML",
        **{f"half {k}": r"result\.json is corrupt .*; delete" for k in range(len(DAMAGED))},
    }.items():
        with pytest.raises(ValueError, match=message):
            runs_page([tmp_path / folder])
