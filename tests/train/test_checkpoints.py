"""A checkpoint is complete or absent, whatever happens while it is written; and it is data, not code.

(`kills.py` kills processes while they write one.)
"""

import errno
import os
import re
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import save_file

import hostile
from rootpool.cli import main
from rootpool.files import write_atomically
from rootpool.train import SettingsError
from rootpool.train.checkpoints import RESUMED, AtomicCheckpointIO
from rootpool.train.evaluation import load_run
from small_runs import Seen, final, run, typed

ROOT = Path(__file__).parents[2]


def test_an_error_names_the_file_and_leaves_what_was_there(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    saved, content = tmp_path / "last.ckpt", {**dict.fromkeys(RESUMED), "weight": torch.ones(3)}
    AtomicCheckpointIO().save_checkpoint(content, saved)
    path = tmp_path / ("x" * 250)  # its part has a longer name than a file may have
    with pytest.raises(OSError, match="too long") as found:
        write_atomically(path, "")
    assert found.value.filename == str(path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"could not write the checkpoint .*the one before it is"):
        AtomicCheckpointIO().save_checkpoint({"weight": torch.zeros(3)}, saved)
    with pytest.raises(OSError, match=r"No space left on device \(.* MB free\): .*last.ckpt"):
        write_atomically(saved, 20_000 * " ")
    assert torch.equal(AtomicCheckpointIO().load_checkpoint(saved)["weight"], torch.ones(3))
    assert os.listdir(tmp_path) == ["last.ckpt"]


OTHER_WRITERS = re.compile(
    r"\.write_(?:text|bytes)\(|\bopen\([^)]*[\"'][wax]|savefig\((?!file|buffer)"
)


def test_files_are_written_by_one_function():
    """But for features, which grow, and for images that can be made again."""
    rooms = [ROOT / room for room in ("src", "studies", "scripts", "benchmarks")]
    files = [file for room in rooms for file in room.rglob("*.py")]
    found = [f.name for f in files if OTHER_WRITERS.search(f.read_text(encoding="utf-8"))]
    assert found == ["files.py"]


def test_two_threads_may_write_one_file(tmp_path):
    """Each writes a part of its own, and one of them wins."""
    both = threading.Barrier(2)

    def write(content):
        write_atomically(tmp_path / "x", lambda file: (file.write(content), both.wait(60)))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, [b"a" * 1000, b"b" * 1000]))
    assert (tmp_path / "x").read_bytes() in (b"a" * 1000, b"b" * 1000)
    assert os.listdir(tmp_path) == ["x"]


@pytest.fixture
def disk(tmp_path):
    """A file system of 4 MB."""
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(tmp_path)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"cannot mount a small disk: {getattr(error, 'stderr', error)}")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


@pytest.mark.slow
def test_a_disk_that_is_full_while_a_training_saves(disk):
    """The error names the file and the space; later the run goes on from the checkpoint before it."""

    class Fill(Seen):
        def on_train_batch_start(self, trainer, *_):
            if trainer.global_step == 6:
                free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
                (disk / "ballast").write_bytes(b"\1" * (free - 10_000))

    folder, config = disk / "run", typed("save_every=2")
    with pytest.raises(OSError, match=r"could not write .*: No space left on device \(") as caught:
        run(folder, config=config, callbacks=[Fill()])
    assert f"checkpoint {folder / 'last.ckpt'}: " in str(caught.value)
    assert "of 4.2 MB free); the one before it is still good." in str(caught.value)
    assert final(folder)["global_step"] == 6
    assert not list(folder.glob(".*"))
    (disk / "ballast").unlink()
    assert run(folder, config=config, resume=True).trainer.global_step == 18


# --------------------------------------------------------------------------------------------------
# Files of a training, changed


def train(output, *options, epochs=1):
    """The arguments of a short training."""
    short = "limit_train_batches=2 limit_val_batches=1 num_sanity_val_steps=0"
    fast = [f"trainer.{key}" for key in [*short.split(), f"max_epochs={epochs}"]]
    return ["train", "patches", "--method=gap", f"--output={output}", *options, *fast]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run of one epoch."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert main(train(folder)) == 0
    return folder


