"""The effective configuration: defaults, types and errors."""

import inspect
from dataclasses import fields

import lightning.pytorch as pl
import pytest

from rootpool.report.records import parse_yaml
from rootpool.train import SettingsError, TrainerSettings, apply_overrides, resolve
from rootpool.train.settings import as_yaml


def typed(text):
    """Settings as a person types them behind a command."""
    return resolve(apply_overrides({}, text.split(" ; ")))


def test_defaults_of_the_trainer_are_lightning_s():
    known = inspect.signature(pl.Trainer).parameters
    for part in fields(TrainerSettings):
        assert part.default == known[part.name].default


def test_values_are_typed():
    """1 is one batch and 1.0 all of them."""
    for value in (1, 1.0):
        limit = typed(f"trainer.limit_train_batches={value}").trainer.limit_train_batches
        assert (limit, type(limit)) == (value, type(value))
    settings = typed("model.lr=1e-3 ; data.resize=[64, 48] ; data.mean=[0, 1, 0.5]")
    assert settings.model.lr == 0.001
    assert settings.data.resize == (64, 48)
    assert [type(x) for x in settings.data.mean] == [float] * 3
    assert typed("model.method_options={bound: 1e8}").model.method_options == {"bound": 1e8}


def test_the_effective_configuration_has_every_key_and_reads_back_to_itself():
    config = {
        "seed": 3,
        "model": {"method": "svd-trunc", "method_options": {"bound": 1e8}, "milestones": [1, 2]},
        "hybrid": {"switch_epoch": 1},
        "data": {"root": "`rm`; $(rm) && ../../x | %s {0}", "cache": "12e5"},
        "trainer": {"precision": "bf16-mixed", "strategy": {"name": "ddp", "bucket_cap_mb": 9}},
    }
    settings = resolve(config)
    assert (settings.data.root, settings.data.cache) == tuple(config["data"].values())
    assert resolve(parse_yaml(as_yaml(settings))) == settings


MISTAKES = {
    # Keys
    "model.lrr=0.1": "unknown key 'model.lrr'; did you mean model.lr",
    "lr=0.1": "unknown key 'lr'; did you mean model.lr",
    "trainer.epochs=3": "unknown key 'trainer.epochs'; .*trainer.max_epochs",
    "hybrid.switch=3": "unknown key 'hybrid.switch'; .* hybrid.switch_epoch",
    "hybrid.warmup_epochs=1": "hybrid needs hybrid.switch_epoch$",
    "model.branches=[{method: gap}]": "branches needs model.branches.stage$",
    # Types
    "model.milestones=6": r"must be a list such as \[5, 10\] or null, got 6$",
    "model.milestones=[6, x]": r"must be a list such as \[5, 10\] or null, got \[6, 'x'\]$",
    "trainer.precision=fp16": "must be 16, .*, bf16-mixed, .* or null, got 'fp16'$",
    "trainer.precision=16.0": "precision must be 16, .* or null, got 16.0$",
    "model.schedule=cos": "schedule must be steps, cosine, linear, got 'cos'",
    "data.resize=[64]": r"must be an integer or a pair such as \[256, 256\] or null, got \[64",
    "trainer.strategy.class_path=os.system": "unknown key 'trainer.strategy.class_path'",
    "trainer.strategy={reduce_dtype: float16}": "trainer.strategy needs trainer.strategy.name$",
    "trainer.strategy={name: fsdp2}": "trainer.strategy.name must be ddp, fsdp, got 'fsdp2'",
    "model.lr=fast": "model.lr must be a number, got 'fast'$",
    "model.lr=true": "model.lr must be a number, got True$",
    "model.branches=[5]": "model.branches must be settings such as .*stage=..., got 5$",
    "model.branches=5": "model.branches must be a list of settings or null, got 5$",
    "seed=1.5": "seed must be an integer, got 1.5$",
    "model=5": "model must be settings such as model.backbone=..., got 5$",
    "hybrid=5": "hybrid must be settings such as hybrid.switch_epoch=..., got 5$",
    "loggers=[csv, 3]": r"loggers must be a list such as \[a, b\], got",
    "conditioning=nag": r"conditioning must be nog, olr, nog\+olr or null, got 'nag'",
    # Ranges
    "model.lr=-0.1": "model.lr must be 0 or more, got -0.1",
    "model.backbone_lr=-0.1": "model.backbone_lr must be 0 or more, got -0.1",
    "model.pool_lr=-5": "model.pool_lr must be 0 or more, got -5",
    "model.lr=.inf": "model.lr must be 0 or more, got inf",
    "model.lr=.nan": "model.lr must be 0 or more, got nan",
    "model.label_smoothing=2": "model.label_smoothing must be from 0 to 1, got 2",
    "model.length=0": "model.length must be positive, got 0",
    "model.milestones=[-3]": r"milestones must be epochs from 1 on, got \[-3\]",
    "data.batch_size=0": "data.batch_size must be at least 1, got 0",
    "data.fraction=0": r"data.fraction must be in \(0, 1\], got 0",
    "data.views=0": "data.views must be at least 1, got 0",
    "ema=1.5": "ema must be between 0 and 1, such as 0.999, got 1.5",
    "seed=-1": "seed must be at least 0, got -1",
    "hybrid.switch_epoch=0": "switch_epoch must be at least 1, got 0; .* standalone",
    "hybrid={switch_epoch: 3, warmup_epochs: -1}": "warmup_epochs must not be negative",
    # Contradictions
    "model.schedule=cosine ; model.milestones=[1]": "of model.schedule=steps, got cosine",
    "model.unfreeze_epoch=3": "model.unfreeze_epoch needs model.freeze",
    "patience=2 ; trainer.limit_val_batches=0": "patience=2 waits for a lower validation error, and",
    "trainer.strategy={name: ddp, reshard_after_forward: true}": "ddp has no reshard_after_forward",
    "trainer.strategy={name: fsdp, static_graph: true}": "=fsdp has no static_graph; leave it out",
    "trainer.strategy=fsdp ; ema=0.9": "ema is for weights that are whole .*fsdp .*strategy=ddp",
    "trainer.strategy={name: fsdp} ; data.cache=x": "data.cache is for weights that are whole",
    # What is no override
    "model.lr": "is key=value",
    "=3": "is key=value",
    "model.lr=[1,": "the value of 'model.lr' is not YAML",
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.items(), ids=MISTAKES)
def test_what_cannot_be_used_is_named(text, message):
    with pytest.raises(SettingsError, match=message):
        typed(text)
