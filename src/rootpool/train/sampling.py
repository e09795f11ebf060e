"""Samples of a training step as a function of (seed, epoch, batch): a resume loses and repeats nothing.

Order and augmentation come from counters, not from the state of a generator. The number of workers and
of processes therefore changes only the speed, and a run that is killed and resumed sees the same samples
as an uninterrupted one.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

__all__ = ["EpochBatches", "ResumableLoader", "SeededDataset", "derive_seed"]


def derive_seed(*counters: int) -> int:
    """A 63-bit seed from a few integers, well mixed: neighbouring counters give unrelated seeds.

    >>> derive_seed(0, 1, 2) == derive_seed(0, 1, 2), derive_seed(0, 1, 2) == derive_seed(0, 2, 1)
    (True, False)
    """
    packed = struct.pack(f"<{len(counters)}q", *counters)
    return int.from_bytes(hashlib.blake2b(packed, digest_size=8).digest(), "little") >> 1


class SeededDataset(Dataset[Any]):
    """A dataset whose random augmentation depends on (seed, epoch, index) alone.

    Indices are pairs ``(epoch, index)``, as `EpochBatches` yields them. The dataset's transforms draw
    from torch's global generator, which is left as it was.
    """

    def __init__(self, dataset: Dataset[Any], seed: int) -> None:
        self.dataset = dataset
        self.seed = seed

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def __getitem__(self, key: tuple[int, int]) -> Any:
        epoch, index = key
        with torch.random.fork_rng(devices=[]):
            # torch.manual_seed would note a traceback for each accelerator: 0.5 ms per sample.
            torch.default_generator.manual_seed(derive_seed(self.seed, epoch, index))
            return self.dataset[index]


class EpochBatches(Sampler[list[tuple[int, int]]]):
    """Batches of one epoch in an order drawn from (seed, epoch); this process's share of each batch.

    ``batch_size`` counts samples over *all* processes, so a recipe means the same on one device and on
    many. The samples left over after the last full batch are not used in that epoch (they are others in
    the next), which keeps every step an average over equally many samples. With ``repeat`` every epoch has
    the samples of the first, for ``trainer.overfit_batches``.
    """

    def __init__(
        self,
        length: int,
        batch_size: int,
        seed: int = 0,
        *,
        rank: int = 0,
        world_size: int = 1,
        repeat: bool = False,
    ) -> None:
        if batch_size % world_size:
            raise ValueError(
                f"batch_size={batch_size} counts samples over all processes and cannot be shared equally "
                f"by {world_size}; try batch_size={batch_size // world_size * world_size or world_size}"
            )
        if length < batch_size:
            raise ValueError(
                f"the training set has {length} samples, fewer than one batch of {batch_size}; "
                f"try batch_size={max(length // world_size * world_size, world_size)} or less"
            )
        self.length = length
        self.batch_size = batch_size
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.repeat = repeat
        self.epoch = 0
        self.start = 0

    @property
    def sampler(self) -> EpochBatches:
        """Itself: Lightning tells the epoch to the sampler *of* a batch sampler, and to no one else."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch, or stay where a resume put us within it."""
        if epoch != self.epoch:
            self.epoch, self.start = epoch, 0

    def __len__(self) -> int:
        return self.length // self.batch_size

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        epoch, start, self.start = self.epoch * (not self.repeat), self.start, 0
        generator = torch.Generator().manual_seed(derive_seed(self.seed, epoch))
        order: list[int] = torch.randperm(self.length, generator=generator).tolist()
        for batch in range(start, len(self)):
            shared = order[batch * self.batch_size : (batch + 1) * self.batch_size]
            yield [(epoch, index) for index in shared[self.rank :: self.world_size]]


class ResumableLoader(DataLoader[tuple[Tensor, Tensor]]):
    """A loader over `EpochBatches` that can be saved in the middle of an epoch and continue from there.

    Indices of the dataset are those pairs: it is a `SeededDataset`, or draws nothing else.

    Lightning calls ``state_dict`` and ``load_state_dict``; so can a plain loop.
    """

    def __init__(self, dataset: Dataset[Any], batches: EpochBatches, **options: Any) -> None:
        super().__init__(dataset, batch_sampler=batches, **options)
        self.batches = batches
        self._delivered = 0

    def __iter__(self) -> Any:
        self._delivered = self.batches.start
        for batch in super().__iter__():
            self._delivered += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        """The epoch and how many of its batches were delivered."""
        return {"epoch": self.batches.epoch, "batch": self._delivered}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Let the next iteration begin after the batches that were delivered."""
        finished, batch = divmod(state["batch"], len(self.batches))
        self.batches.epoch, self.batches.start = state["epoch"] + finished, batch
