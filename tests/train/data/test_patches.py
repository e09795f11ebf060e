"""The embedded photographs, and the patches that are cut from them."""

import hashlib
import runpy
from pathlib import Path

import pytest
import torch

from rootpool.train.data import PHOTOGRAPHS, photo_patches, photograph
from rootpool.train.data.patches import cut_patches

ROOT = Path(__file__).parents[3]
DIGEST = "3e69fc258ca20a17"  # of all pixels of all photographs


@pytest.fixture(scope="module")
def splits():
    return photo_patches()


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_photographs_are_those_of_every_recorded_result(splits):
    assert (splits.name, splits.classes) == ("photo-patches", PHOTOGRAPHS)
    pixels = b"".join(photograph(name).numpy().tobytes() for name in PHOTOGRAPHS)
    assert hashlib.sha256(pixels).hexdigest()[:16] == DIGEST
    for images, count in ((splits.train, 112), (splits.val, 200)):
        assert torch.equal(torch.bincount(images.labels), torch.full((18,), count))
        assert images.images.shape == (18 * count, 1, 32, 32)
        assert images.images.double().mean((-2, -1)).abs().max() < 1e-5
        assert (images.images.double().square().mean((-2, -1)) - 1).abs().max() < 1e-5
        image, label = images[count]
        assert (image.shape, image.dtype, label) == ((1, 28, 28), torch.float32, 1)


@pytest.mark.parametrize("shape", [(191, 384), (300, 451), (512, 512)])
def test_splits_share_no_pixel_and_patches_stay_within_a_block(shape):
    image = torch.arange(shape[0] * shape[1]).view(shape)  # every pixel is its own number
    train, val = cut_patches(image, (112, 100), generator())
    assert (train.shape, val.shape) == ((112, 32, 32), (100, 32, 32))
    assert not set(train.unique().tolist()) & set(val.unique().tolist())
    blocks = []
    for patches in (train, val):
        y, x = patches // shape[1], patches % shape[1]
        assert torch.equal(y - y[:, :1, :1], torch.arange(32)[:, None].expand(len(y), 32, 32))
        assert torch.equal(x - x[:, :1, :1], torch.arange(32).expand(len(x), 32, 32))
        corners = torch.stack([y // 64, x // 64], -1).flatten(1, 2)
        assert (corners == corners[:, :1]).all()
        blocks.append({tuple(corner) for corner in corners[:, 0].tolist()})
        assert len(patches[:, 0, 0].unique()) == len(patches)
    number = (shape[0] // 64) * (shape[1] // 64)
    assert not blocks[0] & blocks[1]
    # 112 and 100 draws leave few blocks out, and never reach beyond a third for validation.
    assert 0.9 * (number // 3) <= len(blocks[1]) <= number // 3
    assert 0.8 * (number - number // 3) <= len(blocks[0]) <= number - number // 3


def test_the_seed_decides_and_the_global_generator_is_left_alone(splits):
    state = torch.get_rng_state()
    assert not torch.equal(photo_patches(seed=1).val.images, splits.val.images)
    assert torch.equal(state, torch.get_rng_state())


def test_the_page_says_who_made_the_photographs():
    tool = runpy.run_path(str(ROOT / "scripts" / "photo_patches.py"))
    page = (ROOT / "docs" / "appendix" / "photo-patches.md").read_text(encoding="utf-8")
    assert tool["with_sources"](page) == page
    rows = tool["sources"]().splitlines()[2:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(PHOTOGRAPHS)
    assert all(len(row.strip("| ").split(" | ")) == 5 for row in rows)  # with author and licence
    assert "cropped, turned to grey, normalised" in " ".join(page.split())  # as CC BY 2.0 asks
