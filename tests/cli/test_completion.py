"""Shells asked for completions, as far as they are installed."""

import shutil
import subprocess

import pytest

from rootpool.cli.completion import completion_script

NEEDS = {
    shell: pytest.mark.skipif(not shutil.which(shell), reason=f"{shell} is not installed")
    for shell in ("bash", "zsh", "tcsh")
}


@NEEDS["bash"]
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tr", {"train"}),
        ("train pat", {"patches", "patches-norm"}),
        ("train patches --method exa", {"exact"}),
        ("demo --methods minim", {"minimax"}),
        ("train patches model.warm", {"model.warmup_epochs="}),
        ("train seed=1 trainer.max_ep", {"trainer.max_epochs="}),
    ],
)
def test_bash_completes(line, expected, tmp_path):
    (tmp_path / "script").write_text(completion_script("bash"))
    words = ["rootpool", *line.split(" ")]
    ask = (
        f"source ./script; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
        '_rootpool; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", ask], cwd=tmp_path, capture_output=True, text=True)
    assert set(done.stdout.split()) == expected, done.stderr


@pytest.mark.parametrize(
    ("shell", "check"),
    [
        pytest.param("zsh", ["zsh", "-n", "script"], marks=NEEDS["zsh"]),
        pytest.param("tcsh", ["tcsh", "-n", "script"], marks=NEEDS["tcsh"]),
    ],
)
def test_the_script_can_be_read(shell, check, tmp_path):
    (tmp_path / "script").write_text(completion_script(shell))
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", NEEDS)
def test_recipes_methods_and_keys_are_in_the_script(shell):
    script = completion_script(shell)
    assert "resnet50-imagenet" in script
    assert "gap" in script
    assert "data.fraction=" in script
