"""Save and load networks: our files, and files of the paper's repository and of fast-MPN-COV."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rootpool.nn import Method
from rootpool.suggest import some_names

from .classifier import PooledClassifier
from .factory import create_model
from .files import read_tensors, write_tensors
from .foreign import build_network, our_names, three_parts
from .spec import ModelSpec
from .timm_backbones import refuse_hub

_SPEC = "rootpool.spec"


def save_checkpoint(
    model: PooledClassifier,
    path: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a network to a file: safetensors if the name ends in ``.safetensors``, else PyTorch's format.

    The file says how the network was made, so that ``load_checkpoint(path)`` can make it again. If the
    pooling is a module of your own, make the network yourself and pass it to ``load_checkpoint``. The
    file only appears when it is complete.

    Args:
        model: the network.
        path: where to write, such as ``"birds.safetensors"``.
        metadata: text to keep with it; ``read_tensors(path)[1]`` returns it.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/net.safetensors"
    >>> save_checkpoint(create_model("patchnet", num_classes=18), path)
    >>> read_tensors(path)[0]["classifier.bias"].shape
    torch.Size([18])
    """
    text = dict(metadata or {})
    if model.spec is not None:
        spec = replace(model.spec, pool=_pool_now(model), num_classes=model.num_classes)
        if model.has_own_layers:  # others cannot be made again from a description
            text[_SPEC] = spec.to_json()
    write_tensors(model.state_dict(), path, text)


def _pool_now(model: PooledClassifier) -> Any:
    """The pool of the spec, with the methods that are in use now."""
    pool: Any = model.pool
    made = model.spec.pool  # type: ignore[union-attr]
    if isinstance(made, tuple):
        pairs = zip(made, pool.pools, strict=True)
        return tuple(replace(branch, pool=each.method) for branch, each in pairs)
    return getattr(pool, "method", made)


def load_checkpoint(
    path: str | os.PathLike[str],
    model: PooledClassifier | None = None,
    *,
    pool: str | Method | None = None,
    num_classes: int | None = None,
    **options: Any,
) -> PooledClassifier:
    """Load the network from a file of ours, of the paper's repository or of fast-MPN-COV.

    Nothing in the file is executed. An error lists the names and shapes that do not fit.

    Args:
        path: a safetensors or PyTorch file; the weights may be under ``state_dict``, and their names may
            begin with ``module.``.
        model: the network to load into; None makes the one that the file describes.
        pool: the method of the new network; None for the method in the file, or ``"exact"`` if the
            file names none. No weight depends on it. Not together with ``model``, nor for a file with
            another kind of pooling, whose last layer takes other vectors.
        num_classes: for fine-tuning on other classes: if the file has a different number, the last
            layer starts with new random weights. None keeps the number in the file.
        options: of the new network, such as ``last_stride``, which foreign files do not contain: it is
            1 if they say ``mpncovresnet``, and 2 otherwise. Not together with ``model``.

    Returns:
        The network, with its weights.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/net.safetensors"
    >>> save_checkpoint(create_model("patchnet", num_classes=18), path)
    >>> load_checkpoint(path, num_classes=5).num_classes
    5
    """
    if model is not None and (pool is not None or options):
        given = [*(["pool"] if pool is not None else []), *options]
        raise TypeError(
            f"{', '.join(given)} would describe a new network, but a model was given; change the "
            "model itself, for example with rootpool.nn.set_method(model, method)"
        )
    tensors, rest = read_tensors(path)
    foreign = three_parts(tensors)
    if foreign is not None:
        parts, inner = foreign
        if model is None:
            mpncovresnet = inner or "mpncov" in str(rest.get("arch", ""))
            model = build_network(parts, pool, num_classes, mpncovresnet=mpncovresnet, **options)
        tensors = our_names(parts, model)
    elif not any(key.startswith("backbone.") for key in tensors):
        raise ValueError(
            f"{os.fspath(path)} has no known format: expected names such as backbone.*, features.* or "
            f"layer4.*, got {', '.join(list(tensors)[:5])}. For the weights of a backbone alone, use "
            "create_model(name, weights=path)"
        )
    elif model is None:
        model = _make(path, rest, tensors, pool, num_classes, options)
    _load(model, tensors, os.fspath(path), num_classes)
    return model


