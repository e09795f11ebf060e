"""A picture of ``photo-patches``: some patches of every class."""

from __future__ import annotations

import os

from PIL import Image, ImageDraw, ImageFont
from torch import Tensor
from torchvision.transforms.v2 import functional as F
from torchvision.utils import make_grid

from .patches import draw_patches
from .photographs import PHOTOGRAPHS

__all__ = ["contact_sheet"]

COLUMNS, SHOWN, SCALE = 3, 6, 2  # classes side by side, patches a row, pixels a pixel
GAP, TEXT = 6, 15  # pixels
LEGEND = "photo-patches: upper rows for training, lower rows for validation"


def contact_sheet(path: str | os.PathLike[str], seed: int = 0) -> None:
    """Draw patches of every photograph, a row for training above a row for validation.

    Args:
        path: where the picture goes; its suffix says in which format.
        seed: that of :func:`photo_patches`.
    """
    train, val = draw_patches(seed)
    cards = [
        _card(photo.name, upper[:SHOWN], lower[:SHOWN])
        for photo, upper, lower in zip(PHOTOGRAPHS, train, val, strict=True)
    ]
    width, height = cards[0].width + 2 * GAP, cards[0].height + 2 * GAP
    top = TEXT + 3 * GAP
    sheet = Image.new("L", (COLUMNS * width, top + height * -(-len(cards) // COLUMNS)), "white")
    _write(sheet, LEGEND)
    for place, card in enumerate(cards):
        row, column = divmod(place, COLUMNS)
        sheet.paste(card, (column * width + GAP, top + row * height))
    sheet.save(path, optimize=True)


def _card(name: str, *rows: Tensor) -> Image.Image:
    greys = [(40 * row + 128).clamp(0, 255).byte().unsqueeze(1) for row in rows]
    pictures = [F.to_pil_image(make_grid(grey, SHOWN, 1, pad_value=255)[:1]) for grey in greys]
    width, height = SCALE * pictures[0].width, SCALE * pictures[0].height
    card = Image.new("L", (width, TEXT + 2 * GAP + len(rows) * height), "white")
    _write(card, name)
    for k, picture in enumerate(pictures):
        enlarged = picture.resize((width, height), Image.Resampling.NEAREST)
        card.paste(enlarged, (0, TEXT + GAP + k * height))
    return card


def _write(image: Image.Image, text: str) -> None:
    ImageDraw.Draw(image).text(
        (GAP, GAP // 2), text, fill="black", font=ImageFont.load_default(TEXT)
    )
