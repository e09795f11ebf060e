"""Networks at several moments of their training, each with a batch of its data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from rootpool.models.files import load_weights_only
from rootpool.nn import covariance_pools
from rootpool.train import build, resolve
from rootpool.train.run import LAST
from studies.engine.training import Place, Run

__all__ = ["TRAINED", "UNTRAINED", "Moment", "features", "moments"]

UNTRAINED, TRAINED = "untrained", "trained"


@dataclass(frozen=True)
class Moment:
    """A network at a moment of its training, with the method that it was built with, and a batch."""

    method: str
    seed: int
    name: str
    model: nn.Module
    batch: tuple[Tensor, Tensor]


def moments(place: Place, methods: Sequence[str]) -> Iterator[Moment]:
    """For every seed and method: its network untrained, after the first stage, and trained standalone.

    The first stage of a hybrid run is trained by Newton-Schulz and is the same for all methods of a
    seed; that moment is left out if there is no hybrid run. A run that diverged is never trained.
    """
    hybrid = {run.tags["seed"]: run for run in place.having(protocol="hybrid")}
    for run in place.having(protocol="standalone"):
        tags = run.tags
        if tags["method"] not in methods or tags.get("precision", "float64") != "float64":
            continue
        yield _moment(run, UNTRAINED, None)
        shared = hybrid.get(tags["seed"])
        if shared is not None and (stage := shared.trial.first_stage) is not None:
            epochs = stage.config["trainer"]["max_epochs"]
            checkpoint = place.folder / stage.key / LAST
            yield _moment(run, f"after {epochs} epochs of Newton-Schulz", checkpoint)
        if run.folder.diverged is None:
            yield _moment(run, TRAINED, run.folder.folder / LAST)


def _moment(run: Run, name: str, checkpoint: Path | None) -> Moment:
    module, data = build(resolve(run.trial.config))
    if checkpoint is not None:
        module.load_state_dict(load_weights_only(checkpoint)["state_dict"])
    torch.manual_seed(0)  # of crops and flips
    batch = next(iter(data.train_dataloader()))
    return Moment(run.tags["method"], run.tags["seed"], name, module.model, batch)


@torch.no_grad()
def features(moment: Moment) -> Tensor:
    """The features whose covariance is taken, for the batch of a network."""
    (pool,) = covariance_pools(moment.model).values()
    found: list[Tensor] = []
    handle = pool.reduction.register_forward_hook(lambda module, args, output: found.append(output))
    try:
        moment.model(moment.batch[0])
    finally:
        handle.remove()
    return found[0]
