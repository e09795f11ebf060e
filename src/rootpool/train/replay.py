"""Compute one training step again from the file that a stopped training left."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.linalg import LinAlgError

from rootpool.models.files import load_weights_only

from .module import rebuild
from .sampling import derive_seed
from .trainer import make_trainer

__all__ = ["Replay", "replay", "replay_state"]


@dataclass(frozen=True)
class Replay:
    """The outcome of a step that was computed again; printed, it says so in words.

    Args:
        loss: NaN where the forward raised an error.
        gradient: largest magnitude in the gradients of all weights; 0 for validation.
        weights: how many weights are not finite.
        buffers: how many entries of buffers are not finite.
        error: the error of the forward or backward, or None.
    """

    loss: float
    gradient: float
    weights: int
    buffers: int
    error: str | None

    @property
    def is_finite(self) -> bool:
        """Whether nothing is wrong with the step."""
        broken = self.error is not None or self.weights or self.buffers
        return not broken and math.isfinite(self.loss) and math.isfinite(self.gradient)

    def __str__(self) -> str:
        numbers = f"loss {self.loss:.4g}, largest gradient {self.gradient:.3g}"
        counts = f"not finite: {self.weights} weights, {self.buffers} buffers"
        return f"{self.error or numbers}\n{counts}"


def replay(path: str | Path) -> Replay:
    """Compute the step in a file again, on the CPU; nothing in the file is executed.

    Args:
        path: the ``nonfinite-*.pt`` that a training left when its loss, gradients or weights were not
            finite. It has the keys of a checkpoint and ``batch``, the images and labels.
    """
    return replay_state(load_weights_only(path))


def replay_state(state: dict[str, Any]) -> Replay:
    """The same for the content of such a file."""
    precision = make_trainer(
        precision=state["precision"], accelerator="cpu", logger=False, enable_checkpointing=False
    ).precision_plugin
    module = rebuild(state).train(state["split"] == "train")
    precision.convert_module(module)
    seed = state.get("seed")
    if seed is None:
        seed = derive_seed(module.hparams["seed"], state["global_step"], state["rank"])
    loss, error = torch.tensor(torch.nan), None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            with precision.forward_context(), torch.set_grad_enabled(module.training):
                loss, *_ = module.loss(*state["batch"])
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
        # As saved: the step itself changes them.
        buffers=_count_nonfinite(v for k, v in state["state_dict"].items() if k not in parameters),
        error=error,
    )


def largest_magnitude(tensors: list[Tensor]) -> Tensor:
    """The largest absolute value, or NaN; unlike a sum of squares it does not overflow."""
    return torch.nn.utils.get_total_norm(tensors, norm_type=torch.inf)


def _count_nonfinite(tensors: Iterable[Tensor]) -> int:
    return sum(int((~tensor.isfinite()).sum()) for tensor in tensors)
