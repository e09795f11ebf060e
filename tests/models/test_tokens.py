"""Heads for the tokens of transformers: patches, all tokens, and two branches."""

import pytest
import torch
from torch import nn

from rootpool.models import create_model, load_checkpoint, save_checkpoint
from rootpool.nn import CovariancePool, Length, covariance_pool

VIT = {"img_size": 32, "patch_size": 8, "depth": 2, "embed_dim": 24, "num_heads": 2}
SWIN = {"img_size": 64, "embed_dim": 12, "depths": (1, 1), "num_heads": (1, 2), "window_size": 4}
NETWORKS = {
    "vit_tiny_patch16_224": VIT,
    "deit_tiny_distilled_patch16_224": VIT,
    "vit_small_patch14_reg4_dinov2": VIT,
    "swin_tiny_patch4_window7_224": SWIN,
}
BRANCHES = "class+patches"
HEADS = [
    (name, tokens)
    for name in NETWORKS
    for tokens in ("patches", "all", BRANCHES)
    if not (tokens == "all" and name.startswith("swin"))
]


def make(name, tokens, pool="exact", num_classes=5, **options):
    torch.manual_seed(0)
    return create_model(name, pool, num_classes, tokens=tokens, **NETWORKS[name], **options)


def images(name, count=3):
    size = NETWORKS[name]["img_size"]
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, 3, size, size, generator=generator)


def all_tokens(name, model):
    """What timm itself gives: tokens ``(B, L, C)``, and how many of them are not patches."""
    body = model.backbone.body
    tokens = body.forward_features(images(name))
    return tokens.flatten(1, -2), getattr(body, "num_prefix_tokens", 0)


@pytest.mark.parametrize(("name", "tokens"), HEADS)
def test_the_representation_by_definition(name, tokens):
    model = make(name, tokens, num_classes=0).eval()
    X, prefix = all_tokens(name, model)
    seen = X if tokens == "all" else X[:, prefix:]
    expected = covariance_pool(seen.transpose(1, 2))
    if tokens == BRANCHES:
        first = X[:, 0] if prefix else X.mean(1)
        expected = torch.cat([first, expected], 1)
    got = model(images(name))
    assert got.shape == (3, model.head_hidden_size)
    assert torch.allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "tokens"), HEADS[-4:])
def test_a_file_and_every_parameter(name, tokens, tmp_path):
    model = make(name, tokens, "svd-pade", reduction=8, scaling=Length(2.0)).eval()
    save_checkpoint(model, tmp_path / "model.safetensors")
    again = load_checkpoint(tmp_path / "model.safetensors").eval()
    assert again.spec.tokens == tokens
    torch.testing.assert_close(again(images(name)), model(images(name)))
    nn.functional.cross_entropy(model.train()(images(name)), torch.tensor([0, 1, 2])).backward()
    assert [key for key, p in model.named_parameters() if p.grad is None] == []


def test_refusals():
    with pytest.raises(ValueError, match=r"tokens must be one of patches, all, class\+patches"):
        create_model("patchnet", tokens="cls")
    for name, options in (("swin_tiny_patch4_window7_224", SWIN), ("patchnet", {})):
        with pytest.raises(ValueError, match=f"{name} has no class token, so all its tokens are"):
            create_model(name, tokens="all", **options)
    for pool in ("gap", CovariancePool(64)):
        with pytest.raises(ValueError, match=r"beside a covariance, and needs a pool of METHODS"):
            create_model("patchnet", pool, tokens=BRANCHES)
