"""Networks at several moments of their training, each with a batch of its data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rootpool.nn import covariance_pools

from .plan import Measured

if TYPE_CHECKING:
    from rootpool.train.study import Trial

__all__ = ["Network", "features", "networks"]

UNTRAINED, TRAINED = "untrained", "trained"


@dataclass(frozen=True)
class Network:
    """A network, with the method that it was built with, and a batch of its training data."""

    method: str
    seed: int
    moment: str
    model: nn.Module
    batch: tuple[Tensor, Tensor]


def networks(study: Measured, methods: Sequence[str]) -> Iterator[Network]:
    """For every seed and method: its network untrained, after the first stage, and trained standalone.

    The first stage of a hybrid run is trained by Newton-Schulz and is the same for all methods of a
    seed; that moment is left out if the study has no hybrid run. A run that diverged is never trained.
    """
    from rootpool.train.run import LAST

    hybrid = {t.tags["seed"]: t for t in study.trials if t.tags["protocol"] == "hybrid"}
    for trial, result in zip(study.trials, study.results, strict=True):
        tags = trial.tags
        if tags["method"] not in methods or tags["protocol"] != "standalone":
            continue
        if tags.get("precision", "float64") != "float64":
            continue
        yield _network(trial, UNTRAINED, None)
        shared = hybrid.get(tags["seed"])
        if shared is not None and (stage := shared.first_stage) is not None:
            epochs = stage.config["trainer"]["max_epochs"]
            moment = f"after {epochs} epochs of Newton-Schulz"
            yield _network(trial, moment, study.folder / stage.key / LAST)
        if result.get("diverged") is None:
            yield _network(trial, TRAINED, study.folder / trial.key / LAST)


def _network(trial: Trial, moment: str, checkpoint: Path | None) -> Network:
    from rootpool.models.files import load_weights_only
    from rootpool.train.run import build
    from rootpool.train.settings import resolve

    module, data = build(resolve(trial.config))
    if checkpoint is not None:
        module.load_state_dict(load_weights_only(checkpoint)["state_dict"])
    torch.manual_seed(0)  # of crops and flips
    batch = next(iter(data.train_dataloader()))
    return Network(trial.tags["method"], trial.tags["seed"], moment, module.model, batch)


@torch.no_grad()
def features(network: Network) -> Tensor:
    """The features whose covariance is taken, for the batch of a network."""
    (pool,) = covariance_pools(network.model).values()
    found: list[Tensor] = []
    handle = pool.reduction.register_forward_hook(lambda module, args, output: found.append(output))
    try:
        network.model(network.batch[0])
    finally:
        handle.remove()
    return found[0]


def loss(model: nn.Module, batch: Any) -> Tensor:
    """Cross-entropy, as in the training."""
    images, labels = batch
    return nn.functional.cross_entropy(model(images), labels)
