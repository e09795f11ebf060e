"""Lightning callbacks that look at every covariance pool of a model while it trains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from rootpool.nn import CovariancePool

from .gradients import kernel_statistics, tensor_statistics
from .spectrum import spectrum_statistics

__all__ = ["GradientMonitor", "PoolMonitor", "SpectrumMonitor"]

Record = dict[str, Any]


class PoolMonitor(Callback, ABC):
    """Records of what enters the covariance of every :class:`CovariancePool`, every k steps.

    In a step that is looked at, hooks are put on the pools before the forward and taken off after the
    step; in every other step nothing is there at all. The process of rank zero alone looks, at its
    own share of the batch. With accumulated gradients the first batch of a step is looked at.

    Args:
        every_n_steps: optimizer steps between two looks; 0, the default, never looks.
        samples: look at so many maps of the batch, the first ones; None: all.

    Attributes:
        records: one flat dict for a look and pool: ``step``, ``epoch``, ``pool`` (the name of the
            module) and the statistics. They are in the checkpoint, and a resumed run goes on with them.
    """

    prefix: str

    def __init__(self, every_n_steps: int = 0, samples: int | None = None) -> None:
        for name, value, least in (("every_n_steps", every_n_steps, 0), ("samples", samples, 1)):
            if value is not None and (not isinstance(value, int) or value < least):
                raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
        self.every_n_steps = every_n_steps
        self.samples = samples
        self.records: list[Record] = []
        self._step = -1  # of the last look
        self._fresh: list[Record] = []
        self._handles: list[RemovableHandle] = []

    @abstractmethod
    def watch(self, pool: CovariancePool, write: Callable[[Record], None]) -> RemovableHandle:
        """Put a hook on a pool that calls ``write`` with statistics; return its handle."""

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        step = trainer.global_step
        if not self.every_n_steps or step % self.every_n_steps or step == self._step:
            return
        if not trainer.is_global_zero:
            return
        self._step = step
        for name, pool in _pools(pl_module):
            where = {"step": step, "epoch": trainer.current_epoch, "pool": name}

            def write(statistics: Record, where: Record = where) -> None:
                self._fresh.append({**where, **statistics})

            self._handles.append(self.watch(pool, write))

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._remove_hooks()
        for record in self._fresh:
            pool = record["pool"]
            values = {
                f"{self.prefix}/{pool}/{key}": float(value)
                for key, value in record.items()
                if key not in ("step", "epoch", "pool")
            }
            pl_module.log_dict(values, on_step=True, on_epoch=False, rank_zero_only=True)
        self.records += self._fresh
        self._fresh = []

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._remove_hooks()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        self._remove_hooks()

    def _remove_hooks(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def state_dict(self) -> dict[str, Any]:
        return {"records": list(self.records), "step": self._step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.records = list(state_dict["records"])
        self._step = state_dict["step"]


def _pools(module: torch.nn.Module) -> Iterator[tuple[str, CovariancePool]]:
    return ((n, m) for n, m in module.named_modules() if isinstance(m, CovariancePool))


class SpectrumMonitor(PoolMonitor):
    """:func:`spectrum_statistics` of the features that enter each covariance, every k steps.

    >>> SpectrumMonitor(every_n_steps=100).records
    []
    """

    prefix = "spectrum"

    def watch(self, pool: CovariancePool, write: Callable[[Record], None]) -> RemovableHandle:
        eps = torch.finfo(pool.compute_dtype).eps

        def hook(module: torch.nn.Module, args: Any, features: Tensor) -> None:
            write({**spectrum_statistics(features[: self.samples], eps=eps)})

        return pool.reduction.register_forward_hook(hook)


class GradientMonitor(PoolMonitor):
    """Statistics of the gradient that each pool sends back to its features, every k steps.

    ``norm``, ``largest`` and ``nonfinite`` are of the gradient as it flows, with whatever scale the
    precision plugin or accumulation has put on the loss; the rest is :func:`kernel_statistics`.

    >>> GradientMonitor(every_n_steps=100).records
    []
    """

    prefix = "gradient"

    def watch(self, pool: CovariancePool, write: Callable[[Record], None]) -> RemovableHandle:
        def hook(module: torch.nn.Module, args: Any, features: Tensor) -> None:
            if not features.requires_grad:
                return  # a frozen backbone without reduction: no gradient comes here
            kept = features.detach()[: self.samples]

            def on_gradient(gradient: Tensor) -> None:
                write(
                    {
                        **tensor_statistics(gradient[: self.samples]),
                        **kernel_statistics(kept, pool.method, compute_dtype=pool.compute_dtype),
                    }
                )

            features.register_hook(on_gradient)

        return pool.reduction.register_forward_hook(hook)
