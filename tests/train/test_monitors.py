"""The spectrum monitor in real training runs of a small model."""

import pytest
import torch

lightning = pytest.importorskip("lightning.pytorch")

from lightning.pytorch import LightningModule, Trainer  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from rootpool.nn import CovariancePool  # noqa: E402
from rootpool.report.records import read_records  # noqa: E402
from rootpool.report.spectrum import spectrum_statistics  # noqa: E402
from rootpool.train.monitors import EpochTimer, SpectrumMonitor  # noqa: E402


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.pool = CovariancePool(6, reduction=4)
        self.second = CovariancePool(6, "svd-trunc", compute_dtype=torch.float32)
        self.head = torch.nn.Linear(self.pool.out_features + self.second.out_features, 3)
        self.seen = []  # what entered the covariances, in every forward

    def forward(self, x):
        return self.head(torch.cat([self.pool(x), self.second(x)], 1))

    def training_step(self, batch, _):
        x, y = batch
        x = x.clone().requires_grad_()
        loss = torch.nn.functional.cross_entropy(self(x), y)
        self.seen.append(x.detach())
        return loss

    def validation_step(self, batch, _):
        self(batch[0])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def batches(count=6):
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(4 * count, 6, 3, 3, generator=g), torch.randint(3, (4 * count,), generator=g)
    return DataLoader(TensorDataset(x, y), batch_size=4)


def fit(*callbacks, epochs=2, checkpoint=None, **options):
    torch.manual_seed(0)
    net = Net()
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
    trainer.fit(net, batches(), batches(2), ckpt_path=checkpoint)
    return trainer, net


def hooks(net):
    return sum(len(m._forward_hooks) + len(m._backward_hooks) for m in net.modules())


pytestmark = pytest.mark.filterwarnings(
    "ignore:.*does not have many workers",
    "ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning",  # Lightning's own
)


def test_off_by_default():
    watcher = SpectrumMonitor()
    _, net = fit(watcher, epochs=1)
    assert watcher.records == []
    assert hooks(net) == 0


def test_spectrum_monitor_records_what_enters_each_covariance():
    watcher = SpectrumMonitor(every_n_steps=4)
    trainer, net = fit(watcher)
    assert [(r["step"], r["epoch"], r["pool"]) for r in watcher.records] == [
        (0, 0, "pool"), (0, 0, "second"), (4, 0, "pool"), (4, 0, "second"),
        (8, 1, "pool"), (8, 1, "second"),
    ]  # fmt: skip
    eps = torch.finfo(torch.float32).eps  # of the second pool
    for record in watcher.records[1::2]:
        expected = spectrum_statistics(net.seen[record["step"]], eps=eps)
        assert {k: record[k] for k in expected} == pytest.approx(expected, rel=1e-6)
    # The first pool reduces 6 channels to 4 in this state of its batch norm.
    assert all(r["rank"] <= 4 for r in watcher.records[::2])
    assert hooks(net) == 0
    logged = trainer.logged_metrics["spectrum/second/rank"]
    assert logged == watcher.records[-1]["rank"]


def test_the_monitor_does_not_change_the_training():
    _, plain = fit()
    _, watched = fit(SpectrumMonitor(1))
    for a, b in zip(plain.parameters(), watched.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_samples_limits_the_maps():
    watcher = SpectrumMonitor(every_n_steps=100, samples=2)
    _, net = fit(watcher, epochs=1)
    expected = spectrum_statistics(net.seen[0][:2], eps=torch.finfo(torch.float32).eps)
    assert {k: watcher.records[1][k] for k in expected} == pytest.approx(expected, rel=1e-6)


def test_accumulated_gradients_are_measured_once_per_step():
    watcher = SpectrumMonitor(every_n_steps=1)
    _, net = fit(watcher, epochs=1, accumulate_grad_batches=3)
    assert [r["step"] for r in watcher.records if r["pool"] == "pool"] == [0, 1]


def test_records_survive_a_checkpoint(tmp_path):
    first = SpectrumMonitor(every_n_steps=2)
    trainer, _ = fit(first, epochs=1)
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    second = SpectrumMonitor(every_n_steps=2)
    fit(second, epochs=2, checkpoint=tmp_path / "half.ckpt")
    whole = SpectrumMonitor(every_n_steps=2)
    fit(whole, epochs=2)
    assert second.records[: len(first.records)] == first.records
    assert [(r["step"], r["pool"]) for r in second.records] == [
        (r["step"], r["pool"]) for r in whole.records
    ]


def test_hooks_go_when_training_breaks():
    class Broken(Net):
        def training_step(self, batch, _):
            self(batch[0])
            raise RuntimeError("broken on purpose")

    net, watcher = Broken(), SpectrumMonitor(every_n_steps=1)
    trainer = Trainer(
        max_epochs=1, accelerator="cpu", callbacks=[watcher], logger=False, limit_val_batches=0,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    with pytest.raises(RuntimeError, match="broken on purpose"):
        trainer.fit(net, batches(), batches(2))
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


def test_seconds_of_every_epoch_also_after_a_resume(tmp_path):
    path = tmp_path / "timing.csv"
    trainer, _ = fit(EpochTimer(path), epochs=2)
    before = read_records(path)
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    fit(EpochTimer(path), epochs=3, checkpoint=tmp_path / "half.ckpt")
    assert [record["epoch"] for record in read_records(path)] == [0, 1, 2]
    assert read_records(path)[:2] == before
    fit(EpochTimer(path), epochs=1)  # a new run does not keep the old one
    assert [record["epoch"] for record in read_records(path)] == [0]
