"""A backbone in two parts: its first stages, which are frozen, and the rest, which learns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, fx, nn

from .backbones import Backbone, Features
from .stages import LAST, Stages, WithoutLayout, extract


def split_at_frozen(backbone: Backbone | Stages) -> tuple[Stages, nn.Module]:
    """The frozen beginning of a backbone, images to ``{stage: map}``, and the rest, these to the features.

    Both share their layers with the backbone. The output of the first part never changes, so it can be
    cached, and only the second part is trained.

    Args:
        backbone: of a network whose :meth:`~rootpool.models.PooledClassifier.freeze` was called. One with
            several stages must be frozen as a whole.

    Returns:
        The first part and the rest.

    >>> import torch
    >>> from rootpool.models import create_model
    >>> model = create_model("resnet18", num_classes=5).eval()
    >>> model.freeze("layer2")
    >>> first, rest = split_at_frozen(model.backbone)
    >>> images = torch.randn(2, 3, 64, 64)
    >>> {name: tuple(map.shape) for name, map in first(images).items()}
    {'body.layer2': (2, 128, 8, 8)}
    >>> torch.allclose(rest(first(images)), model.backbone(images), atol=1e-4)
    True
    """
    learns = {name: parameter.requires_grad for name, parameter in backbone.named_parameters()}
    if isinstance(backbone, Stages) and not any(learns.values()):
        return backbone, nn.Identity()
    if isinstance(backbone, Stages):
        raise ValueError("several stages are pooled, and not all are frozen; freeze the backbone")
    network = WithoutLayout(backbone)
    if not any(learns.values()):
        return Stages(network, [LAST]), Rest(network, None, backbone)
    frozen = list(learns)[: list(learns.values()).index(True)]
    if not frozen:
        raise ValueError(
            "nothing is frozen at the beginning of the backbone; freeze its first stages"
        )
    name = _outermost(frozen[-1], [name for name in learns if learns[name]])
    return Stages(network, [name]), Rest(network, name, backbone)


def _outermost(last: str, learning: list[str]) -> str:
    """The outermost module with the parameter ``last`` and without any that learns."""
    parts = last.split(".")[:-1]
    prefixes = (".".join(parts[: k + 1]) for k in range(len(parts)))
    for prefix in prefixes:
        if not any(name.startswith(f"{prefix}.") for name in learning):
            return prefix
    raise ValueError(f"{last} is frozen in a module that learns; freeze whole stages")


class Rest(nn.Module):
    """From the one map of the frozen stages to the features.

    Args:
        network: any that ``torch.fx`` can trace.
        after: the name of the module that gives the map; None where that is the output of the network.
        backbone: whose mode counts, training or evaluation, and whose layout the features have.

    Raises:
        ValueError: something else than this map reaches the features, such as a skip connection.
    """

    def __init__(self, network: nn.Module, after: str | None, backbone: Backbone) -> None:
        super().__init__()
        # Held apart from the registered modules: these are the backbone's, which sets their modes.
        self._backbone = (backbone,)
        self._graphs: tuple[nn.Module, ...] = (nn.Identity(), nn.Identity())
        if after is not None:
            extracted: Any = extract(network, {after: after, LAST: LAST})
            self._graphs = tuple(
                fx.GraphModule(extracted, _beginning_at(graph, after))
                for graph in (extracted.eval_graph, extracted.train_graph)
            )

    def forward(self, maps: Mapping[str, Tensor]) -> Features:
        (features,) = maps.values()
        (backbone,) = self._backbone
        return backbone.layout(self._graphs[backbone.training](features))


def _beginning_at(graph: fx.Graph, after: str) -> fx.Graph:
    """The part of a graph between two of its maps, as a graph of its own."""
    output = next(node for node in reversed(graph.nodes) if node.op == "output")
    maps = output.args[0]
    start = maps[after].args[0]  # each map is a copy of what the module gives
    images = next(node for node in graph.nodes if node.op == "placeholder")
    with graph.inserting_before(images):
        features = graph.placeholder("features")
    start.replace_all_uses_with(features)
    output.args = (maps[LAST],)
    graph.eliminate_dead_code()
    if images.users:
        names = ", ".join(str(node) for node in images.users)
        raise ValueError(
            f"the network cannot be cut after {after}: {names} needs more than its output; freeze other "
            "stages"
        )
    graph.erase_node(images)
    graph.lint()
    return graph
