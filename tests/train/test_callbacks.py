"""Callbacks in real training runs of a small model: the monitor of spectra, and the average of weights."""

import contextlib

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

from rootpool.nn import CovariancePool
from rootpool.report.spectrum import spectrum_statistics
from rootpool.train.callbacks import SpectrumMonitor, weight_average


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.pool = CovariancePool(6, reduction=4)
        self.second = CovariancePool(6, "svd-trunc", compute_dtype=torch.float32)
        self.head = torch.nn.Linear(self.pool.out_features + self.second.out_features, 3)
        self.seen, self.weights = (
            [],
            [],
        )  # what entered the covariances, and the head, in every step

    def training_step(self, batch, index):
        x, y = batch
        self.seen.append(x)
        self.weights.append(self.head.weight.detach().clone())
        logits = self.head(torch.cat([self.pool(x), self.second(x)], 1))
        if index == getattr(self, "broken_at", None):
            raise RuntimeError("broken on purpose")
        return torch.nn.functional.cross_entropy(logits, y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def fit(*callbacks, epochs=2, broken_at=None, **options):
    torch.manual_seed(0)
    net = Net()
    net.broken_at = broken_at
    trainer = Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        callbacks=list(callbacks),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(24, 6, 3, 3, generator=g), torch.randint(3, (24,), generator=g)
    with pytest.raises(RuntimeError, match="broken") if broken_at else contextlib.nullcontext():
        trainer.fit(net, DataLoader(TensorDataset(x, y), batch_size=4))
    return trainer, net


def hooks(net):
    return sum(len(m._forward_hooks) + len(m._backward_hooks) for m in net.modules())


pytestmark = pytest.mark.filterwarnings(
    "ignore:.*does not have many workers",
    "ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning",  # Lightning's own
)


@pytest.mark.parametrize("samples", [None, 2])
def test_the_monitor_records_what_enters_each_covariance(samples):
    watcher = SpectrumMonitor(every_n_steps=4, samples=samples)
    trainer, net = fit(watcher)
    assert [(r["step"], r["epoch"], r["pool"]) for r in watcher.records] == [
        (0, 0, "pool"), (0, 0, "second"), (4, 0, "pool"), (4, 0, "second"),
        (8, 1, "pool"), (8, 1, "second"),
    ]  # fmt: skip
    eps = torch.finfo(torch.float32).eps  # of the second pool
    for record in watcher.records[1::2]:
        expected = spectrum_statistics(net.seen[record["step"]][:samples], eps=eps)
        assert {k: record[k] for k in expected} == pytest.approx(expected, rel=1e-6)
    # The first pool reduces 6 channels to 4 in this state of its batch norm.
    assert all(r["rank"] <= 4 for r in watcher.records[::2])
    assert hooks(net) == 0
    assert trainer.logged_metrics["spectrum/second/rank"] == watcher.records[-1]["rank"]


def test_the_monitor_does_not_change_the_training_and_is_off_by_default():
    off = SpectrumMonitor()
    (_, plain), (_, watched) = fit(off), fit(SpectrumMonitor(1))
    assert off.records == []
    for a, b in zip(plain.parameters(), watched.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_accumulated_gradients_are_measured_once_per_step():
    watcher = SpectrumMonitor(every_n_steps=1)
    fit(watcher, epochs=1, accumulate_grad_batches=3)
    assert [r["step"] for r in watcher.records if r["pool"] == "pool"] == [0, 1]


def test_hooks_go_when_training_breaks():
    _, net = fit(SpectrumMonitor(every_n_steps=1), broken_at=2)
    assert len(net.seen) == 3
    assert hooks(net) == 0


def test_wrong_arguments():
    with pytest.raises(ValueError, match="every_n_steps must be an integer >= 0, got -1"):
        SpectrumMonitor(every_n_steps=-1)
    with pytest.raises(ValueError, match="samples must be an integer >= 1, got 0"):
        SpectrumMonitor(samples=0)


def test_only_the_process_of_rank_zero_measures():
    class Elsewhere:
        global_step, current_epoch, is_global_zero = 0, 0, False

    net, watcher, trainer = Net(), SpectrumMonitor(every_n_steps=1), Elsewhere()
    watcher.on_train_batch_start(trainer, net, None, 0)
    assert hooks(net) == 0
    trainer.is_global_zero = True
    watcher.on_train_batch_start(trainer, net, None, 0)
    assert hooks(net) == 2


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
