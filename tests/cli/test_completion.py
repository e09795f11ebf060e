"""The script of ``rootpool completion``, asked by bash."""

import subprocess

import pytest

from rootpool.cli import main


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tr", {"train"}),
        ("train pat", {"patches", "patches-norm"}),
        ("train patches --method exa", {"exact"}),
        ("train patches --hy", {"--hybrid"}),
        ("evaluate run --mi", {"--mirrored"}),
    ],
)
def test_completion(line, expected, capsys):
    assert main(["completion"]) == 0
    words = ["rootpool", *line.split()]
    ask = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _rootpool"
    script = f'{capsys.readouterr().out}\n{ask}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert (set(done.stdout.split()), done.stderr) == (expected, "")
