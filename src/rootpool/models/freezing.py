"""Which parameters of a backbone stay as they are: all, or those up to a module."""

from __future__ import annotations

from torch import nn

__all__ = ["frozen_parameters", "set_frozen_to_eval"]

BACKBONE = "backbone"


def frozen_parameters(backbone: nn.Module, last: str) -> list[nn.Parameter]:
    """Parameters that would learn otherwise: of the whole backbone, or of a module and those before it.

    The order is that in which the network has its modules.
    """
    learning = {name: p for name, p in backbone.named_parameters() if p.requires_grad}
    if last == BACKBONE:
        return list(learning.values())
    prefix: str = getattr(backbone, "prefix", "")
    inside = [k for k, name in enumerate(learning) if name.startswith(f"{prefix}{last}.")]
    if not inside:
        example = next(iter(learning), prefix).removeprefix(prefix).rpartition(".")[0]
        raise ValueError(
            f"freeze takes {BACKBONE!r}, or its last module that is frozen, such as {example!r}, got {last!r}"
        )
    return list(learning.values())[: inside[-1] + 1]


def set_frozen_to_eval(module: nn.Module) -> None:
    """Put every part whose parameters are all frozen into evaluation mode: batch norm, dropout."""
    parameters = list(module.parameters())
    if parameters and not any(parameter.requires_grad for parameter in parameters):
        module.eval()
        return
    for child in module.children():
        set_frozen_to_eval(child)
