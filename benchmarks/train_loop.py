"""Images per second of `rootpool train`, of the pieces of timm's training script and of a plain loop.

Claim: `rootpool train` is within 5 % of the faster of the two others, on the same network and images.

    python benchmarks/train_loop.py               ResNet-18 at 128 pixels, workers 0 and 2 (four minutes)
    python benchmarks/train_loop.py --quick       a tiny network on a few images

All train the same network (with covariance pooling) by SGD, with random resized crops and flips, from the
same JPEG files. timm's script is not part of its package: *timm's pieces* are its data set, loader,
optimizer, schedule and meter, in the order in which the script calls them in an epoch. A *plain loop* is
torchvision's ImageFolder and transforms, and torch's DataLoader. On a CPU, `rootpool train` keeps freed
memory within the process; a plain loop is measured with that, too. Each contestant is a process of its own,
and they take turns by epoch: the others wait meanwhile. Validation, checkpoints and start-up are not counted.
The best of several epochs counts. The table also says where its time goes.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import multiprocessing
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
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
from timm.scheduler import create_scheduler_v2
from timm.utils import AverageMeter
from torchvision.datasets import ImageFolder

from rootpool.models import create_model
from rootpool.train import prepare, resolve
from rootpool.train.data import resized_crop_transforms

PARTS = ("data", "forward", "backward", "step", "rest")
OURS = "rootpool train"
WIDTH, HEIGHT = 500, 375  # of the files, as in ImageNet


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


FULL = Task("resnet18", pixels=128, images=96, batch=32, epochs=4)
QUICK = Task("test_resnet", pixels=64, images=64, batch=16, epochs=2, reduction=8)


@dataclass
class Clock:
    """Seconds of one epoch by part."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    _last: float = field(default_factory=time.perf_counter)

    def until(self, part: str) -> None:
        """Count the time since the last call for a part."""
        now = time.perf_counter()
        self.seconds[part] += now - self._last
        self._last = now


@dataclass(frozen=True)
class Turns:
    """A contestant's end of the line to the referee: an epoch begins when it is told to."""

    line: Connection

    def begin(self) -> Clock:
        """Wait for the turn."""
        self.line.recv()
        return Clock()

    def end(self, clock: Clock) -> None:
        """Hand over the clock and the turn."""
        clock.until("rest")
        self.line.send(clock.seconds)


