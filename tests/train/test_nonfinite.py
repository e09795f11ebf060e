"""Numbers that are not finite end a training: with a report, a file, and good checkpoints."""

import json
from types import SimpleNamespace

import lightning.pytorch as pl
import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from rootpool.train import ModelSettings, NonFiniteError, merge, prepare, resolve
from rootpool.train.nonfinite import NonFiniteGuard
from small_runs import NUMBERED, final, run

pytestmark = pytest.mark.slow

SHORT = merge(NUMBERED, {"model": {"method": "svd-pade"}, "save_every": 2})
FIRST, MEAN = "model.backbone.body.0.weight", "model.backbone.body.1.running_mean"


class At(pl.Callback):
    """Does something to the module at the beginning of a step."""

    def __init__(self, step, action) -> None:
        self.step = step
        self.action = action

    def on_train_batch_start(self, trainer, pl_module, *_) -> None:
        if trainer.global_step == self.step:
            self.action(pl_module)


def put_nan(name):
    def action(module):
        module.state_dict()[name].view(-1)[0] = torch.nan

    return action


def nan_gradient(module):
    module.model.classifier.weight.register_hook(lambda gradient: gradient * torch.nan)


REFUSED = "the features or covariances are not finite"
WEIGHT = f"step 3, method svd-pade: {REFUSED}\nnot finite: {FIRST}"
GRADIENT = "step 1, .*: the gradient of model.classifier.weight is nan"
SAVED = r"step 4, .*: model\S+, which was to be saved, is not"
LOSS = r"step 1, method gap: the loss is nan"
VALIDATION = f"step 6, method svd-pade: {REFUSED}\nnot finite: {MEAN}\n"
CASES = {
    "weight": ({}, 3, put_nan(FIRST), WEIGHT, 2),
    "gradient": ({}, 1, nan_gradient, GRADIENT, 0),
    # Before a weight that is not finite would be saved; and before there is a checkpoint.
    "saved": ({"lr": 1e5}, -1, None, SAVED, 2),
    "loss": ({"method": "gap", "lr": 1e30}, -1, None, LOSS, 0),
    # Running statistics are used in validation alone.
    "validation": ({}, 5, put_nan(MEAN), VALIDATION, 4),
}


@pytest.mark.parametrize(("model", "step", "action", "said", "saved"), CASES.values(), ids=CASES)
def test_what_is_not_finite_ends_a_training(model, step, action, said, saved, tmp_path):
    config = merge(SHORT, {"model": model})
    with pytest.raises(NonFiniteError, match=f"^epoch 1, {said}") as caught:
        run(tmp_path, config=config, callbacks=[At(step, action)])
    report, path = str(caught.value), tmp_path / "nonfinite.pt"
    assert f"{path} holds the batch and all weights" in report
    state = torch.load(path, weights_only=True)
    between = model.get("lr") == 1e5  # two steps, where there is no batch
    assert [len(part) for part in state["batch"]] == [4, 4] * (not between)
    assert report.endswith(f"a lower model.lr than {model.get('lr', 0.02):g}")
    assert ("try --weights with one" in report) == bool(saved)
    diverged = json.loads((tmp_path / "result.json").read_text())["diverged"]
    assert f"epoch {diverged['epoch'] + 1}, step {diverged['step']}, " in report
    if saved:
        assert final(tmp_path)["global_step"] == saved
        assert all(value.isfinite().all() for value in final(tmp_path)["state_dict"].values())
        assert not all(value.isfinite().all() for value in state["state_dict"].values())
    if model == {} and saved:  # it can go on
        run(tmp_path, config=config, resume=True)
        assert final(tmp_path)["global_step"] == 18


def test_a_training_that_diverges_before_its_first_step_has_a_result(tmp_path):
    """In the look at some validation batches that comes first; the folder is read like any other."""
    config = merge(SHORT, {"trainer": {"num_sanity_val_steps": 1}})
    made = prepare(resolve(config), tmp_path, progress=False)
    put_nan(FIRST)(made.module)
    with pytest.raises(NonFiniteError, match="epoch 1, step 0, method svd-pade"):
        made.fit()
    assert json.loads((tmp_path / "result.json").read_text())["diverged"] == {"epoch": 0, "step": 0}
    assert (tmp_path / "config.yaml").is_file()


def test_a_report_holds_this_process_s_share_of_weights_that_are_shared_out(tmp_path):
    """To gather the others, all processes would have to ask; one alone may have failed."""
    layer = torch.nn.Linear(4, 6)
    expected = layer.weight.detach()[:3].clone()
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    try:
        fully_shard(layer, mesh=init_device_mesh("cpu", (2,)))
        layer.pooling, layer.settings = "exact", ModelSettings()
        trainer = SimpleNamespace(is_global_zero=True, current_epoch=0, global_step=0)
        report = NonFiniteGuard(tmp_path)._report(trainer, layer, "the loss is nan")
    finally:
        dist.destroy_process_group()
    assert "holds the batch and its share of the weights" in report
    kept = torch.load(tmp_path / "nonfinite.pt", weights_only=True)["state_dict"]
    assert type(kept["weight"]) is torch.Tensor
    assert torch.equal(kept["weight"], expected)
