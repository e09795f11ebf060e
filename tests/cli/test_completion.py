"""Shells asked for completions, as far as they are installed."""

import shutil
import subprocess

import pytest

from rootpool.cli import main

CASES = {
    "tr": {"train"},
    "train pat": {"patches", "patches-norm"},
    "train patches --method exa": {"exact"},
    "train patches model.warm": {"model.warmup_epochs="},
    "train seed=1 trainer.max_ep": {"trainer.max_epochs="},
}


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion(shell, tmp_path, capsys):
    assert main(["completion", shell]) == 0
    script = tmp_path / shell
    script.write_text(capsys.readouterr().out)
    for word in ("resnet50-imagenet", "gap", "data.fraction="):
        assert word in script.read_text()
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, "-n", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    for line, expected in CASES.items() if shell == "bash" else ():
        words = ["rootpool", *line.split(" ")]
        ask = (
            f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
            '_rootpool; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True)
        assert set(done.stdout.split()) == expected, done.stderr
