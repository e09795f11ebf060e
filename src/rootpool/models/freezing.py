"""Which parameters of a backbone stay as they are, by stage."""

from __future__ import annotations

from typing import Any

from torch import nn

__all__ = ["frozen_parameters", "hold_still", "stages_of"]

BACKBONE = "backbone"
_STEM = ("conv1", "bn1")  # of torchvision's ResNets


def frozen_parameters(backbone: nn.Module, what: str | int) -> list[nn.Parameter]:
    """Parameters of the whole backbone, or of its first stages, that would learn otherwise."""
    learning = {name: p for name, p in backbone.named_parameters() if p.requires_grad}
    if what == BACKBONE:
        return list(learning.values())
    stages = stages_of(backbone)
    count = max(stages.values()) + 1
    if isinstance(what, bool) or not isinstance(what, int) or not 0 < what <= count:
        raise ValueError(
            f"freeze takes {BACKBONE!r} or how many of its {count} stages, got {what!r}"
        )
    return [parameter for name, parameter in learning.items() if stages[name] < what]


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


def hold_still(module: nn.Module) -> None:
    """Put every part whose parameters are all frozen into evaluation mode: batch norm, dropout."""
    parameters = list(module.parameters())
    if parameters and not any(parameter.requires_grad for parameter in parameters):
        module.eval()
        return
    for child in module.children():
        hold_still(child)
