"""The photographs inside the packages scikit-image and scikit-learn, with their authors and licences."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as F

__all__ = ["PHOTOGRAPHS", "Photograph"]

SCIKIT_IMAGE, SCIKIT_LEARN = "scikit-image", "scikit-learn"
CC0, CC_BY_2 = "CC0", "CC BY 2.0 (https://creativecommons.org/licenses/by/2.0/)"
UNRESTRICTED = "no known copyright restrictions"
UNSTATED = "the package states none for this file; its own licence is BSD-3-Clause"


@dataclass(frozen=True)
class Photograph:
    """A picture in a Python package, with what the package says about its origin.

    Args:
        name: the class name of its patches.
        package: where it is.
        key: the function of ``skimage.data``, or the file of ``sklearn.datasets``.
        shows: what can be seen.
        credit: who made it, and where it comes from.
        licence: on which terms.
    """

    name: str
    package: str
    key: str
    shows: str
    credit: str
    licence: str

    def grey(self) -> Tensor:
        """The picture in grey, ``(H, W)``, uint8."""
        # Here and not above: importing scikit-learn takes longer than everything else together.
        if self.package == SCIKIT_LEARN:
            from sklearn.datasets import load_sample_image

            pixels = load_sample_image(self.key)
        else:
            import skimage.data

            pixels = getattr(skimage.data, self.key)()
        if isinstance(pixels, tuple):  # a stereo pair and its depths: the left eye
            pixels = pixels[0]
        image = torch.tensor(pixels)  # a copy: some arrays are read-only
        return image if image.dim() == 2 else F.rgb_to_grayscale(image.permute(2, 0, 1))[0]


def _skimage(name: str, shows: str, credit: str, licence: str, key: str = "") -> Photograph:
    return Photograph(name, SCIKIT_IMAGE, key or name, shows, credit, licence)


PHOTOGRAPHS: tuple[Photograph, ...] = (
    _skimage(
        "astronaut",
        "the astronaut Eileen Collins",
        "NASA Great Images, https://flic.kr/p/r9qvLn",
        f"public domain; {UNRESTRICTED}",
    ),
    _skimage("brick", "a brick wall", "CC0Textures, Bricks25", CC0),
    _skimage("camera", "a man with a camera", "Lav Varshney", CC0),
    _skimage(
        "cell",
        "a cell in saline, phase image",
        "Müller et al. 2018, https://doi.org/10.1364/OE.26.010729",
        CC0,
    ),
    _skimage("chelsea", "Chelsea the cat", "Stefan van der Walt", CC0),
    _skimage("coffee", "a cup of coffee", "Rachel Michetti, courtesy of Pikolo Espresso Bar", CC0),
    _skimage(
        "coins",
        "Greek coins from Pompeii",
        "Brooklyn Museum Collection, "
        "https://www.brooklynmuseum.org/opencollection/archives/image/51611",
        UNRESTRICTED,
    ),
    _skimage(
        "grass",
        "grass",
        "linolafett, https://www.deviantart.com/linolafett/art/Grass-01-434853879",
        CC0,
    ),
    _skimage("gravel", "gravel", "CC0Textures, Gravel04", CC0),
    _skimage(
        "hubble",
        "the Hubble eXtreme Deep Field",
        "NASA, http://hubblesite.org/newscenter/archive/releases/2012/37/image/a/",
        "public domain",
        key="hubble_deep_field",
    ),
    _skimage(
        "ihc",
        "stained colonic glands",
        "Center for Microscopy And Molecular Imaging (CMMI)",
        UNRESTRICTED,
        key="immunohistochemistry",
    ),
    _skimage("moon", "the surface of the moon", "not stated in the package", UNSTATED),
    _skimage(
        "motorcycle",
        "a motorcycle, left picture of a stereo pair",
        "Nesic, Westling, Wang, Kitajima, Krathwohl and Scharstein, Middlebury 2014 stereo "
        "benchmark, http://vision.middlebury.edu/stereo/data/scenes2014/; described in Scharstein "
        "et al., High-resolution stereo datasets with subpixel-accurate ground truth, GCPR 2014",
        UNSTATED,
        key="stereo_motorcycle",
    ),
    _skimage("page", "a scanned page of print", "not stated in the package", UNSTATED),
    _skimage(
        "retina",
        "a human retina",
        "Mikael Häggström 2014, https://doi.org/10.15347/wjm/2014.008",
        CC0,
    ),
    _skimage(
        "rocket",
        "the launch of a Falcon 9",
        "SpaceX, https://www.flickr.com/photos/spacexphotos/16511594820/",
        "public domain, says the package; its users have found CC BY-NC 2.0 on the photograph's "
        "page (https://github.com/scikit-image/scikit-image/issues/5095)",
    ),
    Photograph(
        "china",
        SCIKIT_LEARN,
        "china.jpg",
        "the Summer Palace in China",
        "danielbuechele, https://www.flickr.com/photos/danielbuechele/6061409035/",
        CC_BY_2,
    ),
    Photograph(
        "flower",
        SCIKIT_LEARN,
        "flower.jpg",
        "a flower",
        "vultilion, https://www.flickr.com/photos/vultilion/6056698931/ (so the address in the "
        "package; its text repeats the name danielbuechele)",
        CC_BY_2,
    ),
)
