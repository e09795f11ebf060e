"""A backbone in two parts: its first stages, which are frozen, and the rest, which learns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, fx, nn

from .backbones import Backbone, Features, features_of
from .stages import Stages, extract

__all__ = ["split_at_frozen"]


def split_at_frozen(backbone: Backbone) -> tuple[Stages, nn.Module]:
    """The frozen beginning of a backbone, images to ``{name: map}``, and the rest, that map to the features.

    Both share their layers with the backbone. The output of the first part never changes, so it can be
    cached, and only the second part is trained.

    Args:
        backbone: of a network whose :meth:`~rootpool.models.PooledClassifier.freeze` was called.

    >>> import torch
    >>> from rootpool.models import create_model
    >>> model = create_model("resnet18", num_classes=5).eval()
    >>> model.freeze(3)
    >>> first, rest = split_at_frozen(model.backbone)
    >>> images = torch.randn(2, 3, 64, 64)
    >>> {name: tuple(map.shape) for name, map in first(images).items()}
    {'body.layer2': (2, 128, 8, 8)}
    >>> torch.allclose(rest(first(images)["body.layer2"]), model.backbone(images), atol=1e-4)
    True
    """
    network = _WithoutLayout(backbone)
    learns = {name: parameter.requires_grad for name, parameter in network.named_parameters()}
    if not any(learns.values()):
        return Stages(network, ["last"]), Compose(nn.Identity(), backbone.layout)
    frozen = list(learns)[: list(learns.values()).index(True)]
    if not frozen:
        raise ValueError(
            "nothing is frozen at the beginning of the backbone; freeze its first stages"
        )
    name = _outermost(frozen[-1], [name for name in learns if learns[name]])
    return Stages(network, [name]), Compose(Tail(network, name, backbone), backbone.layout)


class _WithoutLayout(nn.Module):
    """A backbone up to the one map that its layout takes apart, which is what can be traced."""

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.body = backbone.body
        self.input_size = backbone.input_size
        self.training = backbone.training

    def forward(self, images: Tensor) -> Tensor:
        return features_of(self.body)(images)


class Compose(nn.Module):
    """A module, and a function of what it gives."""

    def __init__(self, first: nn.Module, second: Callable[[Tensor], Features]) -> None:
        super().__init__()
        self.first = first
        self.second = second

    def forward(self, features: Tensor) -> Features:
        return self.second(self.first(features))


def _outermost(last: str, learning: list[str]) -> str:
    """The outermost module with the parameter ``last`` and without any that learns."""
    parts = last.split(".")[:-1]
    prefixes = (".".join(parts[: k + 1]) for k in range(len(parts)))
    for prefix in prefixes:
        if not any(name.startswith(f"{prefix}.") for name in learning):
            return prefix
    raise ValueError(f"{last} is frozen in a module that learns; freeze whole stages")


class Tail(nn.Module):
    """What a network does after a module: from its output to the output of the network.

    Args:
        network: any that ``torch.fx`` can trace.
        after: the name of the module.
        like: a module whose mode counts, training or evaluation; None for the network.

    Raises:
        ValueError: something else than this output reaches the rest, such as a skip connection.
    """

    def __init__(self, network: nn.Module, after: str, like: nn.Module | None = None) -> None:
        super().__init__()
        extracted: Any = extract(network, (after, "last"))
        # Held apart from the registered modules: these are the network's, which sets their modes.
        self._graphs = tuple(
            fx.GraphModule(extracted, _beginning_at(graph, after))
            for graph in (extracted.eval_graph, extracted.train_graph)
        )
        self._like = (like or network,)

    def forward(self, features: Tensor) -> Tensor:
        result: Tensor = self._graphs[self._like[0].training](features)
        return result


def _beginning_at(graph: fx.Graph, after: str) -> fx.Graph:
    """The part of a graph between two of its maps, as a graph of its own."""
    output = next(node for node in reversed(graph.nodes) if node.op == "output")
    maps = output.args[0]
    start = maps[after].args[0]  # each map is a copy of what the module gives
    images = next(node for node in graph.nodes if node.op == "placeholder")
    with graph.inserting_before(images):
        features = graph.placeholder("features")
    start.replace_all_uses_with(features)
    output.args = (maps["last"],)
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
