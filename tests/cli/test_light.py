"""What needs no torch, or no Lightning, does not import it: both take seconds."""

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
heavy = {HEAVY} & sys.modules.keys()
assert not heavy, heavy
sys.exit(code)
"""
LIGHTNING = {"lightning", "torchmetrics", "torchvision", "timm"}


def run_without(heavy, arguments):
    """A command in a process that must not import some packages."""
    command = [sys.executable, "-c", CODE.format(HEAVY=heavy), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("arguments", "code", "shown"),
    [
        (["--help"], 0, "usage: rootpool"),
        (["--version"], 0, "rootpool"),
        (["train", "--help"], 0, "--hybrid"),
        (["recipes"], 0, "birds: ResNet-50 fine-tuned on Birds\n"),
        (["recipes"], 0, "\n  --data CUB-200-2011 in its official layout\n"),
        (["recipes"], 0, "\n  --weights a run of resnet50-imagenet\n"),
        (["train", "patchs"], 1, "did you mean patches"),
        (["train", "patches", "lr"], 1, "an override is key=value"),
        (["train", "patches", "model.lrr=1"], 1, "did you mean model.lr"),
        (["train", "birds"], 1, "needs --data (CUB-200-2011"),
        (["evaluate", "nowhere.ckpt"], 1, "there is no checkpoint nowhere.ckpt"),
        (["predict", "nowhere.ckpt", "cat.jpg"], 1, "there is no checkpoint nowhere.ckpt"),
        (["predict", "run", "cat.jpg", "--top=0"], 2, "must be a positive integer, got 0"),
    ],
)
def test_light_commands_import_neither_torch_nor_lightning(arguments, code, shown):
    done = run_without({*LIGHTNING, "torch", "numpy", "matplotlib"}, arguments)
    assert done.returncode == code, done.stderr
    assert shown in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "shown"),
    [
        (["demo", "--seeds=0"], 1, "seeds must be positive"),
        (["report", "nowhere"], 1, "nowhere is not a folder"),
    ],
)
def test_what_trains_nothing_does_not_wait_for_lightning(arguments, code, shown):
    done = run_without(LIGHTNING, arguments)
    assert done.returncode == code, done.stderr
    assert shown in done.stdout + done.stderr
