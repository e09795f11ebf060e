"""Feature maps of several stages of a network."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import torch
from timm.layers.norm_act import BatchNormAct2d
from timm.models import get_notrace_functions, get_notrace_modules
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torchvision.models.feature_extraction import create_feature_extractor, get_graph_node_names

from rootpool.suggest import unknown_name

from .backbones import Backbone, Layout, features_of

LAST, AVERAGE = "last", "average"


class Stages(nn.Module):
    """The feature maps that named modules of a network give, as a dictionary.

    Layers that no stage needs are left out; the others are shared with ``network``. Maps with channels
    last (Swin) are transposed. To choose stages by number, use
    ``timm.create_model(name, features_only=True)``, which returns a list of maps;
    :class:`rootpool.nn.BranchPool` accepts that too.

    Args:
        network: any network that ``torch.fx`` can trace: nearly all of timm and torchvision; or the backbone
            of one, ``create_model(name).backbone``.
        stages: names of modules as in ``network.named_modules()`` (``network.body`` for a backbone), or
            ``"last"`` for the output of the network, which is a feature map if it was made with
            ``num_classes=0, global_pool=""``, or ``"average"`` for the average over its positions.
        image_size: size of the trial image that is used to find the number of channels.

    Shape:
        ``(B, 3, H, W)`` to a dictionary of ``(B, channels[stage], H_stage, W_stage)``.

    >>> import timm
    >>> network = timm.create_model("resnet18", num_classes=0, global_pool="")
    >>> backbone = Stages(network, ["layer2", "layer3.0.act1", "last", "average"])
    >>> backbone.channels
    {'layer2': 128, 'layer3.0.act1': 256, 'last': 512, 'average': 512}
    >>> {stage: tuple(map.shape[2:]) for stage, map in backbone(torch.randn(1, 3, 64, 64)).items()}
    {'layer2': (8, 8), 'layer3.0.act1': (4, 4), 'last': (2, 2), 'average': (1, 1)}
    """

    def __init__(self, network: nn.Module, stages: Iterable[str], image_size: int = 224) -> None:
        super().__init__()
        channels_last = getattr(network, "output_fmt", "NCHW") == "NHWC"
        self.layout = Layout("NHWC" if channels_last else "NCHW")
        named, traced, prefix = network, network, ""
        if isinstance(network, Backbone):
            self.layout = network.layout
            named, traced, prefix = network.body, WithoutLayout(network), network.prefix
        self.prefix = f"network.{prefix}"
        self.stages = _checked(stages, named)
        needed = dict.fromkeys(LAST if stage == AVERAGE else stage for stage in self.stages)
        modules = {stage: stage if stage == LAST else prefix + stage for stage in needed}
        self.network = extract(traced, modules)
        self.input_size = getattr(network, "input_size", (3, image_size, image_size))
        self.pretrained_cfg = dict(getattr(network, "pretrained_cfg", None) or {})
        self.channels = {stage: shape[1] for stage, shape in self._shapes(self.input_size).items()}
        self.num_features = sum(self.channels.values())

    def _shapes(self, size: Sequence[int]) -> dict[str, torch.Size]:
        """Shapes of the maps of one image, found without touching running statistics."""
        like = next(self.network.parameters(), torch.empty(0))
        image = torch.zeros(1, *size, dtype=like.dtype, device=like.device)
        training = self.network.training
        with torch.no_grad():
            maps = self.eval()(image)
        self.train(training)
        axes = (3, 4) if self.layout.order == "NLC" else (4,)
        for stage, features in maps.items():
            if not isinstance(features, Tensor) or features.dim() not in axes:
                got = tuple(features.shape) if isinstance(features, Tensor) else type(features)
                raise ValueError(
                    f"stage {stage!r} does not give a feature map (B, C, H, W), got {got}; "
                    "choose another module, or timm.create_model(name, features_only=True)"
                )
        return {stage: features.shape for stage, features in maps.items()}

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        maps = {stage: self.layout(features) for stage, features in self.network(images).items()}
        if AVERAGE in self.stages:
            maps[AVERAGE] = maps[LAST].flatten(2).mean(-1)[..., None, None]
        return {stage: maps[stage] for stage in self.stages}

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
        if stage not in (LAST, AVERAGE, *modules):
            what = f"module of {type(network).__name__}"
            listed = f"named_modules(), {LAST!r} and {AVERAGE!r}"
            raise ValueError(unknown_name(what, stage, modules, listed))
    return stages


class WithoutLayout(nn.Module):
    """A backbone up to the one map that its layout takes apart, which is what can be traced."""

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.body = backbone.body
        self.input_size = backbone.input_size
        self.training = backbone.training

    def forward(self, images: Tensor) -> Tensor:
        return features_of(self.body)(images)


def extract(network: nn.Module, stages: Mapping[str, str]) -> nn.Module:
    """The network up to the modules of some stages, traced for training and for evaluation."""
    tracer = {
        "leaf_modules": get_notrace_modules(),
        "autowrap_functions": get_notrace_functions(),
    }
    with warnings.catch_warnings():
        # Dropout makes the two graphs differ; names of modules hold in both.
        warnings.filterwarnings("ignore", message="NOTE: The nodes obtained by tracing")
        train, evaluation = (
            {(names[-1] if name == LAST else name): stage for stage, name in stages.items()}
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
            # By a name that does not depend on the other stages, as fingerprints of features do not.
            name = f"{node.name}_copied"
            maps[stage] = graph.create_node("call_function", _copied, (node,), name=name)
    output.args = (maps,)


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


# --------------------------------------------------------------------------------------------------
# Faster in evaluation


def fold_norms(stages: Stages) -> Stages:
    """A copy for evaluation, in which batch norms after convolutions are folded into these: it is faster.

    Batch norms take a third of the time of an EfficientNet on a CPU. The copy gives the same maps as
    ``stages`` in evaluation mode, up to rounding; ``stages`` itself does not change.

    >>> import timm
    >>> network = timm.create_model("resnet10t", num_classes=0, global_pool="").eval()
    >>> folded = fold_norms(Stages(network, ["last"]))
    >>> any(isinstance(module, nn.BatchNorm2d) for module in folded.modules())
    False
    """
    folded = copy.deepcopy(stages).eval()  # a copy of a traced network is in training mode
    network = cast(fx.GraphModule, folded.network)
    modules = dict(network.named_modules())
    calls = [str(node.target) for node in network.graph.nodes if node.op == "call_module"]
    for node in network.graph.nodes:
        if not _follows_convolution(node, modules):
            continue
        convolution, norm = str(node.args[0].target), str(node.target)
        if calls.count(convolution) == calls.count(norm) == 1:
            with torch.no_grad():
                fused = fuse_conv_bn_eval(modules[convolution], modules[norm])
            network.set_submodule(convolution, fused)
            network.set_submodule(norm, _without_norm(modules[norm]))
    return folded


def _follows_convolution(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    """Whether a node is a batch norm after a convolution whose output nothing else uses."""
    if node.op != "call_module" or not isinstance(modules[str(node.target)], nn.BatchNorm2d):
        return False
    before = node.args[0]
    return (
        isinstance(before, fx.Node)
        and before.op == "call_module"
        and isinstance(modules[str(before.target)], nn.Conv2d)
        and len(before.users) == 1
    )


def _without_norm(norm: nn.Module) -> nn.Module:
    """What replaces a folded batch norm: for timm's, its activation; otherwise nothing."""
    if isinstance(norm, BatchNormAct2d):
        return nn.Sequential(norm.drop, norm.act)
    return nn.Identity()
