import runpy
from pathlib import Path

import numpy as np
from PIL import Image

from rootpool.train.data import PHOTOGRAPHS

ROOT = Path(__file__).parents[3]
TOOL = runpy.run_path(str(ROOT / "scripts" / "photo_patches.py"))
PAGE = (ROOT / "docs" / "appendix" / "photo-patches.md").read_text(encoding="utf-8")


def test_sheet_in_the_docs_is_that_of_the_code(tmp_path):
    TOOL["contact_sheet"](tmp_path / "sheet.png")
    committed = ROOT / "docs" / "appendix" / "photo-patches.png"
    ours, theirs = (
        np.asarray(Image.open(path), dtype=float) for path in (tmp_path / "sheet.png", committed)
    )
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).mean() < 1  # fonts and JPEG decoders differ by a little


def test_table_of_sources_is_up_to_date():
    assert TOOL["with_sources"](PAGE) == PAGE
    assert TOOL["sources"]() in PAGE


def test_every_photograph_has_credit_and_licence():
    assert all(photo.credit and photo.licence and photo.shows for photo in PHOTOGRAPHS)
    by = {photo.name: photo for photo in PHOTOGRAPHS if photo.licence.startswith("CC BY 2.0")}
    assert set(by) == {
        "china",
        "flower",
    }  # these ask for the author, the licence and what was changed
    assert "danielbuechele/6061409035" in by["china"].credit
    assert "vultilion/6056698931" in by["flower"].credit
    assert "cropped, turned to grey, normalised" in " ".join(PAGE.split())
