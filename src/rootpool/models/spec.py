"""How a network was made, as a value that fits into a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rootpool.nn import Method, is_registered, resolve_pool

__all__ = ["ModelSpec", "refuse_fetching"]

# Of timm.create_model and of create_model.
FETCHING = ("pretrained", "checkpoint_path", "cache_dir", "weights")


@dataclass(frozen=True)
class ModelSpec:
    """The arguments of ``create_model``, but for weights.

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
        """As text; :meth:`from_json` reads it."""
        try:
            return json.dumps({**vars(self), "pool": _describe(self.pool)})
        except TypeError as error:
            raise TypeError(
                f"{self} cannot be written to a file ({error}); with model.spec = None the weights are "
                "saved alone"
            ) from error

    @classmethod
    def from_json(cls, text: str) -> ModelSpec:
        """From text that :meth:`to_json` wrote; what would fetch or read further files is refused."""
        try:
            values = json.loads(text)
            name, parameters = values["pool"]
            spec = cls(**{**values, "pool": resolve_pool(name, **parameters)})
            if not isinstance(spec.name, str) or not isinstance(spec.options, dict):
                raise TypeError("name must be a text and options a dictionary")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(
                f"{text[:200]!r} does not say how a network was made: {error!r}"
            ) from error
        refuse_fetching(spec.options)
        return spec


def _describe(pool: str | Method) -> list[Any]:
    """The name of a pooling and its parameters."""
    if isinstance(pool, str):
        return [pool, {}]
    if not is_registered(pool):
        raise TypeError(f"{type(pool).__name__} is not in METHODS; see rootpool.nn.register")
    return [pool.name, asdict(pool)]


def refuse_fetching(options: Mapping[str, Any]) -> None:
    """Raise for options that make a network read or fetch files: a file may not ask for others."""
    fetching = [name for name in options if name.startswith(FETCHING)]
    if fetching:
        raise ValueError(
            f"the file asks for {', '.join(fetching)}, which would read or fetch other files; "
            "if you want them, make the network yourself and give it: load_checkpoint(path, model)"
        )
