"""How a network was made, as a value that is saved with its weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import torch

from rootpool.nn import Length, Method, Scaling, is_registered, resolve_pool

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
    pool: str | Method
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
                "scaling": self.scaling and [type(self.scaling).__name__, asdict(self.scaling)],
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
            name, parameters = values["pool"]
            values |= {k: read(values[k]) for k, read in _READ.items() if values.get(k) is not None}
            spec = cls(**{**values, "pool": resolve_pool(name, **parameters)})
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
    "scaling": lambda pair: {"Length": Length}[pair[0]](**pair[1]),
}
_DEFAULTS = {field.name: field.default for field in fields(ModelSpec)}


def _describe(pool: str | Method) -> list[Any]:
    """The name of a pooling and its parameters."""
    if isinstance(pool, str):
        return [pool, {}]
    if not is_registered(pool):
        raise TypeError(f"{type(pool).__name__} is not in METHODS; see rootpool.nn.register")
    return [pool.name, asdict(pool)]