def _make(
    path: str | os.PathLike[str],
    rest: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    pool: str | Method | None,
    num_classes: int | None,
    options: Mapping[str, Any],
) -> PooledClassifier:
    """Make the network that a file of ours describes."""
    if _SPEC not in rest and "pytorch-lightning_version" in rest:
        raise ValueError(
            f"{os.fspath(path)} is a checkpoint of a training; try rootpool.train.load_run(path), whose "
            "module.model is the network"
        )
    if _SPEC not in rest:
        raise ValueError(
            f"{os.fspath(path)} does not say how its network was made; make the network yourself and "
            "pass it: load_checkpoint(path, model)"
        )
    spec = ModelSpec.from_json(rest[_SPEC])
    refuse_hub(spec.name)
    if pool is not None and isinstance(spec.pool, tuple):
        spec = replace(
            spec,
            pool=tuple(b if b.pool == "gap" else replace(b, pool=pool) for b in spec.pool),
        )
    elif pool is not None:
        spec = replace(spec, pool=pool)

    def make(spec: ModelSpec) -> PooledClassifier:
        # Apart, so that what a file has among its options cannot replace the name that was checked.
        arguments = {name: value for name, value in vars(spec).items() if name != "options"}
        return create_model(**arguments, **{**spec.options, **options})

    try:
        with torch.device("meta"):  # without memory: does the description fit the weights?
            expected = make(spec).state_dict()
    except NotImplementedError:  # torchvision's RegNets compute their widths with tensors
        expected = make(spec).state_dict()
    check_fit(expected, tensors, os.fspath(path))
    return make(spec if num_classes is None else replace(spec, num_classes=num_classes))


def _load(
    model: PooledClassifier, tensors: dict[str, Tensor], path: str, num_classes: int | None
) -> None:
    """Load all tensors, except those of a last layer that starts with new weights."""
    expected = model.state_dict()
    last = _last_layer(expected)
    if last in tensors and tensors[last].shape[0] != model.num_classes:
        if num_classes != model.num_classes:
            raise ValueError(
                f"{path} has {tensors[last].shape[0]} classes, but the network has {model.num_classes}; "
                f"num_classes={model.num_classes} gives the last layer new weights"
            )
        for key in (last, last.removesuffix("weight") + "bias"):
            tensors[key] = expected[key]
    check_fit(expected, tensors, path)
    model.load_state_dict(tensors)


def check_fit(expected: Mapping[str, Tensor], tensors: Mapping[str, Tensor], path: str) -> None:
    """Raise unless names and shapes are the same; the error lists those that are not."""
    # Files from torch before 0.4.1 have no batch counts, which load_state_dict accepts.
    needed = {key for key in expected if not key.endswith("num_batches_tracked")}
    both = [key for key in tensors if key in expected]
    problems = {
        "missing from the file": sorted(needed - tensors.keys()),
        "unknown to the network": sorted(tensors.keys() - expected.keys()),
        "of another shape": [
            f"{key} {tuple(tensors[key].shape)} for {tuple(expected[key].shape)}"
            for key in both
            if tensors[key].shape != expected[key].shape
        ],
    }
    if any(problems.values()):
        lists = [f"{what}: {some_names(keys)}" for what, keys in problems.items() if keys]
        raise ValueError(f"{path} does not fit the network. " + "; ".join(lists))


def _last_layer(state: Mapping[str, Tensor]) -> str:
    keys = [key for key in state if re.fullmatch(r"classifier\.(\d+\.)?weight", key)]
    return keys[-1] if keys else ""
