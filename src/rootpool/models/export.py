"""Export networks with ``torch.export`` and to ONNX."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from rootpool.files import write_atomically

from .classifier import PooledClassifier

EXPORTABLE = ("isqrt-cov", "minimax", "polar", "covariance", "signed-sqrt")
"""Methods that consist of matrix products, which every program can have."""


def export_program(
    model: PooledClassifier, images: Tensor | None = None
) -> torch.export.ExportedProgram:
    """The network as a ``torch.export`` program of torch's own operators, for any batch size.

    Only methods that consist of matrix products can be exported (:data:`EXPORTABLE`). If the network was
    trained with another root, set ``model.pool.method = "polar"`` first: the exact root, in the precision of
    the features. (``"minimax"`` is slower, and in float32 it fails where eigenvalues are zero.)

    Args:
        model: the network, in evaluation mode.
        images: an example of the input; None for images of the size that the backbone expects.

    Returns:
        A program that ``torch.export.save`` writes.

    >>> from rootpool.models import create_model
    >>> model = create_model("patchnet", "isqrt-cov", 18).eval()
    >>> program = export_program(model)
    >>> program.module()(torch.zeros(5, 1, 28, 28)).shape
    torch.Size([5, 18])
    """
    if model.training:
        raise ValueError("the network is in training mode; call model.eval() before the export")
    if images is None:
        size = getattr(getattr(model, "backbone", None), "input_size", None)
        if size is None:
            raise ValueError("the network does not say the size of its images; give images=...")
        images = next(model.parameters()).new_zeros(2, *size)
    batch = {0: torch.export.Dim.DYNAMIC}
    program = torch.export.export(model, (images,), dynamic_shapes=(batch,))
    own = _own_operators(program)
    if own:
        raise ValueError(
            f"the program would need {', '.join(own)}, which exists only where rootpool is imported: "
            'choose a method of matrix products first, such as model.pool.method = "polar"'
        )
    return program


def _own_operators(program: torch.export.ExportedProgram) -> list[str]:
    """Operators that are not torch's, in the program and the programs inside it."""
    targets = {
        str(node.target)
        for module in program.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
        if node.op == "call_function"
    }
    return sorted(target for target in targets if target.startswith("rootpool"))


def export_onnx(
    model: PooledClassifier,
    path: str | os.PathLike[str],
    images: Tensor | None = None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write the network as one ONNX file, ``images`` to ``logits``, for any batch size.

    It takes the same methods as :func:`export_program`. Needs the packages onnx and onnxscript.

    Args:
        model: the network, in evaluation mode.
        path: of the file.
        images: an example of the input; None for the size that the backbone was made for.
        metadata: text that the file carries, such as the names of the classes.

    >>> from rootpool.models import create_model
    >>> model = create_model("patchnet", "isqrt-cov", 18).eval()
    >>> export_onnx(model, "patchnet.onnx")  # doctest: +SKIP
    """
    program = torch.onnx.export(
        export_program(model, images),
        input_names=["images"],
        output_names=["logits"],
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    program.model.metadata_props.update(metadata or {})
    write_atomically(Path(path), lambda file: program.save(file.name, external_data=False))
