"""Settings for GPUs that a CPU can try: fewer looks at values, checkpoints by time, the solver's device."""

import pytest
import torch

from fake_cuda import Waits
from rootpool.linalg.checks import checks_enabled
from rootpool.nn import covariance_pools, fused
from rootpool.train import prepare, resolve
from small_runs import Seen, final, run, typed

pytestmark = pytest.mark.slow


class Counted(Seen):
    """Counts the waits of the third step."""

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx) -> None:
        if trainer.global_step == 2:
            self.waits, self.checked = Waits(), checks_enabled()
            self.waits.__enter__()

    def on_train_batch_end(self, trainer, *_) -> None:
        if trainer.global_step == 3:
            self.waits.__exit__(None, None, None)


def test_without_checks_the_host_never_waits_and_the_run_is_the_same(
    tmp_path, threads, monkeypatch
):
    threads(1)
    monkeypatch.setattr(fused, "_on_cpu", lambda tensor: False)
    counted = {}
    for checks in (True, False):
        seen = counted[checks] = Counted()
        config = typed(f"model.method=exact ; checks={checks}")
        run(tmp_path / str(checks), config=config, callbacks=[seen])
        assert seen.checked == checks
    assert checks_enabled()
    assert counted[True].waits.count > 0
    assert counted[False].waits.count == 0
    known, unchecked = (final(tmp_path / str(checks))["state_dict"] for checks in (True, False))
    for name, weight in known.items():
        assert torch.equal(weight, unchecked[name]), name


@pytest.mark.parametrize(("minutes", "steps"), [(1e-9, {6, 12, 18, 5, 11, 17}), (60, {6, 12, 18})])
def test_checkpoints_by_time(minutes, steps, tmp_path):
    saved = set()

    class Saves(Seen):
        def on_save_checkpoint(self, trainer, pl_module, checkpoint):
            saved.add(checkpoint["global_step"])

    run(tmp_path, config=typed(f"save_minutes={minutes}"), callbacks=[Saves()])
    assert steps <= saved
    assert (saved == {6, 12, 18}) == (minutes == 60)


def test_the_device_of_the_solver_is_a_setting(tmp_path):
    config = typed("model.method=exact ; model.solver_device=cpu")
    pools = covariance_pools(prepare(resolve(config), tmp_path, progress=False).module)
    assert [pool.solver_device for pool in pools.values()] == ["cpu"]
