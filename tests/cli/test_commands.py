"""The commands as a person types them."""

import argparse
import inspect
import signal
from importlib import import_module

import pytest
import torch

from rootpool.cli import main
from rootpool.cli.commands import COMMANDS, build_parser

FAST = ["trainer.max_epochs=1", "trainer.limit_train_batches=2", "trainer.num_sanity_val_steps=0"]


def run(*arguments: str) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    with pytest.warns(UserWarning, match="this training never switches to exact"):
        assert run("train", "patches", "--hybrid", f"--output={folder / 'run'}", *FAST) == 0
    return folder / "run"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:this training never switches")
def test_a_run_is_neither_overwritten_nor_trained_further_than_it_should(trained, capsys):
    found = {path.name for path in trained.iterdir()}
    assert {"last.ckpt", "best.ckpt", "history.csv", "config.yaml"} <= found
    assert "switch_epoch: 5" in (trained / "config.yaml").read_text()
    assert len((trained / "history.csv").read_text().splitlines()) == 2
    before = (trained / "last.ckpt").read_bytes()
    assert run("train", "patches", f"--output={trained}", *FAST) == 1
    assert "already contains a run; continue it with --resume" in capsys.readouterr().err
    assert (trained / "last.ckpt").read_bytes() == before

    def weights():
        return torch.load(trained / "last.ckpt", weights_only=True)["state_dict"]

    before = weights()
    assert run("train", "patches", "--hybrid", f"--output={trained}", "--resume", *FAST) == 0
    assert all(torch.equal(value, before[key]) for key, value in weights().items())


@pytest.mark.slow
def test_what_a_training_of_no_epoch_says(tmp_path, capsys):
    """The size of the map first; in the end the files that are there, and no others."""
    arguments = [*FAST, "trainer.limit_val_batches=1", "trainer.max_epochs=0"]
    assert run("train", "patches", f"--output={tmp_path / 'run'}", *arguments) == 0
    out = capsys.readouterr().out
    for said in ("64 channels at 7 x 7 positions", "no epoch was finished", "run: config.yaml\n"):
        assert said in out


@pytest.mark.slow
def test_evaluation_uses_the_method_of_the_moment_and_counts_all(trained, tmp_path, capsys):
    from rootpool.train.evaluation import evaluate, load_run

    assert run("evaluate", trained / "last.ckpt") == 0
    assert "3600" in capsys.readouterr().out
    loaded = load_run(trained / "last.ckpt")
    assert loaded.module.model.pool.method.name == "isqrt-cov"  # before the switch
    assert loaded.module.hparams["method"] == "exact"
    logged = torch.load(trained / "last.ckpt", weights_only=True)["history"][-1]["val_error"]
    found = evaluate(loaded, accelerator="cpu", enable_progress_bar=False)
    assert found.metrics["val_error"] == pytest.approx(logged)
    (tmp_path / "cat.jpg").touch()
    assert run("predict", trained / "last.ckpt", tmp_path / "cat.jpg") == 1
    assert "not on image files" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "patches", "model.rate=1"], "unknown key 'model.rate'"),
        (
            ["train", "alexnet-imagenet", "--data=nowhere"],
            "--data nowhere does not exist",
        ),
        (["demo", "--seeds", "0"], "seeds must be positive, got 0"),
    ],
)
def test_mistakes_are_explained(arguments, message, capsys):
    assert run(*arguments) == 1
    assert message in capsys.readouterr().err


def test_the_effective_configuration_is_shown(capsys):
    assert run("train", "patches", "--method=svd-topn", "--show", "model.lr=0.5") == 0
    out = capsys.readouterr().out
    assert "lr: 0.5" in out
    assert "count: 50" in out


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_the_function_of_a_command_takes_its_arguments(command):
    parser = argparse.ArgumentParser(add_help=False)
    command.fill(parser)
    names = {action.dest for action in parser._actions} - {"traceback"}
    module, _, name = command.function.partition(":")
    inspect.signature(getattr(import_module(module), name)).bind(**dict.fromkeys(names))


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_fits_into_eighty_columns_and_has_examples(command, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    arguments = ["--help"] if command is None else [command, "--help"]
    with pytest.raises(SystemExit) as stop:
        build_parser().parse_args(arguments)
    out = capsys.readouterr().out
    assert stop.value.code == 0
    assert "examples:\n  rootpool " in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.slow
def test_ctrl_c_while_training_ends_with_130(tmp_path, monkeypatch, capsys):
    from rootpool.train import PooledTraining

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(PooledTraining, "training_step", interrupted)
    handler = signal.getsignal(signal.SIGINT)
    try:
        code = run("train", "patches", f"--output={tmp_path / 'run'}", *FAST)
    finally:
        signal.signal(signal.SIGINT, handler)  # Lightning switches it off
    assert code == 130
    assert capsys.readouterr().err.endswith(
        "rootpool: stopped; continue from the last checkpoint with --resume\n"
    )
