"""A disk that is full while something is saved: an error that says so, and nothing lost."""

import os
import subprocess

import lightning.pytorch as pl
import pytest

from small_runs import NUMBERED, final, run

pytestmark = pytest.mark.slow


@pytest.fixture
def disk(tmp_path):
    """A file system of 4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"cannot mount a small disk: {getattr(error, 'stderr', error)}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk, leave):
    """A file as large as the space that is there, but for some bytes."""
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    (disk / "ballast").write_bytes(b"\1" * max(free - leave, 0))


class FillDisk(pl.Callback):
    def __init__(self, disk, step, leave) -> None:
        self.disk, self.step, self.leave = disk, step, leave

    def on_train_batch_start(self, trainer, *_) -> None:
        if trainer.global_step == self.step:
            fill(self.disk, self.leave)


def test_training_ends_with_the_file_and_the_space_and_can_go_on_later(disk):
    folder, config = disk / "run", {**NUMBERED, "save_every": 2}
    with pytest.raises(OSError, match="could not write") as caught:
        run(folder, config=config, callbacks=[FillDisk(disk, step=6, leave=10_000)])
    assert str(caught.value).startswith(
        f"could not write the checkpoint {folder / 'last.ckpt'}: No space left on device ("
    )
    assert "of 4.2 MB free); the one before it is still good." in str(caught.value)
    assert final(folder)["global_step"] == 6
    assert not list(folder.glob(".*"))
    (disk / "ballast").unlink()
    assert run(folder, config=config, resume=True).trainer.global_step == 18
