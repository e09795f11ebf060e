"""The hybrid protocol: its schedules, and the method of a model before and after the switch."""

import re

import lightning.pytorch as pl
import pytest
import torch
from torch import nn

from rootpool.nn import CovariancePool, Exact, ISqrtCov, set_method
from rootpool.train import HybridProtocol, HybridSchedule, merge
from small_runs import CONFIG, run


def test_the_paper_s_schedules():
    alexnet = HybridSchedule(switch_epoch=19, warmup_epochs=1)
    assert [alexnet.stage(e) for e in range(30)] == ["start"] * 19 + ["warm-up"] + ["final"] * 10
    resnet = HybridSchedule(switch_epoch=43, warmup_epochs=2)
    assert [resnet.stage(e) for e in range(60)] == ["start"] * 43 + ["warm-up"] * 2 + ["final"] * 15
    none = HybridSchedule(switch_epoch=20, warmup_epochs=0)
    assert {none.stage(e) for e in range(30)} == {"start", "final"}


def test_impossible_schedules_are_refused():
    with pytest.raises(ValueError, match=r"switch_epoch must be at least 1, got 0; .* standalone"):
        HybridSchedule(switch_epoch=0)
    with pytest.raises(ValueError, match="warmup_epochs must not be negative, got -1"):
        HybridSchedule(switch_epoch=3, warmup_epochs=-1)
    with pytest.raises(ValueError, match="unknown method 'newton'"):
        HybridProtocol(HybridSchedule(switch_epoch=3, start="newton"))
    with pytest.raises(AttributeError):
        HybridSchedule(switch_epoch=3).switch_epoch = 4


def test_a_model_without_pools_cannot_switch():
    with pytest.raises(ValueError, match="Linear has no CovariancePool"):
        set_method(nn.Linear(2, 2), "exact")


class Own(pl.LightningModule):
    """A user's module, without our specifications."""

    def __init__(self, method) -> None:
        super().__init__()
        self.pool = CovariancePool(4, method)
        self.last = nn.Linear(10, 2)

    def training_step(self, batch, index):
        return nn.functional.cross_entropy(self.last(self.pool(batch[0])), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def fit(module, callback, epochs) -> None:
    batch = torch.utils.data.TensorDataset(torch.randn(4, 4, 9), torch.tensor([0, 1, 0, 1]))
    options = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = pl.Trainer(
        max_epochs=epochs,
        callbacks=[callback],
        accelerator="cpu",
        enable_model_summary=False,
        log_every_n_steps=1,
        **options,
    )
    trainer.fit(module, torch.utils.data.DataLoader(batch, batch_size=4))


@pytest.mark.filterwarnings("ignore:.*(many workers|LeafSpec)")
def test_a_hybrid_training_ends_with_the_method_that_the_model_was_built_with():
    """The callback on a second model; and a training that ends before its switch."""
    callback = HybridProtocol(HybridSchedule(1, warmup_epochs=0))
    first, second = Own("exact"), Own("svd-pade")
    fit(first, callback, 2)
    fit(second, callback, 2)
    assert (first.pool.method.name, second.pool.method.name) == ("exact", "svd-pade")
    third = Own(Exact())
    with pytest.warns(UserWarning, match="this training never switches to exact: .* at epoch 1"):
        fit(third, HybridProtocol(HybridSchedule(1)), 1)
    assert third.pool.method == ISqrtCov()
    with pytest.raises(ValueError, match="built with isqrt-cov, which the hybrid training starts"):
        fit(third, HybridProtocol(HybridSchedule(1)), 2)
    fit(third, HybridProtocol(HybridSchedule(1), final="exact"), 2)
    assert third.pool.method == Exact()


def test_advice_on_a_schedule_can_be_followed(tmp_path):
    for milestones, advice in (([1], "milestones that end with 3"), ([9], "switch_epoch=8")):
        config = merge(CONFIG, {"model": {"milestones": milestones}})
        with pytest.raises(ValueError, match=re.escape(f"try {advice}")):
            run(tmp_path, config=config)
