"""How a network was made, as a value that is saved with its weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import torch

from rootpool.nn import Branch, Length, Method, is_registered, resolve_pool
from rootpool.nn.scaling import Scaling

from .backbones import PATCHES

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
            values = _plain(vars(self))
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
            spec = cls(**_read(dict(json.loads(text))))
            if not isinstance(spec.name, str) or not isinstance(spec.options, dict):
                raise TypeError("name must be text and options a dictionary")
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise ValueError(
                f"{text[:200]!r} does not say how a network was made: {error!r}"
            ) from error
        options = {k: v for k, v in spec.options.items() if not k.startswith(FETCHING)}
        return replace(spec, options=options)


_DEFAULTS = {field.name: field.default for field in fields(ModelSpec)}
_DTYPES = {None: None, "float32": torch.float32, "float64": torch.float64}


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a spec, or of one of its branches, as JSON has them."""
    plain: dict[str, Any] = {"pool": _describe(values["pool"])}
    if values.get("compute_dtype") is not None:
        plain["compute_dtype"] = str(values["compute_dtype"]).removeprefix("torch.")
    if isinstance(values["scaling"], Length):
        plain["scaling"] = asdict(values["scaling"])
    return {**values, **plain}


def _read(values: dict[str, Any]) -> dict[str, Any]:
    """The values again, from what stands for them."""
    pool, scaling = values["pool"], values.get("scaling")
    if isinstance(pool[0], str):
        read: dict[str, Any] = {"pool": resolve_pool(pool[0], **pool[1])}
    else:
        read = {"pool": tuple(Branch(**_read(dict(branch))) for branch in pool)}
    if "compute_dtype" in values:
        read["compute_dtype"] = _DTYPES[values["compute_dtype"]]
    if scaling is not None:
        read["scaling"] = Length(**scaling)
    return {**values, **read}


def _describe(pool: str | Method | tuple[Branch, ...]) -> list[Any]:
    """The name of a pooling and its parameters, or a list of branches."""
    if isinstance(pool, str):
        return [pool, {}]
    if isinstance(pool, tuple):
        return [_plain(vars(branch)) for branch in pool]
    if not is_registered(pool):
        raise TypeError(f"{type(pool).__name__} is not in METHODS; see rootpool.nn.register")
    return [pool.name, asdict(pool)]
