"""README and documentation keep their word: code runs, commands are understood, tables are up to date."""

import ast
import doctest
import json
import re
import runpy
from pathlib import Path

import pytest

from pages import FLAGS, Block, blocks
from rootpool import cli
from studies.__main__ import COMMANDS as STUDIES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PHOTOS = DOCS / "tutorials" / "photos.md"
README = ROOT / "README.md"
AT_TOP = (README, ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md")
PAGES = [README, *sorted(DOCS.rglob("*.md"))]
RECORD = re.compile(r"^\*Recorded at commit `\w+`", re.MULTILINE)


def name(page):
    return page.relative_to(ROOT).as_posix()


def current(page):
    """The shell blocks of a page; of a record none: its commands are those of the commit that it names."""
    record = RECORD.search(page.read_text(encoding="utf-8"))
    return [] if record else [block for block in blocks(page) if block.language == "sh"]


def runnable(page):
    return [b for b in blocks(page) if b.language in ("python", "pycon") and not b.reason]


@pytest.mark.parametrize("page", [p for p in PAGES if p != PHOTOS and runnable(p)], ids=name)
def test_code_runs(page, tmp_path, monkeypatch, capsys):
    """A page of the cookbook shows all that it prints, in blocks of text."""
    monkeypatch.chdir(tmp_path)
    scope = {}
    for block in runnable(page):
        if page == README:  # whose blocks are copied one by one
            scope = {}
        block.run(scope)
        if "nan everywhere" in block.code:
            assert scope["A"].grad.isnan().all()
    if page.parent.name == "cookbook":
        shown = "".join(block.code for block in blocks(page) if block.language == "text")
        printed = capsys.readouterr().out
        assert shown
        assert doctest.OutputChecker().check_output(shown, printed, FLAGS), printed


def test_tables_are_up_to_date():
    tool = runpy.run_path(str(ROOT / "scripts" / "site_tables.py"))
    for page, tables in tool["TABLES"].items():
        text = page.read_text(encoding="utf-8")
        assert tool["with_tables"](page) == text, "run python scripts/site_tables.py"
        assert all(f"<!-- {table}: begin" in text for table in tables)


def test_pages_have_titles_of_their_own_and_one_length_of_the_demo():
    titles = [
        re.search("^# (.+)", page.read_text(encoding="utf-8"), re.MULTILINE) for page in PAGES
    ]
    found = [title[1] for title in titles if title]
    assert len(found) == len(set(found)) + 1  # the README and the home page
    for place in (
        "README.md",
        "Makefile",
        "docs/appendix/protocol.md",
        "src/rootpool/cli/commands.py",
    ):
        assert "four minutes" in (ROOT / place).read_text(encoding="utf-8"), place


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    workflows = (ROOT / ".github" / "workflows").glob("*.yml")
    text = "".join(path.read_text(encoding="utf-8") for path in (*AT_TOP, *workflows))
    for target in re.findall(r"^make (\w+)|`make (\w+)|run: make (\w+)", text, re.MULTILINE):
        assert re.search(rf"^{''.join(target)}:", makefile, re.MULTILINE), target


def test_block_is_compared_with_its_output():
    block = Block("pycon", ">>> 1 + 1\n3\n")
    with pytest.raises(AssertionError, match="Expected"):
        block.run({})
    scope = {}
    Block("python", "x = 2").run(scope)
    Block("pycon", ">>> x + 1\n3\n>>> y = x\n").run(scope)
    assert scope["y"] == 2


@pytest.mark.parametrize("page", [p for p in PAGES if current(p)], ids=name)
def test_commands_are_understood(page):
    from rootpool.train import apply_overrides, load_recipe, resolve

    parser = cli.build_parser()
    for block in current(page):
        for words in block.commands():
            arguments, rest = parser.parse_known_args(words)
            recipe = getattr(arguments, "recipe", None) or "mine.yaml"
            if not recipe.endswith(".yaml"):
                made = load_recipe(recipe, arguments.method, arguments.hybrid)
                resolve(apply_overrides(made.config, [*arguments.overrides, *rest]))
        for study, *_ in block.commands(("python", "-m", "studies")):
            assert study in STUDIES


def test_pictures_are_drawn():
    tool = runpy.run_path(str(ROOT / "scripts" / "site_pictures.py"))
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for picture, draw in tool["PICTURES"].items():
        assert draw().axes
        assert f"images/{picture}.svg)" in text


def test_notebooks_are_up_to_date_and_run():
    """The cells of one are run, with their outputs; the commands of the other are run as blocks, below."""
    tool = runpy.run_path(str(ROOT / "scripts" / "notebooks.py"))
    made = {target: tool["notebook"](page) for target, page in tool["NOTEBOOKS"].items()}
    for target, text in made.items():
        assert target.read_text(encoding="utf-8") == text, "run python scripts/notebooks.py"
    scope = {}
    for cell in json.loads(made[ROOT / "examples" / "nans.ipynb"])["cells"]:
        if cell["cell_type"] == "code":
            shown = "".join(output["data"]["text/plain"] for output in cell["outputs"])
            *before, last = ast.parse(cell["source"]).body
            exec(ast.unparse(before), scope)
            lines = "\n... ".join(ast.unparse(last).splitlines())
            Block("pycon", f">>> {lines}\n{shown}\n").run(scope)


@pytest.mark.slow
def test_photographs_from_the_first_block_to_the_last(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    quick = ["trainer.max_epochs=2", "trainer.limit_train_batches=2", "trainer.accelerator=cpu"]
    quick += ["data.crop=64", "data.resize=64", "data.batch_size=4", "data.views=1"]
    quick += ["model.reduction=8"]
    scope, complete = {}, True
    for block in blocks(PHOTOS):
        if complete and "open_splits" in scope:  # all tiles were counted: two are enough
            for tile in Path("tiles").rglob("*.png"):
                if int(tile.stem) > 1:
                    tile.unlink()
            complete = False
        if block.title:
            Path(block.title).write_text(block.code, encoding="utf-8")
        for words in block.commands():
            short = words[0] == "train" and "--show" not in words
            assert cli.main([*words, *(quick if short else [])]) == 0, words
        block.run(scope)
    printed = capsys.readouterr().out
    assert "image-folder: 36 images for training, 36 for validation, 18 classes" in printed
    assert "runs/photos-kept-exact/model.onnx: images of 3 x 64 x 64 to 18 classes" in printed
    assert "minimax" in printed  # what the page says that the export computes
    report = Path("report.html").read_text(encoding="utf-8")
    assert "<svg" in report
    assert "runs/photos-kept-gap" in report
    assert len(Path("guesses.csv").read_text(encoding="utf-8").splitlines()) == 3
    assert Path("evaluation", "index.html").is_file()
