"""The form of all networks here: a backbone, a pooling and a classifier."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from rootpool.nn import Method

from .backbones import Features
from .spec import ModelSpec

BACKBONE = "backbone"


class PooledClassifier(nn.Module):
    """``classifier(pool(backbone(images)))``, with the methods that timm's models have.

    Nothing in the ``state_dict`` depends on the method of the pooling, which can be changed on a live
    network: ``model.pool.method = "svd-pade"``.

    Args:
        backbone: images to one feature map, ``(B, C, H, W)`` or ``(B, C, N)``, or to what the pool takes.
        pool: a feature map to ``(B, out_features)``, such as :class:`rootpool.nn.CovariancePool`.
        classifier: ``(B, out_features)`` to ``(B, num_classes)``.
        spec: how ``create_model`` made the network; a saved file carries it.
        drop_rate: dropout of the pooled vector, before the classifier.

    Shape:
        what the backbone takes, to ``(B, num_classes)``. A second argument, ``model(images, mask)``, is a
        mask ``(B, N)`` of the positions of the feature map: false where a sequence is padded. The pool leaves
        them out. The backbone gets the mask as its second argument, because its attention must leave them
        out as well: transformers of timm with ``attn_mask`` do, and your own may. For any other backbone,
        ``forward_head(features, mask=mask)`` masks the pool alone.

    >>> import torch
    >>> from rootpool.nn import CovariancePool
    >>> pool = CovariancePool(8)
    >>> model = PooledClassifier(nn.Conv2d(3, 8, 3), pool, nn.Linear(pool.out_features, 10))
    >>> model(torch.randn(2, 3, 9, 9)).shape
    torch.Size([2, 10])

    Sequences of four and of nine tokens, the first one padded:

    >>> from rootpool.models import create_model
    >>> vit = create_model(
    ...     "vit_tiny_patch16_224", num_classes=10, reduction=8, img_size=48, depth=1
    ... )
    >>> mask = torch.arange(9) < torch.tensor([[4], [9]])
    >>> vit(torch.randn(2, 3, 48, 48), mask).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        backbone: nn.Module,
        pool: nn.Module,
        classifier: nn.Module,
        spec: ModelSpec | None = None,
        drop_rate: float = 0.0,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.pool = pool
        self.head_drop = nn.Dropout(drop_rate)
        self.classifier = classifier
        self.spec = spec
        self._frozen: list[nn.Parameter] = []
        self._norms_frozen = False
        self._made = _kinds(classifier)

    # Sizes

    @property
    def num_classes(self) -> int:
        """Outputs of the last linear layer; 0 if there is none."""
        layers = [m for m in self.classifier.modules() if isinstance(m, nn.Linear | nn.Identity)]
        return layers[-1].out_features if isinstance(layers[-1], nn.Linear) else 0

    @property
    def num_features(self) -> int:
        """Channels of the feature map that ``forward_features`` gives."""
        return self.backbone.num_features  # type: ignore[return-value]

    @property
    def head_hidden_size(self) -> int:
        """Width of the pooled vector that ``forward_head(features, pre_logits=True)`` gives."""
        return self.pool.out_features  # type: ignore[return-value]

    @property
    def pretrained_cfg(self) -> dict[str, Any]:
        """What images the backbone was made for: ``input_size``, ``mean``, ``std``, ``crop_pct``, ...

        ``timm.data.resolve_model_data_config(model)`` reads it.
        """
        about = dict(getattr(self.backbone, "pretrained_cfg", {}))
        size = getattr(self.backbone, "input_size", None)
        return about if size is None else {**about, "input_size": size}

    # Forward

    def forward_features(self, images: Tensor, mask: Tensor | None = None) -> Features:
        """The feature map, before pooling and reduction; a dictionary of maps for several branches."""
        return self.backbone(images) if mask is None else self.backbone(images, mask)

    def forward_head(
        self, features: Features, pre_logits: bool = False, mask: Tensor | None = None
    ) -> Tensor:
        """Logits of a feature map, or the pooled vector that they are computed from."""
        pooled = self.pool(features) if mask is None else self.pool(features, mask)
        pooled = self.head_drop(pooled.flatten(1))
        return pooled if pre_logits else self.classifier(pooled)

    def forward(self, images: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.forward_head(self.forward_features(images, mask), mask=mask)

    # The last layer

    @property
    def has_own_layers(self) -> bool:
        """Whether the layers after the pooling are those it was made with, but for their sizes."""
        return self._made == _kinds(self.classifier)

    def get_classifier(self) -> nn.Module:
        """The layers after the pooling."""
        return self.classifier

    def reset_classifier(self, num_classes: int, global_pool: str | Method | None = None) -> None:
        """A new last layer for another number of classes; 0 for none.

        Args:
            num_classes: outputs.
            global_pool: another method of the pooling; None leaves it.
        """
        if not isinstance(num_classes, int) or num_classes < 0:
            raise ValueError(f"num_classes must be an integer from 0 on, got {num_classes!r}")
        if global_pool is not None:
            self.pool.method = global_pool  # type: ignore[assignment]
        before = list(self.classifier)[:-1] if isinstance(self.classifier, nn.Sequential) else []
        widths = [layer.out_features for layer in before if isinstance(layer, nn.Linear)]
        like = next(self.parameters())
        last = linear_or_none([self.head_hidden_size, *widths][-1], num_classes).to(like)
        if before:
            self.classifier[-1] = last  # type: ignore[operator]
        else:
            self.classifier = last
        if self.spec is not None:
            self.spec = replace(self.spec, num_classes=num_classes)

    # Training

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Recompute the backbone's activations in the backward pass instead of keeping them."""
        body = getattr(self.backbone, "body", self.backbone)
        switch = getattr(body, "set_grad_checkpointing", None)
        if switch is None:
            raise ValueError(
                f"{type(body).__name__} cannot recompute its activations; backbones of timm can"
            )
        switch(enable)

    def no_weight_decay(self) -> set[str]:
        """Names of parameters that weight decay should leave alone, such as position embeddings."""
        body = getattr(self.backbone, "body", None)
        names: set[str] = getattr(body, "no_weight_decay", set)()
        return {f"backbone.body.{name}" for name in names}

    def freeze(self, what: str = BACKBONE) -> None:
        """Leave the backbone, or its first modules, as they are: no gradient, no new statistics.

        Args:
            what: ``"backbone"``, or the name of its last module that is frozen, such as ``"layer3.0"``.

        >>> from rootpool.models import create_model
        >>> model = create_model("resnet18", num_classes=5)
        >>> model.freeze("layer1")
        >>> model.backbone.body.layer2[0].conv1.weight.requires_grad
        True
        >>> model.backbone.body.layer1[0].bn1.training
        False
        """
        self.unfreeze()
        self._frozen = _first_parameters(self.backbone, what)
        for parameter in self._frozen:
            parameter.requires_grad_(False)
        self.train(self.training)

    def unfreeze(self) -> None:
        """Let everything learn that :meth:`freeze` stopped."""
        for parameter in self._frozen:
            parameter.requires_grad_(True)
        self._frozen = []
        self.train(self.training)

    def freeze_norm_statistics(self, hold: bool = True) -> None:
        """Whether batch norms of the backbone keep their statistics in training; scales and shifts learn."""
        self._norms_frozen = hold
        self.train(self.training)

    def train(self, mode: bool = True) -> PooledClassifier:
        super().train(mode)
        if self._frozen:
            _set_frozen_to_eval(self.backbone)
        if self._norms_frozen:
            for layer in self.backbone.modules():
                if isinstance(layer, _BatchNorm):
                    layer.eval()
        return self


def _first_parameters(backbone: nn.Module, last: str) -> list[nn.Parameter]:
    """Parameters that learn: of the whole backbone, or of a module and of those before it."""
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


def _set_frozen_to_eval(module: nn.Module) -> None:
    """Put every part whose parameters are all frozen into evaluation mode: batch norm, dropout."""
    parameters = list(module.parameters())
    if parameters and not any(parameter.requires_grad for parameter in parameters):
        module.eval()
        return
    for child in module.children():
        _set_frozen_to_eval(child)


def _kinds(classifier: nn.Module) -> list[type[nn.Module]]:
    """The layers by kind; no last layer is one of any size."""
    kinds = [type(layer) for layer in classifier.modules()]
    return [nn.Linear if kind is nn.Identity else kind for kind in kinds]


def linear_or_none(in_features: int, num_classes: int) -> nn.Module:
    """The last layer of a network; nothing for no classes."""
    return nn.Linear(in_features, num_classes) if num_classes else nn.Identity()
