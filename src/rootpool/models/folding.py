"""Fold batch norms into the convolutions before them: the same function in evaluation, but faster."""

from __future__ import annotations

import copy
from typing import cast

import torch
from timm.layers.norm_act import BatchNormAct2d
from torch import fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from .stages import Stages

__all__ = ["fold_norms"]


def fold_norms(stages: Stages) -> Stages:
    """A copy for evaluation, in which batch norms after convolutions are folded into these.

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
