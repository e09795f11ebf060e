"""Which parameters of a backbone stay as they are, by stage or up to a module."""

from __future__ import annotations

from typing import Any

from torch import nn

__all__ = ["frozen_parameters", "set_frozen_to_eval", "stages_of"]

BACKBONE = "backbone"
_STEM = ("conv1", "bn1")  # of torchvision's ResNets


def frozen_parameters(backbone: nn.Module, what: str | int) -> list[nn.Parameter]:
    """Parameters of the whole backbone, or of its beginning, that would learn otherwise."""
    learning = {name: p for name, p in backbone.named_parameters() if p.requires_grad}
    if what == BACKBONE:
        return list(learning.values())
    stages = stages_of(backbone)
    count = max(stages.values()) + 1
    if isinstance(what, str):
        kept = _up_to(what, backbone, learning)
    elif not isinstance(what, bool) and isinstance(what, int) and 0 < what <= count:
        kept = [parameter for name, parameter in learning.items() if stages[name] < what]
    else:
        kept = []
    if not kept:
        raise ValueError(
            f"freeze takes {BACKBONE!r}, how many of its {count} stages, or its last module that is frozen, "
            f"such as {next(iter(learning)).removeprefix('body.').rpartition('.')[0]!r}, got {what!r}"
        )
    return kept


def _up_to(
    module: str, backbone: nn.Module, learning: dict[str, nn.Parameter]
) -> list[nn.Parameter]:
    """What learns in a module and in those before it, in the order in which the network has them."""
    prefix = "body." if hasattr(backbone, "body") else ""
    inside = [k for k, name in enumerate(learning) if name.startswith(f"{prefix}{module}.")]
    return list(learning.values())[: inside[-1] + 1] if inside else []


def stages_of(backbone: nn.Module) -> dict[str, int]:
    """The number of its stage for each parameter of a backbone; the stem is stage 0.

    timm's models say it themselves; otherwise a stage is a child of the network, or an entry of its
    list ``features``.
    """
    body: Any = getattr(backbone, "body", backbone)
    prefix = "body." if body is not backbone else ""
    if hasattr(body, "group_matcher"):
        from timm.models import group_parameters

        groups = group_parameters(body, body.group_matcher(coarse=True), reverse=True)
        return {prefix + name: stage for name, stage in groups.items()}
    places = {name: _place(name) for name, _ in body.named_parameters()}
    order = {place: k for k, place in enumerate(dict.fromkeys(places.values()))}
    return {prefix + name: order[place] for name, place in places.items()}


def _place(name: str) -> str:
    first, *rest = name.split(".")
    if first in _STEM:
        return "stem"
    return f"{first}.{rest[0]}" if first == "features" and rest else first


def set_frozen_to_eval(module: nn.Module) -> None:
    """Put every part whose parameters are all frozen into evaluation mode: batch norm, dropout."""
    parameters = list(module.parameters())
    if parameters and not any(parameter.requires_grad for parameter in parameters):
        module.eval()
        return
    for child in module.children():
        set_frozen_to_eval(child)