def make_images(folder: Path, task: Task) -> Path:
    """Smooth noise in place of photographs: decoding and resizing cost the same."""
    random = np.random.default_rng(0)
    for split, count in (("train", task.images), ("val", task.classes)):
        for k in range(count):
            coarse = random.integers(0, 256, (HEIGHT // 8, WIDTH // 8, 3), dtype=np.uint8)
            path = folder / split / f"class{k % task.classes}" / f"{k}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(coarse).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC).save(path)
    return folder


def network(task: Task) -> torch.nn.Module:
    torch.manual_seed(0)
    return create_model(task.network, "exact", task.classes, reduction=task.reduction).train()


# --------------------------------------------------------------------------------------------------
# Contestants


def plain(task: Task, data: Path, workers: int, turns: Turns) -> None:
    transform, _ = resized_crop_transforms(crop=task.pixels)
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
    loop(model, loader, optimizer, task, turns)


def timm_loop(task: Task, data: Path, workers: int, turns: Turns) -> None:
    dataset = timm.data.create_dataset("", str(data), split="train", is_training=True)
    loader = timm.data.create_loader(
        dataset,
        input_size=(3, task.pixels, task.pixels),
        batch_size=task.batch,
        is_training=True,
        color_jitter=None,
        interpolation="bilinear",
        num_workers=workers,
        persistent_workers=workers > 0,
        device=torch.device("cpu"),
    )
    model = network(task)
    optimizer = create_optimizer_v2(model, "momentum", lr=0.01, weight_decay=1e-4)
    schedule, _ = create_scheduler_v2(
        optimizer, "cosine", num_epochs=task.epochs, updates_per_epoch=len(loader)
    )
    steps = itertools.count(1)
    loop(model, loader, optimizer, task, turns, lambda: schedule.step_update(next(steps)))


def loop(
    model: torch.nn.Module,
    loader: Any,
    optimizer: Any,
    task: Task,
    turns: Turns,
    after_step: Callable[[], None] = lambda: None,
) -> None:
    for _ in range(task.epochs):
        clock, losses = turns.begin(), AverageMeter()
        for images, labels in loader:
            clock.until("data")
            loss = F.cross_entropy(model(images), labels)
            clock.until("forward")
            optimizer.zero_grad()
            loss.backward()
            clock.until("backward")
            optimizer.step()
            losses.update(loss.item(), len(images))  # all of them report it
            after_step()
            clock.until("step")
        turns.end(clock)


class Clocks(pl.Callback):
    """The clocks of Lightning's loop."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns

    def on_train_epoch_start(self, *args: Any) -> None:
        self.clock = self.turns.begin()

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
        self.turns.end(self.clock)


def rootpool_train(task: Task, data: Path, workers: int, turns: Turns) -> None:
    config = {
        "model": {
            "backbone": task.network,
            "reduction": task.reduction,
            "lr": 0.01,
            "milestones": None,
        },
        "data": {
            "root": str(data),
            "transform": "resized-crop",
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
    with tempfile.TemporaryDirectory() as folder:
        prepare(resolve(config), folder, progress=False, callbacks=[Clocks(turns)]).fit()


CONTESTANTS: dict[str, Callable[[Task, Path, int, Turns], None]] = {
    OURS: rootpool_train,
    "timm's pieces": timm_loop,
    "plain loop": plain,
}


# --------------------------------------------------------------------------------------------------


def contest(name: str, task: Task, data: Path, workers: int, line: Connection) -> None:
    """What the process of a contestant does."""
    warnings.filterwarnings("ignore")
    CONTESTANTS[name](task, data, workers, Turns(line))


@contextlib.contextmanager
def started(task: Task, data: Path, workers: int) -> Iterator[dict[str, Connection]]:
    """The contestants, each in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    lines, processes = {}, []
    for name in CONTESTANTS:
        lines[name], theirs = spawn.Pipe()
        processes.append(spawn.Process(target=contest, args=(name, task, data, workers, theirs)))
        processes[-1].start()
        theirs.close()
    yield lines
    for process in processes:
        process.join()


def measure(task: Task, data: Path, workers: int) -> dict[str, dict[str, float]]:
    """The fastest epoch of each contestant; the first of each, with its start-up, does not count."""
    epochs: dict[str, list[dict[str, float]]] = defaultdict(list)
    with started(task, data, workers) as lines:
        for _ in range(task.epochs):
            for name, line in lines.items():
                line.send("go")
                epochs[name].append(line.recv())
                print(
                    f"{workers} workers, {name}: {total(epochs[name][-1]):.2f} s", file=sys.stderr
                )
    return {name: min(done[1:], key=total) for name, done in epochs.items()}


def total(seconds: dict[str, float]) -> float:
    return sum(seconds.values())


def rows_of(workers: int, best: dict[str, dict[str, float]], seen: int) -> Iterator[list[str]]:
    others = ("timm's pieces", "plain loop")
    fastest = min(total(best[name]) for name in others)
    for name, parts in best.items():
        seconds = total(parts)
        shares = [f"{100 * parts[part] / seconds:.0f} %" for part in PARTS]
        yield [str(workers), name, f"{seen / seconds:.1f}", f"{fastest / seconds:.2f}", *shares]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 2])
    arguments = parser.parse_args()
    task = QUICK if arguments.quick else FULL
    seen = task.images // task.batch * task.batch
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory() as folder:
        data = make_images(Path(folder), task)
        for workers in arguments.workers:
            rows += rows_of(workers, measure(task, data, workers), seen)
    print(f"{machine()}\n")
    print(
        f"{task.network} with exact, crops of {task.pixels} pixels from files of {WIDTH} x {HEIGHT}, batches "
        f"of {task.batch}, {seen} images per epoch, best of {task.epochs - 1} epochs. *Against* is the speed "
        "as a share of that of the faster of timm's pieces and the plain loop; the other columns say where "
        "the time goes. timm's training script is not in its package: *timm's pieces* are its data set, "
        "loader, optimizer, schedule and meter in "
        "the order of the script. Validation and checkpoints are not counted.\n"
    )
    print(table(["workers", "loop", "images/s", "against", *PARTS], rows))


if __name__ == "__main__":
    main()
