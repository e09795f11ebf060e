"""The hybrid protocol: its schedules, and the method of a model before and after the switch."""

import lightning.pytorch as pl
import pytest
import torch
from torch import nn

from rootpool.nn import CovariancePool, Exact, ISqrtCov
from rootpool.train import HybridProtocol, HybridSchedule
from rootpool.train.trainer import quiet_lightning


class Own(pl.LightningModule):
    """A user's module, without our specifications; notes the method of every epoch."""

    def __init__(self, method, milestones=()) -> None:
        super().__init__()
        self.pool = CovariancePool(4, method) if method else nn.AvgPool1d(9)
        self.last = nn.Linear(10 if method else 4, 2)
        self.milestones, self.used, self.dtypes = milestones, [], []

    def training_step(self, batch, index):
        self.used.append(self.pool.method)
        self.dtypes.append(getattr(self.pool, "compute_dtype", None))
        return nn.functional.cross_entropy(self.last(self.pool(batch[0])), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def fit(module, callback, epochs=2):
    batch = torch.utils.data.TensorDataset(torch.randn(4, 4, 9), torch.tensor([0, 1, 0, 1]))
    options = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar"), False)
    with quiet_lightning():
        trainer = pl.Trainer(
            max_epochs=epochs,
            callbacks=[callback],
            accelerator="cpu",
            enable_model_summary=False,
            **options,
        )
        trainer.fit(module, torch.utils.data.DataLoader(batch, batch_size=4))
    return module.used


def test_a_hybrid_training_ends_with_the_method_that_the_model_was_built_with():
    """The callback on a second model; and a training that ends before its switch."""
    callback = HybridProtocol(HybridSchedule(1, warmup_epochs=0))
    for method in ("exact", "svd-pade"):
        assert [used.name for used in fit(Own(method), callback)] == ["isqrt-cov", method]
    model = Own(Exact())
    with pytest.warns(UserWarning, match="this training never switches to exact: .* after epoch 1"):
        assert fit(model, callback, epochs=1) == [ISqrtCov()]
    assert fit(model, HybridProtocol(HybridSchedule(1), final="exact"))[1:] == [ISqrtCov(), Exact()]


def test_the_first_stage_has_a_precision_of_its_own():
    model = Own("exact")
    fit(model, HybridProtocol(HybridSchedule(1, start_dtype="float32")), epochs=3)
    assert model.dtypes == [torch.float32, None, None]
    fit(model, HybridProtocol(HybridSchedule(1)))
    assert model.dtypes[3:] == [None, None]


@pytest.mark.parametrize(
    ("module", "schedule", "message"),
    [
        (lambda: Own("exact"), {"start": "newton"}, "unknown method 'newton'"),
        (lambda: Own("isqrt-cov"), {}, "built with isqrt-cov, which the hybrid training starts"),
        (lambda: Own(None), {}, "Own has no CovariancePool"),
        (lambda: Own("exact", [1]), {"switch_epoch": 2}, "try milestones that end with 3"),
        (lambda: Own("exact", [9]), {"switch_epoch": 2}, "try switch_epoch=8"),
    ],
)
def test_advice_on_a_schedule_can_be_followed(module, schedule, message):
    with pytest.raises(ValueError, match=message):
        fit(module(), HybridProtocol(HybridSchedule(**{"switch_epoch": 1, **schedule})))
