"""Feature maps of several stages of a network."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from timm.models import get_notrace_functions, get_notrace_modules
from torch import Tensor, fx, nn
from torchvision.models.feature_extraction import create_feature_extractor, get_graph_node_names

from rootpool.suggest import unknown_name

__all__ = ["Stages", "extract"]


class Stages(nn.Module):
    """The feature maps that named modules of a network give, as a dictionary.

    Layers that no stage needs are left out; the others are shared with ``network``. Maps with channels
    last (Swin) are transposed. To choose stages by number, use
    ``timm.create_model(name, features_only=True)``, which returns a list of maps;
    :class:`rootpool.nn.BranchPool` accepts that too.

    Args:
        network: any network that ``torch.fx`` can trace: nearly all of timm and torchvision.
        stages: names of modules as in ``network.named_modules()``, or ``"last"`` for the output of the
            network, which is a feature map if it was made with ``num_classes=0, global_pool=""``.
        image_size: size of the trial image that is used to find the number of channels.

    Shape:
        ``(B, 3, H, W)`` to a dictionary of ``(B, channels[stage], H_stage, W_stage)``.

    >>> import timm
    >>> network = timm.create_model("resnet18", num_classes=0, global_pool="")
    >>> backbone = Stages(network, ["layer2", "layer3.0.act1", "last"])
    >>> backbone.channels
    {'layer2': 128, 'layer3.0.act1': 256, 'last': 512}
    >>> {stage: tuple(map.shape) for stage, map in backbone(torch.randn(1, 3, 64, 64)).items()}
    {'layer2': (1, 128, 8, 8), 'layer3.0.act1': (1, 256, 4, 4), 'last': (1, 512, 2, 2)}
    """

    def __init__(self, network: nn.Module, stages: Iterable[str], image_size: int = 224) -> None:
        super().__init__()
        self.stages = _checked(stages, network)
        self.channels_last = getattr(network, "output_fmt", "NCHW") == "NHWC"
        self.network = extract(network, self.stages)
        size = getattr(network, "input_size", (3, image_size, image_size))
        self.channels = {stage: shape[1] for stage, shape in self._shapes(size).items()}

    def _shapes(self, size: Sequence[int]) -> dict[str, torch.Size]:
        """Shapes of the maps of one image, found without touching running statistics."""
        like = next(self.network.parameters(), torch.empty(0))
        image = torch.zeros(1, *size, dtype=like.dtype, device=like.device)
        training = self.network.training
        with torch.no_grad():
            maps = self.eval()(image)
        self.train(training)
        for stage, features in maps.items():
            if not isinstance(features, Tensor) or features.dim() != 4:
                got = tuple(features.shape) if isinstance(features, Tensor) else type(features)
                raise ValueError(
                    f"stage {stage!r} does not give a feature map (B, C, H, W), got {got}; "
                    "choose another module, or timm.create_model(name, features_only=True)"
                )
        return {stage: features.shape for stage, features in maps.items()}

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        maps: dict[str, Tensor] = self.network(images)
        if self.channels_last:
            return {stage: features.permute(0, 3, 1, 2) for stage, features in maps.items()}
        return maps

    def extra_repr(self) -> str:
        return f"channels={self.channels}"


def _checked(stages: Iterable[str], network: nn.Module) -> tuple[str, ...]:
    if isinstance(stages, str):
        raise TypeError(f"stages must be a list of names, got {stages!r}; write [{stages!r}]")
    stages = tuple(stages)
    if not stages or len(set(stages)) < len(stages):
        raise ValueError(f"stages must be one or more different names, got {stages}")
    modules = [name for name, _ in network.named_modules() if name]
    for stage in stages:
        if stage not in ("last", *modules):
            what = f"module of {type(network).__name__}"
            raise ValueError(unknown_name(what, stage, modules, "named_modules(), and 'last'"))
    return stages


def extract(network: nn.Module, stages: tuple[str, ...]) -> nn.Module:
    """The network up to the stages, traced for training and for evaluation."""
    tracer = {
        "leaf_modules": get_notrace_modules(),
        "autowrap_functions": get_notrace_functions(),
    }
    with warnings.catch_warnings():
        # Dropout makes the two graphs differ; names of modules hold in both.
        warnings.filterwarnings("ignore", message="NOTE: The nodes obtained by tracing")
        train, evaluation = (
            {(names[-1] if stage == "last" else stage): stage for stage in stages}
            for names in get_graph_node_names(network, tracer)
        )
        extractor: Any = create_feature_extractor(
            network,
            train_return_nodes=train,
            eval_return_nodes=evaluation,
            tracer_kwargs=tracer,
        )
    _keep_apart(extractor.train_graph)
    _keep_apart(extractor.eval_graph)
    extractor.train(not network.training)  # a change of mode compiles the changed graph
    return extractor.train(network.training)


def _keep_apart(graph: fx.Graph) -> None:
    """Copy the maps, because many modules are followed by an activation that works in place."""
    output = next(node for node in reversed(graph.nodes) if node.op == "output")
    maps = {}
    for stage, node in output.args[0].items():
        with graph.inserting_after(node):
            maps[stage] = graph.call_function(_copied, (node,))
    output.args = (maps,)


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value
