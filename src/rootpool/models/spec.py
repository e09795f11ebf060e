"""How a network was made, as a value that is saved with its weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import torch

from rootpool.nn import Branch, Factor, Length, Method, Scaling, is_registered, resolve_pool

from .backbones import PATCHES

__all__ = ["FETCHING", "ModelSpec"]

# Options of create_model and timm.create_model that read or fetch weights. A file with all tensors does
# not need them again.
FETCHING = ("pretrained", "checkpoint_path", "cache_dir", "weights")


@dataclass(frozen=True)
class ModelSpec:
    """The arguments of ``create_model``, except for weights.

    >>> spec = ModelSpec("patchnet", resolve_pool("svd-trunc", bound=1e8), 18)
    >>> spec.to_json()
    '{"name": "patchnet", "pool": ["svd-trunc", {"bound": 100000000.0}],
      "num_classes": 18, "reduction": null, "options": {}}'
    >>> ModelSpec.from_json(spec.to_json()) == spec
    True
    """

    name: str
    pool: str | Method | tuple[Branch, ...]
    num_classes: int
    reduction: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    compute_dtype: torch.dtype | None = None
    output: str = "triangle"
    scaling: Scaling | None = None
    drop_rate: float = 0.0
    tokens: str = PATCHES
    channel_dropout: str | None = None

    def to_json(self) -> str:
        """Text that :meth:`from_json` reads."""
        always = ("name", "pool", "num_classes", "reduction", "options")
        try:
            described = {
                "pool": _describe(self.pool),
                "compute_dtype": self.compute_dtype
                and str(self.compute_dtype).removeprefix("torch."),
                "scaling": _describe_scaling(self.scaling),
            }
            values = {**vars(self), **described}
            return json.dumps({k: v for k, v in values.items() if k in always or v != _DEFAULTS[k]})
        except TypeError as error:
            raise TypeError(
                f"{self} cannot be written to a file ({error}); set model.spec = None to save the weights "
                "alone"
            ) from error

    @classmethod
    def from_json(cls, text: str) -> ModelSpec:
        """Read the text that :meth:`to_json` wrote; options that would fetch other files are dropped."""
        try:
            values = json.loads(text)
            spec = cls(**_read(values))
            if not isinstance(spec.name, str) or not isinstance(spec.options, dict):
                raise TypeError("name must be text and options a dictionary")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(
                f"{text[:200]!r} does not say how a network was made: {error!r}"
            ) from error
        options = {k: v for k, v in spec.options.items() if not k.startswith(FETCHING)}
        return replace(spec, options=options)


# Values that are not JSON, from what stands for them.
_READ: dict[str, Callable[[Any], Any]] = {
    "compute_dtype": lambda name: {"float32": torch.float32, "float64": torch.float64}[name],
    "scaling": lambda pair: {"Factor": Factor, "Length": Length}[pair[0]](**pair[1]),
    "pool": lambda found: (
        resolve_pool(found[0], **found[1])
        if isinstance(found[0], str)
        else tuple(Branch(**_read(branch)) for branch in found)
    ),
}
_DEFAULTS = {field.name: field.default for field in fields(ModelSpec)}


def _read(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _READ[key](value) if key in _READ and value is not None else value
        for key, value in values.items()
    }


def _describe(pool: str | Method | tuple[Branch, ...]) -> list[Any]:
    """The name of a pooling and its parameters, or a list of branches."""
    if isinstance(pool, str):
        return [pool, {}]
    if isinstance(pool, tuple):
        return [
            {
                **vars(branch),
                "pool": _describe(branch.pool),
                "scaling": _describe_scaling(branch.scaling),
            }
            for branch in pool
        ]
    if not is_registered(pool):
        raise TypeError(f"{type(pool).__name__} is not in METHODS; see rootpool.nn.register")
    return [pool.name, asdict(pool)]


def _describe_scaling(scaling: Scaling | None) -> list[Any] | None:
    return None if scaling is None else [type(scaling).__name__, asdict(scaling)]
