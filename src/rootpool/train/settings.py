"""Every key of a configuration, declared once: its type, its default and what it means. Without torch.

A configuration is a nested dictionary, from a recipe, a file or the command line; `resolve` checks it and
fills in the defaults. ``rootpool train --show`` prints them, and a run keeps them in ``config.yaml``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from rootpool.report.records import flatten, to_yaml

from .config import SettingsError, from_dictionary

__all__ = [
    "BranchSettings",
    "DataSettings",
    "HybridSchedule",
    "ModelSettings",
    "Settings",
    "StrategySettings",
    "TrainerSettings",
    "as_yaml",
    "check_same",
    "resolve",
]

# Numbers that make sense. Torch would refuse others in the middle of a step, or take them without a word.
NonNegative = Annotated[float, "0 or more", lambda x: 0 <= x < math.inf]
Positive = Annotated[float, "positive", lambda x: 0 < x < math.inf]
Share = Annotated[float, "from 0 to 1", lambda x: 0 <= x <= 1]
Part = Annotated[float, "in (0, 1]", lambda x: 0 < x <= 1]
Count = Annotated[int, "at least 0", lambda x: x >= 0]
Epochs = Annotated[list[int], "epochs from 1 on", lambda x: all(e >= 1 for e in x)]
OneOrMore = Annotated[int, "at least 1", lambda x: x >= 1]


@dataclass(frozen=True)
class BranchSettings:
    """The pooling of one stage. What it leaves out is as in ``ModelSettings``.

    Args:
        stage: a module of the backbone, such as ``blocks.5``, or ``last`` for its last map, or ``average``
            for the average of this map over its positions.
        method: a name in ``METHODS``, or ``gap``, with the parameters of the paper.
        reduction: channels after the 1x1 convolution before the pooling; 0 for no convolution.
        length: Euclidean length of its vector, which is its weight among the branches.
        power: of the entries of its vector, before that.
    """

    stage: str
    method: str | None = None
    reduction: Count | None = None
    length: Positive | None = None
    power: Positive | None = None


@dataclass(frozen=True)
class ModelSettings:
    """A network and how it learns; by default as in the paper.

    Args:
        backbone: a name that `rootpool.models.create_model` knows.
        backbone_options: its options, such as ``{"last_stride": 1}``.
        method: a name in ``METHODS``, or ``"gap"`` for average pooling.
        method_options: its parameters, such as ``{"bound": 1e8}``; None for the paper's.
        reduction: channels after the 1x1 convolution before the covariance; None for the backbone's own
            choice.
        length: Euclidean length that every pooled vector is scaled to; None for no scaling.
        power: of the entries of the vector, before it is scaled; 0.5 for signed square roots.
        branches: the stages that are pooled side by side, their vectors in one; None for the last map alone.
        compute_dtype: what the pooling computes in; None for float64 where the device has it.
        solver_device: where the pooling decomposes, such as ``cpu``; None as in `covariance_pool`.
        mirrored: whether evaluation averages the logits of each image and of its mirror image.
        weights: a checkpoint to start from, or the folder of a run; its classifier is left out when its
            number of classes differs.
        freeze: ``backbone``, or the name of its last module that is frozen, such as ``layer3.0``.
        frozen_norms: whether batch norms of the backbone keep their statistics, also in stages that learn;
            their scales and shifts learn there.
        channels_last: whether convolutions have their channels last in memory: the same results but for
            rounding, often faster on a CPU, and in half precision on a GPU.
        compile: the mode of ``torch.compile``, for a training; None for no compilation.
        unfreeze_epoch: the epoch at whose beginning the frozen stages begin to learn; None for never.
        drop: ``adaptive`` for dropout of channels before the covariance (DropCov); None for none.
        drop_rate: dropout before the classifier.
        optimizer: a name of torch.optim in lower case, or of timm's optimizers.
        optimizer_options: its options, such as ``{"betas": [0.9, 0.98]}``.
        lr: initial learning rate (of the classifier, when ``backbone_lr`` is given).
        backbone_lr: initial learning rate of everything before the classifier; None for ``lr``, 0 to
            train only the classifier.
        pool_lr: initial learning rate of the reduction, where it is new and the backbone is not; None for
            ``backbone_lr``.
        momentum: of SGD, and of others that have one.
        weight_decay: of the optimizer.
        decay_norms: whether norm layers and biases have weight decay too.
        schedule: of the learning rate: ``steps``, ``cosine`` or ``linear``.
        milestones: epochs at whose beginning ``steps`` divides the rate by ten.
        warmup_epochs: of a linear rise of the rate at the beginning; may be a fraction.
        min_share: the share of the rate that ``cosine`` and ``linear`` end with.
        label_smoothing: of the training loss.
        mixup: alpha of MixUp; 0 for none.
        cutmix: alpha of CutMix; 0 for none.
    """

    backbone: str = "patchnet"
    backbone_options: dict[str, Any] | None = None
    method: str = "exact"
    method_options: dict[str, Any] | None = None
    reduction: int | None = None
    length: Positive | None = None
    power: Positive = 1.0
    branches: list[BranchSettings] | None = None
    compute_dtype: Literal["float32", "float64"] | None = None
    solver_device: str | None = None
    mirrored: bool = False
    weights: str | None = None
    freeze: str | None = None
    frozen_norms: bool = False
    channels_last: bool = False
    compile: Literal["default", "reduce-overhead", "max-autotune"] | None = None
    unfreeze_epoch: int | None = None
    drop: Literal["adaptive"] | None = None
    drop_rate: Share = 0.0
    optimizer: str = "sgd"
    optimizer_options: dict[str, Any] | None = None
    lr: NonNegative = 0.1
    backbone_lr: NonNegative | None = None
    pool_lr: NonNegative | None = None
    momentum: Share = 0.9
    weight_decay: NonNegative = 1e-4
    decay_norms: bool = True
    schedule: Literal["steps", "cosine", "linear"] = "steps"
    milestones: Epochs | None = None
    warmup_epochs: NonNegative = 0.0
    min_share: Share = 0.0
    label_smoothing: Share = 0.0
    mixup: NonNegative = 0.0
    cutmix: NonNegative = 0.0

    def __post_init__(self) -> None:
        if self.milestones and self.schedule != "steps":
            raise SettingsError(
                f"model.milestones={self.milestones} are those of model.schedule=steps, got "
                f"{self.schedule}; leave one of them out"
            )
        if self.unfreeze_epoch is not None and not self.freeze:
            raise SettingsError("model.unfreeze_epoch needs model.freeze, such as backbone")


@dataclass(frozen=True)
class DataSettings:
    """Images in a folder, or an embedded data set.

    Args:
        root: a folder that `open_splits` recognises, or a name in ``EMBEDDED``, such as ``photo-patches``.
        transform: a name in ``TRANSFORMS``; not used for embedded data, which have their own.
        resize: pixels of the shorter side, or height and width, before the crop; None for the
            transform's own.
        crop: pixels that the network sees; None for the transform's own.
        augment: further random changes for training, a name in ``AUGMENTATIONS`` such as ``randaugment``.
        statistics: ``imagenet``, or ``pretrained`` for mean, standard deviation and interpolation of the
            backbone's pretrained weights, and for their resize and crop where none is given.
        mean: of the pixels of each colour; None for the choice of ``statistics``.
        std: their standard deviation; None likewise.
        interpolation: of resizing; None likewise.
        val_share: of a folder of classes without a split, the share of each for validation.
        fraction: the share of the training images that is used, of each class, for a quick look.
        hold_out: whether to validate on ``val_share`` of the training images, which are not trained on
            then, instead of the validation images: to choose settings. The same ones for every seed.
        cache: a folder that caches the features of the frozen stages, for image files. Training then
            runs only the other stages.
        views: of each training image that are cached, each by the transform for training.
        batch_size: samples of a training step, over *all* processes.
        workers: loading processes for each training process.
        on_bad_image: ``raise`` at the first unreadable image, or ``skip`` those.
        as_bytes: whether workers deliver bytes, which the device normalises: a quarter of the traffic.
    """

    root: str = "photo-patches"
    transform: str = "imagenet"
    resize: int | tuple[int, int] | None = None
    crop: int | None = None
    augment: str | None = None
    statistics: Literal["imagenet", "pretrained"] = "imagenet"
    mean: list[float] | None = None
    std: list[float] | None = None
    interpolation: Literal["bilinear", "bicubic"] | None = None
    val_share: float = 0.2
    fraction: Part = 1.0
    hold_out: bool = False
    cache: str | None = None
    views: OneOrMore = 4
    batch_size: OneOrMore = 256
    workers: Count = 4
    on_bad_image: Literal["raise", "skip"] = "raise"
    as_bytes: bool = False


@dataclass(frozen=True)
class HybridSchedule:
    """The epochs of a hybrid training.

    The start method for ``switch_epoch`` epochs, then the final method: for ``warmup_epochs`` at the old
    learning rate, which is the warm-up, and for all others at the decayed rate. The decay that ends the
    warm-up is the last one of the learning-rate schedule. The paper warms up for one epoch with AlexNet and
    for two with ResNets.

    Args:
        switch_epoch: epochs before the switch to the final method.
        warmup_epochs: epochs from the switch to the last decay; 0 switches at the decay.
        start: method before the switch.
        start_dtype: what it computes in; None for ``model.compute_dtype``.

    >>> schedule = HybridSchedule(switch_epoch=19, warmup_epochs=1)
    >>> [schedule.stage(epoch) for epoch in (18, 19, 20)]
    ['start', 'warm-up', 'final']
    """

    switch_epoch: int
    warmup_epochs: int = 1
    start: str = "isqrt-cov"
    start_dtype: Literal["float32", "float64"] | None = None

    def __post_init__(self) -> None:
        if self.switch_epoch < 1:
            raise SettingsError(
                f"switch_epoch must be at least 1, got {self.switch_epoch}; "
                "without a first stage the training is standalone: leave the schedule out"
            )
        if self.warmup_epochs < 0:
            raise SettingsError(f"warmup_epochs must not be negative, got {self.warmup_epochs}")

    @property
    def decay_epoch(self) -> int:
        """First epoch at the last learning rate."""
        return self.switch_epoch + self.warmup_epochs

    def stage(self, epoch: int) -> str:
        """One of ``start``, ``warm-up`` and ``final``."""
        stages = ("start", "warm-up", "final")
        return stages[(epoch >= self.switch_epoch) + (epoch >= self.decay_epoch)]


@dataclass(frozen=True)
class StrategySettings:
    """A strategy with options, which torch documents; None for its own default.

    Args:
        name: ``ddp``, or ``fsdp``: each process keeps its share of weights, gradients and momenta.
        reduce_dtype: precision that gradients are exchanged in; None for their own.
        static_graph: of ddp.
        gradient_as_bucket_view: of ddp.
        bucket_cap_mb: of ddp.
        reshard_after_forward: of fsdp.
    """

    name: Literal["ddp", "fsdp"]
    reduce_dtype: Literal["bfloat16", "float16"] | None = None
    static_graph: bool | None = None
    gradient_as_bucket_view: bool | None = None
    bucket_cap_mb: OneOrMore | None = None
    reshard_after_forward: bool | None = None

    def __post_init__(self) -> None:
        sharing = ("reshard_after_forward",)
        others = ("static_graph", "gradient_as_bucket_view", "bucket_cap_mb")
        for option in sharing if self.name == "ddp" else others:
            if getattr(self, option) is not None:
                raise SettingsError(f"trainer.strategy={self.name} has no {option}; leave it out")


@dataclass(frozen=True)
class TrainerSettings:
    """Arguments of Lightning's Trainer, which documents them; None for its own default.

    Other keys decide its callbacks (``patience``, ``ema``, ``hybrid``, ``save_every``) and loggers.
    """

    max_epochs: int | None = None
    max_steps: int = -1
    max_time: str | dict[str, Any] | None = None
    accelerator: str = "auto"
    strategy: str | StrategySettings = "auto"
    devices: int | str | list[int] = "auto"
    num_nodes: int = 1
    precision: (
        Literal[16, 32, 64, "16-mixed", "16-true", "bf16-mixed", "bf16-true", "64-true"] | None
    ) = None
    sync_batchnorm: bool = False
    accumulate_grad_batches: OneOrMore = 1
    gradient_clip_val: NonNegative | None = None
    gradient_clip_algorithm: str | None = None
    limit_train_batches: int | float | None = None
    limit_val_batches: int | float | None = None
    overfit_batches: int | float = 0.0
    fast_dev_run: int | bool = False
    check_val_every_n_epoch: int | None = 1
    num_sanity_val_steps: int | None = None
    log_every_n_steps: int | None = None
    deterministic: bool | Literal["warn"] | None = None
    benchmark: bool | None = None
    detect_anomaly: bool = False
    profiler: str | None = None


@dataclass(frozen=True)
class Settings:
    """The effective configuration of a run.

    Args:
        seed: of weights, order and augmentation.
        hybrid: the schedule of a hybrid training; None for a standalone one.
        save_every: steps between checkpoints within an epoch; 0 for none.
        save_minutes: minutes between checkpoints within an epoch; 0 for none.
        checks: whether values are checked in every step, which makes the host wait for a GPU. Without,
            training goes on with weights that are not finite, and saves none of them.
        spectrum_every: steps between records of the spectra; 0 for none.
        patience: epochs without a lower validation error after which a training ends; 0 for never.
        ema: decay of the averaged weights, such as 0.999; None for no average.
        conditioning: of the layer before the covariance: its gradient orthogonalised (``nog``), its learning
            rate the optimal one (``olr``).
        loggers: names of Lightning's loggers.
        model: the network and how it learns.
        data: the images.
        trainer: of Lightning.
    """

    seed: Count = 0
    hybrid: HybridSchedule | None = None
    save_every: Count = 0
    save_minutes: NonNegative = 0.0
    checks: bool = True
    spectrum_every: Count = 0
    patience: Count = 0
    ema: Annotated[float, "between 0 and 1, such as 0.999", lambda x: 0 < x < 1] | None = None
    conditioning: Literal["nog", "olr", "nog+olr"] | None = None
    loggers: list[str] = field(default_factory=lambda: ["tensorboard"])
    model: ModelSettings = field(default_factory=ModelSettings)
    data: DataSettings = field(default_factory=DataSettings)
    trainer: TrainerSettings = field(default_factory=TrainerSettings)

    def __post_init__(self) -> None:
        if self.patience and self.trainer.limit_val_batches == 0:
            raise SettingsError(
                f"patience={self.patience} waits for a lower validation error, and "
                "trainer.limit_val_batches=0 leaves out the validation; leave out one of them"
            )
        whole = {
            "conditioning": self.conditioning,
            "data.cache": self.data.cache,
            "ema": self.ema,
            "trainer.sync_batchnorm": self.trainer.sync_batchnorm,
        }
        if "fsdp" in (self.trainer.strategy, getattr(self.trainer.strategy, "name", None)):
            for key in [key for key, value in whole.items() if value]:
                raise SettingsError(
                    f"{key} is for weights that are whole in each process, and trainer.strategy=fsdp shares "
                    "them out; leave one of them out, or train with trainer.strategy=ddp"
                )


def resolve(config: Mapping[str, Any]) -> Settings:
    """The effective configuration: checked, typed, with all defaults.

    Raises:
        SettingsError: for unknown keys (with the nearest known one) and values of a wrong type.

    >>> resolve({"model": {"lr": 1}}).model.lr
    1.0
    """
    return from_dictionary(Settings, config)


def as_yaml(settings: Settings) -> str:
    """The effective configuration as YAML that `resolve` reads back to the same."""
    return to_yaml(dataclasses.asdict(settings))


# What may change when a run is continued: where and how fast it computes, what it writes, when it ends.
_FREE = {
    *("checks", "data.root", "data.workers", "loggers", "model.solver_device", "model.weights"),
    *("patience", "save_every", "save_minutes", "spectrum_every"),
}
# What decides which numbers are learned, among the arguments of the Trainer.
_FIXED = {
    *("trainer.accumulate_grad_batches", "trainer.gradient_clip_algorithm"),
    *("trainer.gradient_clip_val", "trainer.limit_train_batches", "trainer.overfit_batches"),
    *("trainer.precision", "trainer.sync_batchnorm"),
}
_LENGTH = {"trainer.max_epochs", "trainer.max_steps"}  # which cosine and linear reach the end by


def check_same(before: Mapping[str, Any], settings: Settings) -> None:
    """Raise if a run that is continued would differ from the one in its ``config.yaml``.

    Args:
        before: the content of the file.
        settings: what is asked for now.
    """
    fixed = _FIXED if settings.model.schedule == "steps" else _FIXED | _LENGTH
    old, new = (flatten(dataclasses.asdict(each)) for each in (resolve(before), settings))
    changed = [
        f"{key} was {old.get(key)} and is {new.get(key)}"
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
        and (key in fixed or not (key in _FREE or key.startswith("trainer.")))
    ]
    if changed:
        raise SettingsError(
            f"the run that is to be continued had other settings: {'; '.join(changed)}. Leave them out, or "
            "begin a new run with another --output (and --weights to start from this one)"
        )
