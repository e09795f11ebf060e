"""Heads for the tokens of transformers: patches, all tokens, and two branches."""

import pytest
import torch
from torch import nn

from rootpool.models import PooledClassifier, create_model, load_checkpoint, save_checkpoint
from rootpool.nn import AveragePool, CovariancePool, Length, covariance_pool

VIT = {"img_size": 32, "patch_size": 8, "depth": 2, "embed_dim": 24, "num_heads": 2}
SWIN = {"img_size": 64, "embed_dim": 12, "depths": (1, 1), "num_heads": (1, 2), "window_size": 4}
NETWORKS = {
    "vit_tiny_patch16_224": VIT,
    "deit_tiny_distilled_patch16_224": VIT,
    "vit_small_patch14_reg4_dinov2": VIT,
    "swin_tiny_patch4_window7_224": SWIN,
}
BRANCHES, SWINS = "class+patches", ("swin_tiny_patch4_window7_224",)
HEADS = [
    (name, tokens)
    for name in NETWORKS
    for tokens in ("patches", "all", BRANCHES)
    if not (tokens == "all" and name in SWINS)
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


# --------------------------------------------------------------------------------------------------
# Sequences of different lengths

LENGTHS = (9, 6, 4)


class Encoder(nn.Module):
    """A transformer of sequences ``(B, N, 5)`` to a map ``(B, 8, N)``, whose attention leaves out padding."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(5, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, x, mask=None):
        return self.layer(self.embed(x), src_key_padding_mask=None if mask is None else ~mask).mT


@pytest.mark.parametrize(
    "pool", [*(CovariancePool(8, name) for name in ("exact", "isqrt-cov")), AveragePool(8)], ids=str
)
def test_padded_sequences_are_those_without_padding(pool):
    """Logits and all gradients, one sample at a time; what the padding holds does not matter."""
    torch.manual_seed(0)
    model = PooledClassifier(Encoder(), pool, nn.Linear(pool.out_features, 3)).double()
    X = torch.randn(3, 9, 5, dtype=torch.float64).requires_grad_()
    mask = torch.arange(9) < torch.tensor(LENGTHS)[:, None]
    wanted = [X, *model.parameters()]

    def gradients(logits):
        return torch.autograd.grad(logits.sin().sum(), wanted)

    logits = model(X * mask[..., None] + 7.0 * ~mask[..., None], mask)
    alone = torch.cat([model(X[k : k + 1, :n]) for k, n in enumerate(LENGTHS)])
    torch.testing.assert_close(logits, alone)
    torch.testing.assert_close(gradients(logits), gradients(alone), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("name", "tokens"), [head for head in HEADS if head[0] not in SWINS])
def test_masked_patches_of_transformers_are_dropped_tokens(name, tokens):
    """Against timm's own layers on the tokens that are left."""
    model, X = make(name, tokens).eval(), images(name)
    body, prefix = model.backbone.body, model.backbone.layout.prefix_tokens
    lengths = torch.tensor([16, 11, 5])
    mask = torch.arange(16) < lengths[:, None]
    embedded = body._pos_embed(body.patch_embed(X))
    for k, n in enumerate(lengths):
        left = body.norm(body.blocks(body.norm_pre(embedded[k : k + 1, : prefix + n])))
        whole = nn.functional.pad(mask, (prefix, 0), value=True) if tokens == "all" else mask
        got = model(X, whole)[k]
        torch.testing.assert_close(got, model.forward_head(model.backbone.layout(left))[0])


def test_where_only_the_pool_can_leave_out_positions():
    model, mask = create_model("patchnet", num_classes=2).eval(), torch.ones(2, 7, 7).bool()
    mask[0, 3:] = False
    X = torch.randn(2, 1, 28, 28)
    with pytest.raises(ValueError, match=r"Sequential cannot leave out .* model\.forward_head"):
        model(X, mask)
    features = model.forward_features(X)
    expected = model.forward_head(features[:1, :, :3])
    torch.testing.assert_close(model.forward_head(features, mask=mask)[:1], expected)


def test_refusals():
    with pytest.raises(ValueError, match=r"tokens must be one of patches, all, class\+patches"):
        create_model("patchnet", tokens="cls")
    for name, options in (("swin_tiny_patch4_window7_224", SWIN), ("patchnet", {})):
        with pytest.raises(ValueError, match=f"{name} has no class token, so all its tokens are"):
            create_model(name, tokens="all", **options)
    for pool in ("gap", CovariancePool(64)):
        with pytest.raises(ValueError, match=r"beside a covariance, and needs a pool of METHODS"):
            create_model("patchnet", pool, tokens=BRANCHES)
