"""A checkpoint is whole or absent, whatever happens while it is written; and it is data, not code."""

import errno
import os
import subprocess
import sys

import pytest
import torch

from images import make_image_tree
from rootpool.analysis.files import write_atomically
from rootpool.cli import main
from rootpool.train.checkpoints import AtomicCheckpointIO


@pytest.fixture
def saved(tmp_path):
    AtomicCheckpointIO().save_checkpoint({"weight": torch.ones(3)}, tmp_path / "last.ckpt")
    return tmp_path / "last.ckpt"


def load(path):
    return AtomicCheckpointIO().load_checkpoint(path)["weight"]


def test_a_full_disk_leaves_the_checkpoint_before(saved, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        OSError, match=r"could not write the checkpoint .*last.ckpt.*the one before it is"
    ):
        AtomicCheckpointIO().save_checkpoint({"weight": torch.zeros(3)}, saved)
    assert torch.equal(load(saved), torch.ones(3))
    assert os.listdir(saved.parent) == ["last.ckpt"]


def test_a_kill_while_writing_leaves_the_checkpoint_before(saved):
    code = (
        "import os, signal, sys; from rootpool.analysis.files import write_atomically\n"
        "def half(file):\n    file.write(b'half'); file.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_atomically(sys.argv[1], half)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(saved)])
    assert done.returncode == -9
    assert torch.equal(load(saved), torch.ones(3))


def test_files_have_the_rights_of_new_files(tmp_path):
    write_atomically(tmp_path / "new" / "a.txt", "text")
    (tmp_path / "b.txt").write_text("text")
    assert (tmp_path / "new" / "a.txt").stat().st_mode == (tmp_path / "b.txt").stat().st_mode


class Code:
    def __reduce__(self):
        return os.system, ("touch executed",)


def test_code_in_a_checkpoint_is_not_executed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": {}, "hyper_parameters": Code()}, "evil.ckpt")
    assert main(["evaluate", "evil.ckpt"]) == 1
    assert "is not a checkpoint of rootpool train" in capsys.readouterr().err
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_truncated_image_is_named_and_can_be_left_out(tmp_path, workers, capsys):
    data = make_image_tree(tmp_path / "data", classes=2, per_class=3)
    bad = data / "train" / "class01" / "1.jpg"
    bad.write_bytes(bad.read_bytes()[:300])
    arguments = [
        "train",
        "--recipe=resnet50-imagenet-gap",
        f"--data={data}",
        "model.backbone=resnet10t",
        "data.batch_size=5",
        f"data.workers={workers}",
        "data.resize=32",
        "data.crop=32",
        "trainer.max_epochs=2",
        "trainer.num_sanity_val_steps=0",
    ]
    assert main([*arguments, f"--output={tmp_path / 'raise'}"]) == 1
    assert f"cannot decode {bad}" in capsys.readouterr().err
    assert main([*arguments, f"--output={tmp_path / 'skip'}", "--on-bad-image=skip"]) == 0
    assert f"cannot decode {bad}" in capsys.readouterr().err
