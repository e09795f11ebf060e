"""What needs no torch does not import it: torch and Lightning take seconds."""

import subprocess
import sys

import pytest

CODE = """
import sys
from rootpool.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as end:
    code = end.code
heavy = {"torch", "lightning", "numpy", "matplotlib"} & sys.modules.keys()
assert not heavy, heavy
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("arguments", "code", "shown"),
    [
        (["--help"], 0, "usage: rootpool"),
        (["--version"], 0, "rootpool"),
        (["train", "--help"], 0, "--recipe"),
        (["recipes"], 0, "patches-exact"),
        (["completion", "bash"], 0, "patches-exact"),
        (["train", "--recipe=patches-exakt"], 1, "did you mean patches-exact"),
        (["train", "--recipe=patches-exact", "lr"], 1, "an override is key=value"),
        (["train", "--recipe=birds-exact"], 1, "needs --data (CUB-200-2011"),
        (["evaluate", "nowhere.ckpt"], 1, "there is no checkpoint nowhere.ckpt"),
        (["predict", "nowhere.ckpt", "cat.jpg"], 1, "there is no checkpoint nowhere.ckpt"),
    ],
)
def test_light_commands_import_neither_torch_nor_lightning(arguments, code, shown):
    command = [sys.executable, "-c", CODE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert shown in done.stdout + done.stderr