@pytest.fixture
def output(trained, tmp_path):
    """A copy of it, to damage."""
    return shutil.copytree(trained, tmp_path / "run")


@pytest.mark.slow
def test_code_in_a_checkpoint_is_not_executed_by_any_command(output, tmp_path):
    marker = tmp_path / "executed"
    for name in ("last.ckpt", "best.ckpt"):
        state = torch.load(output / name, weights_only=True)
        torch.save({**state, "x": hostile.RunsCode(marker)}, output / name)
    for command in (
        train(output, "--resume", epochs=2),
        train(tmp_path / "other", f"--weights={output / 'best.ckpt'}"),
        ["evaluate", str(output / "best.ckpt")],
        ["predict", str(output / "last.ckpt"), "picture.png"],
    ):
        assert main(command) == 1, command
    assert not marker.exists()


@pytest.mark.slow
def test_a_checkpoint_cannot_have_files_removed(output, tmp_path):
    """Lightning would remove the folder: it asks only that the path begins with its own."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "photographs").touch()
    state = torch.load(output / "last.ckpt", weights_only=True)
    path, worst = f"{output}/../precious", torch.tensor(101.0)
    for name, callback in state["callbacks"].items():
        if "val_error" in name:
            del callback["dirpath"]  # then its own is taken
            callback |= {"kth_best_model_path": path, "best_model_path": path, "kth_value": worst}
            callback |= {"best_k_models": {path: worst}, "best_model_score": worst}
    torch.save(state, output / "last.ckpt")
    assert main(train(output, "--resume", epochs=2)) == 0
    assert (precious / "photographs").exists()


CONTRADICTIONS = {
    "other network": lambda s: s["hyper_parameters"].update(num_classes=3),
    "no options": lambda s: s.update(hyper_parameters=[1]),
    "unknown method": lambda s: (
        s["hyper_parameters"].update(method="exact") or s.update(method="unheard-of")
    ),
    "weights alone": lambda s: [s.pop(key) for key in list(s) if key != "state_dict"],
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_checkpoint_that_contradicts_itself_is_refused(trained, change, tmp_path):
    state = torch.load(trained / "last.ckpt", weights_only=True)
    change(state)
    torch.save(state, tmp_path / "last.ckpt")
    with pytest.raises(SettingsError, match="is not a checkpoint of rootpool train"):
        load_run(tmp_path / "last.ckpt")
    if len(state) == 1:
        with pytest.raises(ValueError, match="not a checkpoint to continue from: it has no callb"):
            AtomicCheckpointIO().load_checkpoint(tmp_path / "last.ckpt")


@pytest.mark.slow
def test_a_run_that_began_with_weights_of_its_backbone_can_be_loaded(tmp_path):
    """Those weights are not needed any more, and may be gone."""
    backbone = tmp_path / "backbone.safetensors"
    save_file(timm.create_model("test_resnet", in_chans=1).state_dict(), backbone)
    options = f"model.backbone_options={{weights: {backbone}, in_chans: 1}} ; trainer.max_epochs=1"
    done = run(tmp_path / "run", config=typed(f"model.backbone=test_resnet ; {options}"))
    backbone.unlink()
    loaded = load_run(tmp_path / "run" / "last.ckpt").module.state_dict()
    assert all(torch.equal(loaded[name], value) for name, value in done.module.state_dict().items())


def test_names_of_classes_cannot_command_the_terminal(tmp_path, monkeypatch, capsys):
    (tmp_path / "last.ckpt").touch()
    answers = [("x.png", [("\x1b[2J\x1b]0;owned\x07 [bold]wren[/bold]\r\n", 1.0)])]
    monkeypatch.setattr("rootpool.train.evaluation.load_run", lambda checkpoint: None)
    monkeypatch.setattr("rootpool.train.evaluation.find_images", lambda images: images)
    monkeypatch.setattr("rootpool.train.evaluation.predictions", lambda *args, **kw: answers)
    assert main(["predict", str(tmp_path / "last.ckpt"), "x.png"]) == 0
    shown = capsys.readouterr().out
    assert "[bold]wren[/bold]" in shown
    assert not {"\x1b", "\x07", "\r"} & set(shown)
