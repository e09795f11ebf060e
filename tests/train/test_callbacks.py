"""Callbacks in real training runs of a small model: the monitor of spectra, and the average of weights."""

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

from rootpool.nn import CovariancePool
from rootpool.report.spectrum import spectrum_statistics
from rootpool.train.callbacks import SpectrumMonitor, weight_average
from rootpool.train.trainer import quiet_lightning


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.pool = CovariancePool(6, reduction=4)
        self.second = CovariancePool(6, "svd-trunc", compute_dtype=torch.float32)
        self.head = torch.nn.Linear(self.pool.out_features + self.second.out_features, 3)
        self.seen, self.weights = [], []  # of the covariances and the head, in every step

    def training_step(self, batch, index):
        x, y = batch
        self.seen.append(x)
        self.weights.append(self.head.weight.detach().clone())
        logits = self.head(torch.cat([self.pool(x), self.second(x)], 1))
        return torch.nn.functional.cross_entropy(logits, y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def fit(*callbacks):
    torch.manual_seed(0)
    net = Net()
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar"), False)
    x, y = torch.randn(24, 6, 3, 3), torch.randint(3, (24,))
    with quiet_lightning():
        trainer = Trainer(
            max_epochs=2,
            accelerator="cpu",
            callbacks=list(callbacks),
            enable_model_summary=False,
            **quiet,
        )
        trainer.fit(net, DataLoader(TensorDataset(x, y), batch_size=4))
    assert not any(module._forward_hooks for module in net.modules())
    return trainer, net


def test_the_monitor_records_what_enters_each_covariance_and_changes_nothing():
    monitor = SpectrumMonitor(every_n_steps=4)
    trainer, net = fit(monitor)
    assert [(r["step"], r["epoch"], r["pool"]) for r in monitor.records] == [
        (0, 0, "pool"), (0, 0, "second"), (4, 0, "pool"), (4, 0, "second"),
        (8, 1, "pool"), (8, 1, "second"),
    ]  # fmt: skip
    eps = torch.finfo(torch.float32).eps  # of the second pool
    for record in monitor.records[1::2]:
        expected = spectrum_statistics(net.seen[record["step"]], eps=eps)
        assert {k: record[k] for k in expected} == pytest.approx(expected, rel=1e-6)
    # The first pool reduces 6 channels to 4 in this state of its batch norm.
    assert all(r["rank"] <= 4 for r in monitor.records[::2])
    assert trainer.logged_metrics["spectrum/second/rank"] == monitor.records[-1]["rank"]
    for a, b in zip(fit()[1].parameters(), net.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("decay", [0.2, 0.999])
def test_the_average_of_weights_warms_up(decay):
    """A short training with 0.999 is otherwise validated with its first weights."""
    _, net = fit(weight_average(decay))  # which the network has at the end
    _, plain = fit()
    average = net.weights[1]
    for count, weight in enumerate([*net.weights[2:], plain.head.weight.detach()], 1):
        kept = min(decay, (1 + count) / (10 + count))
        average = kept * average + (1 - kept) * weight
    torch.testing.assert_close(net.head.weight.detach(), average)
    assert (net.head.weight - plain.head.weight).norm() < (net.weights[0] - average).norm()
