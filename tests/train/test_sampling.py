"""Samples as a function of (seed, epoch, batch), whatever the number of processes and of interruptions."""

import pytest
import torch
from torch.utils.data import TensorDataset

from rootpool.train.sampling import EpochBatches, ResumableLoader, SeededDataset


class Noisy(TensorDataset):
    """Adds noise from torch's global generator, as random augmentation does."""

    def __init__(self, length: int) -> None:
        super().__init__(torch.arange(length, dtype=torch.float64))

    def __getitem__(self, index):
        (value,) = super().__getitem__(index)
        return value + torch.rand(()) / 2, int(value)


def loader(length=23, batch_size=4, seed=7, **options) -> ResumableLoader:
    batches = EpochBatches(length, batch_size, seed)
    return ResumableLoader(SeededDataset(Noisy(length), seed), batches, **options)


def test_an_epoch_shows_each_sample_at_most_once_and_another_order_each_time():
    batches = EpochBatches(23, 4, seed=1)
    first = [index for batch in batches for _, index in batch]
    batches.set_epoch(1)
    second = [index for batch in batches for _, index in batch]
    assert len(first) == len(set(first)) == 20
    assert first != second
    assert set(first) | set(second) > set(first)  # what was left over is not always the same


def test_processes_share_the_batches_of_one_process():
    alone = list(EpochBatches(23, 4, seed=1))
    parts = [list(EpochBatches(23, 4, seed=1, rank=rank, world_size=2)) for rank in (0, 1)]
    for whole, left, right in zip(alone, *parts, strict=True):
        assert len(left) == len(right) == 2
        assert sorted(left + right) == sorted(whole)


def test_augmentation_differs_between_epochs_and_leaves_the_generator_alone():
    dataset = SeededDataset(Noisy(3), seed=0)
    before = torch.get_rng_state()
    assert dataset[0, 1][0] == dataset[0, 1][0] != dataset[1, 1][0]
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(("seen", "workers"), [(1, 0), (4, 1), (5, 0), (7, 1), (7, 0)])
def test_a_loader_restored_anywhere_goes_on_with_the_next_batch(seen, workers):
    whole, expected = loader(), []  # 5 batches an epoch
    for epoch in range(2):
        whole.batches.set_epoch(epoch)
        expected += [batch[0] for batch in whole]
    first = loader(num_workers=workers)
    first.batches.set_epoch((seen - 1) // 5)
    iterator = iter(first)
    for _ in range(seen - 5 * first.batches.epoch):
        next(iterator)
    second = loader(num_workers=workers)
    second.load_state_dict(first.state_dict())
    epoch = second.batches.epoch
    second.batches.set_epoch(epoch)  # as Lightning does after loading
    rest = list(second)
    assert torch.equal(rest[0][0], expected[seen])
    assert epoch * 5 + (5 - len(rest)) == seen
    assert len(list(second)) == 5  # only the first pass is shortened


def test_impossible_batches_say_what_to_try():
    with pytest.raises(ValueError, match=r"batch_size=10 .* by 4; try batch_size=8"):
        EpochBatches(100, 10, world_size=4)
    with pytest.raises(ValueError, match=r"7 samples, fewer than one batch of 32; try batch_siz"):
        EpochBatches(7, 32)
