"""A training on images of which one is bad: from the command line to the loading process and back."""

import os

import pytest

import images
from rootpool.cli import main


@pytest.mark.slow
def test_the_command_names_a_bad_image_or_trains_without_it(tmp_path, capsys):
    root = images.make_image_tree(tmp_path / "data", classes=2, per_class=3)
    bad = root / "train" / "class01" / "1.jpg"
    os.truncate(bad, 400)
    arguments = [
        "train",
        "resnet50-imagenet",
        "--method=gap",
        f"--data={root}",
        "model.backbone=resnet10t",
        "data.batch_size=5",
        "data.workers=1",
        "data.resize=32",
        "data.crop=32",
        "trainer.max_epochs=1",
        "trainer.num_sanity_val_steps=0",
    ]
    assert main([*arguments, f"--output={tmp_path / 'raise'}"]) == 1
    error = capsys.readouterr().err
    assert f"cannot decode {bad}" in error
    assert "--on-bad-image skip" in error
    assert main([*arguments, f"--output={tmp_path / 'skip'}", "--on-bad-image=skip"]) == 0
    assert str(bad) in capsys.readouterr().err
