"""What needs no torch, or no Lightning, does not import it: both take seconds."""

import subprocess
import sys

CODE = """
import contextlib, io, sys
from rootpool.cli import main
for arguments, code, shown in {CASES}:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            ended = main(arguments)
        except SystemExit as end:
            ended = end.code
    assert ended == code, (arguments, ended)
    assert shown in out.getvalue(), (arguments, out.getvalue())
    heavy = {HEAVY} & sys.modules.keys()
    assert not heavy, (arguments, heavy)
"""
LIGHTNING = {"lightning", "torchmetrics", "torchvision", "timm"}


def run_without(heavy, cases):
    """Commands in a process that must not import some packages."""
    command = [sys.executable, "-c", CODE.format(HEAVY=heavy, CASES=cases)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_light_commands_import_neither_torch_nor_lightning():
    cases = [
        (["--help"], 0, "usage: rootpool"),
        (["--version"], 0, "rootpool"),
        (["train", "--help"], 0, "--hybrid"),
        (["train", "patches", "--show"], 0, "backbone: patchnet"),
        (["recipes"], 0, "birds: ResNet-50 fine-tuned on Birds\n"),
        (["recipes"], 0, "\n  --data CUB-200-2011 in its official layout\n"),
        (["recipes"], 0, "\n  --weights a run of resnet50-imagenet\n"),
        (["train", "patchs"], 1, "did you mean patches"),
        (["train", "patches", "lr"], 1, "an override is key=value"),
        (["train", "patches", "model.lrr=1"], 1, "did you mean model.lr"),
        (["train", "birds"], 1, "needs --data (CUB-200-2011"),
        (["train", "alexnet-imagenet", "--data=nowhere"], 1, "--data nowhere does not exist"),
        (["evaluate", "nowhere.ckpt"], 1, "there is no checkpoint nowhere.ckpt"),
        (["predict", "nowhere.ckpt", "cat.jpg"], 1, "there is no checkpoint nowhere.ckpt"),
        (["predict", "run", "cat.jpg", "--top=0"], 2, "must be a positive integer, got 0"),
        (["demo", "--seeds=0"], 2, "must be a positive integer, got 0"),
        (["export", "run", "--output=a.tflite"], 2, "must end in .onnx or .pt2, got a.tflite"),
        (["report", "run", "--output=a.pdf"], 2, "must end in .html or .md, got a.pdf"),
    ]
    run_without({*LIGHTNING, "torch", "numpy", "matplotlib"}, cases)
