"""Shells asked for completions, as far as they are installed."""

import argparse
import shutil
import subprocess

import pytest

from rootpool.cli.commands import COMMANDS
from rootpool.cli.completion import SHELLS, completion_script, recipe_words

QUESTIONS = [
    ("tr", {"train"}),
    ("train --re", {"--recipe", "--resume"}),
    ("train --recipe patches-svd-pa", {"patches-svd-pade", "patches-svd-pade-hybrid"}),
    ("train --on-bad-image ", {"raise", "skip"}),
    ("demo --methods svd-t", {"svd-topn", "svd-trunc", "svd-taylor"}),
    ("demo --methods gap svd-pi", {"svd-pi"}),
    ("completion ", {"bash", "zsh", "fish"}),
    ("doctor --t", {"--traceback"}),
]


def ask(shell, script, question, folder):
    (folder / "script").write_text(script)
    done = subprocess.run(
        [shell, "-c", question],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"HOME": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def ask_bash(words, folder):
    quoted = " ".join(f"'{word}'" for word in words)
    question = (
        f"source ./script; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _rootpool; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    return set(ask("bash", completion_script("bash"), question, folder)) - {""}


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
@pytest.mark.parametrize(("line", "expected"), QUESTIONS)
def test_bash(line, expected, tmp_path):
    assert ask_bash(["rootpool", *line.split(" ")], tmp_path) == expected


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_bash_knows_commands_equal_signs_and_files(tmp_path):
    assert ask_bash(["rootpool", ""], tmp_path) == {*COMMANDS, "--help", "--version"}
    recipes = {"patches-exact", "patches-exact-hybrid"}
    assert ask_bash(["rootpool", "train", "--recipe", "=", "patches-ex"], tmp_path) == recipes
    assert len(ask_bash(["rootpool", "train", "--recipe", "="], tmp_path)) == len(recipe_words())
    assert ask_bash(["rootpool", "demo", "--seeds", ""], tmp_path) == set()
    # No words of ours: -o default lets bash complete names of files.
    assert ask_bash(["rootpool", "evaluate", "runs/"], tmp_path) == set()
    assert "complete -o default -F _rootpool rootpool" in completion_script("bash")


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
@pytest.mark.parametrize(("line", "expected"), QUESTIONS)
def test_fish(line, expected, tmp_path):
    question = f"source ./script; complete -C 'rootpool {line}'"
    answers = ask("fish", completion_script("fish"), question, tmp_path)
    assert {answer.split("\t")[0] for answer in answers} == expected


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish_completes_files(tmp_path):
    (tmp_path / "best.ckpt").touch()
    question = "source ./script; complete -C 'rootpool evaluate be'"
    assert ask("fish", completion_script("fish"), question, tmp_path) == ["best.ckpt"]


@pytest.mark.skipif(not shutil.which("zsh"), reason="zsh is not installed")
def test_zsh_can_read_it(tmp_path):
    assert ask("zsh", completion_script("zsh"), "zsh -n ./script", tmp_path) == []


def test_words_are_those_of_the_library():
    from rootpool.train import recipe_names

    assert recipe_words() == recipe_names()


def test_every_shell_on_offer_has_a_script():
    parser = argparse.ArgumentParser()
    COMMANDS["completion"].fill(parser)
    for shell in SHELLS:
        assert parser.parse_args([shell]).shell == shell
