"""A network cut before its own pooling: images in, one feature map out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

Features = Any  # a tensor, or a dictionary of tensors


PATCHES, ALL, BRANCHES = TOKENS = ("patches", "all", "class+patches")


@dataclass(frozen=True)
class Layout:
    """Where a feature map has its channels, which of its tokens are positions, and which are pooled.

    Args:
        order: of the axes.
        prefix_tokens: how many leading tokens are not positions: class and register tokens.
        class_token: whether the first of them is a class token.
        tokens: what the result has: the positions, all tokens, or a dictionary of both the class token
            and the positions. A network without a class token has its positions there: their
            average is what its own head classifies.

    >>> import torch
    >>> Layout("NLC", prefix_tokens=1)(torch.zeros(2, 197, 192)).shape
    torch.Size([2, 192, 196])
    >>> maps = Layout("NLC", 1, class_token=True, tokens="class+patches")(torch.zeros(2, 197, 192))
    >>> {name: tuple(map.shape) for name, map in maps.items()}
    {'class': (2, 192, 1), 'patches': (2, 192, 196)}
    """

    order: str = "NCHW"
    prefix_tokens: int = 0
    class_token: bool = False
    tokens: str = PATCHES

    def choosing(self, tokens: str, name: str) -> Layout:
        """The layout of the network ``name`` with other tokens."""
        if tokens not in TOKENS:
            raise ValueError(f"tokens must be one of {', '.join(TOKENS)}, got {tokens!r}")
        if tokens == ALL and not self.prefix_tokens:
            raise ValueError(
                f"{name} has no class token, so all its tokens are patches; use tokens={PATCHES!r}, or "
                f"{BRANCHES!r}, which puts their average beside the covariance"
            )
        return replace(self, tokens=tokens)

    def __call__(self, features: Tensor) -> Features:
        if self.order == "NLC":
            features = features.transpose(1, 2)
        elif self.order == "NHWC":
            features = features.permute(0, 3, 1, 2)
        positions = features[..., self.prefix_tokens :] if self.prefix_tokens else features
        if self.tokens == ALL:
            return features
        if self.tokens == PATCHES:
            return positions
        return {"class": features[..., :1] if self.class_token else positions, "patches": positions}


class Backbone(nn.Module):
    """A network without its head: images to ``(B, num_features, H, W)`` or ``(B, num_features, N)``.

    With ``tokens="class+patches"`` in the layout, to a dictionary of two such maps.

    Args:
        body: the network; its ``forward_features`` is called if it has one, as timm's models do.
        num_features: channels of the map.
        layout: what the body returns; ``forward`` puts the channels second.
        input_size: ``(C, H, W)`` of the images it was made for.
        pretrained_cfg: what else timm says of those images: mean, standard deviation, crop.

    >>> import torch
    >>> Backbone(nn.Conv2d(3, 8, 1), num_features=8)(torch.zeros(2, 3, 4, 4)).shape
    torch.Size([2, 8, 4, 4])
    """

    prefix = "body."  # before the names that the network has for its modules

    def __init__(
        self,
        body: nn.Module,
        num_features: int,
        layout: Layout = Layout(),  # noqa: B008 (frozen)
        input_size: tuple[int, int, int] = (3, 224, 224),
        pretrained_cfg: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.body = body
        self.num_features = num_features
        self.layout = layout
        self.input_size = input_size
        self.pretrained_cfg = dict(pretrained_cfg or {})

    def forward(self, images: Tensor, mask: Tensor | None = None) -> Features:
        """The map; where ``mask`` is false, no token attends to that position of it."""
        features: Callable[..., Tensor] = features_of(self.body)
        if mask is None:
            return self.layout(features(images))
        if "attn_mask" not in inspect.signature(features).parameters:
            raise ValueError(
                f"{type(self.body).__name__} cannot leave out positions; mask the pooling alone: "
                "model.forward_head(model.forward_features(images), mask=mask)"
            )
        kept = mask.flatten(1) > 0
        if self.layout.tokens != ALL:  # whose mask has the class and register tokens already
            kept = nn.functional.pad(kept, (self.layout.prefix_tokens, 0), value=True)
        return self.layout(features(images, attn_mask=kept[:, None, None]))

    def extra_repr(self) -> str:
        return f"num_features={self.num_features}, layout={self.layout}"


def features_of(body: nn.Module) -> Callable[[Tensor], Tensor]:
    """The function that gives the feature map: ``forward_features`` if there is one."""
    return getattr(body, "forward_features", body)


def refuse_missing(keys: Iterable[str], name: str) -> None:
    """Raise for parameters that a file lacks, except batch counts, which old files do not have."""
    missing = sorted(key for key in keys if not key.endswith("num_batches_tracked"))
    if missing:
        raise ValueError(f"the weights are not those of {name}: no {', '.join(missing)}")
