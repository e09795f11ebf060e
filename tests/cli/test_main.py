"""Exit codes and errors, with commands that go wrong on purpose."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rootpool.cli import main
from rootpool.cli.commands import COMMANDS, EXPLORE


@pytest.fixture
def doctor_raises(monkeypatch):
    """Let ``rootpool doctor`` raise an error."""

    def install(error):
        def doctor(**options):
            raise error

        monkeypatch.setattr("rootpool.cli.doctor.doctor", doctor)
        command = replace(EXPLORE["doctor"], when_stopped="; try again")
        monkeypatch.setitem(EXPLORE, "doctor", command)

    return install


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("seeds must be positive, got 0"), "seeds must be positive, got 0"),
        (FileNotFoundError(2, "No such file", "cat.jpg"), "cat.jpg: No such file"),
        (
            ModuleNotFoundError("No module named 'timm'", name="timm"),
            "timm is not installed; try pip install 'rootpool[train]'",
        ),
        (ModuleNotFoundError("weights: pip install x"), "weights: pip install x"),
        (ImportError("cannot import name 'a' from 'timm'", name="timm"), "cannot import name 'a'"),
        (FloatingPointError("the loss is nan"), "the loss is nan\n"),
        (BrokenPipeError(32, "a process has died"), "[Errno 32] a process has died"),
        (MemoryError("no room"), "MemoryError: no room; try a smaller data.batch_size"),
        (ValueError("no images\n- train/ is empty"), "no images\n  - train/ is empty\n"),
    ],
)
def test_an_error_is_explained(error, text, doctor_raises, capsys):
    doctor_raises(error)
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith(f"rootpool: {text}")
    assert shown.count("\n") == len(str(error).splitlines())


def test_the_traceback_of_an_unexpected_error_is_in_a_file(doctor_raises, capsys):
    doctor_raises(RuntimeError("the sky fell"))
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("rootpool: RuntimeError: the sky fell; this is unexpected")
    assert shown.count("\n") == 1
    file = Path(re.search(r"report it with (\S+) and", shown)[1])
    assert "in doctor\n    raise error" in file.read_text()
    file.unlink()


def test_traceback_shows_where_an_error_came_from(doctor_raises, capsys):
    doctor_raises(ValueError("wrong"))
    assert main(["doctor", "--traceback"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback (most recent call last)")
    assert shown.endswith("rootpool: wrong\n")


def test_ctrl_c_ends_with_130_and_says_how_to_go_on(doctor_raises, capsys):
    doctor_raises(KeyboardInterrupt())
    assert main(["doctor"]) == 130
    assert capsys.readouterr().err == "rootpool: stopped; try again\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trian"], "unknown command 'trian'; did you mean train"),
        (["--recip"], "the following arguments are required: COMMAND"),
        (["doctor", "--json"], "unrecognized arguments: --json"),
    ],
)
def test_wrong_usage_ends_with_2(arguments, said, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    shown = capsys.readouterr().err
    assert "usage: rootpool" in shown
    assert said in shown


def test_without_a_command_there_is_help(capsys):
    assert main([]) == 0
    use, explore = capsys.readouterr().out.split("\nuse:\n")[1].split("\n\n")[:2]
    assert explore.startswith("explore:\n")
    listed = re.findall(r"^  (\w+)  ", f"{use}\n{explore}", re.MULTILINE)
    assert listed == list(COMMANDS)


def test_a_reader_that_leaves_early_is_no_error():
    command = [sys.executable, "-m", "rootpool.cli", "recipes"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141
