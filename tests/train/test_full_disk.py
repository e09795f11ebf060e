"""A disk that is full while something is saved: an error that says so, and nothing lost."""

import errno
import os
import subprocess

import lightning.pytorch as pl
import numpy as np
import pytest

from rootpool.files import write_atomically
from rootpool.train.features.extract import GrowingArray
from small_runs import BATCHES, EPOCHS, final, run

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
    folder = disk / "run"
    with pytest.raises(OSError, match="could not write") as caught:
        run(folder, callbacks=[FillDisk(disk, step=6, leave=100_000)])
    assert str(caught.value).startswith(
        f"could not write the checkpoint {folder / 'last.ckpt'}: No space left on device ("
    )
    assert "of 4.2 MB free); the one before it is still good." in str(caught.value)
    assert final(folder)["global_step"] == 6
    assert not list(folder.glob(".*"))
    (disk / "ballast").unlink()
    assert run(folder, resume=True).trainer.global_step == EPOCHS * BATCHES


def test_any_file_is_named_with_the_space(disk):
    path = write_atomically(disk / "results.json", "[]")
    fill(disk, leave=10_000)
    with pytest.raises(
        OSError, match=r"No space left on device \(0.0 of 4.2 MB free\).*results"
    ) as e:
        write_atomically(path, "[" + 20_000 * " " + "]")
    assert e.value.errno == errno.ENOSPC
    assert sorted(entry.name for entry in disk.iterdir()) == ["ballast", "results.json"]
    assert path.read_text() == "[]"


def test_cached_features_name_their_file_and_the_space(disk):
    array = GrowingArray(disk / "late.npy", (30, 1, 100_000, 1, 1))  # 6 MB
    with pytest.raises(OSError, match=r"No space left on device \(.* of 4.2 MB free\).*late.npy"):
        array.write(0, np.zeros((30, 1, 100_000, 1, 1), np.float16))
    assert 0 < array.done() < 30, "what fits is there, for those who make space"
