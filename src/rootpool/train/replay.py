"""A training step computed again from a file, with a look at the covariances in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from rootpool.analysis.spectrum import covariance_eigenvalues, spectrum_statistics
from rootpool.models.inert import load_inert
from rootpool.nn import CovariancePool, covariance_pools

from .module import PooledTraining, rebuild
from .sampling import derive_seed
from .trainer import make_trainer

__all__ = ["HardestSample", "Replay", "replay", "replay_state"]


@dataclass(frozen=True)
class HardestSample:
    """The sample of a batch that is the hardest for a covariance pool.

    The first with features that are not finite; else, of those whose output or gradient is not finite,
    or of all, the one with the largest condition number.

    Args:
        pool: name of the module.
        sample: its place in the batch.
        nonfinite: how many of its features are NaN or infinite.
        features: how many it has.
        statistics: :func:`rootpool.analysis.spectrum_statistics` of the sample alone.
    """

    pool: str
    sample: int
    nonfinite: int
    features: int
    statistics: dict[str, float]

    def __str__(self) -> str:
        where = f"sample {self.sample} in {self.pool}"
        if self.nonfinite:
            return f"{where}: {self.nonfinite} of {self.features} features are not finite"
        s = self.statistics
        return (
            f"{where}: largest eigenvalue {s['lambda_1']:.3g}, smallest kept {s['lambda_min_kept']:.3g}, "
            f"condition {s['condition_mean']:.3g}, rank {s['rank']:.0f}, first ratio "
            f"{s['eigenvalue_ratio']:.3g}"
        )


@dataclass(frozen=True)
class Replay:
    """What a step does when it is computed again; printed, it says so in words.

    Args:
        loss: NaN where the forward was refused.
        gradient: largest magnitude in the gradients of all weights; 0 for validation.
        weights: how many are not finite.
        buffers: how many are not finite; the forward of the step itself has changed them.
        hardest: of each covariance pool, the sample that is hardest for it.
        error: what the forward or backward was refused with, or None.
    """

    loss: float
    gradient: float
    weights: int
    buffers: int
    hardest: tuple[HardestSample, ...]
    error: str | None

    @property
    def is_finite(self) -> bool:
        """Whether nothing is wrong with the step."""
        numbers = torch.tensor([self.loss, self.gradient], dtype=torch.float64)
        broken = self.error is not None or self.weights or self.buffers
        return not broken and bool(numbers.isfinite().all())

    def __str__(self) -> str:
        numbers = f"loss {self.loss:.4g}, largest gradient {self.gradient:.3g}"
        counts = f"not finite: {self.weights} weights, {self.buffers} buffers"
        return "\n".join([self.error or numbers, counts, *map(str, self.hardest)])


def replay(path: str | Path) -> Replay:
    """Compute the step again that a file holds, on the CPU; nothing in the file is executed.

    Args:
        path: the ``nonfinite-*.pt`` that a training left when its loss, gradients or weights were not
            finite. It has the keys of a checkpoint and ``batch``, the images and labels.
    """
    return replay_state(load_inert(path))


def replay_state(state: dict[str, Any]) -> Replay:
    """The same for what such a file holds."""
    precision = make_trainer(
        precision=state["precision"], accelerator="cpu", logger=False, enable_checkpointing=False
    ).precision_plugin
    module = rebuild(state).train(state["split"] == "train")
    precision.convert_module(module)
    seed = derive_seed(module.hparams["seed"], state["global_step"], state["rank"])
    loss, error = torch.tensor(torch.nan), None
    with torch.random.fork_rng(devices=[]), _watch(module) as watched:
        torch.manual_seed(seed)
        try:
            with precision.forward_context(), torch.set_grad_enabled(module.training):
                images, labels = state["batch"]
                loss = torch.nn.functional.cross_entropy(module(images), labels)
            if module.training:
                loss.backward()
        except (ValueError, LinAlgError) as refusal:
            error = str(refusal)
    parameters = dict(module.named_parameters())
    gradients = [p.grad for p in parameters.values() if p.grad is not None]
    return Replay(
        loss=loss.item(),
        gradient=largest_magnitude(gradients).item(),
        weights=_count_nonfinite(parameters.values()),
        buffers=_count_nonfinite(v for k, v in state["state_dict"].items() if k not in parameters),
        hardest=tuple(look.hardest() for look in watched if look.features is not None),
        error=error,
    )


def largest_magnitude(tensors: list[Tensor]) -> Tensor:
    """NaN if an entry is; it does not overflow, as a sum of squares does."""
    return torch.nn.utils.get_total_norm(tensors, norm_type=torch.inf)


@dataclass
class _Look:
    """What goes through a pool: features in, vectors out, gradient back."""

    name: str
    pool: CovariancePool
    features: Tensor | None = None
    output: Tensor | None = None
    gradient: Tensor | None = None

    def see_features(self, module: Any, args: Any, features: Tensor) -> None:
        self.features = features.detach()
        if features.requires_grad:
            features.register_hook(self.see_gradient)

    def see_output(self, module: Any, args: Any, output: Tensor) -> None:
        self.output = output.detach()

    def see_gradient(self, gradient: Tensor) -> None:
        self.gradient = gradient

    def hardest(self) -> HardestSample:
        assert self.features is not None
        bad = next(
            (
                wrong
                for seen in (self.features, self.output, self.gradient)
                if seen is not None and (wrong := ~seen.isfinite().flatten(1).all(1)).any()
            ),
            torch.ones(len(self.features), dtype=torch.bool),
        )
        suspects = bad.nonzero().flatten()
        nonfinite = (~self.features[suspects].isfinite()).flatten(1).sum(1)
        if nonfinite.any():
            sample = int(suspects[0])
        else:
            lam = covariance_eigenvalues(self.features[suspects])
            sample = int(suspects[(lam[:, 0] / _smallest_kept(lam)).argmax()])
        eps = torch.finfo(self.pool.compute_dtype).eps
        alone = self.features[sample : sample + 1]
        return HardestSample(
            self.name,
            sample,
            int((~alone.isfinite()).sum()),
            alone.numel(),
            spectrum_statistics(alone, eps=eps),
        )


def _count_nonfinite(tensors: Iterable[Tensor]) -> int:
    return sum(int((~tensor.isfinite()).sum()) for tensor in tensors)


def _smallest_kept(lam: Tensor) -> Tensor:
    return torch.where(lam > 0, lam, torch.inf).amin(-1)


@contextmanager
def _watch(module: PooledTraining) -> Iterator[list[_Look]]:
    looks = [_Look(name, pool) for name, pool in covariance_pools(module).items()]
    handles = [look.pool.reduction.register_forward_hook(look.see_features) for look in looks]
    handles += [look.pool.register_forward_hook(look.see_output) for look in looks]
    try:
        yield looks
    finally:
        for handle in handles:
            handle.remove()
