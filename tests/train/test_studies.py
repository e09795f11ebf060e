from pathlib import Path

import pytest

from rootpool.cli import main
from rootpool.train import studies
from rootpool.train.studies import STUDIES, Study


@pytest.fixture
def calls(monkeypatch):
    """A study in the place of the birds that only notes what it is asked for."""
    noted = []

    def run(data: str, output: Path, *, methods: bool = False, seeds: int = 5) -> Path:
        noted.append((data, output, methods, seeds))
        return output / "index.html"

    monkeypatch.setitem(studies.STUDIES, "birds-cpu", Study("Birds", "images of birds", run))
    return noted


def test_command_runs_a_study(calls, tmp_path, capsys):
    arguments = ["--data", str(tmp_path), "--output", "out", "seeds=2", "methods=true"]
    assert main(["train", "--recipe", "birds-cpu", *arguments]) == 0
    assert calls == [(str(tmp_path), Path("out"), True, 2)]
    assert "out/index.html is the report" in capsys.readouterr().out


def test_command_shows_the_options(calls, capsys):
    assert main(["train", "--recipe", "birds-cpu", "--show", "seeds=1"]) == 0
    assert capsys.readouterr().out == "methods: false\nseeds: 1\n"
    assert not calls


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "recipe birds-cpu needs --data (images of birds)"),
        (["--data", "nowhere"], "nowhere does not exist"),
        (["--data", ".", "--weights", "w.pt"], "no use for --weights"),
        (["--data", ".", "sseds=2"], "the options of this recipe are methods, seeds"),
        (["--data", ".", "seeds=many"], "the options of this recipe are methods, seeds"),
    ],
)
def test_command_says_what_is_wrong(arguments, message, calls, capsys):
    assert main(["train", "--recipe", "birds-cpu", *arguments]) == 1
    assert message in capsys.readouterr().err
    assert not calls


def test_studies_are_among_the_recipes(capsys):
    assert main(["recipes", "cpu"]) == 0
    listed = capsys.readouterr().out
    for name, study in STUDIES.items():
        assert f"{name}  {study.about}" in listed
