"""A checkpoint is whole or absent, whatever happens while it is written; and it is data, not code."""

import errno
import os
import subprocess
import sys

import pytest
import torch

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
