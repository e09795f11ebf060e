"""What covariance pooling adds to the time of whole networks: forwards, and a training step of ResNet-50.

Claim: `exact` adds at most 5 % to a training step of ResNet-50 with average pooling.

    python benchmarks/models.py               both tables (about ten minutes)
    python benchmarks/models.py --quick       three networks and a small batch
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from timing import duration, machine, race, table
from torch import Tensor, nn

from rootpool.models import PooledClassifier, create_model
from rootpool.nn import covariance_pool

METHODS = ["isqrt-cov", "svd-pade", "exact"]
NETWORKS = {
    "paper/alexnet": {},
    "paper/resnet50": {},
    "resnet18": {},
    "convnext_tiny": {},
    "efficientnet_lite0": {},
    "mobilenetv3_small_100": {},
    "vit_tiny_patch16_224": {"dynamic_img_size": True},
    "torchvision/vgg11_bn": {},
}


@dataclass(frozen=True)
class Step:
    """A training step of ResNet-50: a setting of the paper, with a batch that fits a laptop."""

    name: str
    batch: int
    size: int
    num_classes: int


STEPS = [
    Step("ImageNet", batch=32, size=224, num_classes=1000),
    Step("fine-grained", batch=10, size=448, num_classes=200),
]


def pair(name: str, num_classes: int, options: dict[str, bool]) -> dict[str, PooledClassifier]:
    """The network with average pooling and with covariance pooling, on one shared backbone."""
    vanilla = create_model(name, "gap", num_classes, **options)
    pooled = create_model(name, "exact", num_classes, **options)
    pooled.backbone = vanilla.backbone
    return {"gap": vanilla} | dict.fromkeys(METHODS, pooled)


def forward(
    models: dict[str, PooledClassifier], method: str, images: Tensor
) -> Callable[[], Tensor]:
    def run() -> Tensor:
        if method != "gap":
            models[method].pool.method = method  # type: ignore[assignment]
        return models[method](images)

    return run


def millions(model: nn.Module) -> str:
    return f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f}"


def more(seconds: float, base: float) -> str:
    return f"{duration(seconds)} ({seconds / base - 1:+.1%})"


def forwards(networks: dict[str, dict[str, bool]], sizes: dict[int, int], seconds: float) -> None:
    rows = []
    for name, options in networks.items():
        models = pair(name, 1000, options)
        for model in models.values():
            model.eval()
        for size, batch in sizes.items():
            images = torch.randn(batch, 3, size, size)
            with torch.inference_mode():
                features = models["gap"].forward_features(images[:1])
                contestants = {method: forward(models, method, images) for method in models}
                best = race(contestants, seconds, rounds=3)
            rows.append(
                [
                    name,
                    str(size),
                    str(features.flatten(2).shape[-1]),
                    f"{features.shape[1]} -> {models['exact'].pool.channels}",
                    f"{millions(models['gap'])} / {millions(models['exact'])}",
                    duration(best["gap"] / batch),
                    *(more(best[method] / batch, best["gap"] / batch) for method in METHODS),
                ]
            )
            print(".", end="", file=sys.stderr, flush=True)
    print("\n\nForward, time per image, and how much longer it takes than with average pooling\n")
    header = ["model", "pixels", "positions", "channels", "parameters, M (gap / covariance)", "gap"]
    print(table([*header, *METHODS], rows))


def training_step(model: PooledClassifier, step: Step) -> Callable[[], object]:
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9, weight_decay=1e-4)
    images = torch.randn(step.batch, 3, step.size, step.size)
    labels = torch.arange(step.batch) % step.num_classes

    def run() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return run


def pooling_alone(model: PooledClassifier, step: Step) -> Callable[[], object]:
    """Forward and backward of the pooling, after the reduction."""
    shape = (step.batch, model.pool.channels, (step.size // 32) ** 2)
    X = torch.randn(*shape).relu_().requires_grad_()  # type: ignore[arg-type]
    return lambda: torch.autograd.grad(covariance_pool(X).sum(), X)


def training(steps: list[Step], seconds: float) -> None:
    rows = []
    for step in steps:
        models = pair("paper/resnet50", step.num_classes, {})
        contestants = {name: training_step(models[name], step) for name in ("gap", "exact")}
        contestants["alone"] = pooling_alone(models["exact"], step)
        best = race(contestants, seconds, rounds=5)
        rows.append(
            [
                f"{step.name}, {step.num_classes} classes",
                f"{step.batch} x {step.size} px",
                duration(best["gap"]),
                more(best["exact"], best["gap"]),
                f"{duration(best['alone'])} ({best['alone'] / best['gap']:.1%})",
            ]
        )
        print(".", end="", file=sys.stderr, flush=True)
    print("\n\nTraining step of paper/resnet50: forward, backward and SGD with momentum\n")
    print(table(["setting", "batch", "gap", "exact", "pooling alone"], rows))
    print(
        "\nThe rest of the difference is the reduction and the larger classifier, which has 32896 features"
        "\ninstead of 2048."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three networks, a small batch")
    quick = parser.parse_args().quick
    warnings.filterwarnings("ignore", category=FutureWarning)
    torch.manual_seed(0)
    print(machine())
    if quick:
        few = ["resnet18", "mobilenetv3_small_100", "vit_tiny_patch16_224"]
        forwards({name: NETWORKS[name] for name in few}, {224: 4, 448: 1}, 0.5)
        training([Step("quick", batch=4, size=224, num_classes=200)], 0.5)
    else:
        forwards(NETWORKS, {224: 8, 448: 4}, 2.0)
        training(STEPS, 10.0)


if __name__ == "__main__":
    main()
