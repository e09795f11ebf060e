"""Draw the contact sheet of photo-patches and write the table of its sources.

python scripts/photo_patches.py           rewrites docs/appendix/photo-patches.md and its picture
"""

from __future__ import annotations

import re
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from torch import Tensor
from torchvision.transforms.v2 import functional as F
from torchvision.utils import make_grid

from rootpool.files import write_atomically
from rootpool.train.data import PHOTOGRAPHS, patches, photo_patches

DOCS = Path(__file__).parents[1] / "docs" / "appendix"
PAGE = DOCS / "photo-patches.md"
README = Path(patches.__file__).parent / "photographs" / "README.md"


def sources() -> str:
    """The table of authors and licences, which is kept beside the photographs."""
    lines = README.read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if line.startswith("|"))


def with_sources(text: str) -> str:
    """``text`` with the table between its marks."""
    marked = re.compile(r"(<!-- sources: begin[^\n]*-->\n).*?(<!-- sources: end -->)", re.DOTALL)
    return marked.sub(lambda match: match[1] + sources() + match[2], text)


COLUMNS, SHOWN, SCALE = 3, 6, 2  # classes side by side, patches per row, pixels per pixel
GAP, TEXT = 6, 15  # pixels
LEGEND = "photo-patches: upper rows for training, lower rows for validation"


def contact_sheet(path: Path, seed: int = 0) -> None:
    """Draw patches of every photograph, a row for training above a row for validation.

    Args:
        path: where the picture goes; its suffix says in which format.
        seed: as for :func:`photo_patches`.
    """
    made = photo_patches(seed)
    train, val = (
        split.images.reshape(len(PHOTOGRAPHS), -1, *split.images.shape[2:])
        for split in (made.train, made.val)
    )
    cards = [
        _card(name, upper[:SHOWN], lower[:SHOWN])
        for name, upper, lower in zip(PHOTOGRAPHS, train, val, strict=True)
    ]
    width, height = cards[0].width + 2 * GAP, cards[0].height + 2 * GAP
    top = TEXT + 3 * GAP
    sheet = Image.new("L", (COLUMNS * width, top + height * -(-len(cards) // COLUMNS)), "white")
    _write(sheet, LEGEND)
    for place, card in enumerate(cards):
        row, column = divmod(place, COLUMNS)
        sheet.paste(card, (column * width + GAP, top + row * height))
    kind = Image.registered_extensions()[Path(path).suffix]
    write_atomically(path, lambda file: sheet.save(file, format=kind, optimize=True))


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


if __name__ == "__main__":
    write_atomically(PAGE, with_sources(PAGE.read_text(encoding="utf-8")))
    contact_sheet(DOCS / "photo-patches.png")
