"""How a network was made, as a value that is saved with its weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rootpool.nn import Method, is_registered, resolve_pool

__all__ = ["FETCHING", "ModelSpec"]

# Options of create_model and timm.create_model that read or fetch weights. A file with all tensors does
# not need them again.
FETCHING = ("pretrained", "checkpoint_path", "cache_dir", "weights")


@dataclass(frozen=True)
class ModelSpec:
    """The arguments of ``create_model``, except for weights.

    >>> spec = ModelSpec("patchnet", resolve_pool("svd-trunc", bound=1e8), 18)
    >>> spec.to_json()
    '{"name": "patchnet", "pool": ["svd-trunc", {"bound": 100000000.0}], "num_classes": 18,
      "reduction": null, "options": {}}'
    >>> ModelSpec.from_json(spec.to_json()) == spec
    True
    """

    name: str
    pool: str | Method
    num_classes: int
    reduction: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """Text that :meth:`from_json` reads."""
        try:
            return json.dumps({**vars(self), "pool": _describe(self.pool)})
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
            spec = cls(**{**values, "pool": resolve_pool(name, **parameters)})
            if not isinstance(spec.name, str) or not isinstance(spec.options, dict):
                raise TypeError("name must be text and options a dictionary")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(
                f"{text[:200]!r} does not say how a network was made: {error!r}"
            ) from error
        options = {k: v for k, v in spec.options.items() if not k.startswith(FETCHING)}
        return replace(spec, options=options)


def _describe(pool: str | Method) -> list[Any]:
    """The name of a pooling and its parameters."""
    if isinstance(pool, str):
        return [pool, {}]
    if not is_registered(pool):
        raise TypeError(f"{type(pool).__name__} is not in METHODS; see rootpool.nn.register")
    return [pool.name, asdict(pool)]
