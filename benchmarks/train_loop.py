"""Images per second of `rootpool train`, of timm's training loop and of a plain loop.

Claim: `rootpool train` is within 5 % of the faster of the two others, on the same network and images.

    python benchmarks/train_loop.py               ResNet-18 at 128 pixels, workers 0 and 2 (half an hour)
    python benchmarks/train_loop.py --quick       a tiny network on a few images

All three train the same network (with covariance pooling) by SGD, with random crops and flips, from the
same JPEG files. timm's loop is its loader, optimizer and steps of `train.py`, without distribution and
logging; a plain loop is torchvision's ImageFolder and torch's DataLoader. The best epoch of several
counts, in turns, start-up excepted. The table also says where the time goes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import timm
import timm.data
import torch
import torch.nn.functional as F
from PIL import Image
from timing import machine, table
from timm.optim import create_optimizer_v2
from torchvision.datasets import ImageFolder

from rootpool.models import create_model
from rootpool.train import prepare, resolve
from rootpool.train.data import imagenet_transforms

PARTS = ("data", "forward", "backward", "step", "rest")


@dataclass(frozen=True)
class Task:
    """What is trained."""

    network: str
    pixels: int
    images: int
    batch: int
    epochs: int
    classes: int = 10
    reduction: int = 64


FULL = Task("resnet18", pixels=128, images=1280, batch=32, epochs=3)
QUICK = Task("test_resnet", pixels=64, images=64, batch=16, epochs=2, reduction=8)


@dataclass
class Clock:
    """Seconds of one epoch by part."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _last: float = field(default_factory=time.perf_counter)

    def until(self, part: str) -> None:
        """Count the time since the last call for a part."""
        now = time.perf_counter()
        self.seconds[part] += now - self._last
        self._last = now


def make_images(folder: Path, task: Task) -> Path:
    """Photographs stand for noise here: decoding and resizing cost what they cost."""
    random = np.random.default_rng(0)
    size = task.pixels * 5 // 4
    for split, count in (("train", task.images), ("val", task.classes)):
        for k in range(count):
            coarse = random.integers(0, 256, (size // 8, size // 8, 3), dtype=np.uint8)
            path = folder / split / f"class{k % task.classes}" / f"{k}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(coarse).resize((size, size), Image.Resampling.BICUBIC).save(path)
    return folder


def network(task: Task) -> torch.nn.Module:
    torch.manual_seed(0)
    return create_model(task.network, "exact", task.classes, reduction=task.reduction).train()


# --------------------------------------------------------------------------------------------------
# Contestants: each yields a clock per epoch


def plain(task: Task, data: Path, workers: int) -> Iterator[Clock]:
    transform, _ = imagenet_transforms(resize=task.pixels * 9 // 8, crop=task.pixels)
    loader = torch.utils.data.DataLoader(
        ImageFolder(str(data / "train"), transform),
        task.batch,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )
    model = network(task)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    yield from loop(model, loader, optimizer, task)


def timm_loop(task: Task, data: Path, workers: int) -> Iterator[Clock]:
    dataset = timm.data.create_dataset("", str(data), split="train", is_training=True)
    loader = timm.data.create_loader(
        dataset,
        input_size=(3, task.pixels, task.pixels),
        batch_size=task.batch,
        is_training=True,
        no_aug=False,
        scale=(0.7, 1.0),
        color_jitter=0.0,
        num_workers=workers,
        persistent_workers=workers > 0,
        use_prefetcher=False,
        pin_memory=False,
        device=torch.device("cpu"),
    )
    model = network(task)
    optimizer = create_optimizer_v2(model, "momentum", lr=0.01, weight_decay=1e-4)
    yield from loop(model, loader, optimizer, task)


def loop(model: torch.nn.Module, loader: Any, optimizer: Any, task: Task) -> Iterator[Clock]:
    for _ in range(task.epochs):
        clock = Clock()
        for images, labels in loader:
            clock.until("data")
            loss = F.cross_entropy(model(images), labels)
            clock.until("forward")
            optimizer.zero_grad()
            loss.backward()
            clock.until("backward")
            optimizer.step()
            loss.item()  # all of them report it
            clock.until("step")
        clock.until("rest")
        yield clock


class Clocks(pl.Callback):
    """The clocks of Lightning's loop."""

    def __init__(self) -> None:
        self.done: list[Clock] = []

    def on_train_epoch_start(self, *args: Any) -> None:
        self.clock = Clock()

    def on_train_batch_start(self, *args: Any) -> None:
        self.clock.until("data")

    def on_before_backward(self, *args: Any) -> None:
        self.clock.until("forward")

    def on_after_backward(self, *args: Any) -> None:
        self.clock.until("backward")

    def on_before_zero_grad(self, *args: Any) -> None:
        self.clock.until("forward")

    def on_train_batch_end(self, *args: Any) -> None:
        self.clock.until("step")

    def on_train_epoch_end(self, *args: Any) -> None:
        self.clock.until("rest")
        self.done.append(self.clock)


def rootpool_train(task: Task, data: Path, workers: int) -> Iterator[Clock]:
    config = {
        "model": {
            "backbone": task.network,
            "reduction": task.reduction,
            "lr": 0.01,
            "milestones": None,
        },
        "data": {
            "root": str(data),
            "resize": task.pixels * 9 // 8,
            "crop": task.pixels,
            "batch_size": task.batch,
            "workers": workers,
        },
        "trainer": {
            "max_epochs": task.epochs,
            "accelerator": "cpu",
            "limit_val_batches": 0,
            "num_sanity_val_steps": 0,
        },
    }
    clocks = Clocks()
    with tempfile.TemporaryDirectory() as folder:
        prepare(resolve(config), folder, progress=False, callbacks=[clocks]).fit()
    yield from clocks.done


CONTESTANTS: dict[str, Callable[[Task, Path, int], Iterator[Clock]]] = {
    "rootpool train": rootpool_train,
    "timm": timm_loop,
    "plain loop": plain,
}


def measure(task: Task, workers: int, rounds: int, data: Path) -> dict[str, Clock]:
    """The fastest epoch of each contestant; the first of each run, with its start-up, does not count."""
    best: dict[str, Clock] = {}
    for _ in range(rounds):
        for name, run in CONTESTANTS.items():
            for clock in list(run(task, data, workers))[1:]:
                if name not in best or total(clock) < total(best[name]):
                    best[name] = clock
    return best


def total(clock: Clock) -> float:
    return sum(clock.seconds.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 2])
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    task = QUICK if arguments.quick else FULL
    seen = task.images // task.batch * task.batch
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        data = make_images(Path(folder), task)
        for workers in arguments.workers:
            best = measure(task, workers, arguments.rounds, data)
            fastest = min(total(clock) for name, clock in best.items() if name != "rootpool train")
            for name, clock in best.items():
                seconds = total(clock)
                shares = [f"{100 * clock.seconds[part] / seconds:.0f} %" for part in PARTS]
                rows.append(
                    [
                        str(workers),
                        name,
                        f"{seen / seconds:.1f}",
                        f"{fastest / seconds:.2f}",
                        *shares,
                    ]
                )
    print("## Images per second of a training loop\n")
    print(
        f"{task.network} with exact, {task.pixels} pixels, batches of {task.batch}, {seen} images per epoch. "
        "*Against* is the speed as a share of the faster of the two others.\n"
    )
    print(table(["workers", "loop", "images/s", "against", *PARTS], rows))
    print(f"\n{machine()}")


if __name__ == "__main__":
    main()
