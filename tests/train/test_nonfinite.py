"""Numbers that are not finite end a training: with a report, a file, and good checkpoints."""

import json
import re

import lightning.pytorch as pl
import pytest
import torch

from rootpool.train import NonFiniteError, merge, prepare, resolve
from small_runs import CONFIG, final, run

pytestmark = pytest.mark.slow

SHORT = merge(CONFIG, {"hybrid": None, "spectrum_every": 0, "trainer": {"max_epochs": 2}})
FIRST = "model.backbone.body.0.weight"


class At(pl.Callback):
    """Does something to the module at the beginning of a step."""

    def __init__(self, step, action) -> None:
        self.step = step
        self.action = action

    def on_train_batch_start(self, trainer, pl_module, *_) -> None:
        if trainer.global_step == self.step:
            self.action(pl_module)


def broken_run(folder, step=-1, action=None, options=None, **model) -> tuple[str, dict]:
    """The report of a run that ends by it, and the state in its file."""
    config = merge(SHORT, {"model": model}, options or {})
    with pytest.raises(NonFiniteError) as caught:
        run(folder, config=config, callbacks=[At(step, action)])
    path = folder / "nonfinite.pt"
    assert str(path) in str(caught.value)
    return str(caught.value), torch.load(path, weights_only=True)


def put(name, value):
    def action(module):
        module.state_dict()[name].view(-1)[0] = value

    return action


def test_a_weight_that_is_nan(tmp_path):
    report, state = broken_run(tmp_path, 3, put(FIRST, torch.nan))
    assert "epoch 0, step 3, method svd-pade: the features or covariances are not fini" in report
    assert f"not finite: {FIRST}" in report
    assert "lower model.lr than 0.08" in report
    assert state["state_dict"][FIRST].isnan().sum() == 1
    assert final(tmp_path)["global_step"] == 2  # a good one
    assert all(value.isfinite().all() for value in final(tmp_path)["state_dict"].values())
    run(tmp_path, config=SHORT, resume=True)
    assert final(tmp_path)["global_step"] == 10


def test_an_absurd_learning_rate_never_reaches_a_checkpoint(tmp_path):
    report, state = broken_run(tmp_path, lr=1e5)
    assert re.search(r"step 4, method svd-pade: model\S+, which was to be saved, is not", report)
    assert final(tmp_path)["global_step"] == 2
    assert all(value.isfinite().all() for value in final(tmp_path)["state_dict"].values())
    assert not all(value.isfinite().all() for value in state["state_dict"].values())


def test_a_loss_that_is_nan_without_being_refused(tmp_path):
    report, _ = broken_run(tmp_path, method="gap", lr=1e30)
    assert "epoch 0, step 1, method gap: the loss is nan" in report
    assert report.endswith("try a lower model.lr than 1e+30")  # there is no checkpoint yet


def test_a_gradient_that_is_nan_after_a_finite_loss(tmp_path):
    def action(module):
        before.update({k: v.clone() for k, v in module.named_parameters()})
        module.model.classifier.weight.register_hook(lambda gradient: gradient * torch.nan)

    before = {}
    report, state = broken_run(tmp_path, 1, action)
    assert re.search(r"epoch 0, step 1, method \S+: the gradient is nan", report)
    assert all(torch.equal(state["state_dict"][k], v) for k, v in before.items())


def test_validation_that_is_not_finite_is_no_epoch(tmp_path):
    """Running statistics are used in validation alone."""
    report, state = broken_run(tmp_path, 4, put("model.backbone.body.1.running_mean", torch.nan))
    assert "epoch 0, step 5, method svd-pade: the features or covariances are not" in report
    assert len(state["batch"][1]) == 16
    assert final(tmp_path)["global_step"] == 4


def test_other_mistakes_in_a_step_are_left_as_they_are(tmp_path):
    def action(module):
        raise ValueError("something else")

    with pytest.raises(ValueError, match=r"^something else$"):
        run(tmp_path, config=SHORT, callbacks=[At(1, action)])
    assert not (tmp_path / "nonfinite.pt").exists()


def test_a_training_that_diverges_before_its_first_step_has_a_result(tmp_path):
    """In the look at some validation batches that comes first; the folder is read like any other."""
    config = merge(SHORT, {"trainer": {"num_sanity_val_steps": 1}})
    made = prepare(resolve(config), tmp_path, progress=False)
    put(FIRST, torch.nan)(made.module)
    with pytest.raises(NonFiniteError, match="epoch 0, step 0, method svd-pade"):
        made.fit()
    assert json.loads((tmp_path / "result.json").read_text())["diverged"] == {"epoch": 0, "step": 0}
    assert (tmp_path / "config.yaml").is_file()
