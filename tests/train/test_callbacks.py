"""Callbacks in real trainings: the monitor of spectra, and the average of weights."""

import pytest
import torch

from rootpool.nn import covariance_pools
from rootpool.report import read_records, spectrum_statistics
from small_runs import Seen, final, run, typed

pytestmark = pytest.mark.slow
WEIGHT = "model.classifier.weight"


class Noted(Seen):
    """Notes in every step what enters the covariance, and the weights before it."""

    def __init__(self):
        super().__init__()
        self.features, self.weights = [], []

    def on_train_batch_start(self, trainer, module, *_):
        self.weights.append(module.state_dict()[WEIGHT].clone())
        pool = covariance_pools(module)["model.pool"]
        hook = pool.reduction.register_forward_hook(lambda *args: self.features.append(args[-1]))
        self.remove = hook.remove

    def on_train_batch_end(self, *_):
        self.remove()


def noted_run(folder, text):
    config = typed(
        f"model.method=exact ; model.compute_dtype=float32 ; trainer.max_epochs=2 ; {text}"
    )
    noted = Noted()
    module = run(folder, config=config, callbacks=[noted]).module
    assert not any(part._forward_hooks for part in module.modules())
    return noted


def test_the_monitor_records_what_enters_a_covariance_and_changes_nothing(tmp_path):
    noted = noted_run(tmp_path / "watched", "spectrum_every=4")
    records = read_records(tmp_path / "watched" / "spectrum.csv")
    assert [(r["step"], r["epoch"], r["pool"]) for r in records] == [
        (step, step // 6, "model.pool") for step in (0, 4, 8)
    ]
    eps = torch.finfo(torch.float32).eps
    for record in records:
        expected = spectrum_statistics(noted.features[record["step"]], eps=eps)
        assert {k: record[k] for k in expected} == pytest.approx(expected, rel=1e-6)
    noted_run(tmp_path / "plain", "seed=0")
    ours, plain = (final(tmp_path / name)["state_dict"] for name in ("watched", "plain"))
    assert all(torch.equal(ours[name], plain[name]) for name in plain)


@pytest.mark.parametrize("decay", [0.2, 0.999])
def test_the_average_of_weights_warms_up(decay, tmp_path):
    """A short training with 0.999 is otherwise validated with its first weights."""
    weights = noted_run(tmp_path / "averaged", f"ema={decay}").weights
    noted_run(tmp_path / "plain", "seed=0")
    found, last = (final(tmp_path / name)["state_dict"][WEIGHT] for name in ("averaged", "plain"))
    average = weights[1]
    for count, weight in enumerate([*weights[2:], last], 1):
        kept = min(decay, (1 + count) / (10 + count))
        average = kept * average + (1 - kept) * weight
    torch.testing.assert_close(found, average)
    assert (found - last).norm() < (weights[0] - average).norm()
