"""Shells asked for completions, as far as they are installed."""

import shutil
import subprocess

import pytest

from rootpool.cli import main

NEEDS = {
    shell: pytest.mark.skipif(not shutil.which(shell), reason=f"{shell} is not installed")
    for shell in ("bash", "zsh", "tcsh")
}


@pytest.fixture
def script(tmp_path, capsys):
    """The file of what the command prints for a shell."""

    def write(shell):
        assert main(["completion", shell]) == 0
        path = tmp_path / shell
        path.write_text(capsys.readouterr().out)
        return path

    return write


@NEEDS["bash"]
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tr", {"train"}),
        ("train pat", {"patches", "patches-norm"}),
        ("train patches --method exa", {"exact"}),
        ("train patches model.warm", {"model.warmup_epochs="}),
        ("train seed=1 trainer.max_ep", {"trainer.max_epochs="}),
    ],
)
def test_bash_completes(line, expected, script):
    words = ["rootpool", *line.split(" ")]
    ask = (
        f"source {script('bash')}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
        '_rootpool; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True)
    assert set(done.stdout.split()) == expected, done.stderr


@pytest.mark.parametrize("shell", [pytest.param(s, marks=NEEDS[s]) for s in ("zsh", "tcsh")])
def test_the_script_can_be_read(shell, script):
    done = subprocess.run([shell, "-n", script(shell)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", NEEDS)
def test_recipes_methods_and_keys_are_in_the_script(shell, script):
    text = script(shell).read_text()
    assert "resnet50-imagenet" in text
    assert "gap" in text
    assert "data.fraction=" in text
