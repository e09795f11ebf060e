"""A checkpoint is whole or absent, whatever happens while it is written; and it is data, not code."""

import errno
import os
import re
import shutil
import subprocess
import sys

import pytest
import torch

import hostile
from rootpool.cli import main
from rootpool.files import write_atomically
from rootpool.train.checkpoints import RESUMED, AtomicCheckpointIO
from rootpool.train.evaluation import load_run
from rootpool.train.settings import SettingsError


@pytest.fixture
def saved(tmp_path):
    content = {**dict.fromkeys(RESUMED), "weight": torch.ones(3)}
    AtomicCheckpointIO().save_checkpoint(content, tmp_path / "last.ckpt")
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
        "import os, signal, sys; from rootpool.files import write_atomically\n"
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


OVERRIDES = [
    "data.workers=0",
    "trainer.limit_train_batches=2",
    "trainer.limit_val_batches=1",
    "trainer.num_sanity_val_steps=0",
    "trainer.accelerator=cpu",
]


def train(*options, epochs=1):
    """The arguments of a short training."""
    return ["train", "--recipe=patches-gap", *options, *OVERRIDES, f"trainer.max_epochs={epochs}"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The checkpoint of a run of one epoch."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(train("--output=run")) == 0
    return folder / "run" / "last.ckpt"


@pytest.fixture
def output(trained, tmp_path, monkeypatch):
    """Its folder elsewhere, to do harm to."""
    folder = tmp_path / "here"
    shutil.copytree(trained.parent, folder / "run")
    monkeypatch.chdir(folder)
    return folder / "run"


def files_of(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_code_in_a_checkpoint_is_not_executed_by_any_command(output, tmp_path, capsys):
    marker = tmp_path / "executed"
    for name in ("last.ckpt", "best.ckpt"):
        state = torch.load(output / name, weights_only=True)
        torch.save({**state, "x": hostile.RunsCode(marker)}, output / name)
    before = files_of(tmp_path)
    for command in (
        train("--output=run", "--resume", epochs=2),
        train("--output=other", "--weights=run/best.ckpt"),
        ["evaluate", "run/best.ckpt"],
        ["predict", "run/last.ckpt", "picture.png"],
    ):
        assert main(command) == 1, command
        assert "does not hold weights alone" in capsys.readouterr().err
    assert not marker.exists()
    changed = {path for path, time in files_of(tmp_path).items() if before.get(path) != time}
    assert all(output.parent in path.parents for path in changed)


def test_a_checkpoint_cannot_have_files_removed(output, tmp_path, capsys):
    """Lightning would remove the folder: all that it asks is that the path begins with its own."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "photographs").touch()
    state = torch.load(output / "last.ckpt", weights_only=True)
    path = f"{output}/../../precious"
    worst = torch.tensor(101.0)
    for name, callback in state["callbacks"].items():
        if "val_error" in name:
            del callback["dirpath"]  # then its own is taken
            callback |= {"kth_best_model_path": path, "best_model_path": path, "kth_value": worst}
            callback |= {"best_k_models": {path: worst}, "best_model_score": worst}
    torch.save(state, output / "last.ckpt")
    code = main(train("--output=run", "--resume", epochs=2))
    assert (precious / "photographs").exists()
    assert code == 1
    assert re.search(
        r"the checkpoint asks to remove .*/\.\./\.\./precious", capsys.readouterr().err
    )


def test_an_honest_run_goes_on(output):
    assert main(train("--output=run", "--resume", epochs=3)) == 0


def change(state, **parts):
    return {**state, **{name: {**state[name], **values} for name, values in parts.items()}}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda s: change(s, hyper_parameters={"num_classes": 10**9}), "does not fit the network"),
        (
            lambda s: change(s, hyper_parameters={"backbone_options": {"pretrained": True}}),
            "asks for",
        ),
        (lambda s: change(s, hyper_parameters={"weights": "other.ckpt", "x": 1}), "TypeError"),
        (lambda s: {**s, "hyper_parameters": [1]}, "is not a checkpoint of rootpool train"),
        (lambda s: {**s, "method": "os.system"}, "unknown method|is not a checkpoint"),
        (lambda s: {**s, "state_dict": {"w": torch.zeros(1).expand(10**9)}}, "its tensors claim"),
        (lambda s: {"state_dict": s["state_dict"]}, "is not a checkpoint of rootpool train"),
    ],
)
def test_checkpoints_that_say_what_is_not_so(trained, changed, message, tmp_path):
    state = torch.load(trained, weights_only=True)
    torch.save(changed(state), tmp_path / "last.ckpt")
    with pytest.raises(SettingsError, match=message):
        load_run(tmp_path / "last.ckpt")


def test_a_file_of_weights_is_nothing_to_go_on_from(tmp_path):
    torch.save({"state_dict": {}}, tmp_path / "last.ckpt")
    with pytest.raises(
        ValueError, match=r"no checkpoint to go on from: it has no callbacks, history"
    ):
        load(tmp_path / "last.ckpt")


def test_names_of_classes_cannot_command_the_terminal(monkeypatch, capsys):
    answers = [[("\x1b[2J\x1b]0;owned\x07 [bold]wren[/bold]\r\n", 1.0)]]
    monkeypatch.setattr("rootpool.train.command.load_run", lambda checkpoint: None)
    monkeypatch.setattr("rootpool.train.command.predict_images", lambda run, images: answers)
    assert main(["predict", "x.ckpt", "x.png"]) == 0
    shown = capsys.readouterr().out
    assert "[bold]wren[/bold]" in shown
    assert not {"\x1b", "\x07", "\r"} & set(shown)
