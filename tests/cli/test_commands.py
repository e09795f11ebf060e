"""The commands as a person types them."""

import pytest
import torch

from rootpool.cli import main
from rootpool.cli.commands import COMMANDS, build_parser

FAST = ["trainer.max_epochs=1", "trainer.limit_train_batches=2", "trainer.num_sanity_val_steps=0"]


def run(*arguments: str) -> int:
    return main([str(argument) for argument in arguments])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:this training never switches to exact")
def test_evaluation_uses_the_method_of_the_moment_and_counts_all(tmp_path, capsys):
    from rootpool.train.evaluation import evaluate, load_run

    last = tmp_path / "run" / "last.ckpt"
    assert run("train", "patches", "--hybrid", f"--output={last.parent}", *FAST) == 0
    assert run("evaluate", last) == 0
    assert "3600" in capsys.readouterr().out
    loaded = load_run(last)
    assert loaded.module.model.pool.method.name == "isqrt-cov"  # before the switch
    assert loaded.module.hparams["method"] == "exact"
    logged = torch.load(last, weights_only=True)["history"][-1]["val_error"]
    found = evaluate(loaded, accelerator="cpu", enable_progress_bar=False)
    assert found.metrics["val_error"] == pytest.approx(logged)
    (tmp_path / "cat.jpg").touch()
    assert run("predict", last, tmp_path / "cat.jpg") == 1
    assert "not on image files" in capsys.readouterr().err


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
