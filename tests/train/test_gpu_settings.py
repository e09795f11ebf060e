"""Settings for GPUs that a CPU can try: fewer looks at values, checkpoints by time, the solver's device."""

from dataclasses import asdict

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

from fake_cuda import Waits
from images import make_image_tree
from rootpool.linalg.checks import checks_enabled
from rootpool.nn import covariance_pools, fused
from rootpool.train import load_run, prepare, resolve
from rootpool.train.data.transforms import before_normalisation, imagenet_transforms
from rootpool.train.export import export_run
from rootpool.train.strategies import Sharded, make_strategy
from small_runs import Seen, assert_same_state, final, run, stopped_run, typed

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


class Batches(Seen):
    """Keeps what the network takes."""

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx) -> None:
        self.samples[trainer.global_step] = batch[0]


@pytest.mark.parametrize("precision", [32, 64])
def test_bytes_are_normalised_to_the_same_images(precision, tmp_path):
    data = make_image_tree(tmp_path / "data", classes=2, size=(40, 50))
    taken = {}
    for whether in (False, True):
        config = typed(
            f"data.root={data} ; data.as_bytes={whether} ; data.augment=randaugment ; data.resize=36"
            f" ; data.crop=32 ; trainer.precision={precision} ; trainer.max_epochs=1"
            " ; model.backbone=test_resnet"
        )
        batches = Batches()
        done = run(tmp_path / str(whether), config=config, callbacks=[batches])
        image, _ = done.data.splits.train[0]
        assert image.dtype == (torch.uint8 if whether else torch.float32)
        taken[whether] = torch.cat(list(batches.samples.values()))
    assert taken[True].dtype == getattr(torch, f"float{precision}")
    assert (taken[True] - taken[False]).abs().max() <= 4 * torch.finfo(torch.float32).eps
    exported = export_run(load_run(tmp_path / "True"), tmp_path / "net.pt2")
    assert exported.difference < 1e-3 * exported.largest


def test_bytes_are_normalised_without_a_wait():
    with FakeTensorMode(), Waits() as waits:
        images = torch.zeros(2, 3, 4, 4, dtype=torch.uint8, device="cuda")
        _, rest = before_normalisation(imagenet_transforms()[1])
        assert rest(images).device.type == "cuda"
    assert waits.count == 0


def test_the_device_of_the_solver_is_a_setting(tmp_path):
    config = typed("model.method=exact ; model.solver_device=cpu")
    pools = covariance_pools(prepare(resolve(config), tmp_path, progress=False).module)
    assert [pool.solver_device for pool in pools.values()] == ["cpu"]


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # which the compiler asks for
def test_a_compiled_run_is_resumed_to_the_bit_and_keeps_the_names_of_its_weights(
    tmp_path, monkeypatch
):
    """By a backend that compiles in a moment; the switch of the method compiles anew."""
    compiler, asked = torch.compile, []

    def quick(model, mode):
        asked.append(mode)
        return compiler(model, backend="aot_eager")

    monkeypatch.setattr(torch, "compile", quick)
    settings = "model.method=svd-pade ; hybrid.switch_epoch=1 ; save_every=1"
    run(tmp_path / "eager", config=typed(settings))
    config = typed(f"{settings} ; model.compile=default")
    run(tmp_path / "whole", config=config)
    stopped_run(tmp_path / "cut", 9, config=config)
    run(tmp_path / "cut", resume=True, config=config)
    assert asked == 9 * ["default"]  # backbone, pooling and classifier, each three times
    assert_same_state(final(tmp_path / "cut"), final(tmp_path / "whole"))
    compiled, eager = (final(tmp_path / name)["state_dict"] for name in ("whole", "eager"))
    assert compiled.keys() == eager.keys()
    for name, weight in eager.items():
        assert torch.allclose(compiled[name], weight, rtol=1e-4, atol=1e-5), name


def test_strategies_by_name_and_with_options():
    assert make_strategy("auto") == "auto"
    options = resolve(typed("trainer.strategy={name: ddp, reduce_dtype: bfloat16}")).trainer
    ddp = make_strategy(asdict(options)["strategy"])
    assert (ddp._ddp_comm_hook, ddp._ddp_kwargs) == (bf16_compress_hook, {})
    assert make_strategy({"name": "ddp", "static_graph": True})._ddp_kwargs["static_graph"]
    assert make_strategy("fsdp").options["mp_policy"].reduce_dtype is None
    options = {"name": "fsdp", "reduce_dtype": "bfloat16", "reshard_after_forward": False}
    fsdp = make_strategy(options)
    assert isinstance(fsdp, Sharded)
    assert fsdp.options["mp_policy"].reduce_dtype == torch.bfloat16
    assert fsdp.options["reshard_after_forward"] is False
