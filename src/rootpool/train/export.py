"""A trained run as a program that runs elsewhere, checked against the network."""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rootpool.files import write_atomically
from rootpool.models import EXPORTABLE, export_onnx, export_program
from rootpool.nn import Method, MinimaxRoot, covariance_pools, using_method

from .config import SettingsError
from .data import EMBEDDED
from .datamodule import ImageData
from .evaluation import TrainedRun

__all__ = ["Exported", "export_run"]

IMAGES = 8  # that the program is compared on
LARGEST = 0.01  # difference of logits, as a share of the largest one
# What stands in for a decomposition: right for eigenvalues down to 1e-8 of the trace.
STEPS, LOWER = 10, 1e-4


@dataclass(frozen=True)
class Exported:
    """What was written.

    Args:
        path: of the file.
        shape: ``(C, H, W)`` of an image.
        method: that the program computes the root by; may differ from the network's.
        difference: largest difference between logits of the program and of the network.
        largest: largest logit, to compare it with.
    """

    path: Path
    shape: tuple[int, ...]
    method: str
    difference: float
    largest: float


def export_run(run: TrainedRun, path: str | Path) -> Exported:
    """Write the network of a run as ONNX or, for a name in ``.pt2``, as a program of ``torch.export``.

    The file takes any number of images of the size of the run, and carries the names of the classes
    and the mean and standard deviation of the pixels. Methods that decompose matrices become
    minimax iterations, which are matrix products. The program is then compared with the network
    itself, on images of the data where they are still there.

    Raises:
        SettingsError: the program does not compute what the network does.
    """
    path = Path(path)
    if path.suffix not in (".onnx", ".pt2"):
        raise SettingsError(f"the name must end in .onnx or .pt2, got {path}")
    model = run.module.model.eval()
    for pool in covariance_pools(model).values():
        if pool.method.name not in EXPORTABLE and not _is_root(pool.method):
            raise SettingsError(
                f"{pool.method.name} is neither made of matrix products nor a square root, which minimax "
                f"could stand in for: it cannot be exported. Train with one of {', '.join(EXPORTABLE)}, or "
                "with a root"
            )
    images = _images(run)
    with torch.no_grad():
        expected = model(images)
    about = _about(run, images)
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / path.name
        with ExitStack() as stack:
            for pool in covariance_pools(model).values():
                if pool.method.name not in EXPORTABLE:
                    stack.enter_context(using_method(pool, MinimaxRoot(STEPS, LOWER)))
            method = run.module.pooling
            if path.suffix == ".onnx":
                export_onnx(model, part, images[:2], about)
            else:
                torch.export.save(export_program(model, images[:2]), part, extra_files=about)
        if path.suffix == ".onnx":
            got = _run_onnx(part, images)
        else:
            got = torch.export.load(part).module()(images).detach()
        difference, largest = float((got - expected).abs().max()), float(expected.abs().max())
        if not difference <= LARGEST * largest:
            raise SettingsError(
                f"logits of the program would differ by {difference:.2g} from those of up to {largest:.2g}; "
                "train with a method of matrix products, such as model.method=minimax, to export it"
            )
        # Only now: what was there stays until it is right.
        write_atomically(path, part.read_bytes())
    return Exported(path, tuple(images.shape[1:]), method, difference, largest)


def _is_root(method: Method) -> bool:
    """Whether a method computes the square root of a covariance, at least of a simple one."""
    P = torch.diag(torch.tensor([4.0, 1.0], dtype=torch.float64)).unsqueeze(0)
    return bool(torch.allclose(method(P), P.sqrt(), atol=0.1))


def _images(run: TrainedRun) -> Tensor:
    """A few validation images, or noise where the data is gone."""
    root, data = run.data_options["root"], ImageData.from_options(run.data_options)
    if root in EMBEDDED or Path(root).is_dir():
        val = data.splits.val
        return torch.stack([data.normalised(val[k][0]) for k in range(min(IMAGES, len(val)))])
    size: Any = run.module.model.backbone.input_size
    return torch.randn(IMAGES, *size, generator=torch.Generator().manual_seed(0))


def _about(run: TrainedRun, images: Tensor) -> dict[str, str]:
    """Text that a program carries: what it needs to be used without us."""
    data = ImageData.from_options(run.data_options)
    _, transform = data.transforms()
    steps = [transform, *getattr(transform, "transforms", ())]
    normalise: Any = next((step for step in steps if hasattr(step, "mean")), None)
    pixels = {} if normalise is None else {"mean": normalise.mean, "std": normalise.std}
    embedded = run.data_options["root"] in EMBEDDED
    return {
        "classes": json.dumps(run.classes, ensure_ascii=False),
        "image": json.dumps({"shape": list(images.shape[1:]), **({} if embedded else pixels)}),
    }


def _run_onnx(path: Path, images: Tensor) -> Tensor:
    try:
        import onnxruntime  # type: ignore[import-untyped, unused-ignore]
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "nothing was written: the program is compared with the network first, which needs onnxruntime; "
            "try: pip install onnxruntime"
        ) from error
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {"images": images.numpy()})
    return torch.from_numpy(logits)
