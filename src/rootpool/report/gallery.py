"""Photographs with what there is to say about each, side by side."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from .blocks import Rendering, caption_html
from .text import Text, to_html, to_markdown

__all__ = ["Gallery", "Photo"]


@dataclass(frozen=True)
class Photo:
    """An image and lines of text below it; ``alt`` says what it shows to who cannot see it."""

    image: Image.Image
    alt: str
    lines: Sequence[Text] = ()

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise ValueError("Photo needs alt text: one sentence that says what the image shows")

    @property
    def png(self) -> bytes:
        buffer = io.BytesIO()
        self.image.save(buffer, "PNG", optimize=True)
        return buffer.getvalue()


@dataclass(frozen=True)
class Gallery:
    """As many photographs in a row as fit, at least ``width`` pixels each."""

    photos: Sequence[Photo]
    caption: Text = ""
    width: int = 150

    def html(self, rendering: Rendering) -> str:
        items = "\n".join(self._item(photo) for photo in self.photos)
        grid = f'<div class="gallery" style="--width:{int(self.width)}px">\n{items}\n</div>'
        return f"<figure>\n{grid}\n{caption_html(self.caption)}</figure>"

    def _item(self, photo: Photo) -> str:
        data = base64.b64encode(photo.png).decode()
        lines = "".join(f"<li>{to_html(line)}</li>" for line in photo.lines)
        return (
            f'<div><img src="data:image/png;base64,{data}" alt="{html.escape(photo.alt)}" '
            f'width="{photo.image.width}" height="{photo.image.height}">'
            f"{f'<ul>{lines}</ul>' if lines else ''}</div>"
        )

    def markdown(self, rendering: Rendering) -> str:
        parts = []
        for photo in self.photos:
            path = f"{rendering.folder}{rendering.unique('photo')}.png"
            rendering.files[path] = photo.png
            points = "\n".join(f"- {to_markdown(line)}" for line in photo.lines)
            parts += [f"![{to_markdown(photo.alt)}]({path})", points]
        return "\n\n".join(part for part in [*parts, to_markdown(self.caption)] if part)
